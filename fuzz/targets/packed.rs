//! Packed sections: what unpacks packs to something that unpacks to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::pack::{Packer, unpack};

fuzz_target!(|data: &[u8]| {
    let mut raw = Vec::new();
    for bytes in [8, 64, data.len() / 8 * 8, 4096] {
        raw.clear();
        let _ = unpack(data, bytes, &mut raw);
    }
    let whole = &data[..data.len() / 8 * 8];
    if let Ok(packed) = Packer::default().pack(whole) {
        raw.clear();
        unpack(packed, whole.len(), &mut raw).expect("what we packed unpacks");
        assert_eq!(raw, whole);
    }
});

//! SPE packets: in whatever slices the data comes, the records are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::spe::{Decoder, Encoding};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let at = usize::from(*first).min(rest.len());
    let mut whole = Vec::new();
    let mut decoder = Decoder::default();
    decoder.push(0, rest, |record| whole.push(*record));
    let counts = decoder.finish();
    let mut sliced = Vec::new();
    let mut decoder = Decoder::default();
    let (one, other) = rest.split_at(at);
    let encoding = Encoding::of_midr(u64::from(*first) << 4 | 0x410f_d000);
    let mut take = |record: &memwide_perf_abi::spe::Record| {
        std::hint::black_box((
            record.data_src(encoding, true),
            record.addr(),
            record.phys_addr(),
        ));
        sliced.push(*record);
    };
    decoder.push(0, one, &mut take);
    decoder.push(at as u64, other, &mut take);
    assert_eq!(counts, decoder.finish());
    assert_eq!(whole, sliced);
});

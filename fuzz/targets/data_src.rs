//! Words of `data_src` on every PMU.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_model::{DataSrc, Pmu, classify, perf_text};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    for word in data.as_chunks::<8>().0 {
        let word = DataSrc(u64::from_le_bytes(*word));
        for (vendor, arch) in [
            ("GenuineIntel", "x86_64"),
            ("AuthenticAMD", "x86_64"),
            ("0x41", "aarch64"),
            ("", "ppc64le"),
        ] {
            black_box(classify(word, Pmu::of(vendor, arch)));
        }
        black_box(perf_text::script(word));
    }
});

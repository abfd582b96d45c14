//! Raw registers of IBS samples.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_model::{DataSrc, perf_text};
use memwide_perf_abi::ibs::{FetchSample, OpSample};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let _ = black_box(FetchSample::parse(data));
    if let Ok(op) = OpSample::parse(data) {
        black_box((op.kind(), op.ip(), op.linear(), op.physical()));
        for (family, model) in [(0x10, 2), (0x17, 0x31), (0x19, 0x11), (0x1a, 2)] {
            black_box(perf_text::script(DataSrc(op.data_src(family, model))));
        }
    }
});

//! Names of C++ and Rust functions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::demangle;
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    if let Ok(name) = std::str::from_utf8(data) {
        black_box(demangle(name));
    }
});

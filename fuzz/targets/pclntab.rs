//! Go's table of functions, in a program that has nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Limits, SymbolTable};
use std::hint::black_box;

const NAMES: &[u8] = b"\0.gopclntab\0";

fuzz_target!(|data: &[u8]| {
    let table = SymbolTable::from_elf(&program(data), &Limits::default());
    if let Ok(table) = black_box(table) {
        // A function takes eight bytes of the table at least.
        assert!(table.functions().len() <= data.len() / 8 + 1);
    }
});

/// A program of one section, the table of functions.
fn program(table: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file.extend(table);
    let names = file.len() as u64;
    file.extend(NAMES);
    let headers = file.len() as u64;
    for (name, kind, offset, size) in [
        (0_u32, 0_u32, 0, 0),
        (1, 1, 64, table.len() as u64),
        (0, 3, names, NAMES.len() as u64),
    ] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
        file.extend(header);
    }
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file[16..20].copy_from_slice(&[3, 0, 62, 0]);
    file[20..24].copy_from_slice(&1_u32.to_le_bytes());
    file[40..48].copy_from_slice(&headers.to_le_bytes());
    file[52..54].copy_from_slice(&64_u16.to_le_bytes());
    file[54..56].copy_from_slice(&56_u16.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&3_u16.to_le_bytes());
    file[62..64].copy_from_slice(&2_u16.to_le_bytes());
    file
}

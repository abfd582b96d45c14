//! Dumps of generated code that are not whole: what is in them is used, and whoever misses names hears why.

use crate::files::{self, One};
use crate::run::fine;
use memwide_perf_abi::SampleFields;
use serde_json::Value;
use std::path::Path;

/// Where the process generates code.
const CODE: u64 = 0x7e00_0000_0000;

/// The dump of two functions of 16 bytes each.
fn dump() -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let halves = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // Magic, version, size of the header, machine, padding, process; then time and flags.
    let header: [Vec<u8>; 2] = [halves(&[0x4A69_5444, 1, 40, 62, 0, 100]), words(&[0, 0])];
    let mut all = header.concat();
    for (number, name) in [(0_u64, "first\0"), (1, "second\0")] {
        let at = CODE + 16 * number;
        let size = u32::try_from(16 + 8 + 32 + name.len() + 16).unwrap();
        // What it is, its size, time; process and thread; address twice, size, number.
        let parts: [Vec<u8>; 4] = [
            halves(&[0, size]),
            words(&[number]),
            halves(&[100, 100]),
            words(&[at, at, 16, number]),
        ];
        all.extend(parts.concat());
        all.extend(name.bytes());
        all.extend([0x90; 16]);
    }
    all
}

fn report(folder: &Path, dump: &[u8]) -> (Value, String) {
    std::fs::write(folder.join("jit-100.dump"), dump).unwrap();
    let file = folder.join("generated.data");
    let one = |ip| One {
        fields: SampleFields {
            ip,
            ..One::default().fields
        },
        ..One::default()
    };
    let samples = [one(CODE + 4), one(CODE + 20)];
    let maps = [
        (CODE, 0x1000, "//anon"),
        (CODE + 0x10_0000, 0x1000, "/jit-100.dump"),
    ];
    std::fs::write(&file, files::with_code(&samples, &maps)).unwrap();
    let symfs = ["--symfs", folder.to_str().unwrap(), "--sort", "symbol"];
    let said = fine("report", &file, &symfs).err;
    let found = fine(
        "report",
        &file,
        &[&symfs[..], &["--format", "json"]].concat(),
    )
    .json();
    (found, said)
}

fn symbols(report: &Value) -> Vec<&str> {
    let rows = report["rows"].as_array().unwrap().iter();
    let mut all: Vec<_> = rows.map(|row| row["symbol"].as_str().unwrap()).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_dump_that_is_cut_is_named_and_what_comes_before_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let whole = dump();
    let (found, said) = report(folder.path(), &whole);
    assert_eq!(symbols(&found), ["first", "second"], "{said}");
    assert!(!said.contains("names are missing"), "{said}");
    let (found, said) = report(folder.path(), &whole[..whole.len() - 20]);
    let symbols = symbols(&found);
    assert!(
        symbols.contains(&"first") && !symbols.contains(&"second"),
        "{symbols:?}"
    );
    let expected = "/jit-100.dump: a jitdump that ends within a record; what comes before is used";
    assert!(
        said.contains(&format!("names are missing: {expected}")),
        "{said}"
    );
    let refused = found["completeness"]["symbols_refused"].to_string();
    assert!(refused.contains(expected), "{refused}");
}

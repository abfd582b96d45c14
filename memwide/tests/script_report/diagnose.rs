//! `memwide diagnose` on files that tell nothing of memory.

use crate::run::fine;
use memwide_perf_abi::file::{EventSpec, Features};
use memwide_perf_abi::{Attr, AttrFlags, FileWriter, attr_kind, sample};
use std::fs::File;

#[test]
fn a_file_without_events_of_memory_is_no_clean_bill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let cycles = EventSpec {
        attr: Attr {
            kind: attr_kind::HARDWARE,
            sample_type: sample::IP | sample::TID | sample::TIME,
            sample_period: 1000,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        },
        name: "cycles".to_owned(),
        ids: vec![1],
    };
    let mut writer = FileWriter::new(File::create(&file).unwrap(), &[cycles]).unwrap();
    writer.finish_round().unwrap();
    writer.finish(&Features::default()).unwrap();
    let found = fine("diagnose", &file, &["--format", "json"]).json();
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("cannot tell: no event tells of memory; not seen here: "),
        "{verdict}"
    );
    assert!(found["findings"].as_array().unwrap().is_empty());
}

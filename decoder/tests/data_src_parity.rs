//! The words for `data_src` equal perf's for any word perf has names for.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test"
)]

use memwide_model::{DataSrc, perf_text};
use memwide_perf_abi::file::{EventSpec, Features, FileWriter};
use memwide_perf_abi::{Attr, SampleFields, SampleLayout, encode, misc, sample};
use std::process::Command;

/// Words that cover every value of every field: systematic for levels, then mixed.
fn words() -> Vec<u64> {
    let mut words = Vec::new();
    for number in 0..16 {
        for remote in 0..2 {
            for hops in 0..5 {
                let word = DataSrc(2 | 2 << 5).with_lvl_num(number);
                words.push(word.with_remote(remote).with_hops(hops));
            }
        }
    }
    let mut state = 0x853c_49e6_748f_ea9b_u64;
    for _ in 0..2000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // perf 6.1 has five names of hops.
        let hops = (state >> 50) % 5;
        words.push(DataSrc(state & ((1 << 46) - 1)).with_hops(hops));
    }
    words.iter().map(|word| word.0).collect()
}

fn write(path: &std::path::Path, words: &[u64]) {
    let attr = Attr {
        kind: 4,
        config: 0x1cd,
        sample_period: 1,
        sample_type: sample::IP | sample::TID | sample::TIME | sample::ADDR | sample::DATA_SRC,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr).unwrap();
    let event = EventSpec {
        attr,
        name: "mem-loads".into(),
        ids: vec![7],
    };
    let file = std::fs::File::create(path).unwrap();
    let mut writer = FileWriter::new(file, &[event]).unwrap();
    let mut records = Vec::new();
    for (time, word) in (1..).zip(words) {
        let fields = SampleFields {
            pid: 1,
            tid: 1,
            time,
            data_src: *word,
            ..SampleFields::default()
        };
        encode::sample(&mut records, &fields, misc::USER, &layout).unwrap();
    }
    writer.write_records(&records).unwrap();
    writer.finish(&Features::default()).unwrap();
}

#[test]
fn words_of_every_field_read_as_perf_prints_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let words = words();
    write(&path, &words);
    let mut command = Command::new("perf");
    command.args(["script", "-F", "data_src", "-i"]).arg(&path);
    let output = match command.output() {
        Ok(output) if output.status.success() => output,
        failed => {
            eprintln!("skipped: perf cannot read the file: {failed:?}");
            return;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(printed.len(), words.len());
    for (word, printed) in words.iter().zip(printed) {
        let mut ours = format!("{word:16x} {}", perf_text::script(DataSrc(*word)));
        ours.truncate(perf_text::SCRIPT_COLUMN_MAX);
        assert_eq!(ours.trim(), printed, "{word:#x}");
    }
}

//! The words for `data_src` equal perf's: for every word of the golden tables, every single bit and pair of bits, and
//! random ones. What is newer than perf 6.1 is held to the kernel header's names; `docs/parity.md` lists it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test"
)]

use memwide_model::data_src::{hops, lvl_num};
use memwide_model::{DataSrc, perf_text};
use memwide_perf_abi::file::{EventSpec, Features, FileWriter};
use memwide_perf_abi::{Attr, SampleFields, SampleLayout, encode, misc, sample};
use std::path::Path;
use std::process::Command;

/// Words of the golden tables: the number after the code of a row.
fn golden() -> Vec<u64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
    let mut words = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let rows = text.lines().filter_map(|line| {
            let word = line.split(' ').nth(1)?.strip_prefix("0x")?;
            u64::from_str_radix(word, 16).ok()
        });
        words.extend(rows);
    }
    words
}

fn bits_and_pairs() -> Vec<u64> {
    let mut words = vec![0];
    for low in 0..64 {
        words.extend((low..64).map(|high| 1 << low | 1 << high));
    }
    words
}

/// Every level number with every distance, then mixed words of a fixed seed.
fn mixed() -> Vec<u64> {
    let mut words = Vec::new();
    for number in 0..16 {
        for remote in 0..2 {
            for hops in 0..8 {
                let word = DataSrc(2 | 2 << 5).with_lvl_num(number);
                words.push(word.with_remote(remote).with_hops(hops).0);
            }
        }
    }
    let mut state = 0x853c_49e6_748f_ea9b_u64;
    for _ in 0..4000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words.push(state);
    }
    words
}

fn write(path: &Path, words: &[u64]) {
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

/// What perf 6.1 printed, with the names the header has for levels that perf prints as a mere number.
fn with_newer_names(word: DataSrc, printed: &str) -> String {
    let newer = match word.lvl_num() {
        lvl_num::L2_MHB => "L2 MHB",
        lvl_num::MSC => "Memory-side Cache",
        lvl_num::L0 => "L0",
        lvl_num::UNC => "Uncached",
        _ => return printed.to_owned(),
    };
    let number = format!("L{}", word.lvl_num());
    // perf's cut may fall between letter and digit.
    match printed.strip_suffix(" L") {
        Some(start) if !printed.contains(&number) => format!("{start} {newer}"),
        _ => printed.replacen(&number, newer, 1),
    }
}

#[test]
fn words_of_every_field_read_as_perf_prints_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let mut words = golden();
    assert!(words.len() > 1500, "{} words in tables", words.len());
    words.extend(bits_and_pairs());
    words.extend(mixed());
    // For distances above the last named one perf 6.1 reads beyond its table.
    words.retain(|word| DataSrc(*word).hops() <= hops::HOPS_3);
    words.sort_unstable();
    words.dedup();
    assert!(words.len() > 5000, "{} words", words.len());
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
    let printed: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(printed.len(), words.len());
    let mut newer = 0;
    for (word, printed) in words.iter().zip(printed) {
        let word = DataSrc(*word);
        let mut theirs = with_newer_names(word, printed);
        newer += u32::from(theirs != printed);
        let mut ours = format!("{:16x} {}", word.0, perf_text::script(word));
        // perf right-aligns the column; its cut counts from the number.
        let pad = theirs.len() - theirs.trim_start().len();
        let own_pad = ours.len() - ours.trim_start().len();
        theirs.truncate(pad + perf_text::SCRIPT_COLUMN_MAX - own_pad);
        ours.truncate(perf_text::SCRIPT_COLUMN_MAX);
        assert_eq!(ours.trim(), theirs.trim(), "{:#x}", word.0);
    }
    assert!(newer > 100, "{newer} words newer than perf 6.1");
}

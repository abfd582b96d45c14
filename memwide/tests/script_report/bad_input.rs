//! Files that are none, are cut, lie or are damaged: the right exit code, a message with place and remedy, no panic, no hang.

use crate::files::{self, One};
use crate::run::memwide;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of these runs needs, also on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

const COMMANDS: [(&str, &[&str]); 4] = [
    ("script", &[]),
    ("script", &["--format", "ndjson"]),
    ("report", &[]),
    ("report", &["--format", "json"]),
];

#[track_caller]
fn check(file: &Path, code: i32, part: &str) {
    for (command, args) in COMMANDS {
        let ran = memwide(command, file, args);
        assert_eq!(
            ran.code,
            Some(code),
            "{command} {args:?} {}: {}",
            file.display(),
            ran.err
        );
        assert!(
            ran.err.contains(part),
            "{command} {args:?} {}: {}",
            file.display(),
            ran.err
        );
        assert!(
            ran.err.contains(file.to_str().unwrap()),
            "it names the file: {}",
            ran.err
        );
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }
}

fn whole() -> Vec<u8> {
    files::bytes(&[One::default(), One::default(), One::default()])
}

#[test]
fn what_is_no_file_is_named_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    check(
        folder.path(),
        65,
        "is a directory, not a perf.data file; name a file with -i",
    );
    check(
        &folder.path().join("missing"),
        65,
        "record one with `memwide record`",
    );
    check(Path::new("/dev/null"), 65, "is a device");
    check(Path::new("/dev/zero"), 65, "is a device");
}

#[test]
fn a_pipe_nobody_writes_to_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
    let mut child = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(["script", "-i"])
        .arg(&pipe)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it waits for a writer");
        }
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(65));
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("-i - <"), "how a pipe is read: {said}");
}

#[test]
fn what_is_no_perf_data_is_refused_with_its_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.data");
    let mut random = 88_172_645_463_325_252_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()[0]
    })
    .take(4096)
    .collect();
    let mut big_endian: Vec<u8> = b"PERFILE2".iter().rev().copied().collect();
    big_endian.extend(104_u64.to_be_bytes());
    big_endian.extend([0; 88]);
    for (bytes, part) in [
        (&b""[..], "the file is empty"),
        (b"PERF", "not a perf.data file"),
        (
            b"#!/bin/sh\necho\n",
            "not a perf.data file: it starts with [23, 21",
        ),
        (&noise, "not a perf.data file"),
        (&big_endian, "the size of an attr in the file header is 0"),
        (b"PERFILE2", "its header needs 16"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        check(&file, 65, part);
    }
}

#[test]
fn cut_anywhere_a_file_gives_what_is_whole_or_says_that_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.data");
    let whole = whole();
    let mut lines_before = 0;
    // Cuts in the header and in the records, fewer in the features behind them.
    let (mut nothing, mut some) = (0, 0);
    for cut in (0..whole.len()).filter(|cut| cut % if *cut < 1_400 { 5 } else { 97 } == 0) {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let ran = memwide("script", &file, &["--format", "ndjson"]);
        let lines = ran.json_lines().len();
        assert_eq!(ran.code, Some(65), "cut at {cut}: {}", ran.err);
        assert!(lines >= lines_before, "cut at {cut}: {lines} lines");
        if ran.err.contains("records before that are read") {
            assert!(ran.err.contains("the file ends in "), "{}", ran.err);
            some += 1;
        } else {
            assert_eq!(lines, 0, "cut at {cut}");
            nothing += 1;
        }
        lines_before = lines;
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }
    assert_eq!(
        lines_before, 3,
        "a file cut in its features has all its samples"
    );
    assert!(nothing > 20 && some > 20, "{nothing} {some}");
}

#[test]
fn a_pipe_is_read_up_to_its_end_whatever_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipe.data");
    let head = [&b"PERFILE2"[..], &16_u64.to_le_bytes()].concat();
    std::fs::write(&file, &head).unwrap();
    check(&file, 65, "the header of a pipe and nothing behind it");
    // A record of a type nobody knows, then the start of another.
    let mut record = 60_u32.to_le_bytes().to_vec();
    record.extend([0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let two = [&head[..], &record, &record].concat();
    for (missing, code, said) in [
        (0, 0, "2 records of type 60: unknown to this version"),
        (
            1,
            65,
            "the file ends in the record of type 60 at byte 32: 15 of its 16 bytes are there",
        ),
        (
            8,
            65,
            "8 of its 16 bytes are there; the 1 records before that are read",
        ),
        (
            9,
            0,
            "the file ends in the header of a record at byte 32: 7 bytes of it are there",
        ),
        (16, 0, "1 records of type 60"),
    ] {
        std::fs::write(&file, &two[..two.len() - missing]).unwrap();
        for format in ["text", "ndjson"] {
            let ran = memwide("script", &file, &["--format", format]);
            assert_eq!(
                (ran.code, ran.out.as_str()),
                (Some(code), ""),
                "{missing}: {}",
                ran.err
            );
            assert!(ran.err.contains(said), "{missing}: {}", ran.err);
        }
    }
}

#[test]
fn what_its_recorder_never_finished_is_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed.data");
    let mut bytes = whole();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = usize::try_from(word(40) + word(48)).unwrap();
    bytes.truncate(end);
    bytes[48..56].fill(0);
    std::fs::write(&file, &bytes).unwrap();
    let ran = memwide("script", &file, &["--format", "ndjson"]);
    assert_eq!(
        (ran.code, ran.json_lines().len()),
        (Some(65), 3),
        "{}",
        ran.err
    );
    check(&file, 65, "was never finished, its recorder was killed");
}

#[test]
fn a_sample_shorter_than_its_fields_is_counted_and_the_file_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("short.data");
    let mut bytes = whole();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (start, len) = (word(40), word(48));
    let mut at = usize::try_from(start).unwrap();
    let end = usize::try_from(start + len).unwrap();
    let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    while at < end && bytes[at..at + 4] != 9_u32.to_le_bytes() {
        at += usize::from(half(&bytes, at + 6));
    }
    // The sample keeps 8 bytes of its fields; the rest becomes a record of a type nobody knows.
    let rest = half(&bytes, at + 6) - 16;
    bytes[at + 6..at + 8].copy_from_slice(&16_u16.to_le_bytes());
    bytes[at + 16..at + 20].copy_from_slice(&60_u32.to_le_bytes());
    bytes[at + 22..at + 24].copy_from_slice(&rest.to_le_bytes());
    std::fs::write(&file, &bytes).unwrap();
    check(&file, 65, "1 records are shorter than their fields");
    let ran = memwide("script", &file, &["--format", "ndjson"]);
    assert_eq!(ran.json_lines().len(), 2, "the others are shown");
    let said = ran.err.matches("shorter than their fields").count();
    assert_eq!(said, 1, "once: {}", ran.err);
}

#[test]
fn symbols_named_by_an_option_have_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("whole.data");
    std::fs::write(&file, whole()).unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    for option in ["--kallsyms", "--symfs"] {
        let ran = memwide("report", &file, &[option, missing]);
        assert_eq!(ran.code, Some(65), "{option}: {}", ran.err);
        assert!(
            ran.err.contains(missing) && ran.err.contains(option),
            "{}",
            ran.err
        );
    }
    let ran = memwide("script", &file, &["--debuginfod", "ftp://debug"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
    assert!(ran.err.contains("http:// or https://"), "{}", ran.err);
}

#[test]
fn a_header_without_records_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.data");
    let mut bytes = whole();
    let start = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    bytes.truncate(usize::try_from(start).unwrap());
    bytes[48..56].fill(0);
    std::fs::write(&file, &bytes).unwrap();
    check(&file, 65, "has no records, only a header");
    let ran = memwide("report", &file, &[]);
    assert!(!ran.err.contains("killed"), "nobody knows: {}", ran.err);
}

#[test]
fn lengths_that_lie_are_refused_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lies.data");
    let whole = whole();
    // Sizes and offsets of the header: header, attr, attr section, data section, features.
    for at in (8..104).step_by(8) {
        for lie in [0, 1, 7, 1 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            std::fs::write(&file, &bytes).unwrap();
            let ran = memwide("report", &file, &["--format", "json"]);
            assert!(
                matches!(ran.code, Some(0 | 65)),
                "{lie:#x} at {at}: {:?} {}",
                ran.code,
                ran.err
            );
            assert!(
                !ran.err.contains("panicked"),
                "{lie:#x} at {at}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn a_record_of_no_size_ends_the_file_as_bad_input_after_what_was_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.data");
    let mut bytes = whole();
    // The last sample's header: type 9, then misc and size.
    let sample = |window: &[u8]| window == [9, 0, 0, 0, 2, 0];
    let starts: Vec<usize> = (0..bytes.len() - 8)
        .filter(|at| sample(&bytes[*at..*at + 6]))
        .collect();
    assert_eq!(starts.len(), 3);
    bytes[starts[2] + 6..starts[2] + 8].copy_from_slice(&[0, 0]);
    std::fs::write(&file, &bytes).unwrap();
    let ran = memwide("script", &file, &["--format", "ndjson"]);
    assert_eq!(
        (ran.code, ran.json_lines().len()),
        (Some(65), 2),
        "{}",
        ran.err
    );
    let place = format!("record at byte {} of the file is malformed", starts[2]);
    assert!(
        ran.err.contains("is damaged after 7 records") && ran.err.contains(&place),
        "{}",
        ran.err
    );
    check(&file, 65, &place);
}

#[test]
fn every_byte_may_be_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flipped.data");
    let whole = whole();
    for at in (0..whole.len()).step_by(11) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&file, &bytes).unwrap();
        let ran = memwide(
            "report",
            &file,
            &[
                "--format",
                "json",
                "--sort",
                "symbol,mem,dcacheline,symbol_daddr",
            ],
        );
        assert!(
            matches!(ran.code, Some(0 | 65)),
            "byte {at}: {:?} {}",
            ran.code,
            ran.err
        );
        assert!(!ran.err.contains("panicked"), "byte {at}: {}", ran.err);
    }
}

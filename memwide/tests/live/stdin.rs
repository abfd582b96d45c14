//! `-i -`: a recording on standard input, as a file and as a pipe.

use crate::run::{can_count, memwide, perf, text};
use std::fs::File;
use std::process::{Command, Stdio};

/// `memwide ARGS… -i -`, fed from there.
fn fed(args: &[&str], input: Stdio) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(args)
        .args(["-i", "-"])
        .env("COLUMNS", "200")
        .stdin(input)
        .output()
        .unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The same, from a pipe that `cat` fills.
fn piped(args: &[&str], file: &str) -> (Option<i32>, String, String) {
    let mut cat = Command::new("cat")
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ran = fed(args, Stdio::from(cat.stdout.take().unwrap()));
    cat.wait().unwrap();
    ran
}

#[test]
fn a_file_on_standard_input_gives_what_the_file_gives() {
    if !can_count() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.data");
    let file = file.to_str().unwrap();
    let recorded = memwide(&["record", "-g", "-o", file, "--", "true"]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    for args in [
        &["report", "--sort", "symbol", "--format", "csv"][..],
        &["script", "--format", "ndjson"],
        &["faults", "--format", "csv"],
        &["stat", "--format", "csv"],
        &["diagnose", "--format", "csv"],
    ] {
        let plain = memwide(&[args, &["-i", file]].concat());
        // How the file is called is the only difference.
        let plain = (plain.status.code(), text(&plain.stdout).replace(file, "-"));
        assert!(
            plain.0 == Some(0) && plain.1.lines().count() > 0,
            "{args:?}"
        );
        let as_file = fed(args, Stdio::from(File::open(file).unwrap()));
        for (how, (code, out, said)) in [("a file", as_file), ("a pipe", piped(args, file))] {
            let same = (code, out.as_str()) == (plain.0, plain.1.as_str());
            assert!(
                same,
                "{args:?} of {how} differs: {said}\n{out}\n{}",
                plain.1
            );
        }
    }
}

#[test]
fn what_perf_writes_to_a_pipe_is_read_from_it() {
    if !can_count() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipe.data");
    let file = file.to_str().unwrap();
    let args = [
        "record",
        "-q",
        "-e",
        "minor-faults",
        "-c",
        "1",
        "-o",
        "-",
        "--",
        "true",
    ];
    let Some(output) = perf(&args) else { return };
    std::fs::write(file, &output.stdout).unwrap();
    let (code, out, said) = piped(&["report", "--sort", "dso", "--format", "csv"], file);
    assert!(code == Some(0) && out.lines().count() > 1, "{out}{said}");
}

#[test]
fn nothing_on_standard_input_is_bad_input() {
    let (code, _, said) = fed(&["report"], Stdio::null());
    assert_eq!(code, Some(65), "{said}");
}

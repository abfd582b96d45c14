//! A program that is not there any more, or is another thing: hexadecimal numbers stand in its place, and everybody hears why.

use crate::program::{LOAD, Made, build, write};
use crate::run::json;
use memwide_tests::programs::Program;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const SOURCE: &str = "
long value;
__attribute__((noinline)) long get(void) { return value; }
int main(void) { return (int)get(); }
";

/// Reports on the file; what is said of missing names must be one line with these parts, the same in JSON.
#[track_caller]
fn check(file: &Path, program: &Program, parts: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(["report", "-i"])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("names are missing"))
        .collect();
    let document = json("report", file, &[]);
    let refused = document["completeness"]["symbols_refused"]
        .as_array()
        .unwrap();
    assert_eq!((lines.len(), refused.len()), (1, 1), "{said}");
    let path = program.path.to_str().unwrap();
    for part in parts.iter().chain(&[path, "--symfs"]) {
        assert!(lines[0].contains(part), "`{part}`: {}", lines[0]);
        assert!(
            refused[0].as_str().unwrap().contains(part),
            "`{part}`: {}",
            refused[0]
        );
    }
    // What debug information would say is missed for the same reason.
    let lines = json("report", file, &["--sort", "srcline"]);
    assert_eq!(
        lines["completeness"]["symbols_refused"]
            .as_array()
            .unwrap()
            .len(),
        1,
        "{lines:#}"
    );
}

#[test]
fn why_a_program_has_no_names_is_said_once_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("made.data");
    let made = Made {
        ip: program.address("get") + 4,
        addr: program.address("value"),
        tid: 101,
        word: LOAD.0,
    };
    write(&file, &program, &[made]);
    let kept = std::fs::read(&program.path).unwrap();
    let hour = Duration::from_hours(1);
    std::fs::File::options()
        .write(true)
        .open(&program.path)
        .unwrap()
        .set_modified(SystemTime::now() + hour)
        .unwrap();
    check(&file, &program, &["it was changed after the recording"]);
    std::fs::remove_file(&program.path).unwrap();
    check(&file, &program, &["it is not here"]);
    std::fs::create_dir(&program.path).unwrap();
    check(&file, &program, &["a directory is there"]);
    std::fs::remove_dir(&program.path).unwrap();
    let made = Command::new("mkfifo").arg(&program.path).status();
    if made.is_ok_and(|status| status.success()) {
        check(&file, &program, &["a pipe is there"]);
        std::fs::remove_file(&program.path).unwrap();
    }
    std::fs::write(&program.path, kept).unwrap();
}

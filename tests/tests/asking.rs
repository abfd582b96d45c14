//! The command asks a running server, as a person would.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_simulator::Fleet;
use memwide_tests::{Up, UpOptions, tools_missing};
use std::process::{Command, Output};

/// A server with a simulated fleet.
fn served() -> Option<Up> {
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return None;
    }
    let up = Up::start(&UpOptions {
        data: None,
        args: vec!["--no-collect".to_owned()],
    });
    let fleet = Fleet::new("sim", 3, &[1], 400, 1);
    up.send(&fleet, 6);
    up.wait_for(fleet.truth().samples(|_| true));
    Some(up)
}

fn memwide(up: &Up, args: &[&str]) -> Output {
    Command::new(memwide_tests::memwide())
        .args(args)
        .env("MEMWIDE_SERVER", &up.url)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

/// What it prints on standard output, and says on standard error; it ends well.
#[track_caller]
fn well(up: &Up, args: &[&str]) -> (Vec<u8>, String) {
    let output = memwide(up, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    (output.stdout, said)
}

#[test]
fn commands_ask_a_server() {
    let Some(up) = served() else { return };
    exports(&up);
    links(&up);
}

/// The address of an answer, whatever asks for it; the API gives the same rows there.
fn links(up: &Up) {
    let commands: [&[&str]; 6] = [
        &["top", "--once"],
        &["numa"],
        &["hosts"],
        &["ledger"],
        &["report", "--server", &up.url],
        &["export", "folded"],
    ];
    for command in commands {
        let args = [command, &["-F", "host=sim-1", "--since", "-2h", "--link"]].concat();
        let (_, said) = well(up, &args);
        let page = said
            .lines()
            .find_map(|line| line.split_once("page: "))
            .unwrap()
            .1;
        let address = page.strip_prefix(&up.url).unwrap();
        assert!(
            address.contains("host=sim-1") && !address.contains("=-"),
            "{address}"
        );
        let (question, query) = address
            .strip_prefix("/?question=")
            .unwrap()
            .split_once('&')
            .unwrap();
        let answer = up.get(&format!("{question}?{query}"));
        assert!(!answer["rows"].as_array().unwrap().is_empty(), "{address}");
    }
    let wrong = memwide(up, &["report", "--link"]);
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
}

/// Each format is written, to standard output or a file, and what is beside it is said.
fn exports(up: &Up) {
    let (folded, said) = well(up, &["export", "folded", "--since", "-2h"]);
    let folded = String::from_utf8(folded).unwrap();
    let values = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let sum: u64 = values.map(|value| value.parse::<u64>().unwrap()).sum();
    assert!(sum > 0, "{folded}");
    assert!(said.contains("completeness: hosts 3 of 3"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    for (format, starts) in [
        ("pprof", &b"\x0a"[..]),
        ("speedscope", b"{"),
        ("firefox", b"{"),
        ("otlp", b"\x0a"),
        ("perf-data", b"PERFILE2"),
    ] {
        let path = folder.path().join(format);
        let file = path.to_str().unwrap();
        let (printed, said) = well(
            up,
            &[
                "export",
                format,
                "-F",
                "host=sim-1",
                "--since",
                "-2h",
                "-o",
                file,
            ],
        );
        assert!(printed.is_empty() && said.contains(file), "{said}");
        let written = std::fs::read(&path).unwrap();
        assert!(
            written.starts_with(starts),
            "{format}: {:?}",
            written.get(..20)
        );
    }
    let wrong = memwide(up, &["export", "folded", "--by", "gold"]);
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
}

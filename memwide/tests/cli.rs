//! The command line without any server: usage, errors with remedies, exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use std::process::{Command, Output};

fn memwide(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(args)
        .env_remove("MEMWIDE_SERVER")
        .env("NO_COLOR", "1")
        .output()
        .expect("memwide runs")
}

#[track_caller]
fn check(args: &[&str], code: i32, says: &[&str]) {
    let output = memwide(args);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    for part in says {
        assert!(
            text.contains(part),
            "{args:?} does not say `{part}`: {text}"
        );
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn help_and_version_are_no_errors() {
    check(
        &["--help"],
        0,
        &[
            "up", "doctor", "import", "script", "report", "top", "sql", "record",
        ],
    );
    check(&["--version"], 0, &["memwide"]);
    check(
        &["up", "--help"],
        0,
        &["--demo", "--no-collect", "--listen"],
    );
}

#[test]
fn wrong_usage_is_64() {
    check(&[], 64, &["Usage"]);
    check(&["nonsense"], 64, &["nonsense"]);
    check(&["export", "gif"], 64, &["gif", "firefox", "otlp"]);
    check(&["up", "--listen", "here"], 64, &["--listen"]);
    check(&["top", "-F", "locality"], 64, &["KEY=VALUE"]);
    check(&["sql", "select 1", "-P", "x"], 64, &["NAME=VALUE"]);
    let boost = ["boost", "--host", "a", "--comm", "java"];
    for (wrong, says) in [
        (vec!["boost", "--host", "", "--comm", "java"], "--host"),
        (vec!["boost", "--host", "a", "--comm", ""], "--comm"),
        (vec!["boost", "--host", "a", "--pod", ""], "--pod"),
        (vec!["boost", "--host", "a", "--pid", "0"], "--pid"),
        ([&boost[..], &["--factor", "1"]].concat(), "--factor"),
        ([&boost[..], &["--for", "11m"]].concat(), "--for"),
        (vec!["record", "-o", "-", "--", "true"], "perf record -o -"),
        (vec!["record", "-o", "", "--", "true"], "--output"),
    ] {
        check(&wrong, 64, &[says]);
    }
    check(
        &["top", "--server", "foo bar"],
        64,
        &["`foo bar`", "http://HOST:PORT"],
    );
    check(
        &["hosts", "--server", "foo"],
        64,
        &["`foo`", "http://HOST:PORT"],
    );
    let both = ["up", "--listen", "127.0.0.1:1", "--ingest", "127.0.0.1:1"];
    check(&both, 64, &["127.0.0.1:1", "different ports"]);
}

#[test]
fn an_address_that_others_can_reach_is_refused_with_the_remedy() {
    check(
        &["up", "--listen", "0.0.0.0:7070"],
        64,
        &["neither TLS nor authentication", "ssh -L"],
    );
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_remedy() {
    for command in ["top", "hosts", "ledger"] {
        check(
            &[command, "--server", "http://127.0.0.1:1"],
            1,
            &["http://127.0.0.1:1", "memwide up"],
        );
    }
    check(
        &["sql", "select 1", "--server", "http://127.0.0.1:1"],
        1,
        &["memwide up"],
    );
}

#[test]
fn completions_are_printed_for_common_shells() {
    for shell in ["bash", "zsh", "fish"] {
        check(&["completions", shell], 0, &["memwide"]);
    }
}

/// Names of the commands that a help text lists.
fn listed(args: &[&str]) -> Vec<String> {
    let help = memwide(&[args, &["--help"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split_once("Commands:\n").unwrap().1;
    let lines = commands.lines().take_while(|line| line.starts_with("  "));
    // Longer texts go on in lines that begin further to the right.
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_a_manual_page_that_tells_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man1");
    check(&["man", folder.to_str().unwrap()], 0, &["pages in"]);
    let commands = listed(&[]);
    assert!(
        commands.len() > 30 && commands.contains(&"man".to_owned()),
        "{commands:?}"
    );
    let mut expected: Vec<String> = commands
        .iter()
        .map(|name| format!("memwide-{name}.1"))
        .collect();
    for group in ["symbols", "archive"] {
        let below = listed(&[group]);
        assert!(below.len() >= 2, "{below:?}");
        expected.extend(below.iter().map(|name| format!("memwide-{group}-{name}.1")));
    }
    expected.push("memwide.1".to_owned());
    let mut found: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    for name in &found {
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}: {page}"
        );
        let status = page.split_once("EXIT STATUS").unwrap().1;
        for code in ["\n0\n", "\n1\n", "\n64\n", "\n65\n"] {
            assert!(status.contains(code), "{name} lacks {code:?}");
        }
    }
    check(&["man", "/proc/none"], 1, &["/proc/none"]);
}

#[test]
fn a_wrong_config_key_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("collector.toml");
    std::fs::write(&path, "endpiont = \"http://127.0.0.1:1\"\n").unwrap();
    let file = path.to_str().unwrap();
    check(
        &["collector", "--config", file],
        64,
        &["endpiont", "endpoint", file],
    );
    check(
        &["up", "--config", file],
        64,
        &["endpiont", "endpoint", file],
    );
}

/// Wherever the file of a collector is read.
#[test]
fn what_the_meaning_of_a_collectors_file_forbids_is_refused_with_key_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("collector.toml");
    let file = path.to_str().unwrap();
    #[rustfmt::skip]
    let rows = [
        ("budget.cpu_percent = -1.0", "budget.cpu_percent", "above 0"),
        ("budget.cpu_percent = 5000.0", "budget.cpu_percent", "up to 100"),
        ("spool.max_bytes = 1", "spool.max_bytes", "from 1048576"),
        ("select.include = ['podd=x']", "select.include", "KEY=PATTERN"),
        ("events = ['minr-faults']", "events", "minor-faults"),
        ("events = []", "events", "auto"),
    ];
    for (text, key, says) in rows {
        std::fs::write(&path, format!("{text}\n")).unwrap();
        for command in ["collector", "doctor"] {
            check(&[command, "--config", file], 64, &[key, says, file]);
        }
        if !key.starts_with("spool") {
            check(&["up", "--config", file], 64, &[key, says, file]);
        }
    }
    for (text, instead) in [
        ("endpoint = 'http://h:1'", "--ingest"),
        ("spool.dir = '/tmp'", "--data"),
    ] {
        std::fs::write(&path, format!("{text}\n")).unwrap();
        check(&["up", "--config", file], 64, &[instead, file]);
    }
}

#[test]
fn the_resolved_configuration_says_where_each_value_comes_from() {
    check(
        &["collector", "--print-config"],
        0,
        &["endpoint", "default"],
    );
    check(&["sink", "--print-config"], 0, &["partitions"]);
}

#[test]
fn what_a_boost_shows_is_no_key_of_services_that_take_none() {
    for role in ["collector", "aggregator", "sink", "query", "decoder"] {
        let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
            .args([role, "--print-config"])
            .env("MEMWIDE_BOOST_TOKEN", "0123456789abcdef")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{role}: {output:?}");
        assert_eq!(text.contains("boost_token"), role == "decoder", "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
}

#[test]
fn a_missing_tool_is_named_with_the_remedy() {
    let data = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args([
            "up",
            "--no-collect",
            "--listen",
            "127.0.0.1:0",
            "--ingest",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(data.path())
        .env("MEMWIDE_ENGINE", "/nowhere/libchdb.so")
        .output()
        .expect("memwide runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("MEMWIDE_ENGINE") && text.contains("/nowhere/libchdb.so"),
        "{text}"
    );
}

#[test]
fn a_taken_port_is_named_with_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    check(
        &["up", "--no-collect", "--listen", &address, "--data", folder],
        1,
        &[&address, "--listen"],
    );
}

#[test]
fn doctor_names_what_is_missing() {
    let output = memwide(&["doctor", "--format", "json"]);
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = document["capabilities"].as_array().expect("capabilities");
    assert!(
        rows.iter().any(|row| row["name"] == "engine"),
        "{document:#}"
    );
    for row in rows.iter().filter(|row| row["available"] == false) {
        assert_ne!(row["reason"], "", "{row:#}");
    }
}

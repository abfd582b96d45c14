//! Members of variables, and symbol files that are refused, on programs built here.

use crate::program::{HITM, LOAD, Made, build, write};
use crate::run::{json, text};
use memwide_model::DataSrc;
use memwide_tests::programs::{Builder, Program};
use memwide_tests::{Https, Running};
use serde_json::Value;
use std::fs::File;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const SOURCE: &str = "
struct counters { long hits; long misses; };
static struct counters stats[8];
union { int word; short half[2]; } both = {1};
struct counters *next(int i) { static struct counters kept[4]; return kept + i; }
__attribute__((noinline)) void touch(int i) { stats[i].hits++; next(i)->misses++; both.word++; }
int main(void) { touch(0); return 0; }
";

fn accesses(program: &Program) -> Vec<Made> {
    let at = |name: &str, into: u64, tid, word: DataSrc| Made {
        ip: program.address("touch") + 4,
        addr: program.address(name) + into,
        tid,
        word: word.0,
    };
    vec![
        at("stats", 3 * 16 + 8, 101, LOAD),
        at("stats", 3 * 16 + 12, 101, LOAD),
        at("stats", 16, 101, HITM),
        at("stats", 16, 102, HITM),
        at("kept.0", 2 * 16 + 8, 101, LOAD),
        at("both", 0, 101, LOAD),
        Made {
            addr: 0x1000,
            ..at("both", 0, 101, LOAD)
        },
    ]
}

/// Names by rows of a document.
fn rows(document: &Value, key: &str) -> Vec<(String, u64)> {
    let rows = document["rows"].as_array().unwrap().iter();
    let mut rows: Vec<_> = rows
        .map(|row| {
            (
                row[key].as_str().unwrap().to_owned(),
                row["samples"].as_u64().unwrap(),
            )
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn accesses_are_named_by_the_members_of_variables() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("members.data");
    write(&file, &program, &accesses(&program));
    let found = rows(&json("report", &file, &["--sort", "member"]), "member");
    let expected = [
        ("[unknown]", 1),
        ("both.{word|half}", 1),
        ("kept[2].misses", 1),
        ("stats[1].hits", 2),
        ("stats[3].misses", 2),
    ];
    assert_eq!(found, expected.map(|(name, n)| (name.to_owned(), n)));
    let filtered = json(
        "report",
        &file,
        &["--sort", "member", "-F", "member=stats[1].hits"],
    );
    assert_eq!(rows(&filtered, "member"), [("stats[1].hits".to_owned(), 2)]);
    // perf's key keeps perf's text.
    let perfs = rows(
        &json("report", &file, &["--sort", "symbol_daddr"]),
        "symbol_daddr",
    );
    assert!(perfs.contains(&("stats+0x10".to_owned(), 2)), "{perfs:?}");

    let lines = text(
        "script",
        &file,
        &["--format", "ndjson", "-F", "+member"],
        200,
    );
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[1]["member"], "stats[3].misses");
    assert_eq!(lines[1]["member_offset"], 4);
    assert_eq!(lines[1]["data_symbol_offset"], 60);

    let shared = json("c2c", &file, &["--show-all"]);
    let members: Vec<&str> = shared["lines"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|line| line["offsets"].as_array().unwrap())
        .filter_map(|site| site["member"].as_str())
        .collect();
    assert!(members.contains(&"stats[1].hits"), "{members:?}");
    let wide = text("c2c", &file, &["--show-all"], 200);
    assert!(wide.contains("stats[1].hits"), "{wide}");
}

#[test]
fn without_debug_information_the_variable_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("members.data");
    let accesses = accesses(&program);
    let stripped = Command::new("strip").arg("-g").arg(&program.path).status();
    if !stripped.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no `strip`");
        return;
    }
    write(&file, &program, &accesses); // a file changed later would not be believed
    let found = rows(&json("report", &file, &["--sort", "member"]), "member");
    assert!(found.contains(&("stats".to_owned(), 4)), "{found:?}");
}

#[test]
fn a_damaged_program_is_named_beside_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("damaged.data");
    let accesses = accesses(&program);
    let bytes = std::fs::read(&program.path).unwrap();
    std::fs::write(&program.path, &bytes[..bytes.len() / 2]).unwrap();
    // A file changed later would not be believed, and clocks of file systems tick coarsely.
    let earlier = SystemTime::now() - Duration::from_mins(1);
    let changed = File::options().write(true).open(&program.path);
    changed.unwrap().set_modified(earlier).unwrap();
    write(&file, &program, &accesses);
    for command in ["report", "script", "c2c", "annotate"] {
        let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
            .args([command, "-i"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("names are missing"));
        let line = line.unwrap_or_else(|| panic!("{command}: {said}"));
        let path = program.path.to_str().unwrap();
        assert!(
            line.contains(path) && line.contains("no_sections"),
            "{line}"
        );
    }
    for args in [&[][..], &["--sort", "srcline"]] {
        let document = json("report", &file, args);
        let refused = document["completeness"]["symbols_refused"]
            .as_array()
            .unwrap();
        assert_eq!(refused.len(), 1, "{refused:?}");
    }
}

/// Serves a folder over https at `localhost`, with a certificate made here; `None`, said loudly, without `openssl`.
fn serve(folder: &Path) -> Option<(Running, u16)> {
    let Https { server, said, port } = Https::start(folder, &["-WWW"], Stdio::null())?;
    // Whoever writes into a closed pipe ends.
    std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
    Some((server, port))
}

#[test]
fn debug_information_comes_over_https_from_a_server_that_this_machine_believes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(program) = build(folder, SOURCE) else {
        return;
    };
    let file = folder.join("members.data");
    let accesses = accesses(&program);
    let id = Builder::within(folder, &[]).build_id("program");
    let served = folder.join("buildid").join(id);
    std::fs::create_dir_all(&served).unwrap();
    std::fs::copy(&program.path, served.join("debuginfo")).unwrap();
    let stripped = Command::new("strip").arg(&program.path).status();
    if !stripped.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no `strip`");
        return;
    }
    write(&file, &program, &accesses);
    let Some((_server, port)) = serve(folder) else {
        return;
    };
    let ask = |believed: &str, cache: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
            .args(["report", "--format", "json", "--sort", "member", "-i"])
            .arg(&file)
            .args(["--debuginfod", &format!("https://localhost:{port}")])
            .env("SSL_CERT_FILE", folder.join(believed))
            .env("DEBUGINFOD_CACHE_PATH", folder.join(cache))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (rows(&document, "member"), said)
    };
    let (found, said) = ask("cert.pem", "cache");
    assert!(
        found.contains(&("stats[3].misses".to_owned(), 2)),
        "{found:?} {said}"
    );
    std::fs::write(folder.join("nobody.pem"), "").unwrap();
    let (found, said) = ask("nobody.pem", "other");
    assert!(
        !found.contains(&("stats[3].misses".to_owned(), 2)),
        "{found:?}"
    );
    assert!(
        said.contains("names are missing: https://localhost"),
        "{said}"
    );
}

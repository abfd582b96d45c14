//! `memwide diagnose` on made-up precise accesses of a real program: each profile has one thing wrong.

use crate::program::{HITM, Made, STORE, build, write};
use crate::run::{json, text};
use memwide_model::DataSrc;
use memwide_model::data_src::{lvl, op, tlb};
use memwide_tests::programs::Program;
use serde_json::Value;

const SOURCE: &str = "
struct { volatile long first, second; } shared_line __attribute__((aligned(64))) = {1, 1};
char big[1 << 22];
__attribute__((noinline)) long read_first(void) { return shared_line.first + big[5]; }
__attribute__((noinline)) void write_second(void) { shared_line.second++; }
int main(void) { write_second(); return (int)read_first(); }
";

const L1: DataSrc = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::L1)
    .with_dtlb(tlb::HIT | tlb::L1);
const RAM: DataSrc = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::LOC_RAM);
const FAR: DataSrc = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::REM_RAM1);
const WALK: DataSrc = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::L1)
    .with_dtlb(tlb::HIT | tlb::WK);

fn diagnose(name: &str, make: impl Fn(&Program) -> Vec<Made>) -> Option<(Value, String)> {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), SOURCE)?;
    let file = folder.path().join(format!("{name}.data"));
    write(&file, &program, &make(&program));
    Some((
        json("diagnose", &file, &[]),
        text("diagnose", &file, &[], 80),
    ))
}

fn made(program: &Program, function: &str, addr: u64, tid: u32, word: DataSrc) -> Made {
    Made {
        ip: program.address(function) + 4,
        addr,
        tid,
        word: word.0,
    }
}

/// Loads that hit the L1, beside which other accesses are measured.
fn calm(program: &Program, n: u64) -> Vec<Made> {
    let big = program.address("big");
    (0..n)
        .map(|at| made(program, "main", big + at % 64, 101, L1))
        .collect()
}

#[track_caller]
fn check(found: Option<(Value, String)>, list: &str, topic: &str, parts: &[&str]) {
    let Some((found, text)) = found else { return };
    let of = found[list].as_array().unwrap().iter();
    let one = of
        .filter(|finding| finding["topic"] == topic)
        .map(ToString::to_string)
        .next()
        .unwrap_or_else(|| panic!("no {topic} in {list}: {found:#}"));
    for part in parts {
        assert!(one.contains(part), "`{part}` is not in {one}");
    }
    assert!(
        text.starts_with("Verdict: ") && text.contains(topic),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than 80: {line}");
    }
}

#[test]
fn false_sharing_names_line_reader_and_writer() {
    let found = diagnose("sharing", |program| {
        let line = program.address("shared_line");
        let mut all = calm(program, 300);
        for _ in 0..60 {
            all.push(made(program, "read_first", line, 101, HITM));
            all.push(made(program, "write_second", line + 8, 102, STORE));
        }
        all
    });
    let parts = [
        "shared_line",
        "read_first",
        "write_second",
        "\"n\":60",
        "\"tier\":\"precise\"",
        "c2c",
    ];
    check(found, "findings", "false sharing", &parts);
}

#[test]
fn remote_memory_names_the_function_and_its_interval() {
    let found = diagnose("remote", |program| {
        let big = program.address("big");
        let far =
            (0..100).map(|at| made(program, "read_first", big + at * 4096 % (1 << 22), 101, FAR));
        let near = (0..300).map(|at| made(program, "main", big + at * 64, 101, RAM));
        far.chain(near).collect()
    });
    check(
        found,
        "findings",
        "remote memory",
        &["25.0 %", "read_first: 100 of its 100", "ci95"],
    );
}

#[test]
fn few_samples_do_not_prove_remote_memory() {
    let found = diagnose("few", |program| {
        let big = program.address("big");
        let far = (0..3).map(|at| made(program, "read_first", big + at * 4096, 101, FAR));
        let near = (0..9).map(|at| made(program, "main", big + at * 64, 101, RAM));
        far.chain(near).collect()
    });
    check(found, "cannot_tell", "remote memory", &["\"n\":12"]);
}

#[test]
fn a_stream_and_a_chase_through_memory_are_told_apart() {
    let stream = diagnose("stream", |program| {
        let big = program.address("big");
        (0..400)
            .map(|at| made(program, "read_first", big + at * 4096, 101, RAM))
            .collect()
    });
    check(
        stream,
        "findings",
        "memory bandwidth",
        &["read_first", "in the order of addresses"],
    );
    let chase = diagnose("chase", |program| {
        let big = program.address("big");
        let mut state = 7_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % (1 << 22)
        };
        (0..400)
            .map(|_| made(program, "read_first", big + next(), 101, RAM))
            .collect()
    });
    check(
        chase,
        "findings",
        "memory latency",
        &["read_first", "in no order"],
    );
}

#[test]
fn walks_of_the_page_tables_are_found() {
    let found = diagnose("walks", |program| {
        let big = program.address("big");
        let mut all = calm(program, 200);
        all.extend((0..100).map(|at| made(program, "read_first", big + at * 4096, 101, WALK)));
        all
    });
    check(
        found,
        "findings",
        "TLB walks",
        &["read_first: 100 of its 100"],
    );
}

#[test]
fn calm_accesses_are_no_finding_and_the_answer_says_what_was_not_seen() {
    let Some((found, text)) = diagnose("calm", |program| calm(program, 500)) else {
        return;
    };
    assert_eq!(found["findings"], Value::Array(Vec::new()), "{found:#}");
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("nothing above the thresholds"),
        "{verdict}"
    );
    assert!(
        verdict.contains("not seen here: software faults, tracepoints"),
        "{verdict}"
    );
    assert!(text.contains("memwide allocs --help"), "{text}");
}

//! One table a PMU: every data source the kernel (or perf, for SPE) writes, and what it means here.
//!
//! The tables are text, so that they can be read beside the kernel's. Their rows are the expectation; nothing in them is
//! made by the code under test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

use memwide_model::{ContentHash, Cpu, DataSrc, LatencyKind, Pmu, TAXONOMY, classify};
use std::path::Path;

struct Row {
    line: usize,
    word: DataSrc,
    expected: Vec<String>,
}

struct Table {
    name: String,
    pmu: Pmu,
    cpus: Vec<Cpu>,
    load: LatencyKind,
    store: LatencyKind,
    rows: Vec<Row>,
}

fn pmu(name: &str) -> (Pmu, &'static str) {
    match name {
        "intel" => (Pmu::Intel, "x86_64"),
        "amd" => (Pmu::AmdIbs, "x86_64"),
        "arm" => (Pmu::ArmSpe, "aarch64"),
        "power" => (Pmu::Power, "ppc64le"),
        other => panic!("{other} is no PMU of a table"),
    }
}

fn read(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap();
    let mut table = Table {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        pmu: Pmu::Other,
        cpus: Vec::new(),
        load: LatencyKind::None,
        store: LatencyKind::None,
        rows: Vec::new(),
    };
    let mut arch = "";
    for (at, line) in text.lines().enumerate() {
        let (key, rest) = line.split_once(' ').unwrap();
        match key {
            "#" => {}
            "pmu" => (table.pmu, arch) = pmu(rest),
            "cpu" => table.cpus.push(Cpu::parse(rest, arch)),
            "load" => table.load = LatencyKind::from_name(rest).unwrap(),
            "store" => table.store = LatencyKind::from_name(rest).unwrap(),
            _ => {
                let mut parts = rest.split(" | ");
                let word = parts.next().unwrap().trim().trim_start_matches("0x");
                let expected = parts.next().unwrap().split(' ').map(str::to_owned);
                table.rows.push(Row {
                    line: at + 1,
                    word: DataSrc(u64::from_str_radix(word, 16).unwrap()),
                    expected: expected.collect(),
                });
            }
        }
    }
    table
}

fn tables() -> Vec<Table> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn every_code_of_every_pmu_means_what_its_table_says() {
    let tables = tables();
    assert!(tables.len() >= 22, "{} tables", tables.len());
    let mut rows = 0;
    for table in &tables {
        for row in &table.rows {
            rows += 1;
            let got = classify(row.word, table.pmu);
            let got = [
                got.op.name(),
                got.level.name(),
                got.outcome.name(),
                got.snoop.name(),
                got.tlb.name(),
                got.hw_locality.name(),
                if got.locked { "locked" } else { "-" },
                got.blocked.name(),
                got.region.name(),
                got.suspect.name(),
            ];
            assert_eq!(
                got.as_slice(),
                row.expected.as_slice(),
                "{}.txt:{} {:#x}",
                table.name,
                row.line,
                row.word.0
            );
        }
    }
    assert!(rows > 1500, "{rows} rows");
}

#[test]
fn weights_mean_what_the_table_of_the_cpu_says() {
    for table in tables() {
        assert!(!table.cpus.is_empty(), "{}", table.name);
        for cpu in &table.cpus {
            assert_ne!(*cpu, Cpu::Other, "{}", table.name);
            let got = (cpu.load_latency(), cpu.store_latency());
            assert_eq!(got, (table.load, table.store), "{} {cpu:?}", table.name);
        }
    }
}

#[test]
fn no_word_of_a_table_has_bits_without_a_name() {
    for table in tables() {
        for row in &table.rows {
            assert_eq!(row.word.unnamed(), 0, "{}.txt:{}", table.name, row.line);
        }
    }
}

/// Rows carry the taxonomy's revision: a table that changes without it would leave old rows that look like new ones.
#[test]
fn the_revision_of_the_taxonomy_names_just_these_tables() {
    let mut hash = ContentHash::of("taxonomy");
    for table in tables() {
        hash = hash.bytes(table.name.as_bytes());
        for row in &table.rows {
            hash = hash
                .number(row.word.0)
                .bytes(row.expected.join(" ").as_bytes());
        }
    }
    assert_eq!(
        (TAXONOMY, hash.finish()),
        (2, 11_248_540_073_875_718_089),
        "the tables say something else now: raise `TAXONOMY`, and enter its number and the hash here"
    );
}

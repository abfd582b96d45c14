//! `memwide c2c` beside `perf c2c report`: the summary, the table of lines, the sites of each line.

use crate::collection::folder;
use crate::perf::{self, difference, memwide};
use memwide_tests::sharing::{self, Words};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// perf's words of the summary, and the counters that are its numbers.
const SUMMARY: [(&str, &[&str]); 31] = [
    ("Total records", &["nr_entries"]),
    ("Locked Load/Store Operations", &["locks"]),
    ("Load Operations", &["load"]),
    ("Loads - uncacheable", &["ld_uncache"]),
    ("Loads - IO", &["ld_io"]),
    ("Loads - Miss", &["ld_miss"]),
    ("Loads - no mapping", &["ld_noadrs"]),
    ("Load Fill Buffer Hit", &["ld_fbhit"]),
    ("Load L1D hit", &["ld_l1hit"]),
    ("Load L2D hit", &["ld_l2hit"]),
    ("Load LLC hit", &["ld_llchit", "lcl_hitm"]),
    ("Load Local HITM", &["lcl_hitm"]),
    ("Load Remote HITM", &["rmt_hitm"]),
    ("Load Remote HIT", &["rmt_hit"]),
    ("Load Local DRAM", &["lcl_dram"]),
    ("Load Remote DRAM", &["rmt_dram"]),
    ("Load MESI State Exclusive", &["ld_excl"]),
    ("Load MESI State Shared", &["ld_shared"]),
    ("Load LLC Misses", &["llc_misses"]),
    ("Load access blocked by data", &["blk_data"]),
    ("Load access blocked by address", &["blk_addr"]),
    ("Load HIT Local Peer", &["lcl_peer"]),
    ("Load HIT Remote Peer", &["rmt_peer"]),
    ("Store Operations", &["store"]),
    ("Store - uncacheable", &["st_uncache"]),
    ("Store - no mapping", &["st_noadrs"]),
    ("Store L1D Hit", &["st_l1hit"]),
    ("Store L1D Miss", &["st_l1miss"]),
    ("Store No available memory level", &["st_na"]),
    ("No Page Map Rejects", &["nomap"]),
    ("Unable to parse data source", &["noparse"]),
];

/// Likewise of the lines that are shared.
const SHARED: [(&str, &[&str]); 13] = [
    ("Total Shared Cache Lines", &["lines"]),
    ("Load HITs on shared lines", &["load"]),
    ("Fill Buffer Hits on shared lines", &["ld_fbhit"]),
    ("L1D hits on shared lines", &["ld_l1hit"]),
    ("L2D hits on shared lines", &["ld_l2hit"]),
    ("LLC hits on shared lines", &["ld_llchit", "lcl_hitm"]),
    (
        "Load hits on peer cache or nodes",
        &["lcl_peer", "rmt_peer"],
    ),
    ("Locked Access on shared lines", &["locks"]),
    ("Blocked Access on shared lines", &["blocked"]),
    ("Store HITs on shared lines", &["store"]),
    ("Store L1D hits on shared lines", &["st_l1hit"]),
    ("Store No available memory level", &["st_na"]),
    ("Total Merged records", &["merged"]),
];

struct Both {
    theirs: String,
    ours: Value,
}

fn run(file: &Path, args: &[&str], symbols: &[&str]) -> Both {
    let perfs = ["c2c", "report", "--stdio", "--no-source", "--full-symbols"];
    let theirs = perf::perf(&[&perfs[..], args].concat(), file);
    let ours = memwide(
        &[&["c2c", "--no-source", "--format", "json"], args, symbols].concat(),
        file,
    );
    Both {
        theirs,
        ours: serde_json::from_str(&ours).unwrap(),
    }
}

fn sum(of: &Value, names: &[&str]) -> u64 {
    names.iter().map(|name| of[name].as_u64().unwrap()).sum()
}

/// `Label : number` of a part of perf's text; the first of equal labels.
fn labelled(text: &str, title: &str) -> BTreeMap<String, String> {
    let part = text.split(title).nth(1).unwrap_or_default();
    let lines = part.lines().skip(2).take_while(|line| !line.is_empty());
    let pairs = lines.filter_map(|line| line.rsplit_once(" : "));
    pairs
        .map(|(label, number)| (label.trim().to_owned(), number.trim().to_owned()))
        .collect()
}

#[track_caller]
fn check_summary(both: &Both, what: &str) {
    let events = labelled(&both.theirs, "Trace Event Information");
    for (label, names) in SUMMARY {
        let ours = sum(&both.ours["summary"], names).to_string();
        assert_eq!(events.get(label), Some(&ours), "{what}: {label}");
    }
    for (label, name) in [
        ("LLC Misses to Local DRAM", "llc_misses_to_lcl_dram"),
        ("LLC Misses to Remote DRAM", "llc_misses_to_rmt_dram"),
        ("LLC Misses to Remote cache (HIT)", "llc_misses_to_rmt_hit"),
        (
            "LLC Misses to Remote cache (HITM)",
            "llc_misses_to_rmt_hitm",
        ),
    ] {
        if let Some(share) = both.ours["summary"][name].as_f64() {
            let ours = format!("{:.1}%", share * 100.0);
            assert_eq!(events.get(label), Some(&ours), "{what}: {label}");
        }
    }
    let shared = labelled(&both.theirs, "Global Shared Cache Line Event Information");
    for (label, names) in SHARED {
        let ours = sum(&both.ours["shared"], names).to_string();
        assert_eq!(shared.get(label), Some(&ours), "{what}: {label}");
    }
}

/// A line of the table: without its number, which depends on the order of equal ones, and without perf's count of changes of
/// the physical address.
fn perfs_lines(text: &str) -> Vec<String> {
    let part = text.split("Shared Data Cache Line Table").nth(1).unwrap();
    let part = part
        .split("Shared Cache Line Distribution Pareto")
        .next()
        .unwrap();
    let rows = part.lines().filter(|line| !line.starts_with(['#', '=']));
    let mut rows: Vec<String> = rows
        .filter_map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            (cells.len() > 5).then(|| format!("{} {}", cells[1], cells[4..].join(" ")))
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn our_lines(document: &Value, peer: bool) -> Vec<String> {
    let line = |line: &Value| {
        let n = &line["counters"];
        let [all, local, remote] = if peer {
            ["tot_peer", "lcl_peer", "rmt_peer"]
        } else {
            ["tot_hitm", "lcl_hitm", "rmt_hitm"]
        };
        let share = line["share"].as_f64().unwrap() * 100.0;
        let numbers = [
            &n[all],
            &n[local],
            &n[remote],
            &line["records"],
            &line["loads"],
            &line["stores"],
            &n["st_l1hit"],
            &n["st_l1miss"],
            &n["st_na"],
            &n["ld_fbhit"],
            &n["ld_l1hit"],
            &n["ld_l2hit"],
            &n["ld_llchit"],
            &n["lcl_hitm"],
            &n["rmt_hit"],
            &n["rmt_hitm"],
            &n["lcl_dram"],
            &n["rmt_dram"],
        ];
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let address = line["address"].as_str().unwrap();
        format!("{address} {share:.2}% {}", numbers.join(" "))
    };
    let mut rows: Vec<String> = document["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect();
    rows.sort_unstable();
    rows
}

/// Sites as `line | shares | offset | code | cycles | records cpus | symbol object nodes`.
fn perfs_sites(text: &str, keys: usize) -> Vec<String> {
    let part = text
        .split("Shared Cache Line Distribution Pareto")
        .nth(1)
        .unwrap();
    let mut rows = Vec::new();
    let mut line = String::new();
    for row in part.lines() {
        let cells: Vec<&str> = row.split_whitespace().collect();
        if row.starts_with(['#', '=']) || cells.is_empty() || row.trim().starts_with("---") {
            continue;
        }
        if !cells[0].ends_with('%') {
            cells[cells.len() - 1].clone_into(&mut line);
            continue;
        }
        // Shares; offset; node of the page and count of addresses (not compared); the keys; the rest.
        let tail = 8 + keys;
        // A thread is shown with its name behind a colon.
        let keys: Vec<&str> = cells[8..tail]
            .iter()
            .map(|key| key.split(':').next().unwrap_or_default())
            .collect();
        let symbol_and_more = cells[tail + 5..].join(" ");
        rows.push(format!(
            "{line} {} {} {} {symbol_and_more}",
            cells[..6].join(" "),
            keys.join(" "),
            cells[tail..tail + 5].join(" "),
        ));
    }
    rows.sort_unstable();
    rows
}

fn our_sites(document: &Value, peer: bool, keys: &[&str]) -> Vec<String> {
    let mut rows = Vec::new();
    for line in document["lines"].as_array().unwrap() {
        for site in line["offsets"].as_array().unwrap() {
            let share = |name: &str| {
                format!(
                    "{:.2}%",
                    site["share"][name].as_f64().unwrap_or(0.0) * 100.0
                )
            };
            let [remote, local] = if peer {
                ["rmt_peer", "lcl_peer"]
            } else {
                ["rmt_hitm", "lcl_hitm"]
            };
            let mean =
                |name: &str| format!("{:.0}", site["mean_cycles"][name].as_f64().unwrap_or(0.0));
            let ip = site["code_address"].as_str().unwrap();
            let key = |key: &&str| match *key {
                "iaddr" => ip.to_owned(),
                key => site[key].to_string(),
            };
            let keys: Vec<String> = keys.iter().map(key).collect();
            let symbol = site["symbol"].as_str().map_or_else(
                || format!("{:#018x}", u64::from_str_radix(&ip[2..], 16).unwrap()),
                str::to_owned,
            );
            let dso = site["dso"].as_str().unwrap();
            let nodes = site["cpu_nodes"].as_array().unwrap();
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            let row = format!(
                "{} {} {} {} {} {} {:#x} {} {} {} {} {} {} [{}] {} {} {}",
                line["address"].as_str().unwrap(),
                share(remote),
                share(local),
                share("st_l1hit"),
                share("st_l1miss"),
                share("st_na"),
                site["offset"].as_u64().unwrap(),
                keys.join(" "),
                mean(remote),
                mean(local),
                mean("load"),
                site["records"],
                site["cpus"].as_array().unwrap().len(),
                site["mode"].as_str().unwrap(),
                symbol,
                dso.rsplit('/').next().unwrap(),
                nodes.join(" "),
            );
            rows.push(row.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    rows.sort_unstable();
    rows
}

#[track_caller]
fn check(file: &Path, args: &[&str], peer: bool, keys: &[&str]) {
    let both = run(file, args, &[]);
    check_summary(&both, &args.join(" "));
    let (ours, theirs) = (our_lines(&both.ours, peer), perfs_lines(&both.theirs));
    assert!(theirs.len() > 10, "{args:?}: only {} lines", theirs.len());
    assert_eq!(difference(&ours, &theirs), None, "lines {args:?}");
    let (ours, theirs) = (
        our_sites(&both.ours, peer, keys),
        perfs_sites(&both.theirs, keys.len()),
    );
    assert!(theirs.len() > 50, "{args:?}: only {} sites", theirs.len());
    assert_eq!(difference(&ours, &theirs), None, "sites {args:?}");
}

#[test]
fn lines_and_sites_of_a_generated_file_are_those_of_perf_c2c() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.data");
    sharing::write(&file, 8_000, Words::Plausible);
    let iaddr = &["iaddr"][..];
    check(&file, &["-d", "tot"], false, iaddr);
    check(&file, &["-d", "lcl"], false, iaddr);
    check(&file, &["-d", "rmt"], false, iaddr);
    check(&file, &["-d", "peer"], true, iaddr);
    check(
        &file,
        &["-d", "tot", "-c", "pid,tid,iaddr"],
        false,
        &["pid", "tid", "iaddr"],
    );
    check(
        &file,
        &["-d", "tot", "-c", "tid,iaddr"],
        false,
        &["tid", "iaddr"],
    );
}

/// The nodes of each site, as perf writes them without its blanks.
fn perfs_nodes(text: &str) -> Vec<String> {
    let part = text.split("Shared Cache Line Distribution Pareto").nth(1);
    let rows = part
        .unwrap()
        .lines()
        .map(str::trim_end)
        .filter(|row| row.ends_with('}') && !row.starts_with('#'));
    let cell = |row: &str| {
        let start = row.rfind(" 0{").or_else(|| row.rfind(" 1{")).unwrap();
        let words: Vec<&str> = row[start..].split_whitespace().collect();
        words.join(" ").replace("{ ", "{")
    };
    let mut all: Vec<String> = rows.map(cell).collect();
    all.sort_unstable();
    all
}

fn our_nodes(document: &Value, with_shares: bool) -> Vec<String> {
    let percent = |share: &Value| {
        let share = share.as_f64().map(|share| 100.0 * share);
        share.map_or_else(|| "n/a".to_owned(), |share| format!("{share:.1}%"))
    };
    let one = |of: &Value| {
        let cpus = of["cpus"].as_array().unwrap();
        if with_shares {
            let (share, stores) = (percent(&of["share"]), percent(&of["share_of_stores"]));
            return format!("{}{{{} {share} {stores}}}", of["node"], cpus.len());
        }
        let cpus: Vec<u64> = cpus.iter().map(|cpu| cpu.as_u64().unwrap()).collect();
        let runs = cpus.chunk_by(|one, next| one + 1 == *next);
        let runs = runs.map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            run => run[0].to_string(),
        });
        format!("{}{{{}}}", of["node"], runs.collect::<Vec<_>>().join(","))
    };
    let lines = document["lines"].as_array().unwrap().iter();
    let sites = lines.flat_map(|line| line["offsets"].as_array().unwrap());
    let nodes = sites.map(|site| site["by_node"].as_array().unwrap());
    let cells = nodes.map(|nodes| nodes.iter().map(one).collect::<Vec<_>>().join(" "));
    let mut all: Vec<String> = cells.filter(|cell| !cell.is_empty()).collect();
    all.sort_unstable();
    all
}

#[test]
fn nodes_of_sites_are_those_of_perf_c2c_at_every_step() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.data");
    sharing::write(&file, 8_000, Words::Plausible);
    for display in ["tot", "lcl", "rmt", "peer"] {
        for (steps, with_shares) in [(&["-N"][..], true), (&["-N", "-N"], false)] {
            let args = [&["-d", display][..], steps].concat();
            let both = run(&file, &args, &[]);
            let ours = our_nodes(&both.ours, with_shares);
            let theirs = perfs_nodes(&both.theirs);
            assert!(theirs.len() > 50, "{args:?}: only {} sites", theirs.len());
            assert_eq!(difference(&ours, &theirs), None, "{args:?}");
        }
    }
}

#[test]
fn every_word_counts_as_perf_c2c_counts_it() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("random.data");
    sharing::write(&file, 20_000, Words::Random);
    for display in ["tot", "lcl", "rmt", "peer"] {
        let both = run(&file, &["-d", display], &[]);
        check_summary(&both, display);
    }
}

#[test]
fn summaries_of_real_memory_profiles_are_those_of_perf_c2c() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    for name in [
        "mem-intel-coffeelake-perfmem-loads-stores.data",
        "mem-intel-skylake-weight_struct-systemwide.data",
        "big-callchain-48k-samples.data",
        "ev-numatopology-3.2.data",
    ] {
        let both = run(&folder.join(name), &["-d", "tot"], &perf::NO_SYMBOLS);
        check_summary(&both, name);
        assert_eq!(
            our_lines(&both.ours, false),
            perfs_lines(&both.theirs),
            "{name}"
        );
    }
}

//! Samples, one by one.

use crate::collection::{folder, readable_by_perf};
use crate::perf::{self, NO_SYMBOLS, difference, memwide};
use memwide_perf_abi::{PerfFile, sample};
use memwide_tests::generated::{self, Generated};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// perf's name of a field, the JSON field, and the bits any of which samples of every event must have: perf prints a field
/// only if all of them have it.
const FIELDS: [(&str, &str, u64); 6] = [
    ("cpu", "cpu", sample::CPU),
    ("time", "time_ns", sample::TIME),
    ("addr", "addr", sample::ADDR),
    ("data_src", "data_src", sample::DATA_SRC),
    ("weight", "weight", sample::WEIGHT | sample::WEIGHT_STRUCT),
    ("ip", "ip", sample::IP),
];

/// The fields that every event of a file has.
fn common(file: &Path) -> Vec<(&'static str, &'static str)> {
    let file = PerfFile::open(std::fs::File::open(file).unwrap()).unwrap();
    let events = file.events().events();
    let in_all = |bits: u64| {
        events
            .iter()
            .all(|event| event.attr.sample_type & bits != 0)
    };
    let fields = FIELDS.iter().filter(|(_, _, bits)| in_all(*bits));
    fields.map(|(theirs, ours, _)| (*theirs, *ours)).collect()
}

/// A line of JSON in the normal form of perf's line.
fn normal(line: &Value, fields: &[(&str, &str)]) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or("missing").to_owned();
    let mut out = format!("{} {}/{}", text("comm"), line["pid"], line["tid"]);
    for (_, name) in fields {
        let number = || {
            line[*name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name}: {line}"))
        };
        match *name {
            "cpu" => write!(out, " [{:03}]", number()),
            "time_ns" => write!(
                out,
                " {}.{:09}:",
                number() / 1_000_000_000,
                number() % 1_000_000_000
            ),
            _ => Ok(()),
        }
        .unwrap();
    }
    write!(out, " {} {}:", line["period"], text("event")).unwrap();
    for (_, name) in fields {
        match *name {
            "addr" | "data_src" | "ip" => write!(out, " {}", text(name).trim_start_matches("0x")),
            "weight" => write!(out, " {}", line["weight"]),
            _ => Ok(()),
        }
        .unwrap();
    }
    squeezed(&out, 0)
}

/// One blank between words; without the words that spell `data_src` out before the last `behind` ones. perf cuts them off
/// after 100 bytes.
fn squeezed(line: &str, behind: usize) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let spelled = words.iter().position(|word| *word == "|OP");
    let kept = spelled.unwrap_or(words.len());
    let rest = words.len().saturating_sub(behind).max(kept);
    [&words[..kept], &words[rest..]].concat().join(" ")
}

/// The first sample that differs, if one does.
pub(crate) fn first_difference(file: &Path) -> Option<String> {
    let fields = common(file);
    let names: Vec<&str> = fields.iter().map(|(theirs, _)| *theirs).collect();
    let names = format!("comm,pid,tid,period,event,{}", names.join(","));
    let theirs = perf::perf(
        &[
            &["script", "--no-itrace", "--ns", "-G", "-F", names.as_str()][..],
            &NO_SYMBOLS,
        ]
        .concat(),
        file,
    );
    let behind = fields
        .iter()
        .filter(|(_, name)| ["weight", "ip"].contains(name));
    let behind = behind.count();
    let theirs = theirs.lines().map(|line| squeezed(line, behind));
    let theirs: Vec<String> = theirs.collect();
    let ours = memwide(
        &[&["script", "--format", "ndjson"][..], &NO_SYMBOLS].concat(),
        file,
    );
    let ours = ours
        .lines()
        .map(|line| normal(&serde_json::from_str(line).unwrap(), &fields));
    difference(&ours.collect::<Vec<_>>(), &theirs)
}

#[test]
fn samples_of_every_file_are_those_of_perf_script() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    let mut wrong = Vec::new();
    let names = readable_by_perf(&folder);
    for name in &names {
        if let Some(difference) = first_difference(&folder.join(name)) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names.len() > 40, "only {} files were compared", names.len());
}

#[test]
fn samples_of_a_generated_file_are_those_of_perf_script() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("generated.data");
    generated::write(&file, &Generated::of_this_program(5_000));
    assert_eq!(first_difference(&file), None);
}

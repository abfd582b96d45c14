//! What `perf script` says about a file, compared with this crate sample by sample.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::{PerfFile, SampleView, sample};

use crate::corpus::{folder, readable_by_perf};

/// Whether perf can be run at all.
pub(crate) fn perf_exists() -> bool {
    let exists = Command::new("perf")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success());
    if !exists {
        eprintln!("skipped: there is no perf to compare with");
    }
    exists
}

/// perf's name of a field, the bits any of which samples of every event must have, and whether it
/// stands before the event's name in a line.
const FIELDS: [(&str, u64); 8] = [
    ("pid,tid", sample::TID),
    ("cpu", sample::CPU),
    ("time", sample::TIME),
    ("period", sample::PERIOD),
    ("addr", sample::ADDR),
    ("data_src", sample::DATA_SRC),
    ("weight", sample::WEIGHT | sample::WEIGHT_STRUCT),
    ("ip", sample::IP),
];

/// One line a sample, in a normal form of `perf script`'s own.
fn ours(path: &Path) -> (Arc<EventTable>, Vec<u64>, Vec<String>) {
    let mut file = PerfFile::open(File::open(path).unwrap()).unwrap();
    let events = Arc::clone(file.events());
    let common = events
        .events()
        .iter()
        .fold(u64::MAX, |all, event| all & event.attr.sample_type);
    let weighted = events
        .events()
        .iter()
        .all(|event| event.attr.sample_type & (sample::WEIGHT | sample::WEIGHT_STRUCT) != 0);
    let shown: Vec<u64> = FIELDS
        .iter()
        .map(|(_, bits)| *bits)
        .filter(|bits| bits & common != 0 || (bits & sample::WEIGHT != 0 && weighted))
        .collect();
    let mut lines = Vec::new();
    let mut records = file.sorted().unwrap();
    while let Some(item) = records.next().unwrap() {
        if !item.record.is_sample() {
            continue;
        }
        let event = &events.events()[item.event.unwrap()];
        let view = SampleView::parse(item.record.body(), event.layout.as_ref().unwrap()).unwrap();
        let values = view.reads_group().then(|| view.read()).flatten();
        // A group read is one sample a member to perf.
        let members: Vec<_> = match values {
            Some(values) => values
                .iter()
                .map(|value| (events.index_of_id(value.id.unwrap()).unwrap(), None))
                .collect(),
            None => vec![(item.event.unwrap(), view.period())],
        };
        for (index, period) in members {
            lines.push(line(&view, &events.events()[index].name, period, &shown));
        }
    }
    (events, shown, lines)
}

fn line(view: &SampleView<'_>, name: &str, period: Option<u64>, shown: &[u64]) -> String {
    let has = |bit: u64| shown.iter().any(|bits| bits & bit != 0);
    let mut line = String::new();
    let mut put = |bit: u64, text: String| {
        if has(bit) {
            write!(line, "{text} ").unwrap();
        }
    };
    let pid = |id: Option<u32>| id.unwrap_or_default().cast_signed();
    put(
        sample::TID,
        format!("{}/{}", pid(view.pid()), pid(view.tid())),
    );
    put(
        sample::CPU,
        format!("[{:03}]", view.cpu().unwrap_or_default()),
    );
    let time = view.time().unwrap_or_default();
    put(
        sample::TIME,
        format!("{}.{:09}:", time / 1_000_000_000, time % 1_000_000_000),
    );
    put(
        sample::PERIOD,
        period.map_or_else(|| "?".to_owned(), |period| period.to_string()),
    );
    put(u64::MAX, format!("{name}:"));
    put(
        sample::ADDR,
        format!("{:x}", view.addr().unwrap_or_default()),
    );
    put(
        sample::DATA_SRC,
        format!("{:x}", view.data_src().unwrap_or_default()),
    );
    put(
        sample::WEIGHT,
        view.weight().unwrap_or_default().weight.to_string(),
    );
    put(sample::IP, format!("{:x}", view.ip().unwrap_or_default()));
    line
}

/// perf's lines in the same form.
fn theirs(path: &Path, events: &EventTable, shown: &[u64]) -> Vec<String> {
    let fields: Vec<_> = FIELDS
        .iter()
        .filter(|(_, bits)| shown.contains(bits))
        .map(|(name, _)| *name)
        .chain(["event"])
        .collect();
    let out = Command::new("perf")
        .args([
            "script",
            "--no-itrace",
            "--ns",
            "-G",
            "-F",
            &fields.join(","),
            "-i",
        ])
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines()
        .map(|line| normal(line, events, shown))
        .collect()
}

fn normal(line: &str, events: &EventTable, shown: &[u64]) -> String {
    let has = |bit: u64| shown.iter().any(|bits| bits & bit != 0);
    let name = events
        .events()
        .iter()
        .map(|event| event.name.as_str())
        .filter(|name| line.contains(&format!(" {name}:")))
        .max_by_key(|name| name.len());
    let Some(name) = name else {
        return line.to_owned();
    };
    let (before, after) = line.split_once(&format!(" {name}:")).unwrap();
    let after: Vec<_> = after.split_whitespace().collect();
    let mut out: Vec<_> = before.split_whitespace().map(str::to_owned).collect();
    out.push(format!("{name}:"));
    let leading = usize::from(has(sample::ADDR)) + usize::from(has(sample::DATA_SRC));
    let trailing = usize::from(has(sample::WEIGHT)) + usize::from(has(sample::IP));
    // Between them perf spells data_src out.
    let (start, end) = (
        leading.min(after.len()),
        after.len().saturating_sub(trailing).max(leading),
    );
    out.extend(
        after[..start]
            .iter()
            .chain(&after[end.min(after.len())..])
            .map(ToString::to_string),
    );
    out.join(" ") + " "
}

/// The first difference between perf's lines and ours, if there is one.
pub(crate) fn difference(path: &Path) -> Option<String> {
    let (events, shown, ours) = ours(path);
    let theirs = theirs(path, &events, &shown);
    if ours.len() != theirs.len() {
        return Some(format!("{} samples, perf has {}", ours.len(), theirs.len()));
    }
    let mut pairs = ours.iter().zip(&theirs);
    pairs
        .position(|(ours, theirs)| ours != theirs && !ours.contains(" ? "))
        .map(|at| format!("sample {at}: {:?}, perf has {:?}", ours[at], theirs[at]))
}

#[test]
fn samples_are_those_of_perf_script() {
    let Some(folder) = folder() else { return };
    if !perf_exists() {
        return;
    }
    let mut wrong = Vec::new();
    let mut compared = 0;
    for name in readable_by_perf(&folder) {
        if let Some(difference) = difference(&folder.join(&name)) {
            wrong.push(format!("{name}: {difference}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 40, "only {compared} files were compared");
}

//! What `perf script` says about a file, compared with this crate sample by sample.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use memwide_perf_abi::file::{EventSpec, EventTable, Features, ReadPeriods, feature};
use memwide_perf_abi::{FileWriter, PerfFile, SampleView, kind, sample};

use crate::corpus::{folder, readable_by_perf, readable_in_a_copy};

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
    let mut reads = ReadPeriods::default();
    let mut records = file.sorted().unwrap();
    while let Some(item) = records.next().unwrap() {
        if !item.record.is_sample() {
            continue;
        }
        let event = &events.events()[item.event.unwrap()];
        let view = SampleView::parse(item.record.body(), event.layout.as_ref().unwrap()).unwrap();
        let members = match view.read() {
            Some(values) => reads.split(&events, &values).collect(),
            None => vec![(item.event.unwrap(), view.period().unwrap_or_default())],
        };
        for (index, period) in members {
            lines.push(line(&view, &events.events()[index].name, period, &shown));
        }
    }
    (events, shown, lines)
}

fn line(view: &SampleView<'_>, name: &str, period: u64, shown: &[u64]) -> String {
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
    put(sample::PERIOD, period.to_string());
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
            "--symfs", // no symbols are asked for; this keeps perf from looking for them
            "/nonexistent",
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
        .position(|(ours, theirs)| ours != theirs)
        .map(|at| format!("sample {at}: {:?}, perf has {:?}", ours[at], theirs[at]))
}

/// The same events and records in a file that perf 6.1 reads: attrs as short as they can be, nothing
/// compressed, no pipe.
fn rewritten(path: &Path) -> Vec<u8> {
    let mut file = PerfFile::open(File::open(path).unwrap()).unwrap();
    let events: Vec<_> = file
        .events()
        .events()
        .iter()
        .map(|event| EventSpec {
            attr: event.attr.clone(),
            name: event.name.clone(),
            ids: event.ids.clone(),
        })
        .collect();
    let features = file.features().clone();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &events).unwrap();
    let mut records = file.records().unwrap();
    while let Some(item) = records.next().unwrap() {
        let kind = item.record.kind;
        if kind < kind::USER_TYPE_START || kind == kind::FINISHED_ROUND {
            writer.write_records(item.record.bytes()).unwrap();
        }
    }
    let mut kept = Features::default();
    for number in [
        feature::TRACING_DATA,
        feature::ARCH,
        feature::NRCPUS,
        feature::CPUDESC,
        feature::HOSTNAME,
    ] {
        if let Some(bytes) = features.raw(number) {
            kept.set_raw(number, bytes.to_vec());
        }
    }
    writer.finish(&kept).unwrap().into_inner()
}

#[test]
fn files_too_new_for_perf_are_read_as_perf_reads_a_rewritten_copy() {
    let Some(folder) = folder() else { return };
    if !perf_exists() {
        return;
    }
    let copy =
        std::env::temp_dir().join(format!("memwide-perf-abi-copy-{}.data", std::process::id()));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for name in readable_in_a_copy(&folder) {
        let path = folder.join(&name);
        std::fs::write(&copy, rewritten(&path)).unwrap();
        if let Some(difference) = difference(&copy) {
            wrong.push(format!("{name}: {difference}"));
        }
        if ours(&path).2 != ours(&copy).2 {
            wrong.push(format!("{name}: the copy reads differently"));
        }
        compared += 1;
    }
    std::fs::remove_file(&copy).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 8, "only {compared} files were compared");
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

/// Records with perf itself; `false` if this machine does not let it.
fn record(to: &Path, args: &[&str]) -> bool {
    let out = Command::new("perf")
        .args(["record", "-q", "-o"])
        .arg(to)
        .args(args)
        .args(["--", "ls", "/usr/lib"])
        .output()
        .unwrap();
    if !out.status.success() {
        eprintln!(
            "skipped: perf record {args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    out.status.success()
}

#[test]
fn files_recorded_here_are_read_as_perf_reads_them() {
    if !perf_exists() {
        return;
    }
    let path =
        std::env::temp_dir().join(format!("memwide-perf-abi-live-{}.data", std::process::id()));
    let mut wrong = Vec::new();
    for args in [
        &[
            "-c",
            "1",
            "-e",
            "minor-faults,major-faults",
            "-d",
            "--phys-data",
            "--data-page-size",
            "-g",
        ][..],
        &[
            "-z",
            "-c",
            "1",
            "-a",
            "-d",
            "-W",
            "-e",
            "minor-faults,cpu-clock",
        ],
        &[
            "-a",
            "-e",
            "mem:0x401000:rw,sched:sched_switch,page-faults:u",
            "--switch-events",
            "--namespaces",
        ],
        &[
            "-e",
            "{cpu-clock,page-faults}:S",
            "--call-graph",
            "dwarf,256",
            "--intr-regs=ip,sp",
        ],
        &[
            "-e",
            "task-clock",
            "--clockid",
            "CLOCK_MONOTONIC",
            "--all-cgroups",
            "--buildid-mmap",
        ],
    ] {
        if record(&path, args)
            && let Some(difference) = difference(&path)
        {
            wrong.push(format!("perf record {args:?}: {difference}"));
        }
    }
    let _absent_if_all_were_skipped = std::fs::remove_file(&path);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

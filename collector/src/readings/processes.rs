//! Memory of the largest processes.

use std::cmp::Reverse;
use std::fs;

use super::Out;
use crate::events::machine::Machine;

/// Processes that are told apart; the others are summed up.
const PROCESSES_MAX: usize = 64;

/// Fields of `status`, in KiB.
const FIELDS: &[(&str, &str)] = &[
    ("RssAnon:", "anon"),
    ("RssFile:", "file"),
    ("RssShmem:", "shmem"),
    ("VmSwap:", "swap"),
];

pub(super) fn read(machine: &Machine, out: &mut Out) {
    let page = Machine::page_size() as u64;
    let entries = fs::read_dir(&machine.proc).into_iter().flatten().flatten();
    let mut all: Vec<(u64, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("statm")).ok()?;
            let resident: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
            (resident > 0).then_some((resident * page, pid))
        })
        .collect();
    all.sort_unstable_by_key(|one| Reverse(*one));
    let rest = all.split_off(PROCESSES_MAX.min(all.len()));
    for (_, pid) in all {
        let Some(status) = machine.proc_text(&format!("{pid}/status")) else {
            continue; // ended meanwhile
        };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let comm = field("Name:").unwrap_or_default().trim().to_owned();
        for (key, name) in FIELDS {
            let kib =
                field(key).and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
            let Some(kib) = kib.filter(|kib| *kib > 0) else {
                continue;
            };
            let mut reading = out.level(name, kib * 1024);
            reading.pid = pid;
            reading.comm.clone_from(&comm);
            out.read.rss.push(reading);
        }
    }
    if !rest.is_empty() {
        let reading = out.level("other_processes", rest.iter().map(|(bytes, _)| bytes).sum());
        out.read.rss.push(reading);
    }
}

//! The whole machine: stalls, reclaim, swap, compaction, memory.

use super::{Changes, Out, pairs, stalls};
use crate::events::machine::Machine;

/// Counters of `vmstat` that tell of short memory or of moving it. A name that ends in `_` stands for all zones or kinds.
const VMSTAT: &[&str] = &[
    "pgfault",
    "pgmajfault",
    "pgscan_kswapd",
    "pgscan_direct",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "workingset_refault_anon",
    "workingset_refault_file",
    "pswpin",
    "pswpout",
    "allocstall_",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "oom_kill",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_pages_migrated",
    "pgmigrate_success",
    "thp_fault_fallback",
];
/// Levels of `meminfo`.
const MEMINFO: &[(&str, &str)] = &[
    ("MemTotal:", "total"),
    ("MemAvailable:", "available"),
    ("AnonPages:", "anon"),
    ("Cached:", "file"),
    ("Shmem:", "shmem"),
    ("Slab:", "slab"),
    ("SwapTotal:", "swap_total"),
    ("SwapFree:", "swap_free"),
];

pub(super) fn read(machine: &Machine, changes: &mut Changes, out: &mut Out) {
    for resource in ["memory", "io", "cpu"] {
        let text = machine.proc_text(&format!("pressure/{resource}"));
        for (kind, total) in stalls(&text.unwrap_or_default()) {
            let name = format!("psi.{resource}.{kind}");
            if let Some(stalled) = changes.of("", &name, total) {
                let reading = out.change(&name, stalled, "ns");
                out.read.pressure.push(reading);
            }
        }
    }
    let text = machine.proc_text("vmstat").unwrap_or_default();
    for name in VMSTAT {
        let is_it = |key: &str| match name.strip_suffix('_') {
            Some(start) => key.starts_with(start),
            None => key == *name,
        };
        let mut found = pairs(&text).filter(|(key, _)| is_it(key)).peekable();
        if found.peek().is_none() {
            continue; // a kernel without it
        }
        let total = found.map(|(_, value)| value).sum();
        let name = name.trim_end_matches('_');
        if let Some(change) = changes.of("", name, total) {
            let reading = out.change(name, change, "events");
            out.read.pressure.push(reading);
        }
    }
    let text = machine.proc_text("meminfo").unwrap_or_default();
    for (key, name) in MEMINFO {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(kib) = kib {
            let reading = out.level(name, kib.saturating_mul(1024));
            out.read.rss.push(reading);
        }
    }
}

//! Names of events that the file does not name, as perf makes them up.

use std::fmt::Write as _;

use crate::{Attr, attr_kind};

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// Caches with their bits of valid operations: 0 load, 1 store, 2 prefetch.
const CACHES: [(&str, u8); 7] = [
    ("L1-dcache", 0b111),
    ("L1-icache", 0b101),
    ("LLC", 0b111),
    ("dTLB", 0b111),
    ("iTLB", 0b001),
    ("branch", 0b001),
    ("node", 0b111),
];
const CACHE_OPS: [(&str, &str); 3] = [
    ("load", "loads"),
    ("store", "stores"),
    ("prefetch", "prefetches"),
];

/// The name perf gives an event without one. Tracepoints are named by the file's tracing data;
/// without that they are an `unknown tracepoint`.
pub fn event_name(attr: &Attr) -> String {
    let nth = |names: &[&str], unknown: &str| {
        let index = usize::try_from(attr.config).ok();
        index
            .and_then(|index| names.get(index))
            .map_or_else(|| unknown.to_owned(), ToString::to_string)
    };
    let name = match attr.kind {
        attr_kind::HARDWARE => nth(&HARDWARE, "unknown-hardware"),
        attr_kind::SOFTWARE => nth(&SOFTWARE, "unknown-software"),
        attr_kind::HW_CACHE => cache_name(attr.config),
        attr_kind::RAW => format!("raw {:#x}", attr.config),
        attr_kind::BREAKPOINT => breakpoint_name(attr),
        attr_kind::TRACEPOINT => return "unknown tracepoint".to_owned(),
        kind => return format!("unknown attr type: {kind}"),
    };
    name + &modifiers(attr)
}

fn cache_name(config: u64) -> String {
    let byte = |shift: u32| usize::try_from((config >> shift) & 0xff).unwrap_or_default();
    let Some((cache, valid_ops)) = CACHES.get(byte(0)) else {
        return "unknown-ext-hardware-cache-type".to_owned();
    };
    let Some((op, ops)) = CACHE_OPS.get(byte(8)) else {
        return "unknown-ext-hardware-cache-op".to_owned();
    };
    if byte(16) > 1 {
        return "unknown-ext-hardware-cache-result".to_owned();
    }
    if valid_ops & (1 << byte(8)) == 0 {
        return "invalid-cache".to_owned();
    }
    if byte(16) == 1 {
        format!("{cache}-{op}-misses")
    } else {
        format!("{cache}-{ops}")
    }
}

fn breakpoint_name(attr: &Attr) -> String {
    let mut name = format!("mem:{:#x}:", attr.config1);
    for (bit, letter) in [(1, 'r'), (2, 'w'), (4, 'x')] {
        if attr.bp_type & bit != 0 {
            name.push(letter);
        }
    }
    name
}

/// What follows the colon: who is counted, how precisely.
fn modifiers(attr: &Attr) -> String {
    let flags = attr.flags;
    let mut letters = String::new();
    let some_excluded = flags.exclude_kernel() || flags.exclude_user() || flags.exclude_hv();
    if some_excluded {
        let modes = [
            (flags.exclude_kernel(), 'k'),
            (flags.exclude_user(), 'u'),
            (flags.exclude_hv(), 'h'),
        ];
        letters.extend(
            modes
                .iter()
                .filter(|(excluded, _)| !excluded)
                .map(|(_, letter)| letter),
        );
    }
    let precise = usize::from(flags.precise_ip());
    letters.extend(std::iter::repeat_n('p', precise));
    let guests_excluded_by_default = some_excluded || precise > 0;
    if flags.exclude_host() || flags.exclude_guest() == guests_excluded_by_default {
        let sides = [(flags.exclude_host(), 'H'), (flags.exclude_guest(), 'G')];
        letters.extend(
            sides
                .iter()
                .filter(|(excluded, _)| !excluded)
                .map(|(_, letter)| letter),
        );
    }
    let mut out = String::new();
    if !letters.is_empty() {
        let _ = write!(out, ":{letters}"); // writing to a String cannot fail
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AttrFlags;

    #[track_caller]
    fn check(kind: u32, config: u64, flags: AttrFlags, expected: &str) {
        let attr = Attr {
            kind,
            config,
            flags,
            config1: 0x40_1000,
            bp_type: 3,
            ..Attr::default()
        };
        assert_eq!(event_name(&attr), expected);
    }

    #[test]
    fn events_are_named_as_perf_names_them() {
        let host = AttrFlags::default().with_exclude_guest(true);
        let user = host.with_exclude_kernel(true).with_exclude_hv(true);
        check(attr_kind::HARDWARE, 0, host, "cycles");
        check(attr_kind::HARDWARE, 0, AttrFlags::default(), "cycles:HG");
        check(attr_kind::HARDWARE, 0, user, "cycles:uH");
        check(
            attr_kind::HARDWARE,
            1,
            host.with_precise_ip(2),
            "instructions:ppH",
        );
        check(
            attr_kind::HARDWARE,
            1,
            AttrFlags::default().with_precise_ip(1),
            "instructions:p",
        );
        check(attr_kind::HARDWARE, 99, host, "unknown-hardware");
        check(attr_kind::SOFTWARE, 9, AttrFlags::default(), "dummy:HG");
        check(
            attr_kind::HW_CACHE,
            0x0001_0000,
            host,
            "L1-dcache-load-misses",
        );
        check(attr_kind::HW_CACHE, 0x0000_0102, host, "LLC-stores");
        check(attr_kind::HW_CACHE, 0x0000_0104, host, "invalid-cache");
        check(attr_kind::RAW, 0x1cd, host, "raw 0x1cd");
        check(attr_kind::BREAKPOINT, 0, host, "mem:0x401000:rw");
        check(attr_kind::TRACEPOINT, 5, host, "unknown tracepoint");
        check(6, 0, AttrFlags::default(), "unknown attr type: 6");
    }
}

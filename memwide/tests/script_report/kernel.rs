//! `memwide kernel`: what was done for a process, what interrupted it, and rates that do not depend on the length.

use crate::files::{self, APP, KERNEL, L3, LOADS, One};
use crate::run::fine;
use memwide_perf_abi::{SampleFields, misc};
use serde_json::Value;

/// Markers in callchains: `PERF_CONTEXT_KERNEL`.
const KERNEL_FOLLOWS: u64 = (-128_i64).cast_unsigned();

const FAULT: [u64; 3] = [KERNEL_FOLLOWS, KERNEL + 0x1010, KERNEL + 0x3010];
const TIMER: [u64; 3] = [KERNEL_FOLLOWS, KERNEL + 0x1010, KERNEL + 0x5010];
const UNTOLD: [u64; 2] = [KERNEL_FOLLOWS, KERNEL + 0x1010];

fn one(mode: u16, ip: u64, callchain: &'static [u64]) -> One<'static> {
    let base = One::default();
    One {
        event: LOADS,
        misc: mode,
        fields: SampleFields {
            ip,
            callchain,
            data_src: L3,
            ..base.fields
        },
    }
}

/// A program that only reads, its page faults, a timer, and kernel samples without an entry frame.
fn document(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let mut samples = Vec::new();
    for (count, mode, ip, chain) in [
        (60, misc::USER, APP + 0x100, &[][..]),
        (20, misc::KERNEL, KERNEL + 0x1010, &FAULT[..]),
        (15, misc::KERNEL, KERNEL + 0x1010, &TIMER[..]),
        (5, misc::KERNEL, KERNEL + 0x1010, &UNTOLD[..]),
    ] {
        samples.extend((0..count).map(|_| one(mode, ip, chain)));
    }
    files::write(&file, &samples);
    let kallsyms = folder.path().join("kallsyms");
    let text = "ffffffff81000000 T _text\n\
                ffffffff81001000 T clear_page\n\
                ffffffff81003000 T exc_page_fault\n\
                ffffffff81005000 T sysvec_apic_timer_interrupt\n\
                ffffffff81006000 T _etext\n";
    std::fs::write(&kallsyms, text).unwrap();
    let more = ["--format", "json", "--kallsyms", kallsyms.to_str().unwrap()];
    fine("kernel", &file, &[args, &more].concat()).json()
}

#[test]
fn kernel_loads_are_told_apart_by_whom_they_are_for() {
    let found = document(&[]);
    let event = &found["events"][0];
    assert_eq!(
        (&event["samples"], &event["kernel_samples"]),
        (&100.into(), &40.into())
    );
    let kernel_of = |group: &str| {
        let groups = event["groups"].as_array().unwrap();
        let found = groups.iter().find(|found| found["group"] == group).unwrap();
        found["kernel_samples"].as_u64().unwrap()
    };
    assert_eq!(kernel_of("on behalf"), 20);
    assert_eq!(kernel_of("interrupted"), 15);
    assert_eq!(kernel_of("not told"), 5);
    let rows = found["rows"].as_array().unwrap();
    let sum: u64 = rows
        .iter()
        .map(|row| row["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 100, "every sample has a context");
    let fault = rows.iter().find(|row| row["context"] == "fault").unwrap();
    assert_eq!(
        (&fault["group"], &fault["loads"]),
        (&"on behalf".into(), &20.into())
    );
    // 100 samples a nanosecond apart.
    let seconds = event["seconds"].as_f64().unwrap();
    assert!(
        (fault["rate"].as_f64().unwrap() * seconds - 20.0).abs() < 1e-6,
        "{fault}"
    );
    let functions = found["functions"].as_array().unwrap();
    assert!(
        functions
            .iter()
            .all(|function| function["function"] == "clear_page"),
        "{functions:?}"
    );
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("5 samples of the kernel have no frame"),
        "{notes}"
    );
}

#[test]
fn filters_choose_what_is_judged() {
    let found = document(&["-F", "context=timer"]);
    assert_eq!(found["events"][0]["samples"], 15);
    assert_eq!(found["rows"].as_array().unwrap().len(), 1);
}

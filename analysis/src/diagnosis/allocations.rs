//! Memory that grows, and memory that comes and goes.
//!
//! The heap is one thing of a process: whoever meets its end moves it, so who did says little about who keeps memory, and the
//! heap is judged as a whole, with the movers as evidence. Of other memory each place of the code is judged by itself.

use super::judge::{Looked, PLACES, per_cent};
use super::{Finding, Topic, decide, limits};
use crate::allocs::{Allocs, Kind, Row, Sums};
use crate::counting::{Estimate, rate};
use crate::faults::Faults;
use crate::site::{Asker, Site};
use memwide_model::{Region, Tier};
use std::collections::BTreeMap;

/// What tells who asked.
const STACKS: &str = "`memwide record --call-graph dwarf` copies the stack and tells";

/// What is judged: one place of the code, or the heap of a program.
struct Subject<'a> {
    kind: Kind,
    comm: &'a str,
    sums: Sums,
    /// Bytes and pieces that the process with the most still has.
    largest: (u64, u64),
    /// Processes that still have some.
    processes: u64,
    /// Its places, that with the most first.
    rows: Vec<Row<'a>>,
}

impl Subject<'_> {
    fn is_heap(&self) -> bool {
        self.kind == Kind::Break
    }

    /// Who it is, in a sentence.
    fn who(&self) -> String {
        let Some(row) = self.rows.first().filter(|_| !self.is_heap()) else {
            return format!("the heap of {}", self.comm);
        };
        match row.site.asker {
            Asker::Unknown => format!("a caller of {} that is not known", row.site.function),
            Asker::Known | Asker::Doubtful => row.site.path(),
        }
    }
}

pub(super) fn allocations(allocs: &Allocs, looked: &Looked<'_>) -> Vec<Finding> {
    if looked.seconds <= 0.0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for subject in subjects(allocs) {
        found.extend(growth(&subject, looked));
        found.extend(churn(&subject, looked));
    }
    found.sort_by(|one, other| other.severity().total_cmp(&one.severity()));
    found.truncate(2 * PLACES);
    found
}

fn subjects(allocs: &Allocs) -> Vec<Subject<'_>> {
    let mut all: BTreeMap<(Kind, &str, Option<Site<'_>>), Subject<'_>> = BTreeMap::new();
    for row in allocs.rows() {
        let subject = all.entry(subject_of(&row)).or_insert_with(|| Subject {
            kind: row.kind,
            comm: row.comm,
            sums: Sums::default(),
            largest: (0, 0),
            processes: 0,
            rows: Vec::new(),
        });
        subject.sums.add(&row.sums);
        subject.rows.push(row);
    }
    for (_, kept) in allocs.kept() {
        let mut own: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for kept in kept {
            let sum = own.entry(subject_of(&kept.row)).or_default();
            *sum = (sum.0 + kept.bytes, sum.1 + kept.n);
        }
        for (of, (bytes, n)) in own {
            if let Some(subject) = all.get_mut(&of) {
                subject.largest = subject.largest.max((bytes, n));
                subject.processes += 1;
            }
        }
    }
    let mut all: Vec<Subject<'_>> = all.into_values().collect();
    for subject in &mut all {
        subject
            .rows
            .sort_by_key(|row| std::cmp::Reverse(row.sums.n));
        if !matches!(subject.kind, Kind::Map | Kind::Break) {
            // What the kernel keeps belongs to no process.
            subject.largest = (subject.sums.live_bytes(), subject.sums.n);
        }
    }
    all
}

/// What a row is judged with: of the heap all its movers.
fn subject_of<'a>(row: &Row<'a>) -> (Kind, &'a str, Option<Site<'a>>) {
    let site = (row.kind != Kind::Break).then_some(row.site);
    (row.kind, row.comm, site)
}

fn growth(subject: &Subject<'_>, looked: &Looked<'_>) -> Option<Finding> {
    let sums = subject.sums;
    // Each of many processes may keep what it takes to start.
    let (kept, n) = subject.largest;
    if sums.pattern(subject.kind) != "growth" || kept < limits::GROWTH_BYTES {
        return None;
    }
    let estimate = Estimate::exact(kept as f64 / looked.seconds);
    let is_enough = decide(estimate, limits::GROWTH, n, limits::GROWTH_MIN)?;
    if n < 2 {
        return None; // one allocation grows no further
    }
    let mut evidence = evidence(subject, looked);
    let start = may_be_start(sums, looked);
    evidence.extend(start.clone());
    if subject.processes > 1 {
        evidence.push(format!(
            "this is the process with the most of {}; all together keep {:.1} MiB",
            subject.processes,
            mib(sums.live_bytes())
        ));
    }
    let times = if subject.is_heap() {
        format!("its end was moved {} times", sums.n)
    } else {
        format!("{} times, {} freed", sums.n, sums.freed_n)
    };
    Some(Finding {
        topic: Topic::Growth,
        says: format!(
            "{} keeps {:.1} MiB of the {:.1} MiB allocated ({times})",
            subject.who(),
            mib(kept),
            mib(sums.bytes),
        ),
        estimate,
        unit: "bytes/s",
        n,
        threshold: limits::GROWTH,
        tier: Tier::Software,
        is_sure: is_enough && start.is_none() && looked.lost == 0,
        evidence,
        deeper: "allocs".to_owned(),
    })
}

fn churn(subject: &Subject<'_>, looked: &Looked<'_>) -> Option<Finding> {
    let sums = subject.sums;
    if sums.pattern(subject.kind) != "churn" || subject.kind == Kind::Loader {
        return None;
    }
    let estimate = rate(sums.freed_n, 1.0, looked.seconds)?;
    let is_enough = decide(estimate, limits::CHURN, sums.freed_n, limits::CHURN_MIN)?;
    Some(Finding {
        topic: Topic::Churn,
        says: format!(
            "{} maps and gives back {:.1} MiB in {} pieces: each is zeroed and faulted in anew",
            subject.who(),
            mib(sums.freed_bytes),
            sums.freed_n
        ),
        estimate,
        unit: "allocations/s",
        n: sums.freed_n,
        threshold: limits::CHURN,
        tier: Tier::Software,
        is_sure: is_enough && looked.lost == 0,
        evidence: evidence(subject, looked),
        deeper: "allocs".to_owned(),
    })
}

/// What it rests on, and how much the names are worth.
fn evidence(subject: &Subject<'_>, looked: &Looked<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if subject.is_heap() {
        let all: u64 = subject.rows.iter().map(|row| row.sums.n).sum();
        lines.push(
            "whoever meets the heap's end moves it: many moves tell who allocates".to_owned(),
        );
        lines.extend(subject.rows.iter().take(PLACES).map(|row| {
            let who = match row.site.asker {
                Asker::Unknown => format!("nobody knows who ({})", row.site.function),
                Asker::Known | Asker::Doubtful => row.site.path(),
            };
            let share = row.sums.n as f64 / all.max(1) as f64;
            format!("{} ({} of {all}) by {who}", per_cent(share), row.sums.n)
        }));
    } else {
        lines.extend(subject.rows.iter().map(|row| {
            let path = row.site.path();
            format!("{} in {} of {path}", row.kind.name(), row.comm)
        }));
    }
    let has = |asker| subject.rows.iter().any(|row| row.site.asker == asker);
    if has(Asker::Unknown) {
        lines.push(format!(
            "callchains end within the C library, so who asked is not known; {STACKS}"
        ));
        lines.extend(looked.faults.and_then(|faults| touched(faults, subject)));
    } else if has(Asker::Doubtful) {
        lines.push(format!(
            "callchains by frame pointers may leave out who called the C library; {STACKS}"
        ));
    }
    if looked.lost > 0 {
        lines.push(format!(
            "{} records were lost: calls that free may be missing",
            looked.lost
        ));
    }
    lines
}

/// Who touches such memory first, where nobody knows who asked for it.
fn touched(faults: &Faults, subject: &Subject<'_>) -> Option<String> {
    let region = match subject.kind {
        Kind::Break => Region::Heap,
        Kind::Map => Region::Anonymous,
        _ => return None,
    };
    let rows = faults.rows();
    let of = rows.iter().filter(|row| row.region == region);
    let all: u64 = of.clone().map(|row| row.faults).sum();
    let most = of.max_by_key(|row| row.faults)?;
    Some(format!(
        "such memory is touched first by {}: {} of {all} page faults",
        most.site.path(),
        most.faults
    ))
}

/// Why it may be no more than what a program takes to start.
fn may_be_start(sums: Sums, looked: &Looked<'_>) -> Option<String> {
    if looked.seconds < limits::GROWTH_SECONDS {
        return Some(format!(
            "the recording has {:.3} s only: this may be the program's start",
            looked.seconds
        ));
    }
    let ((begin, end), (_, last)) = looked.window_ns.zip(sums.window_ns)?;
    let whole = end.saturating_sub(begin) as f64;
    let until = last.saturating_sub(begin) as f64;
    (until < whole * limits::GROWTH_UNTIL).then(|| {
        format!(
            "nothing was added after {:.3} of {:.3} s: this may be the program's start",
            until / 1e9,
            whole / 1e9
        )
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

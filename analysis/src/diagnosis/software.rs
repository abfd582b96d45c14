//! What every machine tells: page faults, time off the CPU, pressure.

use super::judge::{PLACES, per_cent};
use super::{Finding, Topic, decide, limits};
use crate::counting::{Estimate, rate};
use crate::faults::{Faults, Kind as FaultKind};
use crate::offcpu::{OffCpu, Reason};
use crate::site::CALLED_BY;
use memwide_model::Tier;
use std::collections::BTreeMap;

pub(super) fn page_faults(faults: &Faults, seconds: f64) -> Vec<Finding> {
    let rows = faults.rows();
    let mut found = Vec::new();
    let totals = faults.totals();
    let has_minor = totals.iter().any(|(kind, ..)| *kind == FaultKind::Minor);
    for (kind, samples, all) in totals {
        let (topic, threshold, least, what) = match kind {
            FaultKind::Major => (
                Topic::MajorFaults,
                limits::MAJOR_FAULTS,
                limits::MAJOR_FAULTS_MIN,
                "major page faults, each waiting for a device,",
            ),
            FaultKind::Exception => continue,
            FaultKind::All if has_minor => continue,
            FaultKind::Minor | FaultKind::All => (
                Topic::PageFaults,
                limits::FAULTS,
                limits::FAULTS_MIN,
                "page faults",
            ),
        };
        let scale = all as f64 / samples.max(1) as f64;
        let Some(estimate) = rate(samples, scale, seconds) else {
            continue;
        };
        let Some(is_sure) = decide(estimate, threshold, all, least) else {
            continue;
        };
        let of: Vec<_> = rows.iter().filter(|row| row.kind == kind).collect();
        let evidence = of.iter().take(PLACES).map(|row| {
            format!(
                "{} ({} faults) in {}, memory: {}",
                per_cent(row.share),
                row.faults,
                row.site.path(),
                row.region.name()
            )
        });
        let mut evidence: Vec<String> = evidence.collect();
        if kind != FaultKind::Major {
            evidence
                .push("memory that is kept and used again, or huge pages, fault less".to_owned());
        }
        found.push(Finding {
            topic,
            says: format!("{:.0} {what} a second, {all} in all", estimate.value),
            estimate,
            unit: "faults/s",
            n: samples,
            threshold,
            tier: Tier::Software,
            is_sure,
            evidence,
            deeper: "faults".to_owned(),
        });
    }
    found
}

/// Sums of spells, in nanoseconds.
#[derive(Debug, Default)]
struct Waited {
    ns: u64,
    n: u64,
    places: BTreeMap<String, u64>,
}

impl Waited {
    fn add(&mut self, ns: u64, n: u64, place: String) {
        self.ns = self.ns.saturating_add(ns);
        self.n += n;
        *self.places.entry(place).or_default() += ns;
    }
}

pub(super) fn waits(off: &OffCpu, seconds: f64) -> Vec<Finding> {
    if seconds <= 0.0 {
        return Vec::new();
    }
    let (mut blocked, mut locks, mut cpu) =
        (Waited::default(), Waited::default(), Waited::default());
    for row in off.rows() {
        let kernel = row.site.kernel.unwrap_or_default();
        let site = &row.site;
        let by = if site.callers.is_empty() {
            ""
        } else {
            CALLED_BY
        };
        let place = format!(
            "{} in {}{by}{} ({kernel})",
            row.comm, site.function, site.callers
        );
        let sums = row.sums;
        if sums.waiting_ns > 0 {
            cpu.add(sums.waiting_ns, sums.n, place.clone());
        }
        let mean_s = sums.total_ns as f64 / 1e9 / sums.n.max(1) as f64;
        if row.reason == Reason::Uninterruptible {
            blocked.add(sums.total_ns, sums.n, place);
        } else if kernel.contains("futex") && mean_s <= limits::LOCK_SPELL_MAX {
            locks.add(sums.total_ns, sums.n, place);
        }
    }
    let rows = [
        (
            Topic::Blocked,
            blocked,
            limits::BLOCKED,
            "wait for devices or the kernel's own locks",
        ),
        (
            Topic::Locks,
            locks,
            limits::LOCKS,
            "wait for locks, in short spells",
        ),
        (
            Topic::CpuWait,
            cpu,
            limits::CPU_WAIT,
            "could run and wait for a CPU",
        ),
    ];
    let finding = |(topic, waited, threshold, what): (Topic, Waited, f64, &str)| {
        let estimate = Estimate::exact(waited.ns as f64 / 1e9 / seconds);
        let is_sure = decide(estimate, threshold, waited.n, limits::SPELLS_MIN)?;
        let mut places: Vec<_> = waited.places.into_iter().collect();
        places.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        Some(Finding {
            topic,
            says: format!("threads {what}: {:.3} s in each second", estimate.value),
            estimate,
            unit: "s/s",
            n: waited.n,
            threshold,
            tier: Tier::Software,
            is_sure,
            evidence: places
                .iter()
                .take(PLACES)
                .map(|(place, ns)| format!("{:.1} ms: {place}", *ns as f64 / 1e6))
                .collect(),
            deeper: "offcpu".to_owned(),
        })
    };
    rows.into_iter().filter_map(finding).collect()
}

pub(super) fn pressure(share: f64) -> Option<Finding> {
    let estimate = Estimate::exact(share);
    decide(estimate, limits::PRESSURE, 1, 1)?;
    Some(Finding {
        topic: Topic::Pressure,
        says: format!(
            "some task waited for memory during {} of the time",
            per_cent(share)
        ),
        estimate,
        unit: "share of time",
        n: 1,
        threshold: limits::PRESSURE,
        tier: Tier::Software,
        is_sure: true,
        evidence: vec!["/proc/pressure/memory, of the whole machine".to_owned()],
        deeper: "rss".to_owned(),
    })
}

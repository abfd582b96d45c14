//! From sums to findings.

use super::accesses::{remote, served_by_memory, sharing, walks};
use super::allocations::allocations;
use super::software::{page_faults, pressure, waits};
use super::{Finding, Memory, Topic, decide, limits};
use crate::allocs::Allocs;
use crate::counting::{Estimate, ratio};
use crate::faults::Faults;
use crate::offcpu::OffCpu;
use crate::sharing::Lines;
use memwide_model::Tier;

/// Places named in evidence.
pub(super) const PLACES: usize = 3;

/// What was looked at; `None`: it was not recorded.
#[derive(Debug, Default)]
pub struct Looked<'a> {
    /// Seconds of the recording.
    pub seconds: f64,
    /// When its first and its last sample were taken, in nanoseconds of the file's clock.
    pub window_ns: Option<(u64, u64)>,
    /// Records lost while recording.
    pub lost: u64,
    /// Precise accesses.
    pub memory: Option<&'a Memory>,
    /// Cache lines.
    pub lines: Option<&'a Lines>,
    /// Page faults.
    pub faults: Option<&'a Faults>,
    /// Allocations; only where every event was recorded.
    pub allocs: Option<&'a Allocs>,
    /// Time off the CPU.
    pub off: Option<&'a OffCpu>,
    /// Counts by event name, scaled.
    pub counts: &'a [(String, f64)],
    /// Share of the time that some task waited for memory.
    pub pressure: Option<f64>,
}

/// What is wrong, the most severe first; what cannot be told stands behind.
pub fn findings(looked: &Looked<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(memory) = looked.memory {
        all.extend(remote(memory));
        all.extend(walks(memory));
        all.extend(served_by_memory(memory));
    }
    if let Some(lines) = looked.lines {
        all.extend(sharing(lines, looked.memory));
    }
    all.extend(counted(looked.counts));
    if let Some(faults) = looked.faults {
        all.extend(page_faults(faults, looked.seconds));
    }
    if let Some(allocs) = looked.allocs {
        all.extend(allocations(allocs, looked));
    }
    if let Some(off) = looked.off {
        all.extend(waits(off, looked.seconds));
    }
    all.extend(looked.pressure.and_then(pressure));
    all.sort_by(|one, other| {
        let by_severity = other.severity().total_cmp(&one.severity());
        other.is_sure.cmp(&one.is_sure).then(by_severity)
    });
    all
}

pub(super) fn per_cent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn share_of(part: u64, whole: u64) -> Option<Estimate> {
    ratio(part as f64, whole as f64)
}

/// Misses as counted, where nothing samples them.
fn counted(counts: &[(String, f64)]) -> Vec<Finding> {
    let get = |name: &str| {
        counts
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, count)| *count)
    };
    let rows = [
        (
            Topic::CacheMisses,
            "LLC-load-misses",
            "LLC-loads",
            limits::CACHE_MISSES,
            "loads of the last-level cache miss",
        ),
        (
            Topic::CacheMisses,
            "cache-misses",
            "cache-references",
            limits::CACHE_MISSES,
            "references to the cache miss",
        ),
        (
            Topic::TlbWalks,
            "dTLB-load-misses",
            "dTLB-loads",
            limits::COUNTED_WALKS,
            "loads miss the data TLB",
        ),
        (
            Topic::RemoteMemory,
            "node-load-misses",
            "node-loads",
            limits::REMOTE,
            "loads from memory go to another node",
        ),
    ];
    let mut found: Vec<Finding> = Vec::new();
    for (topic, part, whole, threshold, what) in rows {
        let (Some(misses), Some(all)) = (get(part), get(whole)) else {
            continue;
        };
        if found.iter().any(|finding| finding.topic == topic) {
            continue; // the same seen by another counter
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are not negative"
        )]
        let n = all as u64;
        let Some(estimate) = ratio(misses, all) else {
            continue;
        };
        if let Some(is_sure) = decide(estimate, threshold, n, limits::SAMPLES_MIN * 100) {
            found.push(Finding {
                topic,
                says: format!("{} of the {what}", per_cent(estimate.value)),
                estimate,
                unit: "share of events",
                n,
                threshold,
                tier: Tier::Event,
                is_sure,
                evidence: vec![format!("{misses:.0} {part} of {all:.0} {whole}")],
                deeper: format!("record -g -e {part}"),
            });
        }
    }
    found
}

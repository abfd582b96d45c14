//! What precise accesses and cache lines tell: near or far, walks, memory, sharing.

use super::judge::{per_cent, share_of};
use super::{Finding, Function, Memory, Topic, decide, limits};
use crate::counting::Estimate;
use crate::interval::share;
use crate::sharing::{Coalesce, Counter, Display, Evidence, Kind as SharingKind, LineRow, Lines};
use memwide_model::Tier;

/// The function with most of something, and the line that says so; `of` tells how much of how many.
fn most(memory: &Memory, of: impl Fn(&Function) -> (u64, u64)) -> Option<(&str, String)> {
    let (name, sums) = memory.most(|sums| of(sums).0 as f64)?;
    let (part, whole) = of(sums);
    (part > 0).then(|| (name, format!("most in {name}: {part} of its {whole}")))
}

pub(super) fn remote(memory: &Memory) -> Option<Finding> {
    let total = memory.total();
    let estimate = share_of(total.remote, total.located)?;
    let is_sure = decide(estimate, limits::REMOTE, total.located, limits::SAMPLES_MIN)?;
    let mut evidence = vec![format!(
        "{} of {} accesses whose locality is known",
        total.remote, total.located
    )];
    let mut deeper = "report --sort symbol,locality".to_owned();
    if let Some((name, line)) = most(memory, |sums| (sums.remote, sums.located)) {
        evidence.push(line);
        deeper = format!("annotate {name} -F locality=remote");
    }
    Some(Finding {
        topic: Topic::RemoteMemory,
        says: format!(
            "{} of the accesses go to memory of another node",
            per_cent(estimate.value)
        ),
        estimate,
        unit: "share of accesses",
        n: total.located,
        threshold: limits::REMOTE,
        tier: Tier::Precise,
        is_sure,
        evidence,
        deeper,
    })
}

pub(super) fn walks(memory: &Memory) -> Option<Finding> {
    let total = memory.total();
    let estimate = share_of(total.walked, total.translated)?;
    let is_sure = decide(
        estimate,
        limits::WALKS,
        total.translated,
        limits::SAMPLES_MIN,
    )?;
    let mut evidence = vec![format!(
        "{} of {} accesses whose translation is known",
        total.walked, total.translated
    )];
    let most = most(memory, |sums| (sums.walked, sums.translated));
    evidence.extend(most.map(|(_, line)| line));
    evidence.push("huge pages or a denser layout need fewer translations".to_owned());
    Some(Finding {
        topic: Topic::TlbWalks,
        says: format!(
            "{} of the accesses walk the page tables",
            per_cent(estimate.value)
        ),
        estimate,
        unit: "share of accesses",
        n: total.translated,
        threshold: limits::WALKS,
        tier: Tier::Precise,
        is_sure,
        evidence,
        deeper: "report --sort symbol,tlb".to_owned(),
    })
}

/// Loads served by memory: in order they ask for bandwidth, in no order they wait for latency.
pub(super) fn served_by_memory(memory: &Memory) -> Option<Finding> {
    let total = memory.total();
    let (value, ci95) = share(total.memory, total.levelled)?;
    let estimate = Estimate { value, ci95 };
    let is_sure = decide(
        estimate,
        limits::MEMORY,
        total.levelled.n,
        limits::SAMPLES_MIN,
    )?;
    let (name, sums) = memory.most(|sums| sums.memory.sum)?;
    let steps = sums.ascending + sums.descending;
    let ordered = share_of(sums.ascending.max(sums.descending), steps);
    let in_order = ordered
        .and_then(|share| share.ci95)
        .is_some_and(|[low, _]| low >= limits::ORDERED);
    let (topic, what) = if in_order {
        (
            Topic::Streaming,
            "in the order of addresses: bandwidth, prefetching and its limits decide",
        )
    } else {
        (
            Topic::MemoryLatency,
            "in no order of addresses: each load waits for memory",
        )
    };
    let mut evidence = vec![
        format!(
            "{} of {} loads whose level is known are served by memory",
            total.memory.n, total.levelled.n
        ),
        format!(
            "most in {name}: {} of its {}",
            sums.memory.n, sums.levelled.n
        ),
    ];
    if let Some(share) = ordered {
        evidence.push(format!(
            "{} of {steps} steps between loads of a thread there go one way",
            per_cent(share.value)
        ));
    }
    Some(Finding {
        topic,
        says: format!(
            "{} of the weight of loads is served by memory, {what}",
            per_cent(estimate.value)
        ),
        estimate,
        unit: "share of load weight",
        n: total.levelled.n,
        threshold: limits::MEMORY,
        tier: Tier::Precise,
        is_sure,
        evidence,
        deeper: format!("annotate {name}"),
    })
}

pub(super) fn sharing(lines: &Lines, memory: Option<&Memory>) -> Vec<Finding> {
    let display = Display::fitting(lines.total());
    let shared = lines.shared(display, Coalesce::default(), true);
    let loads = memory.map_or(0, |memory| memory.total().loads);
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for line in shared.listed.iter().chain(&shared.written) {
        if !seen.contains(&line.address) && line.verdict.kind.is_sharing() {
            seen.push(line.address);
            found.extend(shared_line(line, loads));
        }
        if seen.len() >= 10 {
            break; // the rest is for `c2c`
        }
    }
    found
}

fn shared_line(line: &LineRow<'_>, loads: u64) -> Option<Finding> {
    let verdict = &line.verdict;
    let apart = matches!(
        verdict.kind,
        SharingKind::FalseSharing
            | SharingKind::Mixed
            | SharingKind::StoresApart
            | SharingKind::ReadsApart
    );
    let topic = if apart {
        Topic::FalseSharing
    } else {
        Topic::TrueSharing
    };
    let name = match line.variable {
        Some((name, 0)) => name.to_owned(),
        Some((name, distance)) => format!("{name}{distance:+}"),
        None => format!("{:#x}", line.address),
    };
    let who = |evidence: &Evidence| {
        format!(
            "{} at +{} ({} accesses)",
            evidence.function, evidence.offset, evidence.n
        )
    };
    let mut evidence = Vec::new();
    if let Some(victim) = &verdict.victim {
        evidence.push(format!("suffers: {}", who(victim)));
    }
    if let Some(writer) = &verdict.writer {
        evidence.push(format!("writes: {}", who(writer)));
    }
    evidence.push(format!(
        "{} threads, {} of them write, at {} offsets of the line {:#x}",
        verdict.threads, verdict.writers, verdict.offsets, line.address
    ));
    let deeper = "c2c".to_owned();
    if verdict.contended == 0 {
        // Precise loads that no other cache answered say that it does not hurt; breakpoints know no caches.
        let accesses = line.counts.get(Counter::Entries);
        let blind = loads == 0 && apart && accesses >= limits::CONTENDED_MIN;
        return blind.then(|| Finding {
            topic,
            says: format!(
                "threads use the cache line of {name} at different offsets and write to it; what that costs only a PMU tells"
            ),
            estimate: Estimate::exact(accesses as f64),
            unit: "accesses",
            n: accesses,
            threshold: limits::CONTENDED_MIN as f64,
            tier: Tier::Software,
            is_sure: false,
            evidence,
            deeper,
        });
    }
    let estimate = share_of(verdict.contended, loads.max(verdict.contended))?;
    let is_sure = decide(
        estimate,
        limits::SHARING,
        verdict.contended,
        limits::CONTENDED_MIN,
    )?;
    Some(Finding {
        topic,
        says: format!(
            "{} of the cache line of {name}: {} of the loads are answered by another core's cache",
            verdict.kind.name(),
            per_cent(estimate.value)
        ),
        estimate,
        unit: "share of loads",
        n: verdict.contended,
        threshold: limits::SHARING,
        tier: Tier::Precise,
        is_sure,
        evidence,
        deeper,
    })
}

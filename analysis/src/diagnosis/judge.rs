//! From sums to findings.

use super::{Finding, Memory, Topic, decide, limits};
use crate::allocs::Allocs;
use crate::counting::{Estimate, rate, ratio};
use crate::faults::{Faults, Kind as FaultKind};
use crate::offcpu::{OffCpu, Reason};
use crate::sharing::{Coalesce, Counter, Display, Evidence, Kind as SharingKind, LineRow, Lines};
use crate::significance::Sums;
use memwide_model::Tier;

/// Places named in evidence.
const PLACES: usize = 3;

/// What was looked at; `None`: it was not recorded.
#[derive(Debug, Default)]
pub struct Looked<'a> {
    /// Seconds of the recording.
    pub seconds: f64,
    /// Precise accesses.
    pub memory: Option<&'a Memory>,
    /// Cache lines, and whether breakpoints are all that is known of them.
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
        all.extend(allocations(allocs, looked.seconds));
    }
    if let Some(off) = looked.off {
        all.extend(waits(off, looked.seconds));
    }
    all.extend(looked.pressure.and_then(pressure));
    all.sort_by(|one, other| {
        let order = |finding: &Finding| (finding.is_sure, finding.severity());
        let ((sure, severity), (other_sure, other_severity)) = (order(one), order(other));
        other_sure
            .cmp(&sure)
            .then_with(|| other_severity.total_cmp(&severity))
    });
    all
}

fn per_cent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn share_of(part: u64, whole: u64) -> Option<Estimate> {
    ratio(part as f64, whole as f64)
}

fn remote(memory: &Memory) -> Option<Finding> {
    let total = memory.total();
    let estimate = share_of(total.remote, total.located)?;
    let is_sure = decide(estimate, limits::REMOTE, total.located, limits::SAMPLES_MIN)?;
    let mut evidence = vec![format!(
        "{} of {} accesses whose locality is known",
        total.remote, total.located
    )];
    let mut deeper = "report --sort symbol,locality".to_owned();
    if let Some((name, sums)) = memory
        .most(|sums| sums.remote as f64)
        .filter(|(_, sums)| sums.remote > 0)
    {
        evidence.push(format!(
            "most in {name}: {} of its {}",
            sums.remote, sums.located
        ));
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

fn walks(memory: &Memory) -> Option<Finding> {
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
    if let Some((name, sums)) = memory
        .most(|sums| sums.walked as f64)
        .filter(|(_, sums)| sums.walked > 0)
    {
        evidence.push(format!(
            "most in {name}: {} of its {}",
            sums.walked, sums.translated
        ));
    }
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
fn served_by_memory(memory: &Memory) -> Option<Finding> {
    let total = memory.total();
    let value = total.memory.share(&total.levelled)?;
    let estimate = Estimate {
        value,
        ci95: total.memory.interval(&total.levelled),
    };
    let is_sure = decide(
        estimate,
        limits::MEMORY,
        total.levelled.n,
        limits::SAMPLES_MIN,
    )?;
    let sum = |sums: &Sums| sums.sum;
    let (name, sums) = memory.most(|function| sum(&function.memory))?;
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

fn sharing(lines: &Lines, memory: Option<&Memory>) -> Vec<Finding> {
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
            estimate: Estimate { value: accesses as f64, ci95: None },
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

fn page_faults(faults: &Faults, seconds: f64) -> Vec<Finding> {
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
            FaultKind::Minor => (
                Topic::PageFaults,
                limits::FAULTS,
                limits::FAULTS_MIN,
                "page faults",
            ),
            FaultKind::All if !has_minor => (
                Topic::PageFaults,
                limits::FAULTS,
                limits::FAULTS_MIN,
                "page faults",
            ),
            FaultKind::All | FaultKind::Exception => continue,
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
            let callers = match row.site.callers {
                "" => String::new(),
                callers => format!(" ← {callers}"),
            };
            format!(
                "{} ({} faults) in {}{callers}, memory: {}",
                per_cent(row.share),
                row.faults,
                row.site.function,
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

fn allocations(allocs: &Allocs, seconds: f64) -> Vec<Finding> {
    if seconds <= 0.0 {
        return Vec::new();
    }
    let rows = allocs.rows();
    let mut found = Vec::new();
    let place = |function: &str, callers: &str| match callers {
        "" => function.to_owned(),
        callers => format!("{function} ← {callers}"),
    };
    for row in &rows {
        let sums = row.sums;
        let by = place(row.site.function, row.site.callers);
        let who = allocator(row.site.function, row.site.callers);
        let kept = sums.live_bytes();
        let growth = Estimate {
            value: kept as f64 / seconds,
            ci95: None,
        };
        if sums.pattern(row.kind) == "growth"
            && let Some(is_sure) = decide(growth, limits::GROWTH, sums.n, limits::GROWTH_MIN)
            && (is_sure || sums.n > 1)
        {
            found.push(Finding {
                topic: Topic::Growth,
                says: format!(
                    "{} keeps {:.1} MiB of the {:.1} MiB it allocates ({} times, {} freed)",
                    who,
                    mib(kept),
                    mib(sums.bytes),
                    sums.n,
                    sums.freed_n
                ),
                estimate: growth,
                unit: "bytes/s",
                n: sums.n,
                threshold: limits::GROWTH,
                tier: Tier::Software,
                is_sure,
                evidence: vec![format!("{} in {} of {by}", row.kind.name(), row.comm)],
                deeper: "allocs".to_owned(),
            });
        }
        let churn = rate(sums.freed_n, 1.0, seconds);
        if sums.pattern(row.kind) == "churn"
            && let Some(churn) = churn
            && let Some(is_sure) = decide(churn, limits::CHURN, sums.freed_n, limits::CHURN_MIN)
        {
            found.push(Finding {
                topic: Topic::Churn,
                says: format!(
                    "{} maps and gives back {:.1} MiB in {} pieces: each is zeroed and faulted in anew",
                    who, mib(sums.freed_bytes), sums.freed_n
                ),
                estimate: churn,
                unit: "allocations/s",
                n: sums.freed_n,
                threshold: limits::CHURN,
                tier: Tier::Software,
                is_sure,
                evidence: vec![format!("{} in {} of {by}", row.kind.name(), row.comm)],
                deeper: "allocs".to_owned(),
            });
        }
    }
    found.sort_by(|one, other| other.severity().total_cmp(&one.severity()));
    found.truncate(2 * PLACES);
    found
}

/// The innermost function that is not one of the allocator's own.
fn allocator<'a>(function: &'a str, callers: &'a str) -> &'a str {
    const OWN: [&str; 12] = [
        "mmap",
        "mmap64",
        "brk",
        "sbrk",
        "morecore",
        "sysmalloc",
        "malloc",
        "calloc",
        "realloc",
        "mremap",
        "int_malloc",
        "free",
    ];
    let is_own = |name: &str| {
        OWN.contains(
            &name
                .trim_start_matches("__GI_")
                .trim_start_matches("__libc_")
                .trim_start_matches('_'),
        )
    };
    std::iter::once(function)
        .chain(callers.split(" ← "))
        .find(|name| !name.is_empty() && !is_own(name))
        .unwrap_or(function)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Sums of spells, in nanoseconds.
#[derive(Debug, Default)]
struct Waited {
    ns: u64,
    n: u64,
    places: Vec<(u64, String)>,
}

impl Waited {
    fn add(&mut self, ns: u64, n: u64, place: String) {
        self.ns = self.ns.saturating_add(ns);
        self.n += n;
        self.places.push((ns, place));
    }
}

fn waits(off: &OffCpu, seconds: f64) -> Vec<Finding> {
    if seconds <= 0.0 {
        return Vec::new();
    }
    let (mut blocked, mut locks, mut cpu) =
        (Waited::default(), Waited::default(), Waited::default());
    for row in off.rows() {
        let kernel = row.site.kernel.unwrap_or_default();
        let place = format!("{} in {} ({kernel})", row.comm, row.site.function);
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
    let finding = |(topic, mut waited, threshold, what): (Topic, Waited, f64, &str)| {
        let estimate = Estimate {
            value: waited.ns as f64 / 1e9 / seconds,
            ci95: None,
        };
        let is_sure = decide(estimate, threshold, waited.n, limits::SPELLS_MIN)?;
        waited.places.sort_by(|one, other| other.cmp(one));
        let places = waited.places.into_iter().take(PLACES);
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
                .map(|(ns, place)| format!("{:.1} ms: {place}", ns as f64 / 1e6))
                .collect(),
            deeper: "offcpu".to_owned(),
        })
    };
    rows.into_iter().filter_map(finding).collect()
}

fn pressure(share: f64) -> Option<Finding> {
    let estimate = Estimate {
        value: share,
        ci95: None,
    };
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

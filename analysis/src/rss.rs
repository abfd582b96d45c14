//! What made a process's resident memory grow?
//!
//! `kmem:rss_stat` tells a counter's new value at each change; the difference to the value before is put down to the code that
//! ran, if it was the owner's. The first value of a counter has nothing before it and is the start of its history.

use crate::site::{Site, SiteKey};
use memwide_decoder::local::Wanted;
use memwide_decoder::{NameIx, Names};
use memwide_perf_abi::tracepoint::RssMember;
use rustc_hash::FxHashMap;

/// Most address spaces, and most sites.
const ROWS_MAX: usize = 1 << 20;

/// Kernel functions that every change goes through.
pub const SKIP: [&str; 6] = [
    "trace_",
    "__traceiter_",
    "perf_",
    "mm_trace_rss_stat",
    "add_mm_counter",
    "__bpf_trace",
];

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::COMM | Wanted::CODE | Wanted::FRAMES
}

/// Name of a counter.
pub fn member_name(member: RssMember) -> String {
    match member {
        RssMember::File => "file".to_owned(),
        RssMember::Anonymous => "anonymous".to_owned(),
        RssMember::Swap => "swap".to_owned(),
        RssMember::Shared => "shared".to_owned(),
        RssMember::Other(number) => format!("counter {number}"),
    }
}

/// One change.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Which address space, if the kernel tells.
    pub space: Option<u64>,
    /// The task that ran owns the memory.
    pub own: bool,
    /// Process that ran.
    pub pid: u32,
    /// Its name.
    pub comm: &'a str,
    /// Which counter.
    pub member: RssMember,
    /// Its new value, in bytes.
    pub bytes: i64,
    /// Code that ran.
    pub site: Site<'a>,
}

/// History of one counter of one address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History<'a> {
    /// Process; 0 if no change by its owner was recorded.
    pub pid: u32,
    /// Its name.
    pub comm: &'a str,
    /// Which counter.
    pub member: RssMember,
    /// Changes.
    pub n: u64,
    /// First value, in bytes.
    pub first: i64,
    /// Last value.
    pub last: i64,
    /// Largest value.
    pub peak: i64,
}

/// What a site changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteRow<'a> {
    /// Name of the process.
    pub comm: &'a str,
    /// Code that ran.
    pub site: Site<'a>,
    /// Which counter.
    pub member: RssMember,
    /// Changes.
    pub n: u64,
    /// Sum of increases, in bytes.
    pub grown: i64,
    /// Sum of decreases, in bytes, as a positive number.
    pub shrunk: i64,
}

#[derive(Debug)]
struct Counter {
    pid: u32,
    comm: NameIx,
    n: u64,
    first: i64,
    last: i64,
    peak: i64,
}

type RowKey = (NameIx, SiteKey, RssMember);

/// Counters of all address spaces.
#[derive(Debug, Default)]
pub struct Rss {
    names: Names,
    counters: FxHashMap<(u64, RssMember), Counter>,
    sites: FxHashMap<RowKey, (u64, i64, i64)>,
    /// Changes by somebody else than the owner: reclaim, exit of another, ptrace.
    foreign: u64,
}

impl Rss {
    /// Adds a change.
    pub fn add(&mut self, change: &Change<'_>) {
        let space = change.space.unwrap_or(change.pid.into());
        let key = (space, change.member);
        if self.counters.len() >= ROWS_MAX && !self.counters.contains_key(&key) {
            return;
        }
        self.foreign += u64::from(!change.own);
        let comm = self.names.intern(change.comm);
        let unknown = self.names.intern("[unknown]");
        let mut before = None;
        let counter = self
            .counters
            .entry(key)
            .and_modify(|counter| before = Some(counter.last))
            .or_insert(Counter {
                pid: 0,
                comm: unknown,
                n: 0,
                first: change.bytes,
                last: change.bytes,
                peak: change.bytes,
            });
        counter.n += 1;
        counter.last = change.bytes;
        counter.peak = counter.peak.max(change.bytes);
        if change.own {
            (counter.pid, counter.comm) = (change.pid, comm);
        }
        let Some(before) = before.filter(|_| change.own) else {
            return;
        };
        let key = (
            comm,
            SiteKey::of(&mut self.names, &change.site),
            change.member,
        );
        if self.sites.len() < ROWS_MAX || self.sites.contains_key(&key) {
            let site = self.sites.entry(key).or_default();
            let delta = change.bytes.saturating_sub(before);
            site.0 += 1;
            site.1 = site.1.saturating_add(delta.max(0));
            site.2 = site.2.saturating_sub(delta.min(0));
        }
    }

    /// Changes by somebody else than the owner.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Histories, the largest change first.
    pub fn histories(&self) -> Vec<History<'_>> {
        let history = |((_, member), counter): (&(u64, RssMember), &Counter)| History {
            pid: counter.pid,
            comm: self.names.get(counter.comm),
            member: *member,
            n: counter.n,
            first: counter.first,
            last: counter.last,
            peak: counter.peak,
        };
        let mut all: Vec<History<'_>> = self.counters.iter().map(history).collect();
        all.sort_by_key(|history| {
            let change = history.last.saturating_sub(history.first);
            (
                std::cmp::Reverse(change.unsigned_abs()),
                history.pid,
                history.first,
                history.peak,
            )
        });
        all
    }

    /// Sites, the ones that made most first.
    pub fn sites(&self) -> Vec<SiteRow<'_>> {
        let mut all: Vec<SiteRow<'_>> = self
            .sites
            .iter()
            .map(|((comm, site, member), (n, grown, shrunk))| SiteRow {
                comm: self.names.get(*comm),
                site: site.site(&self.names),
                member: *member,
                n: *n,
                grown: *grown,
                shrunk: *shrunk,
            })
            .collect();
        all.sort_by(|one, other| {
            let net = |row: &SiteRow<'_>| (row.grown - row.shrunk).unsigned_abs();
            net(other)
                .cmp(&net(one))
                .then_with(|| (one.comm, one.site).cmp(&(other.comm, other.site)))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(bytes: i64, function: &'static str, own: bool) -> Change<'static> {
        Change {
            space: Some(7),
            own,
            pid: if own { 10 } else { 99 },
            comm: if own { "prog" } else { "kswapd0" },
            member: RssMember::Anonymous,
            bytes,
            site: Site::named(function),
        }
    }

    #[test]
    fn differences_belong_to_the_code_that_made_them() {
        let mut rss = Rss::default();
        rss.add(&change(4096, "start", true));
        rss.add(&change(12_288, "fill", true));
        rss.add(&change(8192, "", false));
        rss.add(&change(20_480, "fill", true));
        rss.add(&change(4096, "free", true));
        let histories = rss.histories();
        assert_eq!(histories.len(), 1);
        let history = histories[0];
        assert_eq!((history.comm, history.pid), ("prog", 10));
        assert_eq!(
            (history.first, history.last, history.peak),
            (4096, 4096, 20_480)
        );
        let sites = rss.sites();
        let of = |name: &str| {
            let found = sites.iter().find(|row| row.site.function == name).unwrap();
            (found.n, found.grown, found.shrunk)
        };
        assert_eq!(of("fill"), (2, 8192 + 12_288, 0));
        assert_eq!(of("free"), (1, 0, 16_384));
        assert_eq!(rss.foreign(), 1);
    }
}

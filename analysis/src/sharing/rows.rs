//! Lines and sites as they are listed.

use super::counts::{Counter, Counts, Increments};
use super::{Line, Lines, Set, Site, Verdict, judge};
use memwide_decoder::Mode;
use memwide_model::Region;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Lines with a smaller share of what is displayed are not listed, as perf does.
const SHARE_MIN: f64 = 0.001;

/// What lines are listed and ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// Both kinds of HitM.
    Total,
    /// HitM of another core.
    Local,
    /// HitM of another node.
    Remote,
    /// Peer snoops (Arm).
    Peer,
}

impl Display {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Total, Self::Local, Self::Remote, Self::Peer];

    /// Name on the command line, as perf's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "tot",
            Self::Local => "lcl",
            Self::Remote => "rmt",
            Self::Peer => "peer",
        }
    }

    /// What is counted.
    pub fn counter(self) -> Counter {
        match self {
            Self::Total => Counter::Hitm,
            Self::Local => Counter::LocalHitm,
            Self::Remote => Counter::RemoteHitm,
            Self::Peer => Counter::Peer,
        }
    }

    /// perf's choice where none is made: HitM, peer snoops where only those are known.
    pub fn fitting(total: &Counts) -> Self {
        if total.get(Counter::Hitm) == 0 && total.get(Counter::Peer) > 0 {
            Self::Peer
        } else {
            Self::Total
        }
    }
}

/// Whether a line counts as shared, whatever is displayed.
fn is_shared(counts: &Counts) -> bool {
    counts.get(Counter::Hitm) > 0 || counts.get(Counter::Peer) > 0
}

/// What sites are told apart by, besides the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a choice of keys, each by itself"
)]
pub struct Coalesce {
    /// Process.
    pub pid: bool,
    /// Thread.
    pub tid: bool,
    /// Code address.
    pub iaddr: bool,
    /// Object of the code.
    pub dso: bool,
}

impl Default for Coalesce {
    fn default() -> Self {
        Self {
            pid: false,
            tid: false,
            iaddr: true,
            dso: false,
        }
    }
}

impl Coalesce {
    /// From names with commas; the wrong name otherwise.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self {
            iaddr: false,
            ..Self::default()
        };
        for name in text.split(',').map(str::trim) {
            match name {
                "pid" => found.pid = true,
                "tid" => found.tid = true,
                "iaddr" => found.iaddr = true,
                "dso" => found.dso = true,
                "offset" => {}
                other => return Err(other.to_owned()),
            }
        }
        Ok(found)
    }
}

/// Mean of some weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mean {
    /// How many.
    pub n: u64,
    /// Their sum, in the unit of the PMU.
    pub sum: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.n += 1;
        self.sum = self.sum.saturating_add(value);
    }

    fn merge(&mut self, other: Self) {
        self.n += other.n;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The mean; `None` of nothing.
    pub fn value(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }
}

/// Weights by the kind of access, the first that applies, as perf does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Loads that found the line modified far away.
    pub remote_hitm: Mean,
    /// … in another core.
    pub local_hitm: Mean,
    /// Loads served by a peer far away.
    pub remote_peer: Mean,
    /// … near.
    pub local_peer: Mean,
    /// All other loads.
    pub load: Mean,
}

impl Latencies {
    pub(super) fn add(&mut self, increments: &Increments, weight: u64) {
        let has = |counter| increments.iter().any(|found| found == counter);
        let mean = if has(Counter::RemoteHitm) {
            &mut self.remote_hitm
        } else if has(Counter::LocalHitm) {
            &mut self.local_hitm
        } else if has(Counter::RemotePeer) {
            &mut self.remote_peer
        } else if has(Counter::LocalPeer) {
            &mut self.local_peer
        } else if has(Counter::Load) {
            &mut self.load
        } else {
            return;
        };
        mean.add(weight);
    }

    fn merge(&mut self, other: &Self) {
        self.remote_hitm.merge(other.remote_hitm);
        self.local_hitm.merge(other.local_hitm);
        self.remote_peer.merge(other.remote_peer);
        self.local_peer.merge(other.local_peer);
        self.load.merge(other.load);
    }
}

/// What happened at an offset of a line, by what it was asked to be told apart by.
#[derive(Debug, Clone)]
pub struct SiteRow<'a> {
    /// Bytes from the line's start.
    pub offset: u8,
    /// Code address, of the first if not told apart.
    pub ip: u64,
    /// Process, likewise.
    pub pid: u32,
    /// Thread, likewise.
    pub tid: u32,
    /// Counters.
    pub counts: Counts,
    /// Mean weights.
    pub latencies: Latencies,
    /// CPUs it ran on.
    pub cpus: Set,
    /// What each of them did, where that was counted.
    pub by_cpu: BTreeMap<u32, Counts>,
    /// Threads that came here, with the CPU for those that are not known.
    pub threads: Set,
    /// Nodes of the pages.
    pub nodes: Set<u8>,
    /// Physical lines.
    pub physical: Set<u64>,
    /// Function, if one covers the address.
    pub symbol: Option<&'a str>,
    /// Object of the code.
    pub dso: &'a str,
    /// `file:line` of the code, if debug information tells.
    pub source: Option<&'a str>,
    /// The member of a variable at the offset.
    pub member: Option<&'a str>,
    /// Whose code.
    pub mode: Mode,
    /// Loads for which another cache had to answer.
    pub contended: u64,
    /// Stores and locked loads.
    pub writes: u64,
}

/// One line.
#[derive(Debug, Clone)]
pub struct LineRow<'a> {
    /// Address of the line as the first access saw it.
    pub address: u64,
    /// Share of what is displayed, of all samples.
    pub share: f64,
    /// Counters.
    pub counts: Counts,
    /// Object of the data, empty if nothing is mapped.
    pub data_dso: &'a str,
    /// The variable there, and the line's distance from its start in bytes.
    pub variable: Option<(&'a str, i64)>,
    /// What kind of memory it is.
    pub region: Region,
    /// Nodes of the pages.
    pub nodes: Set<u8>,
    /// Physical lines.
    pub physical: Set<u64>,
    /// What the samples prove.
    pub verdict: Verdict,
    /// Where its sites are, and what of them is wanted.
    pub(super) of: (&'a Lines, &'a Line, Counter, Coalesce),
}

impl<'a> LineRow<'a> {
    /// Its sites, by offset: put together when asked for, as there may be many.
    pub fn sites(&self) -> Vec<SiteRow<'a>> {
        let (lines, line, counter, coalesce) = self.of;
        lines.site_rows(&line.sites, counter, coalesce)
    }
}

/// Lines as perf lists them, and those it does not.
#[derive(Debug)]
pub struct Shared<'a> {
    /// How many lines are passed round.
    pub lines: u64,
    /// Their counters together.
    pub counts: Counts,
    /// Those with at least a thousandth of what is displayed (or all), the most first.
    pub listed: Vec<LineRow<'a>>,
    /// Others that several threads use and somebody writes: no cache was seen to pass them, but stores are never seen to.
    pub written: Vec<LineRow<'a>>,
}

impl Lines {
    /// Lines for a display; `all`: also those that are not shared.
    pub fn shared(&self, display: Display, coalesce: Coalesce, all: bool) -> Shared<'_> {
        let mut counts = Counts::default();
        let mut lines = 0;
        for line in self.all.iter().filter(|line| is_shared(&line.counts)) {
            lines += 1;
            counts.merge(&line.counts);
        }
        let counter = display.counter();
        let whole = counts.get(counter) as f64;
        let (mut listed, mut written) = (Vec::new(), Vec::new());
        for line in &self.all {
            let part = line.counts.get(counter) as f64;
            if all || (whole > 0.0 && part / whole >= SHARE_MIN) {
                listed.push(self.row(line, counter, coalesce));
            } else if line.address != 0 && self.threads(line) > 1 && self.is_written(line) {
                written.push(self.row(line, counter, coalesce));
            }
        }
        written.retain(|row| row.verdict.kind.is_sharing());
        let by_counter = |row: &LineRow<'_>| std::cmp::Reverse(row.counts.get(counter));
        listed.sort_by_key(|row| (by_counter(row), row.address));
        let by_stores = |row: &LineRow<'_>| std::cmp::Reverse(row.counts.get(Counter::Store));
        written.sort_by_key(|row| (by_stores(row), row.address));
        Shared {
            lines,
            counts,
            listed,
            written,
        }
    }

    fn sites<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = &'a Site> {
        let sites = line.sites.iter();
        sites.filter_map(|at| self.sites.get(*at as usize))
    }

    fn threads(&self, line: &Line) -> usize {
        let mut threads = Set::default();
        for site in self.sites(line) {
            threads.insert(site.who);
        }
        threads.len()
    }

    fn is_written(&self, line: &Line) -> bool {
        self.sites(line).any(|site| site.writes > 0)
    }

    fn row<'a>(&'a self, line: &'a Line, counter: Counter, coalesce: Coalesce) -> LineRow<'a> {
        let whole = self.total.get(counter);
        let part = line.counts.get(counter);
        let sites: Vec<&Site> = self.sites(line).collect();
        LineRow {
            address: line.address,
            share: if whole == 0 {
                0.0
            } else {
                part as f64 / whole as f64
            },
            counts: line.counts,
            data_dso: self.names.get(line.data_dso),
            variable: line.variable.map(|(name, at)| (self.names.get(name), at)),
            region: line.region,
            nodes: line.nodes.clone(),
            physical: line.physical.clone(),
            verdict: if line.address == 0 {
                judge(&[], &self.names) // no address is no line
            } else {
                judge(&sites, &self.names)
            },
            of: (self, line, counter, coalesce),
        }
    }

    fn site_rows<'a>(
        &'a self,
        sites: &[u32],
        counter: Counter,
        coalesce: Coalesce,
    ) -> Vec<SiteRow<'a>> {
        let mut rows: Vec<SiteRow<'a>> = Vec::new();
        let mut index = FxHashMap::default();
        for place in sites {
            let Some(site) = self.sites.get(*place as usize) else {
                continue;
            };
            let key = &site.key;
            let kept = |is: bool, value: u64| if is { value } else { 0 };
            let dso = self.names.get(site.dso);
            let group = (
                key.offset,
                kept(coalesce.iaddr, key.ip),
                kept(coalesce.pid, key.pid.into()),
                kept(coalesce.tid, key.tid.into()),
                if coalesce.dso { dso } else { "" },
            );
            let at = *index.entry(group).or_insert_with(|| {
                rows.push(SiteRow {
                    offset: key.offset,
                    ip: key.ip,
                    pid: key.pid,
                    tid: key.tid,
                    counts: Counts::default(),
                    latencies: Latencies::default(),
                    cpus: Set::default(),
                    by_cpu: BTreeMap::new(),
                    threads: Set::default(),
                    nodes: Set::default(),
                    physical: Set::default(),
                    symbol: site.symbol.map(|symbol| self.names.get(symbol)),
                    dso,
                    source: site.source.map(|source| self.names.get(source)),
                    member: site.member.map(|member| self.names.get(member)),
                    mode: site.mode,
                    contended: 0,
                    writes: 0,
                });
                rows.len() - 1
            });
            if let Some(row) = rows.get_mut(at) {
                row.counts.merge(&site.counts);
                row.latencies.merge(&site.latencies);
                row.cpus.merge(&site.cpus);
                for cpu in site.cpus.members().iter().filter(|_| self.by_cpu.is_some()) {
                    let by_cpu = self
                        .by_cpu
                        .as_ref()
                        .and_then(|all| all.get(&(*place, *cpu)));
                    let counts = by_cpu.copied().unwrap_or_default();
                    row.by_cpu.entry(*cpu).or_default().merge(&counts);
                }
                row.threads.insert(site.who);
                row.nodes.merge(&site.nodes);
                row.physical.merge(&site.physical);
                row.contended += u64::from(site.contended);
                row.writes += u64::from(site.writes);
            }
        }
        let most = |row: &SiteRow<'_>| std::cmp::Reverse(row.counts.get(counter));
        rows.sort_by_key(|row| (row.offset, most(row), row.ip, row.pid, row.tid));
        rows
    }
}

impl SiteRow<'_> {
    /// Whether perf lists it: it stores, or counts for the display.
    pub fn is_listed(&self, display: Display) -> bool {
        self.counts.get(Counter::Store) > 0 || self.counts.get(display.counter()) > 0
    }
}

//! Whose samples are kept: by namespace, pod, container, service, cgroup, command, process.
//!
//! The kernel takes samples of everybody; those that are not asked for are dropped here, before they are packed, and counted.
//! Mappings and names of all processes are followed on. A sample's cgroup is its own, a process's name that of the moment at
//! which the rings were emptied.

use std::collections::{HashMap, HashSet};

use memwide_perf_abi::{Attr, Comm, RawRecord, Record, Records, sample};
use memwide_proto::v1::{EventDesc, Workload};
use memwide_service::pattern::fits;

use crate::config::{Mode, SelectConfig};

/// Processes whose names are remembered; above it all are forgotten, and unnamed until they are seen again.
const PROCESSES_MAX: usize = 1 << 17;
/// Byte of a sample with its process: behind header, id and instruction.
const PID_AT: usize = 24;

/// A selection that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
    #[error(
        "`{rule}` in select.{list} is no rule; write KEY=PATTERN, where KEY is namespace, pod, container, service, cgroup, \
         comm or pid and * in the pattern stands for anything"
    )]
    Rule { rule: String, list: &'static str },
    #[error("select.modes is empty: nothing would be sampled; name user, kernel or guest")]
    NoMode,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Namespace,
    Pod,
    Container,
    Service,
    Cgroup,
    Comm,
    Pid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    key: Key,
    pattern: String,
}

/// Whether there are rules that a process or a cgroup meets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Meets {
    include: bool,
    exclude: bool,
}

/// Where an event's samples say whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    /// From the end; `None`: they do not say their cgroup.
    cgroup: Option<usize>,
}

/// The rules, and what they say of the processes and cgroups there are.
#[derive(Debug)]
pub(crate) struct Selection {
    include: Vec<Rule>,
    exclude: Vec<Rule>,
    places: HashMap<u64, Places>,
    /// What rules say of processes by their numbers.
    numbers: HashMap<u32, Meets>,
    /// The same by their names.
    processes: HashMap<u32, Meets>,
    /// Of processes that ended: their last samples may come behind the record that says so.
    ended: Vec<u32>,
    cgroups: HashMap<u64, Meets>,
    /// The cgroup in which a process was last seen, for events that do not say it.
    last_cgroup: HashMap<u32, u64>,
}

impl Selection {
    /// `None`: everything is kept.
    pub(crate) fn new(config: &SelectConfig) -> Result<Option<Self>, SelectError> {
        if config.modes.is_empty() {
            return Err(SelectError::NoMode);
        }
        let rules = |texts: &[String], list| -> Result<Vec<Rule>, SelectError> {
            let rule = |text: &String| {
                Rule::parse(text).ok_or_else(|| SelectError::Rule {
                    rule: text.clone(),
                    list,
                })
            };
            texts.iter().map(rule).collect()
        };
        let include = rules(&config.include, "include")?;
        let exclude = rules(&config.exclude, "exclude")?;
        let names = |rules: &[Rule], pid| rules.iter().any(|rule| rule.pid() == Some(pid));
        let pids = include.iter().chain(&exclude).filter_map(Rule::pid);
        let numbers = pids.map(|pid| {
            let (include, exclude) = (names(&include, pid), names(&exclude, pid));
            (pid, Meets { include, exclude })
        });
        let numbers: HashMap<u32, Meets> = numbers.collect();
        Ok((!include.is_empty() || !exclude.is_empty()).then(|| Self {
            include,
            exclude,
            places: HashMap::new(),
            numbers,
            processes: HashMap::new(),
            ended: Vec::new(),
            cgroups: HashMap::new(),
            last_cgroup: HashMap::new(),
        }))
    }

    /// Learns where the samples of an event say whose they are.
    pub(crate) fn know_event(&mut self, desc: &EventDesc) {
        let Ok(attr) = Attr::parse(&desc.attr) else {
            return;
        };
        // Behind the cgroup come at most these, a word each; what is longer is not asked for.
        let behind = [sample::DATA_PAGE_SIZE, sample::CODE_PAGE_SIZE];
        let words = behind.iter().filter(|field| attr.samples(**field)).count();
        let places = Places {
            cgroup: attr.samples(sample::CGROUP).then_some((words + 1) * 8),
        };
        self.places.extend(desc.ids.iter().map(|id| (*id, places)));
    }

    /// Learns who lives in a cgroup, or better.
    pub(crate) fn know_cgroup(&mut self, workload: &Workload) {
        let meets = self.meets(|rule| rule.fits_workload(workload));
        self.cgroups.insert(workload.cgroup_id, meets);
    }

    /// Learns names of processes from side-band records: those of one CPU after those of another. Who has a name already was
    /// made before, whatever comes first.
    pub(crate) fn follow(&mut self, records: &[u8]) {
        let mut named = HashSet::new();
        for record in Records::new(records).map_while(Result::ok) {
            match Record::parse(record) {
                Ok(Record::Comm(comm)) if comm.pid == comm.tid => {
                    self.name(&comm);
                    named.insert(comm.pid);
                }
                Ok(Record::Fork(task)) if task.pid != task.ppid && !named.contains(&task.pid) => {
                    // It has its parent's name until it takes another.
                    if let Some(parent) = self.processes.get(&task.ppid).copied() {
                        self.processes.insert(task.pid, parent);
                    }
                }
                Ok(Record::Exit(task)) if task.pid == task.tid => self.ended.push(task.pid),
                _ => {}
            }
        }
    }

    /// Learns the names in records of a moment that may lie behind: what is known already is newer.
    pub(crate) fn meet(&mut self, records: &[u8]) {
        for record in Records::new(records).map_while(Result::ok) {
            if let Ok(Record::Comm(comm)) = Record::parse(record)
                && comm.pid == comm.tid
                && !self.processes.contains_key(&comm.pid)
            {
                self.name(&comm);
            }
        }
    }

    fn name(&mut self, comm: &Comm<'_>) {
        let name = String::from_utf8_lossy(comm.comm).into_owned();
        self.enter(comm.pid, |rule| rule.fits_name(&name));
    }

    fn enter(&mut self, pid: u32, fits: impl Fn(&Rule) -> bool) {
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
            self.last_cgroup.clear();
        }
        let meets = self.meets(fits);
        self.processes.insert(pid, meets);
    }

    fn meets(&self, fits: impl Fn(&Rule) -> bool) -> Meets {
        Meets {
            include: self.include.iter().any(&fits),
            exclude: self.exclude.iter().any(&fits),
        }
    }

    /// Whether a sample is asked for, by its bytes.
    pub(crate) fn wants_bytes(&mut self, sample: &[u8]) -> bool {
        RawRecord::split_first(sample).is_ok_and(|(record, _)| self.wants(record))
    }

    /// Whether a sample is asked for.
    fn wants(&mut self, record: RawRecord<'_>) -> bool {
        let bytes = record.bytes();
        let pid = bytes.get(PID_AT..).and_then(<[u8]>::first_chunk);
        let Some(pid) = pid.map(|pid| u32::from_le_bytes(*pid)) else {
            return true; // not as our events write it: whose it is stays unknown
        };
        let place = record.first_word().and_then(|id| self.places.get(&id));
        let cgroup = place.and_then(|places| places.cgroup).and_then(|behind| {
            let word = bytes.get(bytes.len().checked_sub(behind)?..)?;
            Some(u64::from_le_bytes(*word.first_chunk()?))
        });
        if let Some(cgroup) = cgroup {
            self.last_cgroup.insert(pid, cgroup);
        }
        let cgroup = cgroup.or_else(|| self.last_cgroup.get(&pid).copied());
        let process = self.processes.get(&pid).copied().unwrap_or_default();
        let home = cgroup.and_then(|id| self.cgroups.get(&id).copied());
        let home = home.unwrap_or_default();
        let number = self.numbers.get(&pid).copied().unwrap_or_default();
        let of = [process, home, number];
        let asked = self.include.is_empty() || of.iter().any(|meets| meets.include);
        asked && !of.iter().any(|meets| meets.exclude)
    }

    /// Takes out of `records` from byte `from` on the samples that are not asked for; tells of each its id.
    pub(crate) fn keep(
        &mut self,
        records: &mut Vec<u8>,
        from: usize,
        mut dropped: impl FnMut(u64),
    ) {
        retain_samples(records, from, |sample| {
            let Ok(record) = RawRecord::new(sample) else {
                return true;
            };
            let wants = self.wants(record);
            if !wants {
                dropped(record.first_word().unwrap_or(0));
            }
            wants
        });
        self.forget_ended();
    }

    /// Samples of all processes that ended have been looked at.
    pub(crate) fn forget_ended(&mut self) {
        for pid in self.ended.drain(..) {
            self.processes.remove(&pid);
            self.last_cgroup.remove(&pid);
        }
    }
}

/// Of `records` from byte `from` on, which are whole, keeps the samples that `keep` wants (and may change), and all that are
/// none.
pub(crate) fn retain_samples(
    records: &mut Vec<u8>,
    from: usize,
    mut keep: impl FnMut(&mut [u8]) -> bool,
) {
    let (mut at, mut end) = (from, from);
    while let Some(rest) = records.get_mut(at..)
        && let Ok((record, _)) = RawRecord::split_first(rest)
    {
        let (size, is_sample) = (record.size(), record.is_sample());
        let sample = rest.get_mut(..size).filter(|_| is_sample);
        if sample.is_none_or(&mut keep) {
            records.copy_within(at..at + size, end);
            end += size;
        }
        at += size;
    }
    records.truncate(end);
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let (key, pattern) = text.split_once('=')?;
        let key = match key.trim() {
            "namespace" => Key::Namespace,
            "pod" => Key::Pod,
            "container" => Key::Container,
            "service" => Key::Service,
            "cgroup" => Key::Cgroup,
            "comm" => Key::Comm,
            "pid" => Key::Pid,
            _ => return None,
        };
        let pattern = pattern.trim();
        let is_right = match key {
            Key::Pid => pattern.parse::<u32>().is_ok(),
            _ => !pattern.is_empty(),
        };
        is_right.then(|| Self {
            key,
            pattern: pattern.to_owned(),
        })
    }

    fn fits_name(&self, comm: &str) -> bool {
        self.key == Key::Comm && fits(&self.pattern, comm)
    }

    fn pid(&self) -> Option<u32> {
        let is_number = self.key == Key::Pid;
        is_number.then(|| self.pattern.parse().ok()).flatten()
    }

    fn fits_workload(&self, of: &Workload) -> bool {
        let text = match self.key {
            Key::Namespace => &of.namespace,
            Key::Pod => &of.pod,
            Key::Container => &of.container,
            Key::Service => &of.service,
            Key::Cgroup => &of.cgroup_path,
            Key::Comm | Key::Pid => return false,
        };
        fits(&self.pattern, text)
    }
}

/// Leaves modes out that are not asked for.
pub(crate) fn restrict(attr: &mut Attr, modes: &[Mode]) {
    let lacks = |mode| !modes.contains(&mode);
    let flags = attr.flags;
    attr.flags = flags
        .with_exclude_user(flags.exclude_user() || lacks(Mode::User))
        .with_exclude_kernel(flags.exclude_kernel() || lacks(Mode::Kernel))
        .with_exclude_guest(flags.exclude_guest() || lacks(Mode::Guest));
    if lacks(Mode::User) && lacks(Mode::Kernel) {
        // Both are those of the host; a guest has its own.
        attr.flags = flags.with_exclude_host(true);
    }
}

#[cfg(test)]
mod tests;

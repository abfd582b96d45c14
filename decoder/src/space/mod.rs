//! Processes, threads and their address spaces over time.

mod area;

pub use area::{Area, Space};

use crate::names::{NameIx, Names};
use crate::symbols::ObjectIx;
use rustc_hash::FxHashMap;

/// Most processes and most threads kept of one source.
const TASKS_MAX: usize = 1 << 18;

/// Most mappings of all processes together.
const AREAS_MAX: usize = 4 << 20;

/// Names of a thread kept; programs rename their threads for progress, the newest matter.
const COMMS_MAX: usize = 32;

/// How records are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// An exec drops the mappings before it. perf keeps them until something is mapped over them.
    pub exec_drops: bool,
    /// A thread without a name of its own shows its process's. perf shows `:tid`.
    pub inherit_comm: bool,
}

impl Policy {
    /// For batches of a live host: what the kernel does.
    pub const KERNEL: Self = Self {
        exec_drops: true,
        inherit_comm: true,
    };
    /// For files: what perf does.
    pub const PERF: Self = Self {
        exec_drops: false,
        inherit_comm: false,
    };
}

#[derive(Debug, Default)]
struct Process {
    space: Space,
    parent: u32,
    /// When it ended.
    exited: Option<u64>,
}

#[derive(Debug, Default)]
struct Thread {
    pid: u32,
    /// Names, each with the time from which it holds; ascending.
    comms: Vec<(u64, NameIx)>,
    exited: Option<u64>,
}

/// All tasks of one source.
#[derive(Debug)]
pub struct Spaces {
    policy: Policy,
    processes: FxHashMap<u32, Process>,
    threads: FxHashMap<u32, Thread>,
    names: Names,
    areas: usize,
    dropped: u64,
}

impl Spaces {
    /// Knows only the idle task.
    pub fn new(policy: Policy) -> Self {
        let mut spaces = Self {
            policy,
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            names: Names::default(),
            areas: 0,
            dropped: 0,
        };
        spaces.comm(0, 0, b"swapper", false, 0);
        spaces
    }

    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        if self.processes.len() >= TASKS_MAX && !self.processes.contains_key(&pid) {
            self.dropped += 1;
            return None;
        }
        Some(self.processes.entry(pid).or_default())
    }

    fn thread(&mut self, pid: u32, tid: u32) -> Option<&mut Thread> {
        if self.threads.len() >= TASKS_MAX && !self.threads.contains_key(&tid) {
            self.dropped += 1;
            return None;
        }
        let thread = self.threads.entry(tid).or_default();
        thread.pid = pid;
        Some(thread)
    }

    /// A mapping appears.
    pub fn map(&mut self, pid: u32, area: Area, time: u64) {
        if self.areas >= AREAS_MAX {
            self.dropped += 1;
            return;
        }
        let Some(process) = self.process(pid) else {
            return;
        };
        let before = process.space.count();
        process.space.insert(area, time);
        let (after, dropped) = (process.space.count(), process.space.take_dropped());
        self.areas = self.areas + after - before;
        self.dropped += dropped;
    }

    /// A task gets a name.
    pub fn comm(&mut self, pid: u32, tid: u32, comm: &[u8], exec: bool, time: u64) {
        let name = self.names.intern(&String::from_utf8_lossy(comm));
        if let Some(thread) = self.thread(pid, tid) {
            thread.exited = None;
            rename(&mut thread.comms, name, time);
        }
        if exec
            && self.policy.exec_drops
            && let Some(process) = self.process(pid)
        {
            let before = process.space.count();
            process.space.clear(time);
            self.areas =
                self.areas + self.processes.get(&pid).map_or(0, |p| p.space.count()) - before;
        }
    }

    /// A task starts. `synthesized`: it was there already, its mappings follow.
    pub fn fork(&mut self, task: Fork, synthesized: bool, time: u64) {
        let Fork {
            pid,
            tid,
            ppid,
            ptid,
        } = task;
        let inherited = self.comm_ix(ppid, ptid, time);
        if let Some(thread) = self.thread(pid, tid) {
            thread.exited = None;
            if let Some(name) = inherited {
                rename(&mut thread.comms, name, time);
            }
        }
        if pid == ppid {
            return;
        }
        let parent = self.processes.get(&ppid).filter(|_| !synthesized);
        let areas: Vec<Area> =
            parent.map_or_else(Vec::new, |parent| parent.space.alive_at(time).collect());
        let Some(process) = self.process(pid) else {
            return;
        };
        process.parent = ppid;
        process.exited = None;
        if pid == tid && !synthesized {
            let before = process.space.count();
            process.space.clear(time);
            let after = process.space.count();
            self.areas = self.areas + after - before;
        }
        for area in areas {
            self.map(pid, area, time);
        }
    }

    /// A task ends; what it had mapped stays for samples that are still to come, until [`Spaces::prune`].
    pub fn exit(&mut self, pid: u32, tid: u32, time: u64) {
        if let Some(thread) = self
            .threads
            .get_mut(&tid)
            .filter(|thread| thread.pid == pid)
        {
            thread.exited = Some(time);
        }
        if pid == tid
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.exited = Some(time);
        }
    }

    /// The mapping of a process at an address at a time.
    pub fn lookup(&mut self, pid: u32, address: u64, time: u64) -> Option<Area> {
        self.processes.get_mut(&pid)?.space.lookup(address, time)
    }

    /// The mappings of a process at a time.
    pub fn areas(&self, pid: u32, time: u64) -> impl Iterator<Item = Area> + '_ {
        let process = self.processes.get(&pid).into_iter();
        process.flat_map(move |process| process.space.alive_at(time))
    }

    /// Stands for what a process has mapped now: equal numbers, equal answers to a lookup. 0 for a process that is not known.
    #[inline]
    pub(crate) fn stamp(&self, pid: u32) -> u64 {
        let process = self.processes.get(&pid);
        process.map_or(0, |process| process.space.stamp())
    }

    /// The mapping that ends where another begins.
    pub fn ending_at(&self, pid: u32, address: u64) -> Option<Area> {
        self.processes.get(&pid)?.space.ending_at(address)
    }

    fn comm_ix(&self, pid: u32, tid: u32, time: u64) -> Option<NameIx> {
        let of = |tid: u32| {
            let comms = &self.threads.get(&tid)?.comms;
            let behind = comms.partition_point(|(from, _)| *from <= time);
            let at = behind.saturating_sub(1);
            comms.get(at).map(|(_, name)| *name)
        };
        of(tid).or_else(|| of(pid).filter(|_| self.policy.inherit_comm))
    }

    /// A task's name at a time; `:tid` when none is known.
    pub fn comm_at(&mut self, pid: u32, tid: u32, time: u64) -> NameIx {
        match self.comm_ix(pid, tid, time) {
            Some(name) => name,
            None => self.names.intern(&format!(":{}", tid.cast_signed())),
        }
    }

    /// Whether a process's main thread has this name at a time.
    pub fn is_named(&self, pid: u32, name: NameIx, time: u64) -> bool {
        self.comm_ix(pid, pid, time) == Some(name)
    }

    /// The text of a name.
    pub fn name(&self, name: NameIx) -> &str {
        self.names.get(name)
    }

    /// Interns another text beside the names of tasks.
    pub fn intern(&mut self, text: &str) -> NameIx {
        self.names.intern(text)
    }

    /// Parent of a process; 0 when not known.
    pub fn parent(&self, pid: u32) -> u32 {
        self.processes.get(&pid).map_or(0, |process| process.parent)
    }

    /// Forgets tasks and mappings that ended before a time.
    pub fn prune(&mut self, horizon: u64) {
        let ended = |exited: Option<u64>| exited.is_some_and(|at| at < horizon);
        self.processes.retain(|_, process| !ended(process.exited));
        self.threads.retain(|_, thread| !ended(thread.exited));
        let kept = self.processes.values_mut().map(|process| {
            process.space.prune(horizon);
            process.space.count()
        });
        self.areas = kept.sum();
    }

    /// What any process has mapped, or had within what is kept.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectIx> + '_ {
        let spaces = self.processes.values().map(|process| &process.space);
        spaces.flat_map(Space::objects)
    }

    /// Records given up by a bound since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Processes kept.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }
}

/// Who started whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// New process, or the process of the new thread.
    pub pid: u32,
    /// New thread.
    pub tid: u32,
    /// Process that started it.
    pub ppid: u32,
    /// Thread that started it.
    pub ptid: u32,
}

fn rename(comms: &mut Vec<(u64, NameIx)>, name: NameIx, time: u64) {
    let at = comms.partition_point(|(from, _)| *from <= time);
    if let Some((_, before)) = at.checked_sub(1).and_then(|at| comms.get(at))
        && *before == name
    {
        return;
    }
    comms.insert(at, (time, name));
    if comms.len() > COMMS_MAX {
        comms.remove(0);
    }
}

#[cfg(test)]
mod tests;

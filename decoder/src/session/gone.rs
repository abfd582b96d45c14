//! Who a task was that has no number any more.
//!
//! A task that ends is switched out for the last time after its number was given back: that sample has pid and tid −1
//! (`perf_event_pid` of the kernel). Its EXIT record was written by itself a moment before, nearly always on the same CPU.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// From the EXIT record to the last switch, in nanoseconds: microseconds, unless it was preempted in between.
const WITHIN_NS: u64 = 100_000_000;

/// Exits kept, of each CPU and of all.
const OF_CPU_MAX: usize = 4096;
const CPUS_MAX: usize = 1 << 13;

/// How long exits are kept behind the newest of their CPU, in nanoseconds: batches may be decoded again.
const KEPT_NS: u64 = 30_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Exit {
    time: u64,
    pid: u32,
    tid: u32,
}

/// Exits by CPU, each in the order of its times.
#[derive(Debug, Default)]
pub(super) struct Gone {
    exits: FxHashMap<u32, VecDeque<Exit>>,
}

impl Gone {
    /// A task ended on a CPU.
    pub(super) fn learn(&mut self, cpu: u32, time: u64, pid: u32, tid: u32) {
        if self.exits.len() >= CPUS_MAX && !self.exits.contains_key(&cpu) {
            return;
        }
        let of_cpu = self.exits.entry(cpu).or_default();
        let is_old = |exit: &Exit| exit.time.saturating_add(KEPT_NS) < time;
        while of_cpu.len() >= OF_CPU_MAX || of_cpu.front().is_some_and(is_old) {
            of_cpu.pop_front();
        }
        of_cpu.push_back(Exit { time, pid, tid });
    }

    /// Process and thread that ended last on a CPU before a time.
    pub(super) fn last(&self, cpu: u32, time: u64) -> Option<(u32, u32)> {
        let mut newest = self.exits.get(&cpu)?.iter().rev();
        let exit = newest.find(|exit| exit.time <= time)?;
        (time - exit.time <= WITHIN_NS).then_some((exit.pid, exit.tid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ended_last_on_the_cpu_is_meant() {
        let mut gone = Gone::default();
        gone.learn(3, 1_000, 7, 8);
        gone.learn(3, 2_000, 7, 9);
        gone.learn(4, 1_900, 5, 5);
        assert_eq!(gone.last(3, 2_500), Some((7, 9)));
        assert_eq!(gone.last(3, 1_999), Some((7, 8)));
        assert_eq!(gone.last(3, 999), None);
        assert_eq!(gone.last(0, 2_500), None);
        assert_eq!(gone.last(3, 2_001 + WITHIN_NS), None, "too long ago");
    }

    #[test]
    fn memory_is_bounded() {
        let mut gone = Gone::default();
        for at in 0..10_000 {
            gone.learn(0, at, 1, 1);
        }
        assert_eq!(gone.exits[&0].len(), OF_CPU_MAX);
        gone.learn(0, 10_000 + KEPT_NS * 2, 1, 2);
        assert_eq!(gone.exits[&0].len(), 1);
        for cpu in 0..20_000 {
            gone.learn(cpu, 1, 1, 1);
        }
        assert_eq!(gone.exits.len(), CPUS_MAX);
    }
}

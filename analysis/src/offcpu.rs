//! Where do threads wait, for how long, for what?
//!
//! A *spell* off the CPU begins when a thread is switched out and ends when it is switched in; its time is the difference, so the
//! estimator is exact where every switch was recorded. A spell that is still open when the recording ends is counted up to then
//! and marked: it is a lower bound. With wakeups recorded the spell is split: *blocked* until somebody woke the thread, *waiting*
//! for a CPU afterwards. A thread that was preempted waits all the time.

use crate::site::{Site, SiteKey};
use crate::stacks::{Frame, Stacks};
use memwide_decoder::local::Wanted;
use memwide_decoder::{NameIx, Names};
use rustc_hash::FxHashMap;

/// Most rows.
const ROWS_MAX: usize = 1 << 20;
/// Most threads off the CPU at once: more than Linux has numbers for.
const OPEN_MAX: usize = 1 << 22;

/// Kernel functions that every switch goes through.
pub const SKIP: [&str; 12] = [
    "__schedule",
    "schedule",
    "io_schedule",
    "preempt_schedule",
    "__cond_resched",
    "_cond_resched",
    "__traceiter_",
    "trace_",
    "perf_",
    "__bpf_trace",
    "irqentry_exit",
    "exit_to_user_mode",
];

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::COMM | Wanted::CODE | Wanted::FRAMES
}

/// Why a thread stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It could have gone on.
    Preempted,
    /// It waits and may be interrupted: sleep, lock, input.
    Sleep,
    /// It waits and may not be interrupted: mostly disks and the kernel's locks.
    Uninterruptible,
    /// It was stopped or is traced.
    Stopped,
    /// An idle thread of the kernel.
    Idle,
    /// It gave up the CPU; the record does not say why.
    Voluntary,
    /// A state without a name.
    Other,
}

impl Reason {
    /// By the state that `sched_switch` tells; `None`: the thread ended.
    pub fn of_state(state: i64) -> Option<Self> {
        const REPORTED: i64 = 0xff;
        Some(match state & REPORTED {
            0 => Self::Preempted,
            state if state & 0x30 != 0 => return None,
            state if state & 0x80 != 0 => Self::Idle,
            state if state & 0x1 != 0 => Self::Sleep,
            state if state & 0x2 != 0 => Self::Uninterruptible,
            state if state & 0xc != 0 => Self::Stopped,
            _ => Self::Other,
        })
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preempted => "preempted",
            Self::Sleep => "sleep",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
            Self::Voluntary => "voluntary",
            Self::Other => "other",
        }
    }
}

/// A thread is switched out.
#[derive(Debug)]
pub struct Out<'a> {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// Which thread.
    pub tid: u32,
    /// Its name.
    pub comm: &'a str,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub site: Site<'a>,
    /// The whole stack, outermost first; may be empty.
    pub stack: &'a [Frame],
    /// It is asked for; others are only followed, so that nobody comes back unseen.
    pub counts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    comm: NameIx,
    site: SiteKey,
    reason: Reason,
}

#[derive(Debug)]
struct Open {
    since_ns: u64,
    woken_ns: Option<u64>,
    key: Key,
    stack: Vec<Frame>,
    counts: bool,
}

/// Sums of spells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Spells.
    pub n: u64,
    /// Their time off the CPU, in nanoseconds.
    pub total_ns: u64,
    /// The longest one.
    pub max_ns: u64,
    /// Of the total: after a wakeup or preemption, waiting for a CPU.
    pub waiting_ns: u64,
    /// Spells still open at the end, counted up to it.
    pub open: u64,
}

/// Spells by thread name, place and reason.
#[derive(Debug, Default)]
pub struct OffCpu {
    names: Names,
    open: FxHashMap<u32, Open>,
    rows: FxHashMap<Key, Sums>,
    stacks: Stacks,
    total: Sums,
    last_ns: u64,
    /// Threads switched in that nobody saw being switched out.
    unmatched: u64,
    /// Spells whose end nobody saw: the thread was switched out again, or ended.
    endless: u64,
    wakeups: u64,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Name of the threads.
    pub comm: &'a str,
    /// Where they stopped.
    pub site: Site<'a>,
    /// Why.
    pub reason: Reason,
    /// How long.
    pub sums: Sums,
}

impl OffCpu {
    /// A thread leaves its CPU.
    pub fn out(&mut self, out: &Out<'_>) {
        self.last_ns = self.last_ns.max(out.time_ns);
        if self.open.len() >= OPEN_MAX {
            return;
        }
        let key = Key {
            comm: self.names.intern(out.comm),
            site: SiteKey::of(&mut self.names, &out.site),
            reason: out.reason,
        };
        let open = Open {
            since_ns: out.time_ns,
            woken_ns: (out.reason == Reason::Preempted).then_some(out.time_ns),
            key,
            stack: out.stack.to_vec(),
            counts: out.counts,
        };
        let before = self.open.insert(out.tid, open);
        self.endless += u64::from(before.is_some_and(|before| before.counts));
    }

    /// A thread ended: it waits for nothing, and came back unseen if it was off the CPU.
    pub fn ended(&mut self, tid: u32, time_ns: u64) {
        self.last_ns = self.last_ns.max(time_ns);
        let before = self.open.remove(&tid);
        self.endless += u64::from(before.is_some_and(|before| before.counts));
    }

    /// Somebody woke a thread.
    pub fn woken(&mut self, tid: u32, time_ns: u64) {
        self.last_ns = self.last_ns.max(time_ns);
        self.wakeups += 1;
        if let Some(open) = self.open.get_mut(&tid) {
            open.woken_ns.get_or_insert(time_ns);
        }
    }

    /// A thread is on a CPU again.
    pub fn back(&mut self, tid: u32, time_ns: u64) {
        self.last_ns = self.last_ns.max(time_ns);
        match self.open.remove(&tid) {
            Some(open) => self.close(&open, time_ns, false),
            None => self.unmatched += 1,
        }
    }

    fn close(&mut self, open: &Open, time_ns: u64, is_open: bool) {
        if !open.counts {
            return;
        }
        let spell = time_ns.saturating_sub(open.since_ns);
        let waiting = open
            .woken_ns
            .map_or(0, |woken| time_ns.saturating_sub(woken).min(spell));
        self.stacks.add(&open.stack, spell / 1_000);
        let one = Sums {
            n: 1,
            total_ns: spell,
            max_ns: spell,
            waiting_ns: waiting,
            open: u64::from(is_open),
        };
        self.total.add(&one);
        if self.rows.len() < ROWS_MAX || self.rows.contains_key(&open.key) {
            self.rows.entry(open.key).or_default().add(&one);
        }
    }

    /// The same, by a record that may say again what is known.
    pub fn back_if_out(&mut self, tid: u32, time_ns: u64) {
        if self.open.contains_key(&tid) {
            self.back(tid, time_ns);
        }
    }

    /// Closes what is still open; to be called after the last record.
    pub fn finish(&mut self) {
        let mut tids: Vec<u32> = self.open.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            if let Some(open) = self.open.remove(&tid) {
                self.close(&open, self.last_ns, true);
            }
        }
    }

    /// All spells.
    pub fn total(&self) -> Sums {
        self.total
    }

    /// Threads switched in that nobody saw being switched out.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Spells whose end nobody saw: the thread was switched out again, or ended. They are in no sum.
    pub fn endless(&self) -> u64 {
        self.endless
    }

    /// Whether blocked and waiting can be told apart.
    pub fn has_wakeups(&self) -> bool {
        self.wakeups > 0
    }

    /// Time off the CPU by stack, in microseconds.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The rows, the longest first.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let row = |(key, sums): (&Key, &Sums)| Row {
            comm: self.names.get(key.comm),
            site: key.site.site(&self.names),
            reason: key.reason,
            sums: *sums,
        };
        let mut rows: Vec<Row<'_>> = self.rows.iter().map(row).collect();
        rows.sort_by(|one, other| {
            let by_time = other.sums.total_ns.cmp(&one.sums.total_ns);
            by_time.then_with(|| {
                (one.comm, one.site, one.reason).cmp(&(other.comm, other.site, other.reason))
            })
        });
        rows
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.n += other.n;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(other.waiting_ns);
        self.open += other.open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(tid: u32, time_ns: u64, reason: Reason) -> Out<'static> {
        Out {
            time_ns,
            tid,
            comm: "prog",
            reason,
            site: Site::named("wait"),
            stack: &[],
            counts: true,
        }
    }

    #[test]
    fn a_spell_lasts_from_out_to_in_and_wakeups_split_it() {
        let mut off = OffCpu::default();
        off.out(&out(1, 1_000, Reason::Sleep));
        off.woken(1, 4_000);
        off.woken(1, 4_500);
        off.back(1, 5_000);
        off.out(&out(1, 6_000, Reason::Sleep));
        off.back(1, 7_000);
        off.finish();
        let rows = off.rows();
        assert_eq!(rows.len(), 1);
        let sums = rows[0].sums;
        assert_eq!(
            (sums.n, sums.total_ns, sums.max_ns, sums.waiting_ns),
            (2, 5_000, 4_000, 1_000)
        );
        assert_eq!(off.total(), sums);
    }

    #[test]
    fn the_preempted_wait_all_the_time_and_the_ended_for_nothing() {
        let mut off = OffCpu::default();
        off.out(&out(1, 0, Reason::Preempted));
        off.back(1, 50);
        off.out(&out(2, 0, Reason::Sleep));
        off.ended(2, 10);
        off.back(3, 60);
        off.finish();
        assert_eq!(
            (off.total().n, off.total().waiting_ns, off.unmatched()),
            (1, 50, 1)
        );
        assert_eq!(off.endless(), 1, "it came back unseen");
    }

    #[test]
    fn a_spell_without_an_end_is_no_time() {
        let mut off = OffCpu::default();
        off.out(&out(1, 100, Reason::Sleep));
        off.out(&out(1, 900, Reason::Sleep));
        off.back_if_out(1, 1_000);
        off.back_if_out(1, 1_100);
        off.finish();
        assert_eq!((off.total().n, off.total().total_ns), (1, 100));
        assert_eq!((off.endless(), off.unmatched()), (1, 0));
    }

    #[test]
    fn threads_not_asked_for_are_followed_but_not_counted() {
        let mut off = OffCpu::default();
        off.out(&Out {
            counts: false,
            ..out(1, 100, Reason::Sleep)
        });
        off.back(1, 200);
        off.finish();
        assert_eq!((off.total().n, off.unmatched()), (0, 0));
    }

    #[test]
    fn what_is_open_at_the_end_is_counted_and_marked() {
        let mut off = OffCpu::default();
        off.out(&out(1, 100, Reason::Uninterruptible));
        off.out(&out(2, 300, Reason::Sleep));
        off.finish();
        let total = off.total();
        assert_eq!((total.open, total.total_ns), (2, 200));
    }

    #[test]
    fn states_are_those_of_the_kernel() {
        for (state, reason) in [
            (0, Some(Reason::Preempted)),
            (0x100, Some(Reason::Preempted)),
            (0x1, Some(Reason::Sleep)),
            (0x2, Some(Reason::Uninterruptible)),
            (0x4, Some(Reason::Stopped)),
            (0x10, None),
            (0x20, None),
            (0x80, Some(Reason::Idle)),
            (0x40, Some(Reason::Other)),
        ] {
            assert_eq!(Reason::of_state(state), reason, "{state:#x}");
        }
    }
}

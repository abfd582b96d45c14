//! What of the kernel's work was done for a process, and what merely interrupted it?
//!
//! A process that only reads memory in user space shows kernel accesses: page faults and system calls are done *on its behalf*;
//! interrupts, timers, softirqs and the profiler's own work *interrupt* it and would have happened beside any other process. Only
//! the entry frames of the kernel's callchain tell them apart ([`Context`]); without chains kernel samples stay
//! [`Group::Untold`].
//!
//! Counts grow with how long was recorded, so counts of two recordings of unequal length cannot be compared: [`Row::rate`] can.

use memwide_decoder::Mode;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_decoder::{NameIx, Names};
use memwide_model::{Context, Op};
use rustc_hash::FxHashMap;

/// Most pairs of context and function told apart.
const FUNCTIONS_MAX: usize = 1 << 20;

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::CODE | Wanted::FRAMES | Wanted::DERIVED
}

/// For whom something was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// For the process: its own code, its system calls, its faults.
    OnBehalf,
    /// It interrupted whoever ran: interrupts, softirqs, timers, NMIs.
    Interrupted,
    /// This profiler's own process.
    Profiler,
    /// The kernel's own threads, and the idle task.
    Kernel,
    /// Kernel mode, and no chain that tells more; guests; unknown.
    Untold,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::OnBehalf,
        Self::Interrupted,
        Self::Profiler,
        Self::Kernel,
        Self::Untold,
    ];

    /// Of a context.
    pub fn of(context: Context) -> Self {
        match context {
            Context::User | Context::Syscall | Context::Fault => Self::OnBehalf,
            Context::Irq | Context::Softirq | Context::Timer | Context::Nmi => Self::Interrupted,
            Context::Profiler => Self::Profiler,
            Context::Idle | Context::Kthread => Self::Kernel,
            _ => Self::Untold,
        }
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnBehalf => "on behalf",
            Self::Interrupted => "interrupted",
            Self::Profiler => "profiler",
            Self::Kernel => "kernel itself",
            Self::Untold => "not told",
        }
    }
}

/// What counts of a sample.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'a> {
    /// Index of its event.
    pub event: usize,
    /// When, in nanoseconds.
    pub time_ns: Option<u64>,
    /// In which context.
    pub context: Context,
    /// Whose code.
    pub mode: Mode,
    /// Load, store, or nothing known.
    pub op: Op,
    /// Events it stands for.
    pub period: u64,
    /// Function that ran.
    pub function: Option<&'a str>,
}

impl<'a> Taken<'a> {
    /// Of a sample.
    pub fn of(sample: &LocalSample<'a>) -> Self {
        Self {
            event: sample.event_index,
            time_ns: sample.time_ns(),
            context: sample.derived.context,
            mode: sample.mode,
            op: sample.derived.class.op,
            period: sample.period,
            function: sample.code().symbol,
        }
    }
}

/// Sums of some samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Samples.
    pub n: u64,
    /// … in kernel mode.
    pub kernel: u64,
    /// Loads among them.
    pub loads: u64,
    /// Stores (and read-modify-writes) among them.
    pub stores: u64,
    /// Σ period, in events.
    pub period: u64,
}

impl Sums {
    fn add(&mut self, sample: &Taken<'_>) {
        self.n += 1;
        self.kernel += u64::from(sample.mode == Mode::Kernel);
        self.loads += u64::from(sample.op == Op::Load);
        self.stores += u64::from(matches!(sample.op, Op::Store | Op::LoadStore));
        self.period = self.period.saturating_add(sample.period);
    }
}

#[derive(Debug, Clone, Default)]
struct Event {
    contexts: FxHashMap<Context, Sums>,
    total: Sums,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

/// Samples by context.
#[derive(Debug, Default)]
pub struct Contexts {
    names: Names,
    events: Vec<Event>,
    functions: FxHashMap<(usize, Context, NameIx), Sums>,
}

/// A context of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Index of the event.
    pub event: usize,
    /// The context.
    pub context: Context,
    /// For whom.
    pub group: Group,
    /// Sums.
    pub sums: Sums,
    /// Share of the event's samples.
    pub share: f64,
    /// Samples a second of the recording; `None` where it has no length.
    pub rate: Option<f64>,
    /// 95 % interval of the rate, if samples come independently.
    pub rate_interval: Option<[f64; 2]>,
}

/// A function in a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    /// Index of the event.
    pub event: usize,
    /// The context.
    pub context: Context,
    /// Its name.
    pub name: &'a str,
    /// Sums.
    pub sums: Sums,
}

impl Contexts {
    /// Adds a sample.
    pub fn add(&mut self, sample: &Taken<'_>) {
        if self.events.len() <= sample.event {
            self.events.resize_with(sample.event + 1, Event::default);
        }
        let Some(event) = self.events.get_mut(sample.event) else {
            return;
        };
        event.total.add(sample);
        event
            .contexts
            .entry(sample.context)
            .or_default()
            .add(sample);
        if let Some(time) = sample.time_ns {
            event.first_ns = Some(event.first_ns.map_or(time, |first| first.min(time)));
            event.last_ns = Some(event.last_ns.map_or(time, |last| last.max(time)));
        }
        let name = self.names.intern(sample.function.unwrap_or("[unknown]"));
        let key = (sample.event, sample.context, name);
        if self.functions.len() < FUNCTIONS_MAX || self.functions.contains_key(&key) {
            self.functions.entry(key).or_default().add(sample);
        }
    }

    /// Seconds from the first to the last sample of an event.
    pub fn seconds(&self, event: usize) -> Option<f64> {
        let event = self.events.get(event)?;
        let length = event.last_ns?.checked_sub(event.first_ns?)?;
        (length > 0).then(|| length as f64 / 1e9)
    }

    /// Everything of an event.
    pub fn total(&self, event: usize) -> Sums {
        self.events
            .get(event)
            .map_or_else(Sums::default, |event| event.total)
    }

    /// Contexts of each event, the ones for the process first.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let seconds = self.seconds(at);
            for context in Context::ALL {
                let Some(sums) = event.contexts.get(context) else {
                    continue;
                };
                let n = sums.n as f64;
                rows.push(Row {
                    event: at,
                    context: *context,
                    group: Group::of(*context),
                    sums: *sums,
                    share: n / event.total.n.max(1) as f64,
                    rate: seconds.map(|seconds| n / seconds),
                    rate_interval: seconds.map(|seconds| {
                        let error = 1.96 * n.sqrt();
                        [(n - error).max(0.0) / seconds, (n + error) / seconds]
                    }),
                });
            }
        }
        rows.sort_by_key(|row| (row.event, row.group, std::cmp::Reverse(row.sums.n)));
        rows
    }

    /// Kernel functions by context, the most first.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let functions = self.functions.iter().filter(|(_, sums)| sums.kernel > 0);
        let mut all: Vec<Function<'_>> = functions
            .map(|((event, context, name), sums)| Function {
                event: *event,
                context: *context,
                name: self.names.get(*name),
                sums: *sums,
            })
            .collect();
        all.sort_by(|one, other| {
            let by_n = other.sums.n.cmp(&one.sums.n);
            one.event
                .cmp(&other.event)
                .then(by_n)
                .then_with(|| one.name.cmp(other.name))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(context: Context, time_ns: u64) -> Taken<'static> {
        Taken {
            event: 0,
            time_ns: Some(time_ns),
            context,
            mode: if context == Context::User {
                Mode::User
            } else {
                Mode::Kernel
            },
            op: Op::Load,
            period: 10,
            function: Some("work"),
        }
    }

    #[test]
    fn every_context_has_its_group_and_all_sum_to_n() {
        let mut contexts = Contexts::default();
        for (at, context) in (0..).zip(Context::ALL) {
            contexts.add(&taken(*context, at * 1_000));
        }
        let rows = contexts.rows();
        let sum: u64 = rows.iter().map(|row| row.sums.n).sum();
        assert_eq!(sum, Context::ALL.len() as u64);
        let of = |group| rows.iter().filter(|row| row.group == group).count();
        let counts: Vec<usize> = Group::ALL.into_iter().map(of).collect();
        assert_eq!(counts, [3, 4, 1, 2, 3]);
    }

    #[test]
    fn rates_do_not_depend_on_how_long_was_recorded() {
        let rate = |seconds: u64| {
            let mut contexts = Contexts::default();
            for at in 0..=seconds * 100 {
                contexts.add(&taken(Context::Fault, at * 10_000_000));
            }
            contexts.rows()[0].rate.unwrap()
        };
        let (short, long) = (rate(2), rate(20));
        assert!((short / long - 1.0).abs() < 0.01, "{short} {long}");
    }

    #[test]
    fn functions_are_those_of_the_kernel() {
        let mut contexts = Contexts::default();
        contexts.add(&taken(Context::User, 1));
        contexts.add(&taken(Context::Syscall, 2));
        contexts.add(&taken(Context::Syscall, 3));
        let functions = contexts.functions();
        assert_eq!(functions.len(), 1);
        assert_eq!((functions[0].name, functions[0].sums.n), ("work", 2));
    }
}

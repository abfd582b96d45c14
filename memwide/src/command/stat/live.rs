//! Counts this machine, a process or a command.

use super::{Measured, Measurement, Printer, count};
use crate::cli::StatArgs;
use crate::command::child::{Ended, Running, target};
use crate::command::gate::Gate;
use crate::command::signals::Signals;
use crate::failure::Failure;
use anyhow::Context as _;
use memwide_collector::{CountOptions, CounterReading, Counters};
use memwide_service::CancellationToken;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Counted unless events are named: what tells of memory.
pub(in crate::command) const MEMORY_GROUP: &str = "task-clock,context-switches,cpu-migrations,page-faults,page-faults:u,page-faults:k,minor-faults,\
     major-faults,cycles,instructions,cache-references,cache-misses,L1-dcache-loads,L1-dcache-loads:u,L1-dcache-loads:k,\
     L1-dcache-load-misses,L1-dcache-stores,L1-dcache-stores:u,L1-dcache-stores:k,LLC-loads,LLC-load-misses,LLC-stores,\
     LLC-store-misses,dTLB-loads,dTLB-load-misses,dTLB-stores,dTLB-store-misses,node-loads,node-load-misses,node-stores,\
     node-store-misses";
/// How often to look whether to stop, or whether a process ended.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(args: &StatArgs) -> Result<(), Failure> {
    if args.command.is_empty() && !args.all && args.pid.is_none() && args.cpus.is_none() {
        return Err(Failure::usage(anyhow::anyhow!(
            "nothing to count: name a command, a process (-p PID), the whole machine (-a), or a file (-i FILE)"
        )));
    }
    let cpus = args.cpus.as_deref().map(cpu_list).transpose()?;
    let signals = Signals::watch()?;
    let mut stat = Stat {
        args,
        cpus: cpus.unwrap_or_default(),
        stop: signals.stop.clone(),
        printer: Printer::new(args)?,
    };
    let (mut all, mut ended) = (None::<Measurement>, Ended::Well);
    for _ in 0..args.repeat.unwrap_or(1) {
        let (one, outcome) = stat.once()?;
        ended = outcome;
        match &mut all {
            None => all = Some(one),
            Some(all) => all.add(one),
        }
        if stat.stop.is_cancelled() {
            break;
        }
    }
    if let (Some(all), None) = (&all, args.interval) {
        stat.printer
            .whole(all, ended.told().into_iter().collect())?;
    }
    drop(stat);
    signals.end_with(ended.code())?;
    let counts = |all: Measurement| all.events.iter().any(|event| event.absent.is_none());
    // With a command the exit code is that of the command, as perf's is.
    if !args.command.is_empty() || all.is_none_or(counts) {
        return Ok(());
    }
    Err(anyhow::anyhow!("none of the events was counted; why stands above").into())
}

struct Stat<'a> {
    args: &'a StatArgs,
    cpus: Vec<u32>,
    stop: CancellationToken,
    printer: Printer<'a>,
}

impl Stat<'_> {
    /// Counts once, from start to end.
    fn once(&mut self) -> Result<(Measurement, Ended), Failure> {
        let args = self.args;
        let gate = Gate::start(&args.command, Stdio::inherit())?;
        let all = args.all || args.cpus.is_some();
        let target = target(args.pid, gate.as_ref(), all);
        let events = if args.events.is_empty() {
            vec![MEMORY_GROUP.to_owned()]
        } else {
            args.events.clone()
        };
        let counters = Counters::open(&CountOptions {
            events,
            target,
            cpus: self.cpus.clone(),
        })
        .map_err(Failure::of_events)?;
        let begin = Instant::now();
        counters.start().context("cannot start the counters")?;
        let command = gate.map(|gate| Running::start(gate, &self.stop));
        let mut command = command.transpose()?;
        let watch = Watch {
            process: args.pid.filter(|_| command.is_none()),
            until: args.timeout.map(|ms| begin + Duration::from_millis(ms)),
        };
        let mut last = (begin, Vec::new());
        if let Some(ms) = args.interval {
            let every = Duration::from_millis(ms);
            let mut next = begin + every;
            while !self.wait(command.as_mut(), &watch, Some(next)) {
                last = self.interval(&counters, begin, &last)?;
                next += every;
                // What could not be printed in time is not caught up with.
                next = next.max(Instant::now());
            }
        } else {
            self.wait(command.as_mut(), &watch, None);
        }
        let seconds = begin.elapsed().as_secs_f64();
        counters.stop().context("cannot stop the counters")?;
        let read = counters.read();
        if let Some(command) = &command {
            command.check_started()?;
        }
        if args.interval.is_some() {
            self.interval(&counters, begin, &last)?;
        }
        let ended = command.map_or(Ended::Well, Running::end);
        Ok((measurement(&counters, &read, &[], seconds), ended))
    }

    /// Waits for the next interval's end (`false`) or for the end of it all.
    fn wait(&self, command: Option<&mut Running>, watch: &Watch, next: Option<Instant>) -> bool {
        let mut command = command;
        loop {
            let now = Instant::now();
            if self.stop.is_cancelled() || watch.is_over(now) {
                return true;
            }
            if next.is_some_and(|next| next <= now) {
                return false;
            }
            let ends = [next, watch.until].into_iter().flatten();
            let left = ends.map(|end| end.saturating_duration_since(now));
            let most = left.fold(LOOK, Duration::min);
            match command.as_deref_mut() {
                Some(running) => {
                    if running.wait(most) {
                        return true;
                    }
                }
                None => std::thread::sleep(most),
            }
        }
    }

    fn interval(
        &mut self,
        counters: &Counters,
        begin: Instant,
        last: &(Instant, Vec<Option<CounterReading>>),
    ) -> Result<(Instant, Vec<Option<CounterReading>>), Failure> {
        let (now, read) = (Instant::now(), counters.read());
        let seconds = now.duration_since(last.0).as_secs_f64();
        let mut one = measurement(counters, &read, &last.1, seconds);
        one.until_s = Some(now.duration_since(begin).as_secs_f64());
        self.printer.interval(&one)?;
        Ok((now, read))
    }
}

/// What else ends the counting.
struct Watch {
    process: Option<u32>,
    until: Option<Instant>,
}

impl Watch {
    fn is_over(&self, now: Instant) -> bool {
        let gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        self.until.is_some_and(|until| until <= now) || self.process.is_some_and(gone)
    }
}

/// What came since it was read before; that is empty at the start.
fn measurement(
    counters: &Counters,
    read: &[Option<CounterReading>],
    before: &[Option<CounterReading>],
    seconds: f64,
) -> Measurement {
    let events = counters.infos().enumerate().map(|(at, info)| {
        let earlier = before.get(at).copied().flatten().map(count);
        let now = read.get(at).copied().flatten().map(count);
        Measured {
            name: info.name.clone(),
            tier: info.tier.name(),
            is_time: info.is_time,
            group: info.group,
            absent: info
                .absent
                .as_ref()
                .map(|absent| (absent.reason.clone(), absent.remedy.clone())),
            runs: now
                .map(|now| now.since(earlier.unwrap_or_default()))
                .into_iter()
                .collect(),
        }
    });
    Measurement {
        events: events.collect(),
        seconds: vec![seconds],
        until_s: None,
    }
}

impl Measurement {
    /// One more run.
    fn add(&mut self, other: Self) {
        for (all, one) in self.events.iter_mut().zip(other.events) {
            all.runs.extend(one.runs);
        }
        self.seconds.extend(other.seconds);
    }
}

/// `0-2,5`.
fn cpu_list(list: &str) -> Result<Vec<u32>, Failure> {
    /// More than any machine has.
    const MAX: u32 = 1 << 16;
    let wrong = || {
        Failure::usage(anyhow::anyhow!(
            "`{list}` is no list of CPUs; write it as 0-2,5"
        ))
    };
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last >= MAX {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

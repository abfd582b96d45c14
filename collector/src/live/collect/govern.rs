//! The budget kept, and the switch that stops all sampling.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memwide_service::clock::instant;
use rustix::time::{ClockId, clock_gettime};

use super::{Collect, Work};
use crate::central;
use crate::events::OpenEvent;
use crate::events::machine::Machine;
use crate::governor::{Governor, Window, period};
use crate::metrics;

/// Between two looks at the cost.
const WINDOW: Duration = Duration::from_secs(5);
/// So many windows have the same periods at most: what beats with one does not beat with the next.
const SAME_PERIOD_WINDOWS: u64 = 12;
/// `avg10` of pressure from which on a machine counts as pressed, in percent.
const PRESSED: [(&str, &str, f64); 2] = [("memory", "full", 10.0), ("cpu", "some", 60.0)];

/// Everything that was counted up to a moment.
#[derive(Debug, Clone, Default)]
struct Totals {
    cpu_ns: u64,
    bytes: u64,
    samples: Vec<u64>,
    lost: u64,
    throttled_ns: u64,
    /// The kernel's own limit.
    rate_max: Option<i64>,
}

/// The governor and what it looks at.
#[derive(Debug)]
pub(super) struct Govern {
    governor: Option<Governor>,
    /// As configured, and shorter while a boost runs.
    own_bases: Vec<u64>,
    bases: Vec<u64>,
    window: u64,
    at: Instant,
    before: Totals,
    /// Time of records that said the kernel throttles, of all batches.
    pub(super) throttled_ns: u64,
    /// Since when nothing is sampled.
    pub(super) stopped: Option<Instant>,
}

impl Govern {
    /// Sets the periods to start with.
    pub(super) fn start(it: &mut Collect) -> std::io::Result<Self> {
        let events = &mut it.set.events;
        let budget = it.config.budget;
        let mut governor = budget.govern.then(|| Governor::new(budget, events.len()));
        let whole = events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.is_whole());
        for (at, _) in whole {
            if let Some(governor) = &mut governor {
                governor.begin_whole(at);
            }
        }
        let bases: Vec<u64> = events.iter().map(|event| event.period).collect();
        let govern = Self {
            governor,
            own_bases: bases.clone(),
            bases,
            window: 0,
            at: instant(),
            before: Totals::default(),
            throttled_ns: 0,
            stopped: None,
        };
        for (at, event) in events.iter_mut().enumerate() {
            if let Some(period) = govern.period(at, event) {
                event.set_period(period)?;
            }
        }
        tell_periods(it);
        Ok(govern)
    }

    /// The period that an event should have now.
    fn period(&self, at: usize, event: &OpenEvent) -> Option<u64> {
        let base = *self.bases.get(at)?;
        let level = self.governor.as_ref()?.level(at);
        // Those that are counted hit by hit wait for a whole period after each change: theirs changes with levels only.
        let turn = if event.is_timed() {
            self.window / SAME_PERIOD_WINDOWS
        } else {
            0
        };
        (base > 0).then(|| period(base, level, turn, event.desc.pmu == "ibs_op"))
    }

    /// The period that an event is configured with.
    pub(super) fn base(&self, at: usize) -> Option<u64> {
        self.own_bases.get(at).copied().filter(|base| *base > 0)
    }

    /// These events have shorter periods from now on, all others those they are configured with.
    pub(super) fn shorten(&mut self, shorter: &[(usize, u64)]) {
        self.bases.clone_from(&self.own_bases);
        for (at, period) in shorter {
            if let Some(base) = self.bases.get_mut(*at) {
                *base = *period;
            }
        }
    }

    /// There will be so many times more samples, at most.
    pub(super) fn brace(&mut self, times: f64) {
        if let Some(governor) = &mut self.governor {
            governor.brace(times);
        }
    }

    /// Looks at the window that ended; events and their new periods.
    fn look(&mut self, now: Totals, at: Instant, cpus: usize, machine: &Machine) {
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let samples = now.samples.iter().zip(&before.samples);
        let window = Window {
            seconds: at.duration_since(self.at).as_secs_f64(),
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            cpu_seconds: Duration::from_nanos(now.cpu_ns.saturating_sub(before.cpu_ns))
                .as_secs_f64(),
            bytes: now.bytes.saturating_sub(before.bytes),
            samples: samples
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            lost: now.lost.saturating_sub(before.lost),
            throttled: now.throttled_ns > before.throttled_ns || now.rate_max < before.rate_max,
            pressed: is_pressed(machine),
        };
        self.at = at;
        self.window += 1;
        let is_first = before.samples.is_empty();
        let Some(governor) = self.governor.as_mut().filter(|_| !is_first) else {
            return;
        };
        let (cost, changed) = governor.step(&window);
        metrics::BUDGET_USED.set_f64(cost.share);
        if changed && cost.share > 1.0 {
            tracing::info!(
                budget_used = cost.share,
                what = cost.what,
                "sampling costs more than its budget, periods become longer"
            );
        }
    }
}

impl Collect {
    /// Who wants nothing sampled.
    fn who_stops(&self) -> Option<&'static str> {
        if self.told.central.is_stopped() {
            Some("central settings")
        } else if self.told.stopped.load(Ordering::Relaxed) {
            Some("SIGUSR1; SIGUSR2 starts it again")
        } else if self.config.stop_file.exists() {
            Some("the file `stop_file`")
        } else {
            None
        }
    }

    fn tell_stopped(&self, stopped: bool) {
        self.told.reporter.update(|status| status.stopped = stopped);
        let events = if stopped { self.set.events.len() } else { 0 };
        metrics::STOPPED.set(events as u64);
    }

    /// Starts the events, unless nothing shall be sampled.
    pub(super) fn start_events(&self, govern: &mut Govern) -> std::io::Result<()> {
        let stops = self.who_stops();
        match stops {
            Some(by) => {
                tracing::warn!(by, "sampling is stopped");
                govern.stopped = Some(instant());
            }
            None => self.set.enable_events()?,
        }
        self.tell_stopped(stops.is_some());
        Ok(())
    }
}

impl Work {
    /// Keeps the budget, once a window; stops and starts sampling as told.
    pub(super) fn govern(&mut self, now: Instant) -> anyhow::Result<()> {
        self.hear();
        let stops = self.it.who_stops();
        if stops.is_none() == self.govern.stopped.is_some() {
            self.switch(stops, now)?;
        }
        if now.duration_since(self.govern.at) < WINDOW || self.govern.stopped.is_some() {
            return Ok(());
        }
        let totals = Totals {
            cpu_ns: thread_cpu_ns(),
            bytes: metrics::PACKED_BYTES.get(),
            samples: self.counts.so_far().map(|(samples, _)| samples).collect(),
            lost: self.counts.so_far().map(|(_, lost)| lost).sum(),
            throttled_ns: self.govern.throttled_ns,
            rate_max: self.it.machine.setting("perf_event_max_sample_rate"),
        };
        let cpus = self.it.set.cpus.len();
        self.govern.look(totals, now, cpus, &self.it.machine);
        let changed = self.due_periods();
        if !changed.is_empty() {
            self.change_periods(&changed, |_| ())?;
        }
        Ok(())
    }

    /// Events that should have another period.
    pub(super) fn due_periods(&self) -> Vec<(usize, u64)> {
        let events = self.it.set.events.iter().enumerate();
        let due = events.filter_map(|(at, event)| {
            let period = self.govern.period(at, event)?;
            (period != event.period).then_some((at, period))
        });
        due.collect()
    }

    /// A batch has one period for each event: it is closed with the old ones while nothing is counted. `between` holds for what
    /// comes after.
    pub(super) fn change_periods(
        &mut self,
        changed: &[(usize, u64)],
        between: impl FnOnce(&mut Self),
    ) -> anyhow::Result<()> {
        let events = |work: &Self| {
            let all = changed
                .iter()
                .filter_map(|(at, _)| work.it.set.events.get(*at));
            let descriptors = all.flat_map(|event| &event.descriptors);
            // Of a CPU that went offline there is nothing to stop.
            descriptors.for_each(|one| drop(one.disable()));
        };
        events(self);
        self.counts.read(&self.it.set.events);
        self.drain();
        self.close()?;
        between(self);
        for (at, period) in changed {
            let Some(event) = self.it.set.events.get_mut(*at) else {
                continue;
            };
            if let Err(error) = event.set_period(*period) {
                tracing::warn!(event = event.desc.name, %error, "its period cannot be changed");
            }
            self.counts.restart(*at);
            event.descriptors.iter().for_each(|one| drop(one.enable()));
        }
        metrics::PERIOD_CHANGES.add(changed.len() as u64);
        tell_periods(&self.it);
        Ok(())
    }

    /// What the centre has said is told with the host's facts.
    fn hear(&mut self) {
        let central = &self.it.told.central;
        let news = central.news();
        if news == std::mem::replace(&mut self.news, news) {
            return;
        }
        let rows = &mut self.it.facts.capabilities;
        rows.retain(|row| row.name != central::ROW);
        rows.extend(central.row());
        let rows = rows.clone();
        self.it
            .told
            .reporter
            .update(|status| status.capabilities = rows);
        self.facts_changed = true;
    }

    /// Starts or stops all sampling; mappings and names are followed on.
    fn switch(&mut self, stops: Option<&'static str>, now: Instant) -> anyhow::Result<()> {
        let Some(by) = stops else {
            self.close()?;
            self.govern.stopped = None;
            self.it.set.enable_events()?;
            tracing::warn!("sampling goes on");
            self.it.tell_stopped(false);
            return Ok(());
        };
        self.end_boost()?;
        self.it.set.disable_events()?;
        self.counts.read(&self.it.set.events);
        self.drain();
        self.close()?;
        self.govern.stopped = Some(now);
        tracing::warn!(by, "sampling is stopped");
        self.it.tell_stopped(true);
        Ok(())
    }

    /// Nanoseconds of this batch in which nothing was sampled.
    pub(super) fn stopped_ns(&self, now: Instant) -> u64 {
        let Some(since) = self.govern.stopped else {
            return 0;
        };
        let since = since.max(self.closed_at);
        u64::try_from(now.duration_since(since).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn tell_periods(it: &Collect) {
    let events = &it.set.events;
    it.told.reporter.update(|status| {
        for (status, event) in status.events.iter_mut().zip(events) {
            status.period = event.period;
        }
    });
}

/// Of this thread alone: in `memwide up` other services share the process.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn is_pressed(machine: &Machine) -> bool {
    PRESSED.iter().any(|(resource, kind, limit)| {
        let text = machine.proc_text(&format!("pressure/{resource}"));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(kind));
        let average = line.and_then(|line| {
            line.split_once("avg10=")?
                .1
                .split(' ')
                .next()?
                .parse::<f64>()
                .ok()
        });
        average.is_some_and(|average| average > *limit)
    })
}

//! What a file holds: the counts that `perf stat record` wrote, or the totals of samples by event.

use super::{Measured, Measurement, Printer};
use crate::cli::StatArgs;
use crate::command::on_file::{Answer, period_unit};
use crate::failure::Failure;
use crate::output::Listing;
use crate::recording::Recording;
use memwide_analysis::counting::{Count, rate};
use memwide_decoder::local::Wanted;
use memwide_perf_abi::file::{EventTable, UserRecord};
use memwide_perf_abi::{Attr, RawRecord, attr_kind, kind};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// Events × CPUs × threads of a file of counts, at most.
const COUNTERS_MAX: usize = 1 << 20;
/// Tag of the interval in a STAT_CONFIG record.
const INTERVAL: u64 = 1;

pub(super) fn run(args: &StatArgs, input: &Path) -> Result<(), Failure> {
    let recording = Recording::open(input, &args.symbols)?;
    let events = recording.events().clone();
    let mut rounds = Rounds::default();
    let left = recording.each_record(|record| {
        rounds.add(record, &events);
        if record.kind == kind::SAMPLE && !rounds.any {
            return ControlFlow::Break(()); // perf writes counts or samples, never both
        }
        ControlFlow::Continue(())
    })?;
    if !rounds.any {
        return samples(args, input);
    }
    let mut printer = Printer::new(args)?;
    let mut notes = left.lines();
    if rounds.refused > 0 {
        notes.push(format!(
            "{} counts left out: there are too many counters",
            rounds.refused
        ));
    }
    if rounds.has_intervals {
        for one in rounds.intervals(&events) {
            printer.interval(&one)?;
        }
    } else {
        printer.whole(&rounds.total(&events), notes)?;
    }
    left.say();
    left.into_result()
}

/// The counters of a file of counts, as read in rounds.
#[derive(Debug, Default)]
struct Rounds {
    any: bool,
    has_intervals: bool,
    /// By event, CPU and thread, what it had counted when last read.
    last: BTreeMap<(usize, u32, u32), Count>,
    /// Sums by event at the end of each round, and its time.
    done: Vec<(u64, Vec<Count>)>,
    refused: u64,
}

impl Rounds {
    fn add(&mut self, record: &RawRecord<'_>, events: &EventTable) {
        if !matches!(
            record.kind,
            kind::STAT | kind::STAT_ROUND | kind::STAT_CONFIG
        ) {
            return;
        }
        self.any = true;
        match UserRecord::parse(*record) {
            Some(UserRecord::StatConfig(words)) => {
                let terms = (0..words.len() / 2)
                    .filter_map(|at| words.get(2 * at).zip(words.get(2 * at + 1)));
                self.has_intervals |= terms
                    .into_iter()
                    .any(|(tag, value)| tag == INTERVAL && value > 0);
            }
            Some(UserRecord::Stat {
                id,
                cpu,
                thread,
                values: [value, enabled_ns, running_ns],
            }) => {
                let key = events.index_of_id(id).map(|event| (event, cpu, thread));
                let Some(key) =
                    key.filter(|key| self.last.len() < COUNTERS_MAX || self.last.contains_key(key))
                else {
                    self.refused += 1;
                    return;
                };
                let count = Count {
                    value,
                    enabled_ns,
                    running_ns,
                };
                self.last.insert(key, count);
            }
            Some(UserRecord::StatRound { time, .. }) if self.done.len() < COUNTERS_MAX => {
                let mut sums = vec![Count::default(); events.events().len()];
                for ((event, ..), count) in &self.last {
                    if let Some(sum) = sums.get_mut(*event) {
                        *sum = sum.and(*count);
                    }
                }
                self.done.push((time, sums));
            }
            _ => {}
        }
    }

    /// What came in each round.
    fn intervals<'a>(&'a self, events: &'a EventTable) -> impl Iterator<Item = Measurement> + 'a {
        (0..self.done.len()).filter_map(move |at| {
            let (time, sums) = self.done.get(at)?;
            let before = at.checked_sub(1).and_then(|at| self.done.get(at));
            let since = before.map_or(0, |(time, _)| *time);
            let runs = sums.iter().enumerate().map(|(at, sum)| {
                let earlier = before.and_then(|(_, sums)| sums.get(at).copied());
                sum.since(earlier.unwrap_or_default())
            });
            let seconds = time.saturating_sub(since) as f64 / 1e9;
            let mut one = measurement(events, runs, seconds);
            one.until_s = Some(*time as f64 / 1e9);
            Some(one)
        })
    }

    /// All rounds together.
    fn total(&self, events: &EventTable) -> Measurement {
        let none = (0, vec![Count::default(); events.events().len()]);
        let (time, sums) = self.done.last().unwrap_or(&none);
        measurement(events, sums.iter().copied(), *time as f64 / 1e9)
    }
}

fn measurement(
    events: &EventTable,
    counts: impl Iterator<Item = Count>,
    seconds: f64,
) -> Measurement {
    let events = events
        .events()
        .iter()
        .zip(counts)
        .map(|(event, count)| Measured {
            name: event.name.clone(),
            tier: tier(&event.attr),
            is_time: event.attr.is_clock(),
            group: None,
            absent: None,
            runs: vec![count],
        });
    Measurement {
        events: events.collect(),
        seconds: vec![seconds],
        until_s: None,
    }
}

fn tier(attr: &Attr) -> &'static str {
    match attr.kind {
        attr_kind::SOFTWARE | attr_kind::TRACEPOINT | attr_kind::BREAKPOINT => "software",
        _ => "event",
    }
}

/// Totals of samples.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    samples: u64,
    period: u64,
    first: Option<u64>,
    last: u64,
}

/// Totals by event of a file of samples.
fn samples(args: &StatArgs, input: &Path) -> Result<(), Failure> {
    let recording = Recording::open(input, &args.symbols)?.wanting(Wanted::NOTHING);
    let events = recording.events().clone();
    let mut totals = vec![Total::default(); events.events().len()];
    let left = recording.each(|sample| {
        if let Some(total) = totals.get_mut(sample.event_index) {
            total.samples += 1;
            total.period = total.period.saturating_add(sample.period);
            if let Some(time) = sample.time_ns() {
                total.first = Some(total.first.map_or(time, |first| first.min(time)));
                total.last = total.last.max(time);
            }
        }
        ControlFlow::Continue(())
    })?;
    let used = events.events().iter().zip(&totals);
    let unit = period_unit(
        used.filter(|(_, total)| total.samples > 0)
            .map(|(event, _)| event),
    );
    let rate_unit = format!("{unit}/s");
    let mut listing = Listing::default()
        .column("samples", "samples", "n")
        .column("period", "sum of periods", unit)
        .column("event", "event", "")
        .column("seconds", "first to last", "s")
        .column("rate", "rate", &rate_unit)
        .wide("rate_low", "low", &rate_unit)
        .wide("rate_high", "high", &rate_unit)
        .programs("tier", "");
    for (event, total) in events.events().iter().zip(&totals) {
        if total.samples == 0 && event.name.starts_with("dummy") {
            continue;
        }
        let seconds = total.first.map(|first| (total.last - first) as f64 / 1e9);
        let scale = total.period as f64 / total.samples.max(1) as f64;
        let rate = seconds.and_then(|seconds| rate(total.samples, scale, seconds));
        let interval = rate.and_then(|rate| rate.ci95);
        listing.push(vec![
            total.samples.into(),
            total.period.into(),
            event.name.as_str().into(),
            seconds.into(),
            rate.map(|rate| rate.value).into(),
            interval.map(|[low, _]| low).into(),
            interval.map(|[_, high]| high).into(),
            tier(&event.attr).into(),
        ]);
    }
    let notes = vec![
        "a file of samples: its sums of periods estimate counts; `perf stat record` writes counts"
            .to_owned(),
    ];
    Answer {
        listing,
        notes,
        json: json!({"estimator": "sum of periods"}),
        ..Answer::default()
    }
    .finish_as(left, args.format, usize::MAX)
}

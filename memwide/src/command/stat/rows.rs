//! Counts as rows: count, rate, relation to other events, share of time counted.

use super::{Measured, Measurement};
use crate::command::missing::by_reason;
use crate::output::{Document, Listing, Section, grouped, width};
use memwide_analysis::counting::{Estimate, RELATIONS, Spread, rate, ratio, spread};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Nanoseconds of a millisecond, in which times are shown.
const NS_IN_MS: f64 = 1e6;
const NS_IN_S: f64 = 1e9;

impl Measured {
    /// Mean over the runs of the scaled counts; times in milliseconds. `None`: never counted.
    pub(super) fn value(&self) -> Option<f64> {
        let mean = self.spread()?.mean.value;
        Some(if self.is_time { mean / NS_IN_MS } else { mean })
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.is_time { "msec" } else { "" }
    }

    /// Standard error of the mean, as a share of it.
    pub(super) fn relative_error(&self) -> Option<f64> {
        self.spread()?.relative_error
    }

    fn mean_interval(&self) -> Option<[f64; 2]> {
        let by = if self.is_time { NS_IN_MS } else { 1.0 };
        // Nothing is counted less than never.
        let bounds = self.spread()?.mean.ci95?;
        Some(bounds.map(|bound| bound.max(0.0) / by))
    }

    /// Of the scaled counts; `None`: never counted.
    fn spread(&self) -> Option<Spread> {
        let runs: Option<Vec<f64>> = self.runs.iter().map(|run| run.scaled()).collect();
        spread(&runs?)
    }

    /// It was not on a counter all the time.
    fn took_turns(&self) -> bool {
        let share = self.total().running_share();
        share.is_some_and(|share| share < 1.0)
    }

    /// Events a second of elapsed time.
    fn rate(&self, seconds: f64) -> Option<Estimate> {
        let total = self.total();
        if self.is_time {
            return None;
        }
        let scaled = total.scaled()?;
        let scale = if total.value == 0 {
            1.0
        } else {
            scaled / total.value as f64
        };
        rate(total.value, scale, seconds)
    }
}

/// A count seen as part of another, or a time as CPUs in use.
#[derive(Debug, Clone)]
pub(super) struct Related {
    pub(super) estimate: Estimate,
    /// What it is of.
    pub(super) of: &'static str,
    pub(super) is_share: bool,
    /// Events the interval rests on.
    n: f64,
}

impl Related {
    fn text(&self) -> String {
        let value = self.estimate.value;
        if self.is_share {
            format!("{:.2} % {}", value * 100.0, self.of)
        } else {
            format!("{value:.3} {}", self.of)
        }
    }

    fn json(&self) -> Value {
        json!({
            "value": self.estimate.value, "unit": if self.is_share { "ratio" } else { self.of },
            "of": self.of, "n": self.n, "ci95": self.estimate.ci95,
        })
    }
}

impl Measurement {
    /// Elapsed seconds of all runs.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.seconds.iter().sum()
    }

    pub(super) fn related(&self, event: &Measured) -> Option<Related> {
        let scaled = event.total().scaled()?;
        if event.is_time {
            let seconds = self.elapsed_s();
            return (seconds > 0.0).then(|| Related {
                estimate: Estimate::exact(scaled / NS_IN_S / seconds),
                of: "CPUs in use",
                is_share: false,
                n: scaled,
            });
        }
        let relation = RELATIONS.iter().find(|known| known.part == event.name)?;
        let whole = self
            .events
            .iter()
            .find(|known| known.name == relation.whole)?;
        let whole = whole.total().scaled()?;
        let mut estimate = ratio(scaled, whole)?;
        if !relation.is_share {
            estimate.ci95 = None;
        }
        Some(Related {
            estimate,
            of: relation.name,
            is_share: relation.is_share,
            n: whole,
        })
    }
}

/// Rows of all events; of one interval among several with its end.
pub(super) fn listing(measurement: &Measurement, named: bool) -> Listing {
    let seconds = measurement.elapsed_s();
    let repeated = measurement.seconds.len() > 1;
    let mut listing = Listing::default();
    if measurement.until_s.is_some() {
        listing = listing.column("until_s", "until", "s");
    }
    listing = listing
        .column("count", "count", "")
        .column("unit", "unit", "")
        .column("event", "event", "");
    listing = if repeated {
        listing
            .column("relative_error", "±", "ratio")
            .wide("count_low", "low", "")
            .wide("count_high", "high", "")
    } else {
        listing
            .programs("relative_error", "ratio")
            .programs("count_low", "")
            .programs("count_high", "")
    };
    listing = listing
        .column("rate", "rate", "events/s")
        .wide("rate_low", "low", "events/s")
        .wide("rate_high", "high", "events/s")
        .column("relation", "relation", "")
        .programs("related", "");
    listing = if measurement.events.iter().any(Measured::took_turns) {
        listing.column("running_share", "running", "ratio")
    } else {
        listing.programs("running_share", "ratio")
    };
    listing = listing
        .programs("n", "n")
        .programs("enabled_ns", "ns")
        .programs("running_ns", "ns")
        .programs("tier", "")
        .programs("group", "")
        .programs("reason", "")
        .programs("remedy", "");
    for event in &measurement.events {
        if event.absent.is_some() && !named {
            continue;
        }
        listing.push(row(measurement, event, seconds));
    }
    listing
}

fn row(measurement: &Measurement, event: &Measured, seconds: f64) -> Vec<Value> {
    let total = event.total();
    let is_counted = event.absent.is_none();
    let value = event.value();
    let mut row: Vec<Value> = Vec::new();
    if let Some(until) = measurement.until_s {
        row.push(until.into());
    }
    let related = measurement.related(event);
    let relation = match (&event.absent, value) {
        (Some((reason, _)), _) => Some(format!("not counted: {reason}")),
        (None, None) => Some("not counted: it never ran".to_owned()),
        _ => related.as_ref().map(Related::text),
    };
    let rate = event.rate(seconds);
    let interval = rate.and_then(|rate| rate.ci95);
    let mean = event.mean_interval();
    row.extend([
        number(value),
        event.unit().into(),
        event.name.as_str().into(),
        event.relative_error().into(),
        mean.map(|[low, _]| low).into(),
        mean.map(|[_, high]| high).into(),
        rate.map(|rate| rate.value).into(),
        interval.map(|[low, _]| low).into(),
        interval.map(|[_, high]| high).into(),
        relation.into(),
        related.map(|related| related.json()).into(),
        total.running_share().filter(|_| is_counted).into(),
        is_counted.then_some(total.value).into(),
        is_counted.then_some(total.enabled_ns).into(),
        is_counted.then_some(total.running_ns).into(),
        event.tier.into(),
        event.group.into(),
        event
            .absent
            .as_ref()
            .map(|(reason, _)| reason.as_str())
            .into(),
        event
            .absent
            .as_ref()
            .map(|(_, remedy)| remedy.as_str())
            .into(),
    ]);
    row
}

/// A whole number stays one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number below 2^53"
)]
fn number(value: Option<f64>) -> Value {
    match value {
        Some(value) if value.fract() == 0.0 && (0.0..9.0e15).contains(&value) => {
            (value as u64).into()
        }
        value => value.into(),
    }
}

/// Everything, with what is not there named below.
pub(super) fn document(measurement: &Measurement, named: bool, more: Vec<String>) -> Document {
    let all = listing(measurement, true);
    let table = if named {
        all.table(width())
    } else {
        listing(measurement, false).table(width())
    };
    let seconds = measurement.elapsed_s();
    let elapsed = spread(&measurement.seconds);
    let mut notes = Vec::new();
    if let Some(elapsed) = elapsed {
        let mut line = format!("{:.6} s elapsed", elapsed.mean.value);
        if let Some([low, high]) = elapsed.mean.ci95 {
            // Writing to a string cannot fail.
            let _ = write!(
                line,
                " in the mean of {} runs (95 %: {:.6} to {high:.6})",
                elapsed.n,
                low.max(0.0)
            );
        }
        notes.push(line);
    }
    let turns = measurement.events.iter();
    let turns = turns.filter(|event| event.took_turns()).count();
    if turns > 0 {
        notes.push(format!(
            "{turns} events took turns on the counters: their counts are scaled from the share of time in `running`"
        ));
    }
    notes.extend(groups(&measurement.events));
    if !named {
        notes.extend(absent(measurement));
    }
    notes.extend(more);
    let missing: Vec<&str> = measurement
        .events
        .iter()
        .filter(|event| event.absent.is_some())
        .map(|event| event.name.as_str())
        .collect();
    Document {
        sections: vec![Section {
            table,
            ..Section::default()
        }],
        json: json!({
            "rows": all.json(),
            "elapsed_s": elapsed.map(|elapsed| elapsed.mean.value),
            "elapsed_ci95": elapsed.and_then(|elapsed| elapsed.mean.ci95.map(|[low, high]| [low.max(0.0), high])),
            "seconds": seconds,
            "runs": measurement.seconds.len(),
            "not_counted": missing,
            "rate_basis": "elapsed time; intervals of independent events (Poisson)",
            "notes": notes,
        }),
        csv: all.csv(),
        notes,
    }
}

/// What was counted together, a line a group.
fn groups(events: &[Measured]) -> Vec<String> {
    let mut groups: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.absent.is_none()) {
        if let Some(group) = event.group {
            groups.entry(group).or_default().push(&event.name);
        }
    }
    let each = groups.into_values();
    each.map(|names| format!("counted together, at the same time: {}", names.join(", ")))
        .collect()
}

/// What is not counted, by reason.
fn absent(measurement: &Measurement) -> Vec<String> {
    let absent = measurement.events.iter().filter_map(|event| {
        let (reason, remedy) = event.absent.as_ref()?;
        Some((event.name.as_str(), reason.as_str(), remedy.as_str()))
    });
    by_reason(absent)
        .map(|(names, why)| format!("not counted: {names}: {why}"))
        .collect()
}

/// An interval as lines that stand below those of the interval before.
pub(super) fn write_interval(
    out: &mut impl Write,
    measurement: &Measurement,
    is_first: bool,
) -> io::Result<()> {
    if is_first {
        writeln!(
            out,
            "{:>12}  {:>15} {:<4}  {:<26} {:>15}  relation",
            "until s", "count", "unit", "event", "events/s"
        )?;
        for line in absent(measurement) {
            writeln!(out, "# {line}")?;
        }
    }
    let until = measurement.until_s.unwrap_or_default();
    for event in measurement
        .events
        .iter()
        .filter(|event| event.absent.is_none())
    {
        let count = match event.value() {
            Some(value) if event.is_time => format!("{value:.3}"),
            Some(value) => whole(value),
            None => "–".to_owned(),
        };
        let rate = event.rate(measurement.elapsed_s());
        let rate = rate.map_or_else(String::new, |rate| {
            if rate.value < 1000.0 {
                format!("{:.1}", rate.value)
            } else {
                whole(rate.value)
            }
        });
        let related = measurement.related(event).map(|related| related.text());
        writeln!(
            out,
            "{until:>12.6}  {count:>15} {:<4}  {:<26} {rate:>15}  {}",
            event.unit(),
            event.name,
            related.unwrap_or_default()
        )?;
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are not negative, and rounded"
)]
fn whole(value: f64) -> String {
    grouped(value.round().max(0.0) as u64)
}

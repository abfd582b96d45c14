//! Answers of `flamegraph` in the formats of other tools. Pure.

mod firefox;
mod numbered;
mod otlp;
mod pprof;
mod speedscope;

pub(crate) use firefox::firefox;
pub(crate) use otlp::otlp;
pub(crate) use pprof::pprof;
pub(crate) use speedscope::speedscope;

use std::fmt::Write as _;

use crate::answer::{Answer, Value};
use crate::ask::{Estimator, Range};

/// What was asked, as an export tells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    /// What values are of, or are shown first.
    pub(crate) by: Estimator,
    pub(crate) range: Range,
    /// Filters by name, each with the values it takes.
    pub(crate) filters: Vec<(&'static str, Vec<String>)>,
}

/// What stands for paths that were cut.
const OTHER: &str = "[other]";

/// Paths of one event and kind of latency, whose sums are never added to those of another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Tier, name, kind of latency.
    pub(crate) tier: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// What its values are of.
    pub(crate) unit: String,
    pub(crate) paths: Vec<Path>,
}

impl Event {
    /// Name, tier, kind of latency if there is one, estimator and unit.
    fn title(&self, by: &str) -> String {
        let kind = match self.kind.as_str() {
            "" | "none" => String::new(),
            kind => format!(", latency {kind}"),
        };
        format!("{} ({}{kind}, {by} [{}])", self.name, self.tier, self.unit)
    }
}

/// A unit in the words that pprof and OpenTelemetry share.
fn units(unit: &str) -> &str {
    match unit {
        "samples" | "events" => "count",
        "ns" => "nanoseconds",
        other => other,
    }
}

/// To the nearest whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sums are far below 2^63; what is above or below is clamped"
)]
fn whole(real: f64) -> u64 {
    real.max(0.0).round() as u64
}

/// One call path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    /// Outermost first.
    pub(crate) frames: Vec<String>,
    pub(crate) samples: u64,
    /// Of the estimator asked for.
    pub(crate) value: f64,
}

/// Unit of an estimator in a row; of estimated events each row says it.
fn unit(answer: &Answer, row: &[Value], by: &str) -> String {
    let column = answer.column(by).and_then(|at| answer.columns.get(at));
    let unit = column.map_or("", |column| column.unit);
    let told = unit
        .strip_prefix("of ")
        .and_then(|name| answer.column(name));
    told.and_then(|at| row.get(at))
        .map_or_else(|| unit.to_owned(), Value::to_string)
}

/// The paths of an answer by event, in the order of the answer; `by` is a column. Events that it cannot weigh are left out.
pub(crate) fn events(answer: &Answer, by: &str) -> Vec<Event> {
    let place = |name: &str| answer.column(name);
    let cell = |row: &'_ [Value], name: &str| place(name).and_then(|at| row.get(at).cloned());
    let text = |row: &[Value], name: &str| {
        cell(row, name)
            .map(|value| value.to_string())
            .unwrap_or_default()
    };
    let mut events: Vec<Event> = Vec::new();
    for row in &answer.rows {
        let [tier, name, kind] = ["tier", "event", "latency_kind"].map(|name| text(row, name));
        let value = match cell(row, by) {
            Some(Value::Real(real)) => real,
            Some(Value::Number(number)) => number as f64,
            _ => continue,
        };
        let path = Path {
            frames: text(row, "path").split(';').map(str::to_owned).collect(),
            samples: match cell(row, "samples") {
                Some(Value::Number(samples)) => samples,
                _ => 0,
            },
            value,
        };
        match events
            .iter_mut()
            .find(|event| event.tier == tier && event.name == name && event.kind == kind)
        {
            Some(event) => event.paths.push(path),
            None => events.push(Event {
                tier,
                name,
                kind,
                unit: unit(answer, row, by),
                paths: vec![path],
            }),
        }
    }
    events
}

/// One line a path, `frame;frame value`, of an answer of one event. What was cut is a last line where values are samples.
pub(crate) fn folded(answer: &Answer, by: &str) -> String {
    let mut out = String::new();
    for path in events(answer, by).iter().flat_map(|event| &event.paths) {
        let _ = writeln!(out, "{} {:.0}", line(&path.frames), path.value);
    }
    if let Some(other) = answer.other.as_ref().filter(|_| by == "samples") {
        let _ = writeln!(out, "{OTHER} {}", other.samples);
    }
    out
}

/// Frames without what would end a line.
fn line(frames: &[String]) -> String {
    frames
        .join(";")
        .replace(|sign: char| sign.is_control(), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Column, Completeness, Other};

    pub(super) fn selection(by: Estimator) -> Selection {
        Selection {
            by,
            range: Range {
                since_ns: 1_000_000_000,
                until_ns: 3_000_000_000,
            },
            filters: vec![("host", vec!["a".to_owned(), "b".to_owned()])],
        }
    }

    pub(super) fn answer() -> Answer {
        let row = |path: &str, event: &str, samples, weight, est_events| {
            vec![
                Value::Text(path.to_owned()),
                Value::Text("precise".to_owned()),
                Value::Text(event.to_owned()),
                Value::Number(samples),
                Value::Real(weight),
                est_events,
                Value::Text("events".to_owned()),
            ]
        };
        Answer {
            columns: vec![
                Column::text("path"),
                Column::text("tier"),
                Column::text("event"),
                Column::number("samples", "samples"),
                Column::real("weight", "cycles"),
                Column::real("est_events", "of est_unit"),
                Column::text("est_unit"),
            ],
            rows: vec![
                row("main;f", "loads", 3, 90.0, Value::Null),
                row("main;f\n g", "loads", 2, 7.0, Value::Null),
                row("main", "stores", 5, 0.0, Value::Real(500.0)),
            ],
            parts: Vec::new(),
            other: Some(Other {
                rows: 1,
                samples: 4,
            }),
            completeness: Completeness::default(),
            source_table: "samples",
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn folded_lines_are_paths_and_count_what_was_cut() {
        let mut of_loads = answer();
        of_loads.rows.pop();
        assert_eq!(
            folded(&of_loads, "samples"),
            "main;f 3\nmain;f\u{fffd} g 2\n[other] 4\n"
        );
        assert_eq!(
            folded(&of_loads, "weight"),
            "main;f 90\nmain;f\u{fffd} g 7\n"
        );
    }

    #[test]
    fn events_that_an_estimator_cannot_weigh_are_left_out_and_units_are_told() {
        let events = events(&answer(), "est_events");
        assert_eq!(events.len(), 1);
        assert_eq!(
            (events[0].name.as_str(), events[0].unit.as_str()),
            ("stores", "events")
        );
    }
}

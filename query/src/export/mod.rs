//! Answers of `flamegraph` in the formats of other tools. Pure.

mod pprof;
mod speedscope;

pub(crate) use pprof::pprof;
pub(crate) use speedscope::speedscope;

use std::fmt::Write as _;

use crate::answer::{Answer, Value};

/// What stands for paths that were cut.
const OTHER: &str = "[other]";

/// Paths of one event, whose sums are never added to those of another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Tier and name.
    pub(crate) tier: String,
    pub(crate) name: String,
    pub(crate) paths: Vec<Path>,
}

/// One call path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    /// Outermost first.
    pub(crate) frames: Vec<String>,
    pub(crate) samples: u64,
    /// Of the estimator asked for.
    pub(crate) value: f64,
    /// Σ weight, cycles.
    pub(crate) weight: f64,
}

/// The paths of an answer by event, in the order of the answer; `by` is a column.
pub(crate) fn events(answer: &Answer, by: &str) -> Vec<Event> {
    let place = |name: &str| answer.column(name);
    let cell = |row: &'_ [Value], name: &str| place(name).and_then(|at| row.get(at).cloned());
    let text = |row: &[Value], name: &str| {
        cell(row, name)
            .map(|value| value.to_string())
            .unwrap_or_default()
    };
    let real = |row: &[Value], name: &str| match cell(row, name) {
        Some(Value::Real(real)) => real,
        Some(Value::Number(number)) => number as f64,
        _ => 0.0,
    };
    let mut events: Vec<Event> = Vec::new();
    for row in &answer.rows {
        let (tier, name) = (text(row, "tier"), text(row, "event"));
        let path = Path {
            frames: text(row, "path").split(';').map(str::to_owned).collect(),
            samples: match cell(row, "samples") {
                Some(Value::Number(samples)) => samples,
                _ => 0,
            },
            value: real(row, by),
            weight: real(row, "weight"),
        };
        match events
            .iter_mut()
            .find(|event| event.tier == tier && event.name == name)
        {
            Some(event) => event.paths.push(path),
            None => events.push(Event {
                tier,
                name,
                paths: vec![path],
            }),
        }
    }
    events
}

/// One line a path, `frame;frame value`; with several events each has a root of its own. What was cut is a last line where
/// values are samples.
pub(crate) fn folded(answer: &Answer, by: &str) -> String {
    let events = events(answer, by);
    let several = events.len() > 1;
    let mut out = String::new();
    for event in &events {
        for path in &event.paths {
            if several {
                let _ = write!(out, "{};", event.name.replace(';', ":"));
            }
            let _ = writeln!(out, "{} {:.0}", line(&path.frames), path.value);
        }
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

    pub(super) fn answer() -> Answer {
        let row = |path: &str, event: &str, samples, weight| {
            vec![
                Value::Text(path.to_owned()),
                Value::Text("precise".to_owned()),
                Value::Text(event.to_owned()),
                Value::Number(samples),
                Value::Real(weight),
            ]
        };
        Answer {
            columns: vec![
                Column::text("path"),
                Column::text("tier"),
                Column::text("event"),
                Column::number("samples", "samples"),
                Column::real("weight", "cycles"),
            ],
            rows: vec![
                row("main;f", "loads", 3, 90.0),
                row("main;f\n g", "loads", 2, 7.0),
                row("main", "stores", 5, 0.0),
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
    fn folded_lines_keep_events_apart_and_count_what_was_cut() {
        assert_eq!(
            folded(&answer(), "samples"),
            "loads;main;f 3\nloads;main;f\u{fffd} g 2\nstores;main 5\n[other] 4\n"
        );
        assert_eq!(
            folded(&answer(), "weight"),
            "loads;main;f 90\nloads;main;f\u{fffd} g 7\nstores;main 0\n"
        );
    }
}

//! Call paths with what was sampled in them, apart for each event: what flame graphs and exports are made of.
//!
//! A graph adds its paths up, so it is of one event: events, tiers, units and kinds of latency are never added.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{Grouped, Output};
use super::samples::conditions;
use super::sites::{FRAME, frames};
use super::table::{COUNTED_EVENTS, Source, Table};
use super::{Ask, AskError, Extra, Given, LIMIT_MAX, PartPlan, Plan, Values};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// The question `flamegraph`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flamegraph {
    /// Range, filters, rows.
    pub filter: Filter,
    /// What widths are, and what orders paths.
    pub by: Estimator,
    /// Paths of one event alone: of the best tier, then of most samples.
    pub one_event: bool,
}

/// Events of the part `events`.
const EVENTS_MAX: u32 = 100;

impl Ask for Flamegraph {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[
        BY,
        Extra {
            name: "one_event",
            about: "Paths of one event alone, as a graph needs them: of those that `by` can weigh, that of the best tier with most samples; the part `events` has the others.",
            values: Values::Flag,
        },
    ];
    const LIMIT: u32 = LIMIT_MAX;

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
            one_event: given.flag("one_event")?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let with = [
            "tier",
            "event",
            "latency_kind",
            "stack_id",
            "function",
            "module",
        ];
        let source = Source::sampled(&mut statement, filter, &with, &[]);
        let conditions = conditions(&mut statement, filter, filter.range);
        let frames = frames(Table::Samples, &conditions);
        let paths = format!(
            "SELECT stack_id, arrayStringConcat(arrayReverse(arrayMap(frame -> frame.2, arraySort(groupArray((at, name))))), ';') \
             AS path FROM ({frames}) GROUP BY stack_id"
        );
        // A sample without a callchain is a path of its function alone.
        let source = source.wrapped(
            &format!(
                "s.*, if(p.path != '', p.path, {}) AS path",
                FRAME.replace("f.", "s.")
            ),
            &format!("LEFT JOIN ({paths}) AS p ON p.stack_id = s.stack_id"),
        );
        let source = if self.one_event {
            source.only(&format!(
                "(s.tier, s.event, s.latency_kind) IN (SELECT s.tier, s.event, s.latency_kind FROM samples AS s WHERE {conditions}{weighs} \
                 GROUP BY s.tier, s.event, s.latency_kind ORDER BY toInt8(s.tier) DESC, count() DESC, s.event, s.latency_kind LIMIT 1)",
                weighs = self.weighs(),
            ))
        } else {
            source
        };
        let keys = ["path", "tier", "event", "latency_kind"];
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.push(Output::samples(&source));
        outputs.extend(Output::estimators(&source));
        outputs.push(Output::hosts(&source));
        let shape = Grouped {
            order: self.by.name(),
            partition: &["tier", "event"],
            having: "",
        };
        shape.of_samples(filter, statement, &source, &outputs)
    }

    fn more(&self, _: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        if !self.one_event || rows.is_empty() {
            return Vec::new();
        }
        let mut statement = Statement::default();
        let conditions = conditions(&mut statement, &self.filter, self.filter.range);
        statement.sql = format!(
            "SELECT s.tier, s.event, s.latency_kind, count() AS n FROM samples AS s WHERE {conditions} \
             GROUP BY s.tier, s.event, s.latency_kind ORDER BY toInt8(s.tier) DESC, n DESC, s.event, s.latency_kind LIMIT {EVENTS_MAX}"
        );
        vec![PartPlan {
            name: "events",
            statement,
            columns: vec![
                Column::text("tier"),
                Column::text("event"),
                Column::text("latency_kind"),
                Column::number("samples", "samples"),
            ],
        }]
    }

    fn conclude(&self, answer: &mut Answer) {
        if let Some(note) = one_of(answer) {
            answer.notes.push(note);
        }
        answer.notes.push("`path` goes from the outermost caller to the sampled function; a sample without a callchain is a path of its function alone".to_owned());
    }
}

impl Flamegraph {
    /// What samples must have to be weighed by the estimator.
    fn weighs(&self) -> String {
        match self.by {
            Estimator::Samples => String::new(),
            Estimator::EstEvents => format!(" AND s.event_id IN ({COUNTED_EVENTS})"),
            Estimator::Weight | Estimator::LatencyCycles => " AND s.weight > 0".to_owned(),
        }
    }
}

/// Of several events, which one the paths are of.
fn one_of(answer: &Answer) -> Option<String> {
    let part = answer.parts.iter().find(|part| part.name == "events")?;
    let first = answer.rows.first()?;
    let taken = ["tier", "event", "latency_kind"].map(|name| {
        let cell = answer.column(name).and_then(|at| first.get(at));
        cell.map(Value::to_string).unwrap_or_default()
    });
    let others: Vec<String> = part
        .rows
        .iter()
        .filter_map(|row| {
            let [tier, event, kind, samples] = row.as_slice() else {
                return None;
            };
            let names = [tier, event, kind].map(Value::to_string);
            (names != taken).then(|| format!("{event} ({tier}, {kind}): {samples} samples"))
        })
        .collect();
    let [tier, event, kind] = &taken;
    (!others.is_empty()).then(|| {
        format!(
            "of one event, {event} ({tier}, latency {kind}); `event` picks another of {}",
            others.join(", ")
        )
    })
}

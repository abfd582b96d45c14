//! On which instructions of functions samples fall, over all hosts.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{Grouped, Output};
use super::samples::hexadecimal;
use super::table::{LATENCY, SAMPLES, Source, Table, WEIGHT};
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::{Answer, Column};
use crate::statement::Statement;

/// The question `annotate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotate {
    /// Range, filters, rows.
    pub filter: Filter,
    /// Order.
    pub by: Estimator,
}

/// Address of each place, and the start and source of its function; a place may have been stored before its function was
/// known.
const PLACES: &str = "SELECT l.location_id AS location_id, argMax(l.address, l.last_seen) AS address, any(f.start) AS start, \
     any(f.source_file) AS source_file, any(f.source_line) AS source_line FROM locations AS l \
     LEFT JOIN (SELECT d.function_id AS function_id, argMax(d.start, (d.rank, d.last_seen)) AS start, \
     argMax(d.source_file, (d.rank, d.last_seen)) AS source_file, argMax(d.source_line, (d.rank, d.last_seen)) AS source_line \
     FROM functions_def AS d GROUP BY function_id) AS f ON f.function_id = l.function_id GROUP BY location_id";

impl Ask for Annotate {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[BY];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let with = [
            "function",
            "module",
            "build_id",
            "location_id",
            "tier",
            "event",
            "latency_kind",
        ];
        let states = [
            ("n_loads", "countIf(s.op IN ('load', 'load+store'))"),
            ("n_stores", "countIf(s.op IN ('store', 'load+store'))"),
            ("n_remote", "countIf(s.locality = 'remote')"),
            ("n_measured", "countIf(s.weight > 0)"),
        ];
        let source = Source::sampled(&mut statement, filter, &with, &states).wrapped(
            "s.*, l.address AS address, l.start AS start, l.source_file AS source_file, l.source_line AS source_line",
            &format!("LEFT JOIN ({PLACES}) AS l ON l.location_id = s.location_id"),
        );
        let text = |name, expression: &str| Output {
            column: Column::text(name),
            expression: expression.to_owned(),
            ..Output::key("event")
        };
        let weight = source.sum(WEIGHT);
        let mut outputs: Vec<Output> = [
            "function",
            "module",
            "build_id",
            "tier",
            "event",
            "latency_kind",
        ]
        .iter()
        .map(|key| Output::key(key))
        .collect();
        outputs.extend([
            text("address", &hexadecimal("s.address")),
            text(
                "offset",
                &format!(
                    "if(s.function = '' OR s.start = 0 OR s.address < s.start, '', {})",
                    hexadecimal("(s.address - s.start)")
                ),
            ),
            Output::sum(Column::text("source_file"), "any(s.source_file)".to_owned()),
            Output::sum(
                Column::number("source_line", ""),
                "nullIf(any(s.source_line), 0)".to_owned(),
            ),
            Output::sum(Column::number("samples", "samples"), source.sum(SAMPLES)),
            Output::sum(
                Column::number("loads", "samples"),
                "sum(s.n_loads)".to_owned(),
            ),
            Output::sum(
                Column::number("stores", "samples"),
                "sum(s.n_stores)".to_owned(),
            ),
            Output::sum(
                Column::number("remote_samples", "samples"),
                "sum(s.n_remote)".to_owned(),
            ),
            Output::sum(
                Column::real("mean_latency", "cycles"),
                format!("if(sum(s.n_measured) = 0, NULL, {weight} / sum(s.n_measured))"),
            ),
            Output::sum(Column::real("weight", "cycles"), weight.clone()),
            Output::sum(Column::real("est_events", "events"), source.est_events()),
            Output::sum(
                Column::real("latency_cycles", "cycles"),
                source.sum(LATENCY),
            ),
            Output::sum(Column::number("hosts", "hosts"), source.hosts().to_owned()),
        ]);
        let shape = Grouped {
            order: self.by.name(),
            partition: &["tier", "event", "function", "module", "build_id"],
            having: "",
        };
        let rounded = super::samples::kept(filter);
        shape.plan(
            Table::Samples,
            filter,
            rounded,
            statement,
            &source,
            &outputs,
        )
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("shares are within the function and event; `address` is that of the file, `offset` counts from the function's start. Names of source lines are those of the function's start (`memwide symbols add` brings them): lines of single instructions are not stored, `memwide annotate -i FILE` has them".to_owned());
    }
}

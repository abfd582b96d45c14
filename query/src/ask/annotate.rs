//! On which instructions of functions samples fall, over all hosts.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{Grouped, Output};
use super::samples::{self, hexadecimal};
use super::table::{Source, Table};
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
        let table = Table::choose(
            &[Table::Sites, Table::Samples],
            &filter.needs(),
            filter.range,
        );
        let (range, rounded) = table.range(filter);
        let states = samples::accesses(table);
        let source = Source::summed(&mut statement, table, filter, range, &with, &states).wrapped(
            "s.*, l.address AS address, l.start AS start, l.source_file AS source_file, l.source_line AS source_line",
            &format!("LEFT JOIN ({PLACES}) AS l ON l.location_id = s.location_id"),
        );
        let text = |name, expression: &str| Output::key_of(name, expression);
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
            Output::samples(&source),
            Output::count("loads", "sum(s.n_loads)"),
            Output::count("stores", "sum(s.n_stores)"),
            Output::count("remote_samples", "sum(s.n_remote)"),
            Output::mean_latency(&source),
        ]);
        outputs.extend(Output::estimators(&source));
        outputs.push(Output::hosts(&source));
        let shape = Grouped {
            order: self.by.name(),
            partition: &["tier", "event", "function", "module", "build_id"],
            having: "",
        };
        shape.plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            &outputs,
        )
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("shares are within the function and event; `address` is that of the file, `offset` counts from the function's start. Names of source lines are those of the function's start (`memwide symbols add` brings them): lines of single instructions are not stored, `memwide annotate -i FILE` has them".to_owned());
    }
}

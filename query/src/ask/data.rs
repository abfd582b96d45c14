//! Which data is slow: variables, heap, stacks, files, by region, apart for each event and kind of latency.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{self, Output};
use super::samples;
use super::table::{SAMPLES_KEPT_NS, Source, Table};
use super::{Ask, AskError, Extra, Given, Plan, Range, Values};
use crate::answer::{Answer, Column};
use crate::statement::Statement;

/// The question `data`.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// Range, filters, rows.
    pub filter: Filter,
    /// Order.
    pub by: Estimator,
    /// One row for each function that touches the data.
    pub per_function: bool,
}

impl Ask for Data {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[
        BY,
        Extra {
            name: "per_function",
            about: "One row for each function that touches the data.",
            values: Values::Flag,
        },
    ];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
            per_function: given.flag("per_function")?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let mut keys = vec!["region", "data_symbol", "data_module", "data_build_id"];
        if self.per_function {
            keys.extend(["function", "module", "build_id"]);
        }
        keys.extend(["tier", "event", "latency_kind"]);
        let begins = filter.range.since_ns.saturating_add(SAMPLES_KEPT_NS);
        let table = if begins < filter.asked_ns {
            let tables = [Table::Data, Table::Samples];
            Table::choose(&tables, &filter.needs(), filter.range)
        } else {
            Table::Samples
        };
        let (range, rounded) = table.range(filter);
        let accesses = samples::accesses(table);
        let states = [accesses.as_slice(), &[samples::PAGES, samples::PROCESSES]].concat();
        let (source, pages, processes) = if table == Table::Samples {
            (
                Source::summed(&mut statement, table, filter, range, &keys, &states),
                PAGES.to_owned(),
                PROCESSES.to_owned(),
            )
        } else {
            let source = Source::summed(&mut statement, table, filter, range, &keys, &accesses);
            // Where samples still have all of a row, as of a recording that was imported.
            let whole = |of: &str| format!("if(sum(s.n) = sum(s.n_kept), {of}, NULL)");
            (
                self.with_samples(&mut statement, source, range),
                whole(PAGES),
                whole(PROCESSES),
            )
        };
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.extend([
            Output::samples(&source),
            Output::count("loads", "sum(s.n_loads)"),
            Output::count("stores", "sum(s.n_stores)"),
            Output::count("remote_samples", "sum(s.n_remote)"),
            Output::count("local_samples", "sum(s.n_local)"),
            Output::mean_latency(&source),
        ]);
        outputs.extend(Output::estimators(&source));
        outputs.extend([
            Output::sum(Column::number("pages", "pages"), pages),
            Output::sum(Column::number("processes", "processes"), processes),
            Output::hosts(&source),
        ]);
        grouped::plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            outputs,
            self.by.name(),
        )
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("`data_symbol` is the variable, else the mapping (`[heap]`, a file); both empty: nothing is mapped at the address, or no address was sampled. `pages` and `processes` are told where all samples of a row are still there (3 days after they came in)".to_owned());
    }
}

const PAGES: &str = "uniqExactIfMerge(s.n_pages)";
const PROCESSES: &str = "uniqExactMerge(s.n_processes)";

impl Data {
    /// Rows of sums by id, each with what samples that are still there tell of pages and processes.
    fn with_samples(&self, statement: &mut Statement, source: Source, range: Range) -> Source {
        let mut ids = vec!["region", "data_id", "tier", "event", "latency_kind"];
        if self.per_function {
            ids.push("function_id");
        }
        let states = [samples::PAGES, samples::PROCESSES];
        let kept = Source::summed(
            statement,
            Table::Samples,
            &self.filter,
            range,
            &ids,
            &states,
        );
        let ids = ids.iter().chain(["event_id"].iter());
        let equal: Vec<String> = ids.map(|id| format!("x.{id} = s.{id}")).collect();
        source.wrapped(
            "s.*, x.n AS n_kept, x.n_pages AS n_pages, x.n_processes AS n_processes",
            &format!(
                "LEFT JOIN (SELECT * FROM {}) AS x ON {}",
                kept.rows(),
                equal.join(" AND ")
            ),
        )
    }
}

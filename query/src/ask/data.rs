//! Which data is slow: variables, heap, stacks, files, by region, apart for each event and kind of latency.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{self, Output};
use super::samples;
use super::table::{Source, Table};
use super::{Ask, AskError, Extra, Given, Plan, Values};
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
        let states = [
            samples::LOADS,
            samples::STORES,
            samples::REMOTE,
            samples::LOCAL,
            samples::MEASURED,
            samples::PROCESSES,
            samples::PAGES,
        ];
        let source = Source::sampled(&mut statement, filter, &keys, &states);
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
            Output::sum(
                Column::number("pages", "pages"),
                "uniqExactIfMerge(s.n_pages)".to_owned(),
            ),
            Output::sum(
                Column::number("processes", "processes"),
                "uniqExactMerge(s.n_processes)".to_owned(),
            ),
            Output::hosts(&source),
        ]);
        let rounded = super::samples::kept(filter);
        grouped::plan(
            Table::Samples,
            filter,
            rounded,
            statement,
            &source,
            outputs,
            self.by.name(),
        )
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("`data_symbol` is the variable, else the mapping (`[heap]`, a file); both empty: nothing is mapped at the address, or no address was sampled".to_owned());
    }
}

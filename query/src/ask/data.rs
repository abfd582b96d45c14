//! Which data is slow: variables, heap, stacks, files, by region, apart for each event and kind of latency.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{self, Output};
use super::table::{LATENCY, SAMPLES, Source, Table, WEIGHT};
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
            ("n_loads", "countIf(s.op IN ('load', 'load+store'))"),
            ("n_stores", "countIf(s.op IN ('store', 'load+store'))"),
            ("n_remote", "countIf(s.locality = 'remote')"),
            ("n_local", "countIf(s.locality = 'local')"),
            ("n_measured", "countIf(s.weight > 0)"),
            ("n_processes", "uniqExactState(s.host, s.pid)"),
            (
                "n_pages",
                "uniqExactIfState(s.host, s.pid, bitShiftRight(s.addr, 12), s.addr != 0)",
            ),
        ];
        let source = Source::sampled(&mut statement, filter, &keys, &states);
        let count = |name, expression: &str| {
            Output::sum(Column::number(name, "samples"), expression.to_owned())
        };
        let weight = source.sum(WEIGHT);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.extend([
            Output::sum(Column::number("samples", "samples"), source.sum(SAMPLES)),
            count("loads", "sum(s.n_loads)"),
            count("stores", "sum(s.n_stores)"),
            count("remote_samples", "sum(s.n_remote)"),
            count("local_samples", "sum(s.n_local)"),
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
            Output::sum(
                Column::number("pages", "pages"),
                "uniqExactIfMerge(s.n_pages)".to_owned(),
            ),
            Output::sum(
                Column::number("processes", "processes"),
                "uniqExactMerge(s.n_processes)".to_owned(),
            ),
            Output::sum(Column::number("hosts", "hosts"), source.hosts().to_owned()),
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

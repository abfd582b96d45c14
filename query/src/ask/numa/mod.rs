//! Which functions reach over to other NUMA nodes, over all hosts: how often, how sure, how slow, where their data lies,
//! and what to do about it.
//!
//! Rows are apart for each tier, event, kind of latency and basis: what hardware says and what follows from the node of
//! the page are different measures.

mod advice;
mod parts;

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{Grouped, Output};
use super::table::{LATENCY, SAMPLES, Source, Table, WEIGHT};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan, interval};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Rows whose parts are asked for: what a person reads.
const DETAILED: usize = 20;

const REMOTE: &str = "s.locality = 'remote'";
const LOCAL: &str = "s.locality = 'local'";

const KEYS: &[&str] = &[
    "function",
    "module",
    "build_id",
    "tier",
    "event",
    "latency_kind",
    "locality_basis",
];

/// Shares are of all remote samples of the same tier, event and basis.
const PARTITION: &[&str] = &["tier", "event", "locality_basis"];

/// The question `numa`.
#[derive(Debug, Clone, PartialEq)]
pub struct Numa {
    /// Range, filters, rows.
    pub filter: Filter,
    /// Order.
    pub by: Estimator,
}

impl Ask for Numa {
    const DIMENSIONS: &'static [Dimension] = &[
        Dimension::Host,
        Dimension::Namespace,
        Dimension::Pod,
        Dimension::Container,
        Dimension::Service,
        Dimension::BuildId,
        Dimension::Comm,
        Dimension::Function,
        Dimension::Event,
        Dimension::Tier,
        Dimension::Op,
        Dimension::Level,
        Dimension::Snoop,
        Dimension::Context,
    ];
    const EXTRA: &'static [Extra] = &[BY];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let table = Table::choose(
            &[Table::Fleet, Table::Functions, Table::Samples],
            &filter.needs(),
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let keys = [KEYS, &["locality"]].concat();
        let all = filter.of_all_functions();
        let source = Source::new(&mut statement, table, &all, range, &keys);
        let mean = |condition: &str| {
            let (weight, samples) = (
                Source::sum_if(WEIGHT, condition),
                Source::sum_if(SAMPLES, condition),
            );
            format!("if(latency_kind = 'none' OR {weight} = 0, NULL, {weight} / {samples})")
        };
        let (remote, local) = (
            Source::sum_if(SAMPLES, REMOTE),
            Source::sum_if(SAMPLES, LOCAL),
        );
        let mut outputs: Vec<Output> = KEYS.iter().map(|key| Output::key(key)).collect();
        outputs.extend([
            Output::sum(Column::number("samples", "samples"), remote.clone()),
            Output::sum(Column::number("local_samples", "samples"), local.clone()),
            Output::sum(
                Column::real("remote_ratio", "ratio"),
                ratio(&remote, &local),
            ),
        ]);
        outputs.extend(Output::est_events(Source::est_events_if(REMOTE)));
        outputs.extend([
            Output::sum(
                Column::real("weight", "cycles"),
                Source::sum_if(WEIGHT, REMOTE),
            ),
            Output::sum(
                Column::real("latency_cycles", "cycles"),
                Source::sum_if(LATENCY, REMOTE),
            ),
            Output::sum(Column::real("mean_remote_latency", "cycles"), mean(REMOTE)),
            Output::sum(Column::real("mean_local_latency", "cycles"), mean(LOCAL)),
            Output::sum(Column::number("hosts", "hosts"), source.hosts_if(REMOTE)),
            Output::function_ids(),
        ]);
        let shape = Grouped {
            order: self.by.name(),
            partition: PARTITION,
            having: "samples",
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

    fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        let remote = self.filter.and(Dimension::Locality, "remote");
        let mut all = interval::within(plan, rows, &remote, KEYS, PARTITION);
        if let Some(ids) = interval::function_ids(plan, rows, DETAILED) {
            all.extend(parts::all(&self.filter, plan, &ids));
        }
        all
    }

    fn conclude(&self, answer: &mut Answer) {
        interval::conclude(answer, KEYS);
        if answer.rows.is_empty() {
            answer
                .notes
                .push("no sample of this range reached another node, or none says where its data was: see `breakdown` by locality".to_owned());
            return;
        }
        if answer.rows.len() > DETAILED {
            answer
                .notes
                .push(format!("parts are of the first {DETAILED} rows"));
        }
        advice::conclude(answer);
    }
}

/// The remote part of all whose locality is known: of events where they are estimated, else of samples.
fn ratio(remote: &str, local: &str) -> String {
    let [far, near] = [REMOTE, LOCAL].map(Source::est_events_if);
    format!("ifNull(({far}) / nullIf({far} + {near}, 0), {remote} / ({remote} + {local}))")
}

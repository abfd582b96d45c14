//! Which functions: every estimator side by side, apart for each tier and event.

use super::filter::{Dimension, Filter};
use super::grouped::{self, Output};
use super::table::{Source, Table};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan, Values, interval, one_of};
use crate::answer::{Answer, Value};
use crate::statement::Statement;

/// What orders the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Estimator {
    /// Number of samples.
    #[default]
    Samples,
    /// Σ weight.
    Weight,
    /// Σ period, where the event declares what it counts.
    EstEvents,
    /// Σ latency × period.
    LatencyCycles,
}

impl Estimator {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Samples,
        Self::Weight,
        Self::EstEvents,
        Self::LatencyCycles,
    ];

    /// Name in the API and of the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Weight => "weight",
            Self::EstEvents => "est_events",
            Self::LatencyCycles => "latency_cycles",
        }
    }

    /// The parameter `by`; samples unless given.
    pub(super) fn given(given: &Given<'_>) -> Result<Self, AskError> {
        given.text("by").map_or(Ok(Self::default()), |text| {
            one_of("by", text, Self::ALL, Self::name)
        })
    }

    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|by| by.name()).collect()
    }
}

/// The question `functions`.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// Range, filters, rows.
    pub filter: Filter,
    /// Order.
    pub by: Estimator,
    /// One row a host.
    pub per_host: bool,
}

/// The parameter `by` of questions that order rows by an estimator.
pub(super) const BY: Extra = Extra {
    name: "by",
    about: "What orders the rows.",
    values: Values::One(Estimator::names),
};

impl Ask for Functions {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[
        BY,
        Extra {
            name: "per_host",
            about: "One row a host.",
            values: Values::Flag,
        },
    ];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
            per_host: given.flag("per_host")?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut needs = filter.needs();
        if self.per_host {
            needs.push(Dimension::Host);
        }
        let table = Table::choose(
            &[Table::Days, Table::Fleet, Table::Functions, Table::Samples],
            &needs,
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let keys = self.keys();
        let all = filter.of_all_functions();
        let source = Source::new(&mut statement, table, &all, range, &keys);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.push(Output::samples(&source));
        outputs.extend(Output::estimators(&source));
        outputs.extend([Output::hosts(&source), Output::function_ids()]);
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

    fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        interval::of_functions(plan, rows, &self.filter, &self.keys())
    }

    fn conclude(&self, answer: &mut Answer) {
        interval::conclude(answer, &self.keys());
    }
}

impl Functions {
    fn keys(&self) -> Vec<&'static str> {
        let mut keys = vec!["function", "module", "build_id"];
        if self.per_host {
            keys.push("host");
        }
        keys.extend(["tier", "event", "latency_kind"]);
        // Where rows were chosen by a column that has another one beside it, that one is shown.
        for (filtered, beside) in [
            (Dimension::Level, "outcome"),
            (Dimension::Locality, "locality_basis"),
        ] {
            if !self.filter.values(filtered).is_empty() {
                keys.push(beside);
            }
        }
        keys
    }
}

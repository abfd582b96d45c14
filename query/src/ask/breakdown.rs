//! How samples are spread: over levels, localities, hosts and so on. Every distribution sums to all samples, with an
//! explicit unknown, apart for each tier and event.

use super::filter::{Dimension, Filter};
use super::grouped::{self, Output};
use super::table::{LATENCY, SAMPLES, Source, Table, WEIGHT};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan, Values, interval, one_of};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// What a breakdown is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakdownBy {
    /// Level and outcome.
    Level,
    /// Locality and its basis.
    Locality,
    /// Tier.
    Tier,
    /// Event.
    Event,
    /// Operation.
    Op,
    /// Host.
    Host,
    /// Context.
    Context,
    /// Namespace, pod, container, service.
    Workload,
    /// Snoop.
    Snoop,
}

impl BreakdownBy {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Level,
        Self::Locality,
        Self::Tier,
        Self::Event,
        Self::Op,
        Self::Host,
        Self::Context,
        Self::Workload,
        Self::Snoop,
    ];

    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Locality => "locality",
            Self::Tier => "tier",
            Self::Event => "event",
            Self::Op => "op",
            Self::Host => "host",
            Self::Context => "context",
            Self::Workload => "workload",
            Self::Snoop => "snoop",
        }
    }

    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|by| by.name()).collect()
    }

    /// Columns it adds; tier and event are always there.
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Level => &["level", "outcome"],
            Self::Locality => &["locality", "locality_basis"],
            Self::Tier | Self::Event => &[],
            Self::Op => &["op"],
            Self::Host => &["host"],
            Self::Context => &["context"],
            Self::Workload => &["namespace", "pod", "container", "service"],
            Self::Snoop => &["snoop"],
        }
    }

    /// What the table has to have for it.
    const fn needs(self) -> Dimension {
        match self {
            Self::Level => Dimension::Level,
            Self::Locality => Dimension::Locality,
            Self::Tier => Dimension::Tier,
            Self::Event => Dimension::Event,
            Self::Op => Dimension::Op,
            Self::Host => Dimension::Host,
            Self::Context => Dimension::Context,
            Self::Workload => Dimension::Service,
            Self::Snoop => Dimension::Snoop,
        }
    }
}

/// The question `breakdown`.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    /// Range, filters, rows.
    pub filter: Filter,
    /// Several make a cross table.
    pub by: Vec<BreakdownBy>,
}

impl Ask for Breakdown {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[Extra {
        name: "by",
        about: "Columns of the table; several, by commas or repeated, make a cross table.",
        values: Values::Several(BreakdownBy::names),
    }];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: by(&given.list("by"))?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut needs = filter.needs();
        needs.extend(self.by.iter().map(|by| by.needs()));
        let table = Table::choose(
            &[Table::Mix, Table::Functions, Table::Samples],
            &needs,
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let keys = self.keys(table.name());
        let source = Source::new(&mut statement, table, filter, range, &keys);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.push(Output::sum(
            Column::number("samples", "samples"),
            source.sum(SAMPLES),
        ));
        outputs.extend(Output::est_events(source.est_events()));
        if table != Table::Mix {
            outputs.push(Output::sum(
                Column::real("weight", "cycles"),
                source.sum(WEIGHT),
            ));
            outputs.push(Output::sum(
                Column::real("latency_cycles", "cycles"),
                source.sum(LATENCY),
            ));
        }
        outputs.push(Output::sum(
            Column::number("hosts", "hosts"),
            source.hosts().to_owned(),
        ));
        grouped::plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            outputs,
            "samples",
        )
    }

    fn more(&self, plan: &Plan, _: &[Vec<Value>]) -> Vec<PartPlan> {
        interval::of_all(plan, &self.filter, &self.keys(plan.table))
    }

    fn conclude(&self, answer: &mut Answer) {
        let keys = self.keys(answer.source_table);
        interval::conclude(answer, &keys);
    }
}

impl Breakdown {
    fn keys(&self, table: &str) -> Vec<&'static str> {
        let mut keys = vec!["tier", "event"];
        keys.extend(self.by.iter().flat_map(|by| by.columns()));
        if table != Table::Mix.name() {
            // `mix_1m` does not keep kinds of latency apart, so it has none to show.
            keys.push("latency_kind");
        }
        keys
    }
}

/// Names to dimensions, each once; none: level and locality.
fn by(names: &[String]) -> Result<Vec<BreakdownBy>, AskError> {
    let mut chosen = Vec::new();
    for name in names {
        let known = one_of("by", name, BreakdownBy::ALL, BreakdownBy::name)?;
        if !chosen.contains(&known) {
            chosen.push(known);
        }
    }
    if chosen.is_empty() {
        chosen = vec![BreakdownBy::Level, BreakdownBy::Locality];
    }
    Ok(chosen)
}

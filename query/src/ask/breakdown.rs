//! How samples are spread: over levels, localities, hosts and so on. Every distribution sums to all samples, with an
//! explicit unknown, apart for each tier and event.

use memwide_proto::v1;

use super::filter::{Dimension, Filter};
use super::table::{self, LATENCY, Output, SAMPLES, Source, Table, WEIGHT};
use super::{AskError, Name, Plan, shortened};
use crate::answer::Column;
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

impl Breakdown {
    pub(super) fn parse(pairs: &[(String, String)], now_ns: u64) -> Result<Self, AskError> {
        let mut names = Vec::new();
        let filter = Filter::parse(Name::Breakdown, pairs, now_ns, |_, value| {
            names.extend(value.split(',').map(|name| name.trim().to_owned()));
            Ok(())
        })?;
        Ok(Self {
            filter,
            by: by(&names)?,
        })
    }

    /// From a message.
    pub(crate) fn from_message(
        message: v1::BreakdownRequest,
        now_ns: u64,
    ) -> Result<Self, AskError> {
        let filter = Filter::from_message(Name::Breakdown, message.filter, now_ns)?;
        Ok(Self {
            filter,
            by: by(&message.by)?,
        })
    }

    pub(super) fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut needs: Vec<Dimension> = filter
            .dimensions()
            .map(|(dimension, _)| dimension)
            .collect();
        needs.extend(self.by.iter().map(|by| by.needs()));
        let table = Table::choose(
            &[Table::Mix, Table::Functions, Table::Samples],
            &needs,
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let mut keys = vec!["tier", "event"];
        keys.extend(self.by.iter().flat_map(|by| by.columns()));
        if table != Table::Mix {
            // `mix_1m` does not keep kinds of latency apart, so it has none to show.
            keys.push("latency_kind");
        }
        let source = Source::new(&mut statement, table, filter, range, &keys);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.push(Output::sum(
            Column::number("samples", "samples"),
            source.sum(SAMPLES),
        ));
        outputs.push(Output::sum(
            Column::real("est_events", "events"),
            source.est_events(),
        ));
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
        table::plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            outputs,
            "samples",
        )
    }
}

/// Names to dimensions, each once; none: level and locality.
fn by(names: &[String]) -> Result<Vec<BreakdownBy>, AskError> {
    let mut chosen = Vec::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        let known = BreakdownBy::ALL.iter().find(|known| known.name() == name);
        let known = known.ok_or_else(|| AskError::UnknownValue {
            parameter: "by",
            value: shortened(name),
            allowed: BreakdownBy::ALL.iter().map(|known| known.name()).collect(),
        })?;
        if !chosen.contains(known) {
            chosen.push(*known);
        }
    }
    if chosen.is_empty() {
        chosen = vec![BreakdownBy::Level, BreakdownBy::Locality];
    }
    Ok(chosen)
}

//! Which functions: every estimator side by side, apart for each tier and event.

use memwide_proto::v1;

use super::filter::{Dimension, Filter};
use super::table::{self, LATENCY, Output, SAMPLES, Source, Table, WEIGHT};
use super::{AskError, Name, Plan, shortened};
use crate::answer::Column;
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

    fn parse(text: &str) -> Result<Self, AskError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        Self::ALL
            .iter()
            .find(|known| known.name() == text)
            .copied()
            .ok_or_else(|| AskError::UnknownValue {
                parameter: "by",
                value: shortened(text),
                allowed: Self::ALL.iter().map(|known| known.name()).collect(),
            })
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

impl Functions {
    pub(super) fn parse(pairs: &[(String, String)], now_ns: u64) -> Result<Self, AskError> {
        let (mut by, mut per_host) = (Estimator::default(), false);
        let filter = Filter::parse(Name::Functions, pairs, now_ns, |name, value| {
            match (name, value) {
                ("by", value) => by = Estimator::parse(value)?,
                (_, "true" | "1") => per_host = true,
                (_, "false" | "0" | "") => per_host = false,
                (_, other) => {
                    let allowed = vec!["true", "false"];
                    return Err(AskError::UnknownValue {
                        parameter: "per_host",
                        value: shortened(other),
                        allowed,
                    });
                }
            }
            Ok(())
        })?;
        Ok(Self {
            filter,
            by,
            per_host,
        })
    }

    /// From a message.
    pub(crate) fn from_message(
        message: v1::FunctionsRequest,
        now_ns: u64,
    ) -> Result<Self, AskError> {
        Ok(Self {
            filter: Filter::from_message(Name::Functions, message.filter, now_ns)?,
            by: Estimator::parse(&message.by)?,
            per_host: message.per_host,
        })
    }

    pub(super) fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut needs: Vec<Dimension> = filter
            .dimensions()
            .map(|(dimension, _)| dimension)
            .collect();
        if self.per_host {
            needs.push(Dimension::Host);
        }
        let table = Table::choose(
            &[Table::Fleet, Table::Functions, Table::Samples],
            &needs,
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let keys = self.keys();
        let source = Source::new(&mut statement, table, filter, range, &keys);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.extend([
            Output::sum(Column::number("samples", "samples"), source.sum(SAMPLES)),
            Output::sum(Column::real("weight", "cycles"), source.sum(WEIGHT)),
            Output::sum(Column::real("est_events", "events"), source.est_events()),
            Output::sum(
                Column::real("latency_cycles", "cycles"),
                source.sum(LATENCY),
            ),
            Output::sum(Column::number("hosts", "hosts"), source.hosts().to_owned()),
        ]);
        table::plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            outputs,
            self.by.name(),
        )
    }

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

//! What is read beside the rings: pressure, memory, counters. Changes over intervals become rates, levels stay levels.

use super::filter::{Dimension, Filter};

use super::time::time_condition;
use super::{Ask, AskError, Extra, Given, Plan, Values};
use crate::answer::Column;
use crate::statement::Statement;

const DIMENSIONS: &[Dimension] = &[
    Dimension::Host,
    Dimension::Namespace,
    Dimension::Pod,
    Dimension::Container,
    Dimension::Service,
    Dimension::Comm,
];

const METRIC: &[Extra] = &[Extra {
    name: "metric",
    about: "What was read, as answers show it; several by commas or repeated.",
    values: Values::Text,
}];

macro_rules! readings {
    ($($(#[doc = $doc:literal])+ $name:ident = $table:literal;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, PartialEq)]
            pub struct $name {
                /// Range, filters, rows.
                pub filter: Filter,
                /// What was read; empty: all.
                pub metric: Vec<String>,
            }

            impl Ask for $name {
                const DIMENSIONS: &'static [Dimension] = DIMENSIONS;
                const EXTRA: &'static [Extra] = METRIC;

                fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
                    Ok(Self { filter, metric: given.list("metric") })
                }

                fn plan(&self) -> Plan {
                    plan($table, &self.filter, &self.metric)
                }
            }
        )+
    };
}

readings! {
    /// The question `pressure`.
    Pressure = "pressure";
    /// The question `rss`.
    Rss = "rss";
    /// The question `counters`.
    Counters = "counters";
}

fn plan(table: &'static str, filter: &Filter, metric: &[String]) -> Plan {
    let mut statement = Statement::default();
    let mut conditions = vec![time_condition(&mut statement, true, filter.range)];
    for (dimension, values) in filter.dimensions() {
        let (place, name) = (statement.texts(values), dimension.name());
        conditions.push(match dimension {
            Dimension::Host | Dimension::Comm => format!("r.{name} IN ({place})"),
            _ => format!("w.{name} IN ({place})"),
        });
    }
    if !metric.is_empty() {
        conditions.push(format!("r.metric IN ({})", statement.texts(metric)));
    }
    statement.sql = format!(
        "SELECT r.host AS k0, w.namespace AS k1, w.pod AS k2, w.container AS k3, w.service AS k9, r.pid AS k4, r.comm AS k5, r.metric AS k6, \
         r.mode AS k7, r.unit AS k8, count(), if(countIf(r.interval_ns > 0) = 0, NULL, sumIf(r.value, r.interval_ns > 0)) AS v0, \
         if(countIf(r.interval_ns > 0) = 0, NULL, sum(r.interval_ns) / 1e9) AS v1, v0 / v1 AS v2, \
         if(countIf(r.interval_ns = 0) = 0, NULL, argMaxIf(r.value, r.time, r.interval_ns = 0)) AS v3, \
         if(countIf(r.interval_ns = 0) = 0, NULL, minIf(r.value, r.interval_ns = 0)), \
         if(countIf(r.interval_ns = 0) = 0, NULL, maxIf(r.value, r.interval_ns = 0)) \
         FROM {table} AS r LEFT JOIN workload_names AS w ON w.workload_id = r.workload_id WHERE {} \
         GROUP BY k0, k1, k2, k3, k9, k4, k5, k6, k7, k8 \
         ORDER BY k6, k7, v2 DESC NULLS LAST, v3 DESC NULLS LAST, k0, k1, k2, k3, k9, k4, k5, k8 LIMIT {}",
        conditions.join(" AND "),
        u64::from(filter.limit) + 1,
    );
    let text = ["host", "namespace", "pod", "container", "service"];
    let mut columns: Vec<Column> = text.map(Column::text).to_vec();
    columns.extend([
        Column::number("pid", ""),
        Column::text("comm"),
        Column::text("metric"),
        Column::text("mode"),
        Column::text("unit"),
        Column::number("readings", "readings"),
        Column::real("change", "of unit"),
        Column::real("seconds", "seconds"),
        Column::real("rate", "of unit a second"),
        Column::real("last", "of unit"),
        Column::real("least", "of unit"),
        Column::real("most", "of unit"),
    ]);
    Plan {
        statement,
        columns,
        hidden: Vec::new(),
        table,
        limit: filter.limit,
        range: filter.range,
        hosts: filter.values(Dimension::Host).to_vec(),
        notes: vec!["changes over intervals are summed (`change`, `rate`); levels have their last, least and most".to_owned()],
    }
}

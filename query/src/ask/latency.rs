//! How long accesses took: distributions by function, level and so on, apart for each event and kind of latency.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples::{self, Keys};
use super::table::{Source, Table, WEIGHT};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan, Values, interval};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Rows whose buckets are shown.
const DETAILED: usize = 20;
/// Buckets of all of these rows together.
const BUCKETS_MAX: u32 = 10_000;

/// What measures no latency has no place in a distribution.
const MEASURED: &str = "s.weight > 0";
/// Distinct values with their counts: exact, and as large as there are values.
const STATE: &str =
    "quantilesExactWeightedStateIf(0.5, 0.9, 0.99, 0.999)(s.weight, toUInt64(1), s.weight > 0)";
const QUANTILES: &str = "quantilesExactWeightedMerge(0.5, 0.9, 0.99, 0.999)(s.quantiles)";

/// The question `latency`.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Range, filters, rows.
    pub filter: Filter,
    /// What tells rows apart, besides tier, event and kind of latency.
    pub by: Keys,
}

impl Ask for Latency {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[Extra {
        name: "by",
        about: "What tells distributions apart; several, by commas or repeated. Function and level unless given.",
        values: Values::Several(Keys::names),
    }];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Keys::given(given, &["function", "level"])?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let keys = self.keys();
        let states = [
            ("quantiles", STATE),
            samples::MEASURED,
            ("n_saturated", "countIf(s.suspect = 'saturated')"),
            ("w_min", "minIf(s.weight, s.weight > 0)"),
            ("w_max", "max(s.weight)"),
        ];
        let source = Source::sampled(&mut statement, filter, &keys, &states);
        let measured = |expression: &str| format!("if(sum(s.n_measured) = 0, NULL, {expression})");
        let quantile = |at: usize| measured(&format!("toFloat64(arrayElement({QUANTILES}, {at}))"));
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        let cycles =
            |name, expression: String| Output::sum(Column::real(name, "cycles"), expression);
        outputs.extend([
            Output::samples(&source),
            Output::count("measured", "sum(s.n_measured)"),
            cycles(
                "mean",
                measured(&format!("{} / sum(s.n_measured)", source.sum(WEIGHT))),
            ),
            cycles(
                "least",
                measured("toFloat64(minIf(s.w_min, s.n_measured > 0))"),
            ),
            cycles("p50", quantile(1)),
            cycles("p90", quantile(2)),
            cycles("p99", quantile(3)),
            cycles("p999", quantile(4)),
            cycles("most", measured("toFloat64(max(s.w_max))")),
            Output::count("saturated", "sum(s.n_saturated)"),
            Output::weigh("est_events", source.est_events()),
            Output::function_ids_if(&keys),
        ]);
        let shape = Grouped {
            order: "samples",
            partition: &["tier", "event", "latency_kind"],
            having: "measured",
        };
        shape.of_samples(filter, statement, &source, &outputs)
    }

    fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        let ids = interval::function_ids(plan, rows, DETAILED);
        if rows.is_empty() {
            return Vec::new();
        }
        let mut statement = Statement::default();
        let keys = self.keys();
        let table = self.table_of_buckets();
        let (bucket, measured) = match table {
            Table::Samples => ("toInt64(floor(log2(s.weight) * 4)) AS bucket", MEASURED),
            _ => ("toInt64(s.bucket) AS bucket", "s.bucket >= 0"),
        };
        let by_ids = ids.map_or_else(String::new, |ids| format!(" AND s.function_id IN ({ids})"));
        let from = super::samples::named(
            &mut statement,
            table,
            &self.filter,
            &keys,
            &[bucket],
            &format!("{measured}{by_ids}"),
        );
        let (places, selected) = Source::numbered(&keys);
        statement.sql = format!(
            "SELECT {places}, exp2(bucket / 4), exp2((bucket + 1) / 4), c FROM (SELECT {selected}, s.bucket AS bucket, \
             sum(s.rows) AS c FROM {from} GROUP BY {places}, bucket) ORDER BY {places}, bucket LIMIT {BUCKETS_MAX}",
            places = places.join(", "),
            selected = selected.join(", "),
        );
        let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(key)).collect();
        columns.extend([
            Column::real("from", "cycles"),
            Column::real("below", "cycles"),
            Column::number("samples", "samples"),
        ]);
        vec![PartPlan {
            name: "histogram",
            statement,
            columns,
        }]
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("`samples` has all of a row, `measured` those with a latency; quantiles are of the measured ones and exact. Events with a latency threshold (ldlat) show only what is above it.".to_owned());
        let place = answer.column("saturated");
        let saturated =
            |row: &Vec<Value>| matches!(place.and_then(|at| row.get(at)), Some(Value::Number(1..)));
        if answer.rows.iter().any(saturated) {
            answer.notes.push(
                "saturated latencies are as high as the PMU can count: quantiles at the top are at least that"
                    .to_owned(),
            );
        }
        if answer.rows.len() > DETAILED {
            answer.notes.push(format!(
                "`histogram` is of the functions of the first {DETAILED} rows"
            ));
        }
    }
}

impl Latency {
    /// The hours are taken where the range is of whole ones, so that buckets are of the same samples as the rows.
    fn table_of_buckets(&self) -> Table {
        const HAS: &[&str] = &[
            "function",
            "module",
            "build_id",
            "level",
            "outcome",
            "locality",
            "locality_basis",
            "op",
        ];
        if !self.by.columns().iter().all(|key| HAS.contains(key)) {
            return Table::Samples;
        }
        let tables = [Table::Latencies, Table::Samples];
        Table::exact(&tables, &self.filter.needs(), self.filter.range)
    }

    fn keys(&self) -> Vec<&'static str> {
        [&["tier", "event", "latency_kind"], self.by.columns()].concat()
    }
}

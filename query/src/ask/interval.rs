//! How sure shares are: intervals from clusters of one host and one hour.
//!
//! With `x` the samples of a partition in a cluster and `y` those of a row, the share is the ratio `R = Σy / Σx`. Linearized,
//! its variance is
//!
//! ```text
//! var(R) = k / (k − 1) · Σ (y − R·x)² / (Σx)²      k clusters with x > 0
//! ```
//!
//! The interval is Wilson's for as many samples as give that variance, with Student's quantile of `k − 1`. Below
//! [`CLUSTERS_MIN`] clusters the samples themselves are the units (`sampling_only`): a lower bound of the uncertainty. Either
//! covers sampling error only.

use std::collections::BTreeMap;

use super::filter::{Dimension, Filter};
use super::grouped::FUNCTION_IDS_MAX;
use super::table::{SAMPLES, Source, Table};
use super::{PartPlan, Plan};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Fewer clusters say too little of how hosts and hours differ.
const CLUSTERS_MIN: u64 = 8;
/// Rows whose intervals are asked for.
const ROWS_MAX: usize = 500;
/// Functions that one statement names.
const IDS_MAX: usize = 10_000;
/// What the clusters of a row sum up to may differ from the row by this part and this many samples: tables are of slightly
/// different ages. By more, they are of another row.
const AGREEMENT: f64 = 0.01;
const AGREEMENT_SAMPLES: f64 = 2.0;
/// 0.975 quantile of the normal distribution.
pub(super) const Z: f64 = 1.959_963_985;
/// Name of the part that `conclude` reads.
const PART: &str = "intervals";

/// Columns that an interval has.
const COLUMNS: [Column; 4] = [
    Column::real("share_low", "ratio"),
    Column::real("share_high", "ratio"),
    Column::text("ci_basis"),
    Column::number("clusters", "host-hours"),
];

/// What rests on clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    y: f64,
    yy: f64,
    xy: f64,
    x: f64,
    xx: f64,
    clusters: u64,
}

impl Sums {
    /// The interval and what it rests on.
    fn interval(self) -> (Option<[f64; 2]>, &'static str) {
        let Some(variance) = self.variance() else {
            return (None, "none");
        };
        let share = self.y / self.x;
        if self.is_few() {
            return (Some(wilson(share, self.x, Z)), "sampling_only");
        }
        let samples = if share > 0.0 && share < 1.0 {
            share * (1.0 - share) / variance
        } else {
            self.x
        };
        let quantile = student(self.clusters as f64 - 1.0);
        (Some(wilson(share, samples, quantile)), "clusters")
    }

    /// Too few clusters to tell how they differ.
    pub(super) const fn is_few(&self) -> bool {
        self.clusters < CLUSTERS_MIN
    }

    /// Variance of the share, never below that of the samples alone; `None` where nothing can be told.
    pub(super) fn variance(&self) -> Option<f64> {
        if self.x <= 0.0 || self.y > self.x {
            return None; // tables that do not agree: of different ages
        }
        let share = self.y / self.x;
        // Of a share of 0 or 1: what half a sample more, or less, would say.
        let likely = share.clamp(0.5 / self.x.max(1.0), 1.0 - 0.5 / self.x.max(1.0));
        let binomial = likely * (1.0 - likely) / self.x;
        if self.is_few() {
            return Some(binomial);
        }
        let k = self.clusters as f64;
        let squares = self.yy - 2.0 * share * self.xy + share * share * self.xx;
        Some((k / (k - 1.0) * squares / (self.x * self.x)).max(binomial))
    }

    /// Whether they are of all samples of a row.
    fn are_of(&self, samples: Option<&Value>) -> bool {
        let samples = match samples {
            Some(Value::Number(samples)) => *samples as f64,
            Some(Value::Real(samples)) => *samples,
            _ => return true, // it does not say
        };
        (self.y - samples).abs() <= AGREEMENT * samples + AGREEMENT_SAMPLES
    }

    /// The same partition for a row without a sample.
    pub(super) const fn of_nothing(self) -> Self {
        Self {
            y: 0.0,
            yy: 0.0,
            xy: 0.0,
            ..self
        }
    }
}

/// Wilson's interval of a share of `n` samples.
fn wilson(share: f64, n: f64, z: f64) -> [f64; 2] {
    let z2 = z * z / n;
    let middle = (share + z2 / 2.0) / (1.0 + z2);
    let half = z / (1.0 + z2) * (share * (1.0 - share) / n + z2 / (4.0 * n)).sqrt();
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// 0.975 quantile of Student's distribution, to three digits from 7 degrees on (Abramowitz and Stegun 26.7.5).
fn student(degrees: f64) -> f64 {
    let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
    let first = (z3 + Z) / 4.0;
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0;
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0;
    Z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

/// Ids of the functions in the first `rows` rows, as a list for SQL; `None`: there are none. Rows with very many functions are
/// left out, and what is beyond [`IDS_MAX`].
pub(super) fn function_ids(plan: &Plan, rows: &[Vec<Value>], first: usize) -> Option<String> {
    let mut ids: Vec<u64> = Vec::new();
    for row in rows.iter().take(first) {
        if let Some(Value::Text(of_row)) = plan.hidden(row, "function_ids") {
            let of_row: Vec<u64> = of_row.split(' ').filter_map(|id| id.parse().ok()).collect();
            if of_row.len() <= FUNCTION_IDS_MAX && ids.len() + of_row.len() <= IDS_MAX {
                ids.extend(of_row);
            }
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    (!ids.is_empty()).then(|| ids.join(", "))
}

/// Intervals of rows of functions, within their tier and event.
pub(super) fn of_functions(
    plan: &Plan,
    rows: &[Vec<Value>],
    filter: &Filter,
    keys: &[&'static str],
) -> Vec<PartPlan> {
    within(plan, rows, filter, keys, &["tier", "event"])
}

/// Intervals of rows of functions, within the columns `partition`.
pub(super) fn within(
    plan: &Plan,
    rows: &[Vec<Value>],
    filter: &Filter,
    keys: &[&'static str],
    partition: &[&'static str],
) -> Vec<PartPlan> {
    let ids = function_ids(plan, rows, ROWS_MAX);
    let part = ids.map(|ids| part(plan, filter, keys, partition, Some(&ids)));
    part.into_iter().collect()
}

/// Intervals of all rows, within their tier and event.
pub(super) fn of_all(plan: &Plan, filter: &Filter, keys: &[&'static str]) -> Vec<PartPlan> {
    vec![part(plan, filter, keys, &["tier", "event"], None)]
}

/// Sums over clusters for each row of `keys`.
fn part(
    plan: &Plan,
    filter: &Filter,
    keys: &[&'static str],
    partition: &[&'static str],
    function_ids: Option<&str>,
) -> PartPlan {
    let needs = |further: &[&str]| -> Vec<Dimension> {
        let asked = filter.dimensions().map(|(dimension, _)| dimension);
        let of_keys = Dimension::ALL
            .iter()
            .copied()
            .filter(|known| further.contains(&known.name()));
        asked.chain(of_keys).chain([Dimension::Host]).collect()
    };
    let all = [Table::Mix, Table::Functions, Table::Samples];
    // `mix_1m` keeps no kinds of latency apart.
    let of_rows = if keys.contains(&"latency_kind") {
        &all[1..]
    } else {
        &all
    };
    let table_y = Table::exact(of_rows, &needs(keys), plan.range);
    let table_x = Table::exact(&all, &needs(partition), plan.range);
    let mut statement = Statement::default();
    let with = |more: &[&'static str]| -> Vec<&'static str> {
        let mut keys = more.to_vec();
        keys.retain(|key| *key != "host");
        keys.extend(["host", "hour"]);
        keys
    };
    let source_y = Source::of_functions(
        &mut statement,
        table_y,
        filter,
        plan.range,
        &with(keys),
        function_ids,
    );
    let source_x = Source::new(
        &mut statement,
        table_x,
        filter,
        plan.range,
        &with(partition),
    );
    let (named, selected) = Source::numbered(keys);
    let place = |name: &&str| keys.iter().position(|key| key == name).unwrap_or_default();
    let joined: Vec<String> = partition
        .iter()
        .enumerate()
        .map(|(i, name)| format!("y.k{} = x.p{i}", place(name)))
        .collect();
    let parted: Vec<String> = (0..partition.len()).map(|i| format!("p{i}")).collect();
    let parts: Vec<String> = partition
        .iter()
        .enumerate()
        .map(|(i, name)| format!("toString({name}) AS p{i}"))
        .collect();
    let in_group: Vec<String> = parted
        .iter()
        .map(|part| format!("g.{part} = x.{part}"))
        .collect();
    let text = |select: &[String]| -> Vec<String> {
        select
            .iter()
            .map(|one| {
                let (expression, name) = one.rsplit_once(" AS ").unwrap_or((one, one));
                format!("toString({expression}) AS {name}")
            })
            .collect()
    };
    statement.sql = format!(
        "WITH x AS (SELECT {parts}, s.host AS h, {hour_x} AS hr, toFloat64({sum_x}) AS v FROM {rows_x} GROUP BY {parted}, h, hr) \
         SELECT {shown}, sum(y.v), sum(y.v * y.v), sum(y.v * x.v), any(g.sv), any(g.svv), any(g.k) \
         FROM (SELECT {selected}, s.host AS h, {hour_y} AS hr, toFloat64({sum_y}) AS v FROM {rows_y} GROUP BY {keys}, h, hr) AS y \
         INNER JOIN x ON {joined} AND y.h = x.h AND y.hr = x.hr \
         INNER JOIN (SELECT {parted}, sum(x.v) AS sv, sum(x.v * x.v) AS svv, count() AS k FROM x GROUP BY {parted}) AS g ON {in_group} \
         GROUP BY {shown}",
        parts = parts.join(", "),
        parted = parted.join(", "),
        hour_x = source_x.hour(),
        hour_y = source_y.hour(),
        sum_x = source_x.sum(SAMPLES),
        sum_y = source_y.sum(SAMPLES),
        rows_x = source_x.rows(),
        rows_y = source_y.rows(),
        selected = text(&selected).join(", "),
        keys = named.join(", "),
        shown = named
            .iter()
            .map(|name| format!("y.{name}"))
            .collect::<Vec<_>>()
            .join(", "),
        joined = joined.join(" AND "),
        in_group = in_group.join(" AND "),
    );
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(key)).collect();
    columns.extend([
        Column::real("y", "samples"),
        Column::real("yy", "samples²"),
        Column::real("xy", "samples²"),
        Column::real("x", "samples"),
        Column::real("xx", "samples²"),
        Column::number("clusters", "host-hours"),
    ]);
    PartPlan {
        name: PART,
        statement,
        columns,
    }
}

/// Rows of a part by their keys.
pub(super) fn sums(rows: &[Vec<Value>], keys: usize) -> BTreeMap<Vec<String>, Sums> {
    let mut sums: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
    for row in rows {
        let key = row.iter().take(keys).map(Value::to_string).collect();
        let [.., y, yy, xy, x, xx, Value::Number(clusters)] = row.as_slice() else {
            continue;
        };
        let real = |value: &Value| match value {
            Value::Real(real) => *real,
            _ => 0.0,
        };
        let of_row = Sums {
            y: real(y),
            yy: real(yy),
            xy: real(xy),
            x: real(x),
            xx: real(xx),
            clusters: *clusters,
        };
        sums.insert(key, of_row);
    }
    sums
}

/// Puts intervals behind the column `share`.
pub(super) fn conclude(answer: &mut Answer, keys: &[&'static str]) {
    let part = answer.parts.iter().position(|part| part.name == PART);
    let part = part.map(|at| answer.parts.remove(at));
    let rows = part.map(|part| part.rows).unwrap_or_default();
    let sums = sums(&rows, keys.len());
    let places: Vec<usize> = keys.iter().filter_map(|key| answer.column(key)).collect();
    let Some(behind) = answer.column("share").map(|share| share + 1) else {
        return;
    };
    answer.columns.splice(behind..behind, COLUMNS);
    let mut few = false;
    let of_samples = answer.column("samples");
    for row in &mut answer.rows {
        let key: Vec<String> = places
            .iter()
            .filter_map(|place| row.get(*place).map(Value::to_string))
            .collect();
        let samples = of_samples.and_then(|at| row.get(at));
        let sums = sums.get(&key).filter(|sums| sums.are_of(samples));
        let sums = sums.copied().unwrap_or_default();
        let (interval, basis) = sums.interval();
        few |= basis == "sampling_only";
        // Digits beyond these say nothing.
        let bound = |at: usize| {
            interval.map_or(Value::Null, |bounds| {
                Value::Real((bounds[at] * 1e6).round() / 1e6)
            })
        };
        let cells = [
            bound(0),
            bound(1),
            Value::Text(basis.to_owned()),
            Value::Number(sums.clusters),
        ];
        row.splice(behind..behind, cells);
    }
    if few {
        answer.notes.push(format!(
            "intervals of `sampling_only` rest on fewer than {CLUSTERS_MIN} host-hours: the real uncertainty is larger"
        ));
    }
}

#[cfg(test)]
mod tests;

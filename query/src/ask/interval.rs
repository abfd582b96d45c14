//! How sure shares are: intervals from clusters of one host and one hour.
//!
//! With `x` what a share is of (estimated events, or samples) in a partition and cluster, and `y` that of a row, the share is the ratio `R = Σy / Σx`. Linearized,
//! its variance is
//!
//! ```text
//! var(R) = k / (k − 1) · Σ (y − R·x)² / (Σx)²      k clusters with x > 0
//! ```
//!
//! The interval is Wilson's for as many samples as give that variance, with Student's quantile of `k − 1`. Below
//! [`CLUSTERS_MIN`] clusters the samples themselves are the units (`sampling_only`), each with what it stands for: a lower
//! bound of the uncertainty. Either covers sampling error only.

use std::collections::BTreeMap;

use super::filter::{Dimension, Filter};
use super::grouped::FUNCTION_IDS_MAX;
use super::table::{PERIODS, SAMPLES, SQUARES, Source, Table};
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
/// Periods differ where their variance is more than this part of the squared mean.
const PERIODS_DIFFER: f64 = 1e-4;
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

/// Sums over clusters of one estimator: `y` of a row, `x` of its partition.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moments {
    y: f64,
    yy: f64,
    xy: f64,
    x: f64,
    xx: f64,
    /// Σ of the squares of what single samples stand for, of the row and of the partition; of samples themselves `y`, `x`.
    singles_y: f64,
    singles_x: f64,
}

/// What rests on clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    /// Of samples.
    samples: Moments,
    /// Of periods.
    periods: Moments,
    clusters: u64,
}

/// What shares are of: the column `share_of`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// Samples: what the event's periods count is not known.
    #[default]
    Samples,
    /// Estimated events.
    Events,
}

impl Of {
    pub(super) fn read(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Text(text)) if text == "est_events" => Self::Events,
            _ => Self::Samples,
        }
    }
}

impl Moments {
    /// Samples of equal size that tell as much as those of the partition.
    fn effective(&self) -> f64 {
        self.x * self.x / self.singles_x
    }

    fn is_known(&self) -> bool {
        // More than the whole: tables of different ages.
        self.x > 0.0 && self.singles_x > 0.0 && self.y <= self.x * (1.0 + 1e-9)
    }

    fn share(&self) -> f64 {
        (self.y / self.x).min(1.0)
    }

    /// Variance of the share if samples are all there is to chance.
    fn of_sampling(&self) -> f64 {
        let (share, n) = (self.share(), self.effective());
        if self.y <= 0.0 || self.y >= self.x {
            // What half a sample more, or less, would say.
            let half = 0.5 / n.max(1.0);
            let likely = share.clamp(half, 1.0 - half);
            return likely * (1.0 - likely) / n;
        }
        let others = (self.singles_x - self.singles_y).max(0.0);
        ((1.0 - share).powi(2) * self.singles_y + share.powi(2) * others) / (self.x * self.x)
    }
}

impl Sums {
    /// Those of an estimator.
    pub(super) const fn of(&self, of: Of) -> Moments {
        match of {
            Of::Samples => self.samples,
            Of::Events => self.periods,
        }
    }

    /// The interval and what it rests on.
    fn interval(&self, of: Of) -> (Option<[f64; 2]>, &'static str) {
        let Some(variance) = self.variance(of) else {
            return (None, "none");
        };
        let moments = self.of(of);
        let share = moments.share();
        let samples = if share > 0.0 && share < 1.0 {
            share * (1.0 - share) / variance
        } else {
            moments.effective()
        };
        if self.is_few() {
            return (Some(wilson(share, samples, Z)), "sampling_only");
        }
        let quantile = student(self.clusters as f64 - 1.0);
        (Some(wilson(share, samples, quantile)), "clusters")
    }

    /// Too few clusters to tell how they differ.
    pub(super) const fn is_few(&self) -> bool {
        self.clusters < CLUSTERS_MIN
    }

    /// Variance of the share, never below that of the samples alone; `None` where nothing can be told.
    pub(super) fn variance(&self, of: Of) -> Option<f64> {
        let moments = self.of(of);
        if !moments.is_known() {
            return None;
        }
        let of_sampling = moments.of_sampling();
        if self.is_few() {
            return Some(of_sampling);
        }
        let (k, share) = (self.clusters as f64, moments.share());
        let squares = moments.yy - 2.0 * share * moments.xy + share * share * moments.xx;
        Some((k / (k - 1.0) * squares / (moments.x * moments.x)).max(of_sampling))
    }

    /// The share; `None` where nothing can be told.
    pub(super) fn share(&self, of: Of) -> Option<f64> {
        let moments = self.of(of);
        moments.is_known().then(|| moments.share())
    }

    /// Whether they are of all samples of a row.
    fn are_of(&self, samples: Option<&Value>) -> bool {
        let samples = match samples {
            Some(Value::Number(samples)) => *samples as f64,
            Some(Value::Real(samples)) => *samples,
            _ => return true, // it does not say
        };
        (self.samples.y - samples).abs() <= AGREEMENT * samples + AGREEMENT_SAMPLES
    }

    /// Samples of the partition stand for different numbers of events.
    fn periods_differ(&self) -> bool {
        let (n, periods) = (self.samples.x, self.periods);
        let mean = periods.x / n.max(1.0);
        periods.singles_x / n.max(1.0) - mean * mean > PERIODS_DIFFER * mean * mean
    }

    /// The same partition for a row without a sample.
    pub(super) const fn of_nothing(self) -> Self {
        const fn nothing(moments: Moments) -> Moments {
            Moments {
                y: 0.0,
                yy: 0.0,
                xy: 0.0,
                singles_y: 0.0,
                ..moments
            }
        }
        Self {
            samples: nothing(self.samples),
            periods: nothing(self.periods),
            clusters: self.clusters,
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
    // What shares of functions are of.
    let whole = if keys.contains(&"function") {
        filter.of_all_functions()
    } else {
        filter.clone()
    };
    let needs = |filter: &Filter, further: &[&str]| -> Vec<Dimension> {
        let of_keys = Dimension::ALL
            .iter()
            .copied()
            .filter(|known| further.contains(&known.name()));
        let asked = filter.needs().into_iter();
        asked.chain(of_keys).chain([Dimension::Host]).collect()
    };
    let all = [Table::Mix, Table::Functions, Table::Samples];
    // `mix_1m` keeps no kinds of latency apart.
    let of_rows = if keys.contains(&"latency_kind") {
        &all[1..]
    } else {
        &all
    };
    let table_y = Table::exact(of_rows, &needs(filter, keys), plan.range);
    let table_x = Table::exact(&all, &needs(&whole, partition), plan.range);
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
        &whole,
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
    let values = |source: &Source| {
        format!(
            "toFloat64({}) AS v, {} AS p, {} AS q",
            source.sum(SAMPLES),
            source.sum(PERIODS),
            source.sum(SQUARES)
        )
    };
    statement.sql = format!(
        "WITH x AS (SELECT {parts}, s.host AS h, {hour_x} AS hr, {values_x} FROM {rows_x} GROUP BY {parted}, h, hr) \
         SELECT {shown}, sum(y.v), sum(y.v * y.v), sum(y.v * x.v), any(g.sv), any(g.svv), \
         sum(y.p), sum(y.p * y.p), sum(y.p * x.p), any(g.sp), any(g.spp), sum(y.q), any(g.sq), any(g.k) \
         FROM (SELECT {selected}, s.host AS h, {hour_y} AS hr, {values_y} FROM {rows_y} GROUP BY {keys}, h, hr) AS y \
         INNER JOIN x ON {joined} AND y.h = x.h AND y.hr = x.hr \
         INNER JOIN (SELECT {parted}, sum(x.v) AS sv, sum(x.v * x.v) AS svv, sum(x.p) AS sp, sum(x.p * x.p) AS spp, sum(x.q) AS sq, \
         count() AS k FROM x GROUP BY {parted}) AS g ON {in_group} \
         GROUP BY {shown}",
        parts = parts.join(", "),
        parted = parted.join(", "),
        hour_x = source_x.hour(),
        hour_y = source_y.hour(),
        values_x = values(&source_x),
        values_y = values(&source_y),
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
        Column::real("py", "events"),
        Column::real("pyy", "events²"),
        Column::real("pxy", "events²"),
        Column::real("px", "events"),
        Column::real("pxx", "events²"),
        Column::real("singles_y", "events²"),
        Column::real("singles_x", "events²"),
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
        let Some((Value::Number(clusters), reals)) =
            row.get(keys..).and_then(<[Value]>::split_last)
        else {
            continue;
        };
        let real = |value: &Value| match value {
            Value::Real(real) => *real,
            _ => 0.0,
        };
        let reals: Vec<f64> = reals.iter().map(real).collect();
        let [
            y,
            yy,
            xy,
            x,
            xx,
            py,
            pyy,
            pxy,
            px,
            pxx,
            singles_y,
            singles_x,
        ] = reals[..]
        else {
            continue;
        };
        let samples = Moments {
            y,
            yy,
            xy,
            x,
            xx,
            singles_y: y,
            singles_x: x,
        };
        let periods = Moments {
            y: py,
            yy: pyy,
            xy: pxy,
            x: px,
            xx: pxx,
            singles_y,
            singles_x,
        };
        let of_row = Sums {
            samples,
            periods,
            clusters: *clusters,
        };
        sums.insert(key, of_row);
    }
    sums
}

/// Puts intervals behind the columns `share` and `share_of`.
pub(super) fn conclude(answer: &mut Answer, keys: &[&'static str]) {
    let part = answer.parts.iter().position(|part| part.name == PART);
    let part = part.map(|at| answer.parts.remove(at));
    let rows = part.map(|part| part.rows).unwrap_or_default();
    let sums = sums(&rows, keys.len());
    let places: Vec<usize> = keys.iter().filter_map(|key| answer.column(key)).collect();
    let Some(behind) = answer.column("share_of").map(|share| share + 1) else {
        return;
    };
    answer.columns.splice(behind..behind, COLUMNS);
    let (mut few, mut leaning, mut without) = (false, false, 0_usize);
    let [of_samples, share_of] = ["samples", "share_of"].map(|name| answer.column(name));
    for row in &mut answer.rows {
        let key: Vec<String> = places
            .iter()
            .filter_map(|place| row.get(*place).map(Value::to_string))
            .collect();
        let samples = of_samples.and_then(|at| row.get(at));
        let sums = sums.get(&key).filter(|sums| sums.are_of(samples));
        let sums = sums.copied().unwrap_or_default();
        let of = Of::read(share_of.and_then(|at| row.get(at)));
        let (interval, basis) = sums.interval(of);
        few |= basis == "sampling_only";
        without += usize::from(interval.is_none());
        leaning |= of == Of::Samples && sums.periods_differ();
        let bound = |at: usize, outward: fn(f64) -> f64| {
            interval.map_or(Value::Null, |bounds| {
                Value::Real(rounded(bounds[at], outward))
            })
        };
        let cells = [
            bound(0, f64::floor),
            bound(1, f64::ceil),
            Value::Text(basis.to_owned()),
            Value::Number(sums.clusters),
        ];
        row.splice(behind..behind, cells);
    }
    if leaning {
        answer.notes.push("shares of `samples` are of an event whose periods changed and count nothing that is known: they lean to when it was short".to_owned());
    }
    if without > 0 && keys.contains(&"function") {
        answer.notes.push(format!(
            "{without} of the rows have no interval: those behind the first {ROWS_MAX}, names of more than {FUNCTION_IDS_MAX} functions \
             (as `[unknown]` often is), and events of a single sample; filter to have them"
        ));
    }
    if few {
        answer.notes.push(format!(
            "intervals of `sampling_only` rest on fewer than {CLUSTERS_MIN} host-hours: the real uncertainty is larger"
        ));
    }
}

/// A bound without the digits that say nothing: six behind the point, of smaller numbers six that count. Rounded away from the
/// share, which is not rounded and has to stay inside.
fn rounded(bound: f64, outward: fn(f64) -> f64) -> f64 {
    if bound == 0.0 {
        return bound;
    }
    let scale = 10_f64.powf((5.0 - bound.abs().log10().floor()).max(6.0));
    outward(bound * scale) / scale
}

#[cfg(test)]
mod tests;

//! What changed, by function: between two time ranges, builds, or sets of hosts, and whether by more than the noise.
//!
//! Each side's share has a variance from its host-hours (see [`interval`](super::interval)); with those of both, `z` is the
//! change over its standard error. Many functions are tested at once: Benjamini and Hochberg's procedure keeps the expected
//! part of false findings among those called changed below 5 %.

mod sides;

use std::collections::BTreeMap;

use super::filter::{Dimension, Filter};
use super::interval::{self, Of, Sums};
use super::time::{Range, text};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan, Values};
use crate::answer::{Answer, Column, Value};
use sides::SideAsked;

/// Expected part of rows called changed that did not change, at most.
const FALSE_DISCOVERIES: f64 = 0.05;

/// What tells rows apart on both sides: not the build, which may be what differs.
const KEYS: &[&str] = &["function", "module", "tier", "event", "latency_kind"];

/// The question `diff`.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Range, filters, rows of what is compared: "after".
    pub filter: Filter,
    /// What it is compared with: "before".
    pub before: Filter,
}

impl Ask for Diff {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[
        Extra {
            name: "before_since",
            about: "First moment of what it is compared with; `since` unless given. Without any of `before_…`: as long, just before.",
            values: Values::Text,
        },
        Extra {
            name: "before_until",
            about: "Moment behind the last one; `until` unless given.",
            values: Values::Text,
        },
        Extra {
            name: "before_build_id",
            about: "Build it is compared with, instead of `build_id`.",
            values: Values::Text,
        },
        Extra {
            name: "before_host",
            about: "Hosts it is compared with, instead of `host`; by commas or repeated.",
            values: Values::Text,
        },
    ];

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        let mut before = filter.clone();
        for (name, dimension) in [
            ("before_build_id", Dimension::BuildId),
            ("before_host", Dimension::Host),
        ] {
            let values = given.list(name);
            if !values.is_empty() {
                before.clear(&[dimension]);
                for value in values {
                    before.add(dimension, &value)?;
                }
            }
        }
        let is_given = |name: &str| given.text(name).is_some();
        if !Self::EXTRA.iter().any(|extra| is_given(extra.name)) {
            // As long, just before.
            before.range = Range {
                since_ns: filter.range.since_ns.saturating_sub(filter.range.len_ns()),
                until_ns: filter.range.since_ns,
            };
        }
        let (since, until) = (given.text("before_since"), given.text("before_until"));
        if since.is_some() || until.is_some() {
            let moment =
                |given: Option<&str>, own: u64| given.map_or(own.to_string(), str::to_owned);
            before.range = Range::parse(
                &moment(since, filter.range.since_ns),
                &moment(until, filter.range.until_ns),
                filter.asked_ns,
            )?;
        }
        if before == filter {
            return Err(AskError::Nothing);
        }
        Ok(Self { filter, before })
    }

    fn plan(&self) -> Plan {
        self.sides().after.plan()
    }

    fn more(&self, plan: &Plan, _: &[Vec<Value>]) -> Vec<PartPlan> {
        let before = self.sides().before.plan();
        let clusters = |name, plan: &Plan, filter: &Filter| {
            interval::of_all(plan, filter, KEYS)
                .into_iter()
                .map(move |part| PartPlan { name, ..part })
        };
        let mut parts = vec![PartPlan {
            name: "before",
            columns: before.columns_read(),
            statement: before.statement.clone(),
        }];
        parts.extend(clusters("clusters_before", &before, &self.before));
        parts.extend(clusters("clusters_after", plan, &self.filter));
        parts
    }

    fn conclude(&self, answer: &mut Answer) {
        let limit = self.filter.limit as usize;
        compare(answer, limit);
        let sides = self.sides();
        let side = |side: &SideAsked| {
            let filter = &side.filter;
            format!("{}{}", side.plan().range, named(filter))
        };
        answer.notes.push(format!(
            "before: {}; after: {}; the completeness is that of after",
            side(&sides.before),
            side(&sides.after)
        ));
        if let Some(hour) = sides.left_out {
            answer.notes.push(format!(
                "the hour from {} on is in neither side, as each has a part of it and `fleet_1h` has whole hours",
                text(hour)
            ));
        }
    }
}

/// What else a side is chosen by.
fn named(filter: &Filter) -> String {
    let mut text = String::new();
    for dimension in [Dimension::Host, Dimension::BuildId] {
        let values = filter.values(dimension);
        if !values.is_empty() {
            text.push_str(&format!(", {} {}", dimension.name(), values.join(" ")));
        }
    }
    text
}

/// One function on one side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Side {
    /// It has samples of the event: without any nobody knows the share of a function.
    known: bool,
    samples: u64,
    share: f64,
    of: Of,
    sums: Sums,
}

impl Side {
    /// The same with the share of another estimator, where that can be told.
    fn by(self, of: Of) -> Self {
        let share = self.sums.share(of);
        Self {
            share: share.unwrap_or(self.share),
            of: if share.is_some() { of } else { self.of },
            ..self
        }
    }
}

/// A row before it becomes values.
#[derive(Debug, Clone, PartialEq)]
struct Changed {
    key: Vec<String>,
    before: Side,
    after: Side,
    error: Option<f64>,
    p_value: Option<f64>,
}

impl Changed {
    /// Both sides know.
    fn is_known(&self) -> bool {
        self.before.known && self.after.known
    }

    fn delta(&self) -> f64 {
        if self.is_known() {
            self.after.share - self.before.share
        } else {
            0.0
        }
    }
}

type Shares = BTreeMap<Vec<String>, (u64, f64, Of)>;

fn shares(rows: &[Vec<Value>]) -> Shares {
    let mut all = BTreeMap::new();
    for row in rows {
        let key = row.iter().take(KEYS.len()).map(Value::to_string).collect();
        if let (Some(Value::Number(samples)), Some(Value::Real(share))) =
            (row.get(KEYS.len()), row.get(KEYS.len() + 1))
        {
            let of = Of::read(row.get(KEYS.len() + 2));
            all.insert(key, (*samples, *share, of));
        }
    }
    all
}

fn compare(answer: &mut Answer, limit: usize) {
    let mut take = |name: &str| {
        let at = answer.parts.iter().position(|part| part.name == name);
        at.map(|at| answer.parts.remove(at).rows)
            .unwrap_or_default()
    };
    let before = shares(&take("before"));
    let clusters = [take("clusters_before"), take("clusters_after")]
        .map(|rows| interval::sums(&rows, KEYS.len()));
    let after = shares(&answer.rows);
    let mut keys: Vec<&Vec<String>> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let wholes = clusters.each_ref().map(whole_of_each);
    let ofs = [of_each(&before), of_each(&after)];
    let side = |at: usize, shares: &Shares, key: &Vec<String>| {
        let (samples, share, _) = shares.get(key).copied().unwrap_or_default();
        let sums = clusters[at].get(key).copied();
        let whole = || wholes[at].get(&partition(key)).copied().unwrap_or_default();
        Side {
            known: ofs[at].contains_key(&partition(key)),
            samples,
            share,
            of: ofs[at].get(&partition(key)).copied().unwrap_or_default(),
            sums: sums.unwrap_or_else(whole),
        }
    };
    let mut rows: Vec<Changed> = keys
        .into_iter()
        .map(|key| {
            let (one, other) = (side(0, &before, key), side(1, &after, key));
            // Of what both sides know.
            let of = |at: usize| ofs[at].get(&partition(key)).copied();
            match (of(0), of(1)) {
                (Some(left), Some(right)) if left != right => {
                    judged(key, one.by(Of::Samples), other.by(Of::Samples))
                }
                _ => judged(key, one, other),
            }
        })
        .collect();
    let threshold = benjamini_hochberg(rows.iter().filter_map(|row| row.p_value).collect());
    rows.sort_by(|one, other| {
        other
            .delta()
            .abs()
            .total_cmp(&one.delta().abs())
            .then_with(|| one.key.cmp(&other.key))
    });
    let all = rows.len();
    rows.truncate(limit);
    let few = rows
        .iter()
        .any(|row| row.before.sums.is_few() || row.after.sums.is_few());
    answer.columns = KEYS.iter().map(|key| Column::text(key)).collect();
    answer.columns.extend([
        Column::number("samples_before", "samples"),
        Column::number("samples_after", "samples"),
        Column::real("share_before", "ratio"),
        Column::real("share_after", "ratio"),
        Column::text("share_of"),
        Column::real("change", "ratio"),
        Column::real("change_low", "ratio"),
        Column::real("change_high", "ratio"),
        Column::real("p_value", ""),
        Column::text("changed"),
        Column::text("ci_basis"),
    ]);
    answer.rows = rows.iter().map(|row| values(row, threshold)).collect();
    answer.other = None;
    if all > answer.rows.len() {
        let more = all - answer.rows.len();
        answer.notes.push(format!(
            "{more} more rows changed less: {}",
            super::more_rows(limit)
        ));
    }
    answer.notes.push("shares are within the tier and event of each side; `changed`: yes where the change is larger than the noise, with at most 5 % of such findings expected to be false".to_owned());
    if !rows.iter().all(Changed::is_known) {
        answer.notes.push(
            "one side has no sample of some events: their shares there, and changes, are unknown"
                .to_owned(),
        );
    }
    if few {
        answer.notes.push("sides of fewer than 8 host-hours (`sampling_only`): their real noise is larger than what is reckoned with".to_owned());
    }
}

/// Tier and event.
fn partition(key: &[String]) -> [String; 2] {
    [2, 3].map(|at| key.get(at).cloned().unwrap_or_default())
}

/// What shares of each partition are of.
fn of_each(shares: &Shares) -> BTreeMap<[String; 2], Of> {
    let of = shares.iter();
    of.map(|(key, (_, _, of))| (partition(key), *of)).collect()
}

/// Of each partition what a function has that no sample fell on.
fn whole_of_each(sums: &BTreeMap<Vec<String>, Sums>) -> BTreeMap<[String; 2], Sums> {
    let of = sums.iter();
    of.map(|(key, sums)| (partition(key), sums.of_nothing()))
        .collect()
}

fn judged(key: &[String], before: Side, after: Side) -> Changed {
    let variance = |side: &Side| side.sums.variance(side.of);
    let both = before.known && after.known;
    let error = match (variance(&before), variance(&after)) {
        (Some(one), Some(other)) if both && one + other > 0.0 => Some((one + other).sqrt()),
        _ => None,
    };
    let mut row = Changed {
        key: key.to_vec(),
        before,
        after,
        error,
        p_value: None,
    };
    row.p_value = error.map(|error| two_sided(row.delta() / error));
    row
}

fn values(row: &Changed, threshold: f64) -> Vec<Value> {
    let real = |value: Option<f64>| value.map_or(Value::Null, Value::Real);
    let share = |side: &Side| real(side.known.then_some(side.share));
    let half = row.error.map(|error| error * interval::Z);
    let changed = match row.p_value {
        Some(p_value) if p_value <= threshold => "yes",
        Some(_) => "no",
        None => "cannot tell",
    };
    let few = row.before.sums.is_few() || row.after.sums.is_few();
    let basis = match row.error {
        None => "none",
        Some(_) if few => "sampling_only",
        Some(_) => "clusters",
    };
    // A side without samples of the event says nothing of it.
    let share_of = match [row.before, row.after].map(|side| side.of) {
        [Of::Samples, Of::Samples] => "samples",
        _ => "est_events",
    };
    let mut cells: Vec<Value> = row.key.iter().cloned().map(Value::Text).collect();
    cells.extend([
        Value::Number(row.before.samples),
        Value::Number(row.after.samples),
        share(&row.before),
        share(&row.after),
        Value::Text(share_of.to_owned()),
        real(row.is_known().then(|| row.delta())),
        real(half.map(|half| row.delta() - half)),
        real(half.map(|half| row.delta() + half)),
        real(row.p_value),
        Value::Text(changed.to_owned()),
        Value::Text(basis.to_owned()),
    ]);
    cells
}

/// Largest p-value that is still called a change.
fn benjamini_hochberg(mut p_values: Vec<f64>) -> f64 {
    p_values.sort_unstable_by(f64::total_cmp);
    let n = p_values.len() as f64;
    let is_in =
        |(rank, p_value): &(usize, &f64)| **p_value <= (*rank as f64 + 1.0) / n * FALSE_DISCOVERIES;
    let last = p_values.iter().enumerate().rfind(is_in);
    last.map_or(-1.0, |(_, p_value)| *p_value)
}

/// Probability of a normal value at least this far from 0.
///
/// Abramowitz and Stegun 7.1.26: the error is below 1.5e-7.
fn two_sided(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    sum * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_tables() {
        for (z, p) in [
            (0.0, 1.0),
            (1.0, 0.317_31),
            (-1.959_964, 0.05),
            (3.0, 0.002_7),
        ] {
            assert!((two_sided(z) - p).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn of_many_tests_only_what_stands_out_counts() {
        // 0.04 alone would pass, among twenty it does not.
        assert!(benjamini_hochberg(vec![0.04]) >= 0.04);
        let mut many = vec![0.5; 19];
        many.push(0.04);
        assert!(benjamini_hochberg(many.clone()) < 0.04);
        many.push(0.000_1);
        assert!((benjamini_hochberg(many) - 0.000_1).abs() < 1e-12);
        assert!(benjamini_hochberg(Vec::new()) < 0.0);
    }
}

//! Why an answer has no rows, and what to ask next; and values of filters that nobody knows, with names near them.
//!
//! Asked only where rows are missing, or where a list of values may hide one that is misspelt.

use super::filter::{Dimension, Filter};
use super::samples::conditions;
use super::table::SAMPLES_KEPT_NS;
use super::time::time_condition;
use super::time::{DAY_NS, HOUR_NS, text};
use super::{Name, PartPlan, Range};
use crate::answer::{Column, Value};
use crate::statement::Statement;

/// Values looked up by their names.
const VALUES_MAX: usize = 3;
/// Names shown that are near one.
const NEAR: u32 = 3;
/// Longer texts are compared by what they contain alone.
const COMPARED_BYTES_MAX: usize = 200;

/// Samples of the range, those that pass each filter alone, those that pass all; tiers and events there.
pub(crate) fn counts(filter: &Filter) -> PartPlan {
    let mut statement = Statement::default();
    let none = Filter::new(filter.range, filter.asked_ns);
    let within = conditions(&mut statement, &none, filter.range);
    let all = conditions(&mut statement, filter, filter.range);
    let mut columns = vec![
        Column::number("samples", "samples"),
        Column::number("all", "samples"),
        Column::text("tiers"),
        Column::text("events"),
        Column::text("tiers_of_all"),
        Column::text("events_of_all"),
    ];
    let mut further = String::new();
    for (dimension, values) in filter.dimensions() {
        let mut one = none.clone();
        for value in values {
            one = one.and(dimension, value);
        }
        let condition = conditions(&mut statement, &one, filter.range);
        further.push_str(&format!(", countIf({condition})"));
        columns.push(Column::number(dimension.name(), "samples"));
    }
    let names = |column: &str, condition: &str| {
        format!(
            "arrayStringConcat(arraySort(groupUniqArrayIf(8)(toString(s.{column}), {condition})), ', ')"
        )
    };
    statement.sql = format!(
        "SELECT count(), countIf({all}), {tiers}, {events}, {tiers_of_all}, {events_of_all}{further} FROM samples AS s WHERE {within}",
        tiers = names("tier", "1"),
        events = names("event", "1"),
        tiers_of_all = names("tier", &all),
        events_of_all = names("event", &all),
    );
    PartPlan {
        name: "counts",
        statement,
        columns,
    }
}

/// From when to when there are samples at all, in whole hours, seconds since 1970; none: 0. And how many the hours of the range
/// have, also where only sums are kept.
pub(crate) fn stored(filter: &Filter) -> PartPlan {
    let mut statement = Statement::default();
    let within = time_condition(&mut statement, false, filter.range.outwards(HOUR_NS));
    statement.sql = format!(
        "SELECT toUInt64(toUnixTimestamp(min(time))), toUInt64(toUnixTimestamp(max(time))), sumIf(n, {within}) FROM fleet_1h"
    );
    PartPlan {
        name: "stored",
        statement,
        columns: vec![
            Column::number("first", "seconds"),
            Column::number("last", "seconds"),
            Column::number("within", "samples"),
        ],
    }
}

/// Where names of a dimension are told; `None`: nowhere but in samples.
fn names(dimension: Dimension, statement: &mut Statement, range: Range) -> Option<String> {
    Some(match dimension {
        Dimension::Host => {
            let since = range.since_ns.saturating_sub(DAY_NS) / 1_000_000_000;
            let since = statement.number(since);
            format!(
                "SELECT DISTINCT host AS name FROM hosts UNION DISTINCT SELECT DISTINCT host AS name FROM ledger_1m \
                 WHERE time >= toDateTime({since}, 'UTC')"
            )
        }
        Dimension::Namespace | Dimension::Pod | Dimension::Container | Dimension::Service => {
            format!(
                "SELECT DISTINCT toString({}) AS name FROM workload_names",
                dimension.name()
            )
        }
        Dimension::BuildId => "SELECT DISTINCT build_id AS name FROM mappings".to_owned(),
        Dimension::Function => "SELECT DISTINCT function AS name FROM function_names".to_owned(),
        Dimension::Event => "SELECT DISTINCT name FROM events".to_owned(),
        _ => return None,
    })
}

/// Those of a filter's values that nobody knows, of dimensions whose names are told somewhere.
pub(crate) fn unknown(filter: &Filter, dimension: Dimension) -> Option<PartPlan> {
    let mut statement = Statement::default();
    let values = filter.values(dimension);
    if values.is_empty() {
        return None;
    }
    let names = names(dimension, &mut statement, filter.range)?;
    let values = statement.texts(values);
    let nameless = if dimension == Dimension::Function {
        " AND v != '[unknown]'"
    } else {
        ""
    };
    statement.sql = format!(
        "SELECT v FROM (SELECT arrayJoin([{values}]) AS v) WHERE v NOT IN (SELECT name FROM ({names})){nameless} ORDER BY v LIMIT {VALUES_MAX}"
    );
    Some(PartPlan {
        name: "unknown",
        statement,
        columns: vec![Column::text("value")],
    })
}

/// Names near a value: those that contain it or are contained in it, then those that differ in few letters.
pub(crate) fn near(filter: &Filter, dimension: Dimension, value: &str) -> Option<PartPlan> {
    let mut statement = Statement::default();
    let names = names(dimension, &mut statement, filter.range)?;
    let place = statement.texts(&[value.to_owned()]);
    let contains = format!(
        "(positionCaseInsensitive(name, {place}) > 0 OR positionCaseInsensitive({place}, name) > 0)"
    );
    let most = (value.len() / 3).max(2);
    let apart = if value.len() <= COMPARED_BYTES_MAX {
        format!(
            "if(length(name) <= {COMPARED_BYTES_MAX}, editDistance(lower(name), lower({place})), 1000)"
        )
    } else {
        "1000".to_owned()
    };
    statement.sql = format!(
        "SELECT name FROM ({names}) WHERE name != '' AND ({contains} OR {apart} <= {most}) \
         ORDER BY NOT {contains}, {apart}, length(name), name LIMIT {NEAR}"
    );
    Some(PartPlan {
        name: "near",
        statement,
        columns: vec![Column::text("name")],
    })
}

/// What is said of a value that nobody knows.
pub(crate) fn of_unknown(dimension: Dimension, value: &str, near: &[Vec<Value>]) -> String {
    let near: Vec<String> = near
        .iter()
        .flatten()
        .map(|name| format!("`{name}`"))
        .collect();
    let hint = if near.is_empty() {
        String::new()
    } else {
        format!("; near it: {}", near.join(", "))
    };
    let list = match dimension {
        Dimension::Host => "; `memwide hosts` lists them",
        // Their names hold commas.
        Dimension::Function | Dimension::Event if value.contains(',') => {
            "; a comma is part of the name here: repeat the filter for several"
        }
        _ => "",
    };
    format!(
        "no {} `{}` is known{hint}{list}",
        dimension.name(),
        super::shortened(value)
    )
}

/// What a question needs of samples, where not every sample has it.
const fn needs(name: Name) -> &'static str {
    match name {
        Name::Numa => "a known NUMA node far from the CPU",
        Name::Latency => "a measured latency (tier precise)",
        Name::Pages => "a data address",
        Name::Lines => {
            "the address of a line that several CPUs use and somebody writes, or that another cache answered for (tier precise)"
        }
        Name::Faults => "an event that counts page faults (minor-faults, major-faults)",
        _ => "what is asked for",
    }
}

/// Why there are no rows, from rows of [`counts`] and [`stored`].
pub(crate) fn empty(
    name: Name,
    filter: &Filter,
    counts: &[Vec<Value>],
    stored: &[Vec<Value>],
) -> Vec<String> {
    let number = |value: Option<&Value>| match value {
        Some(Value::Number(number)) => *number,
        _ => 0,
    };
    let counted = counts.first().map(Vec::as_slice).unwrap_or_default();
    let [samples, all] = [0, 1].map(|at| number(counted.get(at)));
    let words = |at: usize| counted.get(at).map(Value::to_string).unwrap_or_default();
    if samples == 0 {
        let hours = stored.first().map(Vec::as_slice).unwrap_or_default();
        let [first, last, within] = [0, 1, 2].map(|at| number(hours.get(at)));
        let begins_ns = filter.asked_ns.saturating_sub(SAMPLES_KEPT_NS);
        if within > 0 && filter.range.since_ns < begins_ns {
            return vec![format!(
                "of the {within} samples in the hours of this range none passes the filters or has what is asked for; single \
                 samples are kept for 3 days, so no more can be told of this range"
            )];
        }
        return vec![if last == 0 {
            "nothing is stored yet: `memwide hosts` shows who sends, `memwide doctor` what a machine can collect".to_owned()
        } else {
            const SECOND_NS: u64 = 1_000_000_000;
            let (first, end) = (first * SECOND_NS, (last + 3_600) * SECOND_NS);
            format!(
                "no sample is from {}; there are some from {} until before {}: choose `since` and `until` there",
                filter.range,
                text(first),
                text(end)
            )
        }];
    }
    let alone: Vec<(Dimension, u64)> = filter
        .dimensions()
        .enumerate()
        .map(|(at, (dimension, _))| (dimension, number(counted.get(6 + at))))
        .collect();
    let shown = |dimension: Dimension| {
        let values = filter.values(dimension).join("`, `");
        format!("{} `{}`", dimension.name(), super::shortened(&values))
    };
    let mut notes: Vec<String> = alone
        .iter()
        .filter(|(_, passing)| *passing == 0)
        .map(|(dimension, _)| {
            format!(
                "of the {samples} samples in this range none has {}; there are tiers {}, events {}",
                shown(*dimension),
                words(2),
                words(3)
            )
        })
        .collect();
    if notes.is_empty() && all == 0 {
        let alone: Vec<String> = alone
            .iter()
            .map(|(dimension, passing)| format!("{passing} have {}", shown(*dimension)))
            .collect();
        notes.push(format!(
            "of the {samples} samples in this range none passes all filters: {}",
            alone.join(", ")
        ));
    } else if notes.is_empty() {
        notes.push(format!(
            "{all} samples of this range pass the filters, of tiers {} and events {}; none has {}: `memwide hosts` shows the tiers of hosts, `memwide doctor` what a machine lacks",
            words(4),
            words(5),
            needs(name)
        ));
    }
    notes
}

//! Counting by hand: groups of samples, and comparing them with answers.

use std::collections::BTreeMap;

use memwide_model::LatencyKind;
use memwide_store::rows::SampleRow;
use serde_json::{Value as Json, json};

pub(crate) type Sample = SampleRow<'static>;
pub(crate) type Key = Vec<String>;

/// Samples by a key.
pub(crate) fn grouped<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    key: impl Fn(&Sample) -> Key,
) -> BTreeMap<Key, Vec<Sample>> {
    let mut groups: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    for row in samples {
        groups.entry(key(row)).or_default().push(*row);
    }
    groups
}

/// What a row has in these columns.
pub(crate) fn key_of(record: &Json, names: &[&str]) -> Key {
    names
        .iter()
        .map(|name| match &record[*name] {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

/// What a sample counts for in shares: the events it stands for, where the event says what it counts.
pub(crate) fn counts_for(row: &Sample) -> f64 {
    if row.event == "mem-loads,ldlat=30" {
        1.0
    } else {
        row.period as f64
    }
}

/// What they count for together.
pub(crate) fn count_for<'a>(rows: impl IntoIterator<Item = &'a Sample>) -> f64 {
    rows.into_iter().map(counts_for).sum()
}

/// What shares of an event are of.
pub(crate) fn share_of(event: &Json) -> &'static str {
    if event == "mem-loads,ldlat=30" {
        "samples"
    } else {
        "est_events"
    }
}

/// Mean weight; null where the event measures none.
pub(crate) fn mean(of: &[&Sample]) -> Json {
    if of.is_empty() || of[0].latency_kind == LatencyKind::None {
        return Json::Null;
    }
    json!(of.iter().map(|row| f64::from(row.weight)).sum::<f64>() / of.len() as f64)
}

/// Equal but for rounding.
#[track_caller]
pub(crate) fn close(found: &Json, expected: &Json, what: &str) {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => assert!(
            (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
            "{what}: {found} {expected}"
        ),
        _ => assert_eq!(found, expected, "{what}"),
    }
}

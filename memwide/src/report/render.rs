//! Rows as a table, CSV or the JSON document of the design.

use super::calls::{Calls, lines};
use crate::cli::Format;
use crate::output::{Column, Table, cells, grouped};
use crate::recording::Leftovers;
use memwide_analysis::report::{self, Key, Measures, Ready, Rows, Shown, Weights};
use serde_json::{Map, Value, json};

/// What the intervals of one file rest on: the samples alone.
const CI_BASIS: &str = "sampling_only";

/// The answer in a format, at most `limit` rows of it.
pub(crate) fn table(
    rows: &Rows,
    left: &Leftovers,
    format: Format,
    limit: Option<u32>,
    calls: Calls,
) -> Table {
    let ready = rows.ready(limit.map_or(usize::MAX, |limit| limit as usize));
    let all = rows.len();
    match format {
        Format::Table => for_people(rows, &ready, all, left, calls),
        Format::Csv => for_spreadsheets(rows, &ready, calls),
        Format::Json => Table {
            json: Some(document(rows, &ready, left, calls)),
            ..Table::default()
        },
    }
}

fn optional(is: bool, value: u64) -> Value {
    if is { value.into() } else { Value::Null }
}

pub(super) fn value(shown: &Shown<'_>) -> Value {
    match &shown.value {
        report::Value::Unknown => Value::Null,
        report::Value::Number(number) => (*number).into(),
        report::Value::Text(text) => (**text).into(),
    }
}

fn document(rows: &Rows, ready: &[Ready<'_>], left: &Leftovers, calls: Calls) -> Value {
    let mut total = Measures::default();
    let mut all = Weights {
        any: false,
        latencies: false,
    };
    let mut events = Vec::new();
    for (event, measures) in rows.totals() {
        let weights = rows.weights(event);
        total.add(measures);
        all.any |= weights.any;
        all.latencies |= weights.latencies;
        let mut one = Map::new();
        one.insert("event".to_owned(), rows.event_name(event).into());
        insert_measures(&mut one, measures, weights);
        one.insert(
            "overhead_by".to_owned(),
            rows.estimator(event).name().into(),
        );
        events.push(Value::Object(one));
    }
    let mut totals = Map::new();
    insert_measures(&mut totals, &total, all);
    totals.insert("events".to_owned(), events.into());
    let trees = calls.trees(rows);
    let listed = ready.iter().map(|row| {
        let mut out = json_row(rows, row);
        if let Some(trees) = &trees {
            calls.insert(&mut out, trees, row, rows.sum(row.event));
        }
        Value::Object(out)
    });
    let listed: Vec<Value> = listed.collect();
    json!({"total": totals, "completeness": completeness(left), "rows": listed})
}

pub(super) fn insert_measures(
    into: &mut Map<String, Value>,
    measures: &Measures,
    weights: Weights,
) {
    for (name, value) in [
        ("samples", Value::from(measures.samples)),
        ("weight", optional(weights.any, measures.weight)),
        ("perf_weight", measures.perf_weight.into()),
        ("period", measures.period.into()),
        ("ins_lat", optional(weights.latencies, measures.ins_lat)),
        (
            "retire_lat",
            optional(weights.latencies, measures.retire_lat),
        ),
    ] {
        into.insert(name.to_owned(), value);
    }
}

fn json_row(rows: &Rows, row: &Ready<'_>) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("event".to_owned(), rows.event_name(row.event).into());
    for (key, shown) in rows.keys().iter().zip(&row.keys) {
        out.insert(key.name().to_owned(), value(shown));
        if key.has_mode() {
            out.insert(
                format!("{}_mode", key.name()),
                shown.mode.to_string().into(),
            );
        }
    }
    insert_measures(&mut out, &row.measures, rows.weights(row.event));
    ci(&mut out, row.share);
    if let Some(children) = row.children {
        out.insert("children".to_owned(), children.share.into());
        out.insert("children_samples".to_owned(), children.samples.into());
    }
    out
}

/// Share and interval.
pub(super) fn ci(out: &mut Map<String, Value>, share: Option<(f64, Option<[f64; 2]>)>) {
    let (overhead, interval) = share.unzip();
    out.insert("overhead".to_owned(), overhead.into());
    let interval = interval.flatten();
    out.insert(
        "ci95".to_owned(),
        interval.map_or(Value::Null, |interval| json!(interval)),
    );
    let basis = if interval.is_some() { CI_BASIS } else { "none" };
    out.insert("ci_basis".to_owned(), basis.into());
}

/// What of a file is not in the answer.
pub(crate) fn completeness(left: &Leftovers) -> Value {
    json!({
        "samples": left.shown.samples,
        "guest_samples": left.shown.guests,
        "unknown_event": left.skipped.unknown_event,
        "unknown_layout": left.skipped.unknown_layout,
        "malformed": left.skipped.malformed,
        "lost": left.lost,
        "lost_samples": left.lost_samples,
        "undecoded_trace": left.aux,
        "early_flushes": left.early_flushes,
        "unfinished": left.unfinished,
        "cut_at": left.cut.map(|cut| cut.at),
        "notes": left.lines(),
        "symbols_refused": left.refused.lines(),
    })
}

fn for_people(
    rows: &Rows,
    ready: &[Ready<'_>],
    all: usize,
    left: &Leftovers,
    calls: Calls,
) -> Table {
    let totals: Vec<_> = rows.totals().collect();
    let (several, weighted) = (
        totals.len() > 1 && !rows.keys().contains(&Key::Event),
        totals.iter().any(|(event, _)| rows.weights(*event).any),
    );
    let mut columns = Vec::new();
    if several {
        columns.push(Column::new("event", ""));
    }
    if calls.children {
        columns.push(Column::new("children", "ratio"));
    }
    columns.extend([
        Column::new("overhead", "ratio"),
        Column::new("samples", "samples"),
    ]);
    if weighted {
        columns.push(Column::new("perf_weight", "cycles"));
    }
    columns.extend(rows.keys().iter().map(|key| Column::new(key.name(), "")));
    let is_symbol = |key: &Key| *key == Key::Symbol;
    let tree_at = rows.keys().iter().position(is_symbol).unwrap_or(0);
    let trees = calls.trees(rows);
    let mut rows_shown: Vec<Vec<Value>> = Vec::with_capacity(ready.len());
    for row in ready {
        let mut cells = Vec::with_capacity(columns.len());
        if several {
            cells.push(rows.event_name(row.event).into());
        }
        if calls.children {
            cells.push(row.children.and_then(|children| children.share).into());
        }
        cells.push(row.share.map(|(overhead, _)| overhead).into());
        cells.push(row.measures.samples.into());
        if weighted {
            cells.push(row.measures.perf_weight.into());
        }
        cells.extend(
            rows.keys()
                .iter()
                .zip(&row.keys)
                .map(|(key, shown)| match &shown.value {
                    report::Value::Text(text) if key.has_mode() => {
                        format!("[{}] {text}", shown.mode).into()
                    }
                    report::Value::Number(number) => number.to_string().into(), // a name, not a quantity
                    _ => value(shown),
                }),
        );
        rows_shown.push(cells);
        let tree = trees.as_ref().map(|trees| trees.of(row));
        for line in tree
            .iter()
            .flat_map(|tree| lines(tree, rows.sum(row.event)))
        {
            let mut cells = vec![Value::from(""); columns.len()];
            let first = usize::from(several) + usize::from(calls.children);
            let keys = columns.len() - rows.keys().len();
            cells[first] = line.overhead;
            cells[first + 1] = line.samples.into();
            cells[keys + tree_at] = line.text.into();
            rows_shown.push(cells);
        }
    }
    let mut notes: Vec<String> = totals
        .iter()
        .map(|(event, total)| about(rows, *event, total))
        .collect();
    if totals.is_empty() {
        notes.push(left.nothing());
    }
    notes.extend(calls.note());
    if all > ready.len() {
        notes.push(format!(
            "{} of {} rows shown",
            grouped(ready.len() as u64),
            grouped(all as u64)
        ));
    }
    notes.extend(left.lines());
    Table {
        columns,
        rows: rows_shown,
        notes,
        json: None,
    }
}

pub(super) fn about(rows: &Rows, event: usize, total: &Measures) -> String {
    let mut text = format!(
        "{}: {} samples",
        rows.event_name(event),
        grouped(total.samples)
    );
    if rows.weights(event).any {
        text.push_str(&format!(", total weight {}", total.perf_weight));
    }
    text.push_str(&format!(
        "; overhead is the share of {}",
        rows.estimator(event).name()
    ));
    text
}

fn for_spreadsheets(rows: &Rows, ready: &[Ready<'_>], calls: Calls) -> Table {
    let mut columns = vec![Column::new("event", "")];
    for key in rows.keys() {
        columns.push(Column::new(key.name(), ""));
        if key.has_mode() {
            columns.push(Column::new(format!("{}_mode", key.name()), ""));
        }
    }
    for (name, unit) in [
        ("samples", "samples"),
        ("weight", "cycles"),
        ("perf_weight", "cycles"),
        ("period", "events"),
        ("ins_lat", "cycles"),
        ("retire_lat", "cycles"),
        ("overhead", "ratio"),
        ("ci95_low", "ratio"),
        ("ci95_high", "ratio"),
        ("ci_basis", ""),
        ("children", "ratio"),
        ("children_samples", "samples"),
    ] {
        if name.starts_with("children") && !calls.children {
            continue;
        }
        columns.push(Column::new(name, unit));
    }
    let cells = ready
        .iter()
        .map(|row| cells(&columns, &json_row(rows, row).into()));
    Table {
        rows: cells.collect(),
        columns,
        ..Table::default()
    }
}

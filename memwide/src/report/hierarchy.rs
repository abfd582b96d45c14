//! Levels of a report as a table, CSV or JSON.

use super::render::{about, ci, completeness, insert_measures, value};
use crate::cli::Format;
use crate::output::{Column, Table, grouped};
use crate::recording::Leftovers;
use memwide_analysis::report::{Key, Level, Rows};
use serde_json::{Map, Value, json};

/// The levels in a format, at most `limit` lines of them.
pub(crate) fn hierarchy(
    rows: &Rows,
    left: &Leftovers,
    format: Format,
    limit: Option<u32>,
) -> Table {
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    let all = rows.hierarchy();
    if format == Format::Json {
        let events = all.iter().map(|(event, levels)| {
            let levels = json_levels(rows, *event, levels, 0);
            json!({"event": rows.event_name(*event), "overhead_by": rows.estimator(*event).name(), "levels": levels})
        });
        let events: Vec<Value> = events.collect();
        return Table {
            json: Some(json!({"events": events, "completeness": completeness(left)})),
            ..Table::default()
        };
    }
    let mut lines = Lines {
        rows,
        format,
        several: all.len() > 1,
        weighted: all.iter().any(|(event, _)| rows.weights(*event).any),
        out: Vec::new(),
    };
    for (event, levels) in &all {
        lines.add(*event, levels, 0);
    }
    let columns = lines.columns();
    let mut out = lines.out;
    let count = out.len();
    out.truncate(limit);
    let mut notes: Vec<String> = rows
        .totals()
        .map(|(event, total)| about(rows, event, total))
        .collect();
    if count == 0 {
        notes.push(left.nothing());
    }
    if count > out.len() {
        notes.push(format!(
            "{} of {} lines shown",
            grouped(out.len() as u64),
            grouped(count as u64)
        ));
    }
    notes.extend(left.lines());
    Table {
        columns,
        rows: out,
        notes,
        json: None,
    }
}

struct Lines<'a> {
    rows: &'a Rows,
    format: Format,
    several: bool,
    weighted: bool,
    out: Vec<Vec<Value>>,
}

impl Lines<'_> {
    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        let is_csv = self.format == Format::Csv;
        if self.several || is_csv {
            columns.push(Column::new("event", ""));
        }
        columns.push(Column::new("overhead", "ratio"));
        columns.push(Column::new("samples", "samples"));
        if self.weighted || is_csv {
            columns.push(Column::new("perf_weight", "cycles"));
        }
        if is_csv {
            columns.push(Column::new("depth", ""));
            columns.push(Column::new("key", ""));
            columns.push(Column::new("value", ""));
        } else {
            let keys = self.rows.keys().iter();
            let names: Vec<&str> = keys.map(|key| key.name()).collect();
            columns.push(Column::new(names.join(" / "), ""));
        }
        columns
    }

    fn add(&mut self, event: usize, levels: &[Level<'_>], depth: usize) {
        let Some(key) = self.rows.keys().get(depth).copied() else {
            return;
        };
        let is_csv = self.format == Format::Csv;
        for level in levels {
            let mut cells = Vec::new();
            if self.several || is_csv {
                cells.push(self.rows.event_name(event).into());
            }
            cells.push(level.share.map(|(share, _)| share).into());
            cells.push(level.measures.samples.into());
            if self.weighted || is_csv {
                cells.push(level.measures.perf_weight.into());
            }
            let text = text(key, level);
            if is_csv {
                cells.extend([depth.into(), key.name().into(), text.into()]);
            } else {
                cells.push(format!("{}{text}", "  ".repeat(depth)).into());
            }
            self.out.push(cells);
            self.add(event, &level.children, depth + 1);
        }
    }
}

fn text(key: Key, level: &Level<'_>) -> String {
    let text = match value(&level.shown) {
        Value::String(text) => text,
        Value::Null => "–".to_owned(),
        other => other.to_string(),
    };
    if key.has_mode() {
        format!("[{}] {text}", level.shown.mode)
    } else {
        text
    }
}

fn json_levels(rows: &Rows, event: usize, levels: &[Level<'_>], depth: usize) -> Vec<Value> {
    let Some(key) = rows.keys().get(depth).copied() else {
        return Vec::new();
    };
    let level = |level: &Level<'_>| {
        let mut out = Map::new();
        out.insert(key.name().to_owned(), value(&level.shown));
        if key.has_mode() {
            let mode = level.shown.mode.to_string();
            out.insert(format!("{}_mode", key.name()), mode.into());
        }
        insert_measures(&mut out, &level.measures, rows.weights(event));
        ci(&mut out, level.share);
        if depth + 1 < rows.keys().len() {
            let below = json_levels(rows, event, &level.children, depth + 1);
            out.insert("levels".to_owned(), below.into());
        }
        Value::Object(out)
    };
    levels.iter().map(level).collect()
}

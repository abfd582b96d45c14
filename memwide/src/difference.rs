//! Two files row by row, as a table, CSV and JSON.

use crate::cli::DiffArgs;
use crate::output::{Column, Document, Section, Table, cells, grouped, width};
use crate::recording::Leftovers;
use crate::report::completeness;
use memwide_analysis::difference::{Outcome, Row, Side, compare, judge};
use memwide_analysis::report::{Key, Part, Rows};
use memwide_analysis::significance::{FALSE_DISCOVERIES, Sums};
use memwide_decoder::ObjectIx;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_model::BuildId;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What the intervals of two files rest on: the samples alone.
const CI_BASIS: &str = "sampling_only";

/// Below this, intervals are left out of the table.
const WIDE: usize = 120;

/// Build ids of the objects whose code ran.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    seen: FxHashSet<ObjectIx>,
    ids: BTreeMap<String, Option<BuildId>>,
}

impl Builds {
    /// What must be known of samples to tell.
    pub(crate) fn wanted(keys: &[Key]) -> Wanted {
        if keys.contains(&Key::Symbol) {
            Wanted::CODE
        } else {
            Wanted::NOTHING
        }
    }

    /// Notes the object of a sample's code.
    pub(crate) fn note(&mut self, sample: &LocalSample<'_>) {
        let Some(object) = sample.code_place().and_then(|place| place.object) else {
            return;
        };
        if self.seen.insert(object) {
            let code = sample.code();
            let id = code.build_id.and_then(BuildId::new);
            self.ids.insert(short(code.dso).to_owned(), id);
        }
    }
}

/// One file, summed up.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    pub(crate) rows: Rows,
    pub(crate) builds: Builds,
}

/// Event, then the texts of the keys.
type RowKey = Vec<String>;

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Objects whose addresses mean the same in both files.
fn same_builds(before: &Builds, after: &Builds) -> BTreeSet<String> {
    let same = |(name, id): &(&String, &Option<BuildId>)| {
        id.is_some() && after.ids.get(*name) == Some(*id)
    };
    let both = before.ids.iter().filter(same);
    both.map(|(name, _)| name.clone()).collect()
}

/// The rows of an event. Addresses without a symbol are compared within equal builds only; else they are one row.
fn side(
    parts: &[Part],
    keys: &[Key],
    whole: Sums,
    event: &str,
    same: &BTreeSet<String>,
) -> Side<RowKey> {
    let symbol = keys.iter().position(|key| *key == Key::Symbol);
    let dso = keys.iter().position(|key| *key == Key::Dso);
    let key = |part: &Part| {
        let mut key = part.keys.clone();
        let comparable = dso
            .and_then(|at| part.keys.get(at))
            .is_some_and(|dso| same.contains(short(dso)));
        if let Some(text) = symbol.and_then(|at| key.get_mut(at))
            && text.starts_with("0x")
            && !comparable
        {
            "[no symbol]".clone_into(text);
        }
        key
    };
    let of_event = parts.iter().filter(|part| part.event == event);
    Side {
        rows: of_event.map(|part| (key(part), part.sums)).collect(),
        whole,
    }
}

/// The whole answer.
pub(crate) fn document(
    args: &DiffArgs,
    keys: &[Key],
    before: &Recorded,
    after: &Recorded,
    left: [&Leftovers; 2],
) -> Document {
    let same = same_builds(&before.builds, &after.builds);
    let (wholes_before, wholes_after) = (before.rows.wholes(), after.rows.wholes());
    let (parts_before, parts_after) = (before.rows.parts(), after.rows.parts());
    let mut events = Vec::new();
    let mut rows: Vec<(String, Row<RowKey>)> = Vec::new();
    for (event, by, whole) in &wholes_before {
        let Some((_, by_after, whole_after)) = wholes_after.iter().find(|(name, ..)| name == event)
        else {
            continue;
        };
        if by != by_after {
            continue;
        }
        let one = side(&parts_before, keys, *whole, event, &same);
        let other = side(&parts_after, keys, *whole_after, event, &same);
        events.push((event.clone(), *by, *whole, *whole_after));
        rows.extend(
            compare(&one, &other)
                .into_iter()
                .map(|row| (event.clone(), row)),
        );
    }
    // One family of tests: all rows of all events.
    let (names, mut judged): (Vec<String>, Vec<Row<RowKey>>) = rows.into_iter().unzip();
    judge(&mut judged);
    let mut rows: Vec<(String, Row<RowKey>)> = names.into_iter().zip(judged).collect();
    if args.significant {
        rows.retain(|(_, row)| matches!(row.outcome, Outcome::Grew | Outcome::Shrank));
    }
    let all = rows.len();
    rows.truncate(args.rows.limit());
    let mut notes = Vec::new();
    if all > rows.len() {
        notes.push(format!("{} of {all} rows shown", rows.len()));
    }
    for (event, by, one, other) in &events {
        notes.push(format!(
            "{event}: {} samples before, {} after; shares are of {}",
            grouped(one.n),
            grouped(other.n),
            by.name()
        ));
    }
    for (event, ..) in &wholes_before {
        if !events.iter().any(|(known, ..)| known == event) {
            notes.push(format!("{event}: only in {}", before.path.display()));
        }
    }
    for (event, ..) in &wholes_after {
        if !events.iter().any(|(known, ..)| known == event) {
            notes.push(format!("{event}: only in {}", after.path.display()));
        }
    }
    if left.iter().any(|left| left.unfit) {
        notes.push("nothing is compared where no sample fits the filter".to_owned());
    } else if events.is_empty() {
        notes.push("the files have no event in common: nothing can be compared".to_owned());
    } else {
        notes.push(format!(
            "intervals cover sampling error alone; of the rows called grew or shrank at most {:.0} % are expected to be chance",
            FALSE_DISCOVERIES * 100.0
        ));
    }
    let differ: Vec<&str> = before
        .builds
        .ids
        .iter()
        .filter(|(name, id)| {
            let other = after.builds.ids.get(*name);
            other.is_some_and(|other| id.is_some() && other.is_some() && other != *id)
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !differ.is_empty() {
        notes.push(format!(
            "builds differ, functions are matched by name: {}",
            differ.join(", ")
        ));
    }
    let json = json!({
        "before": about(before, left[0]),
        "after": about(after, left[1]),
        "events": events.iter().map(|(event, by, one, other)| json!({
            "event": event, "by": by.name(), "samples_before": one.n, "samples_after": other.n,
            "total_before": one.sum, "total_after": other.sum,
        })).collect::<Vec<_>>(),
        "builds_that_differ": differ,
        "false_discovery_rate": FALSE_DISCOVERIES,
        "rows": rows.iter().map(|(event, row)| json_row(keys, event, row)).collect::<Vec<_>>(),
        "notes": notes,
    });
    Document {
        sections: vec![Section {
            table: table(keys, &rows, events.len() > 1),
            ..Section::default()
        }],
        notes,
        csv: csv(keys, &rows),
        json,
    }
}

fn about(file: &Recorded, left: &Leftovers) -> Value {
    json!({"file": file.path.display().to_string(), "completeness": completeness(left)})
}

fn json_row(keys: &[Key], event: &str, row: &Row<RowKey>) -> Value {
    let mut all = Map::new();
    all.insert("event".to_owned(), event.into());
    for (key, text) in keys.iter().zip(&row.key) {
        all.insert(key.name().to_owned(), text.as_str().into());
    }
    let change = &row.change;
    for (name, value) in [
        ("samples_before", json!(row.before.n)),
        ("samples_after", json!(row.after.n)),
        ("share_before", json!(change.before)),
        ("share_after", json!(change.after)),
        ("delta", json!(change.delta())),
        ("ci95", json!(change.interval)),
        (
            "ci_basis",
            json!(change.interval.map_or("none", |_| CI_BASIS)),
        ),
        ("p_value", json!(change.p_value)),
        (
            "significant",
            json!(matches!(row.outcome, Outcome::Grew | Outcome::Shrank)),
        ),
        ("verdict", json!(row.outcome.name())),
    ] {
        all.insert(name.to_owned(), value);
    }
    Value::Object(all)
}

fn points(share: f64) -> String {
    format!("{:+.2}", share * 100.0)
}

fn table(keys: &[Key], rows: &[(String, Row<RowKey>)], several: bool) -> Table {
    let is_wide = width() >= WIDE;
    let mut columns = vec![
        Column::new("before", "ratio"),
        Column::new("after", "ratio"),
        Column::new("change", "points"),
    ];
    if is_wide {
        columns.push(Column::new("95 % interval", "points"));
        columns.extend([
            Column::new("before", "samples"),
            Column::new("after", "samples"),
        ]);
    }
    columns.push(Column::new("verdict", ""));
    if several {
        columns.push(Column::new("event", ""));
    }
    columns.extend(keys.iter().map(|key| Column::new(key.name(), "")));
    let cells = rows.iter().map(|(event, row)| {
        let change = &row.change;
        let mut cells: Vec<Value> = vec![
            change.before.into(),
            change.after.into(),
            points(change.delta()).into(),
        ];
        if is_wide {
            let interval = change
                .interval
                .map(|[low, high]| format!("{} to {}", points(low), points(high)));
            cells.extend([json!(interval), json!(row.before.n), json!(row.after.n)]);
        }
        cells.push(row.outcome.name().into());
        if several {
            cells.push(event.as_str().into());
        }
        cells.extend(row.key.iter().map(|text| Value::from(text.as_str())));
        cells
    });
    Table {
        rows: cells.collect(),
        columns,
        ..Table::default()
    }
}

fn csv(keys: &[Key], rows: &[(String, Row<RowKey>)]) -> Table {
    let mut columns = vec![Column::new("event", "")];
    columns.extend(keys.iter().map(|key| Column::new(key.name(), "")));
    for name in [
        "samples_before",
        "samples_after",
        "share_before",
        "share_after",
        "delta",
        "ci95_low",
        "ci95_high",
        "ci_basis",
        "p_value",
        "verdict",
    ] {
        columns.push(Column::new(name, ""));
    }
    let cells = rows
        .iter()
        .map(|(event, row)| cells(&columns, &json_row(keys, event, row)));
    Table {
        rows: cells.collect(),
        columns,
        ..Table::default()
    }
}

//! Answers of the query service that have several parts, as tables for people; programs get them as they came.

use super::answer;
use crate::cli::{FilterArgs, Format, ServerArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Column, Document, Section, Table, width};
use serde_json::Value;

/// A column that people see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Name in the answer.
    pub(super) name: &'static str,
    /// Title; empty: its name.
    pub(super) title: &'static str,
    /// Terminals of at least this many columns show it.
    pub(super) from_width: usize,
    /// It tells rows apart: never left out, but said once where it is the same in every row and room is short.
    pub(super) is_key: bool,
}

/// Below this many columns of the terminal the wide ones are left out.
const WIDE: usize = 120;

/// A column that is always shown.
pub(super) const fn column(name: &'static str, title: &'static str) -> Shown {
    Shown {
        name,
        title,
        from_width: 0,
        is_key: false,
    }
}

/// A column that tells rows apart.
pub(super) const fn key(name: &'static str, title: &'static str) -> Shown {
    Shown {
        is_key: true,
        ..column(name, title)
    }
}

/// A column that narrow terminals do without.
pub(super) const fn wide(name: &'static str, title: &'static str) -> Shown {
    Shown {
        from_width: WIDE,
        ..column(name, title)
    }
}

/// A part that people see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Name in the answer; empty: its rows.
    pub(super) name: &'static str,
    /// What it is, in a line.
    pub(super) title: &'static str,
    /// Its columns.
    pub(super) columns: &'static [Shown],
    /// What is said of its rows above them.
    pub(super) says: Option<Says>,
}

/// Rows, each as an object, in sentences.
pub(super) type Says = fn(&[Value]) -> Vec<String>;

/// Asks a question and prints its answer.
pub(super) fn ask(
    server: &ServerArgs,
    question: &str,
    filter: &FilterArgs,
    further: &[(&str, Option<String>)],
    parts: &[Part],
    format: Format,
) -> Result<(), Failure> {
    let found = asked(server, question, filter, further)?;
    Ok(document(found, parts, width()).print(format)?)
}

/// The same with JSON as the command prints it of a file: rows are objects.
pub(super) fn ask_as_file(
    server: &ServerArgs,
    question: &str,
    filter: &FilterArgs,
    further: &[(&str, Option<String>)],
    parts: &[Part],
    format: Format,
) -> Result<(), Failure> {
    let found = asked(server, question, filter, further)?;
    let json = as_objects(&found);
    let document = Document {
        json,
        ..document(found, parts, width())
    };
    Ok(document.print(format)?)
}

pub(super) fn asked(
    server: &ServerArgs,
    question: &str,
    filter: &FilterArgs,
    further: &[(&str, Option<String>)],
) -> Result<Value, Failure> {
    let client = Client::new(&server.server);
    let mut params = answer::params(filter)?;
    for (name, value) in further {
        params.extend(value.clone().map(|value| ((*name).to_owned(), value)));
    }
    answer::found(&client, question, &params, filter.link)
}

/// Rows by their columns' names; the file of code is `dso`, as of files.
fn objects(table: &Value) -> Value {
    let columns = table["columns"].as_array().into_iter().flatten();
    let names: Vec<&str> = columns
        .filter_map(|column| column["name"].as_str())
        .map(|name| if name == "module" { "dso" } else { name })
        .collect();
    let rows = table["rows"].as_array().into_iter().flatten();
    let row = |row: &Value| -> Value {
        let cells = row.as_array().cloned().unwrap_or_default();
        let names = names.iter().map(|name| (*name).to_owned());
        Value::Object(names.zip(cells).collect())
    };
    rows.map(row).collect()
}

/// Rows by their columns' names, each part under its own; the file of code is `dso`, as of files.
fn as_objects(found: &Value) -> Value {
    let mut all = serde_json::Map::new();
    all.insert("rows".to_owned(), objects(found));
    for part in found["parts"].as_array().into_iter().flatten() {
        if let Some(name) = part["name"].as_str() {
            all.insert(name.to_owned(), objects(part));
        }
    }
    for name in ["other", "completeness", "source_table", "notes"] {
        all.insert(name.to_owned(), found[name].clone());
    }
    Value::Object(all)
}

/// An answer as a document.
fn document(found: Value, parts: &[Part], width: usize) -> Document {
    let mut sections = Vec::new();
    for part in parts {
        let of = found["parts"].as_array().into_iter().flatten();
        let table = match part.name {
            "" => Some(&found),
            name => of.into_iter().find(|part| part["name"] == name),
        };
        let Some(table) = table else { continue };
        let rows = objects(table);
        let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
        if !rows.is_empty() || part.name.is_empty() {
            let (table, same) = shown(table, part.columns, width);
            let mut about = part.says.map(|says| says(rows)).unwrap_or_default();
            if !same.is_empty() {
                about.push(format!("In every row: {}.", same.join(", ")));
            }
            sections.push(Section {
                title: part.title.to_owned(),
                about,
                table,
            });
        }
    }
    let all = answer::table(found);
    Document {
        sections,
        notes: all.notes.clone(),
        json: all.json.clone().unwrap_or_default(),
        csv: all,
    }
}

/// The columns that people see of a table, and keys that are the same in every row; columns that are empty in every row are
/// left out.
fn shown(table: &Value, columns: &[Shown], width: usize) -> (Table, Vec<String>) {
    let mut all = answer::table(table.clone());
    let units = answer::row_units(&mut all);
    let same_text = |at: usize| -> Option<String> {
        let first = all.rows.first()?.get(at)?.as_str()?;
        let all = all.rows.iter().all(|row| row[at] == first);
        all.then(|| first.to_owned())
    };
    let (mut same, mut places) = (Vec::new(), Vec::new());
    for shown in columns.iter().filter(|shown| width >= shown.from_width) {
        let Some(at) = all
            .columns
            .iter()
            .position(|column| column.name == shown.name)
        else {
            continue;
        };
        let silent = |row: &Vec<Value>| row[at].is_null() || row[at] == "";
        let is_empty = !all.rows.is_empty() && all.rows.iter().all(silent);
        if is_empty || units.iter().any(|unit| unit == shown.name) {
            continue;
        }
        let title = if shown.title.is_empty() {
            shown.name
        } else {
            shown.title
        };
        match same_text(at) {
            Some(text) if shown.is_key && width < WIDE && all.rows.len() > 1 => {
                same.push(format!("{title} {text}"));
            }
            _ => {
                let unit = all
                    .columns
                    .get(at)
                    .map_or("", |column| column.unit.as_str());
                // A long unit would take the names' room.
                let unit = unit.split(' ').next().unwrap_or_default();
                places.push((at, Column::new(title, unit)));
            }
        }
    }
    let table = Table {
        rows: all
            .rows
            .iter()
            .map(|row| places.iter().map(|(at, _)| row[*at].clone()).collect())
            .collect(),
        columns: places.into_iter().map(|(_, column)| column).collect(),
        ..Table::default()
    };
    (table, same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_objects_as_those_of_a_file() {
        let found = json!({
            "columns": [{"name": "function"}, {"name": "module"}, {"name": "faults"}], "rows": [["f", "a", 7.0]],
            "parts": [{"name": "functions", "columns": [{"name": "samples"}], "rows": [[1]]}],
            "other": null, "completeness": {"hosts_seen": 1}, "source_table": "samples", "notes": ["n"],
        });
        let expected = json!({
            "rows": [{"function": "f", "dso": "a", "faults": 7.0}], "functions": [{"samples": 1}],
            "other": null, "completeness": {"hosts_seen": 1}, "source_table": "samples", "notes": ["n"],
        });
        assert_eq!(as_objects(&found), expected);
    }

    const PARTS: &[Part] = &[
        Part {
            name: "",
            title: "Functions",
            columns: &[
                column("function", ""),
                column("pod", ""),
                wide("weight", "w"),
            ],
            says: None,
        },
        Part {
            name: "nodes",
            title: "Nodes",
            columns: &[column("node", "of")],
            says: None,
        },
        Part {
            name: "none",
            title: "None",
            columns: &[],
            says: None,
        },
    ];

    #[test]
    fn keys_are_said_once_where_room_is_short_and_units_come_from_rows() {
        const COLUMNS: &[Shown] = &[
            column("est_events", "est"),
            column("est_unit", ""),
            key("event", ""),
            key("module", ""),
        ];
        let found = |units: [&str; 2]| {
            json!({
                "columns": [{"name": "est_events", "unit": "of est_unit"}, {"name": "est_unit", "unit": ""},
                            {"name": "event", "unit": ""}, {"name": "module", "unit": ""}],
                "rows": [[5.0, units[0], "cpu-clock", "a"], [6.0, units[1], "cpu-clock", "b"]],
            })
        };
        let told = |width, units| {
            let (table, same) = shown(&found(units), COLUMNS, width);
            let columns = table.columns.into_iter();
            let columns: Vec<_> = columns.map(|column| (column.name, column.unit)).collect();
            (columns, same)
        };
        let column = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        assert_eq!(
            told(80, ["ns", "ns"]),
            (
                vec![column("est", "ns"), column("module", "")],
                vec!["event cpu-clock".to_owned()]
            )
        );
        let (wide, same) = told(160, ["ns", "events"]);
        assert!(same.is_empty());
        assert_eq!(
            wide[..3],
            [
                column("est", ""),
                column("est_unit", ""),
                column("event", "")
            ]
        );
    }

    #[test]
    fn people_see_what_is_not_empty_and_fits_and_programs_see_all() {
        let found = json!({
            "columns": [{"name": "function", "unit": ""}, {"name": "pod", "unit": ""}, {"name": "weight", "unit": "cycles"}],
            "rows": [["f", "", 7.5]],
            "parts": [{"name": "nodes", "columns": [{"name": "node", "unit": ""}], "rows": [[1]]},
                      {"name": "none", "columns": [], "rows": []}],
            "completeness": {}, "notes": ["a note"],
        });
        let names = |width: usize| -> Vec<String> {
            let document = document(found.clone(), PARTS, width);
            assert_eq!(document.sections.len(), 2);
            assert_eq!(document.notes, ["a note"]);
            assert_eq!(document.json, found);
            assert_eq!(document.csv.columns.len(), 3);
            let columns = document.sections[0].table.columns.iter();
            columns.map(|column| column.name.clone()).collect()
        };
        assert_eq!(names(80), ["function"]);
        assert_eq!(names(160), ["function", "w"]);
    }
}

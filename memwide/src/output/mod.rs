//! Tables for people, JSON and CSV for programs; all three from the same rows.

mod document;
mod listing;
mod number;
mod readable;
mod text;

use crate::cli::Format;
use anyhow::Context as _;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(crate) use document::{Document, Section};
pub(crate) use listing::Listing;
pub(crate) use number::grouped;
pub(crate) use text::width;

/// Creates the file an answer goes to instead of standard output.
pub(crate) fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path)
        .with_context(|| format!("cannot write {}; name another file with -o", path.display()))
}

/// Says a line beside an answer. Nothing is done about a standard error that cannot be written to: the answer is elsewhere, and the
/// exit code says the rest.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "memwide: {line}");
}

/// One column of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Name, as in JSON and CSV.
    pub(crate) name: String,
    /// Unit shown under the name; empty for names.
    pub(crate) unit: String,
}

impl Column {
    /// A column with a unit (empty: none).
    pub(crate) fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
        }
    }
}

/// What a row's JSON says, column by column; `ci95_low` and `ci95_high` are the two of `ci95`.
pub(crate) fn cells(columns: &[Column], document: &Value) -> Vec<Value> {
    let cell = |column: &Column| match column.name.as_str() {
        "ci95_low" => document["ci95"][0].clone(),
        "ci95_high" => document["ci95"][1].clone(),
        name => document[name].clone(),
    };
    columns.iter().map(cell).collect()
}

/// An answer: rows, and the lines a reader needs to judge them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// Its columns.
    pub(crate) columns: Vec<Column>,
    /// Its rows, one value a column.
    pub(crate) rows: Vec<Vec<Value>>,
    /// Completeness and remarks, printed below a table.
    pub(crate) notes: Vec<String>,
    /// The whole document for `--format json`; built from columns and rows when absent.
    pub(crate) json: Option<Value>,
}

impl Table {
    /// Prints in the format asked for; tables as wide as the terminal.
    pub(crate) fn print(&self, format: Format) -> io::Result<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        match format {
            Format::Table => text::write(&mut out, self, text::width())?,
            Format::Json => self.write_json(&mut out)?,
            Format::Csv => self.write_csv(&mut out)?,
        }
        out.flush()
    }

    /// Lines of the header, and one line a row, of at most `width` characters.
    pub(crate) fn lines(&self, width: usize) -> (Vec<String>, Vec<String>) {
        text::lines(self, width)
    }

    /// The rows as CSV, without the header line.
    pub(crate) fn write_csv_rows(&self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|value| csv(&plain(value))).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        Ok(())
    }

    /// The table as lines no wider than `width`.
    #[cfg(test)]
    fn to_text(&self, width: usize) -> io::Result<String> {
        let mut out = Vec::new();
        text::write(&mut out, self, width)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let document = self.json.clone().unwrap_or_else(|| self.to_json());
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }

    fn to_json(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| serde_json::json!({"name": column.name, "unit": column.unit}))
            .collect();
        serde_json::json!({"columns": columns, "rows": self.rows, "notes": self.notes})
    }

    fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_csv_header(out)?;
        self.write_csv_rows(out)
    }

    /// The header line of CSV.
    pub(crate) fn write_csv_header(&self, out: &mut impl Write) -> io::Result<()> {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| csv(&column.name))
            .collect();
        writeln!(out, "{}", names.join(","))
    }
}

/// Prints one JSON document.
pub(crate) fn print_json(document: &Value) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    out.flush()
}

/// A value without decoration: what a program would want to read.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn csv(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Table {
        Table {
            columns: vec![
                Column::new("function", ""),
                Column::new("n", "samples"),
                Column::new("share", "ratio"),
            ],
            rows: vec![
                vec![json!("walk<a, \"b\">"), json!(1_234_567), json!(0.25)],
                vec![json!("idle"), json!(3), Value::Null],
            ],
            notes: vec!["hosts 2 of 3".to_owned()],
            json: None,
        }
    }

    #[test]
    fn numbers_stand_right_names_left_and_units_below() {
        let text = table().to_text(80).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("function"), "{text}");
        assert!(lines[1].contains("samples"), "{text}");
        assert!(lines[2].starts_with("walk<a, \"b\">"), "{text}");
        assert!(lines[2].contains("1,234,567"), "{text}");
        assert!(lines[2].contains("25.0 %"), "{text}");
        assert!(lines[3].trim_end().ends_with('–'), "null is shown: {text}");
        assert_eq!(lines.last(), Some(&"hosts 2 of 3"));
    }

    #[test]
    fn long_names_are_cut_to_the_width() {
        let mut wide = table();
        wide.rows[0][0] = json!("x".repeat(300));
        let text = wide.to_text(80).unwrap();
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{longest:?}");
    }

    #[test]
    fn a_name_reaches_over_the_empty_columns_behind_it() {
        let name = "a_function_of_the_tree_below";
        let table = Table {
            columns: ["symbol", "dso", "line"]
                .map(|name| Column::new(name, ""))
                .to_vec(),
            rows: vec![
                vec![json!("main"), json!("program"), json!("main.c:12")],
                vec![json!(name), json!(""), json!("")],
            ],
            ..Table::default()
        };
        let lines = "symbol  dso      line\nmain    program  main.c:12\n";
        assert_eq!(table.to_text(40).unwrap(), format!("{lines}{name}\n"));
        let narrow = table.to_text(27).unwrap();
        assert!(
            narrow.ends_with("a_function_of…he_tree_below\n"),
            "{narrow}"
        );
        let mut callers = table;
        callers.rows[1][0] = json!("map ← leak ← a_function ← main");
        let narrow = callers.to_text(27).unwrap();
        assert!(
            narrow.ends_with("map ← leak ← a_function ← …\n"),
            "{narrow}"
        );
    }

    #[test]
    fn control_characters_of_hostile_names_never_reach_the_terminal() {
        let mut hostile = table();
        hostile.rows[0][0] = json!("a\u{1b}[31mb\nc");
        let text = hostile.to_text(80).unwrap();
        assert!(text.contains("a\\u{1b}[31mb\\nc"), "{text}");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut out = Vec::new();
        table().write_csv(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "function,n,share\n\"walk<a, \"\"b\"\">\",1234567,0.25\nidle,3,\n"
        );
    }
}

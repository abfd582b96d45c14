//! Rows whose columns are the same in all formats, fewer of them on a narrow terminal.

use super::{Column, Document, Section, Table, text};
use crate::cli::Format;
use serde_json::{Map, Value};

/// Below this many columns of the terminal the wide ones are left out.
const WIDE: usize = 120;

#[derive(Debug, Clone)]
struct Listed {
    /// Name in JSON and CSV.
    name: &'static str,
    column: Column,
    /// Terminals of at least this many columns show it.
    from_width: usize,
}

/// Rows with named columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    columns: Vec<Listed>,
    rows: Vec<Vec<Value>>,
}

impl Listing {
    /// Adds a column: its name for programs, its title and unit for people.
    pub(crate) fn column(mut self, name: &'static str, title: &str, unit: &str) -> Self {
        self.columns.push(Listed {
            name,
            column: Column::new(title, unit),
            from_width: 0,
        });
        self
    }

    /// Adds a column that narrow terminals do without.
    pub(crate) fn wide(mut self, name: &'static str, title: &str, unit: &str) -> Self {
        self = self.column(name, title, unit);
        if let Some(last) = self.columns.last_mut() {
            last.from_width = WIDE;
        }
        self
    }

    /// Adds a column that only programs get.
    pub(crate) fn programs(mut self, name: &'static str, unit: &str) -> Self {
        self = self.column(name, name, unit);
        if let Some(last) = self.columns.last_mut() {
            last.from_width = usize::MAX;
        }
        self
    }

    /// Adds a row, one value a column.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }

    /// Leaves `most` rows; says so if there were more.
    pub(crate) fn limited(mut self, most: usize, notes: &mut Vec<String>) -> Self {
        let all = self.rows.len();
        self.rows.truncate(most);
        if all > self.rows.len() {
            notes.push(format!("{} of {all} rows shown", self.rows.len()));
        }
        self
    }

    /// Prints it as an answer of its own.
    pub(crate) fn print(&self, format: Format) -> std::io::Result<()> {
        let section = Section {
            table: self.table(text::width()),
            ..Section::default()
        };
        Document {
            sections: vec![section],
            json: self.json(),
            csv: self.csv(),
            ..Document::default()
        }
        .print(format)
    }

    /// For people, as wide as the terminal.
    pub(crate) fn table(&self, width: usize) -> Table {
        let is_shown = |listed: &Listed| width >= listed.from_width;
        let columns = self.columns.iter().filter(|listed| is_shown(listed));
        let row = |row: &Vec<Value>| {
            let cells = self.columns.iter().zip(row);
            let cells = cells.filter(|(listed, _)| is_shown(listed));
            cells.map(|(_, value)| value.clone()).collect()
        };
        Table {
            columns: columns.map(|listed| listed.column.clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
            ..Table::default()
        }
    }

    /// For programs: every column by its name.
    pub(crate) fn csv(&self) -> Table {
        let column = |listed: &Listed| Column::new(listed.name, listed.column.unit.clone());
        Table {
            columns: self.columns.iter().map(column).collect(),
            rows: self.rows.clone(),
            ..Table::default()
        }
    }

    /// One object a row.
    pub(crate) fn json(&self) -> Value {
        let row = |row: &Vec<Value>| {
            let cells = self.columns.iter().zip(row);
            let named = cells.map(|(listed, value)| (listed.name.to_owned(), value.clone()));
            Value::Object(named.collect::<Map<_, _>>())
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn narrow_terminals_do_without_wide_columns_and_programs_get_all() {
        let mut listing = Listing::default()
            .column("n", "n", "samples")
            .wide("dso", "object", "");
        listing.push(vec![json!(3), json!("libc")]);
        listing.push(vec![json!(2), json!("ld")]);
        let mut notes = Vec::new();
        let listing = listing.limited(1, &mut notes);
        assert_eq!(notes, ["1 of 2 rows shown"]);
        assert_eq!(listing.table(80).columns.len(), 1);
        assert_eq!(listing.table(200).columns.len(), 2);
        assert_eq!(listing.csv().columns.len(), 2);
        assert_eq!(listing.json(), json!([{"n": 3, "dso": "libc"}]));
    }
}

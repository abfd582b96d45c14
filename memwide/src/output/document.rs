//! Answers of several tables.

use super::{Table, text};
use crate::cli::Format;
use serde_json::Value;
use std::io::{self, Write};

/// One part of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    /// What it is, in a line.
    pub(crate) title: String,
    /// What must be known to read it; each is broken to the width.
    pub(crate) about: Vec<String>,
    /// Its rows; none if it has no columns.
    pub(crate) table: Table,
}

/// An answer in all three formats.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    /// For people.
    pub(crate) sections: Vec<Section>,
    /// Completeness and remarks, printed below.
    pub(crate) notes: Vec<String>,
    /// For `--format json`.
    pub(crate) json: Value,
    /// For `--format csv`.
    pub(crate) csv: Table,
}

impl Document {
    /// Prints in the format asked for; text as wide as the terminal.
    pub(crate) fn print(&self, format: Format) -> io::Result<()> {
        self.print_to(&mut io::BufWriter::new(io::stdout().lock()), format)
    }

    /// The same, somewhere else than to standard output.
    pub(crate) fn print_to(&self, out: &mut impl Write, format: Format) -> io::Result<()> {
        match format {
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.json)?;
                writeln!(out)?;
            }
            Format::Csv => self.csv.write_csv(out)?,
            Format::Table => self.write(out, text::width())?,
        }
        out.flush()
    }

    fn write(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        for (at, section) in self.sections.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            if !section.title.is_empty() {
                text::paragraph(out, &section.title, width)?;
            }
            for about in &section.about {
                text::paragraph(out, about, width)?;
            }
            if !section.table.columns.is_empty() {
                text::write(out, &section.table, width)?;
            }
        }
        if !self.notes.is_empty() && !self.sections.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            text::paragraph(out, note, width)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Column;
    use serde_json::json;

    #[test]
    fn texts_are_broken_to_the_width_and_parts_stand_apart() {
        let section = Section {
            title: "Lines".to_owned(),
            about: vec!["one two three four five six seven".to_owned()],
            table: Table {
                columns: vec![Column::new("line", "")],
                rows: vec![vec![json!("0x40")]],
                ..Table::default()
            },
        };
        let document = Document {
            sections: vec![section.clone(), section],
            notes: vec!["14 samples".to_owned()],
            ..Document::default()
        };
        let mut out = Vec::new();
        document.write(&mut out, 14).unwrap();
        let text = String::from_utf8(out).unwrap();
        let part = "Lines\none two three\nfour five six\nseven\nline\n0x40\n\n";
        assert_eq!(text, format!("{part}{part}14 samples\n"));
    }
}

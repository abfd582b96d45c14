//! Answers as text: CSV for programs, a table for a terminal.

use std::fmt::Write as _;

use crate::answer::{Answer, Column, Kind, Value};

/// RFC 4180: names in the first line, CRLF, quotes where needed. Missing values are empty.
pub(super) fn csv(answer: &Answer) -> String {
    let mut out = String::new();
    let names: Vec<String> = answer
        .columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect();
    line(&mut out, &names);
    for row in &answer.rows {
        let cells: Vec<String> = row.iter().map(Value::to_string).collect();
        line(&mut out, &cells);
    }
    out
}

fn line(out: &mut String, cells: &[String]) {
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if cell.contains(['"', ',', '\r', '\n']) {
            let _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

/// Columns with units, numbers to the right, parts, completeness and notes below.
pub(super) fn table(answer: &Answer) -> String {
    let mut out = String::new();
    lines(&mut out, &answer.columns, &answer.rows);
    for part in &answer.parts {
        let _ = writeln!(out, "\n{}:", part.name);
        lines(&mut out, &part.columns, &part.rows);
    }
    let complete = &answer.completeness;
    let _ = writeln!(
        out,
        "\n{} of {} hosts seen, {} of {} samples stored, {:.1} s blind; from {}",
        complete.hosts_seen,
        complete.hosts_expected,
        complete.samples_stored,
        complete.samples_produced,
        complete.blind_seconds(),
        answer.source_table,
    );
    for (reason, records) in &complete.missing {
        let _ = writeln!(out, "missing: {records} {reason}");
    }
    for note in &answer.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn lines(out: &mut String, columns: &[Column], rows: &[Vec<Value>]) {
    let header: Vec<String> = columns.iter().map(title).collect();
    let cells = |row: &Vec<Value>| -> Vec<String> {
        let cells = row.iter().zip(columns);
        cells.map(|(value, column)| cell(value, column)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        cells
            .chain(header.get(i))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    for row in std::iter::once(&header).chain(&rows) {
        let mut text = String::new();
        for ((cell, width), column) in row.iter().zip(&widths).zip(columns) {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            match column.kind {
                Kind::Text => text.extend([cell, pad.as_str(), "  "]),
                Kind::Number | Kind::Real => text.extend([pad.as_str(), cell, "  "]),
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

fn title(column: &Column) -> String {
    match column.unit {
        "" => column.name.to_owned(),
        unit if unit == column.name => unit.to_owned(),
        unit => format!("{} [{unit}]", column.name),
    }
}

/// Control characters of hostile names do not reach the terminal.
fn cell(value: &Value, column: &Column) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Text(text) if text.is_empty() => "-".to_owned(),
        Value::Text(text) => text
            .chars()
            .map(|sign| if sign.is_control() { '\u{fffd}' } else { sign })
            .collect(),
        Value::Number(number) => number.to_string(),
        Value::Real(real) if column.unit == "ratio" => format!("{:.2}%", real * 100.0),
        Value::Real(real) if real.fract() == 0.0 => format!("{real:.0}"),
        Value::Real(real) => format!("{real:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Completeness;

    fn answer(name: &str) -> Answer {
        Answer {
            columns: vec![
                Column::text("function"),
                Column::number("samples", "samples"),
                Column::real("share", "ratio"),
                Column::real("est_events", "events"),
            ],
            rows: vec![vec![
                Value::Text(name.to_owned()),
                Value::Number(12),
                Value::Real(0.25),
                Value::Null,
            ]],
            parts: Vec::new(),
            other: None,
            completeness: Completeness {
                hosts_seen: 1,
                hosts_expected: 2,
                ..Completeness::default()
            },
            source_table: "fleet_1h",
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn csv_quotes_what_would_break_it() {
        assert_eq!(
            csv(&answer("f(int, \"x\")\n")),
            "function,samples,share,est_events\r\n\"f(int, \"\"x\"\")\n\",12,0.25,\r\n"
        );
    }

    #[test]
    fn a_table_has_units_completeness_and_no_control_characters() {
        assert_eq!(
            table(&answer("a\u{1b}[31m")),
            "function  samples  share [ratio]  est_events [events]\n\
             a\u{fffd}[31m         12         25.00%                    -\n\n\
             1 of 2 hosts seen, 0 of 0 samples stored, 0.0 s blind; from fleet_1h\n\
             note: a note\n"
        );
    }
}

//! Tables a person can read at 80 and at 200 columns.

use super::{Table, number};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};

/// Width when the output is no terminal: wide enough that nothing useful is cut.
const WIDTH_WITHOUT_TERMINAL: usize = 200;

/// A name is never cut below this many characters.
const NAME_MIN: usize = 12;

const GAP: &str = "  ";

/// Columns of the terminal behind stdout, `COLUMNS`, or a wide default.
pub(crate) fn width() -> usize {
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    let asked = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    asked.unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

/// Writes header, units, rows and notes in lines of at most `width` characters.
pub(super) fn write(out: &mut impl Write, table: &Table, width: usize) -> io::Result<()> {
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let columns = table.columns.iter().zip(row);
            columns
                .map(|(column, value)| cell(value, &column.unit))
                .collect()
        })
        .collect();
    let right: Vec<bool> = (0..table.columns.len())
        .map(|at| is_number(table, at))
        .collect();
    let widths = fit(table, &cells, &right, width);

    let header: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    line(out, &header, &widths, &right)?;
    if table.columns.iter().any(|column| !column.unit.is_empty()) {
        let units: Vec<String> = table
            .columns
            .iter()
            .map(|column| column.unit.clone())
            .collect();
        line(out, &units, &widths, &right)?;
    }
    for row in &cells {
        line(out, row, &widths, &right)?;
    }
    for note in &table.notes {
        writeln!(out, "{}", printable(note.clone()))?;
    }
    Ok(())
}

/// Writes a text in lines of at most `width` characters, broken at blanks.
pub(super) fn paragraph(out: &mut impl Write, text: &str, width: usize) -> io::Result<()> {
    let mut line = String::new();
    for word in printable(text.to_owned()).split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            writeln!(out, "{line}")?;
            line.clear();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

fn cell(value: &Value, unit: &str) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::Number(number) => number::with_unit(number, unit),
        other => printable(super::plain(other)),
    }
}

/// Names come from other people's programs: nothing in them may steer a terminal.
fn printable(text: String) -> String {
    if !text.chars().any(char::is_control) {
        return text;
    }
    let mut out = String::with_capacity(2 * text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Columns a text takes.
fn columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

fn is_number(table: &Table, at: usize) -> bool {
    let mut known = table
        .rows
        .iter()
        .filter_map(|row| row.get(at))
        .filter(|value| !value.is_null() && value.as_str() != Some(""));
    match known.next() {
        Some(first) => first.is_number(),
        None => table
            .columns
            .get(at)
            .is_some_and(|column| !column.unit.is_empty()),
    }
}

/// Natural widths, the widest names cut until the line fits.
fn fit(table: &Table, cells: &[Vec<String>], right: &[bool], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let body = cells
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| columns(cell));
            let head = [columns(&column.name), columns(&column.unit)];
            body.chain(head).max().unwrap_or(0)
        })
        .collect();
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let names = widths
            .iter_mut()
            .zip(right)
            .filter(|(width, right)| !**right && **width > NAME_MIN);
        let Some((widest, _)) = names.max_by_key(|(width, _)| **width) else {
            break; // numbers are never cut
        };
        *widest -= 1;
    }
    widths
}

fn line(
    out: &mut impl Write,
    cells: &[String],
    widths: &[usize],
    right: &[bool],
) -> io::Result<()> {
    let mut text = String::new();
    for ((cell, width), right) in cells.iter().zip(widths).zip(right) {
        if !text.is_empty() {
            text.push_str(GAP);
        }
        let cut = cut(cell, *width);
        let pad = std::iter::repeat_n(' ', width.saturating_sub(columns(&cut)));
        if *right {
            text.extend(pad);
            text.push_str(&cut);
        } else {
            text.push_str(&cut);
            text.extend(pad);
        }
    }
    writeln!(out, "{}", text.trim_end())
}

fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    if columns(cell) <= width {
        return cell.into();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…").into()
}

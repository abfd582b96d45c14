//! Tables a person can read at 80 and at 200 columns.

use super::{Table, number};
use serde_json::Value;
use std::io::{self, Write};

/// Width when the output is no terminal: wide enough that nothing useful is cut.
const WIDTH_WITHOUT_TERMINAL: usize = 200;

/// A name is never cut below this many characters.
const NAME_MIN: usize = 8;

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
    let (cells, right) = laid_out(table);
    let widths = fit(&cells, &right, width);
    let mut text = String::new();
    for row in 0..cells.rows() {
        text.clear();
        line(&mut text, &cells, row, (&widths, width), &right);
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    for note in &table.notes {
        paragraph(out, note, width)?;
    }
    Ok(())
}

/// Header and units, and the rows, in lines of at most `width` characters.
pub(super) fn lines(table: &Table, width: usize) -> (Vec<String>, Vec<String>) {
    let (cells, right) = laid_out(table);
    let widths = fit(&cells, &right, width);
    let made = (0..cells.rows()).map(|row| {
        let mut text = String::new();
        line(&mut text, &cells, row, (&widths, width), &right);
        text
    });
    let mut header: Vec<String> = made.collect();
    let rows = header.split_off(header.len() - table.rows.len());
    (header, rows)
}

/// Characters of a line in which nothing is cut but names of more than so many characters.
pub(super) fn natural_width(table: &Table, names: usize) -> usize {
    let (cells, right) = laid_out(table);
    let widths = fit(&cells, &right, usize::MAX);
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let shown = widths.iter().zip(&right);
    let shown = shown.map(|(width, right)| if *right { *width } else { names.min(*width) });
    shown.sum::<usize>() + gaps
}

/// The cells of header, units and rows; and which columns are of numbers.
fn laid_out(table: &Table) -> (Cells, Vec<bool>) {
    let units = table.columns.iter().map(|column| column.unit.as_str());
    let mut cells = Cells::of(table.columns.len());
    for column in &table.columns {
        cells.push_text(&column.name);
    }
    let has_units = units.clone().any(|unit| !unit.is_empty());
    if has_units {
        units.for_each(|unit| cells.push_text(unit));
    }
    for row in &table.rows {
        for (at, column) in table.columns.iter().enumerate() {
            match row.get(at) {
                Some(value) => cells.push(value, &column.unit),
                None => cells.push_text(""),
            }
        }
    }
    let columns = 0..table.columns.len();
    let right = columns.map(|at| is_number(table, at)).collect();
    (cells, right)
}

/// All cells of a table as texts, row after row, one behind the other: large answers have a million.
struct Cells {
    columns: usize,
    text: String,
    ends: Vec<Cell>,
}

/// Where a cell's text ends, and the columns it takes.
#[derive(Clone, Copy, Default)]
struct Cell {
    end: usize,
    columns: usize,
}

impl Cells {
    fn of(columns: usize) -> Self {
        Self {
            columns,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    fn push(&mut self, value: &Value, unit: &str) {
        match value {
            Value::Null => self.text.push('–'),
            Value::Number(number) => number::write_with_unit(&mut self.text, number, unit),
            Value::String(text) => push_printable(&mut self.text, text),
            other => push_printable(&mut self.text, &other.to_string()),
        }
        self.end();
    }

    fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
        self.end();
    }

    fn end(&mut self) {
        let start = self.ends.last().map_or(0, |cell| cell.end);
        let columns = columns(self.text.get(start..).unwrap_or_default());
        let end = self.text.len();
        self.ends.push(Cell { end, columns });
    }

    fn rows(&self) -> usize {
        self.ends.len().checked_div(self.columns).unwrap_or(0)
    }

    /// The cells of a row.
    fn row(&self, row: usize) -> &[Cell] {
        let start = row * self.columns;
        self.ends
            .get(start..start + self.columns)
            .unwrap_or_default()
    }

    /// Text of a cell, and the columns it takes.
    fn get(&self, row: usize, column: usize) -> (&str, usize) {
        let at = row * self.columns + column;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |cell| cell.end);
        let cell = self.ends.get(at).copied().unwrap_or_default();
        (
            self.text.get(start..cell.end).unwrap_or_default(),
            cell.columns,
        )
    }
}

/// Writes a text in lines of at most `width` characters, broken at blanks; all lines begin where the first one does.
pub(super) fn paragraph(out: &mut impl Write, text: &str, width: usize) -> io::Result<()> {
    let (mut line, mut shown) = (String::new(), String::new());
    let words = text.trim_start_matches(' ');
    let indent = " ".repeat(text.len() - words.len());
    push_printable(&mut shown, words);
    for word in shown.split(' ') {
        let used = indent.len() + columns(&line);
        if !line.is_empty() && used + 1 + columns(word) > width {
            writeln!(out, "{indent}{line}")?;
            line.clear();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{indent}{line}")
}

/// Names come from other people's programs: nothing in them may steer a terminal.
fn push_printable(out: &mut String, text: &str) {
    // No byte of a longer character is one of these; what else is control is longer than a byte.
    let plain = |byte: &u8| (0x20..0x7f).contains(byte);
    if text.as_bytes().iter().all(plain) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
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
fn fit(cells: &Cells, right: &[bool], width: usize) -> Vec<usize> {
    let mut widths = vec![0; cells.columns];
    for row in cells.ends.chunks(cells.columns.max(1)) {
        let reach = reach(row, right);
        for (at, (width, cell)) in widths.iter_mut().zip(row).enumerate() {
            if at < reach {
                *width = cell.columns.max(*width);
            }
        }
    }
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

/// Cells of a row that decide on widths: the last one may reach over the empty columns behind it, if it is a name.
fn reach(row: &[Cell], right: &[bool]) -> usize {
    match row.iter().rposition(|cell| cell.columns > 0) {
        Some(last) if last + 1 < row.len() && right.get(last) != Some(&true) => last,
        _ => row.len(),
    }
}

fn line(
    text: &mut String,
    cells: &Cells,
    row: usize,
    (widths, whole): (&[usize], usize),
    right: &[bool],
) {
    let reach = reach(cells.row(row), right);
    let mut used = 0;
    for (at, (width, right)) in widths.iter().zip(right).enumerate() {
        if at > 0 {
            text.push_str(GAP);
            used += GAP.len();
        }
        let (cell, taken) = cells.get(row, at);
        let width = if at == reach && !*right {
            whole.saturating_sub(used).max(*width)
        } else {
            *width
        };
        used += width;
        let pad = width.saturating_sub(taken);
        if *right {
            push_blanks(text, pad);
        }
        if taken <= width {
            text.push_str(cell);
        } else {
            push_cut(text, cell, taken, width);
        }
        if !*right {
            push_blanks(text, pad);
        }
    }
    text.truncate(text.trim_end().len());
}

/// A text of `taken` columns in fewer. A name loses its middle: its end says as much as its beginning, as the method behind a long
/// type does. Callers lose the outer ones.
fn push_cut(text: &mut String, cell: &str, taken: usize, width: usize) {
    let kept = width.saturating_sub(1);
    let tail = if cell.contains(" ← ") { 0 } else { kept / 2 };
    text.extend(cell.chars().take(kept - tail));
    text.push('…');
    text.extend(cell.chars().skip(taken.saturating_sub(tail)));
}

fn push_blanks(text: &mut String, mut count: usize) {
    const BLANKS: &str = "                                                                ";
    while count > 0 {
        let now = count.min(BLANKS.len());
        text.push_str(&BLANKS[..now]);
        count -= now;
    }
}

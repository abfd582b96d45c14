//! What a person need not see of an answer made for programs: columns that say nothing, and, where the rest does not fit, those
//! that say the same in every row.

use super::{Table, text};
use crate::cli::Format;
use serde_json::Value;

/// Of a name so many characters are worth more than a further column.
const NAME_SHOWN: usize = 40;

impl Table {
    /// Without columns that are empty in every row, as wide as the terminal; programs see all.
    pub(crate) fn readable(self, format: Format) -> Self {
        if format != Format::Table {
            return self;
        }
        self.narrowed(text::width())
    }

    /// The same for so many columns.
    pub(crate) fn narrowed(mut self, width: usize) -> Self {
        if self.rows.is_empty() {
            return self;
        }
        self.keep_where(|cells| !cells.iter().all(|cell| is_silent(cell)));
        if self.rows.len() > 1 && text::natural_width(&self, usize::MAX) > width {
            let mut same = Vec::new();
            for (at, column) in self.columns.iter().enumerate() {
                if let Some(text) = self.same(at) {
                    same.push(format!("{} {text}", column.name));
                }
            }
            if !same.is_empty() && same.len() < self.columns.len() {
                self.keep_where(|cells| !is_same_text(cells));
                self.notes
                    .insert(0, format!("in every row: {}", same.join(", ")));
            }
        }
        self
    }

    /// Whether that is wide enough for names of [`NAME_SHOWN`] characters and for all numbers.
    pub(crate) fn fits(&self, width: usize) -> bool {
        text::natural_width(self, NAME_SHOWN) <= width
    }

    /// The text that every row has in a column of texts.
    fn same(&self, at: usize) -> Option<&str> {
        let cells: Vec<&Value> = self.rows.iter().filter_map(|row| row.get(at)).collect();
        is_same_text(&cells).then(|| cells.first()?.as_str())?
    }

    /// Only the columns of these names.
    pub(crate) fn keep_columns(&mut self, keep: impl Fn(&str) -> bool) {
        let names = self.columns.iter();
        let keep: Vec<bool> = names.map(|column| keep(&column.name)).collect();
        self.keep(&keep);
    }

    fn keep_where(&mut self, keep: impl Fn(&[&Value]) -> bool) {
        let columns = 0..self.columns.len();
        let keep: Vec<bool> = columns
            .map(|at| {
                let cells: Vec<&Value> = self.rows.iter().filter_map(|row| row.get(at)).collect();
                keep(&cells)
            })
            .collect();
        self.keep(&keep);
    }

    fn keep(&mut self, keep: &[bool]) {
        let mut kept = keep.iter();
        self.columns.retain(|_| kept.next() == Some(&true));
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.retain(|_| kept.next() == Some(&true));
        }
    }
}

fn is_silent(cell: &Value) -> bool {
    cell.is_null() || cell.as_str() == Some("") || cell.as_f64() == Some(0.0)
}

fn is_same_text(cells: &[&Value]) -> bool {
    let first = cells.first().and_then(|cell| cell.as_str());
    first.is_some_and(|first| cells.iter().all(|cell| cell.as_str() == Some(first)))
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_whole_where_columns_without_a_word_stood_beside_them() {
        let name = "a_function_with_a_rather_long_name_that_matters";
        let columns = [
            "function",
            "tier",
            "event",
            "latency_kind",
            "samples",
            "weight",
            "est_events",
            "n_hitm",
            "n_fwd",
        ];
        let row = |name: &str, n: u64| {
            let row = json!([name, "software", "minor-faults", "", n, 0.0, null, 0, 0]);
            row.as_array().unwrap().clone()
        };
        let table = Table {
            columns: columns.map(|name| Column::new(name, "")).into(),
            rows: vec![row(name, 5), row("other", 3)],
            ..Table::default()
        };
        let text = table.clone().narrowed(66).to_text(66).unwrap();
        assert!(text.contains(name), "{text}");
        assert!(
            text.contains("in every row: tier software, event minor-faults"),
            "{text}"
        );
        let wide = table.narrowed(200).to_text(200).unwrap();
        assert!(
            wide.contains("minor-faults") && !wide.contains("n_hitm"),
            "{wide}"
        );
    }
}

//! Rows as they are matched with those of another file.

use super::rows::Rows;
use super::{Estimator, Value};
use crate::significance::Sums;

/// A row to be matched with those of another file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the event.
    pub event: String,
    /// One text for each key.
    pub keys: Vec<String>,
    /// Sums of what `overhead` of the event rests on.
    pub sums: Sums,
}

impl Rows {
    /// All rows.
    pub fn parts(&self) -> Vec<Part> {
        let text = |value: Value<'_>| match value {
            Value::Unknown => String::new(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.into_owned(),
        };
        let part = |at| {
            let row = self.ready_row(at)?;
            Some(Part {
                event: self.event_name(row.event).to_owned(),
                keys: row.keys.into_iter().map(|key| text(key.value)).collect(),
                sums: self.sums(at)?,
            })
        };
        (0..self.len()).filter_map(part).collect()
    }

    /// Name, estimator and sums of each event that has samples.
    pub fn wholes(&self) -> Vec<(String, Estimator, Sums)> {
        let whole = |(event, _)| {
            let name = self.event_name(event).to_owned();
            Some((name, self.estimator(event), self.whole(event)?))
        };
        self.totals().filter_map(whole).collect()
    }
}

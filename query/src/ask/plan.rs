//! What will be asked of the store for a question.

use super::{Range, completeness};
use crate::answer::{Column, Kind, Other, Value};
use crate::statement::Statement;

/// The first statement of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The statement; it asks for one row more than `limit`.
    pub statement: Statement,
    /// Columns of its rows.
    pub columns: Vec<Column>,
    /// Columns behind them that are read and not shown: first, if there are any, how many rows there are in all and how
    /// many samples in them.
    pub hidden: Vec<Column>,
    /// Table it reads.
    pub table: &'static str,
    /// Rows wanted.
    pub limit: u32,
    /// The time range it really reads.
    pub range: Range,
    /// Host names asked for; empty: all.
    pub hosts: Vec<String>,
    /// What a reader must know already.
    pub notes: Vec<String>,
}

/// A further statement, asked once the rows of the first are there.
#[derive(Debug, Clone, PartialEq)]
pub struct PartPlan {
    /// Name of the part.
    pub name: &'static str,
    /// The statement.
    pub statement: Statement,
    /// Columns of its rows.
    pub columns: Vec<Column>,
}

impl Plan {
    /// The statement that sums up the ledger over the same range and hosts.
    pub fn ledger_statement(&self) -> Statement {
        completeness::ledger_statement(self.range, &self.hosts)
    }

    /// The statement that counts hosts seen and expected.
    pub fn hosts_statement(&self) -> Statement {
        completeness::hosts_statement(self.range, &self.hosts)
    }

    /// The statement that counts rows in the range, where it is short.
    pub fn in_range_statement(&self) -> Option<Statement> {
        completeness::in_range_statement(self.range, &self.hosts)
    }

    /// The statement that sums up time without samples.
    pub fn dark_statement(&self) -> Statement {
        completeness::dark_statement(self.range, &self.hosts)
    }

    /// What the store answers with.
    pub(crate) fn columns_read(&self) -> Vec<Column> {
        [self.columns.as_slice(), &self.hidden].concat()
    }

    /// What a row has in a hidden column.
    pub(crate) fn hidden<'a>(&self, row: &'a [Value], name: &str) -> Option<&'a Value> {
        let place = self.hidden.iter().position(|column| column.name == name)?;
        row.get(self.columns.len() + place)
    }

    /// Cuts the row that was asked for beyond the limit, and notes what a reader must know of the rest.
    pub(crate) fn finish(&self, rows: &mut Vec<Vec<Value>>) -> (Vec<String>, Option<Other>) {
        let mut notes = self.notes.clone();
        let cut = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let first = rows.first().map(Vec::as_slice).unwrap_or_default();
        let other = match (
            self.hidden(first, "rows_in_all"),
            self.hidden(first, "samples_in_all"),
        ) {
            (Some(Value::Number(all)), Some(Value::Number(samples))) if cut => Some(Other {
                rows: all.saturating_sub(rows.len() as u64),
                samples: samples.saturating_sub(self.samples(rows)),
            }),
            _ => None,
        };
        if cut {
            let limit = self.limit;
            let rest = other.as_ref().map_or_else(String::new, |other| {
                format!(", {} more with {} samples", other.rows, other.samples)
            });
            notes.push(format!(
                "cut after {limit} rows{rest}: {}",
                super::more_rows(limit as usize)
            ));
        }
        notes.extend(self.mixed_tiers(rows));
        (notes, other)
    }

    /// Takes hidden columns away.
    pub(crate) fn strip(&self, rows: &mut [Vec<Value>]) {
        for row in rows {
            row.truncate(self.columns.len());
        }
    }

    fn samples(&self, rows: &[Vec<Value>]) -> u64 {
        let place = |column: &Column| column.name == "samples" && column.kind == Kind::Number;
        let place = self.columns.iter().position(place);
        let cell = |row: &Vec<Value>| match row.get(place?) {
            Some(Value::Number(samples)) => Some(*samples),
            _ => None,
        };
        rows.iter().filter_map(cell).sum()
    }

    fn mixed_tiers(&self, rows: &[Vec<Value>]) -> Option<String> {
        let place = self.columns.iter().position(|column| column.name == "tier");
        let mut tiers: Vec<&str> = Vec::new();
        for row in rows {
            if let Some(Value::Text(name)) = row.get(place?)
                && !tiers.contains(&name.as_str())
                && !name.is_empty()
            {
                tiers.push(name);
            }
        }
        tiers.sort_unstable();
        (tiers.len() > 1).then(|| {
            format!(
                "rows of the tiers {} are not to be added up",
                tiers.join(", ")
            )
        })
    }
}

//! Questions: one file each. A question is read and checked here, becomes SQL with bound parameters, and its rows
//! become an [`Answer`]. Nothing in here does I/O or looks at a clock.
//!
//! A question has one list of rows. Some ask for more once those rows are there (`more`): parts beside them, or what
//! completes them (`conclude`), such as intervals.

mod allocs;
mod annotate;
mod breakdown;
mod completeness;
mod data;
mod diff;
mod error;
mod faults;
mod filter;
mod flamegraph;
mod functions;
mod grouped;
mod hosts;
mod interval;
mod kernel;
mod kinds;
mod latency;
mod ledger;
mod lines;
mod numa;
mod offcpu;
mod pages;
mod plan;
mod question;
mod readings;
mod samples;
mod sites;
mod table;
pub(crate) mod time;
pub(crate) mod why;

pub use allocs::Allocs;
pub use annotate::Annotate;
pub use breakdown::{Breakdown, BreakdownBy};
pub use data::Data;
pub use diff::Diff;
pub use error::AskError;
pub use faults::Faults;
pub use filter::{Dimension, Filter};
pub use flamegraph::Flamegraph;
pub use functions::{Estimator, Functions};
pub use hosts::Hosts;
pub use kernel::Kernel;
pub use latency::Latency;
pub use ledger::Ledger;
pub use lines::Lines;
pub use numa::Numa;
pub use offcpu::Offcpu;
pub use pages::Pages;
pub use plan::{PartPlan, Plan};
pub use question::{Extra, Name, Question, Values};
pub use readings::{Counters, Pressure, Rss};
pub use samples::Keys;
pub(crate) use samples::all_conditions as conditions_of_samples;
pub use time::Range;

pub(crate) use completeness::{
    DarkTimes, HostCounts, LedgerCounts, notes as notes_of_completeness,
};
pub(crate) use kinds::note as note_kinds;

use crate::answer::{Answer, Value};

/// Rows of an answer unless the caller says otherwise.
pub const LIMIT_DEFAULT: u32 = 50;
/// Most rows of an answer: a page or a script reads them at once.
pub const LIMIT_MAX: u32 = 10_000;

/// How to see rows that were cut.
fn more_rows(limit: usize) -> String {
    if limit >= LIMIT_MAX as usize {
        return "filter to see them".to_owned();
    }
    format!("raise `limit` (at most {LIMIT_MAX}) or filter")
}

/// What every question does.
pub(crate) trait Ask: Sized {
    /// Filters it takes.
    const DIMENSIONS: &'static [Dimension];
    /// Parameters besides `since`, `until`, `limit`, `format` and the filters.
    const EXTRA: &'static [Extra];

    /// Rows unless the caller says otherwise.
    const LIMIT: u32 = LIMIT_DEFAULT;

    /// From its filter and its own parameters.
    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError>;

    /// What to ask of the store first.
    fn plan(&self) -> Plan;

    /// What to ask once those rows are there.
    fn more(&self, _plan: &Plan, _rows: &[Vec<Value>]) -> Vec<PartPlan> {
        Vec::new()
    }

    /// Completes the answer by what its parts say.
    fn conclude(&self, _answer: &mut Answer) {}
}

/// Parameters that only one question takes, as they were given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a>(pub(crate) &'a [(String, String)]);

impl Given<'_> {
    /// Its values, lists with commas taken apart; empty ones mean nothing.
    fn list(&self, name: &str) -> Vec<String> {
        let of = self.0.iter().filter(|(known, _)| known == name);
        let values = of.flat_map(|(_, value)| value.split(','));
        let values = values.map(|value| value.trim().to_owned());
        values.filter(|value| !value.is_empty()).collect()
    }

    /// Its value; the last one counts, an empty one is none.
    fn text(&self, name: &str) -> Option<&str> {
        let of = self.0.iter().filter(|(known, _)| known == name);
        of.map(|(_, value)| value.as_str())
            .next_back()
            .filter(|value| !value.is_empty())
    }

    /// True or false; false unless given.
    fn flag(&self, name: &'static str) -> Result<bool, AskError> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(AskError::UnknownValue {
                parameter: name,
                value: shortened(other),
                allowed: vec!["true", "false"],
            }),
        }
    }
}

/// One of the values of a closed set by its name.
fn one_of<T: Copy>(
    parameter: &'static str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, AskError> {
    let known = all.iter().find(|known| name(**known) == text).copied();
    known.ok_or_else(|| AskError::UnknownValue {
        parameter,
        value: shortened(text),
        allowed: all.iter().map(|known| name(*known)).collect(),
    })
}

/// A value for an error message: the start of it.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests;

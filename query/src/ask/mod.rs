//! Questions: one file each. A question is read and checked here, becomes SQL with bound parameters, and its rows
//! become an [`Answer`](crate::Answer). Nothing in here does I/O or looks at a clock.

mod breakdown;
mod completeness;
mod filter;
mod functions;
mod hosts;
mod ledger;
mod table;
pub(crate) mod time;

pub use breakdown::{Breakdown, BreakdownBy};
pub use filter::{Dimension, Filter};
pub use functions::{Estimator, Functions};
pub use hosts::Hosts;
pub use ledger::Ledger;
pub use time::Range;

pub(crate) use completeness::{HostCounts, LedgerCounts};

use crate::answer::{Column, Value};
use crate::statement::Statement;

/// Rows of an answer unless the caller says otherwise.
pub const LIMIT_DEFAULT: u32 = 50;
/// Most rows of an answer: a page or a script reads them at once.
pub const LIMIT_MAX: u32 = 10_000;

/// Why a question was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No such parameter, or this question does not take it.
    #[error("`{question}` does not take `{name}`")]
    UnknownParameter {
        /// The question.
        question: &'static str,
        /// What was given.
        name: String,
        /// What it takes.
        allowed: Vec<&'static str>,
    },
    /// The parameter does not take this value.
    #[error("`{parameter}` does not take `{value}`")]
    UnknownValue {
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        allowed: Vec<&'static str>,
    },
    /// A parameter that takes one value was given twice.
    #[error("`{parameter}` was given more than once")]
    Twice {
        /// The parameter.
        parameter: &'static str,
    },
    /// Not a time.
    #[error("`{value}` is no time for `{parameter}`")]
    Time {
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        value: String,
    },
    /// The range is empty or beyond what the store can hold.
    #[error("the range {since} to {until} is empty or ends after 2106")]
    Range {
        /// Its start, RFC 3339.
        since: String,
        /// Its end, RFC 3339.
        until: String,
    },
    /// Not a number of rows.
    #[error("`{value}` is no number of rows from 1 to {LIMIT_MAX}")]
    Limit {
        /// What was given.
        value: String,
    },
    /// Not a build id.
    #[error("`{value}` is no build id")]
    BuildId {
        /// What was given.
        value: String,
    },
    /// A value is too long, or there are too many.
    #[error(
        "`{parameter}` has more than {} values or one longer than {} bytes",
        filter::VALUES_MAX,
        filter::VALUE_BYTES_MAX
    )]
    TooLong {
        /// The parameter.
        parameter: &'static str,
    },
}

impl AskError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::UnknownParameter { allowed, .. } => format!("use {}", allowed.join(", ")),
            Self::UnknownValue { allowed, .. } => format!("use one of {}", allowed.join(", ")),
            Self::Twice { .. } => "give it once".to_owned(),
            Self::Time { .. } => {
                "write -1h (s, m, h, d, w), now, RFC 3339 as 2026-01-31T12:00:00Z, or nanoseconds \
                                  since 1970"
                    .to_owned()
            }
            Self::Range { .. } => "`since` has to lie before `until`".to_owned(),
            Self::Limit { .. } => format!("leave it out for {LIMIT_DEFAULT}"),
            Self::BuildId { .. } => {
                "write its 2 to 40 hexadecimal digits, as `file` or `perf buildid-list` print them"
                    .to_owned()
            }
            Self::TooLong { .. } => "ask twice, or use SQL".to_owned(),
        }
    }
}

/// What will be asked of the store for a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The statement; it asks for one row more than `limit`.
    pub statement: Statement,
    /// Columns of its rows.
    pub columns: Vec<Column>,
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

impl Plan {
    /// The statement that sums up the ledger over the same range and hosts.
    pub fn ledger_statement(&self) -> Statement {
        completeness::ledger_statement(self.range, &self.hosts)
    }

    /// The statement that counts hosts seen and expected.
    pub fn hosts_statement(&self) -> Statement {
        completeness::hosts_statement(self.range, &self.hosts)
    }

    /// Cuts the row that was asked for beyond the limit, and notes what a reader must know of the rest.
    pub(crate) fn finish(&self, rows: &mut Vec<Vec<Value>>) -> Vec<String> {
        let mut notes = self.notes.clone();
        if rows.len() > self.limit as usize {
            rows.truncate(self.limit as usize);
            let limit = self.limit;
            notes.push(format!(
                "cut after {limit} rows: raise `limit` (at most {LIMIT_MAX}) or filter"
            ));
        }
        let tier = self.columns.iter().position(|column| column.name == "tier");
        if let Some(tier) = tier {
            let mut tiers: Vec<&str> = Vec::new();
            for row in rows.iter() {
                if let Some(Value::Text(name)) = row.get(tier)
                    && !tiers.contains(&name.as_str())
                    && !name.is_empty()
                {
                    tiers.push(name);
                }
            }
            tiers.sort_unstable();
            if tiers.len() > 1 {
                notes.push(format!(
                    "rows of the tiers {} are not to be added up",
                    tiers.join(", ")
                ));
            }
        }
        notes
    }
}

/// The four questions.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Which functions.
    Functions(Functions),
    /// Which levels, localities, tiers, …
    Breakdown(Breakdown),
    /// Which hosts, how completely.
    Hosts(Hosts),
    /// What is missing and why.
    Ledger(Ledger),
}

impl Question {
    /// Reads the question `name` from the parameters of a URL; `now_ns` is the wall time, ns since 1970.
    pub fn parse(name: Name, pairs: &[(String, String)], now_ns: u64) -> Result<Self, AskError> {
        Ok(match name {
            Name::Functions => Self::Functions(Functions::parse(pairs, now_ns)?),
            Name::Breakdown => Self::Breakdown(Breakdown::parse(pairs, now_ns)?),
            Name::Hosts => Self::Hosts(Hosts::parse(pairs, now_ns)?),
            Name::Ledger => Self::Ledger(Ledger::parse(pairs, now_ns)?),
        })
    }

    /// What to ask of the store.
    pub fn plan(&self) -> Plan {
        match self {
            Self::Functions(question) => question.plan(),
            Self::Breakdown(question) => question.plan(),
            Self::Hosts(question) => question.plan(),
            Self::Ledger(question) => question.plan(),
        }
    }
}

/// Name of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// `functions`
    Functions,
    /// `breakdown`
    Breakdown,
    /// `hosts`
    Hosts,
    /// `ledger`
    Ledger,
}

impl Name {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Functions, Self::Breakdown, Self::Hosts, Self::Ledger];

    /// As it stands in the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Breakdown => "breakdown",
            Self::Hosts => "hosts",
            Self::Ledger => "ledger",
        }
    }

    /// Filters it takes.
    pub const fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Functions | Self::Breakdown => Dimension::ALL,
            Self::Hosts => hosts::DIMENSIONS,
            Self::Ledger => ledger::DIMENSIONS,
        }
    }

    /// Parameters besides `since`, `until`, `limit`, `format` and the filters.
    pub const fn extra(self) -> &'static [&'static str] {
        match self {
            Self::Functions => &["by", "per_host"],
            Self::Breakdown => &["by"],
            Self::Hosts | Self::Ledger => &[],
        }
    }
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

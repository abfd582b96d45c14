//! Why a question was not understood, and what to do about it.

use super::filter::{VALUE_BYTES_MAX, VALUES_MAX};
use super::{LIMIT_DEFAULT, LIMIT_MAX};

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
    /// A comparison of something with itself.
    #[error("both sides are the same")]
    Nothing,
    /// Not a build id.
    #[error("`{value}` is no build id")]
    BuildId {
        /// What was given.
        value: String,
    },
    /// A value is too long, or there are too many.
    #[error(
        "`{parameter}` has more than {} values or one longer than {} bytes",
        VALUES_MAX,
        VALUE_BYTES_MAX
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
            Self::Nothing => "say what to compare with: before_since and before_until, before_build_id or before_host".to_owned(),
            Self::BuildId { .. } => {
                "write its 2 to 40 hexadecimal digits, as `file` or `perf buildid-list` print them"
                    .to_owned()
            }
            Self::TooLong { .. } => "ask twice, or use SQL".to_owned(),
        }
    }
}

//! What is told to somebody whose question has no answer: the same over HTTP (RFC 9457) and gRPC.

use memwide_store::StoreError;
use serde_json::json;

use crate::ask::AskError;
use crate::config::Limits;

/// Kind of a problem; it decides the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The question is wrong.
    Question,
    /// It may not be asked.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The method is not taken here.
    Method,
    /// The body's type is not taken here.
    MediaType,
    /// It costs more than is allowed.
    Limit,
    /// Not now.
    Unavailable,
    /// Ours.
    Internal,
}

impl Class {
    /// HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::Question => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::MediaType => 415,
            Self::Limit => 422,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    const fn code(self) -> tonic::Code {
        match self {
            Self::Question | Self::Method | Self::MediaType => tonic::Code::InvalidArgument,
            Self::Forbidden => tonic::Code::PermissionDenied,
            Self::NotFound => tonic::Code::NotFound,
            Self::Limit => tonic::Code::ResourceExhausted,
            Self::Unavailable => tonic::Code::Unavailable,
            Self::Internal => tonic::Code::Internal,
        }
    }
}

/// A problem and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{title}: {detail}; {remedy}")]
pub struct Problem {
    /// Kind.
    pub class: Class,
    /// What happened, the same for every problem of its sort.
    pub title: &'static str,
    /// What happened here, with values.
    pub detail: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    /// The document of `application/problem+json`.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "type": "about:blank",
            "title": self.title,
            "status": self.class.status(),
            "detail": self.detail,
            "remedy": self.remedy,
        })
    }

    pub(crate) fn not_ready() -> Self {
        Self {
            class: Class::Unavailable,
            title: "the store is not ready",
            detail: "the store is still starting or being restarted".to_owned(),
            remedy: "ask again in a few seconds; `/api/v1/status` says how it is".to_owned(),
        }
    }

    pub(crate) fn busy(limits: &Limits) -> Self {
        Self {
            class: Class::Unavailable,
            title: "too many statements are under way",
            detail: format!(
                "for {} s none of {} ended (`limits.at_once`)",
                limits.seconds, limits.at_once
            ),
            remedy: "ask again in a few seconds, or ask for less at a time".to_owned(),
        }
    }

    /// From a failure of the store; `limits` are those the statement ran under.
    pub(crate) fn from_store(error: &StoreError, limits: &Limits) -> Self {
        match error {
            StoreError::Exception { code, text } => from_exception(*code, text, limits),
            StoreError::AnswerTooLarge { limit_bytes } => Self {
                class: Class::Limit,
                title: "the answer is too large",
                detail: format!("it has more than {limit_bytes} bytes"),
                remedy: "add LIMIT, ask for fewer columns, or aggregate".to_owned(),
            },
            StoreError::Refused(refusal) => Self {
                class: Class::Forbidden,
                title: "the statement is refused",
                detail: refusal.to_string(),
                remedy: "write one SELECT over the tables of this database, without SETTINGS, FORMAT, INTO OUTFILE \
                         and table functions that reach outside"
                    .to_owned(),
            },
            StoreError::Parameter(error) => Self {
                class: Class::Question,
                title: "a parameter does not fit its type",
                detail: error.to_string(),
                remedy: format!("write a wider type, as `{{{}:Int64}}`, or another value", error.name),
            },
            StoreError::Unreachable(_) | StoreError::NotReady { .. } => Self {
                class: Class::Unavailable,
                title: "the store does not answer",
                detail: chain(error),
                remedy: "ask again in a few seconds; `/api/v1/status` says how it is".to_owned(),
            },
            _ => Self {
                class: Class::Internal,
                title: "the store's answer cannot be used",
                detail: chain(error),
                remedy: "look at the log of the query service".to_owned(),
            },
        }
    }
}

fn from_exception(code: Option<u32>, text: &str, limits: &Limits) -> Problem {
    let text = trimmed(text);
    let limit = |detail: String, remedy: &str| Problem {
        class: Class::Limit,
        title: "a limit is reached",
        detail,
        remedy: remedy.to_owned(),
    };
    let problem = |class, title, remedy: &str| Problem {
        class,
        title,
        detail: text.to_owned(),
        remedy: remedy.to_owned(),
    };
    match code {
        Some(159 | 160) => limit(
            format!(
                "it ran longer than {} s (max_execution_time)",
                limits.seconds
            ),
            "narrow the time range, or ask a rollup such as fleet_1h instead of samples",
        ),
        Some(396) => limit(
            format!("it has more than {} rows (max_result_rows)", limits.rows),
            "add LIMIT, or aggregate",
        ),
        Some(241) => limit(
            format!(
                "it needs more memory than {} (max_memory_usage): {text}",
                match limits.memory_bytes {
                    0 => "the store gives a statement".to_owned(),
                    bytes => format!("the {} MiB a statement may have", bytes >> 20),
                }
            ),
            "narrow the time range, group by fewer columns, or raise `limits.memory_bytes` of the query service",
        ),
        Some(202 | 203 | 209 | 210 | 319 | 394 | 425) => problem(
            Class::Unavailable,
            "the store is busy",
            "ask again in a few seconds",
        ),
        Some(60 | 81) => problem(
            Class::Question,
            "no such table",
            "SHOW TABLES lists them; the views `functions` and `accesses` are the place to start",
        ),
        Some(47) => problem(
            Class::Question,
            "no such column",
            "DESCRIBE TABLE names the columns and their units",
        ),
        Some(497) => problem(
            Class::Forbidden,
            "the statement is refused",
            "only this database and a few tables of `system` may be read",
        ),
        Some(164) => problem(
            Class::Forbidden,
            "the statement is refused",
            "only statements that read are allowed",
        ),
        _ => problem(
            Class::Question,
            "the store refuses the statement",
            "correct the statement",
        ),
    }
}

/// ClickHouse's words without the version behind them and the stack that may follow.
fn trimmed(text: &str) -> &str {
    let text = text.lines().next().unwrap_or_default();
    let text = text.split(" (version ").next().unwrap_or(text);
    text.trim()
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        Self {
            class: Class::Question,
            title: "the question is not understood",
            detail: error.to_string(),
            remedy: error.remedy(),
        }
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> Self {
        Self::new(problem.class.code(), problem.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u32, text: &str) -> Problem {
        let error = StoreError::Exception {
            code: Some(code),
            text: text.to_owned(),
        };
        Problem::from_store(&error, &Limits::default())
    }

    #[test]
    fn limits_are_named_with_their_value_and_remedy() {
        assert_eq!(
            of(159, "Code: 159. DB::Exception: Timeout exceeded").to_string(),
            "a limit is reached: it ran longer than 30 s (max_execution_time); narrow the time range, or ask a rollup \
             such as fleet_1h instead of samples"
        );
        assert!(of(396, "").detail.contains("100000 rows (max_result_rows)"));
        let memory = of(241, "");
        let limit = format!(
            "the {} MiB a statement may have",
            Limits::default().memory_bytes >> 20
        );
        assert!(memory.detail.contains(&limit), "{memory}");
        assert!(memory.remedy.contains("limits.memory_bytes"), "{memory}");
    }

    #[test]
    fn versions_and_stacks_stay_inside() {
        let problem = of(
            62,
            "Code: 62. DB::Exception: Syntax error: failed at 1. (SYNTAX_ERROR) (version 26.7.2.1)\n0. ./x",
        );
        assert_eq!(
            problem.detail,
            "Code: 62. DB::Exception: Syntax error: failed at 1. (SYNTAX_ERROR)"
        );
        assert_eq!(problem.class.status(), 400);
    }
}

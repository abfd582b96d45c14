//! Why the store did not do what was asked, and whether asking again can help.

use crate::engine::LoadError;
use crate::guard::Refusal;
use crate::native::NativeError;
use crate::schema::SchemaError;
use crate::sql::OutOfRange;
use crate::tools::ToolError;

/// What to do about a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The store is away, busy or starting: the same request may succeed later.
    Retry,
    /// Asking again cannot help: someone has to change something.
    Permanent,
    /// The store took the request and refuses this block's content: bisect it.
    RefusedBlock,
}

/// A failed request to the store, or a store that cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store answered with an exception.
    #[error("the store answered {}: {text}", code_text(*.code))]
    Exception {
        /// ClickHouse's error code; `None` if the answer had none.
        code: Option<u32>,
        /// The store's own words.
        text: String,
    },
    /// The store could not be reached, or the connection broke.
    #[error("the store does not answer")]
    Unreachable(#[source] clickhouse::error::Error),
    /// The client library refused the request or the answer.
    #[error("the request to the store failed")]
    Client(#[source] clickhouse::error::Error),
    /// A row of the answer is not what the caller expects.
    #[error("a row of the store's answer is not understood")]
    Row(#[source] serde_json::Error),
    /// The answer is larger than the caller allowed.
    #[error("the answer has more than {limit_bytes} bytes; ask for less, or with a LIMIT")]
    AnswerTooLarge {
        /// The caller's bound, in bytes.
        limit_bytes: usize,
    },
    /// The URL of the store is not understood.
    #[error(
        "store URL `{url}` is not understood ({why}); it looks like http://user:password@host:8123/database"
    )]
    Url {
        /// The URL, without its password.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The query was refused before it was sent.
    #[error("query refused")]
    Refused(#[from] Refusal),
    /// The value of a parameter does not fit its type: the engine would take it for another one.
    #[error(transparent)]
    Parameter(#[from] OutOfRange),
    /// A Native block is not one.
    #[error("a block of rows is damaged")]
    Native(#[from] NativeError),
    /// The schema cannot be brought up to date.
    #[error("the schema cannot be used")]
    Schema(#[from] SchemaError),
    /// A day that is made beside has lost its rows.
    #[error(
        "what is made beside is gone from `{table}`: another run makes a day of this store; run one at a time"
    )]
    MadeGone {
        /// The table.
        table: &'static str,
    },
    /// A tool is missing.
    #[error("a tool is missing")]
    Tool(#[from] ToolError),
    /// The engine library cannot be used.
    #[error("the engine does not start")]
    Load(#[from] LoadError),
    /// The engine's options cannot be read.
    #[error("the engine's options are not understood")]
    EngineOptions(#[source] serde_json::Error),
    /// A secret the engine needs is missing.
    #[error("{0} is not set: the engine is started by `memwide up`, which sets it")]
    SecretMissing(&'static str),
    /// The engine process cannot be set up or started.
    #[error("cannot {action}")]
    Io {
        /// What failed.
        action: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The engine process cannot be started or waited for.
    #[error("the engine cannot be had")]
    Child(#[from] memwide_service::child::ChildError),
    /// The engine process ended, or said nothing, before it was ready.
    #[error("the engine did not become ready ({status}); its last words: {last_words}")]
    NotReady {
        /// How it ended.
        status: String,
        /// The end of its stderr.
        last_words: String,
    },
}

fn code_text(code: Option<u32>) -> String {
    code.map_or_else(
        || "without a code".to_owned(),
        |code| format!("with code {code}"),
    )
}

/// The code in an exception's text, `Code: 60. DB::Exception: …`.
fn exception_code(text: &str) -> Option<u32> {
    let digits = text.split("Code: ").nth(1)?;
    digits
        .get(..digits.find(|c: char| !c.is_ascii_digit())?)?
        .parse()
        .ok()
}

/// Codes that say "not now": timeouts, too many parts or queries, no memory left, shutting down, storage busy.
const RETRY_CODES: &[u32] = &[
    3, 159, 160, 173, 198, 202, 203, 204, 209, 210, 225, 236, 241, 242, 243, 252, 285, 286, 319,
    364, 384, 394, 425, 439, 473, 517, 571, 574, 677, 733, 735, 738, 745, 749, 762, 776, 777, 778,
    999, 1000, 1002,
];

/// Codes that say "these bytes can never be rows of that table": what cannot be read, converted, or breaks a constraint.
/// None that waiting or an operator can cure (memory, disk, access, a table that is not there yet).
const BLOCK_CODES: &[u32] = &[
    // Not readable: texts, numbers, dates, ends, sizes, packing.
    6, 11, 12, 25, 26, 27, 32, 33, 38, 39, 41, 72, 117, 128, 130, 131, 261, 271, 376, 441, 467, 536,
    561, 563, 618, 632, 652, 675, 676, 760,
    // Columns that do not fit together or are not the table's.
    7, 8, 9, 10, 13, 15, 16, 19, 20, 92, 108, 120, 122, 161, 190, 282, 366, 645, 636,
    // Types that are none or cannot become the table's.
    34, 35, 36, 42, 43, 44, 48, 50, 53, 68, 70, 169, 170, 349, 370, 377, 378, 386, 438, 455, 549,
    650, 691, 728, // Values beyond a type, a constraint, a partition key.
    69, 153, 248, 321, 395, 407, 469, 565,
    // The engine contradicts itself over these bytes; other bytes are fine.
    49,
];

impl StoreError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// Sorts an error of the client library.
    pub(crate) fn from_client(error: clickhouse::error::Error) -> Self {
        use clickhouse::error::Error;
        match error {
            Error::BadResponse(text) => Self::Exception {
                code: exception_code(&text),
                text,
            },
            Error::Network(_) | Error::TimedOut => Self::Unreachable(error),
            other => Self::Client(other),
        }
    }

    /// The one place that says which failures are worth another try.
    pub fn advice(&self) -> Advice {
        match self {
            // An answer without a code comes from something between us and the store.
            Self::Unreachable(_) | Self::NotReady { .. } | Self::Exception { code: None, .. } => {
                Advice::Retry
            }
            Self::Exception {
                code: Some(code), ..
            } => {
                if RETRY_CODES.contains(code) {
                    Advice::Retry
                } else if BLOCK_CODES.contains(code) {
                    Advice::RefusedBlock
                } else {
                    Advice::Permanent
                }
            }
            Self::Native(_) => Advice::RefusedBlock,
            _ => Advice::Permanent,
        }
    }

    /// ClickHouse's error code, if the store gave one.
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Exception { code, .. } => *code,
            _ => None,
        }
    }

    /// What a person can do about it while something keeps failing with it.
    pub fn remedy(&self) -> &'static str {
        match (self.advice(), self.code()) {
            (_, Some(243)) => "free disk space of the store",
            (_, Some(241 | 173 | 776..=778)) => {
                "give the store more memory, or ask less of it at once"
            }
            (Advice::Retry, _) => "it goes on by itself once the store answers",
            (_, Some(60 | 81 | 218)) => {
                "the schema is not there: restart the sink, which brings it up to date, or restore the table"
            }
            (_, Some(164 | 774)) => "make the store writable",
            (_, Some(192..=194 | 291 | 497 | 516)) => {
                "give the user in the store's URL its password and the grants of the schema's tables"
            }
            _ => {
                "look at the store's log; if the rows themselves are to blame, name the code in `refused_codes` of the \
                 sink: they become dead letters"
            }
        }
    }

    /// One word a variant, as a metric's label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Exception { .. } => "exception",
            Self::Unreachable(_) => "unreachable",
            Self::Client(_) => "client",
            Self::Row(_) => "row",
            Self::AnswerTooLarge { .. } => "answer_too_large",
            Self::Url { .. } => "url",
            Self::Refused(_) => "refused",
            Self::Parameter(_) => "parameter",
            Self::Native(_) => "native",
            Self::Schema(_) => "schema",
            Self::MadeGone { .. } => "made_gone",
            Self::Tool(_) => "tool",
            Self::Load(_) => "load",
            Self::EngineOptions(_) => "engine_options",
            Self::SecretMissing(_) => "secret_missing",
            Self::Io { .. } => "io",
            Self::Child(_) => "child",
            Self::NotReady { .. } => "not_ready",
        }
    }
}

//! `tracing` to stderr, and printing an error with its causes.
//!
//! | variable | meaning |
//! |---|---|
//! | `MEMWIDE_LOG` | filter, as `info,memwide_decoder=debug` |
//! | `NO_COLOR` | set and not empty: no colours, terminal or not |

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Variable that holds the log filter.
pub const LOG_VARIABLE: &str = "MEMWIDE_LOG";

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One line an event, for people.
    #[default]
    Text,
    /// One JSON object an event, for machines.
    Json,
}

/// What [`init`] needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// How events are written.
    pub format: Format,
    /// Filter when `MEMWIDE_LOG` is not set.
    pub default_filter: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::Text,
            default_filter: "info".to_owned(),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("log filter `{filter}` from {place} is not like `info,memwide_decoder=debug`")]
    Filter {
        /// The filter as given.
        filter: String,
        /// Where it came from.
        place: &'static str,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Somebody else has set up logging in this process.
    #[error("logging is already set up")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the events of this process to stderr. To be called once, by `main`.
pub fn init(options: &Options) -> Result<(), TelemetryError> {
    let filter = filter(std::env::var(LOG_VARIABLE).ok(), &options.default_filter)?;
    let colours = colours(
        std::io::stderr().is_terminal(),
        std::env::var("NO_COLOR").ok().as_deref(),
        std::env::var("TERM").ok().as_deref(),
    );
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    let registry = tracing_subscriber::registry().with(filter);
    match options.format {
        Format::Text => registry.with(layer).try_init(),
        Format::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    }
    .map_err(TelemetryError::Twice)
}

fn filter(variable: Option<String>, default: &str) -> Result<EnvFilter, TelemetryError> {
    let (filter, place) = match variable {
        Some(filter) if !filter.trim().is_empty() => (filter, LOG_VARIABLE),
        _ => (default.to_owned(), "the configuration"),
    };
    EnvFilter::try_new(&filter).map_err(|source| TelemetryError::Filter {
        filter,
        place,
        source,
    })
}

/// Whether to colour: only on a terminal that can, and only if nobody asked not to.
pub fn colours(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
    terminal && no_color.is_none_or(str::is_empty) && term != Some("dumb")
}

/// Displays an error and its causes on one line: `cannot open spool: /var/…: permission denied`.
///
/// A cause that only repeats the text before it is left out.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !said.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[track_caller]
    fn check(texts: &[&'static str], expected: &str) {
        let mut error = None;
        for &text in texts.iter().rev() {
            let source = error.take().map(Box::new);
            error = Some(Layer { text, source });
        }
        assert_eq!(Chain(&error.unwrap()).to_string(), expected);
    }

    #[test]
    fn a_chain_prints_every_cause_once() {
        check(&["alone"], "alone");
        check(&["open spool", "no such file"], "open spool: no such file");
        check(&["open: no file", "no file", "os"], "open: no file: os");
    }

    #[test]
    fn colours_only_on_a_terminal_and_never_against_no_color() {
        let rows = [
            (true, None, Some("xterm"), true),
            (true, Some(""), None, true),
            (true, Some("1"), Some("xterm"), false),
            (true, None, Some("dumb"), false),
            (false, None, Some("xterm"), false),
        ];
        for (terminal, no_color, term, expected) in rows {
            let got = colours(terminal, no_color, term);
            assert_eq!(got, expected, "{terminal} {no_color:?} {term:?}");
        }
    }

    #[test]
    fn a_wrong_filter_names_the_variable() {
        let wrong = filter(Some("info,=,=".to_owned()), "info").unwrap_err();
        let text = wrong.to_string();
        assert!(text.contains("MEMWIDE_LOG"), "{text}");
        assert!(filter(Some("  ".to_owned()), "warn").is_ok());
    }
}

//! How a command ends when it does not end well.

use memwide_collector::RecordError;
use memwide_service::exit;
use memwide_service::telemetry::Chain;
use std::process::ExitCode;

/// An error with its exit code; printed once, by `main`, with its causes.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// The command line or the configuration is wrong: exit code 64.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: exit::USAGE,
            error: error.into(),
        }
    }

    /// Events cannot be recorded or counted: a name that nobody has, or that is written wrongly, is wrong usage.
    pub(crate) fn of_events(error: RecordError) -> Self {
        match error {
            RecordError::UnknownEvent { .. } | RecordError::MisreadEvent { .. } => {
                Self::usage(error)
            }
            error => error.into(),
        }
    }

    /// The input cannot be read: exit code 65.
    pub(crate) fn bad_input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: exit::BAD_INPUT,
            error: error.into(),
        }
    }

    /// Prints `memwide: what: why: why` and gives the exit code.
    pub(crate) fn print(&self) -> ExitCode {
        if !self.is_closed_pipe() {
            crate::output::say(&Chain(self.error.as_ref()).to_string());
        }
        ExitCode::from(self.code)
    }

    /// `memwide script … | head` is no failure worth a word.
    fn is_closed_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }
}

/// Everything else: exit code 1.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            code: exit::FAILED,
            error: error.into(),
        }
    }
}

//! The engine process by itself: what `memwide store-engine` runs, without the rest of memwide.

use std::process::ExitCode;

use memwide_store::engine::{EngineOptions, run_child};

#[expect(
    clippy::print_stderr,
    reason = "stderr is how the engine process speaks to the one that started it"
)]
fn main() -> ExitCode {
    let options = std::env::args().nth(1).unwrap_or_default();
    match EngineOptions::from_json(&options).and_then(run_child) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut words = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                words = format!("{words}: {cause}");
                source = cause.source();
            }
            eprintln!("store-engine: {words}");
            ExitCode::FAILURE
        }
    }
}

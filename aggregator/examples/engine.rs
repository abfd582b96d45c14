//! The engine process for this package's tests: what `memwide store-engine` runs.

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
            eprintln!("engine: {error}");
            ExitCode::FAILURE
        }
    }
}

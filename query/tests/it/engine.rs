//! The engine process of these tests: this test program itself, started again with the engine's options.

use std::path::Path;

use memwide_store::engine::{Child, ChildOptions, EngineOptions, run_child};
use memwide_store::tools;

/// Starts an engine in `data`; `None`, said loudly, where there is no engine library.
pub(crate) async fn start(data: &Path) -> Option<Child> {
    let library = match tools::engine_library() {
        Ok(library) => library,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let options = ChildOptions {
        program: std::env::current_exe().unwrap(),
        args: [
            "--exact",
            "engine::the_engine_runs_only_with_its_options",
            "--nocapture",
        ]
        .map(Into::into)
        .into(),
        engine: EngineOptions {
            library,
            data: data.to_owned(),
            max_memory_bytes: 1 << 30,
            ..EngineOptions::default()
        },
    };
    Some(Child::spawn(options).await.unwrap())
}

/// Under these tests' own engine this is the engine process; else it checks that nothing starts by accident.
#[test]
fn the_engine_runs_only_with_its_options() {
    let last = std::env::args().next_back().unwrap_or_default();
    if last.starts_with('{') {
        EngineOptions::from_json(&last).and_then(run_child).unwrap();
    } else {
        assert!(
            EngineOptions::from_json(&last).is_err(),
            "{last} would start an engine"
        );
    }
}

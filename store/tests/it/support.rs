//! An engine process for a test.

use std::path::Path;
use std::time::Duration;

use memwide_store::engine::{Child, ChildOptions, EngineOptions};
use memwide_store::{Request, Store, tools};
use tempfile::TempDir;

/// An engine with a folder that goes with it.
pub(crate) struct TestEngine {
    pub(crate) child: Child,
    pub(crate) folder: TempDir,
}

/// Options for an engine in `data`; `None`, said loudly, where there is no engine library.
pub(crate) fn options(data: &Path) -> Option<ChildOptions> {
    match tools::engine_library() {
        Ok(library) => Some(ChildOptions {
            program: env!("CARGO_BIN_EXE_memwide-store-engine").into(),
            args: Vec::new(),
            engine: EngineOptions { library, data: data.to_owned(), ..EngineOptions::default() },
        }),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Starts an engine.
pub(crate) async fn engine() -> Option<TestEngine> {
    engine_with(|_| {}).await
}

/// Starts an engine with other options.
pub(crate) async fn engine_with(change: impl FnOnce(&mut EngineOptions)) -> Option<TestEngine> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&folder.path().join("engine"))?;
    change(&mut options.engine);
    Some(TestEngine { child: Child::spawn(options).await.unwrap(), folder })
}

impl TestEngine {
    /// The writer's store, with the schema.
    pub(crate) async fn migrated(&self) -> Store {
        let store = self.child.store("memwide").unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The writer's store, with an empty database.
    pub(crate) async fn empty(&self) -> Store {
        let bare = Store::connect(&self.child.url, self.child.user, &self.child.password, "memwide").unwrap();
        bare.create_database().await.unwrap();
        bare
    }
}

/// The answer of a query as text, trimmed.
pub(crate) async fn ask(store: &Store, sql: &str) -> String {
    let answer = store.query(Request::new(sql, "TabSeparated")).await.unwrap();
    String::from_utf8(answer.to_vec()).unwrap().trim().to_owned()
}

/// The error of a query as text with its causes.
pub(crate) async fn refusal(store: &Store, sql: &str) -> String {
    match store.query(Request::new(sql, "TabSeparated")).await {
        Ok(answer) => panic!("`{sql}` was answered: {}", String::from_utf8_lossy(&answer)),
        Err(error) => format!("{error}"),
    }
}

/// Waits until `condition` holds, at most `within`.
pub(crate) async fn until<F: Future<Output = bool>>(within: Duration, what: &str, mut condition: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + within;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! An engine process for a test.

use std::path::Path;
use std::time::Duration;

use memwide_store::engine::{Child, ChildOptions, EngineOptions};
use memwide_store::{Request, Store, tools};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An engine with a folder that goes with it.
pub(crate) struct TestEngine {
    pub(crate) child: Child,
    folder: TempDir,
}

/// Options for an engine in `data`; `None`, said loudly, where there is no engine library.
pub(crate) fn options(data: &Path) -> Option<ChildOptions> {
    match tools::engine_library() {
        Ok(library) => Some(ChildOptions {
            program: env!("CARGO_BIN_EXE_memwide-store-engine").into(),
            args: Vec::new(),
            engine: EngineOptions {
                library,
                data: data.to_owned(),
                ..EngineOptions::default()
            },
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
    Some(TestEngine {
        child: Child::spawn(options).await.unwrap(),
        folder,
    })
}

impl TestEngine {
    /// The writer's store, with the schema.
    pub(crate) async fn migrated(&self) -> Store {
        let store = self.child.store("memwide").unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The engine's folder.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("engine")
    }

    /// The writer's store, with an empty database.
    pub(crate) async fn empty(&self) -> Store {
        let store = self.child.store("memwide").unwrap();
        store.create_database().await.unwrap();
        store
    }
}

/// The answer of a query as text, without the last line end.
pub(crate) async fn ask(store: &Store, sql: &str) -> String {
    let answer = store
        .query(Request::new(sql, "TabSeparated"))
        .await
        .unwrap();
    String::from_utf8(answer.to_vec())
        .unwrap()
        .trim_end_matches('\n')
        .to_owned()
}

/// The error of a query as text with its causes.
pub(crate) async fn refusal(store: &Store, sql: &str) -> String {
    match store.query(Request::new(sql, "TabSeparated")).await {
        Ok(answer) => panic!("`{sql}` was answered: {}", String::from_utf8_lossy(&answer)),
        Err(error) => format!("{error}"),
    }
}

/// Waits until `condition` holds, at most `within`.
pub(crate) async fn until<F: Future<Output = bool>>(
    within: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let deadline = tokio::time::Instant::now() + within;
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "not within {within:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A connection without a client library, for requests no library would send.
pub(crate) struct Raw {
    stream: tokio::net::TcpStream,
    login: String,
}

impl Raw {
    pub(crate) async fn connect(child: &Child) -> Self {
        let stream = tokio::net::TcpStream::connect(child.url.trim_start_matches("http://"))
            .await
            .unwrap();
        let login = format!(
            "x-clickhouse-user: {}\r\nx-clickhouse-key: {}",
            memwide_store::engine::WRITER,
            child.passwords.writer
        );
        Self { stream, login }
    }

    /// The head of a request with one more header.
    pub(crate) fn head(&self, method: &str, target: &str, header: &str) -> Vec<u8> {
        let login = &self.login;
        format!("{method} {target} HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n{login}\r\n{header}\r\n\r\n").into_bytes()
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a request with a body and returns the whole answer.
    pub(crate) async fn ask(
        mut self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> String {
        let length = format!("content-length: {}{headers}", body.len());
        let head = self.head(method, target, &length);
        self.send(&head).await;
        self.send(body).await;
        let mut answer = Vec::new();
        // An answer that breaks off is what some tests want to see.
        let _ = self.stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

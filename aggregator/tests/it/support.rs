//! nats-server, engine, aggregators and sinks for a test, and questions to the store.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use memwide_aggregator::{Config, NatsConfig, SinkConfig, serve, server_config, sink_into};
use memwide_service::CancellationToken;
use memwide_service::admin::Readiness;
use memwide_service::config::Secret;
use memwide_store::engine::{Child as Engine, ChildOptions, EngineOptions};
use memwide_store::{Request, Store, tools};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const TOKEN: &str = "a \"quoted\" token";

/// A nats-server that can be killed and started again on the same port with the same data.
pub(crate) struct Nats {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Option<Child>,
}

impl Nats {
    /// Starts a server; `None`, said loudly, where there is no nats-server.
    pub(crate) async fn start() -> Option<Self> {
        let program = match tools::nats_server() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let folder = tempfile::tempdir().unwrap();
        let mut nats = Self {
            program,
            folder,
            port,
            process: None,
        };
        nats.restart().await;
        Some(nats)
    }

    /// Ends the process as an out-of-memory kill would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills the process if it runs, and starts it.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        let at = |name: &str| self.folder.path().join(name);
        let text = server_config(self.port, 0, &at("js"), self.folder.path(), TOKEN);
        std::fs::write(at("nats.conf"), text).unwrap();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(at("log"))
            .unwrap();
        let mut command = Command::new(&self.program);
        command
            .arg("-c")
            .arg(at("nats.conf"))
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(command.spawn().unwrap());
        let address = self.address();
        until("nats-server answers", || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn config(&self) -> NatsConfig {
        NatsConfig {
            url: format!("nats://127.0.0.1:{}", self.port),
            token: Secret::new(TOKEN),
            stream_bytes_max: 1 << 30,
            request_timeout_ms: 1_000,
            ..NatsConfig::default()
        }
    }

    /// A client of its own, for what a test looks at or breaks.
    pub(crate) async fn client(&self) -> async_nats::Client {
        let options = async_nats::ConnectOptions::with_token(TOKEN.to_owned());
        options.connect(self.config().url).await.unwrap()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An engine that can be killed and started again with the same data.
pub(crate) struct TestEngine {
    options: ChildOptions,
    engine: Option<Engine>,
    store: watch::Sender<Store>,
    _folder: TempDir,
}

impl TestEngine {
    /// Starts an engine with the schema; `None`, said loudly, where there is no engine.
    pub(crate) async fn start() -> Option<Self> {
        let library = match tools::engine_library() {
            Ok(library) => library,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let tests = std::env::current_exe().unwrap();
        let program = tests
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("examples/engine");
        assert!(
            program.is_file(),
            "{} is built together with the tests",
            program.display()
        );
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("engine");
        let engine = EngineOptions {
            library,
            data,
            ..EngineOptions::default()
        };
        let options = ChildOptions {
            program,
            args: Vec::new(),
            engine,
        };
        let engine = Engine::spawn(options.clone()).await.unwrap();
        let store = engine.store("memwide").unwrap();
        store.migrate().await.unwrap();
        let (store, _) = watch::channel(store);
        Some(Self {
            options,
            engine: Some(engine),
            store,
            _folder: folder,
        })
    }

    /// Ends the process as an out-of-memory kill would.
    pub(crate) fn kill(&mut self) {
        self.engine = None;
    }

    /// Kills the process if it runs, and starts it: on another port, with another password.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        let mut engine = Engine::spawn(self.options.clone()).await;
        while engine.is_err() {
            // The folder's lock goes with the process that was killed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            engine = Engine::spawn(self.options.clone()).await;
        }
        let engine = engine.unwrap();
        self.store.send_replace(engine.store("memwide").unwrap());
        self.engine = Some(engine);
    }

    pub(crate) fn store(&self) -> Store {
        self.store.borrow().clone()
    }

    pub(crate) fn stores(&self) -> watch::Receiver<Store> {
        self.store.subscribe()
    }

    /// The answer of a query as text, without the last line end.
    pub(crate) async fn ask(&self, sql: &str) -> String {
        let answer = self
            .store()
            .query(Request::new(sql, "TabSeparated"))
            .await
            .unwrap();
        String::from_utf8(answer.to_vec())
            .unwrap()
            .trim_end_matches('\n')
            .to_owned()
    }

    pub(crate) async fn number(&self, sql: &str) -> u64 {
        self.ask(sql).await.parse().unwrap()
    }
}

/// Both servers, or a loud skip.
pub(crate) async fn servers() -> Option<(Nats, TestEngine)> {
    // With `MEMWIDE_LOG=debug` a failing test tells its story. A second test of the process finds it done.
    let _ = memwide_service::telemetry::init(&memwide_service::telemetry::Options::default());
    Some((Nats::start().await?, TestEngine::start().await?))
}

/// Partitions of the tests.
pub(crate) const PARTITIONS: u16 = 2;

/// A running aggregator.
pub(crate) struct Aggregator {
    pub(crate) address: SocketAddr,
    pub(crate) readiness: Readiness,
    stop: CancellationToken,
    task: JoinHandle<Result<(), memwide_aggregator::AggregatorError>>,
}

impl Aggregator {
    pub(crate) async fn start(nats: &Nats) -> Self {
        Self::with(nats, |_| {}).await
    }

    pub(crate) async fn with(nats: &Nats, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            nats: nats.config(),
            partitions: PARTITIONS,
            flush_after_ms: 50,
            ..Config::default()
        };
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, readiness) = (CancellationToken::new(), Readiness::new());
        let task = tokio::spawn(serve(config, listener, readiness.clone(), stop.clone()));
        Self {
            address,
            readiness,
            stop,
            task,
        }
    }

    /// Stops it with its data.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn sink_config(nats: &Nats) -> SinkConfig {
    SinkConfig {
        nats: nats.config(),
        partitions: PARTITIONS,
        block_wait_ms: 200,
        ..SinkConfig::default()
    }
}

/// A running sink.
pub(crate) struct Sink {
    pub(crate) readiness: Readiness,
    stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), memwide_aggregator::SinkError>>,
}

impl Sink {
    pub(crate) fn start(nats: &Nats, engine: &TestEngine) -> Self {
        Self::with(sink_config(nats), engine)
    }

    pub(crate) fn with(config: SinkConfig, engine: &TestEngine) -> Self {
        let (stop, readiness) = (CancellationToken::new(), Readiness::new());
        let task = tokio::spawn(sink_into(
            config,
            engine.stores(),
            readiness.clone(),
            stop.clone(),
        ));
        Self {
            readiness,
            stop,
            task,
        }
    }

    /// Stops it between two blocks.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until `condition` holds, at most a minute.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "not within a minute: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! The engine process: set-up, service, and an end in the one order that does not crash.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use memwide_service::config::Secret;
use rustix::process::{Pid, Signal};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::ffi::{Engine, exit_now};
use super::http::{Face, random_text, router};
use super::options::EngineOptions;
use super::pool::{Pool, Sessions, Stopper, kill};
use super::{READER_PASSWORD, READY, WRITER_PASSWORD, config, torn};
use crate::error::StoreError;

/// Time for running inserts to commit once the engine is told to stop.
const INSERT_GRACE: Duration = Duration::from_secs(3);
/// Time for everything else to end after that; then the process ends anyway.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Network threads: they only move bytes.
const NETWORK_THREADS: usize = 2;

/// Runs the engine until SIGTERM or SIGINT, or until the parent process is gone.
///
/// Prints `engine listening PORT` on stdout when requests are answered. Call it on the process's main thread, with
/// nothing else running; it returns only errors of the start and ends the process itself otherwise, because the
/// library's exit handlers crash while its threads run.
pub fn run_child(options: EngineOptions) -> Result<(), StoreError> {
    options.check()?;
    follow_parent(options.parent_pid)?;
    let secret = |name: &'static str| env::var(name).ok().filter(|s| !s.is_empty());
    let writer_password =
        secret(WRITER_PASSWORD).ok_or(StoreError::SecretMissing(WRITER_PASSWORD))?;
    // Without a password nobody is the reader.
    let reader_password = secret(READER_PASSWORD).unwrap_or_else(random_text);

    let (sessions, keeper) = open_engine(&options)?;
    let threads = StoreError::io("start the engine's threads");
    let reads = Pool::start(
        "read",
        options.read_threads,
        options.queue_requests,
        &sessions,
    )
    .map_err(threads)?;
    let threads = StoreError::io("start the engine's threads");
    let inserts = Pool::start(
        "insert",
        options.insert_threads,
        options.queue_requests,
        &sessions,
    )
    .map_err(threads)?;
    let (stopper, stopper_thread) =
        Stopper::start(&sessions).map_err(StoreError::io("start the engine's threads"))?;
    let stopping = CancellationToken::new();
    let reader_memory_bytes = config::query_memory_bytes(&options);
    let face = Arc::new(Face {
        reads: reads.queue(),
        inserts: inserts.queue(),
        stopper,
        writer_password: Secret::new(writer_password),
        reader_password: Secret::new(reader_password),
        databases: options.databases,
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        reader_memory_bytes,
        stopping: stopping.clone(),
    });

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .enable_all()
        .build()
        .map_err(StoreError::io("start the engine's network threads"))?;
    runtime.block_on(serve(face, options.port, stopping, sessions))?;
    runtime.shutdown_timeout(STOP_GRACE);

    // The interface is gone and with it every sender: the threads see their queues end.
    std::thread::spawn(|| {
        std::thread::sleep(STOP_GRACE);
        exit_now(0);
    });
    reads.join();
    inserts.join();
    let _ = stopper_thread.join();
    drop(keeper);
    exit_now(0);
}

/// Ties this process's life to its parent's: SIGKILL when it is gone, for what the engine acknowledged is on disk.
fn follow_parent(parent_pid: u32) -> Result<(), StoreError> {
    if parent_pid == 0 {
        return Ok(());
    }
    let tie = StoreError::io("tie the engine to the process that started it");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| tie(error.into()))?;
    // The parent may have gone before the line above.
    let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if parent.is_none_or(|pid| u32::try_from(pid.get()) != Ok(parent_pid)) {
        return Err(StoreError::NotReady {
            status: "its parent is gone".into(),
            last_words: format!("process {parent_pid} started it"),
        });
    }
    Ok(())
}

/// Prepares the private folder, makes it the working directory, and opens the engine on it.
fn open_engine(options: &EngineOptions) -> Result<(Sessions, super::ffi::Connection), StoreError> {
    let at = options.data.display();
    fs::create_dir_all(&options.data)
        .map_err(StoreError::io(format!("create the engine's folder {at}")))?;
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&options.data, private)
        .map_err(StoreError::io(format!("close {at} to others")))?;
    let folder =
        fs::canonicalize(&options.data).map_err(StoreError::io(format!("resolve {at}")))?;
    env::set_current_dir(&folder).map_err(StoreError::io(format!("enter {at}")))?;
    let config = config::write(options, &folder)?;
    let tables = folder.join("engine");
    for part in torn::free_tokens(&tables)? {
        tracing::warn!(
            part,
            "an insert was torn by a crash: its token is free again"
        );
    }
    let engine = Engine::load(&options.library)?;
    let arguments = [
        format!("--path={}", tables.display()),
        format!("--config-file={}", config.display()),
    ];
    let sessions = Sessions {
        engine,
        arguments: arguments.into(),
    };
    // An open session keeps the engine running between requests.
    let keeper = engine.connect(&sessions.arguments)?;
    Ok((sessions, keeper))
}

/// Serves until told to stop, then refuses new work, lets inserts end, stops everything else.
async fn serve(
    face: Arc<Face>,
    port: u16,
    stopping: CancellationToken,
    sessions: Sessions,
) -> Result<(), StoreError> {
    let taken = format!("listen on 127.0.0.1:{port} (is the port taken?)");
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(StoreError::io(taken))?;
    let port = listener
        .local_addr()
        .map_err(StoreError::io("learn the engine's port"))?
        .port();
    let mut terminate =
        signal(SignalKind::terminate()).map_err(StoreError::io("wait for SIGTERM"))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(StoreError::io("wait for SIGINT"))?;
    let closed = stopping.clone();
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let server = axum::serve(listener, router(face))
        .with_graceful_shutdown(async move { closed.cancelled().await });
    let server = tokio::spawn(server.into_future());
    announce(port)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stopping.cancel();
    let stop_queries = |condition: &'static str| {
        let sessions = sessions.clone();
        tokio::task::spawn_blocking(move || kill(&sessions, condition))
    };
    let _ = stop_queries("query_kind NOT IN ('Insert', 'KillQuery')").await;
    let mut server = server;
    if tokio::time::timeout(INSERT_GRACE, &mut server)
        .await
        .is_err()
    {
        let _ = stop_queries("query_kind != 'KillQuery'").await;
        if tokio::time::timeout(STOP_GRACE, &mut server).await.is_err() {
            server.abort();
        }
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "the line is the parent's sign that the engine is ready"
)]
fn announce(port: u16) -> Result<(), StoreError> {
    println!("{READY}{port}");
    std::io::stdout()
        .flush()
        .map_err(StoreError::io("say that the engine is ready"))
}

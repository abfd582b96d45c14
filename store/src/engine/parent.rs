//! The engine process as seen by the process that starts it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::sync::{oneshot, watch};

use super::{EngineOptions, READER, READER_PASSWORD, READY, WRITER, WRITER_PASSWORD};
use crate::error::StoreError;

/// Longest wait for the engine: it reopens thousands of parts in half a second, on a slow disk in several.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// Lines of the engine's stderr that are kept for an error message.
const LAST_LINES: usize = 12;

/// How the engine process is started.
#[derive(Debug, Clone)]
pub struct ChildOptions {
    /// Program whose arguments `args` and a JSON text of [`EngineOptions`] lead to [`super::run_child`].
    pub program: PathBuf,
    /// Arguments before the JSON text, such as `store-engine`.
    pub args: Vec<OsString>,
    /// Options of the engine; its `parent_pid` is filled in.
    pub engine: EngineOptions,
}

/// A running engine process. Dropped, it is killed; [`Child::stop`] is the gentle end.
#[derive(Debug)]
pub struct Child {
    /// URL of its HTTP interface.
    pub url: String,
    /// User that may write.
    pub user: &'static str,
    /// The writer's password, new at every start.
    pub password: String,
    /// User that may read, through the SQL guard.
    pub reader_user: &'static str,
    /// The reader's password, new at every start.
    pub reader_password: String,
    /// Process id.
    pub pid: u32,
    pidfd: OwnedFd,
    status: watch::Receiver<Option<String>>,
}

/// What the thread that starts the process hands over.
struct Started {
    pid: u32,
    pidfd: OwnedFd,
    ready: oneshot::Receiver<u16>,
}

impl Child {
    /// Starts the engine and waits until it answers.
    pub async fn spawn(mut options: ChildOptions) -> Result<Self, StoreError> {
        let (password, reader_password) = (secret()?, secret()?);
        options.engine.parent_pid = std::process::id();
        let mut command = Command::new(&options.program);
        command
            .args(&options.args)
            .arg(options.engine.to_json()?)
            .env(WRITER_PASSWORD, &password)
            .env(READER_PASSWORD, &reader_password)
            // The engine reads configuration from its user's home unless that is its own folder.
            .env("HOME", &options.engine.data)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A ctrl-c in the terminal is for the parent, which stops the engine last.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);

        let words = Arc::new(Mutex::new(VecDeque::new()));
        let (started, starting) = oneshot::channel();
        let (ended, mut status) = watch::channel(None);
        let heard = Arc::clone(&words);
        // The kernel ends the child with the *thread* that started it, so that thread stays until the child's end.
        thread::Builder::new()
            .name("engine-parent".into())
            .spawn(move || mind(command, started, &ended, &heard))
            .map_err(StoreError::io("start a thread"))?;
        let program = options.program.display();
        let lost = |_| StoreError::NotReady {
            status: "its thread is gone".into(),
            last_words: String::new(),
        };
        let started = starting
            .await
            .map_err(lost)?
            .map_err(StoreError::io(format!("start {program}")))?;

        let not_ready = |status: String| {
            let words = words.lock().unwrap_or_else(PoisonError::into_inner);
            let last_words = words
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" | ");
            StoreError::NotReady { status, last_words }
        };
        let port = tokio::select! {
            Ok(port) = started.ready => port,
            end = status.wait_for(Option::is_some) => {
                let status = end.ok().and_then(|s| s.clone()).unwrap_or_default();
                return Err(not_ready(status));
            }
            () = tokio::time::sleep(READY_WITHIN) => {
                signal(&started.pidfd, Signal::KILL);
                return Err(not_ready(format!("silent for {READY_WITHIN:?}")));
            }
        };
        Ok(Self {
            url: format!("http://127.0.0.1:{port}"),
            user: WRITER,
            password,
            reader_user: READER,
            reader_password,
            pid: started.pid,
            pidfd: started.pidfd,
            status,
        })
    }

    /// The writer's view of a database.
    pub fn store(&self, database: &str) -> Result<crate::Store, StoreError> {
        crate::Store::connect(&self.url, self.user, &self.password, database)
    }

    /// The reader's view of a database.
    pub fn reader(&self, database: &str) -> Result<crate::Store, StoreError> {
        crate::Store::connect(&self.url, self.reader_user, &self.reader_password, database)
    }

    /// Waits for the process's end and says how it ended.
    pub async fn exited(&mut self) -> String {
        let end = self.status.wait_for(Option::is_some).await;
        end.ok()
            .and_then(|status| status.clone())
            .unwrap_or_default()
    }

    /// Asks the process to end, waits at most `grace`, then kills it. `true` if it ended by itself.
    pub async fn stop(mut self, grace: Duration) -> bool {
        signal(&self.pidfd, Signal::TERM);
        if tokio::time::timeout(grace, self.exited()).await.is_ok() {
            return true;
        }
        signal(&self.pidfd, Signal::KILL);
        self.exited().await;
        false
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        signal(&self.pidfd, Signal::KILL);
    }
}

/// Signals exactly this process; one that has ended already is fine.
fn signal(pidfd: &OwnedFd, signal: Signal) {
    let _ = rustix::process::pidfd_send_signal(pidfd, signal);
}

/// Starts the process, listens to it, and waits for its end.
fn mind(
    mut command: Command,
    started: oneshot::Sender<std::io::Result<Started>>,
    ended: &watch::Sender<Option<String>>,
    words: &Arc<Mutex<VecDeque<String>>>,
) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return drop(started.send(Err(error))),
    };
    let (announce, ready) = oneshot::channel();
    let listeners = [
        child
            .stdout
            .take()
            .map(|out| listen(out, Some(announce), words)),
        child.stderr.take().map(|err| listen(err, None, words)),
    ];
    let pid = child.id();
    match Pid::from_raw(pid.cast_signed())
        .map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
    {
        Some(Ok(pidfd)) => drop(started.send(Ok(Started { pid, pidfd, ready }))),
        failed => {
            let _ = child.kill();
            let error = failed
                .and_then(Result::err)
                .map_or(std::io::ErrorKind::NotFound.into(), Into::into);
            let _ = started.send(Err(error));
        }
    }
    let status = child.wait().map_or_else(
        |error| error.to_string(),
        |status: ExitStatus| status.to_string(),
    );
    for listener in listeners.into_iter().flatten() {
        let _ = listener.join();
    }
    let _ = ended.send(Some(status));
}

/// Logs the lines of one stream, keeps the last ones, and reports the port when it comes by.
fn listen(
    stream: impl Read + Send + 'static,
    mut announce: Option<oneshot::Sender<u16>>,
    words: &Arc<Mutex<VecDeque<String>>>,
) -> thread::JoinHandle<()> {
    let words = Arc::clone(words);
    thread::spawn(move || {
        for line in BufReader::new(stream)
            .lines()
            .map_while(Result::ok)
            .filter(|line| !line.trim().is_empty())
        {
            if let Some(port) = line.strip_prefix(READY).and_then(|port| port.parse().ok())
                && let Some(announce) = announce.take()
            {
                let _ = announce.send(port);
                continue;
            }
            tracing::warn!(line, "engine");
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_back(line);
            if words.len() > LAST_LINES {
                words.pop_front();
            }
        }
    })
}

/// 128 random bits as text.
fn secret() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    let random = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    random.map_err(StoreError::io("read /dev/urandom"))?;
    Ok(bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

//! Named tasks, one stop token, draining with a deadline.
//!
//! Stopping goes one way, with the data: the intake sees the token and stops taking, its sender
//! drops, the next stage sees the channel end, flushes and returns. Nothing is aborted before the
//! deadline. This module is the only one that spawns: whatever runs is named and owned.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::exit;
use crate::telemetry::Chain;

/// Name of a task, as it appears in logs and errors.
pub type Name = Cow<'static, str>;

/// Why a set of tasks ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A task failed; the first one that did.
    #[error("{task} failed")]
    Failed {
        /// Which task.
        task: Name,
        /// Why.
        #[source]
        source: anyhow::Error,
    },
    /// A task panicked.
    #[error("{task} panicked: {message}")]
    Panicked {
        /// Which task.
        task: Name,
        /// What the panic said.
        message: String,
    },
    /// Some tasks did not end in time and were dropped.
    #[error("not drained within {grace:?}: {} still ran", tasks.join(", "))]
    Deadline {
        /// How long they had after the stop.
        grace: Duration,
        /// Which ones, in order of name.
        tasks: Vec<String>,
    },
}

impl RunError {
    /// The error of type `E` that the failed task ended with, for services whose tasks fail with one of their own.
    pub fn into_cause<E>(self) -> Result<E, Self>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        match self {
            Self::Failed { task, source } => source
                .downcast()
                .map_err(|source| Self::Failed { task, source }),
            other => Err(other),
        }
    }
}

/// What the end of a task means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Runs as long as the process: its end, even a good one, stops the rest.
    Service,
    /// Comes and goes: only its failure stops the rest.
    Job,
    /// Comes and goes, and its failure concerns itself only.
    Visitor,
}

#[derive(Default)]
struct Set {
    tasks: JoinSet<anyhow::Result<()>>,
    names: HashMap<Id, (Name, Role)>,
    closed: bool,
}

/// Starts tasks in the set of a [`Tasks`]; cheap to clone.
#[derive(Clone)]
pub struct Spawner {
    set: Arc<Mutex<Set>>,
    stop: CancellationToken,
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = lock(&self.set).names.len();
        f.debug_struct("Spawner")
            .field("running", &running)
            .finish_non_exhaustive()
    }
}

impl Spawner {
    /// Cancelled when the set is to stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that runs as long as the process; its end stops the rest.
    pub fn spawn<F>(&self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.start(name.into(), Role::Service, task);
    }

    /// Starts a task that may end while the rest goes on; its failure stops the rest.
    pub fn spawn_job<F>(&self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.start(name.into(), Role::Job, task);
    }

    /// Starts a task whose failure concerns itself only, as one client's connection.
    pub fn spawn_visitor<F>(&self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.start(name.into(), Role::Visitor, task);
    }

    /// Starts a named thread for work that blocks; its end stops the rest.
    ///
    /// The thread must look at the stop token by itself: nothing can interrupt it.
    pub fn spawn_thread<F>(&self, name: impl Into<Name>, work: F) -> io::Result<()>
    where
        F: FnOnce() -> anyhow::Result<()> + Send + 'static,
    {
        let name = name.into();
        let (done, outcome) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                let outcome = ended.unwrap_or_else(|panic| {
                    Err(anyhow::anyhow!("panicked: {}", panic_text(panic.as_ref())))
                });
                if done.send(outcome).is_err() {
                    tracing::debug!("thread ended after its owner");
                }
            })?;
        self.start(name, Role::Service, async move { outcome.await? });
        Ok(())
    }

    fn start<F>(&self, name: Name, role: Role, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let mut set = lock(&self.set);
        if set.closed {
            tracing::debug!(task = %name, "not started: everything has ended");
            return;
        }
        let id = set.tasks.spawn(task).id();
        set.names.insert(id, (name, role));
    }
}

/// Owner of a process's tasks.
#[derive(Debug)]
pub struct Tasks {
    spawner: Spawner,
}

impl Tasks {
    /// An empty set; `stop` is cancelled from outside to stop it, and by it when a task ends.
    pub fn new(stop: CancellationToken) -> Self {
        let set = Arc::default();
        Self {
            spawner: Spawner { set, stop },
        }
    }

    /// Starts tasks from elsewhere, as a listener its connections.
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Cancelled when the set is to stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.spawner.stop
    }

    /// See [`Spawner::spawn`].
    pub fn spawn<F>(&self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.spawner.spawn(name, task);
    }

    /// See [`Spawner::spawn_job`].
    pub fn spawn_job<F>(&self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.spawner.spawn_job(name, task);
    }

    /// See [`Spawner::spawn_thread`].
    pub fn spawn_thread<F>(&self, name: impl Into<Name>, work: F) -> io::Result<()>
    where
        F: FnOnce() -> anyhow::Result<()> + Send + 'static,
    {
        self.spawner.spawn_thread(name, work)
    }

    /// Waits until every task has ended. After the stop they have `grace` to drain; what still
    /// runs then is dropped and named in the error. The first failure wins over later ones.
    pub async fn run(self, grace: Duration) -> Result<(), RunError> {
        let Spawner { set, stop } = self.spawner;
        let mut first = None;
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        let drained = tokio::select! {
            biased;
            () = drain(&set, &stop, &mut first) => true,
            () = deadline => false,
        };
        let (mut tasks, left) = {
            let mut set = lock(&set);
            set.closed = true;
            let mut left: Vec<String> = set.names.values().map(|row| row.0.to_string()).collect();
            left.sort();
            set.names.clear();
            (std::mem::take(&mut set.tasks), left)
        };
        tasks.abort_all(); // past the deadline: whatever is still here gave no sign
        match first {
            Some(failure) => Err(failure),
            None if drained => Ok(()),
            None => Err(RunError::Deadline { grace, tasks: left }),
        }
    }
}

async fn drain(set: &Mutex<Set>, stop: &CancellationToken, first: &mut Option<RunError>) {
    loop {
        let ended = poll_fn(|context| lock(set).tasks.poll_join_next_with_id(context)).await;
        let Some(ended) = ended else { return };
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some((task, role)) = lock(set).names.remove(&id) else {
            continue;
        };
        if role == Role::Service {
            stop.cancel(); // one part gone: the rest has nothing to do
        }
        let failure = match ended {
            Ok((_, Ok(()))) => {
                tracing::debug!(%task, "ended");
                continue;
            }
            Ok((_, Err(source))) => RunError::Failed { task, source },
            Err(error) => panicked(task, error),
        };
        if role == Role::Visitor {
            tracing::warn!(error = %Chain(&failure), "task failed; the rest goes on");
            continue;
        }
        stop.cancel();
        if first.is_none() {
            *first = Some(failure);
        } else {
            tracing::warn!(error = %Chain(&failure), "failed while stopping");
        }
    }
}

fn panicked(task: Name, error: JoinError) -> RunError {
    let message = match error.try_into_panic() {
        Ok(panic) => panic_text(panic.as_ref()),
        Err(error) => error.to_string(),
    };
    RunError::Panicked { task, message }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".to_owned())
}

/// A panicking task cannot leave the set half changed: every change is one call.
fn lock(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `task` without an owner; for helpers whose end is bound to something else, as a pipe.
pub(crate) fn detach<F>(task: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(task);
}

/// Signals within this time are one wish: `timeout` and terminals send to the process and to its group.
const SAME_WISH: Duration = Duration::from_millis(500);

/// A token that SIGINT or SIGTERM cancels; a second one, later than [`SAME_WISH`], ends the process at once, with code 130.
pub fn stop_on_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    detach(async move {
        let mut first: Option<Instant> = None;
        loop {
            let name = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if cancelled.is_cancelled() && since < SAME_WISH {
                continue;
            }
            if cancelled.is_cancelled() {
                tracing::warn!(signal = name, "second signal: ending at once");
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            tracing::info!(signal = name, "stopping");
            cancelled.cancel();
        }
    });
    Ok(stop)
}

#[cfg(test)]
mod tests;

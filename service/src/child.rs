//! Processes that die with this one and are restarted when they die first.
//!
//! The kernel sends a child its parent-death signal when the *thread* that spawned it ends, so all
//! children are spawned by one thread that lives as long as the process. Each child leads its own
//! process group: a ctrl-c on the terminal reaches only this process, which stops its children
//! after the data has drained.

pub mod metrics;
mod output;
mod spawn;
mod supervisor;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

pub use output::Output;
pub use supervisor::{Policy, Probe, State, Supervisor, always_well, supervise};

/// How to start a child.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Short name in logs and errors, as `nats-server`.
    pub name: &'static str,
    /// The file to run.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set besides the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Folder to start in; else this process's.
    pub dir: Option<PathBuf>,
    /// What a person can do when the program is missing.
    pub remedy: &'static str,
}

impl Spec {
    /// A child without arguments.
    pub fn new(name: &'static str, program: impl Into<PathBuf>) -> Self {
        Self {
            name,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            remedy: "install it or give its path",
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts in this folder.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// What a person can do when the program is missing.
    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }
}

/// Why a child is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no such program.
    #[error("{name} is not at {}; {remedy}", program.display())]
    Missing {
        /// Name of the child.
        name: &'static str,
        /// Where it was looked for.
        program: PathBuf,
        /// What a person can do.
        remedy: &'static str,
    },
    /// The system refused to start it.
    #[error("cannot start {name} ({})", program.display())]
    Spawn {
        /// Name of the child.
        name: &'static str,
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It ended before it was ready, too often to go on.
    #[error("{name} ended {starts} times before it was ready ({status}); it said: {said}")]
    NeverReady {
        /// Name of the child.
        name: &'static str,
        /// How often it was started.
        starts: u32,
        /// How it ended the last time.
        status: String,
        /// The end of its output.
        said: String,
    },
    /// Its state cannot be had from the system.
    #[error("cannot wait for {name}")]
    Wait {
        /// Name of the child.
        name: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Longest wait for what an ended child has printed.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);

/// A running child; dropping it kills it.
#[derive(Debug)]
pub struct Child {
    name: &'static str,
    pid: u32,
    process: tokio::process::Child,
    output: Output,
}

impl Child {
    /// Starts a child that gets SIGKILL when this process ends, however it ends.
    pub async fn spawn(spec: Spec) -> Result<Self, ChildError> {
        let (name, program, remedy) = (spec.name, spec.program.clone(), spec.remedy);
        let started = spawn::on_the_spawning_thread(spec).await;
        let mut process = started.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ChildError::Missing {
                name,
                program,
                remedy,
            },
            _ => ChildError::Spawn {
                name,
                program,
                source,
            },
        })?;
        let output = Output::default();
        if let Some(pipe) = process.stdout.take() {
            crate::run::detach(output.clone().follow(name, "stdout", pipe));
        }
        if let Some(pipe) = process.stderr.take() {
            crate::run::detach(output.clone().follow(name, "stderr", pipe));
        }
        let pid = process.id().unwrap_or_default(); // only gone after a wait
        tracing::debug!(child = name, pid, "started");
        Ok(Self {
            name,
            pid,
            process,
            output,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has printed; clones stay current.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Waits until it ends and its last words are read.
    pub async fn wait(&mut self) -> Result<ExitStatus, ChildError> {
        let name = self.name;
        let ended = self.process.wait().await;
        // A process it left behind may hold its pipes for ever.
        drop(tokio::time::timeout(LAST_WORDS_WITHIN, self.output.complete()).await);
        ended.map_err(|source| ChildError::Wait { name, source })
    }

    /// Asks it to end with SIGTERM, then after `grace` ends it and its group with SIGKILL.
    pub async fn stop(mut self, grace: Duration) -> Result<ExitStatus, ChildError> {
        self.signal(Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(grace, self.wait()).await {
            return ended;
        }
        tracing::warn!(child = self.name, pid = self.pid, "did not stop, killed");
        self.signal(Signal::KILL);
        self.wait().await
    }

    /// Sends a signal to its process group; it may be gone already.
    fn signal(&self, signal: Signal) {
        let running = self.process.id().is_some(); // a waited-for pid may be someone else's
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (true, Some(group)) = (running, group)
            && let Err(error) = kill_process_group(group, signal)
        {
            tracing::debug!(child = self.name, %error, "not signalled");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests;

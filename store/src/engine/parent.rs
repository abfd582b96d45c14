//! The engine process as seen by the process that starts it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use memwide_service::child::{self, Output, Spec};
use memwide_service::random;

use super::{EngineOptions, READER, READER_PASSWORD, READY, WRITER, WRITER_PASSWORD};
use crate::error::StoreError;

/// Longest wait for the engine: it reopens thousands of parts in half a second, on a slow disk in several.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// Pause between two looks at what the engine has said.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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

/// The passwords of the engine's two users.
#[derive(Clone)]
pub struct Passwords {
    /// The writer's.
    pub writer: String,
    /// The reader's.
    pub reader: String,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passwords")
    }
}

impl Passwords {
    /// New ones.
    pub fn random() -> Result<Self, StoreError> {
        let new = || random::text().map_err(StoreError::io("read /dev/urandom"));
        Ok(Self {
            writer: new()?,
            reader: new()?,
        })
    }
}

impl ChildOptions {
    /// The engine as a child of this process.
    pub fn spec(&self, passwords: &Passwords) -> Result<Spec, StoreError> {
        let engine = EngineOptions {
            parent_pid: std::process::id(),
            ..self.engine.clone()
        };
        let mut args = self.args.clone();
        args.push(engine.to_json()?.into());
        Ok(Spec::new("engine", &self.program)
            .args(args)
            .env(WRITER_PASSWORD, &passwords.writer)
            .env(READER_PASSWORD, &passwords.reader)
            // The engine reads configuration from its user's home unless that is its own folder.
            .env("HOME", &engine.data)
            .env("TZ", "UTC")
            .remedy("run `make tools`, or set MEMWIDE_ENGINE"))
    }
}

/// A running engine on a port of its own choice, not watched over. Dropped, it is killed; [`Child::stop`] is the gentle end.
#[derive(Debug)]
pub struct Child {
    /// URL of its HTTP interface.
    pub url: String,
    /// Passwords of this start.
    pub passwords: Passwords,
    process: child::Child,
}

impl Child {
    /// Starts the engine and waits until it answers.
    pub async fn spawn(options: ChildOptions) -> Result<Self, StoreError> {
        let passwords = Passwords::random()?;
        let mut process = child::Child::spawn(options.spec(&passwords)?).await?;
        let output = process.output().clone();
        let port = tokio::select! {
            port = port(&output) => port,
            ended = process.wait() => return Err(not_ready(ended?.to_string(), &output)),
            () = tokio::time::sleep(READY_WITHIN) => {
                return Err(not_ready(format!("silent for {READY_WITHIN:?}"), &output));
            }
        };
        Ok(Self {
            url: format!("http://127.0.0.1:{port}"),
            passwords,
            process,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The writer's view of a database.
    pub fn store(&self, database: &str) -> Result<crate::Store, StoreError> {
        crate::Store::connect(&self.url, WRITER, &self.passwords.writer, database)
    }

    /// The reader's view of a database.
    pub fn reader(&self, database: &str) -> Result<crate::Store, StoreError> {
        crate::Store::connect(&self.url, READER, &self.passwords.reader, database)
    }

    /// Waits for the process's end and says how it ended.
    pub async fn exited(&mut self) -> Result<String, StoreError> {
        Ok(self.process.wait().await?.to_string())
    }

    /// Asks the process to end, waits at most `grace`, then kills it. `true` if it ended by itself.
    pub async fn stop(self, grace: Duration) -> Result<bool, StoreError> {
        Ok(self.process.stop(grace).await?.code().is_some())
    }
}

/// The port the engine says it listens on.
async fn port(output: &Output) -> u16 {
    loop {
        let said = output.find_map(|line| line.strip_prefix(READY)?.parse().ok());
        if let Some(port) = said {
            return port;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn not_ready(status: String, output: &Output) -> StoreError {
    StoreError::NotReady {
        status,
        last_words: output.last().join(" | "),
    }
}

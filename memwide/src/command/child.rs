//! A command that is started when everything is ready for it, watched, and ended with what watches it.

use super::gate::{Gate, GatePlace, REMEDY};
use crate::failure::Failure;
use anyhow::Context as _;
use memwide_collector::RecordTarget;
use memwide_service::{CancellationToken, exit};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Whose events: those of the process named, of the command, unless it only says for how long, or of all.
pub(super) fn target(pid: Option<u32>, gate: Option<&Gate>, all: bool) -> RecordTarget {
    match (pid, gate) {
        (Some(pid), _) => RecordTarget::Process(pid),
        (None, Some(gate)) if !all => RecordTarget::Exec(gate.pid()),
        _ => RecordTarget::All,
    }
}

/// How long a command that was told to end may take.
const END_GRACE: Duration = Duration::from_secs(5);

/// The command's process, and how it ended once it did.
#[derive(Debug)]
pub(super) struct Running {
    pid: u32,
    command: String,
    place: GatePlace,
    status: Receiver<Option<ExitStatus>>,
    known: Option<Ended>,
    ended: CancellationToken,
}

impl Running {
    /// Lets the process behind the gate become the command.
    pub(super) fn start(mut gate: Gate, stop: &CancellationToken) -> Result<Self, Failure> {
        gate.open().context("cannot start the command")?;
        let command = gate.command().to_owned();
        let pid = gate.pid();
        let (mut process, place) = gate.into_parts();
        let ended = stop.child_token();
        let (send, status) = sync_channel(1);
        let token = ended.clone();
        std::thread::Builder::new()
            .name("mw-command".to_owned())
            .spawn(move || {
                let outcome = process.wait();
                // Nobody waits any more when the recording failed.
                let _sent = send.send(outcome);
                // After it: who sees the end finds the outcome.
                token.cancel();
            })?;
        Ok(Self {
            pid,
            command,
            place,
            status,
            known: None,
            ended,
        })
    }

    /// Cancelled when the command ended, or everything stops.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Waits for its end, so long at most; `true` when it ended.
    pub(super) fn wait(&mut self, most: Duration) -> bool {
        if self.known.is_none() {
            self.known = match self.status.recv_timeout(most) {
                Ok(Some(status)) if status.success() => Some(Ended::Well),
                Ok(Some(status)) => Some(Ended::With(status)),
                Err(RecvTimeoutError::Timeout) => None,
                Ok(None) | Err(RecvTimeoutError::Disconnected) => Some(Ended::Otherwise(
                    "how the command ended is not known".to_owned(),
                )),
            };
        }
        self.known.is_some()
    }

    /// Fails if the process could not become the command.
    pub(super) fn check_started(&self) -> Result<(), Failure> {
        match self.place.failure() {
            Some(why) => {
                Err(anyhow::anyhow!("cannot run {}: {why}; {REMEDY}", self.command).into())
            }
            None => Ok(()),
        }
    }

    /// The command's end: told to end and waited for if it did not yet.
    pub(super) fn end(mut self) -> Ended {
        if !self.wait(Duration::ZERO) {
            terminate(self.pid);
            self.wait(END_GRACE);
        }
        let pid = self.pid;
        self.known.unwrap_or_else(|| {
            Ended::Otherwise(format!(
                "the command, process {pid}, does not end on SIGTERM and runs on; end it with `kill -9 {pid}`"
            ))
        })
    }
}

/// How the command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Without a word.
    Well,
    /// With another status than success.
    With(ExitStatus),
    /// In a way nobody knows, or not at all.
    Otherwise(String),
}

impl Ended {
    /// In words, unless it ended well.
    pub(super) fn told(&self) -> Option<String> {
        match self {
            Self::Well => None,
            Self::With(status) => Some(format!("the command ended with {status}")),
            Self::Otherwise(why) => Some(why.clone()),
        }
    }

    /// The exit code to end with, as shells have it: its own, or 128 and the signal. `None`: it ended well, or nobody knows.
    pub(super) fn code(&self) -> Option<i32> {
        let Self::With(status) = self else {
            return None;
        };
        let signal = status.signal().map(|signal| 128 + signal);
        Some(status.code().or(signal).unwrap_or(i32::from(exit::FAILED)))
    }
}

fn terminate(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself meanwhile; the thread that waits for it tells.
        let _sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

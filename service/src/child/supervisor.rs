//! Starts a child, waits until it is ready, starts it again when it dies.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Child, ChildError, Output, Spec};
use crate::retry::Backoff;

/// How patient a supervisor is.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// A child that is not ready by then is killed and started again.
    pub ready_within: Duration,
    /// Pause between two looks at readiness.
    pub look_every: Duration,
    /// The first pause before a restart; doubles up to `longest_pause`.
    pub first_pause: Duration,
    /// The longest pause before a restart.
    pub longest_pause: Duration,
    /// Between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// Starts without ever being ready after which it gives up. Once ready, it never does.
    pub hopeless_starts: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ready_within: Duration::from_secs(30),
            look_every: Duration::from_millis(20),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            stop_grace: Duration::from_secs(10),
            hopeless_starts: 3,
        }
    }
}

/// What a child is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Started, not ready yet.
    Starting,
    /// Ready, as this process; `generation` counts starts from 1.
    Ready {
        /// Its process id.
        pid: u32,
        /// How often it has been started.
        generation: u32,
    },
    /// It died and will be started again.
    Waiting {
        /// How it ended.
        status: String,
    },
    /// It has been stopped, or could not be started.
    Stopped,
}

/// What a readiness check may look at.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Its process id.
    pub pid: u32,
    /// How often it has been started, from 1.
    pub generation: u32,
    /// What it has printed.
    pub output: Output,
}

/// Tells what a supervised child is doing.
#[derive(Debug, Clone)]
pub struct Supervisor {
    state: watch::Receiver<State>,
}

impl Supervisor {
    /// What it is doing now, and every change.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Waits until it is ready; `None` when it never will be.
    pub async fn ready(&self) -> Option<(u32, u32)> {
        let mut state = self.state();
        let reached = state
            .wait_for(|state| matches!(state, State::Ready { .. } | State::Stopped))
            .await
            .ok()?;
        match *reached {
            State::Ready { pid, generation } => Some((pid, generation)),
            _ => None,
        }
    }
}

/// Keeps a child alive until `stop` is cancelled, then stops it.
///
/// `spec` makes the child of each generation; `ready` is asked again and again until it says yes.
/// The future is to be run by the caller's [`Tasks`](crate::run::Tasks); it fails only when the
/// program is missing or has never become ready.
pub fn supervise<S, R, F>(
    spec: S,
    ready: R,
    policy: Policy,
    stop: CancellationToken,
) -> (
    Supervisor,
    impl Future<Output = Result<(), ChildError>> + Send + 'static,
)
where
    S: Fn(u32) -> Spec + Send + 'static,
    R: Fn(Probe) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send,
{
    let (sender, state) = watch::channel(State::Starting);
    let keep = Keep {
        policy,
        stop,
        state: sender,
    };
    (Supervisor { state }, async move {
        let outcome = keep.run(spec, ready).await;
        keep.state.send_replace(State::Stopped);
        outcome
    })
}

struct Keep {
    policy: Policy,
    stop: CancellationToken,
    state: watch::Sender<State>,
}

/// Why the watch over one generation ended.
enum End {
    Stopping,
    Died(String),
    NotReady,
}

impl Keep {
    async fn run<S, R, F>(&self, spec: S, ready: R) -> Result<(), ChildError>
    where
        S: Fn(u32) -> Spec + Send,
        R: Fn(Probe) -> F + Send + Sync,
        F: Future<Output = bool> + Send,
    {
        let policy = &self.policy;
        let mut backoff = Backoff::new(policy.first_pause, policy.longest_pause);
        let (mut generation, mut was_ready) = (0_u32, false);
        while !self.stop.is_cancelled() {
            generation = generation.saturating_add(1);
            self.state.send_replace(State::Starting);
            let spec = spec(generation);
            let name = spec.name;
            let mut child = Child::spawn(spec).await?;
            let end = self.watch(&mut child, generation, &ready).await?;
            let became_ready = matches!(*self.state.borrow(), State::Ready { .. });
            was_ready |= became_ready;
            if became_ready {
                backoff.reset();
            }
            let output = child.output().clone();
            let status = match end {
                End::Died(status) => status,
                End::Stopping | End::NotReady => {
                    let status = child.stop(policy.stop_grace).await?;
                    if matches!(end, End::Stopping) {
                        return Ok(());
                    }
                    format!("not ready within {:?}, {status}", policy.ready_within)
                }
            };
            if !was_ready && generation >= policy.hopeless_starts {
                return Err(ChildError::NeverReady {
                    name,
                    starts: generation,
                    status,
                    said: match output.last().join(" | ") {
                        silent if silent.is_empty() => {
                            "nothing; is it the right program?".to_owned()
                        }
                        said => said,
                    },
                });
            }
            let pause = backoff.next_pause();
            let said = output.last().pop().unwrap_or_default();
            tracing::warn!(child = name, status, said, ?pause, "died, starting again");
            self.state.send_replace(State::Waiting { status });
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(())
    }

    async fn watch<R, F>(
        &self,
        child: &mut Child,
        generation: u32,
        ready: &R,
    ) -> Result<End, ChildError>
    where
        R: Fn(Probe) -> F + Send + Sync,
        F: Future<Output = bool> + Send,
    {
        let pid = child.pid();
        let probe = Probe {
            pid,
            generation,
            output: child.output().clone(),
        };
        let becoming_ready = async {
            while !ready(probe.clone()).await {
                tokio::time::sleep(self.policy.look_every).await;
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => return Ok(End::Stopping),
            ended = child.wait() => return Ok(End::Died(ended?.to_string())),
            outcome = tokio::time::timeout(self.policy.ready_within, becoming_ready) => {
                if outcome.is_err() {
                    return Ok(End::NotReady);
                }
            }
        }
        self.state.send_replace(State::Ready { pid, generation });
        tokio::select! {
            () = self.stop.cancelled() => Ok(End::Stopping),
            ended = child.wait() => Ok(End::Died(ended?.to_string())),
        }
    }
}

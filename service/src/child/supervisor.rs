//! Starts a child, waits until it is ready, starts it again when it dies.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::metrics::{Cause, RESTARTS};
use super::{Child, ChildError, Output, Spec};
use crate::metrics::LabelSet as _;
use crate::retry::Backoff;

/// How patient a supervisor is.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// A child that is not ready by then is killed and started again.
    pub ready_within: Duration,
    /// Pause between two looks at readiness.
    pub look_every: Duration,
    /// Pause between two looks at a ready child's health.
    pub look_after_every: Duration,
    /// After so many looks in a row that found it unwell, it is stopped and started again.
    pub unwell_looks: u32,
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
            look_after_every: Duration::from_secs(1),
            unwell_looks: 3,
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
    /// It died or was stopped as unwell, and will be started again.
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

/// For children of which nothing but their death is looked for.
pub async fn always_well(_: Probe) -> Option<String> {
    None
}

/// Keeps a child alive until `stop` is cancelled, then stops it.
///
/// `spec` makes the child of each generation; `ready` is asked again and again until it says yes, then `unwell` whether
/// the child has a trouble, which only a restart ends.
/// The future is to be run by the caller's [`Tasks`](crate::run::Tasks); it fails only when the
/// program is missing or has never become ready.
pub fn supervise<S, R, F, U, G>(
    spec: S,
    ready: R,
    unwell: U,
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
    U: Fn(Probe) -> G + Send + Sync + 'static,
    G: Future<Output = Option<String>> + Send,
{
    let (sender, state) = watch::channel(State::Starting);
    let keep = Keep {
        policy,
        stop,
        state: sender,
    };
    (Supervisor { state }, async move {
        let outcome = keep.run(spec, ready, unwell).await;
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
    Unwell(String),
}

impl Keep {
    async fn run<S, R, F, U, G>(&self, spec: S, ready: R, unwell: U) -> Result<(), ChildError>
    where
        S: Fn(u32) -> Spec + Send,
        R: Fn(Probe) -> F + Send + Sync,
        F: Future<Output = bool> + Send,
        U: Fn(Probe) -> G + Send + Sync,
        G: Future<Output = Option<String>> + Send,
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
            let end = self.watch(&mut child, generation, &ready, &unwell).await?;
            let became_ready = matches!(*self.state.borrow(), State::Ready { .. });
            was_ready |= became_ready;
            // One that gets unwell again and again, as on a full disk, is started less and less often.
            if became_ready && !matches!(end, End::Unwell(_)) {
                backoff.reset();
            }
            let output = child.output().clone();
            let (cause, why) = match end {
                End::Died(status) => (Cause::Died, status),
                End::Stopping => {
                    child.stop(policy.stop_grace).await?;
                    return Ok(());
                }
                End::NotReady => (
                    Cause::NotReady,
                    format!("not ready within {:?}", policy.ready_within),
                ),
                End::Unwell(why) => (Cause::Unwell, why),
            };
            let status = if cause == Cause::Died {
                why
            } else {
                let status = child.stop(policy.stop_grace).await?;
                format!("{why}, {status}")
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
            let cause_name = Cause::VALUES[cause.index()];
            tracing::warn!(
                child = name,
                cause = cause_name,
                status,
                said,
                ?pause,
                "starting again"
            );
            RESTARTS.add(cause, 1);
            self.state.send_replace(State::Waiting { status });
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(())
    }

    async fn watch<R, F, U, G>(
        &self,
        child: &mut Child,
        generation: u32,
        ready: &R,
        unwell: &U,
    ) -> Result<End, ChildError>
    where
        R: Fn(Probe) -> F + Send + Sync,
        F: Future<Output = bool> + Send,
        U: Fn(Probe) -> G + Send + Sync,
        G: Future<Output = Option<String>> + Send,
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
        let becoming_unwell = async {
            let mut looks = 0;
            loop {
                tokio::time::sleep(self.policy.look_after_every).await;
                match unwell(probe.clone()).await {
                    Some(why) if looks + 1 >= self.policy.unwell_looks => return why,
                    Some(_) => looks += 1,
                    None => looks = 0,
                }
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => Ok(End::Stopping),
            ended = child.wait() => Ok(End::Died(ended?.to_string())),
            why = becoming_unwell => Ok(End::Unwell(why)),
        }
    }
}

//! One run at a time makes days of a store: who does says so in the bucket of the block records, and again every few seconds.
//!
//! No clock of another machine is believed. A lease is over when nobody has renewed it for [`LIFE`] while somebody looked on, or
//! at once when its holder was a process of this machine that is gone. Every write is a compare-and-set.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv;
use async_nats::jetstream::kv::UpdateErrorKind;
use memwide_proto::subject;
use memwide_service::clock;
use memwide_service::telemetry::Chain;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::error::{HoldError, StreamError};

/// What nobody renews for so long is over.
const LIFE: Duration = Duration::from_secs(20);

/// Pause between two renewals.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// Whoever holds the lease believes in it for so long after a renewal: less than others look on for.
const SURE: Duration = Duration::from_secs(12);

/// While NATS is away, a run waits so long to be sure again.
const AWAY_AT_MOST: Duration = Duration::from_mins(5);

/// Pause between two looks at somebody else's lease.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// As it stands in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    /// For people.
    who: String,
    /// Random, of this run alone.
    run: String,
    life: Life,
    /// Counts renewals: each write differs from the one before.
    renewed: u64,
}

/// A process: found again only where its numbers mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    /// Boot of the machine and namespace of process numbers.
    place: String,
    pid: u32,
    /// When the process began, ticks since the boot.
    start: u64,
}

impl Life {
    fn own() -> std::io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let numbers = std::fs::read_link("/proc/self/ns/pid")?;
        let pid = std::process::id();
        let start = start_of(pid).ok_or_else(|| std::io::Error::other("no /proc/self/stat"))?;
        let place = format!("{} {}", boot.trim(), numbers.display());
        Ok(Self { place, pid, start })
    }

    /// Surely gone; a process that cannot be looked for from here is not.
    fn is_gone(&self, own: &Self) -> bool {
        self.place == own.place && start_of(self.pid) != Some(self.start)
    }
}

/// When a process began; `None`: there is none of the number, or it has ended and waits for its parent.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: the state, and as the 20th the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_alive = fields.next()? != "Z";
    is_alive.then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// What the holder knows of its lease.
#[derive(Debug)]
struct State {
    /// When the last renewal was asked for that was answered; nanoseconds since boot, sleep of the machine included.
    renewed_ns: u64,
    revision: u64,
    written: Written,
    /// Somebody else has it.
    lost: Option<String>,
}

/// The right to make days of the store; renewed until it is dropped.
#[derive(Debug)]
pub struct Lease {
    records: kv::Store,
    state: Arc<Mutex<State>>,
    renewing: JoinHandle<()>,
}

/// Takes the lease in the name of `who`.
pub(super) async fn take(records: kv::Store, who: &str) -> Result<Lease, HoldError> {
    let own = Life::own().map_err(HoldError::Machine)?;
    let mut written = Written {
        who: who.to_owned(),
        run: memwide_service::random::text().map_err(HoldError::Machine)?,
        life: own.clone(),
        renewed: 0,
    };
    let begin_ns = clock::boottime_ns();
    let (mut seen, mut since_ns) = (None, begin_ns);
    loop {
        let found = read(&records).await?;
        let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
        let holder = found.and_then(|(holder, _)| holder);
        if seen != Some(revision) {
            since_ns = clock::boottime_ns();
            if let (Some(_), Some(holder)) = (seen.replace(revision), &holder) {
                return Err(taken(holder)); // it was renewed, or somebody else was faster
            }
        }
        let is_free = holder
            .as_ref()
            .is_none_or(|holder| holder.life.is_gone(&own) || passed(since_ns) >= LIFE);
        if is_free {
            written.renewed += 1;
            let renewed_ns = clock::boottime_ns();
            if let Some(revision) = write(&records, &written, revision).await? {
                let state = State {
                    renewed_ns,
                    revision,
                    written,
                    lost: None,
                };
                return Ok(Lease::begin(records, state));
            }
        } else {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if let Some(holder) = holder.filter(|_| passed(begin_ns) > 2 * LIFE) {
            return Err(taken(&holder));
        }
    }
}

fn passed(since_ns: u64) -> Duration {
    Duration::from_nanos(clock::boottime_ns().saturating_sub(since_ns))
}

fn taken(holder: &Written) -> HoldError {
    HoldError::Taken {
        who: holder.who.clone(),
        life_s: LIFE.as_secs(),
    }
}

/// The lease and its revision; nobody's where it was given back.
async fn read(records: &kv::Store) -> Result<Option<(Option<Written>, u64)>, StreamError> {
    let entry = records.entry(subject::REDECODE_KEY).await;
    let entry = entry.map_err(StreamError::away("say who decodes again"))?;
    Ok(entry.map(|entry| (serde_json::from_slice(&entry.value).ok(), entry.revision)))
}

/// Writes where nobody else has written since `revision`; the new one, or `None`.
async fn write(
    records: &kv::Store,
    written: &Written,
    revision: u64,
) -> Result<Option<u64>, StreamError> {
    let payload = serde_json::to_vec(written).unwrap_or_default();
    match records
        .update(subject::REDECODE_KEY, payload.into(), revision)
        .await
    {
        Ok(revision) => Ok(Some(revision)),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
            // Our own write, whose answer was lost?
            let found = read(records).await?;
            Ok(found.and_then(|(found, revision)| {
                (found.as_ref() == Some(written)).then_some(revision)
            }))
        }
        Err(error) => Err(StreamError::away("note who decodes again")(error)),
    }
}

impl Lease {
    fn begin(records: kv::Store, state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let renewing = tokio::spawn(renew(records.clone(), Arc::clone(&state)));
        Self {
            records,
            state,
            renewing,
        }
    }

    /// Whether nobody else can have it now.
    pub fn is_sure(&self) -> bool {
        let state = lock(&self.state);
        state.lost.is_none() && passed(state.renewed_ns) < SURE
    }

    /// Waits until that is known; an error where somebody else has it, or NATS stays away.
    pub async fn sure(&self) -> Result<(), HoldError> {
        let begin_ns = clock::boottime_ns();
        while !self.is_sure() {
            if let Some(who) = lock(&self.state).lost.clone() {
                return Err(HoldError::Lost { who });
            }
            if passed(begin_ns) > AWAY_AT_MOST {
                return Err(HoldError::Away {
                    what: "renew the lease of this run",
                    waited_s: AWAY_AT_MOST.as_secs(),
                });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Gives it back, so that the next run need not look on. One that is not given back runs out.
    pub async fn release(self) {
        self.renewing.abort();
        let revision = lock(&self.state).revision;
        let freed = self
            .records
            .update(subject::REDECODE_KEY, "{}".into(), revision);
        if let Err(error) = freed.await {
            tracing::debug!(%error, "the lease of this run is not given back; it runs out");
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn renew(records: kv::Store, state: Arc<Mutex<State>>) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let (written, revision) = {
            let mut state = lock(&state);
            state.written.renewed += 1;
            (state.written.clone(), state.revision)
        };
        let asked_ns = clock::boottime_ns();
        match write(&records, &written, revision).await {
            Ok(Some(revision)) => {
                let mut state = lock(&state);
                (state.revision, state.renewed_ns) = (revision, asked_ns);
            }
            Ok(None) => {
                let found = read(&records).await.ok().flatten();
                // An earlier renewal of ours, whose answer came to nobody.
                if let Some((Some(found), revision)) = &found
                    && found.run == written.run
                {
                    lock(&state).revision = *revision;
                    continue;
                }
                let holder = found.and_then(|(holder, _)| holder);
                let who = holder.map_or_else(|| "nobody".to_owned(), |holder| holder.who);
                lock(&state).lost = Some(who);
                return;
            }
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "the lease of this run is not renewed; trying on");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_can_be_looked_for_and_is_not_there_is_gone() {
        let own = Life::own().unwrap();
        assert!(!own.is_gone(&own));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let life = Life {
            pid: child.id(),
            start: start_of(child.id()).unwrap(),
            ..own.clone()
        };
        assert!(!life.is_gone(&own));
        let later = Life {
            start: life.start + 1,
            ..life.clone()
        };
        assert!(later.is_gone(&own), "another process has its number");
        child.kill().unwrap();
        // Dead, and not yet asked after by its parent.
        while start_of(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(life.is_gone(&own));
        child.wait().unwrap();
        assert!(life.is_gone(&own));
        let elsewhere = Life {
            place: "another".to_owned(),
            ..life
        };
        assert!(!elsewhere.is_gone(&own), "nobody can know");
    }
}

//! Inserts until the store has taken them, and finds what it will never take.

use std::time::Duration;

use memwide_service::CancellationToken;
use memwide_service::clock;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use memwide_store::{Advice, Store, StoreError};
use tokio::sync::watch;

use super::block::{Insert, Part};
use super::waits::{For, Waits};
use crate::metrics;

/// First pause after a failed insert.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause while the store is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After so many refused inserts somebody is told again.
const REMIND_ATTEMPTS: u32 = 12;

/// How an insert ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The rows are in the store.
    Stored,
    /// The store refuses these messages for good, in its own words; nothing of the insert is in the store.
    Poisoned {
        /// Stream sequences of the messages.
        sequences: Vec<u64>,
        /// The store's words.
        why: String,
    },
    /// The process stops.
    Stopped,
}

/// The store as it is now.
pub(super) struct Target {
    pub(super) store: watch::Receiver<Store>,
    pub(super) stop: CancellationToken,
    pub(super) partition: u16,
    pub(super) waits: Waits,
    /// Codes that mean refused rows by the configuration's word.
    pub(super) refused_codes: Vec<u32>,
}

impl Target {
    /// Inserts under the insert's token, however long the store is away.
    pub(super) async fn insert(&self, insert: &Insert) -> Ended {
        let columns: Vec<&str> = insert.columns.iter().map(String::as_str).collect();
        let body = insert.body();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let store = self.store.borrow().clone();
            let begin = clock::instant();
            let outcome = store
                .insert_native(&insert.table, &columns, &insert.token, body.clone())
                .await;
            let failure = match outcome {
                Ok(()) => {
                    metrics::INSERT.observe_duration(begin.elapsed());
                    metrics::STORED_ROWS.add(insert.rows());
                    self.waits.moves(self.partition);
                    return Ended::Stored;
                }
                Err(failure) => failure,
            };
            let advice = self.advice(&failure);
            if advice != Advice::Retry {
                let sequences = self.find_poison(insert, &columns, advice).await;
                // Where the store takes none of many, it is not the rows that are to blame, unless it says so.
                let some = sequences.len() < insert.parts.len();
                let of_content = some || advice == Advice::RefusedBlock;
                if of_content && !sequences.is_empty() {
                    self.waits.moves(self.partition);
                    return Ended::Poisoned {
                        sequences,
                        why: Chain(&failure).to_string(),
                    };
                }
            }
            if self.pause(&mut backoff, &failure, &insert.table).await {
                return Ended::Stopped;
            }
        }
    }

    /// Runs something under a token, however long the store is away. False: the process stops.
    pub(super) async fn until_done<F>(&self, what: &str, mut run: impl FnMut(Store) -> F) -> bool
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let store = self.store.borrow().clone();
            let Err(failure) = run(store).await else {
                self.waits.moves(self.partition);
                return true;
            };
            if self.pause(&mut backoff, &failure, what).await {
                return false;
            }
        }
    }

    /// Waits before the next try; true when the process stops.
    async fn pause(&self, backoff: &mut Backoff, failure: &StoreError, what: &str) -> bool {
        metrics::STORE_RETRIES.add(1);
        self.complain(backoff.attempts(), failure, what);
        tokio::select! {
            () = self.stop.cancelled() => true,
            () = tokio::time::sleep(backoff.next_pause()) => false,
        }
    }

    /// What to do about a failure, the configuration's word included.
    fn advice(&self, failure: &StoreError) -> Advice {
        let named = |code| self.refused_codes.contains(&code);
        if failure.code().is_some_and(named) {
            Advice::RefusedBlock
        } else {
            failure.advice()
        }
    }

    /// Says once that the store is away, and at once that somebody must act; `/readyz` says it as long as it lasts.
    fn complain(&self, attempts: u32, failure: &StoreError, what: &str) {
        let (partition, error, remedy) = (self.partition, Chain(failure), failure.remedy());
        let away = failure.advice() == Advice::Retry;
        let whom = if away { For::Store } else { For::Somebody };
        if !away || attempts > 1 {
            let why = format!("the store does not take `{what}` ({error}); {remedy}");
            self.waits.waits(partition, whom, why);
        }
        match (away, attempts) {
            (true, 4) => {
                tracing::warn!(partition, what, %error, remedy, "the store does not take an insert; trying on");
            }
            (true, _) => {
                tracing::debug!(partition, what, %error, "the store did not take an insert; trying on");
            }
            // Again about once a minute: this lasts until somebody reads it.
            (false, attempts) if attempts == 1 || attempts % REMIND_ATTEMPTS == 0 => {
                tracing::error!(partition, what, %error, remedy, "the store refuses an insert; the partition stands still until that is repaired");
            }
            (false, _) => {}
        }
    }

    /// Which messages of a refused insert are to blame: parts of it are offered to an empty table like the one meant.
    /// Empty: none can be told.
    async fn find_poison(&self, insert: &Insert, columns: &[&str], advice: Advice) -> Vec<u64> {
        // A table that keeps nothing reads and converts rows like any other.
        let found = self.probe(insert, columns, "ENGINE = Null").await;
        if !found.is_empty() || advice != Advice::RefusedBlock {
            return found;
        }
        // The rows' fault, but not a matter of reading them: a table of the same kind has the same partitions and keys.
        self.probe(insert, columns, "").await
    }

    async fn probe(&self, insert: &Insert, columns: &[&str], engine: &str) -> Vec<u64> {
        let probe = format!("{}_probe_{}", insert.table, self.partition);
        let store = self.store.borrow().clone();
        let remove = format!("DROP TABLE IF EXISTS `{probe}`");
        let make = format!("CREATE TABLE `{probe}` AS `{}` {engine}", insert.table);
        for statement in [&remove, &make] {
            if let Err(failure) = store.execute(statement).await {
                tracing::warn!(table = probe, error = %Chain(&failure), "cannot look for the message that is refused");
                return Vec::new();
            }
        }
        let found = self.bisect(&store, &probe, insert, columns).await;
        if let Err(failure) = store.execute(&remove).await {
            tracing::debug!(error = %Chain(&failure), "a probing table stays");
        }
        found
    }

    async fn bisect(
        &self,
        store: &Store,
        probe: &str,
        insert: &Insert,
        columns: &[&str],
    ) -> Vec<u64> {
        let mut suspects: Vec<&[Part]> = vec![&insert.parts];
        let mut found = Vec::new();
        while let Some(parts) = suspects.pop() {
            let offered = Insert {
                parts: parts.to_vec(),
                ..insert.clone()
            };
            let outcome = store
                .insert_native(probe, columns, "", offered.body())
                .await;
            match outcome {
                Ok(()) => {}
                Err(failure) if self.advice(&failure) == Advice::Retry => {
                    // Away again: nothing is known; the insert is tried again as a whole.
                    tracing::debug!(error = %Chain(&failure), "the search for a refused message broke off");
                    return Vec::new();
                }
                Err(_) => {
                    if let [only] = parts {
                        found.push(only.sequence);
                    } else {
                        let (left, right) = parts.split_at(parts.len() / 2);
                        suspects.extend([right, left]);
                    }
                }
            }
        }
        found
    }
}

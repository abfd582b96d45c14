//! Inserts until the store has taken them, and finds what it will never take.

use std::time::Duration;

use memwide_service::CancellationToken;
use memwide_service::clock;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use memwide_store::{Advice, Store, StoreError};
use tokio::sync::watch;

use super::block::{Insert, Part};
use crate::metrics;

/// First pause after a failed insert.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause while the store is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

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
}

impl Target {
    /// Inserts under the insert's token, however long the store is away.
    pub(super) async fn insert(&self, insert: &Insert) -> Result<Ended, StoreError> {
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
                    return Ok(Ended::Stored);
                }
                Err(failure) => failure,
            };
            if failure.advice() != Advice::Retry {
                let sequences = self.find_poison(insert, &columns).await?;
                // Where the store takes none of many, it is not the rows that are to blame, unless it says so.
                let some = sequences.len() < insert.parts.len();
                let of_content = some || failure.advice() == Advice::RefusedBlock;
                if of_content && !sequences.is_empty() {
                    return Ok(Ended::Poisoned {
                        sequences,
                        why: Chain(&failure).to_string(),
                    });
                }
            }
            if self.pause(&mut backoff, &failure, &insert.table).await {
                return Ok(Ended::Stopped);
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

    /// Says once that the store is away, and at once that somebody must act.
    fn complain(&self, attempts: u32, failure: &StoreError, what: &str) {
        let (partition, error) = (self.partition, Chain(failure));
        match failure.advice() {
            Advice::Retry if attempts == 4 => {
                tracing::warn!(partition, what, %error, "the store does not take an insert; trying on");
            }
            Advice::Retry => {
                tracing::debug!(partition, what, %error, "the store did not take an insert; trying on");
            }
            _ if attempts < 2 => {
                tracing::error!(partition, what, %error, "the store refuses an insert; nothing moves until that is repaired");
            }
            _ => {}
        }
    }

    /// Which messages of a refused insert are to blame: halves are offered to a table that keeps nothing.
    async fn find_poison(&self, insert: &Insert, columns: &[&str]) -> Result<Vec<u64>, StoreError> {
        let probe = format!("{}_probe_{}", insert.table, self.partition);
        let store = self.store.borrow().clone();
        let make = format!(
            "CREATE TABLE IF NOT EXISTS `{probe}` AS `{}` ENGINE = Null",
            insert.table
        );
        if let Err(failure) = store.execute(&make).await {
            tracing::warn!(table = probe, error = %Chain(&failure), "cannot look for the message that is refused");
            return Ok(Vec::new());
        }
        let mut suspects: Vec<&[Part]> = vec![&insert.parts];
        let mut found = Vec::new();
        while let Some(parts) = suspects.pop() {
            let offered = Insert {
                parts: parts.to_vec(),
                ..insert.clone()
            };
            match store
                .insert_native(&probe, columns, "", offered.body())
                .await
            {
                Ok(()) => {}
                Err(failure) if failure.advice() == Advice::Retry => {
                    // Away again: nothing is known; the insert is tried again as a whole.
                    tracing::debug!(error = %Chain(&failure), "the search for a refused message broke off");
                    return Ok(Vec::new());
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
        if let Err(failure) = store
            .execute(&format!("DROP TABLE IF EXISTS `{probe}`"))
            .await
        {
            tracing::debug!(error = %Chain(&failure), "a probing table stays; it is empty");
        }
        Ok(found)
    }
}

//! JetStream → ClickHouse, a partition at a time, block by block:
//!
//! ```text
//!   read up to N rows ─▶ record {first, last, ingested} ─▶ insert table by table, ledger last ─▶ record done ─▶ purge
//!                              (compare and set)             (token a table and day)
//! ```
//!
//! Dying between any two steps repeats the open record: the same messages, the same tokens, the same rows. Two sinks on
//! one partition are wasteful, not wrong: both insert the same blocks under the same tokens.

mod block;
mod close;
mod dead;
pub(crate) mod hold;
mod insert;
pub(crate) mod lease;
pub mod plan;
mod reader;
mod record;
mod refused;
mod vocabulary;
mod waits;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use memwide_service::CancellationToken;
use memwide_service::admin::Readiness;
use memwide_store::Store;
use tokio::sync::{Semaphore, watch};

use crate::config::SinkConfig;
use crate::error::SinkError;
use crate::stream::{connect, ensure, patiently};
use insert::Target;
use waits::Waits;
use worker::Worker;

/// How long the store remembers tokens at least: an older open record stops the sink.
const TOKENS_KEPT: Duration = Duration::from_hours(7 * 24);

/// After a stop, blocks and closes that have begun may take so long to be finished: a backup of the store holds whole
/// blocks then. What is not finished is repeated by the next sink.
const FINISH_WITHIN: Duration = Duration::from_secs(6);

/// Moves rows from the stream to the store at `config.store` until `stop` is cancelled.
///
/// Conditions of `readiness`: `nats` (connected), `store` (answers), `partitions` (none of the owned ones stands still until
/// somebody repairs something; else which, and what to do).
pub async fn sink(
    config: SinkConfig,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), SinkError> {
    let url = config
        .store
        .expose()
        .ok_or_else(|| SinkError::Config("`store` is not set: give its URL".to_owned()))?;
    let (_keep, store) = watch::channel(Store::from_url(url)?);
    sink_into(config, store, readiness, stop).await
}

/// As [`sink`], into a store that may move: an embedded engine has another port and password after each restart.
/// `config.store` is not looked at.
pub async fn sink_into(
    config: SinkConfig,
    store: watch::Receiver<Store>,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), SinkError> {
    if let Some(beyond) = config
        .owned
        .iter()
        .find(|index| **index >= config.partitions)
    {
        let text = format!(
            "owned names partition {beyond}, there are {} (from 0)",
            config.partitions
        );
        return Err(SinkError::Config(text));
    }
    let sizes = [
        config.close_every_s,
        config.close_rows,
        config.block_rows,
        config.blocks_at_once as u64,
    ];
    if sizes.contains(&0) {
        return Err(SinkError::Config(
            "close_every_s, close_rows, block_rows and blocks_at_once must be at least 1"
                .to_owned(),
        ));
    }
    let waits = Waits::new(&readiness);
    let nats = connect(&config.nats, "sink", &readiness).await?;
    let ensured = patiently("stream", &stop, || async {
        ensure(&nats, &config.nats, config.partitions).await?;
        dead::ensure(&nats, &config).await?;
        record::ensure(&nats, &config.nats).await
    });
    let Some(records) = ensured.await? else {
        return Ok(());
    };
    // All partitions in one task: what costs CPU is handed to threads, the rest waits for others.
    let room = Arc::new(Semaphore::new(config.blocks_at_once));
    let mut workers = FuturesUnordered::new();
    let ending = CancellationToken::new();
    for index in config.partitions() {
        let room = Arc::clone(&room);
        let target = Target {
            store: store.clone(),
            stop: ending.clone(),
            partition: index,
            waits: waits.clone(),
            refused_codes: config.refused_codes.clone(),
        };
        let worker = Worker::new(target, nats.clone(), records.clone(), config.clone(), room);
        workers.push(worker.run(stop.clone()));
    }
    let all = async {
        while let Some(ended) = workers.next().await {
            ended?;
        }
        Ok(())
    };
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(FINISH_WITHIN).await;
        ending.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = all => ended,
        () = deadline => Ok(()),
    }
}

/// Errors that a worker passes on; `None` of the inner option: the process stops.
type Stoppable<T> = Result<Option<T>, SinkError>;

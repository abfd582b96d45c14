//! Names for what was stored before they were known: definitions of all functions of a table, as a source of their own.
//!
//! Nothing stored is written again. Rows hold the ids of functions, or of places; the store looks the names of ids up when it is
//! asked, and the best name counts.

use super::Shared;
use super::upstream::Upstream;
use crate::identity::Kind;
use crate::metrics;
use crate::table::Loaded;
use memwide_model::{BootId, ContentHash, HostId, MappingId, Source};
use memwide_proto::v1;
use memwide_proto::v1::aggregator_to_decoder::Message as FromAggregator;
use memwide_service::clock;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use std::sync::Arc;
use std::time::Duration;

/// Definitions of one message: about a megabyte.
const DEFINITIONS: usize = 8_192;

/// Most functions of one table that are told.
const FUNCTIONS_MAX: usize = 1 << 20;

/// Attempts to reach the aggregator before it is given up until the next occasion.
const ATTEMPTS: u32 = 8;

/// Pauses between them.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An aggregator commits within this; a stream that is silent for longer is opened anew.
const COMMITS_WITHIN: Duration = Duration::from_secs(30);

/// Why names were not told.
#[derive(Debug, thiserror::Error)]
pub(super) enum TellError {
    /// Nobody takes them.
    #[error("no aggregator takes the definitions; they are told when the table is next used")]
    Unreachable,
}

/// Tells the names of the best table of a mapping, besides all else, to rows that were stored under `stored_as`: a file that
/// was known by its path when they were.
pub(super) fn tell_later(shared: &Arc<Shared>, stored_as: MappingId, mapping: MappingId) {
    let shared = Arc::clone(shared);
    let spawner = shared.spawner.clone();
    let stop = spawner.stop().clone();
    spawner.spawn_visitor("names", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            told = tell_as(&shared, stored_as, mapping, Kind::Unknown) => if let Err(error) = told {
                tracing::warn!(%mapping, %error, "names of what was stored before are not told");
            },
        }
        Ok(())
    });
}

/// Tells the names of the best table of a mapping; says how many.
pub(super) async fn tell(
    shared: &Arc<Shared>,
    mapping: MappingId,
    kind: Kind,
) -> Result<u64, TellError> {
    tell_as(shared, mapping, mapping, kind).await
}

async fn tell_as(
    shared: &Arc<Shared>,
    stored_as: MappingId,
    mapping: MappingId,
    kind: Kind,
) -> Result<u64, TellError> {
    let tables = Arc::clone(&shared.tables);
    let found = tokio::task::spawn_blocking(move || {
        let (loaded, _) = tables.find(mapping, kind)?;
        if tables.told(stored_as, loaded.rank(), false) {
            None
        } else if stored_as == mapping {
            Some(loaded)
        } else {
            Some(Arc::new(loaded.called(stored_as)))
        }
    });
    match found.await {
        Ok(Some(loaded)) => tell_table(shared, stored_as, &loaded).await,
        _ => Ok(0),
    }
}

/// Tells the names of this table.
pub(super) async fn tell_table(
    shared: &Arc<Shared>,
    mapping: MappingId,
    loaded: &Arc<Loaded>,
) -> Result<u64, TellError> {
    // One at a time: they can be large, and nobody waits for them but people.
    let Ok(_turn) = shared.telling.acquire().await else {
        return Ok(0);
    };
    let functions = loaded.table().functions().len().min(FUNCTIONS_MAX);
    if functions == 0 {
        return Ok(0);
    }
    let whole = Arc::clone(loaded);
    let source = tokio::task::spawn_blocking(move || source_of(mapping, &whole)).await;
    let Ok(source) = source else {
        return Ok(0);
    };
    let partition = source.partition(shared.config.partitions).0;
    let url = shared.config.owner(partition).unwrap_or_default();
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match attempt(url, &source, loaded, functions).await {
            Ok(()) => break,
            Err(why) if backoff.attempts() >= ATTEMPTS => {
                tracing::debug!(%mapping, why, "telling names failed");
                return Err(TellError::Unreachable);
            }
            Err(_) => tokio::time::sleep(backoff.next_pause()).await,
        }
    }
    metrics::TOLD.add(functions as u64);
    let table = loaded.table();
    if !table.holds_code() && !table.segments().as_slice().is_empty() {
        // Of a debug file alone: places in the program are told when it is known how it is loaded.
        return Ok(functions as u64);
    }
    let (tables, rank) = (Arc::clone(&shared.tables), loaded.rank());
    let noted = tokio::task::spawn_blocking(move || tables.told(mapping, rank, true));
    if noted.await.is_err() {
        tracing::debug!(%mapping, "not noted as told; it may be told again");
    }
    Ok(functions as u64)
}

/// The same table is the same source: what an aggregator has of it is not sent again.
fn source_of(mapping: MappingId, loaded: &Loaded) -> Source {
    let content = ContentHash::of("names").bytes(&loaded.table().encode());
    let mut boot = [0; 16];
    let (head, tail) = boot.split_at_mut(8);
    head.copy_from_slice(&mapping.0.to_le_bytes());
    tail.copy_from_slice(b"symbols.");
    Source {
        host: HostId(*b"names of symbols"),
        boot: BootId(boot),
        epoch: content.finish(),
    }
}

fn batch(loaded: &Loaded, number: u64, functions: usize) -> v1::DecodedBatch {
    let first = usize::try_from(number - 1)
        .unwrap_or(usize::MAX)
        .saturating_mul(DEFINITIONS);
    let last = first.saturating_add(DEFINITIONS).min(functions);
    v1::DecodedBatch {
        number,
        closed_wall_ns: clock::unix_ns(),
        definitions: Some(v1::Definitions {
            functions: (first..last)
                .map(|function| loaded.told(function))
                .collect(),
            ..v1::Definitions::default()
        }),
        decoder_version: crate::session::VERSION.clone(),
        ..v1::DecodedBatch::default()
    }
}

async fn attempt(
    url: &str,
    source: &Source,
    loaded: &Loaded,
    functions: usize,
) -> Result<(), String> {
    let opened = Upstream::open(url, source, "").await;
    let mut upstream = opened.map_err(|error| Chain(&error).to_string())?;
    let last = functions.div_ceil(DEFINITIONS) as u64;
    let mut number = upstream.next;
    loop {
        if number <= last {
            if !upstream.send(batch(loaded, number, functions)).await {
                return Err("the aggregator closed the stream".to_owned());
            }
            number += 1;
            if number <= last {
                continue;
            }
        }
        let answer = tokio::time::timeout(COMMITS_WITHIN, upstream.answer()).await;
        match answer {
            Ok(Some(FromAggregator::Committed(committed))) if committed.through >= last => {
                return Ok(());
            }
            Ok(Some(FromAggregator::Resume(resume))) => number = resume.from.max(1),
            Ok(Some(FromAggregator::Refuse(refuse))) => return Err(refuse.message),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Err("the aggregator is gone".to_owned()),
        }
    }
}

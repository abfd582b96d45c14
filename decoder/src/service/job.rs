//! Work on a session, done off the async threads.

use super::tables::{Place, Tables};
use crate::identity::Kind;
use crate::metrics::{self, TableEnd};
use crate::session::{Sent, Session, Want};
use memwide_model::{MappingId, Reason};
use memwide_proto::{limits, v1};
use prost::Message;
use std::sync::Arc;

/// What a job needs and gives back.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) session: Box<Session>,
    pub(super) sent: Sent,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Hand it on.
    Decoded(Box<v1::DecodedBatch>),
    /// Tables that a collector must be asked for first.
    Waits(Vec<Want>),
}

/// Decodes a batch. With `patient`, tables that are nowhere in this process are answered instead of a block.
pub(super) fn decode(
    work: &mut Work,
    batch: &v1::Batch,
    tables: &Tables,
    patient: bool,
) -> Outcome {
    let started = memwide_service::clock::instant();
    let mut decoded = work.session.decode(batch, &work.sent);
    // Tables found here let the batch use more of them (data addresses behind code): a second round settles that.
    for _ in 0..2 {
        let (found, rest) = find(&mut work.session, tables, &decoded.wants);
        if !rest.is_empty() && patient {
            return Outcome::Waits(rest);
        }
        if !found {
            break;
        }
        decoded = work.session.decode(batch, &work.sent);
    }
    work.session.goes_on();
    let mut block = decoded.batch;
    let unresolved = u32::from(Reason::Unresolved.code());
    let unresolved = block.ledger.iter().filter(|one| one.reason == unresolved);
    metrics::UNRESOLVED.add(unresolved.map(|one| one.records).sum());
    let limit = limits::MESSAGE_BYTES_MAX - (64 << 10);
    if block.encoded_len() > limit {
        tracing::warn!(
            batch = batch.number,
            bytes = block.encoded_len(),
            "decoded batch is too large; its samples are counted as undecodable"
        );
        block = poisoned(batch, &block.host);
    }
    work.sent.record(&block);
    metrics::DECODE.observe(started.elapsed().as_secs_f64());
    metrics::BATCHES.add(1);
    let rows = block.accesses.as_ref().map_or(0, |accesses| accesses.rows);
    metrics::SAMPLES.add(u64::from(rows));
    Outcome::Decoded(Box::new(block))
}

/// Gives the session what this process has; the rest must be asked for.
fn find(session: &mut Session, tables: &Tables, wants: &[Want]) -> (bool, Vec<Want>) {
    let mut rest = Vec::new();
    let mut found_any = false;
    for want in wants {
        if want.is_shared() && find_one(session, tables, want) {
            found_any = true;
        } else {
            rest.push(want.clone());
        }
    }
    (found_any, rest)
}

/// Gives the session a table that this process or the shelf has.
pub(super) fn find_one(session: &mut Session, tables: &Tables, want: &Want) -> bool {
    let Some((loaded, place)) = tables.find(want.mapping, kind_of(&want.identity)) else {
        return false;
    };
    let end = match place {
        Place::Memory => TableEnd::Memory,
        Place::Shelf => TableEnd::Disk,
    };
    metrics::TABLES.add(end, 1);
    session.table_known(want.mapping, loaded);
    true
}

/// Gives the session what is better than the tables it uses.
pub(super) fn improve(session: &mut Session, tables: &Tables) {
    for used in session.tables_in_use() {
        if tables.rank(used.mapping) > used.rank
            && let Some((loaded, _)) = tables.find(used.mapping, used.kind)
            && Some(loaded.rank()) > used.rank
        {
            metrics::TABLES.add(TableEnd::Better, 1);
            session.table_known(used.mapping, loaded);
        }
    }
}

fn kind_of(identity: &v1::MappingIdentity) -> Kind {
    Kind::of_wire(identity.kind)
}

/// Takes a table a collector shipped. The answer is the mapping whose names are better now than they were.
pub(super) fn take(
    session: &mut Session,
    tables: &Tables,
    mapping: MappingId,
    found: Option<&v1::MappingIdentity>,
    bytes: &[u8],
) -> Option<MappingId> {
    match tables.decode(bytes) {
        Ok(table) => {
            metrics::TABLES.add(TableEnd::Shipped, 1);
            let (mapping, loaded, shared) = session.table_arrived(mapping, table, found);
            if !shared {
                return None;
            }
            let identity = found.cloned().unwrap_or_default();
            let kind = found.map_or(Kind::Unknown, kind_of);
            let committed = tables.commit_shipped(mapping, kind, &identity, &loaded, bytes);
            let is_better = committed.before.is_some_and(|rank| rank < loaded.rank());
            is_better.then_some(mapping)
        }
        Err(error) => {
            metrics::TABLES.add(TableEnd::Refused, 1);
            tracing::warn!(%mapping, %error, "a collector sent a broken symbol table");
            session.table_unavailable(mapping, &error.to_string());
            tables.spoiled(mapping);
            None
        }
    }
}

/// A batch whose samples are given up, so that it does not hold its source back for ever.
pub(super) fn poisoned(batch: &v1::Batch, host: &str) -> v1::DecodedBatch {
    metrics::POISONED.add(1);
    let entry = |reason: Reason, records: u64| v1::LedgerEntry {
        event_id: 0,
        reason: u32::from(reason.code()),
        records,
        seconds: 0.0,
    };
    let counted: u64 = batch.counts.iter().map(|count| count.produced).sum();
    let records = match (counted, &batch.samples) {
        (0, Some(section)) => u64::from(section.records),
        (counted, _) => counted,
    };
    v1::DecodedBatch {
        number: batch.number,
        closed_wall_ns: batch.closed_wall_ns,
        host: host.to_owned(),
        accesses: Some(v1::AccessBlock::default()),
        ledger: vec![
            entry(Reason::Produced, records),
            entry(Reason::Batches, 1),
            entry(Reason::Undecodable, records),
        ],
        ..v1::DecodedBatch::default()
    }
}

/// Decoding broke: the state of the source is gone, and the samples of the batch are given up.
#[derive(Debug)]
pub(super) struct Broken;

/// Runs a job on a worker.
pub(super) async fn run<T: Send + 'static>(
    mut work: Work,
    workers: &Arc<tokio::sync::Semaphore>,
    job: impl FnOnce(&mut Work) -> T + Send + 'static,
) -> Result<(Work, T), Broken> {
    let permit = Arc::clone(workers).acquire_owned().await;
    let joined = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = job(&mut work);
        (work, answer)
    });
    joined.await.map_err(|error| {
        tracing::error!(%error, "decoding broke; the source starts again from its snapshot");
        Broken
    })
}

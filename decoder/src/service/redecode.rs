//! A day of the archive, decoded again with the tables and the taxonomy of now.

use super::job::{self, Outcome, Work};
use super::tables::Tables;
use crate::archive::{ArchiveError, Day, Entry, Held, Key, Place, Plan};
use crate::session::{Sent, Session};
use memwide_model::MappingId;
use memwide_proto::v1;
use std::path::{Path, PathBuf};

/// Batches behind the one that is decoded, whose mappings are still known: records come late.
const SLACK: u64 = 16;

/// Why a source was not decoded again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedecodeError {
    /// The place of symbol tables cannot be used.
    #[error("cannot use {} for symbol tables; name the folder or bucket of the decoders", folder.display())]
    SymbolDir {
        /// The folder, or the URL.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Batches are not there.
    #[error(
        "host {host}: batches {first} to {last} are not in the archive, and {others} further gaps; a day that is not \
         wholly archived stays as it is"
    )]
    Missing {
        /// The host.
        host: String,
        /// First missing batch.
        first: u64,
        /// Last of the first run of missing ones.
        last: u64,
        /// Further runs.
        others: usize,
    },
    /// What ran before is not known.
    #[error(
        "host {host}: the archive does not say what ran before batch {first}, as days before were removed or not archived; \
         the day stays as it is"
    )]
    NoHistory {
        /// The host.
        host: String,
        /// First batch.
        first: u64,
    },
    /// Whoever takes the batches has ended.
    #[error("stopped")]
    Stopped,
}

/// Decodes again.
#[derive(Debug)]
pub struct Redecoder {
    tables: Tables,
    key: Option<Key>,
}

/// What was decoded of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Batches that may hold samples of the day.
    pub batches: u64,
}

impl Redecoder {
    /// With the tables in this place, a folder or a bucket; it is not made smaller.
    pub fn new(symbol_dir: &Path, key: Option<Key>) -> Result<Self, RedecodeError> {
        let opened = Tables::new(symbol_dir, u64::MAX);
        let tables = opened.map_err(|source| RedecodeError::SymbolDir {
            folder: symbol_dir.to_owned(),
            source,
        })?;
        Ok(Self { tables, key })
    }

    /// Decodes what a source has of a day, whole or not at all, and a little around it; `each` takes the batches in order and
    /// says whether to go on. Blocks.
    pub fn source(
        &self,
        place: &Place,
        day: Day,
        held: &Held,
        mut each: impl FnMut(v1::DecodedBatch) -> bool,
    ) -> Result<Done, RedecodeError> {
        let plan = Plan::make(place, day, held, self.key.as_ref())?;
        let Some(mut plan) = plan else {
            return Ok(Done::default());
        };
        let host = held.host.clone();
        if let Some((first, last)) = plan.missing.first().copied() {
            let others = plan.missing.len() - 1;
            return Err(RedecodeError::Missing {
                host,
                first,
                last,
                others,
            });
        }
        if plan.no_history {
            let first = plan.first();
            return Err(RedecodeError::NoHistory { host, first });
        }
        let mut work = Work {
            session: Box::new(Session::new(&held.source, &host)),
            sent: Sent::default(),
        };
        let (mut own, mut done) = (Vec::new(), Done::default());
        for step in 0..plan.steps() {
            match plan.read(step)? {
                None => break,
                Some(Entry::Symbols(table)) => own.push(*table),
                Some(Entry::History(batch)) => {
                    self.decode(&mut work, &batch, &mut own);
                    // Its definitions went nowhere.
                    work.sent.clear();
                }
                Some(Entry::Batch(batch)) => {
                    let decoded = self.decode(&mut work, &batch, &mut own);
                    done.batches += 1;
                    if !each(decoded) {
                        return Err(RedecodeError::Stopped);
                    }
                }
            }
        }
        Ok(done)
    }

    fn decode(
        &self,
        work: &mut Work,
        batch: &v1::Batch,
        own: &mut Vec<v1::SymbolChunk>,
    ) -> v1::DecodedBatch {
        work.session.apply_side_band(batch);
        // Tables of mappings that a later batch tells of wait for it.
        own.retain(|table| !self.give(&mut work.session, table));
        work.session
            .acknowledged(batch.number.saturating_sub(SLACK));
        match job::decode(work, batch, &self.tables, false) {
            Outcome::Decoded(block) => *block,
            Outcome::Waits(_) => job::poisoned(batch, work.session.host()),
        }
    }

    /// Gives the session a table that only its source needs; false: it does not know yet what it is of.
    fn give(&self, session: &mut Session, table: &v1::SymbolChunk) -> bool {
        let mapping = MappingId(table.request);
        if session.machine().objects().state_of(mapping).is_none() {
            return false;
        }
        match self.tables.decode(&table.data) {
            Ok(found) => {
                session.table_arrived(mapping, found, table.identity.as_ref());
            }
            Err(error) => session.table_unavailable(mapping, &error.to_string()),
        }
        true
    }
}

//! Symbol tables for all sessions: in memory while used, and on the shelf that decoders share.

use super::shelf::{Claim, Found, Half, LEASE, Lease, Placed, Shelf};
use crate::identity::Kind;
use crate::metrics;
use crate::table::Loaded;
use memwide_model::MappingId;
use memwide_objects::{Limits, SymbolTable};
use memwide_proto::v1;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Bytes of indexed tables kept in memory though no session uses them now: a few large programs, or all small ones.
const IDLE_BYTES: usize = 64 << 20;

/// All tables. Calls that read or write the shelf block: they are made off the async threads.
#[derive(Debug)]
pub(super) struct Tables {
    memory: Mutex<HashMap<MappingId, Arc<Loaded>>>,
    shelf: Option<Shelf>,
    limits: Limits,
    /// Tables that streams of this process ship now; when their leases were renewed last.
    shipped: Mutex<BTreeMap<MappingId, Option<(Lease, Instant)>>>,
    /// Told to what was stored before, by this process: mapping and rank.
    told: Mutex<BTreeMap<MappingId, u8>>,
    /// Counts changes of what there is; streams look again then.
    revision: watch::Sender<u64>,
}

/// Where a table was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Memory,
    Shelf,
}

/// Whether a stream is to ship a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is, beginning with what is there of an upload that broke off.
    Mine(Option<Half>),
    /// Another stream, of this or another decoder, does.
    Wait,
}

/// What came of a new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Committed {
    /// Rank of the best table that was known before; `None`: there was none.
    pub(super) before: Option<u8>,
    /// Other decoders find it.
    pub(super) kept: bool,
}

impl Tables {
    /// `folder` empty: in memory only.
    pub(super) fn new(folder: &Path, bytes_max: u64) -> std::io::Result<Self> {
        let shelf = if folder.as_os_str().is_empty() {
            None
        } else {
            Some(Shelf::open(folder, bytes_max)?)
        };
        Ok(Self {
            memory: Mutex::default(),
            shelf,
            limits: Limits::default(),
            shipped: Mutex::default(),
            told: Mutex::default(),
            revision: watch::Sender::new(0),
        })
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<MappingId, Arc<Loaded>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shipped(&self) -> MutexGuard<'_, BTreeMap<MappingId, Option<(Lease, Instant)>>> {
        self.shipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever there may be a table that was not there before, or a turn to ship one.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Says to other decoders what is used here.
    pub(super) fn touch(&self) {
        if let Some(shelf) = &self.shelf {
            shelf.touch(&self.in_use());
        }
    }

    /// Looks what other decoders have put on the shelf.
    pub(super) fn look(&self) {
        let Some(shelf) = &self.shelf else { return };
        match shelf.look() {
            Ok((changed, bytes)) => {
                metrics::SHELF_BYTES.set(bytes);
                if changed {
                    self.changed();
                }
            }
            Err(error) => tracing::warn!(%error, "the folder of symbol tables cannot be read"),
        }
    }

    fn in_use(&self) -> HashSet<MappingId> {
        let memory = self.memory();
        let used = memory
            .iter()
            .filter(|(_, loaded)| Arc::strong_count(loaded) > 1);
        used.map(|(mapping, _)| *mapping).collect()
    }

    /// Rank of the best table that there is, as far as this process knows.
    pub(super) fn rank(&self, mapping: MappingId) -> Option<u8> {
        let here = self.memory().get(&mapping).map(|loaded| loaded.rank());
        let there = self.shelf.as_ref().and_then(|shelf| shelf.rank(mapping));
        here.max(there)
    }

    /// The best table of a mapping.
    pub(super) fn find(&self, mapping: MappingId, kind: Kind) -> Option<(Arc<Loaded>, Place)> {
        let here = self.memory().get(&mapping).cloned();
        let there = self.shelf.as_ref().and_then(|shelf| shelf.rank(mapping));
        if let Some(loaded) = &here
            && there.is_none_or(|there| there <= loaded.rank())
        {
            return Some((Arc::clone(loaded), Place::Memory));
        }
        let better = self
            .on_shelf(mapping, kind)
            .map(|loaded| (loaded, Place::Shelf));
        better.or_else(|| Some((here?, Place::Memory)))
    }

    fn on_shelf(&self, mapping: MappingId, kind: Kind) -> Option<Arc<Loaded>> {
        let shelf = self.shelf.as_ref()?;
        let found = match shelf.find(mapping) {
            Ok(found) => found?,
            Err(error) => {
                tracing::warn!(%mapping, %error, "a kept symbol table cannot be read");
                return None;
            }
        };
        match self.decode(&found.table) {
            Ok(table) => {
                let kind = match Kind::of_wire(found.identity.kind) {
                    Kind::Unknown => kind,
                    kind => kind,
                };
                let loaded = Arc::new(Loaded::new(table, mapping, kind));
                self.remember(mapping, &loaded);
                Some(loaded)
            }
            Err(error) => {
                tracing::warn!(%mapping, %error, "a kept symbol table is of another version");
                None
            }
        }
    }

    /// Reads what a collector shipped.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<SymbolTable, memwide_objects::WireError> {
        SymbolTable::decode(bytes, &self.limits)
    }

    /// A table that came from a collector, as the sessions use it; `bytes` as received. Where a person brought better names for
    /// it before, those are taken.
    pub(super) fn commit_shipped(
        &self,
        mapping: MappingId,
        kind: Kind,
        identity: &v1::MappingIdentity,
        loaded: &Arc<Loaded>,
        bytes: &[u8],
    ) -> Committed {
        let names = self.shelf.as_ref().and_then(|shelf| {
            let names = shelf.names(mapping);
            names.unwrap_or_else(|error| {
                tracing::debug!(%mapping, %error, "kept names cannot be read");
                None
            })
        });
        let names = names.filter(|names| names.rank > loaded.rank());
        let names = names.and_then(|names| self.decode(&names.table).ok());
        let Some(names) = names else {
            return self.commit(mapping, identity, loaded, bytes);
        };
        self.commit_named(mapping, kind, identity, names, loaded).1
    }

    /// Names of a debug file, with the segments of the program's own table `of`; the answer is the table as the sessions use it.
    pub(super) fn commit_named(
        &self,
        mapping: MappingId,
        kind: Kind,
        identity: &v1::MappingIdentity,
        names: SymbolTable,
        of: &Loaded,
    ) -> (Arc<Loaded>, Committed) {
        let named = names.with_segments(of.table().segments().clone());
        let bytes = named.encode();
        let named = Arc::new(Loaded::new(named, mapping, kind));
        let committed = self.commit(mapping, identity, &named, &bytes);
        (named, committed)
    }

    /// Keeps names whose file nobody has shipped yet. False: they are not kept.
    pub(super) fn put_names(
        &self,
        mapping: MappingId,
        identity: &v1::MappingIdentity,
        rank: u8,
        bytes: &[u8],
    ) -> bool {
        let Some(shelf) = &self.shelf else {
            return false;
        };
        let found = Found {
            rank,
            identity: identity.clone(),
            table: bytes.to_vec(),
        };
        shelf.put_names(mapping, &found).unwrap_or_else(|error| {
            tracing::warn!(%mapping, %error, "cannot keep symbols that a person brought");
            false
        })
    }

    /// A new table; `bytes` encoded.
    pub(super) fn commit(
        &self,
        mapping: MappingId,
        identity: &v1::MappingIdentity,
        loaded: &Arc<Loaded>,
        bytes: &[u8],
    ) -> Committed {
        let before = self.rank(mapping);
        self.remember(mapping, loaded);
        let mut kept = false;
        if let Some(shelf) = &self.shelf {
            let found = Found {
                rank: loaded.rank(),
                identity: identity.clone(),
                table: bytes.to_vec(),
            };
            match shelf.place(mapping, &found, &self.in_use()) {
                Ok(Placed::NoRoom) => {
                    metrics::SHELF_FULL.add(1);
                    tracing::warn!(
                        %mapping,
                        bytes = bytes.len(),
                        "no room for a symbol table: all others are in use; raise symbol_bytes_max"
                    );
                }
                Ok(Placed::New | Placed::Known | Placed::NotBetter) => kept = true,
                Err(error) => {
                    tracing::warn!(%mapping, %error, "cannot keep a symbol table; it will be shipped again");
                }
            }
        }
        self.changed();
        Committed { before, kept }
    }

    fn remember(&self, mapping: MappingId, loaded: &Arc<Loaded>) {
        let mut memory = self.memory();
        let known = memory.get(&mapping).map(|known| known.rank());
        if known.is_none_or(|known| known < loaded.rank()) {
            memory.insert(mapping, Arc::clone(loaded));
        }
        drop(memory);
        self.let_go();
    }

    /// Lets go of tables that no session uses, as far as they are many bytes.
    pub(super) fn let_go(&self) {
        let mut idle = 0;
        self.memory().retain(|_, loaded| {
            if Arc::strong_count(loaded) > 1 {
                return true;
            }
            let with = idle + loaded.bytes();
            let stays = with <= IDLE_BYTES;
            if stays {
                idle = with;
            }
            stays
        });
    }

    /// Whether the caller is to ship a table that there is none of.
    pub(super) fn turn(&self, mapping: MappingId) -> Turn {
        {
            let mut shipped = self.shipped();
            if shipped.contains_key(&mapping) {
                return Turn::Wait;
            }
            shipped.insert(mapping, None);
        }
        let Some(shelf) = &self.shelf else {
            return Turn::Mine(None);
        };
        match shelf.claim(mapping) {
            Ok(Claim::Mine(lease)) => {
                let now = memwide_service::clock::instant();
                self.shipped().insert(mapping, Some((lease, now)));
                let half = shelf.half(mapping).unwrap_or_else(|error| {
                    tracing::debug!(%mapping, %error, "pieces of an upload cannot be read");
                    None
                });
                Turn::Mine(half)
            }
            Ok(Claim::Taken) => {
                self.shipped().remove(&mapping);
                Turn::Wait
            }
            Err(error) => {
                // Better twice than never.
                tracing::warn!(%mapping, %error, "no lease for a symbol table can be had; it is shipped without");
                Turn::Mine(None)
            }
        }
    }

    /// Whether there is a table, after a look at the shelf.
    pub(super) fn is_there_now(&self, mapping: MappingId) -> bool {
        self.look();
        self.rank(mapping).is_some()
    }

    /// A piece came: it is kept for whoever may have to go on, and the lease with it.
    pub(super) fn progress(&self, mapping: MappingId, of: (u64, u64), offset: u64, piece: &[u8]) {
        let Some(shelf) = &self.shelf else { return };
        if let Err(error) = shelf.put_piece(mapping, of, offset, piece) {
            tracing::debug!(%mapping, %error, "a piece of a symbol table is not kept");
        }
        let now = memwide_service::clock::instant();
        let due = match self.shipped().get_mut(&mapping) {
            Some(Some((lease, renewed))) if now.duration_since(*renewed) > LEASE / 4 => {
                *renewed = now;
                lease.clone()
            }
            _ => return,
        };
        match shelf.renew(&due) {
            Ok(true) => {}
            Ok(false) => metrics::LEASES_LOST.add(1),
            Err(error) => tracing::debug!(%mapping, %error, "a lease cannot be renewed"),
        }
    }

    /// The caller does not ship the table any more, or has done so. Others get their turn.
    pub(super) fn done(&self, mapping: MappingId) {
        let lease = self.shipped().remove(&mapping).flatten();
        if let (Some(shelf), Some((lease, _))) = (&self.shelf, lease)
            && let Err(error) = shelf.release(&lease)
        {
            tracing::debug!(%mapping, %error, "a lease is not released; it ends by itself");
        }
        self.changed();
    }

    /// What came is no table: whoever ships it next begins anew.
    pub(super) fn spoiled(&self, mapping: MappingId) {
        if let Some(shelf) = &self.shelf
            && let Err(error) = shelf.drop_pieces(mapping)
        {
            tracing::debug!(%mapping, %error, "pieces of a broken upload stay");
        }
    }

    /// Whether the names of this rank were told to everything stored before; `tell` says that they are now.
    pub(super) fn told(&self, mapping: MappingId, rank: u8, tell: bool) -> bool {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if tell {
                told.insert(mapping, rank);
            } else if told.get(&mapping).is_some_and(|told| *told >= rank) {
                return true;
            }
        }
        self.shelf.as_ref().is_some_and(|shelf| {
            shelf.rank(mapping) == Some(rank) && shelf.told(mapping, tell).unwrap_or(false)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_objects::{Flags, Segments, Source, Symbol, Symbols, SymbolsBuilder};

    fn table(name: &str, source: Source) -> SymbolTable {
        let mut builder = SymbolsBuilder::default();
        builder.push(Symbol {
            start: 0x100,
            size: 0x10,
            name,
            source,
            flags: Flags::NONE,
        });
        SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
    }

    fn commit(tables: &Tables, mapping: u64, name: &str, source: Source) -> Committed {
        let mapping = MappingId(mapping);
        let table = table(name, source);
        let bytes = table.encode();
        let loaded = Arc::new(Loaded::new(table, mapping, Kind::BuildId));
        tables.commit(mapping, &v1::MappingIdentity::default(), &loaded, &bytes)
    }

    #[test]
    fn a_better_table_of_another_decoder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let one = Tables::new(folder.path(), 1 << 20).unwrap();
        let two = Tables::new(folder.path(), 1 << 20).unwrap();
        let committed = commit(&one, 7, "dynamic", Source::DynSym);
        assert_eq!(
            committed,
            Committed {
                before: None,
                kept: true
            }
        );
        two.look();
        let (loaded, place) = two.find(MappingId(7), Kind::BuildId).unwrap();
        assert_eq!((loaded.rank(), place), (1, Place::Shelf));
        assert_eq!(
            two.find(MappingId(7), Kind::BuildId).unwrap().1,
            Place::Memory
        );
        let mut changes = one.changes();
        changes.mark_unchanged();
        assert_eq!(
            commit(&two, 7, "whole", Source::SymTab).before,
            Some(1),
            "known before"
        );
        one.look();
        assert!(changes.has_changed().unwrap());
        let (loaded, _) = one.find(MappingId(7), Kind::BuildId).unwrap();
        assert_eq!(loaded.table(), &table("whole", Source::SymTab));
        // A worse one that comes later does not replace it, neither here nor there.
        commit(&one, 7, "dynamic", Source::DynSym);
        assert_eq!(one.rank(MappingId(7)), Some(2));
        two.look();
        assert_eq!(two.rank(MappingId(7)), Some(2));
    }

    #[test]
    fn one_stream_of_all_decoders_ships_a_table_and_the_next_goes_on_where_it_broke_off() {
        let folder = tempfile::tempdir().unwrap();
        let one = Tables::new(folder.path(), 1 << 20).unwrap();
        let two = Tables::new(folder.path(), 1 << 20).unwrap();
        assert_eq!(one.turn(MappingId(7)), Turn::Mine(None));
        assert_eq!(one.turn(MappingId(7)), Turn::Wait, "another stream");
        assert_eq!(two.turn(MappingId(7)), Turn::Wait, "another decoder");
        one.progress(MappingId(7), (9, 100), 0, b"first");
        one.done(MappingId(7)); // its collector went away
        let half = Half {
            checksum: 9,
            total: 100,
            bytes: b"first".to_vec(),
        };
        assert_eq!(two.turn(MappingId(7)), Turn::Mine(Some(half)));
        two.spoiled(MappingId(7));
        two.done(MappingId(7));
        assert_eq!(one.turn(MappingId(7)), Turn::Mine(None));
    }

    #[test]
    fn tables_that_no_session_uses_are_bounded_in_bytes() {
        let tables = Tables::new(Path::new(""), 0).unwrap();
        let large = |at: u64| {
            let name = "n".repeat(IDLE_BYTES / 3);
            let table = table(&name, Source::SymTab);
            let loaded = Arc::new(Loaded::new(table, MappingId(at), Kind::BuildId));
            tables.remember(MappingId(at), &loaded);
            loaded
        };
        let used: Vec<_> = (0..4).map(large).collect();
        assert_eq!(tables.memory().len(), 4, "all are used");
        for at in 4..10 {
            drop(large(at));
        }
        tables.let_go();
        let idle = tables.memory().len() - used.len();
        assert_eq!(idle, 2, "two thirds of the bound, a third is too much");
        drop(used);
        tables.let_go();
        assert_eq!(tables.memory().len(), 2);
    }

    #[test]
    fn what_is_told_is_known_to_all_decoders() {
        let folder = tempfile::tempdir().unwrap();
        let one = Tables::new(folder.path(), 1 << 20).unwrap();
        commit(&one, 7, "whole", Source::SymTab);
        assert!(!one.told(MappingId(7), 2, false));
        one.told(MappingId(7), 2, true);
        let two = Tables::new(folder.path(), 1 << 20).unwrap();
        assert!(two.told(MappingId(7), 2, false));
        assert!(!two.told(MappingId(7), 3, false));
    }
}

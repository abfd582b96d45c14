//! Symbol tables for all decoders, in one place with a bound: each table is shipped once, survives restarts, and is only
//! believed with its checksum.
//!
//! ```text
//! MAPPING.RANK-SUM.symbols              a table: checksum, identity, encoded table; RANK says how good its names are
//! MAPPING.RANK.names                    names from a debug file, whose program no collector has shipped yet
//! MAPPING.lease, MAPPING.takeover       who ships it, see `lease`
//! MAPPING.CHECKSUM.TOTAL.OFFSET.piece   of an upload that is under way or was broken off
//! MAPPING.RANK-SUM.told                 its names have been sent to everything stored before
//! ```

mod blobs;
mod in_bucket;
mod lease;

use crate::bucket::{self, Bucket};
use blobs::{Blobs, Entry, Folder};
pub(super) use lease::{Claim, Lease};
use memwide_model::MappingId;
use memwide_proto::limits::SYMBOL_TABLE_BYTES_MAX;
use memwide_proto::v1;
use prost::Message as _;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MAGIC: [u8; 8] = *b"MWSHELF1";

/// Longest identity in an object: a path and an id.
const IDENTITY_BYTES_MAX: usize = 16 << 10;

/// Objects that were used within this are kept: another decoder may be about to read them.
const KEPT: Duration = Duration::from_secs(90);

/// A lease is over after this, unless its holder goes on shipping.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// An upload that nobody went on with for so long is given up.
const PIECES_KEPT: Duration = Duration::from_mins(10);

/// A table as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    name: String,
    rank: u8,
    bytes: u64,
}

/// A table as it was kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) rank: u8,
    pub(super) identity: v1::MappingIdentity,
    /// Encoded.
    pub(super) table: Vec<u8>,
}

/// What is there of an upload that broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Half {
    /// Of the whole table.
    pub(super) checksum: u64,
    pub(super) total: u64,
    /// From its start on.
    pub(super) bytes: Vec<u8>,
}

/// Names are told once more to what is stored after this: the store forgets definitions later still.
const TOLD_KEPT: Duration = Duration::from_hours(720);

/// What came of keeping a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is there now.
    New,
    /// It was there before.
    Known,
    /// There is one with names as good or better.
    NotBetter,
    /// There is no room, all of it is in use.
    NoRoom,
}

/// The place. All calls block.
#[derive(Debug)]
pub(super) struct Shelf {
    blobs: Box<dyn Blobs>,
    bytes_max: u64,
    kept: Duration,
    owner: String,
    known: Mutex<BTreeMap<MappingId, Kept>>,
}

impl Shelf {
    /// In a folder or, by its URL (`s3://BUCKET/START`), in a bucket; at most `bytes_max` of it.
    pub(super) fn open(place: &Path, bytes_max: u64) -> io::Result<Self> {
        let blobs: Box<dyn Blobs> = if bucket::is_url(place) {
            Box::new(Bucket::open(&place.to_string_lossy())?)
        } else {
            Box::new(Folder::open(place)?)
        };
        Self::with(blobs, bytes_max, KEPT)
    }

    fn with(blobs: Box<dyn Blobs>, bytes_max: u64, kept: Duration) -> io::Result<Self> {
        let shelf = Self {
            blobs,
            bytes_max,
            kept,
            owner: memwide_service::random::text()?,
            known: Mutex::default(),
        };
        shelf.look()?;
        Ok(shelf)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<MappingId, Kept>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the list; says whether it has other tables than before, and how many bytes they take.
    pub(super) fn look(&self) -> io::Result<(bool, u64)> {
        let entries = self.blobs.list()?;
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        let mut now = BTreeMap::<MappingId, Kept>::new();
        for entry in entries {
            if let Some((mapping, rank)) = of_name(&entry.name)
                && now
                    .get(&mapping)
                    .is_none_or(|kept| (kept.rank, &kept.name) < (rank, &entry.name))
            {
                let (name, bytes) = (entry.name, entry.bytes);
                now.insert(mapping, Kept { name, rank, bytes });
            }
        }
        let mut known = self.known();
        let changed = *known != now;
        *known = now;
        Ok((changed, bytes))
    }

    /// Rank of the best table of a mapping, as of the last look.
    pub(super) fn rank(&self, mapping: MappingId) -> Option<u8> {
        Some(self.known().get(&mapping)?.rank)
    }

    /// The best table of a mapping. A damaged one is removed, as if it had never been there.
    pub(super) fn find(&self, mapping: MappingId) -> io::Result<Option<Found>> {
        let Some(kept) = self.known().get(&mapping).cloned() else {
            return Ok(None);
        };
        if kept.bytes > SYMBOL_TABLE_BYTES_MAX + (IDENTITY_BYTES_MAX as u64) * 2 {
            return self.damaged(mapping, &kept, "too large").map(|()| None);
        }
        let bytes = match self.blobs.read(&kept.name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.look()?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match open(&bytes) {
            Ok((identity, table)) => {
                if let Err(error) = self.blobs.touch(&kept.name) {
                    tracing::debug!(name = kept.name, %error, "use of a symbol table is not noted");
                }
                Ok(Some(Found {
                    rank: kept.rank,
                    identity,
                    table: table.to_vec(),
                }))
            }
            Err(why) => self.damaged(mapping, &kept, why).map(|()| None),
        }
    }

    fn damaged(&self, mapping: MappingId, kept: &Kept, why: &str) -> io::Result<()> {
        tracing::warn!(
            name = kept.name,
            why,
            "a kept symbol table is damaged; it is removed and asked for again"
        );
        crate::metrics::SHELF_DAMAGED.add(1);
        self.known().remove(&mapping);
        self.blobs.remove(&kept.name)
    }

    /// Keeps a table, unless there is one with better names. `in_use` are never removed to make room.
    pub(super) fn place(
        &self,
        mapping: MappingId,
        found: &Found,
        in_use: &HashSet<MappingId>,
    ) -> io::Result<Placed> {
        let bytes = seal(&found.identity, &found.table);
        let name = name_of(mapping, found.rank, &bytes);
        self.look()?;
        if let Some(kept) = self.known().get(&mapping) {
            if kept.name == name {
                return Ok(Placed::Known);
            }
            if kept.rank >= found.rank {
                return Ok(Placed::NotBetter);
            }
        }
        if !self.make_room(bytes.len() as u64, in_use)? {
            return Ok(Placed::NoRoom);
        }
        self.blobs.write(&name, &bytes)?;
        self.forget_others(mapping, &name)?;
        self.look()?;
        Ok(Placed::New)
    }

    /// Keeps names whose file nobody has shipped, for when somebody does. False: there is no room.
    pub(super) fn put_names(&self, mapping: MappingId, found: &Found) -> io::Result<bool> {
        let bytes = seal(&found.identity, &found.table);
        if !self.make_room(bytes.len() as u64, &HashSet::from([mapping]))? {
            return Ok(false);
        }
        let name = format!("{mapping}.{}.names", found.rank);
        self.blobs.write(&name, &bytes)?;
        Ok(true)
    }

    /// The best names that are kept so.
    pub(super) fn names(&self, mapping: MappingId) -> io::Result<Option<Found>> {
        for rank in (1..=memwide_objects::RANK_DWARF).rev() {
            let name = format!("{mapping}.{rank}.names");
            let bytes = match self.blobs.read(&name) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Ok((identity, table)) = open(&bytes) {
                return Ok(Some(Found {
                    rank,
                    identity,
                    table: table.to_vec(),
                }));
            }
            crate::metrics::SHELF_DAMAGED.add(1);
            self.blobs.remove(&name)?;
        }
        Ok(None)
    }

    /// Removes what a new table of the mapping replaces: worse tables and pieces.
    fn forget_others(&self, mapping: MappingId, name: &str) -> io::Result<()> {
        self.remove_of(mapping, |other| {
            let is_table = is_of(other, "symbols") || is_of(other, "names");
            (is_table && other != name) || is_of(other, "piece")
        })
    }

    /// Removes those objects of a mapping whose names are such.
    fn remove_of(&self, mapping: MappingId, is_gone: impl Fn(&str) -> bool) -> io::Result<()> {
        let prefix = format!("{mapping}.");
        for entry in self.blobs.list()? {
            if entry.name.starts_with(&prefix) && is_gone(&entry.name) {
                self.blobs.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Removes what was not used for longest until `bytes` more fit. False: they do not.
    fn make_room(&self, bytes: u64, in_use: &HashSet<MappingId>) -> io::Result<bool> {
        let now = memwide_service::clock::system_time();
        let age = |entry: &Entry| now.duration_since(entry.used).unwrap_or_default();
        let mut entries = self.blobs.list()?;
        entries.sort_by_key(|entry| entry.used);
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in &entries {
            let is_left = (is_of(&entry.name, "piece") && age(entry) > PIECES_KEPT)
                || (is_of(&entry.name, "told") && age(entry) > TOLD_KEPT);
            let is_idle = of_name(&entry.name)
                .is_some_and(|(mapping, _)| !in_use.contains(&mapping))
                && age(entry) >= self.kept;
            if is_left || (is_idle && total.saturating_add(bytes) > self.bytes_max) {
                self.blobs.remove(&entry.name)?;
                total -= entry.bytes;
                crate::metrics::SHELF_EVICTED.add(1);
            }
        }
        Ok(total.saturating_add(bytes) <= self.bytes_max)
    }

    /// Says of tables that sessions use that they are in use.
    pub(super) fn touch(&self, in_use: &HashSet<MappingId>) {
        let names: Vec<_> = {
            let known = self.known();
            let used = in_use.iter().filter_map(|mapping| known.get(mapping));
            used.map(|kept| kept.name.clone()).collect()
        };
        for name in names {
            if let Err(error) = self.blobs.touch(&name) {
                tracing::debug!(name, %error, "use of a symbol table is not noted");
            }
        }
    }

    /// Tries to become the one who ships a table.
    pub(super) fn claim(&self, mapping: MappingId) -> io::Result<Claim> {
        lease::claim(&*self.blobs, mapping, &self.owner, LEASE, now_ms())
    }

    /// Goes on holding a lease; false if somebody else has it.
    pub(super) fn renew(&self, lease: &Lease) -> io::Result<bool> {
        lease::renew(&*self.blobs, lease, LEASE, now_ms())
    }

    /// Lets a lease go.
    pub(super) fn release(&self, lease: &Lease) -> io::Result<()> {
        lease::release(&*self.blobs, lease)
    }

    /// Keeps a piece of an upload, so that whoever goes on with it needs not begin anew.
    pub(super) fn put_piece(
        &self,
        mapping: MappingId,
        (checksum, total): (u64, u64),
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let name = format!("{mapping}.{checksum:016x}.{total}.{offset:012}.piece");
        self.blobs.write(&name, bytes)
    }

    /// What is kept of an upload that broke off, if anything.
    pub(super) fn half(&self, mapping: MappingId) -> io::Result<Option<Half>> {
        let prefix = format!("{mapping}.");
        let mut uploads = BTreeMap::<(u64, u64), BTreeMap<u64, Entry>>::new();
        for entry in self.blobs.list()? {
            let piece = entry.name.strip_prefix(&prefix).and_then(of_piece);
            if let Some((checksum, total, offset)) = piece
                && total <= SYMBOL_TABLE_BYTES_MAX
            {
                uploads
                    .entry((checksum, total))
                    .or_default()
                    .insert(offset, entry);
            }
        }
        let newest = uploads
            .into_iter()
            .max_by_key(|(_, pieces)| pieces.values().map(|piece| piece.used).max());
        let Some(((checksum, total), pieces)) = newest else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        for (offset, piece) in pieces {
            if offset != bytes.len() as u64 || offset + piece.bytes > total {
                break; // a hole: the rest comes again
            }
            match self.blobs.read(&piece.name) {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(_) => break,
            }
        }
        let half = Half {
            checksum,
            total,
            bytes,
        };
        Ok((!half.bytes.is_empty() && (half.bytes.len() as u64) < total).then_some(half))
    }

    /// Forgets the pieces of an upload: what they made was no table.
    pub(super) fn drop_pieces(&self, mapping: MappingId) -> io::Result<()> {
        self.remove_of(mapping, |name| is_of(name, "piece"))
    }

    /// Whether the names of the best table were told to what was stored before; `tell` says that they are.
    pub(super) fn told(&self, mapping: MappingId, tell: bool) -> io::Result<bool> {
        let Some(kept) = self.known().get(&mapping).cloned() else {
            return Ok(false);
        };
        let name = kept.name.replace(".symbols", ".told");
        if tell {
            self.blobs.create(&name, b"told").map(|_| true)
        } else {
            match self.blobs.read(&name) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        }
    }
}

/// Whether a name ends in this word.
fn is_of(name: &str, kind: &str) -> bool {
    name.rsplit('.').next() == Some(kind)
}

fn now_ms() -> u64 {
    memwide_service::clock::unix_ns() / 1_000_000
}

fn name_of(mapping: MappingId, rank: u8, bytes: &[u8]) -> String {
    let sum = bytes.get(MAGIC.len()..MAGIC.len() + 8).unwrap_or_default();
    format!("{mapping}.{rank}-{}.symbols", crate::edge::hex(sum))
}

/// Mapping and rank of a table's object.
fn of_name(name: &str) -> Option<(MappingId, u8)> {
    let (mapping, rest) = name.strip_suffix(".symbols")?.split_once('.')?;
    let (rank, _) = rest.split_once('-')?;
    Some((
        MappingId(u64::from_str_radix(mapping, 16).ok()?),
        rank.parse().ok()?,
    ))
}

/// Checksum, total and offset of a piece, of its name behind the mapping.
fn of_piece(rest: &str) -> Option<(u64, u64, u64)> {
    let mut words = rest.strip_suffix(".piece")?.split('.');
    let checksum = u64::from_str_radix(words.next()?, 16).ok()?;
    let total = words.next()?.parse().ok()?;
    let offset = words.next()?.parse().ok()?;
    words.next().is_none().then_some((checksum, total, offset))
}

/// `magic, SHA-256 of the rest, length of the identity, identity, table`.
fn seal(identity: &v1::MappingIdentity, table: &[u8]) -> Vec<u8> {
    let identity = identity.encode_to_vec();
    let mut rest = Vec::with_capacity(4 + identity.len() + table.len());
    rest.extend_from_slice(&u32::try_from(identity.len()).unwrap_or(0).to_le_bytes());
    rest.extend_from_slice(&identity);
    rest.extend_from_slice(table);
    let sum: [u8; 32] = Sha256::digest(&rest).into();
    [&MAGIC[..], &sum, &rest].concat()
}

fn open(bytes: &[u8]) -> Result<(v1::MappingIdentity, &[u8]), &'static str> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or("cut")?;
    if *magic != MAGIC {
        return Err("not a kept table");
    }
    let (sum, rest) = rest.split_first_chunk::<32>().ok_or("cut")?;
    let found: [u8; 32] = Sha256::digest(rest).into();
    if found != *sum {
        return Err("its checksum is another one");
    }
    let (len, rest) = rest.split_first_chunk::<4>().ok_or("cut")?;
    let len = u32::from_le_bytes(*len) as usize;
    if len > IDENTITY_BYTES_MAX {
        return Err("its identity is too long");
    }
    let (identity, table) = rest.split_at_checked(len).ok_or("cut")?;
    let identity = v1::MappingIdentity::decode(identity).map_err(|_| "no identity")?;
    Ok((identity, table))
}

#[cfg(test)]
mod tests;

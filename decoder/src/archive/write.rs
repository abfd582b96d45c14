//! Writing: each stream has its own files, and all share the folder's bounds.

use super::frame::{FileHead, Head, Kind};
use super::key::{FileKey, Key, KeyId, TAG_BYTES};
use super::upload::{self, UploadError};
use super::{ArchiveError, Day, EXTENSION};
use crate::bucket::Bucket;
use crate::metrics::{self, ArchiveEnd};
use memwide_model::{MappingId, Source};
use memwide_proto::v1;
use memwide_service::clock;
use prost::Message as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use xxhash_rust::xxh3::xxh3_64;

/// A day that is being removed is called so first: who dies meanwhile leaves no half of a day.
const REMOVED: &str = ".removed-";

/// The oldest days go as soon as this share of the bound is taken, in hundredths: there is room while they go.
const SWEEP_AT: u64 = 90;

/// A file that goes up is closed when it has so many bytes: it is in memory whole then.
const FILE_BYTES: u64 = 16 << 20;

/// Where files go up, and how old they become here.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) close_after: Duration,
}

/// The folder of an archive.
#[derive(Debug)]
pub(crate) struct Archive {
    root: PathBuf,
    key: Option<Key>,
    bytes_max: u64,
    days: u64,
    up: Option<Up>,
    /// What lies there, as last looked and written since.
    bytes: AtomicU64,
}

/// Why a batch is not in the archive.
#[derive(Debug, thiserror::Error)]
enum Lost {
    /// The archive is at its bound, with nothing older than a day.
    #[error("the archive is full; raise `archive_bytes_max`")]
    Full,
    /// It cannot be written.
    #[error("the archive cannot be written at {path}", path = path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

impl Archive {
    /// Makes the folder and looks what it holds. `days` 0: no day is too old. With `up` files only wait in the folder.
    pub(crate) fn open(
        root: &Path,
        key_file: &Path,
        bytes_max: u64,
        days: u32,
        up: Option<Up>,
    ) -> Result<Self, ArchiveError> {
        let key = (!key_file.as_os_str().is_empty()).then(|| Key::read(key_file));
        make(root).map_err(ArchiveError::io(root))?;
        let archive = Self {
            root: root.to_owned(),
            key: key.transpose()?,
            bytes_max,
            days: u64::from(days),
            up,
            bytes: AtomicU64::new(0),
        };
        archive.sweep().map_err(ArchiveError::io(root))?;
        Ok(archive)
    }

    /// Removes what is too old or too much, oldest days first. Blocks. Others may do so at the same time.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let now_s = clock::unix_ns() / 1_000_000_000;
        let mut held = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(REMOVED) {
                unless_gone(fs::remove_dir_all(&path))?;
            } else if let Ok(day) = name.parse::<Day>() {
                let Some((bytes, changed_s)) = unless_gone(measure(&path))? else {
                    continue;
                };
                held.push((age_from_s(day, changed_s, now_s), bytes, path.clone()));
            }
        }
        held.sort_unstable();
        let mut total: u64 = held.iter().map(|(_, bytes, _)| bytes).sum();
        let newest = held.len().saturating_sub(1);
        for (at, (from_s, bytes, path)) in held.iter().enumerate() {
            // What waits to go up stays until it has.
            let goes = self.up.is_none();
            let is_old = self.days > 0 && from_s.saturating_add(self.days * 86_400) < now_s;
            let is_much = at < newest && total > self.bytes_max / 100 * SWEEP_AT;
            if goes && (is_old || is_much) {
                remove(path)?;
                total -= bytes;
                metrics::ARCHIVE_REMOVED.add(1);
            }
        }
        // ATOMICS: a bound that others read; what is written meanwhile is counted at the next look.
        self.bytes.store(total, Ordering::Relaxed);
        metrics::ARCHIVE_BYTES.set(total);
        Ok(())
    }

    /// Whether files go up from here.
    pub(crate) fn goes_up(&self) -> bool {
        self.up.is_some()
    }

    /// Puts up what nobody writes to. Blocks; ends early once `stop` is set.
    pub(crate) fn put_up(&self, stop: &AtomicBool) -> Result<(), UploadError> {
        let Some(up) = &self.up else { return Ok(()) };
        upload::put_up(&self.root, &up.bucket, &|bytes| self.give_room(bytes), stop)
    }

    /// Removes what is too old from where files go up. Blocks.
    pub(crate) fn retain(&self) -> io::Result<()> {
        match &self.up {
            Some(up) if self.days > 0 => {
                upload::retain(&up.bucket, self.days, clock::unix_ns() / 1_000_000_000)
            }
            _ => Ok(()),
        }
    }

    fn take_room(&self, bytes: u64) -> Result<(), Lost> {
        // ATOMICS: streams that race may overshoot by an entry each; the next look sees it.
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.bytes_max {
            metrics::ARCHIVE_BYTES.set(before + bytes);
            return Ok(());
        }
        self.give_room(bytes);
        Err(Lost::Full)
    }

    /// What is not written after all.
    fn give_room(&self, bytes: u64) {
        let less = |before: u64| Some(before.saturating_sub(bytes));
        // ATOMICS: as above; never below nothing, as a look may have counted anew in between.
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// From when on a day counts as kept, seconds since 1970 UTC: from its end, or from its last file. Of an old file that was
/// imported lately the day is old, and its batches are not; a day that has not begun is of a clock that was wrong.
fn age_from_s(day: Day, changed_s: u64, now_s: u64) -> u64 {
    if day.begin_ns() / 1_000_000_000 > now_s {
        return changed_s;
    }
    changed_s.max(day.end_ns() / 1_000_000_000)
}

/// What somebody else has removed meanwhile is removed.
fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes below a folder, and when a file was last made in it.
fn measure(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut changed_s) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(about) = unless_gone(entry.metadata())? else {
            continue;
        };
        if about.is_dir() {
            let made = about.modified()?.duration_since(SystemTime::UNIX_EPOCH);
            let within = unless_gone(measure(&entry.path()))?;
            let (within, newest) = within.unwrap_or_default();
            bytes += within;
            changed_s = newest
                .max(changed_s)
                .max(made.map_or(0, |since| since.as_secs()));
        } else {
            bytes += about.len();
        }
    }
    Ok((bytes, changed_s))
}

fn remove(day: &Path) -> io::Result<()> {
    let name = day.file_name().unwrap_or_default().to_string_lossy();
    let own = memwide_service::random::text()?;
    let going = day.with_file_name(format!("{REMOVED}{name}-{own}"));
    if unless_gone(fs::rename(day, &going))?.is_some() {
        unless_gone(fs::remove_dir_all(&going))?;
    }
    Ok(())
}

/// Folder of a source within a day.
fn folder_of(source: &Source, host: &str) -> String {
    let plain = |sign: char| match sign {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => sign,
        _ => '_',
    };
    let host: String = host.chars().map(plain).take(64).collect();
    format!("{host}-{:016x}", source.id().0)
}

/// A file that is being written.
#[derive(Debug)]
struct Open {
    day: Day,
    begun: Instant,
    path: PathBuf,
    file: File,
    /// Bytes of whole entries.
    len: u64,
    entries: u64,
    key: Option<FileKey>,
}

/// The archive as one stream writes it.
#[derive(Debug)]
pub(crate) struct Writer {
    archive: Arc<Archive>,
    source: Source,
    host: String,
    open: Option<Open>,
    /// Last batch written by this stream; what is sent again is there already.
    through: u64,
    /// The last failure was told.
    warned: bool,
}

impl Writer {
    pub(crate) fn new(archive: Arc<Archive>, source: Source, host: &str) -> Self {
        Self {
            archive,
            source,
            host: host.to_owned(),
            open: None,
            through: 0,
            warned: false,
        }
    }

    /// Writes a batch, whole; false, counted, when it is not in the archive.
    pub(crate) fn batch(&mut self, batch: &v1::Batch) -> bool {
        let is_gap = batch.gap.is_some();
        if batch.number <= self.through && !is_gap {
            return true;
        }
        let written = self.put(Kind::Batch, batch, &batch.encode_to_vec());
        self.note(&written);
        if written.is_ok() {
            self.through = self.through.max(batch.number);
        }
        written.is_ok()
    }

    /// Writes a batch of the history. What is missing of it later is told then.
    pub(crate) fn side_band(&mut self, batch: &v1::Batch) {
        if batch.number > self.through {
            let written = self.put(Kind::SideBand, batch, &batch.encode_to_vec());
            self.note(&written);
        }
    }

    /// Writes a table that came for this source alone; `next` is its next batch.
    pub(crate) fn symbols(
        &mut self,
        next: u64,
        mapping: MappingId,
        identity: Option<&v1::MappingIdentity>,
        table: &[u8],
    ) {
        let chunk = v1::SymbolChunk {
            request: mapping.0,
            identity: identity.cloned(),
            total_bytes: table.len() as u64,
            data: table.to_vec().into(),
            ..v1::SymbolChunk::default()
        };
        let of = v1::Batch {
            number: next,
            closed_wall_ns: clock::unix_ns(),
            ..v1::Batch::default()
        };
        let written = self.put(Kind::Symbols, &of, &chunk.encode_to_vec());
        self.note(&written);
    }

    fn note(&mut self, written: &Result<(), Lost>) {
        let end = match written {
            Ok(()) => ArchiveEnd::Written,
            Err(Lost::Full) => ArchiveEnd::Full,
            Err(Lost::Disk { .. }) => ArchiveEnd::Disk,
        };
        metrics::ARCHIVED.add(end, 1);
        match written {
            Ok(()) => self.warned = false,
            Err(error) if !self.warned => {
                let error = memwide_service::telemetry::Chain(error).to_string();
                tracing::warn!(source = %self.source, error, "batches are not archived");
                self.warned = true;
            }
            Err(_) => {}
        }
    }

    fn put(&mut self, kind: Kind, batch: &v1::Batch, body: &[u8]) -> Result<(), Lost> {
        let day = match (&self.open, kind) {
            (Some(open), Kind::Symbols) => open.day,
            _ => Day::of(batch.closed_wall_ns),
        };
        if self
            .open
            .as_ref()
            .is_none_or(|open| open.day != day || self.is_full(open))
        {
            self.open = None;
            self.open = Some(self.begin(day)?);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let sealed = body.len() + open.key.as_ref().map_or(0, |_| TAG_BYTES);
        let mut head = Head {
            kind,
            is_snapshot: batch.snapshot,
            is_gap: batch.gap.is_some(),
            number: batch.number,
            closed_wall_ns: batch.closed_wall_ns,
            body_bytes: u32::try_from(sealed).unwrap_or(u32::MAX),
            body_sum: 0,
        };
        let mut body = body.to_vec();
        if let Some(key) = &open.key {
            let sealed = key.seal(open.entries, &head.bound(), &mut body);
            sealed.ok_or_else(|| disk(&open.path)(io::Error::other("too long to be sealed")))?;
        }
        head.body_sum = xxh3_64(&body);
        let mut entry = head.encode().to_vec();
        entry.append(&mut body);
        if let Err(full) = self.archive.take_room(entry.len() as u64) {
            if open.entries == 0 {
                drop(std::fs::remove_file(&open.path));
                self.archive.give_room(open.len);
                self.open = None;
            }
            return Err(full);
        }
        if let Err(error) = open.file.write_all(&entry) {
            let failed = disk(&open.path)(error);
            // Half an entry is the end of its file: nothing is written behind it.
            if let Err(error) = open.file.set_len(open.len) {
                tracing::debug!(path = %open.path.display(), %error, "half an entry stays");
            }
            self.open = None;
            return Err(failed);
        }
        open.len += entry.len() as u64;
        open.entries += 1;
        Ok(())
    }

    /// Another file is begun, so that this one can go up.
    fn is_full(&self, open: &Open) -> bool {
        self.archive
            .up
            .as_ref()
            .is_some_and(|up| open.len >= FILE_BYTES || open.begun.elapsed() >= up.close_after)
    }

    /// A file of its own: nobody else writes to it, and nobody goes on with it.
    fn begin(&self, day: Day) -> Result<Open, Lost> {
        let folder = self.archive.root.join(day.to_string());
        let folder = folder.join(folder_of(&self.source, &self.host));
        let name = memwide_service::random::text().map_err(disk(&folder))?;
        let path = folder.join(format!("{name}.{EXTENSION}"));
        let mut salt = [0; 16];
        for (byte, digit) in salt.iter_mut().zip(name.as_bytes().chunks(2)) {
            let digit = std::str::from_utf8(digit).unwrap_or_default();
            *byte = u8::from_str_radix(digit, 16).unwrap_or_default();
        }
        let (mut id, mut file_key) = (KeyId::default(), None);
        if let Some(key) = &self.archive.key {
            let made = key.of_file(&salt);
            let made = made.ok_or_else(|| disk(&path)(io::Error::other("no key for a file")))?;
            (id, file_key) = (key.id(), Some(made));
        }
        let head = FileHead {
            source: self.source,
            host: self.host.clone(),
            key: id,
            salt,
        };
        let head = head.encode();
        self.archive.take_room(head.len() as u64)?;
        // Nobody meets a file whose head is not whole.
        let begun = folder.join(format!("{name}.begun"));
        let goes_up = self.archive.up.is_some();
        let written = || {
            make(&folder)?;
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&begun)?;
            if goes_up {
                file.lock()?; // until it is closed
            }
            file.write_all(&head)?;
            std::fs::rename(&begun, &path)?;
            Ok(file)
        };
        // An empty folder may go just then.
        let file = match unless_gone(written()).and_then(|file| file.map_or_else(written, Ok)) {
            Ok(file) => file,
            Err(error) => {
                drop(std::fs::remove_file(&begun));
                self.archive.give_room(head.len() as u64);
                return Err(disk(&path)(error));
            }
        };
        Ok(Open {
            day,
            begun: clock::instant(),
            path,
            file,
            len: head.len() as u64,
            entries: 0,
            key: file_key,
        })
    }
}

fn disk(path: &Path) -> impl FnOnce(io::Error) -> Lost {
    let path = path.to_owned();
    move |source| Lost::Disk { path, source }
}

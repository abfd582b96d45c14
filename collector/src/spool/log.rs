//! A row of segment files with frames of ascending numbers.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::frame::{self, Frame};

/// Memory of a frame that is kept for the next one, in bytes.
const KEPT_BYTES: usize = 256 << 10;

/// One kind of frames: the batches without samples, or the samples.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    prefix: &'static str,
    segments: VecDeque<Segment>,
    /// Frames by batch number.
    index: BTreeMap<u64, (u64, Frame)>,
    /// Bytes from which on a new segment is started.
    roll_bytes: u64,
    /// Of the last frame: one batch after another needs its memory.
    encoded: Vec<u8>,
    /// Damaged stretches found when opened, torn ends included.
    pub(super) broken: u64,
}

#[derive(Debug)]
pub(super) struct Segment {
    /// Number of its first frame; names the file.
    pub(super) first: u64,
    /// Highest number in it.
    pub(super) last: u64,
    pub(super) bytes: u64,
    file: File,
    path: PathBuf,
}

/// What reading a frame gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Whole(u32, Vec<u8>),
    Corrupt,
    Missing,
}

impl Log {
    /// Opens what is there; cuts torn ends.
    pub(super) fn open(folder: &Path, prefix: &'static str, roll_bytes: u64) -> io::Result<Self> {
        let mut log = Self {
            folder: folder.to_owned(),
            prefix,
            segments: VecDeque::new(),
            index: BTreeMap::new(),
            roll_bytes,
            encoded: Vec::new(),
            broken: 0,
        };
        let mut firsts = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
                continue;
            };
            let number = name
                .strip_prefix('-')
                .and_then(|name| name.strip_suffix(".log"));
            if let Some(first) = number.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                firsts.push(first);
            }
        }
        firsts.sort_unstable();
        for first in firsts {
            log.open_segment(first)?;
        }
        Ok(log)
    }

    fn path(&self, first: u64) -> PathBuf {
        self.folder
            .join(format!("{}-{first:016x}.log", self.prefix))
    }

    fn open_segment(&mut self, first: u64) -> io::Result<()> {
        let path = self.path(first);
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let found = frame::scan(&file)?;
        self.broken += found.broken;
        if file.metadata()?.len() > found.end {
            file.set_len(found.end)?;
            self.broken += 1;
        }
        let last = found.frames.iter().map(|frame| frame.number).max();
        for frame in found.frames {
            self.index.insert(frame.number, (first, frame));
        }
        self.segments.push_back(Segment {
            first,
            last: last.unwrap_or(first.saturating_sub(1)),
            bytes: found.end,
            file,
            path,
        });
        Ok(())
    }

    /// Appends a frame whose payload `put` writes; `roll` starts a new segment first. After an error nothing is added.
    pub(super) fn append(
        &mut self,
        kind: u32,
        number: u64,
        put: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
        roll: bool,
    ) -> io::Result<u64> {
        // A batch that is written again, after the disk was full, finds the segment it has begun: another would take the
        // same file.
        let full = |segment: &Segment| {
            segment.first != number
                && (segment.bytes >= self.roll_bytes || roll && segment.bytes > 0)
        };
        if self.segments.back().is_none_or(full) {
            let path = self.path(number);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)?;
            self.segments.push_back(Segment {
                first: number,
                last: number,
                bytes: 0,
                file,
                path,
            });
        }
        let encoded = &mut self.encoded;
        encoded.shrink_to(KEPT_BYTES);
        frame::encode(encoded, kind, number, put)?;
        let Some(segment) = self.segments.back_mut() else {
            return Err(io::Error::other("no segment to write to"));
        };
        let at = segment.bytes;
        if let Err(error) = segment.file.write_all_at(encoded, at) {
            // A half frame would be found torn anyway; without it the next one follows seamlessly.
            segment.file.set_len(at)?;
            return Err(error);
        }
        segment.bytes += encoded.len() as u64;
        segment.last = number;
        if let Some(frame) = frame::placed(encoded, at) {
            self.index.insert(number, (segment.first, frame));
        }
        Ok(encoded.len() as u64)
    }

    /// Takes the newest frame back, if it is of this batch.
    pub(super) fn take_back(&mut self, number: u64) -> io::Result<()> {
        let (Some((first, frame)), Some(segment)) =
            (self.index.get(&number), self.segments.back_mut())
        else {
            return Ok(());
        };
        if segment.first != *first || segment.last != number {
            return Ok(());
        }
        segment.file.set_len(frame.offset)?;
        segment.bytes = frame.offset;
        self.index.remove(&number);
        let before = self.index.range(segment.first..number).next_back();
        segment.last = before.map_or(segment.first.saturating_sub(1), |(number, _)| *number);
        Ok(())
    }

    /// Reads the frame of a batch.
    pub(super) fn read(&self, number: u64) -> io::Result<Found> {
        let Some((first, frame)) = self.index.get(&number) else {
            return Ok(Found::Missing);
        };
        let Some(segment) = self.segments.iter().find(|segment| segment.first == *first) else {
            return Ok(Found::Missing);
        };
        Ok(match frame::read(&segment.file, frame)? {
            Some(payload) => Found::Whole(frame.kind, payload),
            None => Found::Corrupt,
        })
    }

    /// Kinds of all frames, by number.
    pub(super) fn kinds(&self) -> impl DoubleEndedIterator<Item = (u64, u32)> + '_ {
        self.index
            .iter()
            .map(|(number, (_, frame))| (*number, frame.kind))
    }

    /// Highest number there ever was in what is left.
    pub(super) fn last(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.last).max()
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The segments, oldest first.
    pub(super) fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    /// Removes the oldest segment and says up to which number it went.
    pub(super) fn drop_oldest(&mut self) -> io::Result<Option<u64>> {
        let Some(segment) = self.segments.front() else {
            return Ok(None);
        };
        match fs::remove_file(&segment.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let Some(segment) = self.segments.pop_front() else {
            return Ok(None);
        };
        self.index.retain(|_, (first, _)| *first != segment.first);
        Ok(Some(segment.last))
    }

    /// Rewrites a segment, each payload through `change`; unreadable frames go. Atomic by rename.
    pub(super) fn rewrite(
        &mut self,
        first: u64,
        mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> io::Result<()> {
        let Some(at) = self
            .segments
            .iter()
            .position(|segment| segment.first == first)
        else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        let mut frames = Vec::new();
        for (_, frame) in self.index.values().filter(|(segment, _)| *segment == first) {
            let Some(segment) = self.segments.get(at) else {
                continue;
            };
            if let Some(payload) = frame::read(&segment.file, frame)?
                && let Some(payload) = change(&payload)
            {
                let mut encoded = Vec::new();
                frame::encode(&mut encoded, frame.kind, frame.number, |out| {
                    out.extend_from_slice(&payload);
                    Ok(())
                })?;
                frames.extend(frame::placed(&encoded, bytes.len() as u64));
                bytes.extend(encoded);
            }
        }
        let path = self.path(first);
        let fresh = path.with_extension("new");
        fs::write(&fresh, &bytes)?;
        fs::rename(&fresh, &path)?;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        self.index.retain(|_, (segment, _)| *segment != first);
        for frame in frames {
            self.index.insert(frame.number, (first, frame));
        }
        if let Some(segment) = self.segments.get_mut(at) {
            segment.file = file;
            segment.bytes = bytes.len() as u64;
        }
        Ok(())
    }
}

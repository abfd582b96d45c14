//! The trace of one AUX ring, read piece by piece.

use std::collections::VecDeque;
use std::io;

use super::SpeCounts;
use crate::bytes::len64;
use crate::file::AuxPiece;
use crate::spe::{Clock, Decoder, Encoding, Record};

/// Bytes read at a time of all rings together: what they hold decoded is some ten times that.
const CHUNKS: usize = 4 << 20;
/// Bytes read at a time of one ring: worth a seek, but no more.
const CHUNK: std::ops::RangeInclusive<usize> = 256..=64 * 1024;

/// An access that waits for its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Nanoseconds of perf's clock; the greatest without a clock.
    pub(super) time: u64,
    pub(super) record: Record,
    /// Where its chunk stands in the file.
    pub(super) at: u64,
}

/// One ring.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) cpu: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) core: (Encoding, bool),
    /// Bytes read at a time.
    chunk: usize,
    pieces: VecDeque<AuxPiece>,
    decoder: Decoder,
    waiting: VecDeque<Waiting>,
    ended: bool,
}

impl Ring {
    /// Rings are told apart by their index.
    pub(super) fn new(first: AuxPiece, core: (Encoding, bool)) -> Self {
        Self {
            cpu: u32::try_from(first.cpu).ok(),
            tid: u32::try_from(first.tid).ok(),
            core,
            chunk: *CHUNK.end(),
            pieces: VecDeque::new(),
            decoder: Decoder::default(),
            waiting: VecDeque::new(),
            ended: false,
        }
    }

    /// Shares the memory for chunks with other rings.
    pub(super) fn share(&mut self, rings: usize) {
        let share = CHUNKS.checked_div(rings).unwrap_or(CHUNKS);
        self.chunk = share.clamp(*CHUNK.start(), *CHUNK.end());
    }

    pub(super) fn push(&mut self, piece: AuxPiece) {
        self.pieces.push_back(piece);
    }

    /// Time of the next access, reading on until there is one; `None` at the end.
    pub(super) fn next_time(
        &mut self,
        clock: Option<Clock>,
        counts: &mut SpeCounts,
        mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Option<u64>> {
        let mut chunk = Vec::new();
        while self.waiting.is_empty() {
            let Some(piece) = self.pieces.front_mut() else {
                self.end(counts);
                return Ok(None);
            };
            chunk.resize(self.chunk, 0);
            let size = usize::try_from(piece.size).unwrap_or(usize::MAX);
            let want = size.min(self.chunk);
            let free = chunk.get_mut(..want).unwrap_or_default();
            let have = read_at(piece.at, free)?;
            let (at, offset) = (piece.at, piece.offset);
            piece.at += len64(have);
            piece.offset = piece.offset.wrapping_add(len64(have));
            piece.size -= len64(have);
            if piece.size == 0 || have < want {
                self.pieces.pop_front();
            }
            let waiting = &mut self.waiting;
            let bytes = chunk.get(..have).unwrap_or_default();
            self.decoder.push(offset, bytes, |record| {
                if record.is_access() {
                    let time = clock.zip(record.timestamp);
                    let time = time.map_or(u64::MAX, |(clock, counter)| clock.time_ns(counter));
                    let record = *record;
                    waiting.push_back(Waiting { time, record, at });
                }
            });
        }
        Ok(self.waiting.front().map(|waiting| waiting.time))
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    fn end(&mut self, counts: &mut SpeCounts) {
        if !std::mem::replace(&mut self.ended, true) {
            let seen = self.decoder.finish();
            counts.records += seen.records;
            counts.broken += seen.broken;
            counts.bad_bytes += seen.bad_bytes;
        }
    }
}

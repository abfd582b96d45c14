//! Hardware trace in a file: where its pieces are, and their bytes.
//!
//! ```text
//! AUXTRACE { u64 size, offset, reference; u32 idx, tid, cpu, reserved; }   // then `size` bytes of trace
//! ```
//!
//! A piece is what perf took from one AUX ring at a time; pieces of one ring, in the order of the file, are one stream.

use std::io::{self, Read, Seek, SeekFrom};

use super::{FileError, PerfFile, UserRecord};
use crate::bytes::len64;

/// One piece of trace data in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuxPiece {
    /// Where its bytes start in the file.
    pub at: u64,
    /// Bytes.
    pub size: u64,
    /// Offset in the AUX area, counted from the start of recording, in bytes.
    pub offset: u64,
    /// Identifies the snapshot or the moment, as the recorder chose.
    pub reference: u64,
    /// Index of the ring: all pieces of one stream have the same.
    pub index: u32,
    /// Thread, −1 for none.
    pub tid: i32,
    /// CPU, −1 for none.
    pub cpu: i32,
}

impl<R: Read + Seek> PerfFile<R> {
    /// The pieces of trace data in the order of the file, all of them whole; passes over the file once. Where the records
    /// break off, the list ends.
    pub fn aux_pieces(&mut self) -> Result<Vec<AuxPiece>, FileError> {
        let limit = self.file_len();
        let mut records = self.records()?.without_opening_compressed();
        let mut pieces = Vec::new();
        while let Ok(Some(item)) = records.next() {
            let Some(UserRecord::Auxtrace(piece)) = UserRecord::parse(item.record) else {
                continue;
            };
            let at = item.offset.saturating_add(len64(item.record.size()));
            if at.saturating_add(piece.size) <= limit {
                pieces.push(AuxPiece { at, ..piece });
            }
        }
        Ok(pieces)
    }

    /// The bytes of `pieces`, one after the other: those of one ring are its stream.
    pub fn aux_data<'f>(&'f mut self, pieces: &'f [AuxPiece]) -> AuxData<'f, R> {
        AuxData {
            reader: self.reader(),
            pieces: pieces.iter(),
            left: 0,
        }
    }
}

/// Reads pieces of trace data.
#[derive(Debug)]
pub struct AuxData<'f, R> {
    reader: &'f mut R,
    pieces: std::slice::Iter<'f, AuxPiece>,
    /// Bytes of the current piece not read yet.
    left: u64,
}

impl<R: Read + Seek> Read for AuxData<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let Some(piece) = self.pieces.next() else {
                return Ok(0);
            };
            self.reader.seek(SeekFrom::Start(piece.at))?;
            self.left = piece.size;
        }
        let read = self.reader.by_ref().take(self.left).read(out)?;
        if read == 0 && !out.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(len64(read));
        Ok(read)
    }
}

//! Records inside COMPRESSED records.
//!
//! All compressed records of a file are one zstd stream; what they decompress to is records again,
//! and one of those may begin in one and end in the next.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::FileError;

/// What one compressed record (at most 64 KiB) may become. perf refuses more than its ring (at most
/// a few hundred KiB by default).
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;
/// Bytes decompressed at a time.
const STEP: usize = 128 * 1024;
/// Largest window, 2^27 bytes: what zstd's highest level uses, and the limit zstd itself sets.
const MAX_WINDOW_LOG: u32 = 27;

/// Decompresses step by step; never holds more than a step and an incomplete record.
pub(crate) struct Inflate {
    decoder: Decoder<'static>,
    input: Vec<u8>,
    input_at: usize,
    /// The decoder may hold output although all input is read.
    more: bool,
    produced: u64,
    /// Offset of the compressed record in the file.
    offset: u64,
    output: Vec<u8>,
    output_at: usize,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate")
            .field("offset", &self.offset)
            .field("input", &(self.input.len() - self.input_at))
            .field("output", &self.output.len())
            .finish_non_exhaustive()
    }
}

impl Inflate {
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
        Ok(Self {
            decoder,
            input: Vec::new(),
            input_at: 0,
            more: false,
            produced: 0,
            offset: 0,
            output: Vec::new(),
            output_at: 0,
        })
    }

    /// Takes the data of the compressed record at `offset`. What was taken before must be used up.
    pub(crate) fn push(&mut self, data: &[u8], offset: u64) {
        self.input.clear();
        self.input.extend_from_slice(data);
        self.input_at = 0;
        self.more = true;
        self.produced = 0;
        self.offset = offset;
    }

    /// Offset in the file of the compressed record being read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes decompressed and not taken.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.output.get(self.output_at..).unwrap_or_default()
    }

    /// The `len` bytes taken last.
    pub(crate) fn taken(&self, len: usize) -> &[u8] {
        let start = self.output_at.saturating_sub(len);
        self.output.get(start..self.output_at).unwrap_or_default()
    }

    pub(crate) fn take(&mut self, len: usize) {
        self.output_at = self.output_at.saturating_add(len).min(self.output.len());
    }

    /// Decompresses on until at least `need` bytes are there; false if the input does not have them.
    pub(crate) fn fill(&mut self, need: usize) -> Result<bool, FileError> {
        while self.buffered().len() < need {
            if !self.more {
                return Ok(false);
            }
            self.step()?;
        }
        Ok(true)
    }

    fn step(&mut self) -> Result<(), FileError> {
        self.output.drain(..self.output_at);
        self.output_at = 0;
        let before = self.output.len();
        self.output.resize(before + STEP, 0);
        let mut input = InBuffer::around(self.input.get(self.input_at..).unwrap_or_default());
        let free = self.output.get_mut(before..).unwrap_or_default();
        let mut output = OutBuffer::around(free);
        let ran = self.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.input_at += read;
        self.output.truncate(before + written);
        ran.map_err(|wrong| FileError::Inflate {
            offset: self.offset,
            reason: wrong.to_string(),
        })?;
        self.produced = self.produced.saturating_add(crate::bytes::len64(written));
        if self.produced > MAX_OUTPUT {
            return Err(FileError::InflateTooLarge {
                offset: self.offset,
                limit: MAX_OUTPUT,
            });
        }
        let input_left = self.input_at < self.input.len();
        self.more = written == STEP || (input_left && (read > 0 || written > 0));
        Ok(())
    }
}

//! A window that slides over a file.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of the window: two of the longest records. More would push what the records are looked up in out of the second cache.
const WINDOW: usize = 128 * 1024;

/// Reads forward through a file with a buffer of fixed size.
#[derive(Debug)]
pub(crate) struct Source<'f, R> {
    reader: &'f mut R,
    window: Vec<u8>,
    from: usize,
    to: usize,
    /// Offset in the file of the byte at `from`.
    offset: u64,
}

impl<'f, R: Read + Seek> Source<'f, R> {
    pub(crate) fn new(reader: &'f mut R, offset: u64) -> io::Result<Self> {
        reader.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            reader,
            window: vec![0; WINDOW],
            from: 0,
            to: 0,
            offset,
        })
    }

    /// Offset in the file of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads elsewhere in the file, then stands where it stood: bytes read, fewer than asked at the end of the file.
    pub(crate) fn read_elsewhere(&mut self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.reader.seek(SeekFrom::Start(at))?;
        let mut have = 0;
        while let Some(free) = out.get_mut(have..).filter(|free| !free.is_empty()) {
            match self.reader.read(free) {
                Ok(0) => break,
                Ok(len) => have += len,
                Err(wrong) if wrong.kind() == io::ErrorKind::Interrupted => {}
                Err(wrong) => return Err(wrong),
            }
        }
        let held = u64::try_from(self.to - self.from).unwrap_or_default();
        self.reader.seek(SeekFrom::Start(self.offset + held))?;
        Ok(have)
    }

    /// What is in the window, at least `need` bytes (at most 64 KiB) unless the file ends before.
    #[inline]
    pub(crate) fn fill(&mut self, need: usize) -> io::Result<&[u8]> {
        if self.to - self.from < need {
            self.refill(need)?;
        }
        Ok(self.buffered())
    }

    #[cold]
    fn refill(&mut self, need: usize) -> io::Result<()> {
        self.window.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        while self.to < need {
            let free = self.window.get_mut(self.to..).unwrap_or_default();
            match self.reader.read(free) {
                Ok(0) => break,
                Ok(len) => self.to += len,
                Err(wrong) if wrong.kind() == io::ErrorKind::Interrupted => {}
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(())
    }

    /// What is in the window now.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        self.window.get(self.from..self.to).unwrap_or_default()
    }

    /// The `len` bytes taken last.
    #[inline]
    pub(crate) fn taken(&self, len: usize) -> &[u8] {
        let start = self.from.saturating_sub(len);
        self.window.get(start..self.from).unwrap_or_default()
    }

    /// Moves past `len` bytes of the window.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) {
        let len = len.min(self.to - self.from);
        self.from += len;
        self.offset += u64::try_from(len).unwrap_or_default();
    }

    /// Moves past `len` bytes of the file.
    #[inline]
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<()> {
        match usize::try_from(len) {
            Ok(len) if len <= self.to - self.from => self.take(len),
            _ => {
                self.offset = self.offset.saturating_add(len);
                (self.from, self.to) = (0, 0);
                self.reader.seek(SeekFrom::Start(self.offset))?;
            }
        }
        Ok(())
    }
}

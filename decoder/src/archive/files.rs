//! Files of a source while its plan is made and read: few are open at once, whatever there are.

use super::ArchiveError;
use super::key::{FileKey, Key};
use super::place::{Kept, Place};
use super::read::{FileReader, Located};
use super::source::At;
use std::collections::VecDeque;

/// Files that are open at once: descriptors are short where nobody raised their limit.
const OPEN_FILES: usize = 64;

/// Bytes of copies of objects that lie in the temporary folder at once, or one copy.
const COPIES_BYTES: u64 = 1 << 30;

#[derive(Debug)]
struct Open {
    file: usize,
    reader: FileReader,
    key: Option<FileKey>,
}

/// Files by the order in which they were found.
#[derive(Debug)]
pub(super) struct Files<'a> {
    place: &'a Place,
    key: Option<&'a Key>,
    known: Vec<Kept>,
    /// Used last, last.
    open: VecDeque<Open>,
}

impl<'a> Files<'a> {
    pub(super) fn new(place: &'a Place, key: Option<&'a Key>) -> Self {
        Self {
            place,
            key,
            known: Vec::new(),
            open: VecDeque::new(),
        }
    }

    /// Entries of another file that are wanted; none if it cannot be read to its end.
    pub(super) fn scan(
        &mut self,
        kept: Kept,
        wanted: impl Fn(&Located) -> bool,
    ) -> Result<Vec<At>, ArchiveError> {
        let file = self.known.len();
        self.known.push(kept);
        let reader = &mut self.opened(file)?.reader;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next()? {
            if wanted(&entry) {
                entries.push(At { file, entry });
            }
        }
        Ok(entries)
    }

    /// The message of an entry.
    pub(super) fn message<M: prost::Message + Default>(
        &mut self,
        file: usize,
        entry: &Located,
    ) -> Result<M, ArchiveError> {
        let open = self.opened(file)?;
        open.reader.message(entry, open.key.as_ref())
    }

    fn opened(&mut self, file: usize) -> Result<&mut Open, ArchiveError> {
        let known = self.open.iter().position(|open| open.file == file);
        let open = if let Some(open) = known.and_then(|at| self.open.remove(at)) {
            open
        } else {
            self.make_room(self.known[file].bytes);
            let reader = FileReader::open(self.place, &self.known[file])?;
            let key = reader.key(self.key)?;
            Open { file, reader, key }
        };
        Ok(self.open.push_back_mut(open))
    }

    fn make_room(&mut self, bytes: u64) {
        let taken = |open: &VecDeque<Open>| -> u64 {
            open.iter().map(|open| self.known[open.file].bytes).sum()
        };
        while self.open.len() >= OPEN_FILES
            || (self.place.copies()
                && !self.open.is_empty()
                && taken(&self.open) + bytes > COPIES_BYTES)
        {
            self.open.pop_front();
        }
    }
}

//! The records of a recording that lies in several files.
//!
//! `perf record --threads` writes a directory: `data` has header, events, features and what perf knows of running
//! processes, `data.0`, `data.1` … have what each of its threads took from its rings, without a header. Times tell how they
//! belong together: the file that is behind is read next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Seek};
use std::sync::Arc;

use super::records::Run;
use super::{Cut, EventTable, FileError, FileRecord, FileRecords};

/// Most files of a recording: perf has a thread a CPU at most.
pub const PARTS_MAX: usize = 1 << 13;

/// Number of a file of a directory that `perf record --threads` wrote, by its name: `data.3` is 3, `data` has none.
pub fn part_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("data.")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// Lends the records of all files one by one, about in the order of their times.
#[derive(Debug)]
pub(crate) struct PartRecords<'f, R> {
    events: Arc<EventTable>,
    /// The main file first.
    files: Vec<FileRecords<'f, R>>,
    /// The one that lent last, and its newest time.
    current: usize,
    newest: u64,
    /// The others, by their newest times.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    failure: Option<FileError>,
    ended: bool,
}

impl<'f, R: Read + Seek> PartRecords<'f, R> {
    pub(crate) fn new(main: FileRecords<'f, R>, more: Vec<FileRecords<'f, R>>) -> Self {
        let events = Arc::clone(main.events());
        let waiting = (1..=more.len()).map(|at| Reverse((0, at))).collect();
        let mut files = vec![main];
        files.extend(more);
        Self {
            events,
            files,
            current: 0,
            newest: 0,
            waiting,
            failure: None,
            ended: false,
        }
    }

    /// Whether there is more than one file.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.files.len() > 1
    }

    pub(crate) fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// Reads bytes of the main file that stand elsewhere.
    pub(crate) fn read_elsewhere(&mut self, at: u64, out: &mut [u8]) -> std::io::Result<usize> {
        match self.files.first_mut() {
            Some(main) => main.read_elsewhere(at, out),
            None => Ok(0),
        }
    }

    /// Number of the file that lent last, the main one first.
    pub(crate) fn current(&self) -> u16 {
        u16::try_from(self.current).unwrap_or(u16::MAX)
    }

    /// The first cut of any file.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.files.iter().find_map(FileRecords::cut)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.files.iter().map(FileRecords::skipped).sum()
    }

    /// The bytes of the record lent last.
    #[inline]
    pub(crate) fn lent(&self) -> &[u8] {
        self.files.get(self.current).map_or(&[], FileRecords::lent)
    }

    /// What can be walked at once, see [`FileRecords::run`]: of one file only, as several are read record by record.
    pub(crate) fn run(&self) -> Option<Run<'_>> {
        match self.files.as_slice() {
            [only] => only.run(),
            _ => None,
        }
    }

    /// Passes over the first `len` bytes of the run.
    pub(crate) fn pass(&mut self, len: usize) {
        if let [only] = self.files.as_mut_slice() {
            only.pass(len);
        }
    }

    /// The next record; `None` at the end of all files. What is wrong with one file is said when the others are read.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        if !self.are_several() {
            return match self.files.first_mut() {
                Some(only) => only.next(),
                None => Ok(None),
            };
        }
        while !self.ended {
            if self.step() {
                return match self.files.get(self.current) {
                    Some(file) => file.again().map(Some),
                    None => Ok(None),
                };
            }
        }
        self.failure.take().map_or(Ok(None), Err)
    }

    /// Reads a record of the file that is behind; false if that one has ended.
    fn step(&mut self) -> bool {
        if let Some(Reverse((time, at))) = self.waiting.peek().copied()
            && time < self.newest
        {
            self.waiting.pop();
            self.waiting.push(Reverse((self.newest, self.current)));
            (self.newest, self.current) = (time, at);
        }
        let read = self.files.get_mut(self.current).map(FileRecords::next);
        match read {
            Some(Ok(Some(item))) => {
                let time = self.events.time_of(item.event, &item.record);
                let time = time.filter(|time| *time != u64::MAX);
                self.newest = self.newest.max(time.unwrap_or_default());
                return true;
            }
            Some(Err(wrong)) => {
                self.failure.get_or_insert(wrong);
            }
            Some(Ok(None)) | None => {}
        }
        match self.waiting.pop() {
            Some(Reverse(next)) => (self.newest, self.current) = next,
            None => self.ended = true,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::part_number;

    #[test]
    fn files_of_a_directory_are_known_by_their_names() {
        for (name, number) in [
            ("data.0", Some(0)),
            ("data.17", Some(17)),
            ("data", None),
            ("data.", None),
            ("data.+1", None),
            ("data.old", None),
            ("data.0.bak", None),
            ("data.99999999999", None),
            ("kcore_dir", None),
        ] {
            assert_eq!(part_number(name), number, "{name}");
        }
    }
}

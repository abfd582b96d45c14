//! Rows of several threads put together: what each counted of its samples adds up, and what a row shows of its first sample is
//! of the first one in the file.

use super::keys::Key;
use super::paths::{NO_PATH, Paths};
use super::reader::{FILE_BITS, Frame, NO_FILE, Reader};
use super::rows::Rows;
use std::collections::HashMap;

impl Rows {
    /// The samples that follow are of this chunk of the file. Needed only if rows are to be absorbed.
    pub fn begin(&mut self, chunk: u64) {
        self.settle_waiting();
        self.set_chunk(chunk);
    }

    /// These rows with what others of the same file and keys counted of other samples; neither has counted `children`. To be
    /// settled when all are together.
    #[must_use]
    pub fn with(mut self, mut other: Self) -> Self {
        self.settle_waiting();
        other.settle_waiting();
        let keys = self.keys().to_vec();
        let mut places = Vec::with_capacity(other.len());
        for at in 0..other.len() {
            let Ok(row) = u32::try_from(at) else { break };
            let (event, numbers) = other.numbers_of(row);
            let (reader, from) = (self.reader_mut(), other.reader());
            let both = keys.iter().zip(numbers);
            let numbers: Vec<u64> = both
                .map(|(key, number)| reader.take(*key, number, from))
                .collect();
            let mut first = other.first(at);
            first.data = reader.take_data(first.data, from);
            let place = self.row_with(event, &numbers, first);
            self.add_row(place as usize, &other, at, first);
            places.push(place);
        }
        if let Some(paths) = other.take_paths() {
            self.absorb_paths(&paths, other.reader(), &places);
        }
        self
    }

    fn absorb_paths(&mut self, other: &Paths, from: &Reader, places: &[u32]) {
        let Some(mut paths) = self.take_paths() else {
            return;
        };
        let mut callers_here = HashMap::new();
        let mut here: HashMap<u32, u32> = HashMap::new();
        for share in other.shares() {
            let Some(row) = places.get(share.row as usize) else {
                continue;
            };
            let [leaf, callers] = other.frames_of(share.path);
            let path = *here.entry(share.path).or_insert_with(|| {
                let reader = self.reader_mut();
                let mut frame = |frame: &Frame| Frame {
                    symbol: reader.take_symbol(frame.symbol, from),
                    dso: reader.take_text(frame.dso, from),
                };
                let leaf: Vec<Frame> = leaf.iter().map(&mut frame).collect();
                let callers = other.callers_of(share.path).and_then(|span| {
                    let appended = || paths.append(callers.iter().map(&mut frame));
                    *callers_here.entry(span).or_insert_with(appended)
                });
                callers.map_or(NO_PATH, |callers| paths.path(&leaf, callers))
            });
            paths.add(*row, path, share.samples, share.value);
        }
        self.put_paths(paths, Vec::new());
    }
}

impl Reader {
    pub(super) fn set_chunk(&mut self, chunk: u64) {
        for names in [&mut self.symbols, &mut self.data, &mut self.lines] {
            names.chunk = chunk;
        }
    }

    /// The number here of what a number of another reader means.
    fn take(&mut self, key: Key, number: u64, from: &Self) -> u64 {
        match key {
            Key::Symbol => self.take_symbol(number, from),
            Key::Dso | Key::Comm | Key::DsoDaddr | Key::Member | Key::Srcline | Key::Srcfile => {
                self.take_text(number, from)
            }
            Key::Dcacheline => {
                let (_, [line, owner, event], _) = from.lines.get(number);
                let others = owner >> FILE_BITS << FILE_BITS;
                let place = [line, others ^ self.take_text(owner ^ others, from), event];
                self.lines.take(number, &from.lines, place, true)
            }
            Key::Mem
            | Key::SymbolDaddr
            | Key::Pid
            | Key::Tid
            | Key::Cpu
            | Key::Node
            | Key::Snoop
            | Key::Tlb
            | Key::Locked
            | Key::Blocked
            | Key::LocalWeight
            | Key::Event
            | Key::Context
            | Key::Op
            | Key::Level
            | Key::Outcome
            | Key::Locality
            | Key::Region => number,
        }
    }

    fn take_symbol(&mut self, number: u64, from: &Self) -> u64 {
        let (_, [start, file, last], _) = from.symbols.get(number);
        let file = match file {
            NO_FILE => NO_FILE,
            file => self.take_text(file, from),
        };
        self.symbols
            .take(number, &from.symbols, [start, file, last], false)
    }

    fn take_data(&mut self, number: u64, from: &Self) -> u64 {
        let (_, place, _) = from.data.get(number);
        self.data.take(number, &from.data, place, true)
    }

    fn take_text(&mut self, number: u64, from: &Self) -> u64 {
        self.texts.take_text(number, &from.texts)
    }
}

//! Opens a perf.data file: header, attrs, features; then its records.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use super::header::{FILE_HEADER_LEN, FileHeader, PIPE_HEADER_LEN, Section};
use super::parts::{PARTS_MAX, PartRecords};
use super::records::{Extent, Span};
use super::{
    Cut, CutPart, Event, EventTable, Features, FileError, FileRecords, SortedRecords, TracingData,
    event_name, feature, pipe, simpleperf, spe,
};
use crate::bytes::{Cursor, Order, len64};
use crate::{ATTR_SIZE_VER0, Attr, attr_kind, swap};

/// Most events a file may have. perf itself runs out of file descriptors far earlier.
const MAX_EVENTS: u64 = 1 << 16;
/// Most ids of all events together: 4,096 events on 1,024 CPUs.
const MAX_IDS: u64 = 1 << 22;
/// Largest attr the kernel accepts is a page; 64 KiB pages are the largest.
const MAX_ATTR_SIZE: u64 = 1 << 16;
/// Most bytes of all features read. Tracing data of every tracepoint has about 10 MiB.
const MAX_FEATURES: u64 = 256 << 20;
/// Bytes of an ids section in an attr entry.
const IDS_SECTION: u64 = 16;

/// A perf.data file whose header is read. Records are read with [`PerfFile::records`] in the order
/// of the file or with [`PerfFile::sorted`] in the order perf processes them, as often as wanted.
#[derive(Debug)]
pub struct PerfFile<R> {
    reader: R,
    len: u64,
    /// Further files of a directory, and their bytes.
    parts: Vec<(R, u64)>,
    header: FileHeader,
    features: Features,
    tracing: Option<Arc<TracingData>>,
    events: Arc<EventTable>,
    feature_cut: Option<Cut>,
    /// SPE data of the file, which becomes samples.
    spe: Option<Arc<spe::Trace>>,
}

impl<R: Read + Seek> PerfFile<R> {
    /// Reads header, events and features. A pipe's file is passed over once to find them.
    pub fn open(reader: R) -> Result<Self, FileError> {
        Self::open_parts(reader, Vec::new())
    }

    /// The same for a directory that `perf record --threads` wrote: its file `data`, and the files `data.N`
    /// ([`part_number`](super::part_number)) in the order of their numbers.
    pub fn open_parts(mut reader: R, parts: Vec<R>) -> Result<Self, FileError> {
        too_many("files", len64(parts.len()), len64(PARTS_MAX))?;
        let len = reader.seek(SeekFrom::End(0))?;
        let head = read_at(&mut reader, 0, FILE_HEADER_LEN.min(len))?;
        let header = FileHeader::parse(&head, len)?;
        let mut file = Self {
            reader,
            len,
            parts: Vec::with_capacity(parts.len()),
            header,
            features: Features::new(header.order),
            tracing: None,
            events: Arc::default(),
            feature_cut: None,
            spe: None,
        };
        for mut part in parts {
            let len = part.seek(SeekFrom::End(0))?;
            file.parts.push((part, len));
        }
        if header.pipe {
            let span = file.span();
            let found = pipe::scan(&mut file.reader, span)?;
            file.features = found.features;
            file.tracing = file.features.tracing_data().map(Arc::new);
            let names = found.names;
            file.name_events(found.attrs, |index| names.get(index).cloned().flatten());
        } else {
            let attrs = file.read_attrs()?;
            file.read_features()?;
            file.find_tracing_data(&attrs);
            file.tracing = file.features.tracing_data().map(Arc::new);
            file.name_events(attrs, |_| None);
        }
        file.find_spe()?;
        Ok(file)
    }

    /// Looks among the records for the tracing data of tracepoints that the header does not describe.
    fn find_tracing_data(&mut self, attrs: &[(Attr, Vec<u64>)]) {
        let wanted = |(attr, _): &(Attr, Vec<u64>)| attr.kind == attr_kind::TRACEPOINT;
        let described = self.features.raw(feature::TRACING_DATA).is_some();
        if described || !attrs.iter().any(wanted) {
            return;
        }
        let span = self.span();
        if let Some(bytes) = simpleperf::tracing_data(&mut self.reader, span) {
            self.features.set_raw(feature::TRACING_DATA, bytes);
        }
    }

    /// Looks for SPE data, where there may be any.
    fn find_spe(&mut self) -> Result<(), FileError> {
        let has_trace = self
            .header
            .feature_numbers()
            .any(|number| number == feature::AUXTRACE);
        let may_have = has_trace || self.header.pipe || self.unfinished();
        let events = Arc::clone(&self.events);
        let is_foreign = |event: &Event| event.attr.kind > attr_kind::BREAKPOINT;
        if !may_have || !events.events().iter().any(is_foreign) {
            return Ok(());
        }
        let cpuid = self.features.cpuid().unwrap_or_default();
        let records = self.records()?.without_opening_compressed();
        if let Some((trace, made)) = spe::Trace::find(records, &cpuid, events.events()) {
            self.events = Arc::new(EventTable::clone(&events).with_made(made));
            self.spe = Some(Arc::new(trace));
        }
        Ok(())
    }

    /// What the header says about the file as a whole.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The events.
    pub fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// The header features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Formats of the tracepoints, if the file has them.
    pub fn tracing_data(&self) -> Option<&Arc<TracingData>> {
        self.tracing.as_ref()
    }

    /// Bytes of the file; of a directory, of its file `data`.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// perf never finished the file: it was killed. Its records are read as far as they go; there
    /// are no features.
    pub fn unfinished(&self) -> bool {
        !self.header.pipe && self.header.data.size == 0
    }

    /// The file ends in its header features, behind the records: the first that is not whole.
    pub fn feature_cut(&self) -> Option<Cut> {
        self.feature_cut
    }

    /// There is nothing behind the header of a pipe: the recorder was stopped before it wrote anything.
    pub fn is_bare_pipe(&self) -> bool {
        self.header.pipe && self.len <= PIPE_HEADER_LEN
    }

    pub(super) fn span(&self) -> Span {
        let data = self.header.data;
        let (start, extent) = if self.header.pipe {
            (PIPE_HEADER_LEN, Extent::Pipe)
        } else if self.unfinished() {
            (data.offset, Extent::Unfinished)
        } else {
            (data.offset, Extent::Until(data.end()))
        };
        Span {
            order: self.header.order,
            start,
            extent,
            file_len: self.len,
        }
    }

    pub(super) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The records in the order of the file, from the first; of a directory, those of its file `data`.
    pub fn records(&mut self) -> Result<FileRecords<'_, R>, FileError> {
        let span = self.span();
        FileRecords::new(&mut self.reader, span, Arc::clone(&self.events))
    }

    /// The records in the order perf processes them, from the first, of all files of a directory. SPE data becomes samples of an event of its own, the
    /// last of [`PerfFile::events`].
    pub fn sorted(&mut self) -> Result<SortedRecords<'_, R>, FileError> {
        let (trace, events) = (self.spe.clone(), Arc::clone(&self.events));
        let merge = trace.map(|trace| spe::Merge::new(trace, events));
        let (span, order) = (self.span(), self.header.order);
        let main = FileRecords::new(&mut self.reader, span, Arc::clone(&self.events))?;
        let mut more = Vec::with_capacity(self.parts.len());
        for (part, len) in &mut self.parts {
            let span = Span {
                order,
                start: 0,
                extent: Extent::Until(*len),
                file_len: *len,
            };
            more.push(FileRecords::new(part, span, Arc::clone(&self.events))?);
        }
        Ok(SortedRecords::new(PartRecords::new(main, more)).with_spe(merge))
    }

    /// Attrs with their ids.
    fn read_attrs(&mut self) -> Result<Vec<(Attr, Vec<u64>)>, FileError> {
        let size = self.header.attr_size;
        let min = len64(ATTR_SIZE_VER0) + IDS_SECTION;
        if !(min..=MAX_ATTR_SIZE).contains(&size) {
            return Err(FileError::Header {
                what: "the size of an attr",
                value: size,
            });
        }
        let order = self.header.order;
        let attrs = self.header.attrs;
        self.check_section("the attr section", attrs)?;
        let count = attrs.size / size;
        too_many("events", count, MAX_EVENTS)?;
        let mut out = Vec::new();
        let mut ids_left = MAX_IDS;
        for index in 0..count {
            let entry = read_at(&mut self.reader, attrs.offset + index * size, size)?;
            let index = out.len();
            let split = entry.len().saturating_sub(16);
            let (attr, ids) = entry.split_at_checked(split).unwrap_or_default();
            let attr = Attr::parse_ordered(attr, order)
                .map_err(|source| FileError::Attr { index, source })?;
            let ids = Section::parse(&mut Cursor::with_order(ids, order)).unwrap_or_default();
            self.check_section("an event's ids", ids)?;
            too_many("event ids", ids.size / 8, ids_left)?;
            ids_left -= ids.size / 8;
            let mut ids = read_at(&mut self.reader, ids.offset, ids.size)?;
            if order == Order::Big {
                swap::words(&mut ids);
            }
            out.push((attr, crate::Words::new(&ids).iter().collect()));
        }
        Ok(out)
    }

    fn check_section(&self, what: &'static str, section: Section) -> Result<(), FileError> {
        if section.size != 0 && section.end() > self.len {
            return Err(FileError::Section {
                what,
                offset: section.offset,
                size: section.size,
                file_len: self.len,
            });
        }
        Ok(())
    }

    /// Reads the features. One that lies outside a cut file is left out, and so is what is beyond the file's length in
    /// all: of sections that overlap a file can promise many times what it has.
    fn read_features(&mut self) -> Result<(), FileError> {
        if self.unfinished() {
            return Ok(());
        }
        let numbers: Vec<u32> = self.header.feature_numbers().collect();
        let table = Section {
            offset: self.header.data.end(),
            size: 16 * len64(numbers.len()),
        };
        if table.end() > self.len {
            // Without any of it the data may be cut as well: reading the records will tell.
            self.note_feature_cut(CutPart::FeatureTable, table);
            return Ok(());
        }
        let table = read_at(&mut self.reader, table.offset, table.size)?;
        let mut cursor = Cursor::with_order(&table, self.header.order);
        let mut left = MAX_FEATURES.min(self.len);
        for number in numbers {
            let section = Section::parse(&mut cursor).unwrap_or_default();
            if section.end() > self.len {
                self.note_feature_cut(CutPart::Feature(number), section);
            } else if let Some(after) = left.checked_sub(section.size) {
                left = after;
                let bytes = read_at(&mut self.reader, section.offset, section.size)?;
                self.features.set_raw(number, bytes);
            }
        }
        Ok(())
    }

    fn note_feature_cut(&mut self, what: CutPart, section: Section) {
        self.feature_cut.get_or_insert(Cut {
            at: section.offset,
            have: self.len.saturating_sub(section.offset),
            need: Some(section.size),
            what,
            promised: None,
        });
    }

    /// Names as perf gives them: recorded ones by index, then tracepoints by id, then made up.
    fn name_events(
        &mut self,
        attrs: Vec<(Attr, Vec<u64>)>,
        recorded: impl Fn(usize) -> Option<String>,
    ) {
        let described = self.features.event_desc().unwrap_or_default();
        let mut by_id = HashMap::new();
        for found in self.tracing.iter().flat_map(|data| &data.tracepoints) {
            by_id.entry(found.id).or_insert(found);
        }
        let tracepoint = |attr: &Attr| {
            let found = by_id.get(&attr.config)?;
            (attr.kind == attr_kind::TRACEPOINT).then(|| found.full_name())
        };
        let events = attrs.into_iter().enumerate().map(|(index, (attr, ids))| {
            let name = recorded(index)
                .or_else(|| described.get(index).map(|event| event.name.clone()))
                .or_else(|| tracepoint(&attr))
                .unwrap_or_else(|| event_name(&attr));
            Event::new(attr, ids, name)
        });
        self.events = Arc::new(EventTable::new(events.collect()));
    }
}

fn too_many(what: &'static str, count: u64, limit: u64) -> Result<(), FileError> {
    if count > limit {
        return Err(FileError::TooMany { what, count, limit });
    }
    Ok(())
}

/// Reads `len` bytes at `offset`, both checked against the file before.
pub(super) fn read_at<R: Read + Seek>(
    reader: &mut R,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(offset))?;
    reader.take(len).read_to_end(&mut bytes)?; // grows with what is there
    if len64(bytes.len()) < len {
        return Err(FileError::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

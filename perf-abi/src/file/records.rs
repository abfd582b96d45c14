//! Records in the order of the file.

use std::io::{Read, Seek};
use std::sync::Arc;

use super::inflate::Inflate;
use super::source::Source;
use super::{Cut, CutPart, EventTable, FileError};
use crate::bytes::{Order, len64};
use crate::{HEADER_LEN, RawRecord, RecordError, kind, swap};

/// A record and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileRecord<'a> {
    /// Where it starts in the file; for one out of a compressed record, where that one starts.
    pub offset: u64,
    /// The record, undecoded.
    pub record: RawRecord<'a>,
    /// Index of the event that wrote it; `None` for perf's own records and unknown ids.
    pub event: Option<usize>,
}

/// How far the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// To an offset the header gives.
    Until(u64),
    /// To the end of the file: a pipe's.
    Pipe,
    /// To the end of the file, because perf never finished it.
    Unfinished,
}

/// What a reader of records must know of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Byte order of the recording machine.
    pub(crate) order: Order,
    /// Where the first record is.
    pub(crate) start: u64,
    /// How far the data goes.
    pub(crate) extent: Extent,
    /// Bytes of the file.
    pub(crate) file_len: u64,
}

/// Records that are read and not yet lent, one after the other; the last may be cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the first starts in the file.
    offset: u64,
    /// They are out of a compressed record, which all of them stand for.
    inflated: bool,
}

impl Run<'_> {
    /// Where the record starts in the file that starts here `at` bytes behind the first.
    #[inline]
    pub(crate) fn offset_of(&self, at: usize) -> u64 {
        if self.inflated {
            self.offset
        } else {
            self.offset + len64(at)
        }
    }
}

/// Where the record lies that is lent.
#[derive(Debug, Clone, Copy)]
enum Place {
    Source { offset: u64, len: usize },
    Inflated { offset: u64, len: usize },
}

/// Lends the records of a file one by one, in bounded memory.
#[derive(Debug)]
pub struct FileRecords<'f, R> {
    source: Source<'f, R>,
    span: Span,
    events: Arc<EventTable>,
    inflate: Option<Inflate>,
    /// Off for a first pass that looks for perf's own records only.
    opens_compressed: bool,
    /// Bytes after the record lent last that are not records.
    payload: u64,
    /// Type of the record they belong to.
    payload_of: u32,
    place: Place,
    /// The record lent, turned round, if the file is of the other byte order.
    turned: Vec<u8>,
    skipped: u64,
    cut: Option<Cut>,
    done: bool,
}

impl<'f, R: Read + Seek> FileRecords<'f, R> {
    pub(crate) fn new(
        reader: &'f mut R,
        span: Span,
        events: Arc<EventTable>,
    ) -> Result<Self, FileError> {
        Ok(Self {
            source: Source::new(reader, span.start)?,
            span,
            events,
            inflate: None,
            opens_compressed: true,
            payload: 0,
            payload_of: 0,
            place: Place::Source {
                offset: span.start,
                len: 0,
            },
            turned: Vec::new(),
            skipped: 0,
            cut: None,
            done: false,
        })
    }

    /// Leaves compressed records as they are.
    pub(crate) fn without_opening_compressed(mut self) -> Self {
        self.opens_compressed = false;
        self
    }

    /// Reads bytes of the file that stand elsewhere.
    pub(crate) fn read_elsewhere(&mut self, at: u64, out: &mut [u8]) -> std::io::Result<usize> {
        self.source.read_elsewhere(at, out)
    }

    /// The events of the file.
    pub(crate) fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// Where the file ends too early; known once [`FileRecords::next`] has said `None`.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Records of simpleperf's own that were passed over so far: their meaning is known to simpleperf only.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next record; `None` at the end, also at the end of a file that is cut. After an error
    /// there is nothing more.
    ///
    /// Compressed records are replaced by what is in them; everything else comes as it is, little-endian. The data
    /// that follows AUXTRACE and TRACING_DATA records is skipped, as are simpleperf's own records.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        if self.done {
            return Ok(None);
        }
        match self.advance() {
            Ok(Some(place)) => self.lend(place).map(Some),
            Ok(None) => {
                self.done = true;
                Ok(None)
            }
            Err(wrong) => {
                self.done = true;
                Err(wrong)
            }
        }
    }

    /// What can be walked at once; none where records need care one by one. Records of perf's own among them end it.
    pub(crate) fn run(&self) -> Option<Run<'_>> {
        if self.done || self.payload != 0 || self.span.order == Order::Big {
            return None;
        }
        if let Some(inflate) = &self.inflate {
            let bytes = Some(inflate.buffered()).filter(|bytes| !bytes.is_empty())?;
            let offset = inflate.offset();
            return Some(Run {
                bytes,
                offset,
                inflated: true,
            });
        }
        let (offset, bytes) = (self.source.offset(), self.source.buffered());
        let left = self.end().map(|end| end.saturating_sub(offset));
        let left = left.and_then(|left| usize::try_from(left).ok());
        Some(Run {
            bytes: bytes.get(..left.unwrap_or(usize::MAX)).unwrap_or(bytes),
            offset,
            inflated: false,
        })
    }

    /// Passes over the first `len` bytes of the run.
    pub(crate) fn pass(&mut self, len: usize) {
        match &mut self.inflate {
            Some(inflate) => inflate.take(len),
            None => self.source.take(len),
        }
    }

    /// The bytes of the record lent last.
    #[inline]
    pub(crate) fn lent(&self) -> &[u8] {
        match self.span.order {
            Order::Little => self.as_recorded(),
            Order::Big => &self.turned,
        }
    }

    fn as_recorded(&self) -> &[u8] {
        match self.place {
            Place::Source { len, .. } => self.source.taken(len),
            Place::Inflated { len, .. } => self
                .inflate
                .as_ref()
                .map(|inflate| inflate.taken(len))
                .unwrap_or_default(),
        }
    }

    fn lend(&mut self, place: Place) -> Result<FileRecord<'_>, FileError> {
        self.place = place;
        if self.span.order == Order::Big {
            self.turn();
        }
        self.again()
    }

    /// The record lent last.
    pub(crate) fn again(&self) -> Result<FileRecord<'_>, FileError> {
        let (Place::Source { offset, .. } | Place::Inflated { offset, .. }) = self.place;
        let bytes = self.lent();
        let record =
            RawRecord::new(bytes).map_err(|source| FileError::Record { offset, source })?;
        let event = self.events.event_of(&record);
        Ok(FileRecord {
            offset,
            record,
            event,
        })
    }

    #[cold]
    fn turn(&mut self) {
        let mut turned = std::mem::take(&mut self.turned);
        turned.clear();
        turned.extend_from_slice(self.as_recorded());
        swap::record(&mut turned, &self.events);
        self.turned = turned;
    }

    /// Finds the next record that is not a compressed one.
    fn advance(&mut self) -> Result<Option<Place>, FileError> {
        loop {
            if let Some(place) = self.inflated()? {
                return Ok(Some(place));
            }
            if self.payload != 0 && !self.skip_payload()? {
                return Ok(None);
            }
            let offset = self.source.offset();
            if self.end().is_some_and(|end| offset >= end) {
                self.note_inflate_cut();
                return Ok(None);
            }
            let Some((kind, len)) = self.whole_record(offset)? else {
                return Ok(None);
            };
            self.source.take(len);
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 if self.opens_compressed => {
                    self.inflate_record(kind, len, offset)?;
                }
                _ if len == 0 => {} // simpleperf's own, passed over
                _ => {
                    self.payload = self.payload_len(kind, len);
                    self.payload_of = kind;
                    return Ok(Some(Place::Source { offset, len }));
                }
            }
        }
    }

    fn end(&self) -> Option<u64> {
        match self.span.extent {
            Extent::Until(end) => Some(end),
            Extent::Pipe | Extent::Unfinished => None,
        }
    }

    /// How far there may be data: to the promised end or the file's.
    fn limit(&self) -> u64 {
        let end = self.end().unwrap_or(u64::MAX);
        end.min(self.span.file_len)
    }

    /// Passes over what follows a record; false if it is not all there.
    fn skip_payload(&mut self) -> Result<bool, FileError> {
        let len = std::mem::take(&mut self.payload);
        self.skip_whole(len, CutPart::DataOf(self.payload_of))
    }

    /// Passes over `len` bytes; false, with the cut noted, if they are not all there.
    fn skip_whole(&mut self, len: u64, what: CutPart) -> Result<bool, FileError> {
        let at = self.source.offset();
        let have = self.limit().saturating_sub(at);
        if have < len {
            self.cut = Some(Cut {
                at,
                have,
                need: Some(len),
                what,
                promised: self.end(),
            });
            return Ok(false);
        }
        self.source.skip(len)?;
        Ok(true)
    }

    /// A record that began in a compressed one and never ended.
    fn note_inflate_cut(&mut self) {
        if let Some(inflate) = &self.inflate
            && !inflate.buffered().is_empty()
        {
            let need = self.span.order.u16_at(inflate.buffered(), 6);
            self.cut = Some(Cut {
                at: inflate.offset(),
                have: len64(inflate.buffered().len()),
                need: need.map(u64::from),
                what: CutPart::Compressed,
                promised: self.end(),
            });
        }
    }

    /// Type and size of the record at the source's place, once all of it is in the window; `None`
    /// at the end or cut. Records of simpleperf's own come with size 0, passed over already.
    fn whole_record(&mut self, offset: u64) -> Result<Option<(u32, usize)>, FileError> {
        let order = self.span.order;
        let head = self.source.fill(HEADER_LEN)?;
        if head.is_empty() && self.span.extent == Extent::Pipe {
            self.note_inflate_cut();
            return Ok(None);
        }
        let (Some(kind), Some(size)) = (order.u32_at(head, 0), order.u16_at(head, 6)) else {
            if head.is_empty() && self.span.extent == Extent::Unfinished {
                self.note_inflate_cut();
            } else {
                self.ends_early(offset, CutPart::Header, None);
            }
            return Ok(None);
        };
        if kind::SIMPLEPERF_TYPES.contains(&kind) {
            return self.skip_simpleperf(kind, size, offset);
        }
        let len = usize::from(size);
        if len < HEADER_LEN {
            let source = RecordError::SizeTooSmall(size);
            return Err(FileError::Record { offset, source });
        }
        let past_end = self
            .end()
            .is_some_and(|end| offset.saturating_add(size.into()) > end);
        if self.source.fill(len)?.len() < len || past_end {
            self.ends_early(offset, CutPart::Record(kind), Some(size.into()));
            return Ok(None);
        }
        Ok(Some((kind, len)))
    }

    /// `struct { u32 type; u16 size_high; u16 size_low; }`
    fn skip_simpleperf(
        &mut self,
        kind: u32,
        low: u16,
        offset: u64,
    ) -> Result<Option<(u32, usize)>, FileError> {
        let high = self.span.order.u16_at(self.source.buffered(), 4);
        let len = (u64::from(high.unwrap_or_default()) << 16) | u64::from(low);
        if len < len64(HEADER_LEN) {
            let source = RecordError::SizeTooSmall(low);
            return Err(FileError::Record { offset, source });
        }
        if !self.skip_whole(len, CutPart::Record(kind))? {
            return Ok(None);
        }
        self.skipped += 1;
        Ok(Some((kind, 0)))
    }

    fn ends_early(&mut self, at: u64, what: CutPart, need: Option<u64>) {
        let have = len64(self.source.buffered().len());
        self.cut = Some(Cut {
            at,
            have: self
                .end()
                .map_or(have, |end| have.min(end.saturating_sub(at))),
            need,
            what,
            promised: self.end(),
        });
    }

    /// The next record out of the compressed ones.
    fn inflated(&mut self) -> Result<Option<Place>, FileError> {
        let Some(inflate) = &mut self.inflate else {
            return Ok(None);
        };
        if !inflate.fill(HEADER_LEN)? {
            return Ok(None);
        }
        let offset = inflate.offset();
        let size = self
            .span
            .order
            .u16_at(inflate.buffered(), 6)
            .unwrap_or_default();
        let len = usize::from(size);
        if len < HEADER_LEN {
            let source = RecordError::SizeTooSmall(size);
            return Err(FileError::Record { offset, source });
        }
        if !inflate.fill(len)? {
            return Ok(None); // the rest is in the next compressed record
        }
        inflate.take(len);
        Ok(Some(Place::Inflated { offset, len }))
    }

    fn inflate_record(&mut self, kind: u32, len: usize, offset: u64) -> Result<(), FileError> {
        let record = self.source.taken(len);
        let data = if kind == kind::COMPRESSED2 {
            // { header; u64 data_size; char data[data_size]; } padded to 8 bytes
            let claimed = self
                .span
                .order
                .u64_at(record, HEADER_LEN)
                .unwrap_or_default();
            let data = record.get(HEADER_LEN + 8..).unwrap_or_default();
            let claimed_len = usize::try_from(claimed).ok();
            claimed_len
                .and_then(|len| data.get(..len))
                .ok_or(FileError::Record {
                    offset,
                    source: RecordError::CountTooLarge {
                        what: "compressed data",
                        count: claimed,
                        have: data.len(),
                    },
                })?
        } else {
            record.get(HEADER_LEN..).unwrap_or_default()
        };
        let inflate = match &mut self.inflate {
            Some(inflate) => inflate,
            none => none.insert(Inflate::new()?),
        };
        inflate.push(data, offset);
        Ok(())
    }

    /// Bytes that follow AUXTRACE and TRACING_DATA records outside of them.
    fn payload_len(&self, kind: u32, len: usize) -> u64 {
        let order = self.span.order;
        let record = || self.source.taken(len);
        match kind {
            kind::AUXTRACE => order.u64_at(record(), HEADER_LEN).unwrap_or_default(),
            kind::HEADER_TRACING_DATA => {
                let size = order.u32_at(record(), HEADER_LEN).unwrap_or_default();
                // simpleperf has the data inside the record.
                if len64(len) >= len64(TRACING_DATA_LEN) + u64::from(size) {
                    0
                } else {
                    size.into()
                }
            }
            _ => 0,
        }
    }
}

/// Bytes of a TRACING_DATA record whose data follows it.
pub(super) const TRACING_DATA_LEN: usize = HEADER_LEN + 4;

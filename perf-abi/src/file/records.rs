//! Records in the order of the file.

use std::io::{Read, Seek};
use std::sync::Arc;

use super::inflate::Inflate;
use super::source::Source;
use super::{EventTable, FileError};
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{HEADER_LEN, RawRecord, RecordError, kind};

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

/// The file ends before its data does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Where the incomplete record starts, or would start, in the file.
    pub at: u64,
    /// Bytes of it that are there.
    pub have: u64,
    /// What the header promised: where the data should end. `None` if the file was never finished
    /// (perf was killed) or is a pipe's.
    pub promised: Option<u64>,
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
    extent: Extent,
    events: Arc<EventTable>,
    inflate: Option<Inflate>,
    /// Off for a first pass that looks for perf's own records only.
    opens_compressed: bool,
    /// Bytes after the record lent last that are not records.
    payload: u64,
    place: Place,
    cut: Option<Cut>,
    done: bool,
}

impl<'f, R: Read + Seek> FileRecords<'f, R> {
    pub(crate) fn new(
        reader: &'f mut R,
        start: u64,
        extent: Extent,
        events: Arc<EventTable>,
    ) -> Result<Self, FileError> {
        Ok(Self {
            source: Source::new(reader, start)?,
            extent,
            events,
            inflate: None,
            opens_compressed: true,
            payload: 0,
            place: Place::Source {
                offset: start,
                len: 0,
            },
            cut: None,
            done: false,
        })
    }

    /// Leaves compressed records as they are.
    pub(crate) fn without_opening_compressed(mut self) -> Self {
        self.opens_compressed = false;
        self
    }

    /// The events of the file.
    pub(crate) fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// Where the file ends too early; known once [`FileRecords::next`] has said `None`.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The next record; `None` at the end, also at the end of a file that is cut. After an error
    /// there is nothing more.
    ///
    /// Compressed records are replaced by what is in them; everything else comes as it is. The data
    /// that follows AUXTRACE and TRACING_DATA records is skipped.
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

    /// The bytes of the record lent last.
    pub(crate) fn lent(&self) -> &[u8] {
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
        let (Place::Source { offset, .. } | Place::Inflated { offset, .. }) = place;
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

    /// Finds the next record that is not a compressed one.
    fn advance(&mut self) -> Result<Option<Place>, FileError> {
        loop {
            if let Some(place) = self.inflated()? {
                return Ok(Some(place));
            }
            self.source.skip(std::mem::take(&mut self.payload))?;
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
                _ => {
                    self.payload = self.payload_len(kind, len);
                    return Ok(Some(Place::Source { offset, len }));
                }
            }
        }
    }

    fn end(&self) -> Option<u64> {
        match self.extent {
            Extent::Until(end) => Some(end),
            Extent::Pipe | Extent::Unfinished => None,
        }
    }

    /// A record that began in a compressed one and never ended.
    fn note_inflate_cut(&mut self) {
        if let Some(inflate) = &self.inflate
            && !inflate.buffered().is_empty()
        {
            self.cut = Some(Cut {
                at: inflate.offset(),
                have: crate::bytes::len64(inflate.buffered().len()),
                promised: self.end(),
            });
        }
    }

    /// Type and size of the record at the source's place, once all of it is in the window; `None`
    /// at the end or cut.
    fn whole_record(&mut self, offset: u64) -> Result<Option<(u32, usize)>, FileError> {
        let head = self.source.fill(HEADER_LEN)?;
        if head.is_empty() && self.extent == Extent::Pipe {
            self.note_inflate_cut();
            return Ok(None);
        }
        let (Some(kind), Some(size)) = (u32_at(head, 0), u16_at(head, 6)) else {
            self.ends_early(offset);
            return Ok(None);
        };
        let len = usize::from(size);
        if len < HEADER_LEN {
            let source = RecordError::SizeTooSmall(size);
            return Err(FileError::Record { offset, source });
        }
        let past_end = self
            .end()
            .is_some_and(|end| offset.saturating_add(size.into()) > end);
        if self.source.fill(len)?.len() < len || past_end {
            self.ends_early(offset);
            return Ok(None);
        }
        Ok(Some((kind, len)))
    }

    fn ends_early(&mut self, at: u64) {
        let have = crate::bytes::len64(self.source.buffered().len());
        self.cut = Some(Cut {
            at,
            have: self
                .end()
                .map_or(have, |end| have.min(end.saturating_sub(at))),
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
        let size = u16_at(inflate.buffered(), 6).unwrap_or_default();
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
            let claimed = u64_at(record, HEADER_LEN).unwrap_or_default();
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
        let record = self.source.taken(len);
        let size = match kind {
            kind::AUXTRACE => u64_at(record, HEADER_LEN),
            kind::HEADER_TRACING_DATA => u32_at(record, HEADER_LEN).map(u64::from),
            _ => None,
        };
        size.unwrap_or_default()
    }
}

//! Writes perf.data files that perf reads.
//!
//! ```text
//! header | ids of the events | attrs | records … | feature table | features
//! ```

use std::io::{Seek, SeekFrom, Write};

use super::header::{FILE_HEADER_LEN, FileHeader, Section};
use super::{EventDesc, Features, FileError, feature};
use crate::bytes::{Order, len64};
use crate::{ATTR_SIZE_KNOWN, Attr, HEADER_LEN, RawRecord, kind};

/// Bytes of attr that perf has read since 5.13: enough unless later fields are in use.
const ATTR_SIZE_READABLE: usize = 128;

/// An event to write: what [`EventDesc`] says.
pub type EventSpec = EventDesc;

/// Writes a perf.data file: events first, then records, then features.
///
/// A file that is never finished is read up to its last record, as perf's own.
#[derive(Debug)]
pub struct FileWriter<W> {
    writer: W,
    header: FileHeader,
    events: Vec<EventSpec>,
    records: u64,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Writes header, attrs and ids to the start of `writer`. Events on several CPUs need distinct
    /// ids, and `IDENTIFIER` or `ID` in their `sample_type`.
    pub fn new(mut writer: W, events: &[EventSpec]) -> Result<Self, FileError> {
        let size = attr_size(events.iter().map(|event| &event.attr));
        let mut body = Vec::new();
        let mut sections = Vec::with_capacity(events.len());
        for event in events {
            sections.push(Section {
                offset: FILE_HEADER_LEN + len64(body.len()),
                size: 8 * len64(event.ids.len()),
            });
            body.extend(event.ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        let attrs_at = FILE_HEADER_LEN + len64(body.len());
        for (event, ids) in events.iter().zip(sections) {
            body.extend_from_slice(&event.attr.encode(size));
            ids.put(&mut body);
        }
        let data_at = FILE_HEADER_LEN + len64(body.len());
        let header = FileHeader {
            order: Order::Little,
            v1: false,
            pipe: false,
            attr_size: len64(size + 16),
            attrs: Section {
                offset: attrs_at,
                size: data_at - attrs_at,
            },
            data: Section {
                offset: data_at,
                size: 0,
            },
            features: [0; 4],
        };
        writer.seek(SeekFrom::Start(0))?;
        writer.write_all(&header.encode())?;
        writer.write_all(&body)?;
        Ok(Self {
            writer,
            header,
            events: events.to_vec(),
            records: 0,
        })
    }

    /// Appends whole records, as they come from a ring or from [`crate::encode`].
    pub fn write_records(&mut self, records: &[u8]) -> Result<(), FileError> {
        let mut rest = records;
        while !rest.is_empty() {
            let offset = self.header.data.end() + len64(records.len() - rest.len());
            let (_, after) = RawRecord::split_first(rest)
                .map_err(|source| FileError::Record { offset, source })?;
            self.records += 1;
            rest = after;
        }
        self.writer.write_all(records)?;
        self.header.data.size += len64(records.len());
        Ok(())
    }

    /// Appends the data that follows an AUXTRACE record, which was written last and gives its size.
    pub fn write_trace(&mut self, data: &[u8]) -> Result<(), FileError> {
        self.writer.write_all(data)?;
        self.header.data.size += len64(data.len());
        Ok(())
    }

    /// Ends a round: records written later are not older than what the round before this one ended
    /// with. Without rounds perf holds the whole file in memory to sort it.
    pub fn finish_round(&mut self) -> Result<(), FileError> {
        let mut record = Vec::with_capacity(HEADER_LEN);
        crate::encode::raw(&mut record, kind::FINISHED_ROUND, 0, &[])?;
        self.write_records(&record)
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the features and completes the header. The names of the events become a feature unless
    /// `features` has one of that number.
    pub fn finish(mut self, features: &Features) -> Result<W, FileError> {
        let mut features = features.clone();
        if features.raw(feature::EVENT_DESC).is_none() && !self.events.is_empty() {
            features.set_event_desc(&self.events);
        }
        let mut at = self.header.data.end() + 16 * len64(features.iter().count());
        let mut table = Vec::new();
        for (number, bytes) in features.iter() {
            let size = len64(bytes.len());
            Section { offset: at, size }.put(&mut table);
            at += size;
            let word = usize::try_from(number / 64)
                .ok()
                .and_then(|word| self.header.features.get_mut(word));
            match word {
                Some(word) => *word |= 1 << (number % 64),
                None => {
                    return Err(FileError::TooMany {
                        what: "feature numbers",
                        count: number.into(),
                        limit: 255,
                    });
                }
            }
        }
        self.writer.write_all(&table)?;
        for (_, bytes) in features.iter() {
            self.writer.write_all(bytes)?;
        }
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer.write_all(&self.header.encode())?;
        self.writer.seek(SeekFrom::End(0))?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}

/// The smallest attr size perf is sure to read that holds everything in use.
pub(super) fn attr_size<'a>(attrs: impl Iterator<Item = &'a Attr>) -> usize {
    let in_use = |attr: &Attr| match attr {
        attr if attr.unknown.iter().any(|byte| *byte != 0) => ATTR_SIZE_KNOWN + attr.unknown.len(),
        attr if attr.config4 != 0 => ATTR_SIZE_KNOWN,
        attr if attr.config3 != 0 => ATTR_SIZE_KNOWN - 8,
        _ => ATTR_SIZE_READABLE,
    };
    attrs.map(in_use).max().unwrap_or(ATTR_SIZE_READABLE)
}

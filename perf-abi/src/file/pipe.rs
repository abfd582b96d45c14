//! What a pipe's file says in records instead of a header.

use std::collections::HashMap;
use std::io::{Read, Seek};
use std::sync::Arc;

use super::reader::read_at;
use super::records::{Span, TRACING_DATA_LEN};
use super::{EventTable, Features, FileError, FileRecords, UserRecord, feature};
use crate::Attr;
use crate::bytes::len64;

/// Most events taken, as in a file's header.
const MAX_EVENTS: usize = 1 << 16;
/// Most build ids taken: more files than a process can map.
const MAX_BUILD_IDS: usize = 1 << 16;
/// Largest tracing data read, in bytes.
const MAX_TRACING: u64 = 256 << 20;

/// Events and features found in records.
pub(super) struct Found {
    pub(super) attrs: Vec<(Attr, Vec<u64>)>,
    /// Names from `EVENT_UPDATE` records, by index of the event.
    pub(super) names: Vec<Option<String>>,
    pub(super) features: Features,
}

/// Passes over the whole file once. A malformed record ends the pass: reading the records will
/// report it.
pub(super) fn scan<R: Read + Seek>(reader: &mut R, span: Span) -> Result<Found, FileError> {
    let mut found = Found {
        attrs: Vec::new(),
        names: Vec::new(),
        features: Features::new(span.order),
    };
    let mut tracing = None;
    let mut build_ids = 0;
    // Events by id: names come by id, one for each of thousands of events.
    let mut by_id = HashMap::new();
    let events = Arc::new(EventTable::default());
    let mut records = FileRecords::new(reader, span, events)?.without_opening_compressed();
    while let Ok(Some(item)) = records.next() {
        let after = |len| item.offset.saturating_add(len64(len));
        match UserRecord::parse(item.record) {
            Some(UserRecord::HeaderAttr { attr, ids }) if found.attrs.len() < MAX_EVENTS => {
                for id in ids.iter() {
                    by_id.entry(id).or_insert(found.attrs.len());
                }
                found.attrs.push((attr, ids.iter().collect()));
                found.names.push(None);
            }
            Some(UserRecord::HeaderFeature { number, data }) => {
                if let Ok(number) = u32::try_from(number) {
                    found.features.set_raw(number, data.to_vec());
                }
            }
            Some(UserRecord::BuildId(entry)) if build_ids < MAX_BUILD_IDS => {
                build_ids += 1;
                found.features.add_build_id(entry);
            }
            Some(UserRecord::TracingData { size }) if u64::from(size) <= MAX_TRACING => {
                // Behind the record, or in it: then the record is as long.
                let inside = item.record.size() > TRACING_DATA_LEN.next_multiple_of(8);
                let from = if inside {
                    TRACING_DATA_LEN
                } else {
                    item.record.size()
                };
                tracing.get_or_insert((after(from), u64::from(size)));
            }
            Some(UserRecord::EventUpdate(update)) => {
                if let (Some(name), Some(slot)) = (
                    update.name(),
                    by_id
                        .get(&update.id)
                        .and_then(|index| found.names.get_mut(*index)),
                ) {
                    *slot = Some(String::from_utf8_lossy(name).into_owned());
                }
            }
            _ => {}
        }
    }
    if let Some((offset, size)) = tracing
        && let Ok(bytes) = read_at(reader, offset, size)
    {
        found.features.set_raw(feature::TRACING_DATA, bytes);
    }
    Ok(found)
}

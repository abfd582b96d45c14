//! The two changes records of a file get before they are sent.

use std::collections::HashMap;

use memwide_perf_abi::file::{Event, Features};
use memwide_perf_abi::{
    Attr, BuildId, FileId, HEADER_LEN, Mmap2, RawRecord, Record, SampleLayout, TrailerLayout,
    encode, kind, misc, sample,
};

/// How records of one event are changed.
#[derive(Debug)]
struct Change {
    /// The event had no time stamps: where one goes in a sample, and the layout with it.
    stamp: Option<Stamp>,
    layout: Option<SampleLayout>,
}

#[derive(Debug)]
struct Stamp {
    /// Byte of a sample before which the time goes.
    sample_at: usize,
    /// Bytes of the sample id at the end of other records, before.
    old_trailer: usize,
    /// Byte of the sample id before which the time goes.
    trailer_at: usize,
    /// Bytes of a sample id where there was none.
    fresh_trailer: usize,
}

/// Changes records, deterministically.
#[derive(Debug)]
pub(super) struct Changes {
    events: Vec<Change>,
    attrs: Vec<Attr>,
    build_ids: HashMap<Vec<u8>, BuildId>,
    /// Records so far: time stamps of those that have none.
    order: u64,
    made_up: bool,
}

impl Changes {
    pub(super) fn new(events: &[Event], features: &Features) -> Self {
        let (changes, attrs) = events.iter().map(change).unzip();
        let build_ids = features.build_ids().into_iter().map(|entry| {
            let mut name = entry.filename;
            while name.last() == Some(&0) {
                name.pop();
            }
            (name, entry.build_id)
        });
        let made_up = events.iter().any(|event| !event.attr.samples(sample::TIME));
        Self {
            events: changes,
            attrs,
            build_ids: build_ids.collect(),
            order: 0,
            made_up,
        }
    }

    /// The attrs of the records as they leave.
    pub(super) fn attrs(&self) -> &[Attr] {
        &self.attrs
    }

    /// Times are made up: the n-th record is at nanosecond n.
    pub(super) fn makes_times_up(&self) -> bool {
        self.made_up
    }

    /// Appends the record as it leaves and gives its time.
    pub(super) fn apply(
        &mut self,
        record: RawRecord<'_>,
        event: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        self.order += 1;
        let change = event.and_then(|event| self.events.get(event));
        let start = out.len();
        match change.and_then(|change| change.stamp.as_ref()) {
            Some(stamp) => put_stamped(record, stamp, self.order, out),
            None => out.extend_from_slice(record.bytes()),
        }
        let layout = change.and_then(|change| change.layout.as_ref());
        if matches!(record.kind, kind::MMAP | kind::MMAP2)
            && !self.build_ids.is_empty()
            && let Some(identified) = self.identify(out.get(start..)?, layout)
        {
            out.truncate(start);
            out.extend_from_slice(&identified);
        }
        let record = RawRecord::new(out.get(start..)?).ok()?;
        layout?.time_of(&record)
    }

    /// A mapping with the build id the header gives its file.
    fn identify(&self, record: &[u8], layout: Option<&SampleLayout>) -> Option<Vec<u8>> {
        let raw = RawRecord::new(record).ok()?;
        let mapping = match Record::parse(raw).ok()? {
            Record::Mmap2(mapping) if mapping.build_id().is_none() => mapping,
            Record::Mmap(old) => Mmap2 {
                pid: old.pid,
                tid: old.tid,
                addr: old.addr,
                len: old.len,
                pgoff: old.pgoff,
                file: FileId::BuildId(BuildId::default()),
                prot: if old.data { 3 } else { 5 },
                flags: 2,
                filename: old.filename,
                data: old.data,
            },
            _ => return None,
        };
        let id = *self.build_ids.get(file_name(mapping.filename))?;
        let mapping = Mmap2 {
            file: FileId::BuildId(id),
            ..mapping
        };
        let trailer: Option<TrailerLayout> = layout.map(SampleLayout::trailer);
        let id = trailer.and_then(|trailer| Some((trailer, trailer.parse(&raw).ok()?)));
        let id = id.as_ref().map(|(trailer, id)| (*trailer, id));
        let mut out = Vec::with_capacity(record.len() + 32);
        let keep = raw.misc & !(misc::MMAP_BUILD_ID | misc::MMAP_DATA);
        encode::record(&mut out, &Record::Mmap2(mapping), keep, id).ok()?;
        Some(out)
    }
}

/// `[kernel.kallsyms]_text` is `[kernel.kallsyms]` in the table of build ids.
fn file_name(name: &[u8]) -> &[u8] {
    match name.iter().position(|byte| *byte == b']') {
        Some(end) if name.first() == Some(&b'[') => name.get(..=end).unwrap_or(name),
        _ => name,
    }
}

fn change(event: &Event) -> (Change, Attr) {
    let attr = &event.attr;
    if attr.samples(sample::TIME) {
        let change = Change {
            stamp: None,
            layout: event.layout.ok(),
        };
        return (change, attr.clone());
    }
    let mut stamped = attr.clone();
    stamped.sample_type |= sample::TIME;
    stamped.flags = attr.flags.with_sample_id_all(true);
    let layout = SampleLayout::new(&stamped).ok();
    let words = |mask: u64| 8 * (attr.sample_type & mask).count_ones() as usize;
    let old_trailer = event
        .layout
        .as_ref()
        .map_or(0, |layout| layout.trailer().len());
    let stamp = layout.as_ref().map(|layout| Stamp {
        sample_at: HEADER_LEN + words(sample::IDENTIFIER | sample::IP | sample::TID),
        old_trailer,
        trailer_at: words(sample::TID),
        fresh_trailer: if attr.flags.sample_id_all() {
            0
        } else {
            layout.trailer().len()
        },
    });
    let sent = if layout.is_some() {
        stamped
    } else {
        attr.clone()
    };
    (Change { stamp, layout }, sent)
}

/// The record with a time: in samples behind ip and tid, in others within the sample id.
fn put_stamped(record: RawRecord<'_>, stamp: &Stamp, time: u64, out: &mut Vec<u8>) {
    let bytes = record.bytes();
    let start = out.len();
    if record.is_sample() {
        let (before, after) = bytes
            .split_at_checked(stamp.sample_at)
            .unwrap_or((bytes, &[]));
        out.extend_from_slice(before);
        out.extend_from_slice(&time.to_le_bytes());
        out.extend_from_slice(after);
    } else {
        let body_end = bytes.len().saturating_sub(stamp.old_trailer);
        let (body, trailer) = bytes.split_at_checked(body_end).unwrap_or((bytes, &[]));
        out.extend_from_slice(body);
        if stamp.fresh_trailer == 0 {
            let at = stamp.trailer_at;
            let (before, after) = trailer.split_at_checked(at).unwrap_or((trailer, &[]));
            out.extend_from_slice(before);
            out.extend_from_slice(&time.to_le_bytes());
            out.extend_from_slice(after);
        } else {
            // A whole sample id of which only the time is known.
            let mut fresh = vec![0; stamp.fresh_trailer];
            if let Some(place) = fresh.get_mut(stamp.trailer_at..stamp.trailer_at + 8) {
                place.copy_from_slice(&time.to_le_bytes());
            }
            out.extend_from_slice(&fresh);
        }
    }
    // The header's size: the longest record the kernel writes leaves room, a longer one stays as it was.
    if let Ok(size) = u16::try_from(out.len() - start) {
        if let Some(place) = out.get_mut(start + 6..start + 8) {
            place.copy_from_slice(&size.to_le_bytes());
        }
    } else {
        out.truncate(start);
        out.extend_from_slice(bytes);
    }
}

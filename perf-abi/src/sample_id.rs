//! The sample id that ends records other than samples, and where a record's event id is before its
//! event is known.

use crate::bytes::{Put, u32_at, u64_at};
use crate::{Attr, HEADER_LEN, RawRecord, RecordError, sample};

/// The fields `sample_id_all` appends to records other than samples; `None` where the event did not
/// ask for the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SampleId {
    /// Process id, in the namespace of the reader; `u32::MAX` for none.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// Event id.
    pub id: Option<u64>,
    /// Stream id.
    pub stream_id: Option<u64>,
    /// CPU number.
    pub cpu: Option<u32>,
}

const TID: usize = 0;
const TIME: usize = 1;
const ID: usize = 2;
const STREAM_ID: usize = 3;
const CPU: usize = 4;
const IDENTIFIER: usize = 5;
const BITS: [u64; 6] = [
    sample::TID,
    sample::TIME,
    sample::ID,
    sample::STREAM_ID,
    sample::CPU,
    sample::IDENTIFIER,
];

/// Where the fields of the sample id stand, counted from the record's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrailerLayout {
    /// Bytes from the field's start to the record's end; 0 = not there.
    from_end: [u8; 6],
    len: u8,
}

impl TrailerLayout {
    pub(crate) fn new(sample_type: u64, sample_id_all: bool) -> Self {
        let mut layout = Self::default();
        if sample_id_all {
            for (from_end, bit) in layout.from_end.iter_mut().zip(BITS).rev() {
                if sample_type & bit != 0 {
                    layout.len += 8;
                    *from_end = layout.len;
                }
            }
        }
        layout
    }

    /// Bytes of the sample id; 0 if the event does not write it.
    pub fn len(self) -> usize {
        self.len.into()
    }

    /// Whether the event writes no sample id.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    fn at(record: &RawRecord<'_>, from_end: u8) -> Option<usize> {
        let at = record.size().checked_sub(usize::from(from_end))?;
        (from_end != 0 && at >= HEADER_LEN).then_some(at)
    }

    /// Bytes of `record` at which pairs of 32-bit numbers start.
    pub(crate) fn pairs(self, record: &RawRecord<'_>) -> [Option<usize>; 2] {
        [TID, CPU].map(|field| Self::at(record, *self.from_end.get(field)?))
    }

    pub(crate) fn time_of(self, record: &RawRecord<'_>) -> Option<u64> {
        u64_at(record.bytes(), Self::at(record, self.from_end[TIME])?)
    }

    /// Reads the sample id of `record`, which must be of an event with this layout, not a sample.
    pub fn parse(self, record: &RawRecord<'_>) -> Result<SampleId, RecordError> {
        if record.body().len() < self.len() {
            return Err(RecordError::Truncated {
                need: self.len(),
                have: record.body().len(),
            });
        }
        let u32_of = |from_end: u8, add: usize| {
            u32_at(
                record.bytes(),
                Self::at(record, from_end)?.checked_add(add)?,
            )
        };
        let u64_of = |from_end: u8| u64_at(record.bytes(), Self::at(record, from_end)?);
        Ok(SampleId {
            pid: u32_of(self.from_end[TID], 0),
            tid: u32_of(self.from_end[TID], 4),
            time: u64_of(self.from_end[TIME]),
            id: u64_of(self.from_end[IDENTIFIER]).or_else(|| u64_of(self.from_end[ID])),
            stream_id: u64_of(self.from_end[STREAM_ID]),
            cpu: u32_of(self.from_end[CPU], 0),
        })
    }

    /// Appends `id`; fields that are `None` are written as 0.
    pub(crate) fn put(self, id: &SampleId, out: &mut Vec<u8>) {
        if self.from_end[TID] != 0 {
            out.put_u32(id.pid.unwrap_or_default());
            out.put_u32(id.tid.unwrap_or_default());
        }
        for (from_end, value) in [
            (self.from_end[TIME], id.time),
            (self.from_end[ID], id.id),
            (self.from_end[STREAM_ID], id.stream_id),
            (self.from_end[CPU], id.cpu.map(u64::from)),
            (self.from_end[IDENTIFIER], id.id),
        ] {
            if from_end != 0 {
                out.put_u64(value.unwrap_or_default());
            }
        }
    }
}

/// Where the event id stands in the records of several events, so that it can be read before one
/// knows which event wrote a record. The rule is perf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdPosition {
    /// Word of a sample's body.
    sample_word: usize,
    /// Words before the end of another record; `None` if those carry no id.
    words_from_end: Option<usize>,
}

impl IdPosition {
    /// The place in the records of one event; `None` if they carry no id.
    pub fn of(attr: &Attr) -> Option<Self> {
        let count = |mask: u64| usize::try_from((attr.sample_type & mask).count_ones()).ok();
        let (sample_word, words_from_end) = if attr.samples(sample::IDENTIFIER) {
            (0, 1)
        } else if attr.samples(sample::ID) {
            let before = sample::IP | sample::TID | sample::TIME | sample::ADDR;
            (count(before)?, 1 + count(sample::CPU | sample::STREAM_ID)?)
        } else {
            return None;
        };
        Some(Self {
            sample_word,
            words_from_end: attr.flags.sample_id_all().then_some(words_from_end),
        })
    }

    /// The place that all of `attrs` share; `None` if they have none in common.
    pub fn common<'a>(attrs: impl IntoIterator<Item = &'a Attr>) -> Option<Self> {
        let mut places = attrs.into_iter().map(Self::of);
        let first = places.next()??;
        places.all(|place| place == Some(first)).then_some(first)
    }

    /// Reads the id.
    #[inline]
    pub fn id_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        if record.is_sample() {
            u64_at(record.body(), self.sample_word.checked_mul(8)?)
        } else {
            let body = record.body();
            u64_at(
                body,
                body.len()
                    .checked_sub(self.words_from_end?.checked_mul(8)?)?,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AttrFlags;

    fn attr(sample_type: u64) -> Attr {
        Attr {
            sample_type,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        }
    }

    #[test]
    fn the_id_is_found_where_each_kind_of_event_puts_it() {
        let all = sample::IP | sample::TID | sample::TIME | sample::ADDR | sample::ID | sample::CPU;
        let place = IdPosition::of(&attr(all)).unwrap();
        assert_eq!((place.sample_word, place.words_from_end), (4, Some(2)));
        let place = IdPosition::of(&attr(all | sample::IDENTIFIER)).unwrap();
        assert_eq!((place.sample_word, place.words_from_end), (0, Some(1)));
        assert_eq!(IdPosition::of(&attr(sample::IP)), None);
        let mixed = [attr(all), attr(all | sample::IDENTIFIER)];
        assert_eq!(IdPosition::common(&mixed), None);
    }
}

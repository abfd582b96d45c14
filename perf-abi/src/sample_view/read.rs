//! Counter values as `read_format` lays them out.
//!
//! ```text
//! { u64 value; u64 enabled?; u64 running?; u64 id?; u64 lost?; }                        // single
//! { u64 nr; u64 enabled?; u64 running?; { u64 value; u64 id?; u64 lost?; } [nr]; }      // GROUP
//! ```

use crate::bytes::{Cursor, Words};
use crate::{RecordError, read_format};

/// The counter values of a sample or a READ record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadValues<'a> {
    /// Nanoseconds the event was enabled.
    pub time_enabled: Option<u64>,
    /// Nanoseconds it was on the PMU.
    pub time_running: Option<u64>,
    words: Words<'a>,
    /// Words of the times that stand inside the only entry.
    times_inside: usize,
    has_id: bool,
    has_lost: bool,
}

/// One counter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadValue {
    /// The count.
    pub value: u64,
    /// The event's id.
    pub id: Option<u64>,
    /// Samples it lost because the ring was full.
    pub lost: Option<u64>,
}

impl<'a> ReadValues<'a> {
    /// Reads values that start `bytes`.
    pub fn new(bytes: &'a [u8], format: u64) -> Result<Self, RecordError> {
        let has = |bit: u64| format & bit != 0;
        let has_id = has(read_format::ID);
        let has_lost = has(read_format::LOST);
        let each = 1 + usize::from(has_id) + usize::from(has_lost);
        let mut cursor = Cursor::new(bytes);
        let group = has(read_format::GROUP);
        let count = if group { cursor.u64()? } else { 1 };
        let start = cursor;
        if !group {
            cursor.u64()?; // the value stands before the times
        }
        let mut time = |bit| has(bit).then(|| cursor.u64()).transpose();
        let time_enabled = time(read_format::TOTAL_TIME_ENABLED)?;
        let time_running = time(read_format::TOTAL_TIME_RUNNING)?;
        let times = usize::from(time_enabled.is_some()) + usize::from(time_running.is_some());
        let (mut entries, times_inside) = if group { (cursor, 0) } else { (start, times) };
        let words =
            Words::new(entries.entries("counter group", count, 8 * (each + times_inside))?);
        Ok(Self {
            time_enabled,
            time_running,
            words,
            times_inside,
            has_id,
            has_lost,
        })
    }

    fn words_each(&self) -> usize {
        1 + self.times_inside + usize::from(self.has_id) + usize::from(self.has_lost)
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.words.len() / self.words_each()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The counters in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ReadValue> + use<'a> {
        let values = *self;
        (0..values.len()).map(move |index| {
            let at = index * values.words_each();
            let id_at = at + 1 + values.times_inside;
            let lost_at = id_at + usize::from(values.has_id);
            let word = |at| values.words.get(at);
            ReadValue {
                value: word(at).unwrap_or_default(),
                id: values.has_id.then(|| word(id_at)).flatten(),
                lost: values.has_lost.then(|| word(lost_at)).flatten(),
            }
        })
    }
}

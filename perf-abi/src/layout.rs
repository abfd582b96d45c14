//! Where the fields of an event's samples stand, worked out once for all of them.

use crate::bytes::{Cursor, u64_at};
use crate::sample_id::TrailerLayout;
use crate::{Attr, HEADER_LEN, RawRecord, RecordError, branch_sample, read_format, sample};

/// Why the samples of an event cannot be read: a field's place would be a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// `sample_type` has bits whose fields have no known place.
    #[error(
        "sample_type {sample_type:#x} has unknown bits {unknown:#x}; a newer memwide may read it"
    )]
    UnknownSampleType {
        /// The whole mask.
        sample_type: u64,
        /// The bits without a known place.
        unknown: u64,
    },

    /// `read_format` has unknown bits and samples carry counter values.
    #[error(
        "read_format {read_format:#x} has unknown bits {unknown:#x}; a newer memwide may read it"
    )]
    UnknownReadFormat {
        /// The whole mask.
        read_format: u64,
        /// The bits without a known meaning.
        unknown: u64,
    },

    /// `branch_sample_type` has unknown bits and samples carry branches.
    #[error(
        "branch_sample_type {branch_sample_type:#x} has unknown bits {unknown:#x}; a newer memwide may read it"
    )]
    UnknownBranchSampleType {
        /// The whole mask.
        branch_sample_type: u64,
        /// The bits without a known meaning.
        unknown: u64,
    },

    /// `WEIGHT` and `WEIGHT_STRUCT` exclude each other; no kernel writes both.
    #[error("sample_type {sample_type:#x} asks for WEIGHT and WEIGHT_STRUCT at once")]
    TwoWeights {
        /// The whole mask.
        sample_type: u64,
    },
}

/// Positions in [`SLOT_BITS`]: the fields in the order the kernel writes them.
pub(crate) mod slot {
    pub(crate) const IDENTIFIER: usize = 0;
    pub(crate) const IP: usize = 1;
    pub(crate) const TID: usize = 2;
    pub(crate) const TIME: usize = 3;
    pub(crate) const ADDR: usize = 4;
    pub(crate) const ID: usize = 5;
    pub(crate) const STREAM_ID: usize = 6;
    pub(crate) const CPU: usize = 7;
    pub(crate) const PERIOD: usize = 8;
    pub(crate) const READ: usize = 9;
    pub(crate) const CALLCHAIN: usize = 10;
    pub(crate) const RAW: usize = 11;
    pub(crate) const BRANCH_STACK: usize = 12;
    pub(crate) const REGS_USER: usize = 13;
    pub(crate) const STACK_USER: usize = 14;
    pub(crate) const WEIGHT: usize = 15;
    pub(crate) const DATA_SRC: usize = 16;
    pub(crate) const TRANSACTION: usize = 17;
    pub(crate) const REGS_INTR: usize = 18;
    pub(crate) const PHYS_ADDR: usize = 19;
    pub(crate) const CGROUP: usize = 20;
    pub(crate) const DATA_PAGE_SIZE: usize = 21;
    pub(crate) const CODE_PAGE_SIZE: usize = 22;
    pub(crate) const AUX: usize = 23;
    pub(crate) const COUNT: usize = 24;
}

const SLOT_BITS: [u64; slot::COUNT] = [
    sample::IDENTIFIER,
    sample::IP,
    sample::TID,
    sample::TIME,
    sample::ADDR,
    sample::ID,
    sample::STREAM_ID,
    sample::CPU,
    sample::PERIOD,
    sample::READ,
    sample::CALLCHAIN,
    sample::RAW,
    sample::BRANCH_STACK,
    sample::REGS_USER,
    sample::STACK_USER,
    sample::WEIGHT | sample::WEIGHT_STRUCT,
    sample::DATA_SRC,
    sample::TRANSACTION,
    sample::REGS_INTR,
    sample::PHYS_ADDR,
    sample::CGROUP,
    sample::DATA_PAGE_SIZE,
    sample::CODE_PAGE_SIZE,
    sample::AUX,
];

/// Marks a field that is not there. No record is long enough to have a field at this offset.
const ABSENT: u16 = u16::MAX;

/// Offsets of a sample's fields from the start of its body, in bytes. Aligned like words, as it is copied word by word: the
/// processor waits where a word read back comes from two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub(crate) struct Places([u16; slot::COUNT]);

impl Places {
    fn set(&mut self, slot: usize, at: usize) {
        if let Some(place) = self.0.get_mut(slot) {
            *place = u16::try_from(at).unwrap_or(ABSENT);
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<usize> {
        let at = *self.0.get(slot)?;
        (at != ABSENT).then_some(usize::from(at))
    }
}

/// Where the fields of an event's samples stand. Make one for each attr and share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleLayout {
    sample_type: u64,
    read_format: u64,
    branch_sample_type: u64,
    regs_user: u64,
    regs_intr: u64,
    /// Places up to the first field of varying length.
    fixed: Places,
    /// Bytes of the fields before the first one of varying length.
    fixed_len: usize,
    /// Slot of the first field of varying length, or the number of slots.
    variable_from: usize,
    trailer: TrailerLayout,
}

impl SampleLayout {
    /// Works the layout out, or refuses what cannot be placed.
    pub fn new(attr: &Attr) -> Result<Self, LayoutError> {
        let sample_type = attr.sample_type;
        let unknown = sample_type & !sample::KNOWN;
        if unknown != 0 {
            return Err(LayoutError::UnknownSampleType {
                sample_type,
                unknown,
            });
        }
        if attr.samples(sample::WEIGHT | sample::WEIGHT_STRUCT) {
            return Err(LayoutError::TwoWeights { sample_type });
        }
        let unknown = attr.read_format & !read_format::KNOWN;
        if attr.samples(sample::READ) && unknown != 0 {
            return Err(LayoutError::UnknownReadFormat {
                read_format: attr.read_format,
                unknown,
            });
        }
        let unknown = attr.branch_sample_type & !branch_sample::KNOWN;
        if attr.samples(sample::BRANCH_STACK) && unknown != 0 {
            return Err(LayoutError::UnknownBranchSampleType {
                branch_sample_type: attr.branch_sample_type,
                unknown,
            });
        }
        let mut layout = Self {
            sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            fixed: Places([ABSENT; slot::COUNT]),
            fixed_len: 0,
            variable_from: slot::COUNT,
            trailer: TrailerLayout::new(sample_type, attr.flags.sample_id_all()),
        };
        for (slot, bits) in SLOT_BITS.iter().enumerate() {
            if sample_type & bits == 0 {
                continue;
            }
            let Some(len) = layout.constant_len(slot) else {
                layout.variable_from = slot;
                break;
            };
            layout.fixed.set(slot, layout.fixed_len);
            layout.fixed_len += len;
        }
        Ok(layout)
    }

    /// Bytes of a field whose length never varies.
    fn constant_len(&self, slot: usize) -> Option<usize> {
        match slot {
            slot::READ if self.read_format & read_format::GROUP == 0 => {
                Some(8 * self.read_words_before())
            }
            slot::READ
            | slot::CALLCHAIN
            | slot::RAW
            | slot::BRANCH_STACK
            | slot::REGS_USER
            | slot::STACK_USER
            | slot::REGS_INTR
            | slot::AUX => None,
            _ => Some(8),
        }
    }

    /// Words of an ungrouped `READ`.
    fn read_words_before(&self) -> usize {
        let optional = read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | read_format::LOST;
        1 + ones(self.read_format & optional)
    }

    /// Finds every field of the sample in `body`; the lengths are all checked here.
    #[inline]
    pub(crate) fn places(&self, body: &[u8]) -> Result<Places, RecordError> {
        if body.len() < self.fixed_len {
            return Err(RecordError::Truncated {
                need: self.fixed_len,
                have: body.len(),
            });
        }
        if self.variable_from == slot::COUNT {
            return Ok(self.fixed);
        }
        self.places_behind(body)
    }

    fn places_behind(&self, body: &[u8]) -> Result<Places, RecordError> {
        match self.variable_places(body, true) {
            // The kernel leaves the index out when it had no branch stack at all.
            Err(_) if self.has_hw_index() => self.variable_places(body, false),
            placed => placed,
        }
    }

    fn variable_places(&self, body: &[u8], empty_has_index: bool) -> Result<Places, RecordError> {
        let mut places = self.fixed;
        let mut cursor = Cursor::new(body);
        cursor.bytes(self.fixed_len)?;
        for (slot, bits) in SLOT_BITS.iter().enumerate().skip(self.variable_from) {
            if self.sample_type & bits == 0 {
                continue;
            }
            places.set(slot, cursor.at());
            match slot {
                slot::READ => self.skip_read(&mut cursor)?,
                slot::CALLCHAIN => {
                    let count = cursor.u64()?;
                    cursor.entries("callchain", count, 8)?;
                }
                slot::RAW => {
                    let len = cursor.u32()?;
                    cursor.entries("raw data", len.into(), 1)?;
                }
                slot::BRANCH_STACK => self.skip_branches(&mut cursor, empty_has_index)?,
                slot::REGS_USER => skip_regs(&mut cursor, self.regs_user)?,
                slot::REGS_INTR => skip_regs(&mut cursor, self.regs_intr)?,
                slot::STACK_USER => {
                    let len = cursor.u64()?;
                    cursor.entries("user stack", len, 1)?;
                    if len != 0 {
                        cursor.u64()?; // bytes of it that hold stack
                    }
                }
                slot::AUX => {
                    let len = cursor.u64()?;
                    cursor.entries("aux data", len, 1)?;
                }
                _ => {
                    cursor.u64()?;
                }
            }
        }
        Ok(places)
    }

    /// Where a field stands before the first one of varying length.
    pub(crate) fn fixed_place(&self, slot: usize) -> Option<usize> {
        self.fixed.get(slot)
    }

    /// Where the raw data of the sample in `body` stands, whose own length is not looked at.
    pub(crate) fn raw_place(&self, body: &[u8]) -> Option<usize> {
        if !self.has(sample::RAW) {
            return None;
        }
        let mut cursor = Cursor::new(body);
        cursor.bytes(self.fixed_len).ok()?;
        if self.has(sample::READ) && self.fixed.get(slot::READ).is_none() {
            self.skip_read(&mut cursor).ok()?;
        }
        if self.has(sample::CALLCHAIN) {
            let count = cursor.u64().ok()?;
            cursor.entries("callchain", count, 8).ok()?;
        }
        Some(cursor.at())
    }

    fn skip_read(&self, cursor: &mut Cursor<'_>) -> Result<(), RecordError> {
        if self.read_format & read_format::GROUP == 0 {
            cursor.bytes(8 * self.read_words_before())?;
            return Ok(());
        }
        let count = cursor.u64()?;
        let times = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
        cursor.bytes(8 * ones(self.read_format & times))?;
        let each = 1 + ones(self.read_format & (read_format::ID | read_format::LOST));
        cursor.entries("counter group", count, 8 * each)?;
        Ok(())
    }

    fn skip_branches(
        &self,
        cursor: &mut Cursor<'_>,
        empty_has_index: bool,
    ) -> Result<(), RecordError> {
        let count = cursor.u64()?;
        if self.has_hw_index() && (count != 0 || empty_has_index) {
            cursor.u64()?;
        }
        cursor.entries("branch stack", count, 24)?;
        if self.has_branch_counters() {
            cursor.entries("branch counters", count, 8)?;
        }
        Ok(())
    }

    /// The fields samples have.
    pub fn sample_type(&self) -> u64 {
        self.sample_type
    }

    /// How counter values are laid out.
    pub fn read_format(&self) -> u64 {
        self.read_format
    }

    /// Which registers `REGS_USER` holds.
    pub fn regs_user(&self) -> u64 {
        self.regs_user
    }

    /// Which registers `REGS_INTR` holds.
    pub fn regs_intr(&self) -> u64 {
        self.regs_intr
    }

    /// Bytes of a sample's body that are there whatever it holds.
    pub fn fixed_len(&self) -> usize {
        self.fixed_len
    }

    /// Where the sample id of other records stands.
    pub fn trailer(&self) -> TrailerLayout {
        self.trailer
    }

    pub(crate) fn has_hw_index(&self) -> bool {
        self.has(sample::BRANCH_STACK) && self.branch_sample_type & branch_sample::HW_INDEX != 0
    }

    pub(crate) fn has_branch_counters(&self) -> bool {
        self.has(sample::BRANCH_STACK) && self.branch_sample_type & branch_sample::COUNTERS != 0
    }

    pub(crate) fn has(&self, mask: u64) -> bool {
        self.sample_type & mask != 0
    }

    /// Where samples say their period, in bytes from the start of the record; `None` if they do not.
    pub fn period_at(&self) -> Option<usize> {
        let at = self.fixed.get(slot::PERIOD)?;
        Some(HEADER_LEN + at)
    }

    /// The time of a record of this event, sample or not, in nanoseconds of its clock; without
    /// parsing the rest. `None` if the event has no times or the record is cut.
    #[inline]
    pub fn time_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        if record.is_sample() {
            u64_at(record.body(), self.fixed.get(slot::TIME)?)
        } else {
            self.trailer.time_of(record)
        }
    }
}

fn ones(mask: u64) -> usize {
    usize::try_from(mask.count_ones()).unwrap_or_default()
}

fn skip_regs(cursor: &mut Cursor<'_>, mask: u64) -> Result<(), RecordError> {
    if cursor.u64()? != 0 {
        cursor.bytes(8 * ones(mask))?;
    }
    Ok(())
}

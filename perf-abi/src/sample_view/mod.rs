//! Samples, read in place.

mod branch;
mod read;

pub use branch::{BranchEntry, BranchStack};
pub use read::{ReadValue, ReadValues};

use crate::bytes::{Words, u16_at, u32_at, u64_at};
use crate::layout::{Places, SampleLayout, slot};
use crate::{RecordError, read_format, sample};

/// Longest body a record can have; longer input cannot be one record's.
const MAX_BODY: usize = u16::MAX as usize - crate::HEADER_LEN;

/// One sample, read in place.
///
/// All lengths are checked by [`SampleView::parse`], so the accessors cannot fail: they say `None`
/// only for a field the event did not ask for.
#[derive(Debug, Clone, Copy)]
pub struct SampleView<'a> {
    body: &'a [u8],
    layout: &'a SampleLayout,
    places: Places,
}

/// `PERF_SAMPLE_WEIGHT` or `PERF_SAMPLE_WEIGHT_STRUCT`. What the parts mean depends on the PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Weight {
    /// All 64 bits, or `var1_dw` of the struct.
    pub weight: u64,
    /// `var2_w` of the struct (instruction latency on Intel), 0 without it.
    pub ins_lat: u16,
    /// `var3_w` of the struct (retire latency on Intel), 0 without it.
    pub retire_lat: u16,
}

/// Registers of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regs<'a> {
    /// 0 none, 1 32-bit, 2 64-bit.
    pub abi: u64,
    /// Which registers are there: bit n = register n, see the architecture's `perf_regs.h`.
    pub mask: u64,
    /// The values, lowest register first; empty if `abi` is 0.
    pub values: Words<'a>,
}

impl Regs<'_> {
    /// The value of register `number`.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        let below = (self.mask & (bit - 1)).count_ones();
        (self.mask & bit != 0).then(|| self.values.get(usize::try_from(below).ok()?))?
    }
}

/// Copy of the user stack in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserStack<'a> {
    /// Bytes copied, from the stack pointer up; the end may be filler.
    pub data: &'a [u8],
    /// Bytes of `data` that hold stack; 0 if `data` is empty.
    pub dyn_size: u64,
}

impl<'a> SampleView<'a> {
    /// Finds the fields of a sample's `body` (the record without its header).
    ///
    /// Accepts a longer body than `layout` needs, since newer kernels append fields.
    #[inline]
    pub fn parse(body: &'a [u8], layout: &'a SampleLayout) -> Result<Self, RecordError> {
        let body = body.get(..MAX_BODY).unwrap_or(body);
        Ok(Self {
            body,
            layout,
            places: layout.places(body)?,
        })
    }

    /// The layout it was parsed with.
    pub fn layout(&self) -> &'a SampleLayout {
        self.layout
    }

    #[inline]
    fn word(&self, slot: usize) -> Option<u64> {
        u64_at(self.body, self.places.get(slot)?)
    }

    #[inline]
    fn half(&self, slot: usize, add: usize) -> Option<u32> {
        u32_at(self.body, self.places.get(slot)? + add)
    }

    /// `count` bytes that start `skip` bytes into the field.
    fn bytes(&self, slot: usize, skip: usize, count: u64) -> Option<&'a [u8]> {
        let from = self.places.get(slot)?.checked_add(skip)?;
        let to = from.checked_add(usize::try_from(count).ok()?)?;
        self.body.get(from..to)
    }

    /// The event id, from `IDENTIFIER` or else `ID`.
    #[inline]
    pub fn id(&self) -> Option<u64> {
        self.word(slot::IDENTIFIER).or_else(|| self.word(slot::ID))
    }

    /// Instruction pointer.
    #[inline]
    pub fn ip(&self) -> Option<u64> {
        self.word(slot::IP)
    }

    /// Process id; `u32::MAX` if the task was gone.
    #[inline]
    pub fn pid(&self) -> Option<u32> {
        self.half(slot::TID, 0)
    }

    /// Thread id.
    #[inline]
    pub fn tid(&self) -> Option<u32> {
        self.half(slot::TID, 4)
    }

    /// Nanoseconds of the event's clock.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.word(slot::TIME)
    }

    /// Data address: virtual, of the sampled process.
    #[inline]
    pub fn addr(&self) -> Option<u64> {
        self.word(slot::ADDR)
    }

    /// Stream id.
    pub fn stream_id(&self) -> Option<u64> {
        self.word(slot::STREAM_ID)
    }

    /// CPU number.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.half(slot::CPU, 0)
    }

    /// Events since the sample before.
    #[inline]
    pub fn period(&self) -> Option<u64> {
        self.word(slot::PERIOD)
    }

    /// Counter values.
    pub fn read(&self) -> Option<ReadValues<'a>> {
        let bytes = self.body.get(self.places.get(slot::READ)?..)?;
        ReadValues::new(bytes, self.layout.read_format()).ok()
    }

    /// Whether samples hold the values of a whole group.
    pub fn reads_group(&self) -> bool {
        self.layout.has(sample::READ) && self.layout.read_format() & read_format::GROUP != 0
    }

    /// Callchain, innermost first, with the kernel's context markers (`PERF_CONTEXT_*`).
    #[inline]
    pub fn callchain(&self) -> Option<Words<'a>> {
        let count = self.word(slot::CALLCHAIN)?;
        self.bytes(slot::CALLCHAIN, 8, count.checked_mul(8)?)
            .map(Words::new)
    }

    /// Where the callchain's count stands in the body.
    pub(crate) fn callchain_at(&self) -> Option<usize> {
        self.places.get(slot::CALLCHAIN)
    }

    /// Raw data with the kernel's padding: a tracepoint's record.
    pub fn raw(&self) -> Option<&'a [u8]> {
        let len = self.half(slot::RAW, 0)?;
        self.bytes(slot::RAW, 4, len.into())
    }

    /// Branch stack, newest first.
    pub fn branch_stack(&self) -> Option<BranchStack<'a>> {
        let at = self.places.get(slot::BRANCH_STACK)?;
        let mut end = self.body.len();
        if let Some(next) = (slot::REGS_USER..slot::COUNT).find_map(|slot| self.places.get(slot)) {
            end = next;
        }
        let bytes = self.body.get(at..end)?;
        Some(BranchStack::new(
            bytes,
            self.layout.has_hw_index(),
            self.layout.has_branch_counters(),
        ))
    }

    /// User registers.
    pub fn regs_user(&self) -> Option<Regs<'a>> {
        self.regs(slot::REGS_USER, self.layout.regs_user())
    }

    /// Registers at the interrupt.
    pub fn regs_intr(&self) -> Option<Regs<'a>> {
        self.regs(slot::REGS_INTR, self.layout.regs_intr())
    }

    fn regs(&self, slot: usize, mask: u64) -> Option<Regs<'a>> {
        let abi = self.word(slot)?;
        let count = if abi == 0 {
            0
        } else {
            u64::from(mask.count_ones())
        };
        let values = Words::new(self.bytes(slot, 8, count * 8)?);
        Some(Regs { abi, mask, values })
    }

    /// Copy of the user stack.
    pub fn stack_user(&self) -> Option<UserStack<'a>> {
        let len = self.word(slot::STACK_USER)?;
        let data = self.bytes(slot::STACK_USER, 8, len)?;
        let after = self.places.get(slot::STACK_USER)? + 8 + data.len();
        let dyn_size = if len == 0 {
            0
        } else {
            u64_at(self.body, after)?
        };
        Some(UserStack { data, dyn_size })
    }

    /// Weight, in the unit of the PMU.
    #[inline]
    pub fn weight(&self) -> Option<Weight> {
        let at = self.places.get(slot::WEIGHT)?;
        if self.layout.has(sample::WEIGHT) {
            return Some(Weight {
                weight: u64_at(self.body, at)?,
                ..Weight::default()
            });
        }
        // struct { u32 var1_dw; u16 var2_w; u16 var3_w; }
        Some(Weight {
            weight: u32_at(self.body, at)?.into(),
            ins_lat: u16_at(self.body, at + 4)?,
            retire_lat: u16_at(self.body, at + 6)?,
        })
    }

    /// `perf_mem_data_src`, undecoded: bits that this build has no name for are kept.
    #[inline]
    pub fn data_src(&self) -> Option<u64> {
        self.word(slot::DATA_SRC)
    }

    /// Flags of the hardware transaction.
    pub fn transaction(&self) -> Option<u64> {
        self.word(slot::TRANSACTION)
    }

    /// Physical data address; 0 if the kernel had none.
    #[inline]
    pub fn phys_addr(&self) -> Option<u64> {
        self.word(slot::PHYS_ADDR)
    }

    /// Cgroup id.
    #[inline]
    pub fn cgroup(&self) -> Option<u64> {
        self.word(slot::CGROUP)
    }

    /// Page size of the data address, in bytes; 0 if unknown.
    #[inline]
    pub fn data_page_size(&self) -> Option<u64> {
        self.word(slot::DATA_PAGE_SIZE)
    }

    /// Page size of the instruction pointer, in bytes; 0 if unknown.
    #[inline]
    pub fn code_page_size(&self) -> Option<u64> {
        self.word(slot::CODE_PAGE_SIZE)
    }

    /// AUX data.
    pub fn aux(&self) -> Option<&'a [u8]> {
        let len = self.word(slot::AUX)?;
        self.bytes(slot::AUX, 8, len)
    }
}

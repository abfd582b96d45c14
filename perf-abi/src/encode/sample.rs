//! A sample from its fields.

use crate::bytes::{Put, len64};
use crate::sample_view::{BranchEntry, ReadValue, Weight};
use crate::{SampleLayout, read_format, sample};

/// The fields of a sample to write. Those the layout does not ask for are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleFields<'a> {
    /// Event id, for `IDENTIFIER` and `ID`.
    pub id: u64,
    /// Instruction pointer.
    pub ip: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// Data address.
    pub addr: u64,
    /// Stream id.
    pub stream_id: u64,
    /// CPU number.
    pub cpu: u32,
    /// Period.
    pub period: u64,
    /// Counter values; without `GROUP` the first one is written.
    pub read: &'a [ReadValue],
    /// Nanoseconds enabled, for the counter values.
    pub time_enabled: u64,
    /// Nanoseconds running, for the counter values.
    pub time_running: u64,
    /// Callchain with context markers, innermost first.
    pub callchain: &'a [u64],
    /// Raw data; padded so that the next field is aligned.
    pub raw: &'a [u8],
    /// Branches, newest first.
    pub branches: &'a [BranchEntry],
    /// Index of the newest branch in the hardware.
    pub hw_index: u64,
    /// Counter words, one for each branch; missing ones are 0.
    pub branch_counters: &'a [u64],
    /// Abi of the user registers; 0 = none are written.
    pub regs_user_abi: u64,
    /// User registers, lowest first; missing ones are 0.
    pub regs_user: &'a [u64],
    /// Copy of the user stack; padded to 8 bytes.
    pub stack_user: &'a [u8],
    /// Bytes of the copy that hold stack.
    pub stack_dyn_size: u64,
    /// Weight.
    pub weight: Weight,
    /// `perf_mem_data_src`.
    pub data_src: u64,
    /// Transaction flags.
    pub transaction: u64,
    /// Abi of the registers at the interrupt; 0 = none are written.
    pub regs_intr_abi: u64,
    /// Registers at the interrupt, lowest first; missing ones are 0.
    pub regs_intr: &'a [u64],
    /// Physical data address.
    pub phys_addr: u64,
    /// Cgroup id.
    pub cgroup: u64,
    /// Page size of the data address, in bytes.
    pub data_page_size: u64,
    /// Page size of the instruction pointer, in bytes.
    pub code_page_size: u64,
    /// AUX data; padded to 8 bytes.
    pub aux: &'a [u8],
}

impl SampleFields<'_> {
    pub(crate) fn put(&self, out: &mut Vec<u8>, layout: &SampleLayout) {
        let has = |bit: u64| layout.has(bit);
        let mut word = |bit: u64, value: u64| {
            if has(bit) {
                out.put_u64(value);
            }
        };
        word(sample::IDENTIFIER, self.id);
        word(sample::IP, self.ip);
        word(
            sample::TID,
            u64::from(self.pid) | (u64::from(self.tid) << 32),
        );
        word(sample::TIME, self.time);
        word(sample::ADDR, self.addr);
        word(sample::ID, self.id);
        word(sample::STREAM_ID, self.stream_id);
        word(sample::CPU, self.cpu.into());
        word(sample::PERIOD, self.period);
        if has(sample::READ) {
            self.put_read(out, layout.read_format());
        }
        if has(sample::CALLCHAIN) {
            out.put_u64(len64(self.callchain.len()));
            put_words(out, self.callchain);
        }
        if has(sample::RAW) {
            let len = (self.raw.len() + 4).next_multiple_of(8) - 4;
            out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
            put_bytes(out, self.raw, len);
        }
        if has(sample::BRANCH_STACK) {
            self.put_branches(out, layout);
        }
        if has(sample::REGS_USER) {
            put_regs(out, self.regs_user_abi, self.regs_user, layout.regs_user());
        }
        if has(sample::STACK_USER) {
            put_sized(out, self.stack_user);
            if !self.stack_user.is_empty() {
                out.put_u64(self.stack_dyn_size);
            }
        }
        if has(sample::WEIGHT) {
            out.put_u64(self.weight.weight);
        }
        if has(sample::WEIGHT_STRUCT) {
            out.put_u32(u32::try_from(self.weight.weight).unwrap_or(u32::MAX));
            out.put_u16(self.weight.ins_lat);
            out.put_u16(self.weight.retire_lat);
        }
        if has(sample::DATA_SRC) {
            out.put_u64(self.data_src);
        }
        if has(sample::TRANSACTION) {
            out.put_u64(self.transaction);
        }
        if has(sample::REGS_INTR) {
            put_regs(out, self.regs_intr_abi, self.regs_intr, layout.regs_intr());
        }
        for (bit, value) in [
            (sample::PHYS_ADDR, self.phys_addr),
            (sample::CGROUP, self.cgroup),
            (sample::DATA_PAGE_SIZE, self.data_page_size),
            (sample::CODE_PAGE_SIZE, self.code_page_size),
        ] {
            if has(bit) {
                out.put_u64(value);
            }
        }
        if has(sample::AUX) {
            put_sized(out, self.aux);
        }
    }

    fn put_read(&self, out: &mut Vec<u8>, format: u64) {
        let has = |bit: u64| format & bit != 0;
        let times = [
            (read_format::TOTAL_TIME_ENABLED, self.time_enabled),
            (read_format::TOTAL_TIME_RUNNING, self.time_running),
        ];
        let times = times
            .into_iter()
            .filter(|(bit, _)| has(*bit))
            .map(|(_, time)| time);
        let of = |value: &ReadValue| {
            let id = has(read_format::ID).then(|| value.id.unwrap_or_default());
            let lost = has(read_format::LOST).then(|| value.lost.unwrap_or_default());
            [id, lost].into_iter().flatten()
        };
        if has(read_format::GROUP) {
            out.put_u64(len64(self.read.len()));
            times.for_each(|time| out.put_u64(time));
            for value in self.read {
                out.put_u64(value.value);
                of(value).for_each(|word| out.put_u64(word));
            }
        } else {
            let value = self.read.first().copied().unwrap_or_default();
            out.put_u64(value.value);
            times.for_each(|time| out.put_u64(time));
            of(&value).for_each(|word| out.put_u64(word));
        }
    }

    fn put_branches(&self, out: &mut Vec<u8>, layout: &SampleLayout) {
        out.put_u64(len64(self.branches.len()));
        if layout.has_hw_index() {
            out.put_u64(self.hw_index);
        }
        for branch in self.branches {
            put_words(out, &[branch.from, branch.to, branch.flags]);
        }
        if layout.has_branch_counters() {
            let counters = self
                .branch_counters
                .iter()
                .copied()
                .chain(std::iter::repeat(0));
            counters
                .take(self.branches.len())
                .for_each(|word| out.put_u64(word));
        }
    }
}

fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.put_u64(*word);
    }
}

/// `bytes`, then zeros up to `len`.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(bytes);
    out.resize(end, 0);
}

/// A length of 64 bits and the bytes, both padded to 8.
fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = bytes.len().next_multiple_of(8);
    out.put_u64(len64(len));
    put_bytes(out, bytes, len);
}

fn put_regs(out: &mut Vec<u8>, abi: u64, regs: &[u64], mask: u64) {
    out.put_u64(abi);
    if abi != 0 {
        let count = usize::try_from(mask.count_ones()).unwrap_or_default();
        let regs = regs.iter().copied().chain(std::iter::repeat(0));
        regs.take(count).for_each(|reg| out.put_u64(reg));
    }
}

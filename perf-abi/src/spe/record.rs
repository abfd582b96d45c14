//! One sampled operation.

use super::Packet;

/// Bits of [`Record::events`].
pub mod event {
    macro_rules! events {
        ($($name:ident = $bit:literal, $text:literal;)+) => {
            $(#[doc = $text] pub const $name: u64 = 1 << $bit;)+
        };
    }

    events! {
        EXCEPTION = 0, "The operation raised an exception.";
        RETIRED = 1, "It retired.";
        L1D_ACCESS = 2, "The first-level data cache was asked.";
        L1D_MISS = 3, "It had to be refilled.";
        TLB_ACCESS = 4, "A TLB was asked.";
        TLB_WALK = 5, "A translation table was walked.";
        NOT_TAKEN = 6, "A conditional branch was not taken.";
        MISPREDICTED = 7, "A branch was mispredicted.";
        LLC_ACCESS = 8, "The last-level cache was asked.";
        LLC_MISS = 9, "It missed.";
        REMOTE_ACCESS = 10, "Another socket was asked.";
        MISALIGNED = 11, "The access was misaligned.";
        TRANSACTIONAL = 16, "In a transaction.";
        PARTIAL_PREDICATE = 17, "Vector operation with a partly set predicate.";
        EMPTY_PREDICATE = 18, "Vector operation with an empty predicate.";
        L2D_ACCESS = 19, "The second-level data cache was asked.";
        L2D_MISS = 20, "It missed.";
        MODIFIED = 21, "The line was modified in another cache.";
        RECENTLY_FETCHED = 22, "The line was on its way already.";
        SNOOPED = 23, "The data came by a snoop.";
    }
}

/// What was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Neither of the others.
    Other {
        /// Bits.
        payload: u8,
    },
    /// Load, store or both.
    LoadStore {
        /// Bits.
        payload: u8,
    },
    /// Branch or exception return.
    Branch {
        /// Bits.
        payload: u8,
    },
}

/// One sampled operation: what its packets said. Fields without a packet are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// PC as given: top byte = non-secure state and exception level; see [`Record::ip`].
    pub pc: Option<u64>,
    /// Branch target as given.
    pub branch_target: Option<u64>,
    /// Virtual data address as given: the top byte may be a tag; see [`Record::addr`].
    pub virtual_address: Option<u64>,
    /// Physical data address as given; see [`Record::phys_addr`].
    pub physical_address: Option<u64>,
    /// Target of the branch before, as given.
    pub previous_target: Option<u64>,
    /// Cycles from dispatch to completion.
    pub total_cycles: Option<u16>,
    /// Cycles from dispatch to issue.
    pub issue_cycles: Option<u16>,
    /// Cycles of address translation.
    pub translation_cycles: Option<u16>,
    /// What happened, see [`event`].
    pub events: u64,
    /// What it was.
    pub operation: Option<Operation>,
    /// Where the data came from, in the core's own numbers.
    pub source: Option<u64>,
    /// Thread id (`CONTEXTIDR`), where the kernel was asked to write it.
    pub context: Option<u32>,
    /// Generic counter.
    pub timestamp: Option<u64>,
}

/// Bits 0 to 55.
const LOW_56: u64 = (1 << 56) - 1;
const TOP_BYTE: u64 = !LOW_56;

impl Record {
    /// Takes a packet that belongs to it; false if it is none of its parts.
    pub(super) fn take(&mut self, packet: Packet) -> bool {
        match packet {
            Packet::Padding | Packet::End => return false,
            Packet::Timestamp(counter) => self.timestamp = Some(counter),
            Packet::Events(events) => self.events |= events,
            Packet::DataSource(source) => self.source = Some(source),
            Packet::Context { id, .. } => self.context = Some(id),
            Packet::Operation { class, payload } => {
                self.operation = Some(match class {
                    1 => Operation::LoadStore { payload },
                    2 => Operation::Branch { payload },
                    _ => Operation::Other { payload },
                });
            }
            Packet::Address { index, value } => match index {
                0 => self.pc = Some(value),
                1 => self.branch_target = Some(value),
                2 => self.virtual_address = Some(value),
                3 => self.physical_address = Some(value),
                4 => self.previous_target = Some(value),
                _ => {}
            },
            Packet::Counter { index, value } => match index {
                0 => self.total_cycles = Some(value),
                1 => self.issue_cycles = Some(value),
                2 => self.translation_cycles = Some(value),
                _ => {}
            },
        }
        true
    }

    /// The PC as an address: the top byte of kernel code is filled (levels 1 and 2, non-secure).
    pub fn ip(&self) -> Option<u64> {
        self.pc.map(code_address)
    }

    /// The branch target as an address.
    pub fn target(&self) -> Option<u64> {
        self.branch_target.map(code_address)
    }

    /// The virtual data address without its tag; the top byte of kernel addresses is filled.
    pub fn addr(&self) -> Option<u64> {
        self.virtual_address.map(|given| {
            let low = given & LOW_56;
            if low >> 52 == 0xf {
                low | TOP_BYTE
            } else {
                low
            }
        })
    }

    /// The physical data address.
    pub fn phys_addr(&self) -> Option<u64> {
        self.physical_address.map(|given| given & LOW_56)
    }

    /// It loads. An atomic operation that returns the old value is a load here, as the hardware marks it.
    pub fn is_load(&self) -> bool {
        matches!(self.operation, Some(Operation::LoadStore { payload }) if payload & 1 == 0)
    }

    /// It stores.
    pub fn is_store(&self) -> bool {
        matches!(self.operation, Some(Operation::LoadStore { payload }) if payload & 1 != 0)
    }

    /// An atomic or exclusive operation.
    pub fn is_atomic(&self) -> bool {
        matches!(
            self.operation,
            Some(Operation::LoadStore { payload })
                if payload & 0xe2 == 2 && payload & (1 << 2 | 1 << 3) != 0
        )
    }

    /// It accesses memory.
    pub fn is_access(&self) -> bool {
        matches!(self.operation, Some(Operation::LoadStore { .. }))
    }

    /// One of these happened, see [`event`].
    pub const fn has(&self, events: u64) -> bool {
        self.events & events != 0
    }
}

fn code_address(given: u64) -> u64 {
    let (is_non_secure, level) = (given >> 63 != 0, given >> 61 & 3);
    let low = given & LOW_56;
    if is_non_secure && matches!(level, 1 | 2) {
        low | TOP_BYTE
    } else {
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_tags() {
        for (given, ip) in [
            (0x0000_aaaa_0000_1000, 0xaaaa_0000_1000),
            (1 << 63 | 0x00ff_8000_0000_1000, 0x00ff_8000_0000_1000),
            (
                1 << 63 | 1 << 61 | 0x00ff_8000_0000_1000,
                0xffff_8000_0000_1000,
            ),
            (
                1 << 63 | 2 << 61 | 0x00ff_8000_0000_1000,
                0xffff_8000_0000_1000,
            ),
            (
                1 << 63 | 3 << 61 | 0x00ff_8000_0000_1000,
                0x00ff_8000_0000_1000,
            ),
        ] {
            let record = Record {
                pc: Some(given),
                ..Record::default()
            };
            assert_eq!(record.ip(), Some(ip), "{given:#x}");
        }
        for (given, addr) in [
            (0xab00_ffff_0000_1000, 0xffff_0000_1000),
            (0xabff_ffff_0000_1000, 0xffff_ffff_0000_1000),
            (0xab0f_ffff_0000_1000, 0x000f_ffff_0000_1000),
        ] {
            let record = Record {
                virtual_address: Some(given),
                ..Record::default()
            };
            assert_eq!(record.addr(), Some(addr), "{given:#x}");
        }
    }

    #[test]
    fn operations_are_told_apart() {
        let of = |class, payload| {
            let mut record = Record::default();
            record.take(Packet::Operation { class, payload });
            let kinds = (record.is_load(), record.is_store(), record.is_atomic());
            (kinds, record.is_access())
        };
        assert_eq!(of(1, 0), ((true, false, false), true));
        assert_eq!(of(1, 1), ((false, true, false), true));
        assert_eq!(of(1, 0b0000_0110), ((true, false, true), true));
        assert_eq!(of(1, 0b0001_0010), ((true, false, false), true));
        assert_eq!(of(0, 1), ((false, false, false), false));
        assert_eq!(of(2, 1), ((false, false, false), false));
    }
}

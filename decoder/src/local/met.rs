//! Code addresses met lately and what they mean: samples fall on few instructions, so most find their place here with one look
//! into memory.

use crate::machine::Place;

/// Places kept, as a power of two: 192 KiB, which the second cache holds.
const SLOTS_SHIFT: u32 = 12;

/// An address in an address space as it was.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    ip: u64,
    /// Stands for what was mapped; 0: the slot is empty.
    stamp: u64,
    place: Place,
}

/// Places by address; a new one takes the slot of the one before.
#[derive(Debug)]
pub(super) struct MetCode(Box<[Slot]>);

impl Default for MetCode {
    fn default() -> Self {
        Self(vec![Slot::default(); 1 << SLOTS_SHIFT].into())
    }
}

/// Where the place of an address is kept, if it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetIx(usize);

impl MetCode {
    /// Where an address is kept; `stamp` stands for what is mapped.
    #[inline]
    pub(super) fn at(ip: u64, stamp: u64) -> MetIx {
        // The upper bits of the product depend on all of the address.
        let hash = (ip ^ stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        MetIx((hash >> (u64::BITS - SLOTS_SHIFT)) as usize)
    }

    /// Whether it is kept there now; never where `stamp` is 0, which stands for what is not known to stay so.
    #[inline]
    pub(super) fn has(&self, at: MetIx, ip: u64, stamp: u64) -> bool {
        let slot = self.0.get(at.0);
        slot.is_some_and(|slot| slot.ip == ip && slot.stamp == stamp && stamp != 0)
    }

    /// The place kept last.
    #[inline]
    pub(super) fn place(&self, at: MetIx) -> Option<&Place> {
        self.0.get(at.0).map(|slot| &slot.place)
    }

    /// Keeps it.
    pub(super) fn keep(&mut self, at: MetIx, ip: u64, stamp: u64, place: Place) {
        if let Some(slot) = self.0.get_mut(at.0) {
            *slot = Slot { ip, stamp, place };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_met_again_only_where_the_same_is_mapped() {
        let (mut met, place) = (MetCode::default(), Place::nowhere(7));
        let has = |met: &MetCode, ip, stamp| met.has(MetCode::at(ip, stamp), ip, stamp);
        assert!(!has(&met, 7, 1));
        met.keep(MetCode::at(7, 1), 7, 1, place);
        assert!(has(&met, 7, 1));
        assert_eq!(met.place(MetCode::at(7, 1)), Some(&place));
        assert!(!has(&met, 7, 2));
        assert!(!has(&met, 8, 1));
        assert!(!has(&met, 0, 0), "an empty slot has nothing");
        met.keep(MetCode::at(9, 0), 9, 0, Place::nowhere(9));
        assert!(!has(&met, 9, 0), "it may have changed");
        for ip in 0..10_000 {
            let at = MetCode::at(ip, 1);
            met.keep(at, ip, 1, Place::nowhere(ip));
            assert!(has(&met, ip, 1));
            assert_eq!(met.place(at), Some(&Place::nowhere(ip)));
        }
    }
}

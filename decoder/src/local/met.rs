//! Code addresses met lately and what they mean: samples fall on few instructions, so most find their place here with one look
//! into memory.

use crate::machine::Place;

/// Places kept, as a power of two: 224 KiB, which the second cache holds.
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

impl MetCode {
    /// The place of an address met before; `stamp` stands for what is mapped, 0 for what is not known to stay so.
    #[inline]
    pub(super) fn get(&self, ip: u64, stamp: u64) -> Option<Place> {
        let slot = self.0.get(slot(ip, stamp))?;
        (slot.ip == ip && slot.stamp == stamp && stamp != 0).then_some(slot.place)
    }

    /// Keeps it.
    pub(super) fn keep(&mut self, ip: u64, stamp: u64, place: Place) {
        if let Some(slot) = self.0.get_mut(slot(ip, stamp)) {
            *slot = Slot { ip, stamp, place };
        }
    }
}

fn slot(ip: u64, stamp: u64) -> usize {
    // The upper bits of the product depend on all of the address.
    ((ip ^ stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS_SHIFT)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_met_again_only_where_the_same_is_mapped() {
        let (mut met, place) = (MetCode::default(), Place::nowhere(7));
        assert_eq!(met.get(7, 1), None);
        met.keep(7, 1, place);
        assert_eq!(met.get(7, 1), Some(place));
        assert_eq!(met.get(7, 2), None);
        assert_eq!(met.get(8, 1), None);
        assert_eq!(met.get(0, 0), None, "an empty slot has nothing");
        for ip in 0..10_000 {
            met.keep(ip, 1, Place::nowhere(ip));
            assert_eq!(met.get(ip, 1), Some(Place::nowhere(ip)));
        }
    }
}

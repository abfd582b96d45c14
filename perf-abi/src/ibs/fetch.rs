//! Samples of instruction fetches. They access no data: recognized, so that they can be counted apart.

use super::{Caps, IbsError, Registers, low16};

/// One sampled fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchSample {
    /// What the machine's IBS can do.
    pub caps: Caps,
    /// `IbsFetchCtl`.
    pub ctl: u64,
    /// Linear address of the fetch.
    pub linear: u64,
    /// Physical address of the fetch; see [`FetchSample::has_physical`].
    pub physical: u64,
    /// `IcIbsExtdCtl`: its low 16 bits are the latency of translation in cycles.
    pub extended: Option<u64>,
}

impl FetchSample {
    /// Registers every sample has.
    const FIXED: usize = 3;

    /// Reads the raw data of an `ibs_fetch` sample.
    pub fn parse(raw: &[u8]) -> Result<Self, IbsError> {
        let mut registers = Registers::new(raw, Self::FIXED)?;
        let caps = registers.caps;
        Ok(Self {
            caps,
            ctl: registers.word(),
            linear: registers.word(),
            physical: registers.word(),
            extended: registers.word_if(caps.has_fetch_ctl_extd()),
        })
    }

    /// The fetch was completed, not aborted.
    pub const fn is_complete(&self) -> bool {
        self.ctl & (1 << 50) != 0
    }

    /// The instruction cache had not what was asked for.
    pub const fn missed_cache(&self) -> bool {
        self.ctl & (1 << 51) != 0
    }

    /// The physical address is valid.
    pub const fn has_physical(&self) -> bool {
        self.ctl & (1 << 52) != 0
    }

    /// Cycles from the start of the fetch to its end.
    pub const fn latency_cycles(&self) -> u16 {
        low16(self.ctl >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_read_with_and_without_the_extended_register() {
        let raw = |caps: u32, words: &[u64]| {
            let mut raw = caps.to_le_bytes().to_vec();
            raw.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            raw
        };
        let ctl = 1 << 50 | 1 << 51 | 1 << 52 | 0x123 << 32;
        let sample = FetchSample::parse(&raw(1 << 9, &[ctl, 0x40_1000, 0x9000, 77])).unwrap();
        assert!(sample.is_complete() && sample.missed_cache() && sample.has_physical());
        assert_eq!(sample.latency_cycles(), 0x123);
        assert_eq!(sample.extended, Some(77));
        let sample = FetchSample::parse(&raw(0, &[ctl, 0x40_1000, 0x9000, 77])).unwrap();
        assert_eq!(sample.extended, None);
        assert_eq!(
            FetchSample::parse(&raw(0, &[ctl, 1])),
            Err(IbsError::Short { have: 20, need: 28 })
        );
    }
}

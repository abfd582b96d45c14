//! Numbers that look random and are the same for the same seed.

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, passes BigCrush.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True `permille` times in a thousand.
    pub(crate) fn permille(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// The position of one of `weights`, in proportion.
    pub(crate) fn pick(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 3];
        for _ in 0..10_000 {
            seen[random.pick(&[1, 0, 3])] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!((2_300..2_700).contains(&seen[0]), "{seen:?}");
    }
}

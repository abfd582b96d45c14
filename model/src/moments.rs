//! Sums a rollup row carries, so that totals and their variance exist after any merge.

/// Sums over n samples with period p and weight w. 64-bit floats: a fleet wraps a u64 in days.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    /// Samples.
    pub n: u64,
    /// Σ p.
    pub p: f64,
    /// Σ p².
    pub pp: f64,
    /// Σ w.
    pub w: f64,
    /// Σ w p.
    pub wp: f64,
    /// Σ (w p)².
    pub wpwp: f64,
}

impl Moments {
    /// Adds one sample.
    pub fn add(&mut self, period: u64, weight: u64) {
        let (p, w) = (period as f64, weight as f64);
        self.n += 1;
        self.p += p;
        self.pp += p * p;
        self.w += w;
        self.wp += w * p;
        self.wpwp += (w * p) * (w * p);
    }

    /// Adds another row of the same key.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.p += other.p;
        self.pp += other.pp;
        self.w += other.w;
        self.wp += other.wp;
        self.wpwp += other.wpwp;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(samples: &[(u32, u16)]) -> Moments {
        let mut sums = Moments::default();
        for (period, weight) in samples {
            sums.add(u64::from(*period), u64::from(*weight));
        }
        sums
    }

    proptest! {
        #[test]
        fn merging_parts_equals_adding_all(
            one in prop::collection::vec((1u32..1_000, 0u16..500), 0..20),
            two in prop::collection::vec((1u32..1_000, 0u16..500), 0..20),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&two));
            let all: Vec<_> = one.into_iter().chain(two).collect();
            // Whole numbers below 2^53: sums are exact, whatever the order.
            prop_assert_eq!(merged, of(&all));
        }
    }
}

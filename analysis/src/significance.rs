//! Is a change of a share larger than the noise?
//!
//! With value `w` of each sample (1 for counts), `X` the sum over the samples of a row and `Y` the sum over all samples, the
//! share is the ratio `R = X / Y`. Linearized, its variance is
//!
//! ```text
//! var(R) = n / (n − 1) · ((1 − R)² · Q + R² · (T − Q)) / Y²
//! ```
//!
//! with `Q` the sum of `w²` in the row and `T` over the whole; for counts this is the binomial `R (1 − R) / (n − 1)`. Two files
//! are independent, so the variance of the change `B − A` is the sum of both, and `z = change / √variance` is compared with the
//! normal distribution. A row without any sample in one file has variance 0 there by this formula although nothing is known so
//! exactly: there the share that half a sample more would have stands in.
//!
//! Each file is one cluster: the interval covers sampling error alone and is a lower bound of the real uncertainty
//! (`sampling_only`). Many rows are tested at once; [`benjamini_hochberg`] bounds the expected share of false findings among
//! those called changed.

use std::ops::AddAssign;

/// Half the width of a 95 % interval, in standard errors.
pub(crate) const Z95: f64 = 1.959_963_985;

/// Expected share of rows called changed that did not change, at most.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// What is summed of an estimator.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Samples.
    pub n: u64,
    /// Σ w.
    pub sum: f64,
    /// Σ w².
    pub squares: f64,
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

impl Sums {
    /// Adds one sample's value.
    pub fn add(&mut self, value: f64) {
        self.n += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The share of this row within the whole; `None` if the whole is nothing.
    pub fn share(&self, whole: &Self) -> Option<f64> {
        (whole.sum > 0.0).then(|| self.sum / whole.sum)
    }

    /// 95 % interval of the share; `None` where it cannot be told. A file is one cluster, so this covers sampling error alone.
    pub fn interval(&self, whole: &Self) -> Option<[f64; 2]> {
        let share = self.share(whole)?;
        let variance = self.variance(whole)?;
        let spread = share * (1.0 - share);
        let is_part = self.n > 0 && self.n < whole.n;
        let samples = if is_part && variance > 0.0 {
            spread / variance
        } else {
            whole.sum * whole.sum / whole.squares
        };
        let [low, high] = wilson(share, samples);
        // Rounding must not leave the share outside.
        Some([low.min(share), high.max(share)])
    }

    /// Variance of the share; `None` where it cannot be told: the whole is nothing or a single sample.
    fn variance(&self, whole: &Self) -> Option<f64> {
        let ratio = self.share(whole)?;
        if whole.n < 2 {
            return None;
        }
        let n = whole.n as f64;
        if self.n == 0 || self.n == whole.n {
            // Of n samples none (or all): what half a sample more (or less) would say, with the weight of a typical sample.
            let mean_square = whole.squares / n;
            let half = 0.5 * mean_square / (whole.sum * whole.sum);
            return Some(half);
        }
        let outside = (whole.squares - self.squares).max(0.0);
        let residuals = (1.0 - ratio).powi(2) * self.squares + ratio.powi(2) * outside;
        Some(n / (n - 1.0) * residuals / (whole.sum * whole.sum))
    }
}

/// How the share of a row changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Share before; 0 where the row has no sample.
    pub before: f64,
    /// Share after.
    pub after: f64,
    /// 95 % interval of `after − before`; `None` where a file has fewer than two samples.
    pub interval: Option<[f64; 2]>,
    /// Probability of a change at least as large by chance alone; `None` likewise.
    pub p_value: Option<f64>,
}

impl Change {
    /// `after − before`.
    pub fn delta(&self) -> f64 {
        self.after - self.before
    }
}

/// Compares a row's shares of two wholes; `None` if one of the wholes is nothing.
pub fn change(before: (Sums, Sums), after: (Sums, Sums)) -> Option<Change> {
    let (share_before, share_after) = (before.0.share(&before.1)?, after.0.share(&after.1)?);
    let variance = before.0.variance(&before.1).zip(after.0.variance(&after.1));
    let error = variance.map(|(one, other)| (one + other).sqrt());
    let delta = share_after - share_before;
    Some(Change {
        before: share_before,
        after: share_after,
        interval: error.map(|error| {
            [
                (delta - Z95 * error).max(-1.0),
                (delta + Z95 * error).min(1.0),
            ]
        }),
        p_value: error.map(|error| two_sided(delta, error)),
    })
}

/// Wilson's 95 % interval of a share among so many samples. Unlike `share ± z · error` it holds for small counts, too.
pub(crate) fn wilson(share: f64, samples: f64) -> [f64; 2] {
    let square = Z95 * Z95 / samples;
    let middle = (share + square / 2.0) / (1.0 + square);
    let spread = share * (1.0 - share) / samples + square / (4.0 * samples);
    let half = Z95 * spread.sqrt() / (1.0 + square);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

fn two_sided(delta: f64, error: f64) -> f64 {
    if error > 0.0 {
        erfc((delta / error).abs() / std::f64::consts::SQRT_2)
    } else if delta == 0.0 {
        1.0
    } else {
        0.0
    }
}

/// Complementary error function for x ≥ 0: the rational Chebyshev fit of Numerical Recipes' kind, error below 1.2e-7 of the value.
fn erfc(x: f64) -> f64 {
    const C: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let series = C.iter().fold(0.0, |sum, c| sum * t + c);
    t * (series - x * x).exp()
}

/// Which of many tests are findings, so that at most [`FALSE_DISCOVERIES`] of the findings are expected to be false: the
/// largest k with p₍ₖ₎ ≤ k/m · q, and all below it. Tests without a p-value are none.
pub fn benjamini_hochberg(p_values: &[Option<f64>]) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len() as f64;
    let bound = |at: usize| FALSE_DISCOVERIES * (at + 1) as f64 / all;
    let last = sorted
        .iter()
        .enumerate()
        .rev()
        .find(|(at, p)| **p <= bound(*at));
    let limit = last.map(|(_, p)| *p);
    p_values
        .iter()
        .map(|p| p.zip(limit).is_some_and(|(p, limit)| p <= limit))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn counts(row: u64, whole: u64) -> (Sums, Sums) {
        let of = |n: u64| Sums {
            n,
            sum: n as f64,
            squares: n as f64,
        };
        (of(row), of(whole))
    }

    /// Numbers in [0, 1) without a clock.
    pub(crate) fn random(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn two_proportions_have_the_textbook_interval_and_p_value() {
        let change = change(counts(200, 1000), counts(260, 1000)).unwrap();
        let error = (0.2_f64 * 0.8 / 999.0 + 0.26 * 0.74 / 999.0).sqrt();
        let [low, high] = change.interval.unwrap();
        assert!((change.delta() - 0.06).abs() < 1e-12);
        assert!((high - low - 2.0 * Z95 * error).abs() < 1e-9);
        // z = 0.06 / 0.018765 = 3.1974
        assert!(
            (change.p_value.unwrap() - 0.001_387).abs() < 2e-5,
            "{change:?}"
        );
    }

    #[test]
    fn the_normal_tail_is_right() {
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_310_5), (Z95, 0.05), (4.0, 6.334e-5)] {
            let found = two_sided(z, 1.0);
            assert!((found / p - 1.0).abs() < 1e-3, "{z}: {found}");
        }
    }

    #[test]
    fn a_row_that_is_new_is_judged_by_how_many_samples_it_has() {
        let one = change(counts(0, 1000), counts(1, 1000)).unwrap();
        let many = change(counts(0, 1000), counts(40, 1000)).unwrap();
        assert!(one.p_value.unwrap() > 0.05, "{one:?}");
        assert!(many.p_value.unwrap() < 1e-6, "{many:?}");
    }

    #[test]
    fn nothing_has_no_share_and_one_sample_no_interval() {
        assert_eq!(change(counts(0, 0), counts(1, 9)), None);
        let single = change(counts(1, 1), counts(1, 9)).unwrap();
        assert_eq!((single.interval, single.p_value), (None, None));
    }

    #[test]
    fn the_interval_covers_the_true_change_about_as_often_as_it_says() {
        let mut state = 7;
        let mut draw = |share: f64| {
            let (mut row, mut whole) = (Sums::default(), Sums::default());
            for _ in 0..300 {
                let (inside, weight) = (random(&mut state) < share, 1.0 + 9.0 * random(&mut state));
                whole.add(weight);
                if inside {
                    row.add(weight);
                }
            }
            (row, whole)
        };
        let mut covered = 0;
        for _ in 0..1000 {
            let [low, high] = change(draw(0.3), draw(0.4)).unwrap().interval.unwrap();
            covered += u32::from(low <= 0.1 && 0.1 <= high);
        }
        assert!((930..=970).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn of_a_thousand_rows_that_did_not_change_hardly_one_is_called_changed() {
        let mut state = 3;
        let mut found = 0;
        for _ in 0..50 {
            let p_values: Vec<_> = (0..200).map(|_| Some(random(&mut state))).collect();
            let any = benjamini_hochberg(&p_values).contains(&true);
            found += u32::from(any);
        }
        assert!(found <= 8, "{found} of 50 families have a false finding");
        let real = [Some(1e-9), Some(0.9), Some(0.02), None, Some(1e-5)];
        assert_eq!(benjamini_hochberg(&real), [true, false, true, false, true]);
    }
}

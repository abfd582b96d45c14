//! How sure a share is.
//!
//! With value `w` of each sample (1 for counts), `X` the sum over the samples of a row and `Y` the sum over all samples of
//! the event, the share is the ratio `R = X / Y`. Linearized, its variance is
//!
//! ```text
//! var(R) = n / (n − 1) · Σ (x − R·w)² / Y²        x = w in the row, 0 outside
//!        = n / (n − 1) · ((1 − R)² · Q + R² · (T − Q)) / Y²
//! ```
//!
//! with `Q` the sum of `w²` in the row and `T` over the event. For counts this is the binomial `R (1 − R) / (n − 1)`. A file
//! is one cluster, so the samples themselves are the units: the interval covers sampling error alone and is a lower bound of
//! the real uncertainty (`sampling_only`).

use crate::significance::{Sums, Z95};

/// The share of a row within the whole, and its 95 % interval. `None` if the whole is nothing.
pub fn share(row: Sums, whole: Sums) -> Option<(f64, Option<[f64; 2]>)> {
    if whole.sum <= 0.0 {
        return None;
    }
    let ratio = row.sum / whole.sum;
    if whole.n < 2 {
        return Some((ratio, None));
    }
    let n = whole.n as f64;
    let outside = (whole.squares - row.squares).max(0.0);
    let residuals = (1.0 - ratio).powi(2) * row.squares + ratio.powi(2) * outside;
    let error = (n / (n - 1.0) * residuals).sqrt() / whole.sum;
    let interval = [
        (ratio - Z95 * error).max(0.0),
        (ratio + Z95 * error).min(1.0),
    ];
    Some((ratio, Some(interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(values: &[f64]) -> Sums {
        let mut sums = Sums::default();
        for value in values {
            sums.add(*value);
        }
        sums
    }

    #[test]
    fn counts_have_the_binomial_interval() {
        let (ratio, interval) = share(sums(&[1.0; 20]), sums(&[1.0; 100])).unwrap();
        let error = Z95 * (0.2_f64 * 0.8 / 99.0).sqrt();
        let [low, high] = interval.unwrap();
        assert!((ratio - 0.2).abs() < 1e-12);
        assert!((low - (0.2 - error)).abs() < 1e-12, "{low}");
        assert!((high - (0.2 + error)).abs() < 1e-12, "{high}");
    }

    #[test]
    fn one_heavy_sample_widens_the_interval_beyond_that_of_counts() {
        let mut values = vec![1.0; 99];
        values.push(100.0);
        let (ratio, interval) = share(sums(&[100.0]), sums(&values)).unwrap();
        let [low, high] = interval.unwrap();
        assert!(
            ratio > 0.5 && low < 0.1 && high > 0.9,
            "{ratio} {low} {high}"
        );
    }

    #[test]
    fn everything_is_sure_and_nothing_has_no_share() {
        assert_eq!(
            share(sums(&[3.0; 9]), sums(&[3.0; 9])),
            Some((1.0, Some([1.0, 1.0])))
        );
        assert_eq!(share(sums(&[0.0]), sums(&[0.0; 5])), None);
        assert_eq!(share(sums(&[5.0]), sums(&[5.0])), Some((1.0, None)));
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // A fixed sequence of pseudo-random numbers: rows are drawn with share 0.3, weights vary tenfold.
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut covered = 0;
        for _ in 0..1000 {
            let (mut row, mut whole) = (Sums::default(), Sums::default());
            for _ in 0..400 {
                let (inside, weight) = (random() < 0.3, 1.0 + 9.0 * random());
                whole.add(weight);
                if inside {
                    row.add(weight);
                }
            }
            let (_, interval) = share(row, whole).unwrap();
            let [low, high] = interval.unwrap();
            covered += u32::from(low <= 0.3 && 0.3 <= high);
        }
        assert!((930..=970).contains(&covered), "{covered} of 1000");
    }
}

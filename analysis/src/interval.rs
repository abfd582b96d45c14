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
//! with `Q` the sum of `w²` in the row and `T` over the event. For counts this is the binomial `R (1 − R) / (n − 1)`. The
//! interval is Wilson's for as many samples as give that variance: near 0 and 1, where rows are, it covers what it says. A file
//! is one cluster, so the samples themselves are the units: the interval covers sampling error alone and is a lower bound of
//! the real uncertainty (`sampling_only`).

use crate::significance::Sums;

/// The share of a row within the whole, and its 95 % interval. `None` if the whole is nothing.
pub fn share(row: Sums, whole: Sums) -> Option<(f64, Option<[f64; 2]>)> {
    Some((row.share(&whole)?, row.interval(&whole)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::significance::tests::random;

    fn sums(values: &[f64]) -> Sums {
        let mut sums = Sums::default();
        for value in values {
            sums.add(*value);
        }
        sums
    }

    #[test]
    fn counts_have_wilsons_interval() {
        // 20 of 100 and 0 of 625: textbook values, here with n − 1 for n.
        for (row, whole, bounds) in [(20, 100, [0.1328, 0.2898]), (0, 625, [0.0, 0.006_11])] {
            let (ratio, interval) = share(sums(&vec![1.0; row]), sums(&vec![1.0; whole])).unwrap();
            assert!((ratio - row as f64 / whole as f64).abs() < 1e-12);
            for (found, bound) in interval.unwrap().iter().zip(bounds) {
                assert!(
                    (found - bound).abs() < 2e-3 * (0.1 + bound),
                    "{row} of {whole}: {interval:?}"
                );
            }
        }
    }

    #[test]
    fn one_heavy_sample_widens_the_interval_beyond_that_of_counts() {
        let mut values = vec![1.0; 99];
        values.push(100.0);
        let (ratio, interval) = share(sums(&[100.0]), sums(&values)).unwrap();
        let [low, high] = interval.unwrap();
        assert!(
            ratio > 0.5 && low < 0.2 && high > 0.8,
            "{ratio} {low} {high}"
        );
    }

    #[test]
    fn all_samples_are_not_all_there_ever_are_and_nothing_has_no_share() {
        let (ratio, interval) = share(sums(&[3.0; 9]), sums(&[3.0; 9])).unwrap();
        let [low, high] = interval.unwrap();
        assert!(
            ratio >= 1.0 && high >= 1.0 && (0.6..0.8).contains(&low),
            "{low}"
        );
        assert_eq!(share(sums(&[0.0]), sums(&[0.0; 5])), None);
        assert_eq!(share(sums(&[5.0]), sums(&[5.0])), Some((1.0, None)));
    }

    #[test]
    fn rare_rows_are_covered_as_often_as_common_ones() {
        for truth in [0.002, 0.005, 0.02] {
            let mut state = 7_u64;
            let mut random = || random(&mut state);
            let mut covered = 0;
            for _ in 0..1000 {
                let (mut row, mut whole) = (Sums::default(), Sums::default());
                for _ in 0..800 {
                    whole.add(1.0);
                    if random() < truth {
                        row.add(1.0);
                    }
                }
                let [low, high] = share(row, whole).unwrap().1.unwrap();
                covered += u32::from(low <= truth && truth <= high);
            }
            assert!(covered >= 900, "{truth}: {covered} of 1000");
        }
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // A fixed sequence of pseudo-random numbers: rows are drawn with share 0.3, weights vary tenfold.
        let mut state = 1_u64;
        let mut random = || random(&mut state);
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

//! What changed between two recordings, and is it more than noise?
//!
//! Rows of both are matched by their keys; each gets its share in both, the change with its interval, and a verdict that
//! holds for all rows together (see [`significance`](crate::significance)).

use crate::significance::{Change, Sums, benjamini_hochberg, change};
use std::collections::BTreeMap;

/// What is known of a row's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its share grew by more than noise explains.
    Grew,
    /// Its share shrank by more than noise explains.
    Shrank,
    /// Noise explains it.
    Noise,
    /// Too few samples to tell.
    Unknown,
}

impl Outcome {
    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::Noise => "within noise",
            Self::Unknown => "too few samples",
        }
    }
}

/// One row of both recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<K> {
    /// What it is matched by.
    pub key: K,
    /// Sums before; zero if it was not there.
    pub before: Sums,
    /// Sums after.
    pub after: Sums,
    /// How its share changed.
    pub change: Change,
    /// What that means.
    pub outcome: Outcome,
}

/// Rows and the whole of one recording.
#[derive(Debug, Clone)]
pub struct Side<K> {
    /// Sums by key. Keys that occur twice are summed.
    pub rows: Vec<(K, Sums)>,
    /// The whole.
    pub whole: Sums,
}

/// Compares two recordings; the largest changes first. Empty if one of them is nothing.
pub fn compare<K: Ord + Clone>(before: &Side<K>, after: &Side<K>) -> Vec<Row<K>> {
    let mut rows: BTreeMap<&K, (Sums, Sums)> = BTreeMap::new();
    for (key, sums) in &before.rows {
        rows.entry(key).or_default().0.merge(sums);
    }
    for (key, sums) in &after.rows {
        rows.entry(key).or_default().1.merge(sums);
    }
    let mut all: Vec<Row<K>> = rows
        .into_iter()
        .filter_map(|(key, (one, other))| {
            let change = change((one, before.whole), (other, after.whole))?;
            Some(Row {
                key: key.clone(),
                before: one,
                after: other,
                change,
                outcome: Outcome::Unknown,
            })
        })
        .collect();
    all.sort_by(|one, other| {
        let size = |row: &Row<K>| row.change.delta().abs();
        size(other)
            .total_cmp(&size(one))
            .then_with(|| one.key.cmp(&other.key))
    });
    all
}

/// Gives all rows their verdict, over all of them together.
pub fn judge<K>(rows: &mut [Row<K>]) {
    let p_values: Vec<Option<f64>> = rows.iter().map(|row| row.change.p_value).collect();
    let found = benjamini_hochberg(&p_values);
    for (row, found) in rows.iter_mut().zip(found) {
        row.outcome = match row.change.p_value {
            None => Outcome::Unknown,
            Some(_) if !found => Outcome::Noise,
            Some(_) if row.change.delta() > 0.0 => Outcome::Grew,
            Some(_) => Outcome::Shrank,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rows: &[(&'static str, u64)]) -> Side<&'static str> {
        let sums = |n: u64| Sums {
            n,
            sum: n as f64,
            squares: n as f64,
        };
        Side {
            rows: rows.iter().map(|(key, n)| (*key, sums(*n))).collect(),
            whole: sums(rows.iter().map(|(_, n)| n).sum()),
        }
    }

    #[test]
    fn rows_are_matched_and_judged_together() {
        let before = side(&[
            ("same", 500),
            ("grew", 100),
            ("shrank", 300),
            ("gone", 60),
            ("few", 3),
        ]);
        let after = side(&[
            ("same", 505),
            ("grew", 300),
            ("shrank", 200),
            ("new", 70),
            ("few", 4),
        ]);
        let mut rows = compare(&before, &after);
        judge(&mut rows);
        let outcome = |key: &str| rows.iter().find(|row| row.key == key).unwrap().outcome;
        assert_eq!(outcome("grew"), Outcome::Grew);
        assert_eq!(outcome("new"), Outcome::Grew);
        assert_eq!(outcome("shrank"), Outcome::Shrank);
        assert_eq!(outcome("gone"), Outcome::Shrank);
        assert_eq!(outcome("few"), Outcome::Noise);
        assert_eq!(rows[0].key, "grew", "the largest change comes first");
        let sum: f64 = rows.iter().map(|row| row.change.delta()).sum();
        assert!(
            sum.abs() < 1e-12,
            "shares of all rows sum to one on both sides"
        );
    }

    #[test]
    fn twice_the_same_recording_has_no_change() {
        let one = side(&[("a", 40), ("b", 60)]);
        let mut rows = compare(&one, &one);
        judge(&mut rows);
        assert!(rows.iter().all(|row| row.outcome == Outcome::Noise));
    }

    #[test]
    fn keys_that_occur_twice_are_one_row() {
        let twice = side(&[("a", 1), ("a", 2), ("b", 3)]);
        let rows = compare(&twice, &twice);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].before.n, 3);
    }
}

//! Rows summed up level by level: all of the first key's value, below it those of the second, and so on.

use super::measures::Measures;
use super::reader::Shown;
use super::rows::{Ready, Rows};
use crate::interval::share;
use crate::significance::Sums;
use std::collections::BTreeMap;

/// One value of a key, with those of the next key within it.
#[derive(Debug, Clone, PartialEq)]
pub struct Level<'a> {
    /// The value.
    pub shown: Shown<'a>,
    /// What is summed of all rows within.
    pub measures: Measures,
    /// Share within the event and its interval; `None` if the event has nothing to share.
    pub share: Option<(f64, Option<[f64; 2]>)>,
    /// Values of the next key, the largest first.
    pub children: Vec<Level<'a>>,
}

impl Rows {
    /// All rows by level, for each event that has samples.
    pub fn hierarchy(&self) -> Vec<(usize, Vec<Level<'_>>)> {
        let rows = self.ready(usize::MAX);
        let same_event = |one: &Ready<'_>, other: &Ready<'_>| one.event == other.event;
        let events = rows.chunk_by(same_event);
        events
            .filter_map(|rows| {
                let event = rows.first()?.event;
                let rows: Vec<&Ready<'_>> = rows.iter().collect();
                Some((event, self.levels(event, &rows, 0)))
            })
            .collect()
    }

    fn levels<'a>(&'a self, event: usize, rows: &[&Ready<'a>], depth: usize) -> Vec<Level<'a>> {
        let mut groups: BTreeMap<u64, Vec<&Ready<'a>>> = BTreeMap::new();
        for row in rows {
            let number = u32::try_from(row.number).unwrap_or(u32::MAX);
            let (_, numbers) = self.numbers_of(number);
            if let Some(number) = numbers.get(depth) {
                groups.entry(*number).or_default().push(row);
            }
        }
        let whole = self.whole(event).unwrap_or_default();
        let mut levels: Vec<(f64, Level<'a>)> = Vec::with_capacity(groups.len());
        for rows in groups.into_values() {
            let Some(shown) = rows.first().and_then(|row| row.keys.get(depth)) else {
                continue;
            };
            let (mut measures, mut sums) = (Measures::default(), Sums::default());
            for row in &rows {
                measures.add(&row.measures);
                sums.merge(&self.sums(row.number).unwrap_or_default());
            }
            let level = Level {
                shown: shown.clone(),
                measures,
                share: share(sums, whole),
                children: self.levels(event, &rows, depth + 1),
            };
            levels.push((sums.sum, level));
        }
        levels.sort_by(|(sum, one), (other_sum, other)| {
            let by_sum = other_sum.total_cmp(sum);
            by_sum.then_with(|| one.shown.cmp(&other.shown))
        });
        levels.into_iter().map(|(_, level)| level).collect()
    }
}

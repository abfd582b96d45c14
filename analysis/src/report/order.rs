//! The order of rows. Most rows of a long list have equal shares, and their texts begin alike: so texts are put in order once
//! each, and rows are compared by the places of their texts.

use rustc_hash::FxHashMap;

/// What a row is put in order by, besides its texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) event: u32,
    pub(super) share: f64,
    /// Tells which row is met earlier in the file.
    pub(super) met: (u64, u32),
    /// Its number.
    pub(super) row: usize,
}

/// For each row the place of its text among all texts of a key.
#[derive(Debug)]
pub(super) struct Ranks(Vec<u32>);

impl Ranks {
    /// Of a number for each row that stands for its text, and the text, which is asked for once a number.
    pub(super) fn of<T: Ord>(
        rows: impl ExactSizeIterator<Item = (u64, impl FnOnce() -> T)>,
    ) -> Self {
        let mut places: Vec<u32> = Vec::with_capacity(rows.len());
        let mut known: FxHashMap<u64, u32> = FxHashMap::default();
        let mut texts: Vec<(T, u32)> = Vec::new();
        for (number, text) in rows {
            let next = u32::try_from(texts.len()).unwrap_or(u32::MAX);
            places.push(*known.entry(number).or_insert_with(|| {
                texts.push((text(), next));
                next
            }));
        }
        texts.sort_unstable();
        let mut ranks = vec![0; texts.len()];
        let (mut rank, mut before) = (0, None);
        for (text, at) in &texts {
            rank += u32::from(before.is_some_and(|before| before != text));
            before = Some(text);
            if let Some(place) = ranks.get_mut(*at as usize) {
                *place = rank;
            }
        }
        for place in &mut places {
            *place = ranks.get(*place as usize).copied().unwrap_or_default();
        }
        Self(places)
    }
}

/// Numbers of the rows by event, the largest share first, equal ones by their texts key by key, then as they were met.
pub(super) fn in_order(mut rows: Vec<Order>, ranks: &[Ranks]) -> Vec<usize> {
    rows.sort_unstable_by(|one, other| {
        let by_share = || other.share.total_cmp(&one.share);
        let places = |row: usize| ranks.iter().map(move |ranks| ranks.0.get(row));
        let by_text = || places(one.row).cmp(places(other.row));
        let by_event = one.event.cmp(&other.event);
        let in_all = by_event.then_with(by_share).then_with(by_text);
        in_all.then_with(|| one.met.cmp(&other.met))
    });
    rows.into_iter().map(|row| row.row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_by_event_then_share_then_texts_key_by_key_then_as_they_were_met() {
        let rows = [
            (1, 0.9, "a", "a"),
            (0, 0.1, "b", "b"),
            (0, 0.1, "b", "a"),
            (0, 0.1, "a", "z"),
            (0, 0.5, "z", "z"),
            (0, 0.1, "b", "b"),
        ];
        let orders = rows
            .iter()
            .enumerate()
            .map(|(row, (event, share, ..))| Order {
                event: *event,
                share: *share,
                met: (0, if row == 5 { 0 } else { 9 }),
                row,
            });
        // Two numbers may stand for one text.
        let first = Ranks::of(
            (0..)
                .zip(rows)
                .map(|(at, row)| (at, move || row.2))
                .collect::<Vec<_>>()
                .into_iter(),
        );
        let second = Ranks::of(
            rows.map(|row| (u64::from(row.3.as_bytes()[0]), move || row.3))
                .into_iter(),
        );
        assert_eq!(
            in_order(orders.collect(), &[first, second]),
            [4, 3, 2, 5, 1, 0]
        );
        assert!(in_order(Vec::new(), &[]).is_empty());
    }
}

//! The order of rows. Most rows of a long list have equal shares, and their texts begin alike: so texts are put in order once
//! each, and rows are compared by the places of their texts.

use super::reader::Shown;
use super::rows::Ready;
use rustc_hash::FxHashMap;

/// Rows by event, the largest share first, equal ones by their texts.
pub(super) fn in_order(rows: Vec<Ready<'_>>) -> Vec<Ready<'_>> {
    let width = rows.first().map_or(0, |row| row.keys.len());
    let places = places(&rows, width);
    let places_of = |at: usize| places.get(at * width..(at + 1) * width);
    let share = |row: &Ready<'_>| match row.children {
        Some(children) => children.share,
        None => row.share.map(|(part, _)| part),
    };
    let mut order: Vec<(usize, f64, usize)> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        order.push((row.event, share(row).unwrap_or(0.0), at));
    }
    order.sort_unstable_by(|one, other| {
        let by_share = || other.1.total_cmp(&one.1);
        let by_text = || places_of(one.2).cmp(&places_of(other.2));
        let by_event = one.0.cmp(&other.0);
        let in_all = by_event.then_with(by_share).then_with(by_text);
        in_all.then(one.2.cmp(&other.2))
    });
    let mut rows: Vec<Option<Ready<'_>>> = rows.into_iter().map(Some).collect();
    let moved = order.iter();
    moved
        .filter_map(|(_, _, at)| rows.get_mut(*at)?.take())
        .collect()
}

/// For each row and key the place of its text among all texts of the key.
fn places(rows: &[Ready<'_>], width: usize) -> Vec<u32> {
    let mut places = vec![0; rows.len() * width];
    for key in 0..width {
        let mut numbers: FxHashMap<&Shown<'_>, u32> = FxHashMap::default();
        let mut texts = Vec::new();
        let cells = rows.iter().map(|row| row.keys.get(key));
        for (place, shown) in places.iter_mut().skip(key).step_by(width).zip(cells) {
            let Some(shown) = shown else { continue };
            let next = u32::try_from(texts.len()).unwrap_or(u32::MAX);
            *place = *numbers.entry(shown).or_insert_with(|| {
                texts.push(shown);
                next
            });
        }
        let mut order: Vec<(&Shown<'_>, u32)> = texts.into_iter().zip(0..).collect();
        order.sort_unstable();
        let mut ranks = vec![0; order.len()];
        for (rank, (_, number)) in (0..).zip(order) {
            if let Some(place) = ranks.get_mut(number as usize) {
                *place = rank;
            }
        }
        for place in places.iter_mut().skip(key).step_by(width) {
            *place = ranks.get(*place as usize).copied().unwrap_or_default();
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::{Measures, Value};
    use super::*;

    fn row(number: usize, event: usize, share: f64, keys: &[&'static str]) -> Ready<'static> {
        let shown = |text: &&'static str| Shown {
            value: Value::Text((*text).into()),
            mode: '.',
        };
        Ready {
            number,
            event,
            keys: keys.iter().map(shown).collect(),
            measures: Measures::default(),
            share: Some((share, None)),
            children: None,
        }
    }

    #[test]
    fn rows_go_by_event_then_share_then_texts_key_by_key() {
        let rows = vec![
            row(0, 1, 0.9, &["a", "a"]),
            row(1, 0, 0.1, &["b", "b"]),
            row(2, 0, 0.1, &["b", "a"]),
            row(3, 0, 0.1, &["a", "z"]),
            row(4, 0, 0.5, &["z", "z"]),
        ];
        let numbers: Vec<usize> = in_order(rows).iter().map(|row| row.number).collect();
        assert_eq!(numbers, [4, 3, 2, 1, 0]);
        assert!(in_order(Vec::new()).is_empty());
    }
}

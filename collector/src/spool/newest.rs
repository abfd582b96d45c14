//! The newest batches in memory: an uplink that keeps pace reads no file.

use std::collections::VecDeque;

use memwide_proto::v1::Batch;

/// Bytes of sections kept.
const KEPT_BYTES: usize = 2 << 20;

/// Batches of ascending numbers without gaps, oldest first.
#[derive(Debug, Default)]
pub(super) struct Newest {
    batches: VecDeque<(Batch, usize)>,
    bytes: usize,
}

impl Newest {
    pub(super) fn add(&mut self, batch: &Batch) {
        let sections = [&batch.side_band, &batch.samples].into_iter().flatten();
        let bytes = sections.map(|section| section.data.len()).sum();
        self.batches.push_back((batch.clone(), bytes));
        self.bytes += bytes;
        while self.bytes > KEPT_BYTES {
            self.drop_oldest();
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<Batch> {
        let (oldest, _) = self.batches.front()?;
        let at = usize::try_from(number.checked_sub(oldest.number)?).ok()?;
        self.batches.get(at).map(|(batch, _)| batch.clone())
    }

    /// Forgets all up to this number.
    pub(super) fn drop_through(&mut self, number: u64) {
        let is_old = |one: &(Batch, usize)| one.0.number <= number;
        while self.batches.front().is_some_and(is_old) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        self.bytes -= self.batches.pop_front().map_or(0, |(_, bytes)| bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_proto::v1::Section;

    fn batch(number: u64, bytes: usize) -> Batch {
        let samples = Some(Section {
            data: vec![1; bytes].into(),
            ..Section::default()
        });
        Batch {
            number,
            samples,
            ..Batch::default()
        }
    }

    #[test]
    fn the_newest_that_fit_are_kept_until_they_are_dropped() {
        let mut newest = Newest::default();
        assert_eq!(newest.get(1), None);
        for number in 1..=4 {
            newest.add(&batch(number, KEPT_BYTES / 3));
        }
        let kept = |newest: &Newest| -> Vec<u64> {
            (0..=5)
                .filter_map(|number| newest.get(number))
                .map(|batch| batch.number)
                .collect()
        };
        assert_eq!(kept(&newest), [2, 3, 4]);
        newest.drop_through(3);
        assert_eq!(kept(&newest), [4]);
        newest.add(&batch(5, KEPT_BYTES + 1));
        assert!(
            kept(&newest).is_empty(),
            "one that does not fit is not kept"
        );
    }
}

//! From the perf clock of a host to wall time, by the anchors its batches carry.

use memwide_proto::v1;
use std::collections::BTreeMap;

/// Batches whose anchors are kept: a source has fewer under way.
const BATCHES_MAX: usize = 4096;

/// Anchors by the batch that brought them.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    by_batch: BTreeMap<u64, Vec<v1::ClockAnchor>>,
}

/// The anchors that hold for one batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchClock {
    anchors: Vec<v1::ClockAnchor>,
    fallback_wall_ns: u64,
}

impl Clock {
    /// Keeps the anchors of a batch.
    pub(crate) fn learn(&mut self, batch: u64, anchors: &[v1::ClockAnchor]) {
        if anchors.is_empty() {
            return;
        }
        let mut anchors = anchors.to_vec();
        anchors.sort_by_key(|anchor| anchor.perf_ns);
        self.by_batch.insert(batch, anchors);
        if self.by_batch.len() > BATCHES_MAX {
            self.by_batch.pop_first();
        }
    }

    /// Those of the batch and the last ones before it, so that a repeated batch gets the same times.
    pub(crate) fn of_batch(&self, batch: u64, closed_wall_ns: u64) -> BatchClock {
        let mut known = self.by_batch.range(..=batch).rev();
        let own = known.next().map(|(_, anchors)| anchors.as_slice());
        let before = known.next().and_then(|(_, anchors)| anchors.last());
        let mut anchors: Vec<_> = before.copied().into_iter().collect();
        anchors.extend(own.unwrap_or_default());
        BatchClock {
            anchors,
            fallback_wall_ns: closed_wall_ns,
        }
    }
}

impl BatchClock {
    /// Wall time of a moment on the perf clock: by the last anchor before it, else the first one.
    pub(crate) fn wall_ns(&self, perf_ns: u64) -> u64 {
        let behind = self
            .anchors
            .partition_point(|anchor| anchor.perf_ns <= perf_ns);
        match self.anchors.get(behind.saturating_sub(1)) {
            Some(anchor) => anchor
                .wall_ns
                .wrapping_add(perf_ns.wrapping_sub(anchor.perf_ns)),
            None => self.fallback_wall_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(perf_ns: u64, wall_ns: u64) -> v1::ClockAnchor {
        v1::ClockAnchor {
            perf_ns,
            wall_ns,
            uncertainty_ns: 1,
        }
    }

    #[test]
    fn the_last_anchor_before_a_moment_places_it() {
        let mut clock = Clock::default();
        clock.learn(1, &[anchor(100, 1_000)]);
        clock.learn(3, &[anchor(300, 1_205), anchor(200, 1_100)]);
        let batch = clock.of_batch(3, 9_999);
        for (perf, wall) in [(90, 990), (150, 1_050), (250, 1_150), (310, 1_215)] {
            assert_eq!(batch.wall_ns(perf), wall, "{perf}");
        }
        assert_eq!(
            clock.of_batch(2, 9_999).wall_ns(250),
            1_150,
            "a later anchor does not change it"
        );
        assert_eq!(Clock::default().of_batch(1, 9_999).wall_ns(5), 9_999);
    }
}

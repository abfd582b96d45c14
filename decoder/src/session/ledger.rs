//! What became of the samples of one batch, by event and reason.

use super::event::Events;
use memwide_model::Reason;
use memwide_perf_abi::Aux;
use memwide_proto::v1;
use std::collections::BTreeMap;

/// Entries of one batch.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<(u64, u8), (u64, f64)>,
    /// Samples by event as the collector counted them.
    produced: BTreeMap<u64, u64>,
    /// Times the kernel handed on hardware trace, by event, and how often samples had collided.
    trace: BTreeMap<u64, (u64, u64)>,
    /// The collector counted none: then what is seen counts.
    counts_missing: bool,
}

impl Ledger {
    /// What the collector says of a batch.
    pub(crate) fn of_batch(batch: &v1::Batch, events: &Events) -> Self {
        let mut ledger = Self {
            counts_missing: batch.counts.is_empty(),
            ..Self::default()
        };
        ledger.add(0, Reason::Batches, 1);
        ledger.add_seconds(0, Reason::BlindSeconds, batch.blind_ns);
        for count in &batch.counts {
            let event = events.by_ordinal(count.event).map_or(0, |meta| meta.id);
            // What the collector could not read is none of what is here to be decoded, or was given up.
            let here = count.produced.saturating_sub(count.undecodable);
            *ledger.produced.entry(event).or_default() += here;
            ledger.add(event, Reason::Produced, count.produced);
            ledger.add(event, Reason::Undecodable, count.produced - here);
            ledger.add(event, Reason::Lost, count.lost);
            ledger.add(event, Reason::Residue, count.residue);
            ledger.add_seconds(event, Reason::ThrottledSeconds, count.throttled_ns);
            if batch.gap.is_some() {
                ledger.add(event, Reason::Gap, here);
            }
        }
        ledger
    }

    /// Counts records; none are no entry.
    pub(crate) fn add(&mut self, event: u64, reason: Reason, records: u64) {
        if records > 0 {
            self.entries.entry((event, reason.code())).or_default().0 += records;
        }
    }

    fn add_seconds(&mut self, event: u64, reason: Reason, ns: u64) {
        if ns > 0 {
            let entry = self.entries.entry((event, reason.code())).or_default();
            entry.1 += std::time::Duration::from_nanos(ns).as_secs_f64();
        }
    }

    /// The kernel handed on hardware trace. How many samples collided or found no room, nobody knows: the batch's share of
    /// hand-overs with collisions is entered, and one lost record for each that was cut.
    pub(crate) fn trace(&mut self, event: u64, aux: Aux) {
        let (handed, collided) = self.trace.entry(event).or_default();
        *handed += 1;
        *collided += u64::from(aux.collided());
        self.add(event, Reason::Lost, u64::from(aux.truncated()));
    }

    /// A sample of an event was seen.
    pub(crate) fn saw(&mut self, event: u64) {
        if self.counts_missing {
            self.add(event, Reason::Produced, 1);
        }
    }

    /// Every row is a sample that became one.
    pub(crate) fn stored(&mut self, block: &v1::AccessBlock) {
        let mut rows = vec![0_u64; block.events.len()];
        for event in &block.event {
            if let Some(count) = rows.get_mut(usize::from(*event)) {
                *count += 1;
            }
        }
        for (event, rows) in block.events.iter().zip(rows) {
            self.add(*event, Reason::Stored, rows);
        }
    }

    /// No sample of the batch can be read: all that were produced are undecodable.
    pub(crate) fn poison(&mut self, records: u64) {
        if self.counts_missing {
            self.add(0, Reason::Undecodable, records);
        }
        for (event, produced) in std::mem::take(&mut self.produced) {
            self.add(event, Reason::Undecodable, produced);
        }
    }

    /// As sent, in the order of events and reasons.
    pub(crate) fn finish(mut self) -> Vec<v1::LedgerEntry> {
        for (event, (handed, collided)) in std::mem::take(&mut self.trace) {
            if collided > 0 {
                #[expect(clippy::cast_precision_loss, reason = "a share of a batch's records")]
                let share = collided as f64 / handed as f64;
                let entry = self.entries.entry((event, Reason::CollisionShare.code()));
                entry.or_default().1 += share;
            }
        }
        let entries = self.entries.into_iter();
        entries
            .map(|((event_id, reason), (records, seconds))| v1::LedgerEntry {
                event_id,
                reason: u32::from(reason),
                records,
                seconds,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_collector_could_not_read_is_undecodable_and_nothing_else() {
        let batch = |gap| v1::Batch {
            counts: vec![v1::EventCount {
                event: u32::MAX,
                produced: 10,
                undecodable: 3,
                ..v1::EventCount::default()
            }],
            gap,
            ..v1::Batch::default()
        };
        let gap = v1::Gap {
            reason: "spool_full".to_owned(),
        };
        for (gap, poisoned, rest) in [
            (None, false, None),
            (Some(gap), false, Some((Reason::Gap, 7))),
            (None, true, Some((Reason::Undecodable, 10))),
        ] {
            let mut ledger = Ledger::of_batch(&batch(gap), &Events::default());
            if poisoned {
                ledger.poison(7);
            }
            let entries = ledger.finish();
            let of = |reason: Reason| {
                let code = u32::from(reason.code());
                let found = entries.iter().find(|entry| entry.reason == code);
                found.map(|entry| (entry.event_id, entry.records))
            };
            assert_eq!(of(Reason::Produced), Some((0, 10)));
            let (reason, records) = rest.unwrap_or((Reason::Undecodable, 3));
            assert_eq!(of(reason), Some((0, records)));
            assert_eq!(
                of(Reason::Undecodable).map(|(_, records)| records >= 3),
                Some(true)
            );
        }
    }

    #[test]
    fn collisions_are_a_share_and_cut_trace_is_at_least_one_loss() {
        let mut ledger = Ledger::default();
        for flags in [0, 8, 9, 1] {
            let aux = Aux {
                offset: 0,
                size: 64,
                flags,
            };
            ledger.trace(7, aux);
        }
        let entries = ledger.finish();
        let of = |reason: Reason| {
            let code = u32::from(reason.code());
            let entry = entries.iter().find(|entry| entry.reason == code).unwrap();
            (entry.event_id, entry.records, entry.seconds)
        };
        assert_eq!(of(Reason::Lost), (7, 2, 0.0));
        assert_eq!(of(Reason::CollisionShare), (7, 0, 0.5));
        assert_eq!(entries.len(), 2);
    }
}

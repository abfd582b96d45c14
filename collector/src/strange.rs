//! What rings held that nobody expected, told by type and number.

use std::collections::BTreeMap;

/// Different things told one by one; the rest is only counted.
const TOLD_MAX: usize = 8;

/// A kind of surprise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A sample of an event that is not ours. It is sent; it becomes no row.
    Id(u64),
    /// A type of record this build does not know. It is sent.
    Type(u32),
    /// Bytes that are no record; what follows them in the ring is given up.
    Torn,
}

/// Counts of what is strange.
#[derive(Debug, Default)]
pub(crate) struct Strange {
    counts: BTreeMap<What, u64>,
    /// Of those that are not told one by one.
    rest: u64,
}

impl Strange {
    fn add(&mut self, what: What) {
        if self.counts.len() < TOLD_MAX || self.counts.contains_key(&what) {
            *self.counts.entry(what).or_default() += 1;
        } else {
            self.rest += 1;
        }
    }

    /// A sample whose id no event has.
    pub(crate) fn sample(&mut self, id: u64) {
        self.add(What::Id(id));
    }

    /// A record of this type, if the type is not known.
    pub(crate) fn record(&mut self, kind: u32) {
        if !(1..=memwide_perf_abi::kind::CALLCHAIN_DEFERRED).contains(&kind) {
            self.add(What::Type(kind));
        }
    }

    /// Bytes that are no record.
    pub(crate) fn torn(&mut self) {
        self.add(What::Torn);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of it, for a person; `None` if there is nothing.
    pub(crate) fn told(&self) -> Option<String> {
        let each = self.counts.iter().map(|(what, count)| match what {
            What::Id(id) => format!("{count} samples (type 9) of unknown id {id}"),
            What::Type(kind) => format!("{count} records of unknown type {kind}"),
            What::Torn => format!("{count} pieces that are no records"),
        });
        let rest = (self.rest > 0).then(|| format!("{} others", self.rest));
        let all: Vec<String> = each.chain(rest).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::kind;

    #[test]
    fn types_and_numbers_are_told() {
        let mut strange = Strange::default();
        for known in kind::MMAP..=kind::CALLCHAIN_DEFERRED {
            strange.record(known);
        }
        assert_eq!(strange.told(), None);
        strange.record(77);
        strange.record(77);
        strange.sample(5);
        strange.torn();
        assert_eq!(
            strange.told().unwrap(),
            "1 samples (type 9) of unknown id 5, 2 records of unknown type 77, 1 pieces that are no records"
        );
        strange.clear();
        assert_eq!(strange.told(), None);
    }

    #[test]
    fn many_different_ones_are_bounded() {
        let mut strange = Strange::default();
        (0..1_000).for_each(|id| strange.sample(id));
        assert!(strange.told().unwrap().ends_with(", 992 others"));
    }
}

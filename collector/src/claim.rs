//! Whose sample it is when the kernel wrote the id of another recorder's event.

use std::collections::HashSet;

use memwide_perf_abi::{HEADER_LEN, RawRecord};

/// Samples of a ring get the id `own` of the one event counted in software that writes into it, unless they are of one of
/// the `others`, whose ids are always right.
///
/// Nothing but the id is changed: what else such a sample holds is the hit, which is the same for all who look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) own: u64,
    pub(crate) others: &'a HashSet<u64>,
}

impl Claim<'_> {
    /// The id that a sample with this one should have; `None`: it is right.
    #[inline]
    fn of(&self, id: u64) -> Option<u64> {
        (id != self.own && !self.others.contains(&id)).then_some(self.own)
    }
    /// Gives a sample its id, if it has another's.
    #[inline]
    pub(crate) fn one(&self, sample: &mut [u8]) -> bool {
        let word = sample.get_mut(HEADER_LEN..);
        let Some(word) = word.and_then(<[u8]>::first_chunk_mut) else {
            return false;
        };
        let own = self.of(u64::from_le_bytes(*word));
        if let Some(own) = own {
            *word = own.to_le_bytes();
        }
        own.is_some()
    }

    /// The same of all samples among `records`. How many were changed.
    pub(crate) fn all(&self, records: &mut [u8]) -> u64 {
        let (mut at, mut changed) = (0, 0);
        while let Some(rest) = records.get_mut(at..)
            && let Ok((record, _)) = RawRecord::split_first(rest)
        {
            let (size, is_sample) = (record.size(), record.is_sample());
            if let Some(sample) = rest.get_mut(..size).filter(|_| is_sample) {
                changed += u64::from(self.one(sample));
            }
            at += size;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::{encode, kind};

    fn claim(others: &HashSet<u64>) -> Claim<'_> {
        Claim { own: 7, others }
    }

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut out = Vec::new();
        encode::raw(&mut out, kind, 0, &body).unwrap();
        out
    }

    #[test]
    fn foreign_ids_are_claimed_and_nothing_else_is_touched() {
        let rows = |foreign: u64| {
            [
                record(kind::SAMPLE, &[7, 1]),
                record(kind::SAMPLE, &[foreign, 2, 99]),
                record(kind::LOST, &[99, 3]),
                record(kind::SAMPLE, &[8, 99]),
            ]
            .concat()
        };
        let mut records = rows(99);
        assert_eq!(claim(&HashSet::from([8])).all(&mut records), 1);
        assert_eq!(records, rows(7));
    }

    #[test]
    fn a_record_that_ends_early_ends_the_walk() {
        let mut records = [record(kind::SAMPLE, &[9]), record(kind::SAMPLE, &[9])].concat();
        records.truncate(records.len() - 4);
        assert_eq!(claim(&HashSet::new()).all(&mut records), 1);
    }
}

//! Whose sample it is when the kernel wrote the id of another recorder's event.

use std::collections::HashSet;

use memwide_perf_abi::{HEADER_LEN, Records, kind};

/// Gives samples the id `own` of the one event counted in software that writes into their ring, unless they are of one of
/// the `others`, whose ids are always right. How many were changed.
///
/// Nothing but the id is changed: what else such a sample holds is the hit, which is the same for all who look at it.
pub(crate) fn claim(records: &mut [u8], own: u64, others: &HashSet<u64>) -> u64 {
    let mut foreign = Vec::new();
    let mut at = 0;
    for record in Records::new(records).map_while(Result::ok) {
        if record.kind == kind::SAMPLE
            && let Some(id) = record.first_word()
            && id != own
            && !others.contains(&id)
        {
            foreign.push(at + HEADER_LEN);
        }
        at += record.size();
    }
    for at in &foreign {
        if let Some(word) = records.get_mut(*at..at + size_of::<u64>()) {
            word.copy_from_slice(&own.to_le_bytes());
        }
    }
    foreign.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::encode;

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
        assert_eq!(claim(&mut records, 7, &HashSet::from([8])), 1);
        assert_eq!(records, rows(7));
    }

    #[test]
    fn a_record_that_ends_early_ends_the_walk() {
        let mut records = [record(kind::SAMPLE, &[9]), record(kind::SAMPLE, &[9])].concat();
        records.truncate(records.len() - 4);
        assert_eq!(claim(&mut records, 7, &HashSet::new()), 1);
    }
}

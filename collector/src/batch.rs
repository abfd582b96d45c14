//! Records on their way into a batch: what is a sample, what is side-band, how many of each event.

use std::collections::HashMap;
use std::ops::Range;

use memwide_perf_abi::{RawRecord, Record, Records, kind};
use memwide_proto::v1::EventDesc;

use crate::claim::Claim;
use crate::identity::Cgroup;
use crate::section::Growing;
use crate::select::{Selection, retain_samples};
use crate::strange::Strange;

/// Whether records of this type travel with the samples.
pub(crate) fn is_sample_like(kind: u32) -> bool {
    matches!(
        kind,
        kind::SAMPLE
            | kind::LOST
            | kind::LOST_SAMPLES
            | kind::THROTTLE
            | kind::UNTHROTTLE
            | kind::READ
            | kind::SWITCH
            | kind::SWITCH_CPU_WIDE
            | kind::AUX
            | kind::ITRACE_START
            | kind::AUX_OUTPUT_HW_ID
            | kind::CALLCHAIN_DEFERRED
    )
}

/// From the kernel's id of a descriptor to the event's place in the source.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    by_id: HashMap<u64, u32>,
    /// Samples come in runs of one event.
    last: (u64, u32),
}

impl Ids {
    pub(crate) fn new<'a>(events: impl IntoIterator<Item = &'a EventDesc>) -> Self {
        let mut by_id = HashMap::new();
        for event in events {
            by_id.extend(event.ids.iter().map(|id| (*id, event.ordinal)));
        }
        Self {
            by_id,
            last: (u64::MAX, u32::MAX),
        }
    }

    fn ordinal(&mut self, id: u64) -> Option<u32> {
        if self.last.0 != id {
            self.last = (id, *self.by_id.get(&id)?);
        }
        Some(self.last.1)
    }
}

/// What one event did in one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) produced: u64,
    /// Taken from rings and not asked for.
    pub(crate) excluded: u64,
    /// Taken from rings and given to another event.
    pub(crate) moved: u64,
    pub(crate) throttled_ns: u64,
}

impl Tally {
    /// Samples that the event put into rings.
    pub(crate) fn taken(&self) -> u64 {
        self.produced + self.excluded + self.moved
    }
}

/// What becomes of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// It is of the event with this ordinal.
    Twin(u32),
    Drop,
}

/// A sample that others follow with the same header and the same id, which is right: they need no further look.
struct Like {
    head: [u8; 16],
    size: usize,
    ordinal: usize,
}

impl Like {
    fn new(sample: Option<&[u8]>, ordinal: Option<u32>) -> Option<Self> {
        let sample = sample?;
        Some(Self {
            head: *sample.first_chunk()?,
            size: sample.len(),
            ordinal: ordinal? as usize,
        })
    }

    /// How many whole ones `records` begin with, and their bytes.
    fn follow(&self, records: &[u8]) -> (u32, usize) {
        let all = records.chunks_exact(self.size);
        let like = all.take_while(|sample| sample.first_chunk() == Some(&self.head));
        let count = like.count();
        (u32::try_from(count).unwrap_or(0), count * self.size)
    }
}

/// The records of one batch, unpacked.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) side_band: Vec<u8>,
    pub(crate) side_band_records: u32,
    pub(crate) samples: Vec<u8>,
    /// Bytes of them that were looked at: whole records.
    whole: usize,
    /// The same, packed.
    pub(crate) packed: Growing,
    pub(crate) sample_records: u32,
    /// By ordinal.
    pub(crate) tallies: Vec<Tally>,
    /// Cgroups that were made.
    pub(crate) cgroups: Vec<Cgroup>,
    /// Side-band was lost.
    pub(crate) partial: bool,
    /// Samples of ids nobody knows, unknown types, and bytes that are no records.
    pub(crate) strange: Strange,
    /// When events were throttled, by id; survives the batch.
    throttled_since: HashMap<u64, u64>,
}

impl Collected {
    /// Room for `events` tallies.
    pub(crate) fn new(events: usize) -> Self {
        Self {
            tallies: vec![Tally::default(); events],
            ..Self::default()
        }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.side_band.len() + self.samples.len()
    }

    /// Starts the next batch; buffers keep their memory.
    pub(crate) fn clear(&mut self) {
        self.side_band.clear();
        self.samples.clear();
        self.packed.begin();
        self.whole = 0;
        (self.side_band_records, self.sample_records) = (0, 0);
        self.strange.clear();
        self.partial = false;
        self.tallies.fill(Tally::default());
    }

    /// Counts what a sample ring gave and was appended to `samples`, as far as it is whole. Side-band among it is moved to
    /// `side_band`. Says how many samples carried the id of another recorder's event, and now have `claim`'s.
    pub(crate) fn take_samples(&mut self, ids: &mut Ids, claim: Option<&Claim<'_>>) -> u64 {
        let Self {
            side_band,
            side_band_records,
            samples,
            sample_records,
            tallies,
            strange,
            throttled_since,
            whole,
            ..
        } = self;
        let mut moved: Vec<Range<usize>> = Vec::new();
        let (mut at, mut claimed) = (*whole, 0);
        let mut like: Option<Like> = None;
        while let Some(rest) = samples.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(like) = like.take() {
                let (count, bytes) = like.follow(rest);
                if let Some(tally) = tallies.get_mut(like.ordinal) {
                    tally.produced += u64::from(count);
                }
                *sample_records += count;
                at += bytes;
            }
            let rest = samples.get(at..).unwrap_or_default();
            let Ok((record, _)) = RawRecord::split_first(rest) else {
                break;
            };
            let end = at + record.size();
            match record.kind {
                kind::SAMPLE => {
                    let mut id = record.first_word().unwrap_or(0);
                    if let (Some(claim), Some(sample)) = (claim, samples.get_mut(at..end))
                        && claim.one(sample)
                    {
                        id = claim.own;
                        claimed += 1;
                    }
                    let ordinal = ids.ordinal(id);
                    match ordinal.and_then(|ordinal| tallies.get_mut(ordinal as usize)) {
                        Some(tally) => {
                            tally.produced += 1;
                            like = Like::new(samples.get(at..end), ordinal);
                        }
                        None => strange.sample(id),
                    }
                }
                kind::THROTTLE | kind::UNTHROTTLE => {
                    throttle(throttled_since, tallies, record, ids);
                }
                kind if !is_sample_like(kind) => {
                    strange.record(kind);
                    side_band.extend_from_slice(record.bytes());
                    *side_band_records += 1;
                    moved.push(at..end);
                    at = end;
                    continue;
                }
                _ => {}
            }
            *sample_records += 1;
            at = end;
        }
        for range in moved.into_iter().rev() {
            at -= range.len();
            samples.drain(range);
        }
        *whole = at;
        claimed
    }

    /// Nothing more will come of the ring that is looked at: what is no whole record now never will be.
    pub(crate) fn end_ring(&mut self) {
        if self.samples.len() > self.whole {
            self.strange.torn();
            self.samples.truncate(self.whole);
        }
    }

    /// Packs what was looked at and is new.
    pub(crate) fn pack_new(&mut self) {
        self.packed
            .add(self.samples.get(..self.whole).unwrap_or_default());
    }

    /// Takes samples out, from byte `from` on, that are not asked for.
    pub(crate) fn select(&mut self, from: usize, selection: &mut Selection, ids: &mut Ids) {
        let Self {
            samples,
            whole,
            sample_records,
            tallies,
            ..
        } = self;
        selection.keep(samples, from, |id| {
            *sample_records -= 1;
            let ordinal = ids.ordinal(id);
            if let Some(tally) = ordinal.and_then(|ordinal| tallies.get_mut(ordinal as usize)) {
                tally.produced -= 1;
                tally.excluded += 1;
            }
        });
        *whole = samples.len();
    }

    /// Decides of each sample from byte `from` on, by its bytes (which may be changed) and its event.
    pub(crate) fn sort_out(
        &mut self,
        from: usize,
        ids: &mut Ids,
        mut decide: impl FnMut(&mut [u8], u32) -> Fate,
    ) {
        let Self {
            samples,
            whole,
            sample_records,
            tallies,
            ..
        } = self;
        retain_samples(samples, from, |sample| {
            let id = RawRecord::new(sample)
                .ok()
                .and_then(|record| record.first_word());
            let Some(event) = id.and_then(|id| ids.ordinal(id)) else {
                return true;
            };
            let fate = decide(sample, event);
            if let Some(tally) = tallies.get_mut(event as usize) {
                match fate {
                    Fate::Keep => {}
                    Fate::Twin(_) => {
                        tally.produced -= 1;
                        tally.moved += 1;
                    }
                    Fate::Drop => {
                        tally.produced -= 1;
                        tally.excluded += 1;
                    }
                }
            }
            if let Fate::Twin(twin) = fate
                && let Some(tally) = tallies.get_mut(twin as usize)
            {
                tally.produced += 1;
            }
            *sample_records -= u32::from(fate == Fate::Drop);
            fate != Fate::Drop
        });
        *whole = samples.len();
    }

    /// Counts what a side-band ring gave (appended to `side_band` from byte `from` on).
    pub(crate) fn take_side_band(&mut self, from: usize) {
        let mut walk = Records::new(self.side_band.get(from..).unwrap_or_default());
        for record in walk.by_ref() {
            if let Ok(record) = record {
                if record.kind == kind::CGROUP
                    && let Ok(Record::Cgroup(cgroup)) = Record::parse(record)
                {
                    let path = String::from_utf8_lossy(cgroup.path).into_owned();
                    self.cgroups.push(Cgroup {
                        id: cgroup.id,
                        path,
                    });
                }
                self.side_band_records += 1;
                self.partial |= record.kind == kind::LOST;
                self.strange.record(record.kind);
            } else {
                self.strange.torn();
                self.partial = true;
            }
        }
        let whole = from + walk.offset();
        self.side_band.truncate(whole);
    }
}

fn throttle(
    since: &mut HashMap<u64, u64>,
    tallies: &mut [Tally],
    record: memwide_perf_abi::RawRecord<'_>,
    ids: &mut Ids,
) {
    match Record::parse(record) {
        Ok(Record::Throttle(record)) => {
            since.insert(record.id, record.time);
        }
        Ok(Record::Unthrottle(record)) => {
            if let Some(start) = since.remove(&record.id)
                && let Some(tally) = ids
                    .ordinal(record.id)
                    .and_then(|ordinal| tallies.get_mut(ordinal as usize))
            {
                tally.throttled_ns += record.time.saturating_sub(start);
            }
        }
        _ => {}
    }
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

    fn collected() -> (Collected, Ids) {
        let event = |ordinal, ids: &[u64]| EventDesc {
            ordinal,
            ids: ids.to_vec(),
            ..EventDesc::default()
        };
        let ids = Ids::new(&[event(0, &[1, 2]), event(1, &[3]), event(2, &[4, 5])]);
        (Collected::new(3), ids)
    }

    #[test]
    fn samples_are_counted_by_event_and_side_band_is_moved() {
        let (mut all, mut ids) = collected();
        let rows = [
            record(kind::SAMPLE, &[3, 0]),
            record(kind::COMM, &[7, 8, 1]),
            record(kind::SAMPLE, &[4]),
            record(kind::SAMPLE, &[5, 1, 2]),
            record(kind::MMAP2, &[1; 9]),
            record(kind::LOST, &[4, 10, 4]),
        ];
        all.samples = rows.concat();
        all.take_samples(&mut ids, None);
        let produced: Vec<u64> = all.tallies.iter().map(|tally| tally.produced).collect();
        assert_eq!(produced, [0, 1, 2]);
        assert_eq!(
            all.samples,
            [&rows[0][..], &rows[2], &rows[3], &rows[5]].concat()
        );
        assert_eq!(all.side_band, [&rows[1][..], &rows[4]].concat());
        assert_eq!((all.sample_records, all.side_band_records), (4, 2));
    }

    #[test]
    fn a_record_may_come_in_two_pieces_and_what_is_none_is_strange() {
        let (mut all, mut ids) = collected();
        let raw = [record(kind::SAMPLE, &[3, 0]), record(kind::SAMPLE, &[3, 1])].concat();
        for piece in raw.chunks(28) {
            all.samples.extend_from_slice(piece);
            all.take_samples(&mut ids, None);
            all.pack_new();
        }
        all.end_ring();
        assert_eq!((all.tallies[1].produced, all.strange.told()), (2, None));
        all.samples.extend_from_slice(&raw[..20]);
        all.take_samples(&mut ids, None);
        all.end_ring();
        assert_eq!((all.tallies[1].produced, all.samples.len()), (2, raw.len()));
        assert!(all.strange.told().is_some());
    }

    #[test]
    fn an_unknown_id_is_counted_as_strange() {
        let (mut all, mut ids) = collected();
        all.samples = record(kind::SAMPLE, &[99]);
        all.take_samples(&mut ids, None);
        assert_eq!(all.sample_records, 1);
        let told = all.strange.told().unwrap();
        assert!(
            told.contains("1 samples (type 9) of unknown id 99"),
            "{told}"
        );
    }

    #[test]
    fn throttled_time_is_summed_across_batches() {
        let (mut all, mut ids) = collected();
        all.samples = record(kind::THROTTLE, &[100, 3, 3]);
        all.take_samples(&mut ids, None);
        all.clear();
        all.samples = record(kind::UNTHROTTLE, &[350, 3, 3]);
        all.take_samples(&mut ids, None);
        assert_eq!(all.tallies[1].throttled_ns, 250);
    }

    #[test]
    fn lost_side_band_makes_the_batch_partial() {
        let (mut all, _) = collected();
        all.side_band = record(kind::COMM, &[1, 2, 3]);
        all.take_side_band(0);
        assert!(!all.partial);
        let from = all.side_band.len();
        all.side_band.extend(record(kind::LOST, &[1, 5, 1]));
        all.take_side_band(from);
        assert_eq!((all.partial, all.side_band_records), (true, 2));
    }
}

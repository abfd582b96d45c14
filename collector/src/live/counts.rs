//! What the events themselves count: losses, and whether samples are missing that nobody reported lost.

use std::os::fd::AsFd;

use memwide_proto::v1::EventCount;

use crate::batch::Tally;
use crate::events::OpenEvent;

/// `value, enabled, running, id, lost`, as the read format asks.
const WORDS: usize = 5;

/// The counts of one event over all CPUs, and what batches have told of them.
#[derive(Debug, Clone, Default)]
struct Totals {
    /// Events counted when the descriptors were last read.
    value: u64,
    /// The same as known when all rings were last emptied.
    emptied: u64,
    /// The same one emptying earlier: what was being written then has been taken from its ring since.
    settled: u64,
    /// Where the period in force began, and the samples of the periods before.
    value_from: u64,
    due_from: u64,
    lost: u64,
    /// Time enabled and not running: not scheduled.
    idle_ns: u64,
    /// Samples taken from rings, those that are not asked for included.
    taken: u64,
    told_lost: u64,
    told_idle_ns: u64,
    told_residue: u64,
}

/// Counts of all events.
#[derive(Debug)]
pub(super) struct Counts(Vec<Totals>);

impl Counts {
    pub(super) fn new(events: &[OpenEvent]) -> Self {
        Self(vec![Totals::default(); events.len()])
    }

    /// Reads all descriptors.
    pub(super) fn read(&mut self, events: &[OpenEvent]) {
        for (totals, event) in self.0.iter_mut().zip(events) {
            let (mut value, mut lost, mut idle) = (0_u64, 0_u64, 0_u64);
            for descriptor in &event.descriptors {
                let Some(words) = read_words(descriptor.as_fd()) else {
                    continue; // the CPU is offline; its last counts are gone with it
                };
                value += words[0];
                idle += words[1].saturating_sub(words[2]);
                if event.counts_lost {
                    lost += words[4];
                }
            }
            totals.value = totals.value.max(value);
            totals.lost = totals.lost.max(lost);
            totals.idle_ns = totals.idle_ns.max(idle);
        }
    }

    /// All rings were emptied. Samples that were counted may still have been written meanwhile, when their CPU was
    /// interrupted; so they are due after the next time only.
    pub(super) fn emptied(&mut self) {
        for totals in &mut self.0 {
            totals.settled = totals.emptied;
            totals.emptied = totals.value;
        }
    }

    /// The counts of the batch that closes now.
    pub(super) fn close(&mut self, events: &[OpenEvent], tallies: &[Tally]) -> Vec<EventCount> {
        let each = self.0.iter_mut().zip(events);
        each.map(|(totals, event)| {
            let tally = tallies.get(event.desc.ordinal as usize).copied();
            totals.close(event, tally.unwrap_or_default())
        })
        .collect()
    }

    /// The event has another period from now on. What the old one still owed is told already.
    pub(super) fn restart(&mut self, at: usize) {
        if let Some(totals) = self.0.get_mut(at) {
            totals.value_from = totals.value;
            totals.due_from = totals.taken + totals.lost + totals.told_residue;
        }
    }

    /// Samples were counted that are neither taken nor lost: still on their way into a ring, where events are stopped.
    pub(super) fn owes(&self, events: &[OpenEvent], tallies: &[Tally]) -> bool {
        self.0.iter().zip(events).any(|(totals, event)| {
            let tally = tallies.get(event.desc.ordinal as usize).copied();
            let tally = tally.unwrap_or_default();
            let taken = totals.taken + tally.taken() + totals.lost;
            let due = totals.due(event, totals.value);
            due.is_some_and(|due| due > taken + totals.told_residue)
        })
    }

    /// Samples taken and lost so far, by event.
    pub(super) fn so_far(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|totals| (totals.taken, totals.lost))
    }
}

impl Totals {
    /// Samples there should be once so many events were counted. `None`: it cannot be said of this event.
    fn due(&self, event: &OpenEvent, value: u64) -> Option<u64> {
        if !event.countable || !event.counts_lost || event.period == 0 {
            return None;
        }
        // Each CPU's descriptor may hold an unfinished period of its own.
        let unfinished = match event.period {
            1 => 0,
            _ => event.descriptors.len() as u64,
        };
        let counted = value.saturating_sub(self.value_from) / event.period;
        Some(counted.saturating_sub(unfinished) + self.due_from)
    }

    fn close(&mut self, event: &OpenEvent, tally: Tally) -> EventCount {
        self.taken += tally.taken();
        let due = self.due(event, self.settled);
        let residue = due
            .map_or(0, |due| due.saturating_sub(self.taken + self.lost))
            .max(self.told_residue);
        let count = EventCount {
            event: event.desc.ordinal,
            produced: tally.produced,
            lost: self.lost - self.told_lost,
            throttled_ns: tally.throttled_ns + (self.idle_ns - self.told_idle_ns),
            period: event.period,
            residue: residue - self.told_residue,
            ..EventCount::default()
        };
        (self.told_lost, self.told_idle_ns) = (self.lost, self.idle_ns);
        self.told_residue = residue;
        count
    }
}

fn read_words(event: std::os::fd::BorrowedFd<'_>) -> Option<[u64; WORDS]> {
    let mut bytes = [0; WORDS * 8];
    let len = rustix::io::read(event, &mut bytes).ok()?;
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.get(..len)?.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    Some(words)
}

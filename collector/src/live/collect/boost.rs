//! Shorter periods for some processes, for a while.
//!
//! The kernel samples everybody more often: a second event beside the first would compete with it for the few counters that
//! can sample accesses. Samples of the processes asked for get the id of the event's *twin*, whose period is the short one; of
//! the others only one of so many is kept, at random, and stands for as many events as before. So both kinds estimate what they
//! stand for, and together everything, each with its own period. What is not kept counts as excluded.
//!
//! Whose samples are whose must be known first, so a boost begins once the processes have been read anew.

use std::time::{Duration, Instant};

use memwide_perf_abi::{Attr, HEADER_LEN, SampleLayout};
use memwide_proto::v1::{EventCount, EventDesc};
use memwide_service::retry::{Jitter as _, RandomJitter};

use super::{Collect, Work};
use crate::batch::{Collected, Fate, Ids, Tally};
use crate::central::Order;
use crate::events::OpenEvent;
use crate::metrics;
use crate::select::Selection;
use crate::status::BoostStatus;

/// Ids of twins: no counter of the kernel comes so far.
const TWIN_IDS: u64 = 1 << 63;

/// How far a boost has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Processes are to be read anew.
    Asked,
    /// They are being read.
    Reading,
    /// Periods are shorter.
    Running,
}

/// What is asked for and how far it has come.
#[derive(Debug)]
pub(super) struct Boost {
    order: Order,
    pub(super) target: Selection,
    until: Instant,
    stage: Stage,
    /// By place of the event; `None`: its period is as ever.
    twins: Vec<Option<Twin>>,
    random: RandomJitter,
}

/// An event's other half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Twin {
    ordinal: u32,
    /// One of so many samples of the others is kept.
    one_of: u64,
    /// The period among the bytes of a sample, where it says it.
    period_at: Option<usize>,
}

impl Twin {
    /// `None`: it can be sampled no more often.
    fn of(event: &OpenEvent, base: u64, factor: u32, events: usize) -> Option<Self> {
        let one_of = base / shorter(base, factor);
        let attr = Attr::parse(&event.desc.attr).ok()?;
        let layout = SampleLayout::new(&attr).ok()?;
        let events = u32::try_from(events).ok()?;
        (one_of > 1).then(|| Self {
            ordinal: event.desc.ordinal + events,
            one_of,
            period_at: layout.period_at(),
        })
    }

    fn id(&self) -> u64 {
        TWIN_IDS | u64::from(self.ordinal)
    }
}

/// A period so many times shorter, at least 1.
fn shorter(base: u64, factor: u32) -> u64 {
    base.div_ceil(u64::from(factor.max(1))).max(1)
}

impl Boost {
    fn new(order: Order, it: &Collect, now: Instant) -> Option<Self> {
        let mut target = Selection::new(&order.select).ok().flatten()?;
        for event in &it.set.events {
            target.know_event(&event.desc);
        }
        Some(Self {
            until: now + Duration::from_secs(order.seconds.into()),
            random: RandomJitter::default(),
            twins: Vec::new(),
            stage: Stage::Asked,
            target,
            order,
        })
    }

    /// Samples are told apart.
    pub(super) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    /// Tells samples apart, from byte `from` on.
    pub(super) fn sort_out(&mut self, from: usize, collected: &mut Collected, ids: &mut Ids) {
        let Self {
            target,
            twins,
            random,
            ..
        } = self;
        collected.sort_out(from, ids, |sample, ordinal| {
            let place = (ordinal as usize).wrapping_sub(1);
            let Some(twin) = twins.get(place).copied().flatten() else {
                return Fate::Keep;
            };
            if target.wants_bytes(sample) {
                put_word(sample, HEADER_LEN, twin.id());
                return Fate::Twin(twin.ordinal);
            }
            // By chance: nothing beats with it.
            if random.next_unit() * twin.one_of as f64 >= 1.0 {
                return Fate::Drop;
            }
            if let Some(at) = twin.period_at {
                let period = word(sample, at).saturating_mul(twin.one_of);
                put_word(sample, at, period);
            }
            Fate::Keep
        });
        target.forget_ended();
    }

    /// Adds the twins' counts, and says what a sample of the others stands for.
    pub(super) fn count(&self, counts: &mut Vec<EventCount>, collected: &Collected) {
        let mut more = Vec::new();
        for (count, twin) in counts.iter_mut().zip(&self.twins) {
            let Some(twin) = twin else { continue };
            let tally = collected.tallies.get(twin.ordinal as usize);
            // What the kernel had no room for was of the short period.
            more.push(EventCount {
                event: twin.ordinal,
                produced: tally.map_or(0, |tally| tally.produced),
                lost: std::mem::take(&mut count.lost),
                residue: std::mem::take(&mut count.residue),
                period: count.period,
                ..EventCount::default()
            });
            count.period = count.period.saturating_mul(twin.one_of);
        }
        counts.extend(more);
    }
}

fn word(sample: &[u8], at: usize) -> u64 {
    let word = sample.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn put_word(sample: &mut [u8], at: usize, value: u64) {
    let word = sample.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(word) = word {
        *word = value.to_le_bytes();
    }
}

impl Work {
    /// Begins and ends what is asked for.
    pub(super) fn boost(&mut self, now: Instant) -> anyhow::Result<()> {
        if let Some(order) = self.it.told.central.take_order() {
            self.end_boost()?;
            if order.seconds > 0 {
                self.boost = Boost::new(order, &self.it, now);
            }
        }
        if self.boost.as_ref().is_some_and(|boost| now >= boost.until) {
            self.end_boost()?;
        }
        Ok(())
    }

    /// Processes are to be read for it.
    pub(super) fn boost_waits(&self) -> bool {
        let boost = self.boost.as_ref();
        boost.is_some_and(|boost| boost.stage == Stage::Asked)
    }

    pub(super) fn boost_reads(&mut self) {
        if let Some(boost) = &mut self.boost
            && boost.stage == Stage::Asked
        {
            boost.stage = Stage::Reading;
        }
    }

    /// Everybody's processes were read: it is known whose samples are whose.
    pub(super) fn boost_knows(&mut self) -> anyhow::Result<()> {
        let is_due = |boost: &mut Boost| boost.stage == Stage::Reading;
        if self.govern.stopped.is_some() {
            return Ok(());
        }
        let Some(mut boost) = self.boost.take_if(is_due) else {
            return Ok(());
        };
        let events = &self.it.set.events;
        let twins = events.iter().enumerate().map(|(at, event)| {
            let base = self.govern.base(at)?;
            Twin::of(event, base, boost.order.factor, events.len())
        });
        boost.twins = twins.collect();
        if self.twins.is_empty() {
            self.twins = twins_of(events);
            let tallies = 1 + events.len() * 2;
            self.collected.tallies.resize(tallies, Tally::default());
            self.new_events.clone_from(&self.twins);
        }
        let (id, factor) = (boost.order.id, boost.order.factor);
        let with_twins = boost.twins.iter().enumerate();
        let shorter: Vec<(usize, u64)> = with_twins
            .filter_map(|(at, twin)| {
                Some((
                    at,
                    shorter(self.govern.base(at).filter(|_| twin.is_some())?, factor),
                ))
            })
            .collect();
        tracing::info!(select = ?boost.order.select.include, factor, seconds = boost.order.seconds, "periods are shorter for a while");
        boost.stage = Stage::Running;
        metrics::BOOSTED.set(shorter.len() as u64);
        self.govern.brace(f64::from(factor));
        self.change_bases(&shorter, Some(boost))?;
        let told = BoostStatus { id, factor };
        self.it
            .told
            .reporter
            .update(|status| status.boost = Some(told));
        Ok(())
    }

    /// Periods are as ever again.
    pub(super) fn end_boost(&mut self) -> anyhow::Result<()> {
        if !self.boost.as_ref().is_some_and(Boost::is_running) {
            self.boost = None;
            return Ok(());
        }
        tracing::info!("the boost is over; periods follow the budget alone again");
        metrics::BOOSTED.set(0);
        self.change_bases(&[], None)?;
        self.it.told.reporter.update(|status| status.boost = None);
        Ok(())
    }

    /// The batch with the old periods is closed first, under the old boost.
    fn change_bases(
        &mut self,
        shorter: &[(usize, u64)],
        boost: Option<Boost>,
    ) -> anyhow::Result<()> {
        self.govern.shorten(shorter);
        let mut changed = self.due_periods();
        if self.govern.stopped.is_some() {
            // Nothing is counted: it is enough that the next start has them.
            changed.clear();
        }
        self.change_periods(&changed, |work| work.boost = boost)
    }
}

/// The other halves of all events, as a decoder needs them.
fn twins_of(events: &[OpenEvent]) -> Vec<EventDesc> {
    let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
    let twins = events.iter().map(|event| {
        let ordinal = event.desc.ordinal.saturating_add(count);
        EventDesc {
            ordinal,
            ids: vec![TWIN_IDS | u64::from(ordinal)],
            ..event.desc.clone()
        }
    });
    twins.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SelectConfig;
    use memwide_perf_abi::{SampleView, attr_kind, encode, kind, sample};

    const ID: u64 = 7;
    const SHORT: u64 = 101;
    const ONE_OF: u64 = 10;
    const EACH: u64 = 20_000;

    /// As loads with latency are sampled by the hardware: no cgroup, and each sample says its period.
    fn loads() -> EventDesc {
        let fields = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::ADDR;
        let fields = fields | sample::CPU | sample::PERIOD | sample::WEIGHT | sample::DATA_SRC;
        let attr = Attr {
            kind: attr_kind::RAW,
            sample_type: fields,
            sample_period: SHORT,
            ..Attr::default()
        };
        EventDesc {
            ordinal: 1,
            name: "cpu/mem-loads,ldlat=30/P".to_owned(),
            attr: attr.encode(crate::sys::ATTR_BYTES),
            ids: vec![ID],
            ..EventDesc::default()
        }
    }

    fn hit(pid: u64, at: u64) -> Vec<u8> {
        let words = [ID, 0x1234, pid | pid << 32, at, at * 64, 0, SHORT, 90, 0x42];
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut out = Vec::new();
        encode::raw(&mut out, kind::SAMPLE, 0, &body).unwrap();
        out
    }

    #[test]
    fn samples_of_the_hardware_estimate_the_same_whoever_they_are_of() {
        let desc = loads();
        let layout = SampleLayout::new(&Attr::parse(&desc.attr).unwrap()).unwrap();
        let twin = Twin {
            ordinal: 2,
            one_of: ONE_OF,
            period_at: layout.period_at(),
        };
        let select = SelectConfig {
            include: vec!["pid=5".to_owned()],
            ..SelectConfig::default()
        };
        let mut target = Selection::new(&select).unwrap().unwrap();
        target.know_event(&desc);
        let mut boost = Boost {
            order: Order {
                id: 1,
                select,
                factor: 10,
                seconds: 60,
            },
            target,
            until: memwide_service::clock::instant(),
            stage: Stage::Running,
            twins: vec![Some(twin)],
            random: RandomJitter::default(),
        };
        let other = EventDesc {
            ordinal: 2,
            ids: vec![twin.id()],
            ..desc.clone()
        };
        let mut ids = Ids::new(&[desc, other]);
        let mut collected = Collected::new(3);
        for at in 0..EACH {
            collected.samples.extend(hit(5, at));
            collected.samples.extend(hit(6, at));
        }
        collected.take_samples(&mut ids, None);
        boost.sort_out(0, &mut collected, &mut ids);

        let (mut wanted, mut others) = (0, 0);
        for record in memwide_perf_abi::Records::new(&collected.samples) {
            let record = record.unwrap();
            let view = SampleView::parse(record.body(), &layout).unwrap();
            let (pid, period) = (view.pid().unwrap(), view.period().unwrap());
            let is_twin = record.first_word() == Some(twin.id());
            assert_eq!(is_twin, pid == 5);
            assert_eq!(period, if is_twin { SHORT } else { SHORT * ONE_OF });
            *(if is_twin { &mut wanted } else { &mut others }) += period;
        }
        assert_eq!(wanted, EACH * SHORT, "none of those asked for is lost");
        // 2,000 of 20,000 by chance: 42 is one standard deviation.
        let (least, most) = (EACH * SHORT * 7 / 8, EACH * SHORT * 9 / 8);
        assert!((least..most).contains(&others), "{others}");
        let tally = |at: usize| collected.tallies[at];
        assert_eq!((tally(2).produced, tally(1).moved), (EACH, EACH));
        assert_eq!(tally(1).produced + tally(1).excluded, EACH);

        let mut counts = vec![EventCount {
            event: 1,
            lost: 3,
            period: SHORT,
            ..EventCount::default()
        }];
        boost.count(&mut counts, &collected);
        let said: Vec<_> = counts
            .iter()
            .map(|one| (one.event, one.period, one.lost))
            .collect();
        assert_eq!(said, [(1, SHORT * ONE_OF, 0), (2, SHORT, 3)]);
    }
}

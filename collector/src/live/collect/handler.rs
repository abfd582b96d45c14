//! What a sample costs the program it interrupts: the same faults of this thread with and without samples.

use std::os::fd::AsFd as _;

use memmap2::MmapOptions;
use memwide_perf_abi::{Attr, RawRecord, Records};

use super::govern::thread_cpu_ns;
use crate::events::machine::Machine;
use crate::events::{EventSet, is_fault};
use crate::ring::Ring;
use crate::sys::{Descriptor, Place};

/// Pages touched in a round: together smaller than a large page.
const PAGES: usize = 64;
/// Rounds with samples, and as many without; the quickest of each count, as whatever else runs only adds.
const ROUNDS: usize = 64;
/// Holds the samples of a round.
const RING_BYTES: u64 = 1 << 20;

/// Nanoseconds a sample of a fault as the events of `set` take it; `None`: there is none, or it cannot be measured.
pub(super) fn measure(set: &EventSet) -> Option<u32> {
    let attrs = set
        .events
        .iter()
        .filter_map(|event| Attr::parse(&event.desc.attr).ok());
    let mut attr = attrs.into_iter().find(is_fault)?;
    attr.sample_period = 1;
    let place = Place {
        pid: u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok(),
        cpu: None,
    };
    let event = Descriptor::open_at(&attr, place, None).ok()?;
    let mut ring = Ring::map(&event.as_fd(), RING_BYTES, Machine::page_size()).ok()?;
    let (mut without, mut with) = (u64::MAX, u64::MAX);
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        without = without.min(round()?);
        event.enable().ok()?;
        let took = round()?;
        event.disable().ok()?;
        samples.clear();
        ring.copy_new(&mut samples);
        ring.commit();
        let all = Records::new(&samples).map_while(Result::ok);
        if all.filter(RawRecord::is_sample).count() >= PAGES {
            with = with.min(took);
        }
    }
    each(without, with)
}

/// The difference of the quickest rounds, for one page.
fn each(without: u64, with: u64) -> Option<u32> {
    if with == u64::MAX {
        return None; // not one round was sampled whole
    }
    let each = with.checked_sub(without)? / PAGES as u64;
    u32::try_from(each).ok().filter(|each| *each > 0)
}

/// CPU time of this thread for the faults of fresh pages.
fn round() -> Option<u64> {
    let page = Machine::page_size();
    let mut memory = MmapOptions::new().len(PAGES * page).map_anon().ok()?;
    let before = thread_cpu_ns();
    for byte in memory.iter_mut().step_by(page) {
        *byte = 1;
    }
    Some(thread_cpu_ns() - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, EventConfig};

    #[test]
    fn a_sample_costs_what_faults_with_samples_take_longer() {
        assert_eq!(each(64_000, 128_000), Some(1_000));
        assert_eq!(each(64_000, u64::MAX), None);
        assert_eq!(each(64_000, 60_000), None);
    }

    #[test]
    fn it_is_measured_where_events_can_be_opened() {
        let config = |event: &str| Config {
            events: vec![EventConfig::named(event).with_callchain()],
            ..Config::default()
        };
        let machine = Machine::default();
        let Ok(set) = EventSet::open(&config("minor-faults"), &machine) else {
            eprintln!("skipped: perf events cannot be opened here");
            return;
        };
        assert!(measure(&set).is_some());
        if let Ok(set) = EventSet::open(&config("cpu-clock"), &machine) {
            assert_eq!(measure(&set), None, "a clock is no fault");
        }
    }
}

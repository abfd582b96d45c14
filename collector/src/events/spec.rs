//! From the name of an event to its attr.

use memwide_model::{LatencyKind, Tier};
use memwide_perf_abi::{Attr, AttrFlags, attr_kind, read_format, sample};

use super::generic::{generic, known_names};
use super::machine::Machine;
use super::plan::AUTO;
use super::{kinds, pmu, switches};
use crate::config::EventConfig;
use memwide_service::spelling::near;

/// An event that this machine should be able to open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventSpec {
    pub(crate) name: String,
    pub(crate) pmu: String,
    pub(crate) tier: Tier,
    pub(crate) attr: Attr,
    /// What Σ period estimates; empty: nothing.
    pub(crate) population: String,
    pub(crate) latency_kind: LatencyKind,
    pub(crate) threshold_cycles: u32,
    /// A tracepoint's format file.
    pub(crate) format: String,
    /// What the kernel asks of a tracepoint's fields before it counts a hit; empty: nothing.
    pub(crate) filter: String,
    /// Its count divided by its period is its number of samples.
    pub(crate) countable: bool,
    /// An event that must lead its group, of the same PMU.
    pub(crate) leader: Option<Attr>,
    /// CPUs that have it; `None`: all.
    pub(crate) cpus: Option<Vec<u32>>,
}

/// Why an event is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) tier: Tier,
    pub(crate) reason: String,
    pub(crate) remedy: String,
    pub(crate) fault: Fault,
}

/// Whose fault it is that an event is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This machine or this kernel lacks it.
    Machine,
    /// No machine has an event of this name.
    Name,
    /// The name is there, what stands beside it is written wrongly.
    Spelling,
}

impl Fault {
    /// It is not there on any machine.
    pub(crate) fn is_everywhere(self) -> bool {
        self != Self::Machine
    }
}

impl Absent {
    pub(crate) fn new(tier: Tier, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            tier,
            reason: reason.into(),
            remedy: remedy.into(),
            fault: Fault::Machine,
        }
    }

    /// It cannot be read; `remedy`: how it is written.
    pub(super) fn misread(tier: Tier, reason: impl Into<String>, remedy: &str) -> Self {
        Self {
            fault: Fault::Spelling,
            ..Self::new(tier, reason, remedy)
        }
    }

    /// No event is called so.
    fn unknown(name: &str) -> Self {
        let remedy = "names that `perf list` shows work; `memwide doctor` lists those of `auto`";
        let reason = "no event has this name";
        Self::misspelt(Tier::Software, reason, remedy, name, known_names())
    }

    /// None of the known ones: it is misspelt. `remedy`: where to see them all.
    pub(super) fn misspelt(
        tier: Tier,
        reason: impl Into<String>,
        remedy: &str,
        name: &str,
        known: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let near: Vec<String> = near(name, known)
            .iter()
            .map(|known| format!("`{known}`"))
            .collect();
        let meant = match near.as_slice() {
            [] => String::new(),
            near => format!("did you mean {}? ", near.join(" or ")),
        };
        Self {
            fault: Fault::Name,
            ..Self::new(tier, reason, format!("{meant}{remedy}"))
        }
    }
}

/// Fields of every sample: the id first, so that it is word 1 whatever follows.
pub(crate) const BASE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD;

/// What all attrs share: off when opened, a sample id on every record, perf's own clock.
pub(crate) fn base_attr(kind: u32, config: u64, sample_type: u64) -> Attr {
    Attr {
        kind,
        config,
        sample_type,
        read_format: read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | read_format::LOST,
        flags: AttrFlags::default()
            .with_disabled(true)
            .with_sample_id_all(true)
            .with_watermark(true),
        ..Attr::default()
    }
}

/// Finds the event on this machine.
pub(crate) fn resolve(
    event: &EventConfig,
    callchain_frames_max: u16,
    machine: &Machine,
) -> Result<EventSpec, Absent> {
    let name = event.name.as_str();
    if event.period == Some(0) || event.freq == Some(0) {
        let remedy = "give a period of at least 1";
        return Err(Absent::misread(Tier::Software, "its period is 0", remedy));
    }
    let mut spec = if name == AUTO {
        let remedy = "give periods to events by their names; `memwide doctor` lists them";
        return Err(Absent::misread(
            Tier::Software,
            "`auto` takes no settings",
            remedy,
        ));
    } else if let Some(spec) = kinds::software(name) {
        spec
    } else if let Some(found) = switches::of_some_threads(name, machine) {
        found?
    } else if let Some(rest) = name.strip_prefix("mem:") {
        kinds::breakpoint(name, rest)?
    } else if let Some((pmu, rest)) = name.split_once('/') {
        pmu::event(name, pmu, rest, machine)?
    } else if let Some(found) = generic(name) {
        found?
    } else if let Some((system, tracepoint)) = name.split_once(':') {
        kinds::tracepoint(name, system, tracepoint, machine)?
    } else {
        return Err(Absent::unknown(name));
    };
    if event.callchain {
        spec.attr.sample_type |= sample::CALLCHAIN;
        spec.attr.sample_max_stack = stack_bound(callchain_frames_max, machine);
    }
    match (event.period, event.freq) {
        (Some(_), Some(_)) => {
            let remedy = "remove one of the two";
            return Err(Absent::misread(
                spec.tier,
                "both `period` and `freq` are given",
                remedy,
            ));
        }
        (Some(period), None) => spec.attr.sample_period = period,
        (None, Some(freq)) if spec.attr.is_clock() => {
            spec.attr.sample_period = kinds::clock_period(freq);
        }
        (None, Some(_)) => {
            let reason = "`freq` is for clocks: a kernel-chosen period makes counts incomparable";
            return Err(Absent::misread(spec.tier, reason, "give a `period`"));
        }
        (None, None) => {}
    }
    if spec.counts_hits() && spec.attr.sample_period > 1 {
        // With this field and a fixed period the kernel samples *every* hit, whatever the period says, and puts the hit's
        // own count there. The period is in the attr and in each batch's counts.
        spec.attr.sample_type &= !sample::PERIOD;
    }
    Ok(spec)
}

/// Hits of it are handed to all events that look for them; clocks have their own timers.
pub(crate) fn is_counted(attr: &Attr) -> bool {
    attr.kind == attr_kind::SOFTWARE && !attr.is_clock()
}

/// Samples are taken of page faults.
pub(crate) fn is_fault(attr: &Attr) -> bool {
    attr.kind == attr_kind::SOFTWARE && kinds::FAULTS.contains(&attr.config)
}

/// The kernel refuses a bound above its own.
fn stack_bound(wanted: u16, machine: &Machine) -> u16 {
    let most = machine.setting("perf_event_max_stack").unwrap_or(127);
    wanted.min(u16::try_from(most).unwrap_or(127))
}

impl EventSpec {
    /// The kernel counts it hit by hit in software.
    pub(super) fn counts_hits(&self) -> bool {
        !self.attr.is_clock()
            && matches!(
                self.attr.kind,
                attr_kind::SOFTWARE | attr_kind::TRACEPOINT | attr_kind::BREAKPOINT
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(event: &EventConfig) -> Attr {
        resolve(event, 64, &Machine::default()).unwrap().attr
    }

    #[test]
    fn a_period_that_shall_count_leaves_the_period_field_out() {
        let faults = EventConfig::named("minor-faults");
        assert!(!attr(&faults).samples(sample::PERIOD));
        assert!(attr(&faults.clone().every(1)).samples(sample::PERIOD));
        assert!(attr(&EventConfig::named("cpu-clock")).samples(sample::PERIOD));
    }

    #[test]
    fn every_sample_starts_with_its_id_and_has_its_address() {
        let attr = attr(&EventConfig::named("minor-faults").with_callchain());
        let wanted = sample::IDENTIFIER | sample::PHYS_ADDR | sample::ADDR | sample::CALLCHAIN;
        assert!(attr.samples(wanted | sample::DATA_PAGE_SIZE));
        assert!((1..=64).contains(&attr.sample_max_stack));
        assert!(!attr.flags.use_clockid(), "perf's own clock");
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_a_remedy() {
        let rows = [
            (EventConfig::named("minor-faults").every(0), "period is 0"),
            (
                EventConfig {
                    freq: Some(9),
                    ..EventConfig::named("minor-faults")
                },
                "for clocks",
            ),
            (
                EventConfig {
                    freq: Some(9),
                    ..EventConfig::named("cpu-clock").every(9)
                },
                "both",
            ),
            (EventConfig::named("nonsense"), "no event has this name"),
        ];
        for (event, reason) in rows {
            let absent = resolve(&event, 64, &Machine::default()).unwrap_err();
            assert!(absent.reason.contains(reason), "{}", absent.reason);
            assert!(!absent.remedy.is_empty());
        }
    }
}

//! Events counted on all CPUs without samples, user and kernel apart: what estimates from samples are held against.

use memwide_proto::v1::Reading;
use rustix::process::{Resource, getrlimit};

use super::in_cgroups::InCgroups;
use super::{Out, as_f64};
use crate::count::{CountOptions, CounterReading, Counters};
use crate::events::machine::Machine;
use crate::identity::Identity;
use crate::record::RecordTarget;

/// Who counted what no cgroup with counters of its own did.
const REST: &str = "other cgroups";

/// The open counters and what they last said.
#[derive(Debug, Default)]
pub(super) struct Counting {
    counters: Option<Counters>,
    before: Vec<Option<CounterReading>>,
    /// The same in some cgroups.
    apart: InCgroups,
}

impl Counting {
    /// Opens those of `events` that this machine has, and in so many cgroups apart, at most.
    pub(super) fn start(events: &[String], cgroups: u16) -> Self {
        if events.is_empty() {
            return Self::default();
        }
        let options = CountOptions {
            events: events.to_vec(),
            target: RecordTarget::All,
            cpus: Vec::new(),
        };
        let opened = Counters::open(&options).map_err(|error| error.to_string());
        let started = opened.and_then(|counters| {
            let started = counters.start().map_err(|error| error.to_string());
            started.map(|()| counters)
        });
        match started {
            Ok(counters) => {
                let count = counters.infos().len();
                Self {
                    before: vec![None; count],
                    apart: InCgroups::new(cgroups, counters.size(), free_files()),
                    counters: Some(counters),
                }
            }
            Err(error) => {
                tracing::warn!(error, "nothing is counted beside samples");
                Self::default()
            }
        }
    }

    pub(super) fn read(&mut self, machine: &Machine, identity: &mut Identity, out: &mut Out) {
        let Some(counters) = &self.counters else {
            return;
        };
        let now = counters.read();
        let apart = self.apart.read(identity);
        for (at, ((info, now), before)) in
            counters.infos().zip(now).zip(&mut self.before).enumerate()
        {
            let since = std::mem::replace(before, now);
            let (Some(now), Some(since)) = (now, since) else {
                continue;
            };
            let (name, mode) = match info.name.rsplit_once(':') {
                Some((name, "u")) => (name, ":u"),
                Some((name, "k")) => (name, ":k"),
                _ => (info.name.as_str(), ""),
            };
            let unit = if info.is_time { "ns" } else { "events" };
            let reading = |value| Reading {
                value,
                mode: mode.to_owned(),
                ..out.change(name, 0, unit)
            };
            // What was on no counter is not known, and not zero.
            let whole = change(since, now);
            let mut said: Vec<Reading> = whole.map(reading).into_iter().collect();
            let mut rest = whole.filter(|_| !apart.is_empty());
            for (workload_id, changes) in &apart {
                let value = changes.get(at).copied().flatten();
                rest = rest.zip(value).map(|(rest, value)| rest - value);
                said.extend(value.map(|value| Reading {
                    workload_id: *workload_id,
                    ..reading(value)
                }));
            }
            said.extend(rest.map(|rest| Reading {
                comm: REST.to_owned(),
                ..reading(rest.max(0.0))
            }));
            out.read.counters.extend(said);
        }
        self.apart.choose(counters, machine, out);
    }
}

/// Descriptors that may still be opened.
fn free_files() -> usize {
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    usize::try_from(allowed)
        .unwrap_or(usize::MAX)
        .saturating_sub(open)
}

/// Events since the last time; where it took turns with others, scaled up to the whole time. `None`: it had no turn.
pub(super) fn change(before: CounterReading, now: CounterReading) -> Option<f64> {
    let value = now.value.checked_sub(before.value)?;
    let enabled = now.enabled_ns.checked_sub(before.enabled_ns)?;
    let running = now.running_ns.checked_sub(before.running_ns)?;
    if running == 0 {
        return None;
    }
    Some(as_f64(value) * as_f64(enabled) / as_f64(running))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, enabled_ns: u64, running_ns: u64) -> CounterReading {
        CounterReading {
            value,
            enabled_ns,
            running_ns,
        }
    }

    #[test]
    fn what_took_turns_is_scaled_and_what_had_none_is_not_known() {
        let before = reading(100, 1_000, 500);
        assert_eq!(change(before, reading(400, 3_000, 1_000)), Some(1_200.0));
        assert_eq!(change(before, reading(400, 3_000, 2_500)), Some(300.0));
        assert_eq!(change(before, reading(100, 3_000, 500)), None);
        assert_eq!(
            change(before, reading(90, 3_000, 600)),
            None,
            "a CPU went offline"
        );
    }

    #[test]
    fn faults_are_counted_by_mode() {
        let events = ["page-faults:u", "page-faults:k"].map(str::to_owned);
        let mut counting = Counting::start(&events, 0);
        let (machine, mut identity) = (Machine::default(), Identity::new("/nowhere".into()));
        let mut out = Out {
            wall_ns: 1,
            interval_ns: 2,
            read: memwide_proto::v1::Readings::default(),
        };
        counting.read(&machine, &mut identity, &mut out);
        assert!(out.read.counters.is_empty(), "nothing to compare with");
        let pages = vec![1_u8; 256 * 4096];
        counting.read(&machine, &mut identity, &mut out);
        let said: Vec<(&str, &str)> = out
            .read
            .counters
            .iter()
            .map(|one| (one.name.as_str(), one.mode.as_str()))
            .collect();
        if said.is_empty() {
            eprintln!("skipped: no software events here");
            return;
        }
        assert_eq!(said, [("page-faults", ":u"), ("page-faults", ":k")]);
        let user = out.read.counters[0].value;
        assert!(user >= 200.0, "{user} faults of {} bytes", pages.len());
    }
}

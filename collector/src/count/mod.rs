//! Counts events without sampling: what `memwide stat` does.
//!
//! An event that this machine does not have is no failure: it is named with its reason and its remedy. Counts are the
//! kernel's; nothing is scaled here.

mod names;
mod open;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use memwide_model::Tier;
use memwide_perf_abi::{Attr, attr_kind};

use crate::events::machine::Machine;
use crate::events::{Absent, explain, raise_limits};
use crate::record::{RecordError, RecordTarget};
use crate::sys::Place;
pub(crate) use names::split;
pub(crate) use open::CgroupCounters;
use open::OpenCounter;

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountOptions {
    /// Names as `perf stat -e` and [`crate::RecordOptions::events`] have them, single or in lists with commas.
    pub events: Vec<String>,
    /// Whose events.
    pub target: RecordTarget,
    /// Only on these CPUs; empty: on all. Of processes too.
    pub cpus: Vec<u32>,
}

/// One event, counted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterInfo {
    /// As it was asked for; with `:u` where the kernel does not let its own mode be counted.
    pub name: String,
    /// Tier of what it tells.
    pub tier: Tier,
    /// It counts nanoseconds.
    pub is_time: bool,
    /// Number of its group, from 1: events of a group are counted at the same time, or not at all.
    pub group: Option<u32>,
    /// Why it is not counted, and what to do.
    pub absent: Option<CounterAbsent>,
}

/// Why an event is not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterAbsent {
    /// Why.
    pub reason: String,
    /// What to do; empty: nothing.
    pub remedy: String,
}

/// What an event counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterReading {
    /// Events.
    pub value: u64,
    /// Nanoseconds it was enabled, over all tasks and CPUs.
    pub enabled_ns: u64,
    /// Nanoseconds it was on a counter; fewer where events took turns.
    pub running_ns: u64,
}

/// Open counters.
#[derive(Debug)]
pub struct Counters {
    counters: Vec<OpenCounter>,
    starts_at_exec: bool,
}

impl Counters {
    /// Opens the counters; those of [`RecordTarget::Exec`] start with the exec, the others by [`Counters::start`].
    pub fn open(options: &CountOptions) -> Result<Self, RecordError> {
        Self::open_on(options, &Machine::default())
    }

    fn open_on(options: &CountOptions, machine: &Machine) -> Result<Self, RecordError> {
        raise_limits(0);
        let places = places(options, machine)?;
        let names: Vec<&str> = options.events.iter().flat_map(|list| split(list)).collect();
        let mut counters: Vec<OpenCounter> = Vec::new();
        let mut groups = 0;
        let asked: BTreeSet<String> = names.iter().flat_map(|name| names::members(name)).collect();
        for name in names {
            let members = names::members(name);
            let is_group = name.starts_with('{');
            groups += u32::from(is_group);
            let first = counters.len();
            if let Some(wrong) = members.iter().find_map(|name| unknown(name, machine)) {
                return Err(wrong);
            }
            if is_group && members.is_empty() {
                return Err(RecordError::UnknownEvent {
                    name: name.to_owned(),
                    remedy: "name the events of the group: {a,b}".to_owned(),
                });
            }
            for name in members {
                let leader = counters.get(first..).unwrap_or_default();
                let leader = leader.iter().find(|counter| counter.is_open());
                let alone = !asked.contains(&format!("{name}:u"));
                let mut open =
                    OpenCounter::open(&name, options.target, &places, leader, alone, machine);
                open.info.group = is_group.then_some(groups);
                counters.push(open);
            }
        }
        Ok(Self {
            counters,
            starts_at_exec: matches!(options.target, RecordTarget::Exec(_)),
        })
    }

    /// What is counted and what is not, in the order asked for.
    pub fn infos(&self) -> impl ExactSizeIterator<Item = &CounterInfo> {
        self.counters.iter().map(|counter| &counter.info)
    }

    /// Starts counting; what waits for an exec waits on.
    pub fn start(&self) -> io::Result<()> {
        if self.starts_at_exec {
            return Ok(());
        }
        self.counters.iter().try_for_each(OpenCounter::start)
    }

    /// Stops counting.
    pub fn stop(&self) -> io::Result<()> {
        self.counters.iter().try_for_each(OpenCounter::stop)
    }

    /// The same events, counted in one cgroup from now on.
    pub(crate) fn of_cgroup(&self, folder: &File, machine: &Machine) -> io::Result<CgroupCounters> {
        CgroupCounters::open(&self.counters, folder, machine)
    }

    /// Descriptors they take.
    pub(crate) fn size(&self) -> usize {
        self.counters.iter().map(OpenCounter::size).sum()
    }

    /// What each has counted so far, in the order of [`Counters::infos`]; `None` for those not counted.
    pub fn read(&self) -> Vec<Option<CounterReading>> {
        self.counters.iter().map(OpenCounter::read).collect()
    }
}

/// Nobody has an event of this name: it is misspelt.
pub(crate) fn unknown(name: &str, machine: &Machine) -> Option<RecordError> {
    let absent = names::find(name, machine).err()?;
    absent
        .fault
        .is_everywhere()
        .then(|| RecordError::absent(name, absent))
}

/// A process is counted wherever it runs, its threads apart; a machine CPU by CPU.
fn places(options: &CountOptions, machine: &Machine) -> Result<Vec<Place>, RecordError> {
    let online: BTreeSet<u32> = machine.online_cpus().into_iter().collect();
    let asked = options.cpus.iter().copied();
    if let Some(cpu) = asked.clone().find(|cpu| !online.contains(cpu)) {
        return Err(RecordError::NoCpu {
            cpu,
            online: online.len(),
        });
    }
    let cpus: Vec<Option<u32>> = match (options.cpus.as_slice(), options.target) {
        ([], RecordTarget::All) => online.into_iter().map(Some).collect(),
        ([], _) => vec![None],
        _ => asked.map(Some).collect(),
    };
    let tasks = crate::record::tasks(options.target, machine)?;
    let on = |pid: Option<u32>| cpus.iter().map(move |cpu| Place { pid, cpu: *cpu });
    Ok(tasks.into_iter().flat_map(on).collect())
}

impl From<Absent> for CounterAbsent {
    fn from(absent: Absent) -> Self {
        Self {
            reason: absent.reason,
            remedy: absent.remedy,
        }
    }
}

impl CounterAbsent {
    /// What an error of opening an event means.
    pub(crate) fn of(error: &io::Error, attr: &Attr, machine: &Machine) -> Self {
        let is_hardware = matches!(
            attr.kind,
            attr_kind::HARDWARE | attr_kind::HW_CACHE | attr_kind::RAW
        );
        let (reason, remedy) = match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO)
                if is_hardware && !has_cpu_pmu(machine) =>
            {
                no_pmu(machine)
            }
            _ => explain(error, machine),
        };
        Self {
            reason,
            remedy: remedy.to_owned(),
        }
    }
}

/// Whether the CPU's own counters can be seen.
fn has_cpu_pmu(machine: &Machine) -> bool {
    let folder = std::fs::read_dir(machine.sys.join("bus/event_source/devices"));
    let names = folder.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .any(|name| name.starts_with("cpu") || name.starts_with("arm"))
}

fn no_pmu(machine: &Machine) -> (String, &'static str) {
    if machine.is_virtual() {
        (
            "no hardware counters are visible: this is a virtual machine whose hypervisor passes none on".to_owned(),
            "use a bare-metal host or an instance type with a virtual PMU",
        )
    } else {
        ("no hardware counters are visible".to_owned(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(events: &str) -> CountOptions {
        CountOptions {
            events: vec![events.to_owned(), "task-clock".to_owned()],
            target: RecordTarget::Process(std::process::id()),
            cpus: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_there_is_named_and_the_rest_counts() {
        let counters = Counters::open(&options("page-faults,no_such_pmu/event=1/")).unwrap();
        let infos: Vec<&CounterInfo> = counters.infos().collect();
        assert_eq!(infos[1].name, "no_such_pmu/event=1/");
        assert!(!infos[1].absent.as_ref().unwrap().reason.is_empty());
        if let Some(absent) = &infos[0].absent {
            eprintln!("skipped: no software events here ({})", absent.reason);
            return;
        }
        counters.start().unwrap();
        let before = counters.read();
        // Pages that were never touched.
        let pages = vec![1_u8; 64 * Machine::page_size()];
        counters.stop().unwrap();
        let after = counters.read();
        let faults = after[0].unwrap().value - before[0].unwrap().value;
        assert!(faults >= 32, "{faults} faults of {} bytes", pages.len());
        assert!(infos[2].is_time && after[2].unwrap().value > 0);
        assert_eq!(after[1], None);
    }

    #[test]
    fn events_of_a_group_are_counted_at_the_same_time() {
        let counters = Counters::open(&options("{page-faults,minor-faults,cpu-clock}")).unwrap();
        let infos: Vec<&CounterInfo> = counters.infos().collect();
        let groups: Vec<_> = infos.iter().map(|info| info.group).collect();
        assert_eq!(groups, [Some(1), Some(1), Some(1), None]);
        if let Some(absent) = &infos[0].absent {
            eprintln!("skipped: no software events here ({})", absent.reason);
            return;
        }
        counters.start().unwrap();
        let pages = vec![1_u8; 64 * Machine::page_size()];
        counters.stop().unwrap();
        let read: Vec<CounterReading> = counters.read().into_iter().flatten().collect();
        assert_eq!(read.len(), 4, "{infos:?}");
        assert!(read[0].value >= 32, "{} bytes", pages.len());
        assert!(
            read[0].value >= read[1].value && read[1].value > 0,
            "{read:?}"
        );
        assert_eq!(read[0].enabled_ns, read[1].enabled_ns, "{read:?}");
    }

    #[test]
    fn a_name_that_nobody_has_is_refused_with_those_like_it() {
        let wrong = Counters::open(&options("page-faults,page-fautls")).unwrap_err();
        let said = wrong.to_string();
        assert!(
            said.contains("page-fautls") && said.contains("`page-faults`"),
            "{said}"
        );
        let wrong = Counters::open(&options("{page-faults,nonsense}")).unwrap_err();
        assert!(wrong.to_string().contains("nonsense"), "{wrong}");
    }

    #[test]
    fn a_cpu_that_is_not_online_is_refused() {
        let options = CountOptions {
            events: vec!["page-faults".to_owned()],
            target: RecordTarget::All,
            cpus: vec![1 << 20],
        };
        let error = Counters::open(&options).unwrap_err();
        assert!(error.to_string().contains("CPU 1048576"), "{error}");
    }
}

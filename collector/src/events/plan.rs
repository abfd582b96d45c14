//! What fits a machine: from what sysfs shows to the events to open.
//!
//! - Faults and the clock everywhere.
//! - Intel: loads above a threshold and stores, with source and latency; beside them the precise events that count the loads
//!   that left the socket's last cache, whose periods add up to a number of loads. All without callchains, which would make
//!   each record an interrupt; those come with one rare event of their own. Hybrid machines have each on both kinds of cores.
//! - AMD: micro-ops by IBS. POWER: marked loads and stores.
//! - Without any of these: misses of the last cache, by instruction alone.

use memwide_model::{LoadMiss, Tier, load_misses};
use memwide_proto::v1::Capability;

use super::capability::{absent, note};
use super::machine::{Machine, Pmu};
use super::pmu::is_power;
use super::spec::Absent;
use crate::config::EventConfig;

/// Name that stands for what fits the machine.
pub(crate) const AUTO: &str = "auto";

/// Cycles from which on a load is sampled: above those of a hit in the second level.
const THRESHOLD: u32 = 30;

/// Misses of the last cache without their addresses.
const CACHE: [&str; 3] = ["LLC-load-misses", "LLC-store-misses", "cache-misses"];

/// Events to open, and what is said about the machine.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) events: Vec<EventConfig>,
    pub(crate) said: Vec<Capability>,
}

/// The events asked for, with those that fit the machine in place of [`AUTO`].
pub(crate) fn plan(asked: &[EventConfig], machine: &Machine) -> Plan {
    let mut plan = Plan::default();
    for event in asked {
        if *event == EventConfig::named(AUTO) {
            plan.software();
            if !plan.precise(machine) {
                plan.cache(machine);
            }
        } else {
            plan.events.push(event.clone());
        }
    }
    plan
}

impl Plan {
    /// One of 19 minor faults costs the workload at most 4 % of its fault rate (a sample is 0.75–1.1 µs, a fault about
    /// 1.5 µs) and still shows every process start, which has hundreds; 19 is prime, so no regular pattern hides. Major
    /// faults wait for a disk: each is worth a sample.
    fn software(&mut self) {
        for name in ["minor-faults", "major-faults", "cpu-clock"] {
            self.events.push(EventConfig::named(name).with_callchain());
        }
    }

    /// Whether there is any precise event.
    fn precise(&mut self, machine: &Machine) -> bool {
        let before = self.events.len();
        if let Some(pmu) = machine.pmu("cpu").filter(|_| is_power(machine)) {
            let marked = ["mem-loads", "mem-stores"];
            for event in marked.iter().filter(|name| pmu.event_terms(name).is_some()) {
                self.named(format!("cpu/{event}/"));
            }
        } else {
            for name in ["cpu", "cpu_core", "cpu_atom"] {
                if let Some(pmu) = machine.pmu(name) {
                    self.pebs(name, &pmu, machine);
                }
            }
        }
        if let Some(pmu) = machine.pmu("ibs_op") {
            self.named("ibs_op//".to_owned());
            self.say_filters(&pmu);
        }
        let any = self.events.len() > before;
        if !any {
            self.said.push(absent("precise-events", &why_none(machine)));
        }
        any
    }

    fn pebs(&mut self, name: &str, pmu: &Pmu, machine: &Machine) {
        if pmu.event_terms("mem-loads").is_none() {
            return;
        }
        let threshold = match pmu.format("ldlat") {
            Some(_) => format!(",ldlat={THRESHOLD}"),
            None => String::new(),
        };
        self.named(format!("{name}/mem-loads{threshold}/P"));
        if pmu.event_terms("mem-stores").is_some() {
            self.named(format!("{name}/mem-stores/P"));
        }
        if name == "cpu_atom" {
            return;
        }
        let nodes = machine.node_count();
        let (here, far): (Vec<&LoadMiss>, Vec<_>) = load_misses(machine.cpu())
            .iter()
            .partition(|miss| !miss.is_remote || nodes > 1);
        for miss in here {
            let event = EventConfig::named(format!("{name}/{}/P", miss.name));
            // The one that counts them all is rare enough to bring the callers.
            let brings_callers = miss.name.ends_with("retired.l3_miss");
            self.events.push(if brings_callers {
                event.with_callchain()
            } else {
                event
            });
        }
        if !far.is_empty() {
            let reason = "without events of other sockets: this machine has one node of memory";
            self.said.push(note("remote-loads", reason, ""));
        }
    }

    /// Events of hardware counters that stand for memory, where an access itself cannot be sampled.
    fn cache(&mut self, machine: &Machine) {
        if has_core_counters(machine) {
            let rare = CACHE.map(|name| EventConfig::named(name).with_callchain());
            self.events.extend(rare);
            return;
        }
        let (reason, remedy) = if machine.is_virtual() {
            (
                "this virtual machine has no PMU",
                "switch the virtual PMU on (KVM: `pmu=on` with `-cpu host`; VMware: virtualized CPU performance counters), \
                 or use a bare-metal host",
            )
        } else {
            (
                "the kernel shows no PMU of the CPU",
                "boot a kernel that knows this CPU",
            )
        };
        let why = Absent::new(Tier::Event, reason, remedy);
        self.said.push(absent("hardware-events", &why));
    }

    fn say_filters(&mut self, pmu: &Pmu) {
        let filters = ["l3missonly=1", "ldlat=128"];
        let has = |filter: &&&str| {
            let term = filter.split('=').next().unwrap_or_default();
            pmu.format(term).is_some()
        };
        let offered: Vec<&str> = filters.iter().filter(has).copied().collect();
        if !offered.is_empty() {
            let reason = format!(
                "not used: samples behind a filter estimate no total; `ibs_op/{}/` in `events` takes them",
                offered.join("/` or `ibs_op/")
            );
            self.said.push(note("ibs-filters", reason, ""));
        }
    }

    fn named(&mut self, name: String) {
        self.events.push(EventConfig::named(name));
    }
}

/// A PMU of the CPU itself, by its events: uncore ones have no `cache-misses`.
fn has_core_counters(machine: &Machine) -> bool {
    let names = machine.pmu_names();
    let mut pmus = names.iter().filter_map(|name| machine.pmu(name));
    pmus.any(|pmu| {
        pmu.event_terms("cache-misses").is_some() || pmu.event_terms("ll_cache_miss_rd").is_some()
    })
}

fn why_none(machine: &Machine) -> Absent {
    let vendor = machine.cpuinfo("vendor_id").unwrap_or_default();
    let names = machine.pmu_names();
    let has = |start: &str| names.iter().any(|name| name.starts_with(start));
    let (reason, remedy) = if has("arm_spe") {
        (
            "this CPU has the Statistical Profiling Extension, which is read from files only",
            "record with `perf record -e arm_spe_0/load_filter=1,store_filter=1,min_latency=30/ -a`, then `memwide import`",
        )
    } else if machine.is_virtual() {
        (
            "this is a virtual machine whose hypervisor passes no PMU with memory sampling on",
            "use a bare-metal host or an instance type with a full virtual PMU",
        )
    } else if machine.cpuinfo("CPU implementer").is_some() {
        (
            "the kernel shows no Statistical Profiling Extension",
            "boot with kpti=off and load the module arm_spe_pmu, where the CPU has it",
        )
    } else if vendor == "AuthenticAMD" || vendor == "HygonGenuine" {
        (
            "the kernel shows no IBS",
            "enable IBS in the firmware's CPU settings",
        )
    } else if vendor == "GenuineIntel" {
        (
            "the kernel shows no PEBS with addresses",
            "boot without `disable_pebs` or a lockdown of debug stores; CPUs before Nehalem have none",
        )
    } else {
        ("this CPU has no memory sampling that the kernel knows", "")
    };
    Absent::new(Tier::Precise, reason, remedy)
}

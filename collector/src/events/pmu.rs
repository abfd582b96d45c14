//! Events of PMUs by the terms sysfs explains: Intel's `mem-loads` and `mem-stores`, AMD's `ibs_op`.

use memwide_model::{LatencyKind, Tier, load_misses};
use memwide_perf_abi::{Attr, AttrFlags, sample};

use super::machine::{Machine, Pmu, place};
use super::spec::{Absent, BASE, EventSpec, base_attr};

/// Loads above the threshold and stores between two samples: some thousands a second on a busy core at most. Prime.
const PEBS_PERIOD: u64 = 20_011;
/// Micro-ops between two IBS samples: 16 × a prime, because the low four bits are not programmable.
const IBS_PERIOD: u64 = 16 * 16_411;
/// Fields of a precise access. No callchain, cgroup or page size: any of them makes each PEBS record an interrupt.
const PRECISE: u64 =
    BASE | sample::ADDR | sample::DATA_SRC | sample::WEIGHT_STRUCT | sample::PHYS_ADDR;

/// Terms that other CPUs have: where this one does not, nobody misspelt them.
const TERMS: [&str; 6] = [
    "mem-loads",
    "mem-stores",
    "mem-loads-aux",
    "ldlat",
    "l3missonly",
    "cnt_ctl",
];
/// How events of loads that missed begin, likewise.
const LOAD_MISSES: &str = "mem_load_";

/// `PMU/TERMS/MODIFIERS`; `rest` is what follows the first slash.
pub(super) fn event(
    name: &str,
    pmu_name: &str,
    rest: &str,
    machine: &Machine,
) -> Result<EventSpec, Absent> {
    let (terms, modifiers) = rest.rsplit_once('/').ok_or_else(|| {
        let remedy = "write it as PMU/TERM,TERM=VALUE/";
        Absent::misread(Tier::Precise, "its second slash is missing", remedy)
    })?;
    let (pmu, found_as) = find(pmu_name, machine)?;
    let mut builder = Terms {
        pmu: &pmu,
        machine,
        words: [0; 4],
    };
    for term in terms.split(',').filter(|term| !term.is_empty()) {
        builder.add(term)?;
    }
    let wants = |event| terms.split(',').any(|term| term == event);
    let mut attr = base_attr(pmu.kind, 0, PRECISE);
    attr.sample_period = PEBS_PERIOD;
    let mut spec = EventSpec {
        name: name.to_owned(),
        pmu: found_as,
        tier: Tier::Precise,
        attr,
        population: String::new(),
        latency_kind: LatencyKind::None,
        threshold_cycles: 0,
        format: String::new(),
        filter: String::new(),
        countable: false,
        leader: None,
        cpus: pmu.cpus(),
    };
    if pmu_name == "ibs_op" {
        spec.threshold_cycles = builder.value_of("ldlat");
        // A filter throws samples away behind the counter: their periods add up to nothing.
        let filtered = spec.threshold_cycles > 0 || builder.value_of("l3missonly") > 0;
        if builder.add("cnt_ctl=1").is_ok() && !filtered {
            "dispatched micro-ops".clone_into(&mut spec.population);
        }
        spec.latency_kind = LatencyKind::IbsMiss;
        spec.attr.sample_period = IBS_PERIOD;
    } else {
        let precise = if modifiers.contains('P') {
            3
        } else {
            u8::try_from(modifiers.matches('p').count())
                .unwrap_or(3)
                .min(3)
        };
        spec.attr.flags = spec.attr.flags.with_precise_ip(precise);
        let cpu = machine.cpu();
        let miss = load_misses(cpu).iter().find(|miss| wants(miss.name));
        if is_power(machine) && (wants("mem-loads") || wants("mem-stores")) {
            // Sampled by marked instructions: exact without asking for it, and no count of accesses.
            spec.latency_kind = LatencyKind::Unknown;
        } else if precise == 0 {
            spec.tier = Tier::Event;
            spec.attr.sample_type = BASE;
        } else if let Some(miss) = miss {
            miss.population.clone_into(&mut spec.population);
            spec.attr.sample_type &= !sample::WEIGHT_STRUCT;
            spec.attr.sample_period = miss_period(miss.config);
        } else if wants("mem-loads") {
            spec.latency_kind = cpu.load_latency();
            spec.threshold_cycles = builder.value_of("ldlat");
            spec.leader = aux_leader(&pmu, machine)?;
        } else if wants("mem-stores") {
            "retired stores".clone_into(&mut spec.population);
            spec.latency_kind = cpu.store_latency();
        }
    }
    [
        spec.attr.config,
        spec.attr.config1,
        spec.attr.config2,
        spec.attr.config3,
    ] = builder.words;
    Ok(spec)
}

/// Lines of other sockets' caches are rarer than their memory, and each tells of sharing. Primes.
fn miss_period(config: u64) -> u64 {
    match config {
        0x01d3 => PEBS_PERIOD,
        0x20d1 => 200_117,
        _ => 4_999,
    }
}

pub(super) fn is_power(machine: &Machine) -> bool {
    let cpu = machine.cpuinfo("cpu");
    cpu.is_some_and(|cpu| cpu.starts_with("POWER"))
}

/// Hybrid machines call the PMU of their fast cores `cpu_core`.
fn find(name: &str, machine: &Machine) -> Result<(Pmu, String), Absent> {
    let candidates: &[&str] = if name == "cpu" {
        &["cpu", "cpu_core"]
    } else {
        &[name]
    };
    for candidate in candidates {
        if let Some(pmu) = machine.pmu(candidate) {
            return Ok((pmu, (*candidate).to_owned()));
        }
    }
    Err(why_not(name, machine))
}

fn why_not(name: &str, machine: &Machine) -> Absent {
    let cpuinfo = machine.proc_text("cpuinfo").unwrap_or_default();
    let has = |word: &str| cpuinfo.contains(word);
    let (intel, amd) = (has("GenuineIntel"), has("AuthenticAMD"));
    let (reason, remedy) = match name {
        "cpu" if amd => (
            "AMD CPUs have no load latency events; their source is ibs_op",
            "",
        ),
        "ibs_op" if intel => (
            "only AMD CPUs have IBS; this CPU's source is cpu/mem-loads/",
            "",
        ),
        _ if !is_of_memory(name) => (
            "this machine has no such PMU",
            "list those it has: ls /sys/bus/event_source/devices",
        ),
        _ if machine.is_virtual() => (
            "this is a virtual machine whose hypervisor passes no PMU with memory sampling on",
            "use a bare-metal host or an instance type with a full virtual PMU",
        ),
        "ibs_op" if amd => (
            "the kernel offers no IBS here",
            "enable IBS in the firmware and boot a kernel with CONFIG_PERF_EVENTS_AMD_UNCORE or newer",
        ),
        _ => ("this machine has no such PMU", ""),
    };
    Absent::new(Tier::Precise, reason, remedy)
}

/// What samples memory on some machine.
fn is_of_memory(pmu: &str) -> bool {
    ["cpu", "ibs_", "arm_spe"]
        .iter()
        .any(|start| pmu.starts_with(start))
}

struct Terms<'a> {
    pmu: &'a Pmu,
    machine: &'a Machine,
    words: [u64; 4],
}

impl Terms<'_> {
    fn add(&mut self, term: &str) -> Result<(), Absent> {
        let (key, value) = term.split_once('=').unwrap_or((term, ""));
        let unknown = || {
            let reason = format!("the PMU has no term `{key}`");
            if TERMS.contains(&key) || key.starts_with(LOAD_MISSES) {
                return Absent::new(Tier::Precise, reason, "this CPU cannot sample it");
            }
            let folder = self.pmu.folder().display();
            let remedy = format!("list those of this machine: ls {folder}/events {folder}/format");
            Absent::misspelt(Tier::Precise, reason, &remedy, key, self.pmu.names())
        };
        let wrong = || {
            let reason = format!("the PMU's term `{key}` takes no `{value}`");
            Absent::new(Tier::Precise, reason, "give a number that it has room for")
        };
        if value.is_empty()
            && let Some(event) = self.pmu.event_terms(key)
        {
            for term in event.split(',').filter(|term| term.contains('=')) {
                self.add(term)?;
            }
            return Ok(());
        }
        let known = load_misses(self.machine.cpu()).iter();
        if let Some(miss) = known
            .filter(|_| value.is_empty())
            .find(|one| one.name == key)
        {
            self.words[0] |= miss.config;
            return Ok(());
        }
        let format = self.pmu.format(key).ok_or_else(unknown)?;
        let value = match value {
            "" => 1,
            hex if hex.starts_with("0x") => {
                u64::from_str_radix(&hex[2..], 16).map_err(|_| wrong())?
            }
            decimal => decimal.parse().map_err(|_| wrong())?,
        };
        place(&mut self.words, &format, value).ok_or_else(wrong)
    }

    /// The value placed for a term that lies in one run of bits.
    fn value_of(&self, term: &str) -> u32 {
        let Some((word, ranges)) = self.pmu.format(term) else {
            return 0;
        };
        let (Some(word), Some((low, high))) = (self.words.get(usize::from(word)), ranges.first())
        else {
            return 0;
        };
        let value = (word >> low) & (u64::MAX >> (63 - u32::from(high - low)));
        u32::try_from(value).unwrap_or(0)
    }
}

/// Sapphire Rapids counts loads only in a group led by `mem-loads-aux`.
fn aux_leader(pmu: &Pmu, machine: &Machine) -> Result<Option<Attr>, Absent> {
    let Some(terms) = pmu.event_terms("mem-loads-aux") else {
        return Ok(None);
    };
    let mut builder = Terms {
        pmu,
        machine,
        words: [0; 4],
    };
    for term in terms.split(',') {
        builder.add(term)?;
    }
    let mut attr = base_attr(pmu.kind, builder.words[0], 0);
    attr.flags = AttrFlags::default().with_disabled(true);
    attr.config1 = builder.words[1];
    Ok(Some(attr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn machine(folder: &Path, cpuinfo: &str) -> Machine {
        fs::write(folder.join("cpuinfo"), cpuinfo).unwrap();
        Machine {
            sys: folder.to_owned(),
            proc: folder.to_owned(),
        }
    }

    fn pmu(folder: &Path, name: &str, kind: u32, files: &[(&str, &str)]) {
        let pmu = folder.join("bus/event_source/devices").join(name);
        for sub in ["events", "format"] {
            fs::create_dir_all(pmu.join(sub)).unwrap();
        }
        fs::write(pmu.join("type"), format!("{kind}\n")).unwrap();
        for (file, text) in files {
            fs::write(pmu.join(file), text).unwrap();
        }
    }

    const SKYLAKE: &[(&str, &str)] = &[
        ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("events/mem-stores", "event=0xd0,umask=0x82\n"),
        ("format/event", "config:0-7\n"),
        ("format/umask", "config:8-15\n"),
        ("format/ldlat", "config1:0-15\n"),
    ];

    #[test]
    fn intel_loads_have_threshold_and_latency_but_estimate_nothing() {
        let folder = tempfile::tempdir().unwrap();
        pmu(folder.path(), "cpu", 4, SKYLAKE);
        let machine = machine(
            folder.path(),
            "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\n",
        );
        let spec = event("n", "cpu", "mem-loads,ldlat=30/P", &machine).unwrap();
        assert_eq!(
            (spec.attr.kind, spec.attr.config, spec.attr.config1),
            (4, 0x1cd, 30)
        );
        assert_eq!(spec.attr.flags.precise_ip(), 3);
        assert_eq!(
            (spec.threshold_cycles, spec.latency_kind),
            (30, LatencyKind::Use)
        );
        assert_eq!((spec.population.as_str(), spec.leader), ("", None));
        let stores = event("n", "cpu", "mem-stores/P", &machine).unwrap();
        assert_eq!(stores.attr.config, 0x82d0);
        assert_eq!(
            (stores.population.as_str(), stores.latency_kind),
            ("retired stores", LatencyKind::None)
        );
    }

    #[test]
    fn sapphire_rapids_loads_need_their_leader() {
        let folder = tempfile::tempdir().unwrap();
        pmu(folder.path(), "cpu", 4, SKYLAKE);
        pmu(
            folder.path(),
            "cpu",
            4,
            &[("events/mem-loads-aux", "event=0x03,umask=0x82\n")],
        );
        let cpuinfo = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : Xeon\n";
        let machine = machine(folder.path(), cpuinfo);
        let spec = event("n", "cpu", "mem-loads,ldlat=30/P", &machine).unwrap();
        assert_eq!(spec.leader.unwrap().config, 0x8203);
        assert_eq!(spec.latency_kind, LatencyKind::Cache);
        let stores = event("n", "cpu", "mem-stores/P", &machine).unwrap();
        assert_eq!(stores.latency_kind, LatencyKind::Cache);
    }

    #[test]
    fn ibs_counts_micro_ops_with_a_programmable_period() {
        let folder = tempfile::tempdir().unwrap();
        pmu(
            folder.path(),
            "ibs_op",
            11,
            &[("format/cnt_ctl", "config:19\n")],
        );
        let machine = machine(folder.path(), "vendor_id : AuthenticAMD\n");
        let spec = event("ibs_op//", "ibs_op", "/", &machine).unwrap();
        assert_eq!((spec.attr.kind, spec.attr.config), (11, 1 << 19));
        assert_eq!(spec.attr.sample_period % 16, 0);
        assert_eq!(spec.latency_kind, LatencyKind::IbsMiss);
    }

    #[test]
    fn what_is_missing_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [
            ("AuthenticAMD", "cpu", "ibs_op"),
            ("GenuineIntel", "ibs_op", "only AMD"),
            (
                "AuthenticAMD\nflags : fpu hypervisor",
                "ibs_op",
                "virtual machine",
            ),
            (
                "GenuineIntel\nflags : fpu hypervisor",
                "cpu",
                "virtual machine",
            ),
        ];
        for (cpuinfo, name, expected) in rows {
            let machine = machine(folder.path(), cpuinfo);
            let absent = event("n", name, "mem-loads/P", &machine).unwrap_err();
            assert!(
                absent.reason.contains(expected),
                "{name}: {}",
                absent.reason
            );
        }
    }
}

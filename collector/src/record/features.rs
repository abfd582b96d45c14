//! The file's header features: what perf shows and what makes the file readable elsewhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use memwide_perf_abi::file::{ClockData, Features, NumaNode, TracingFiles, feature};
use memwide_service::build_info::BUILD;

use super::open::Event;
use crate::clock::Anchor;
use crate::config::Config;
use crate::events::machine::{Machine, parse_list};
use crate::facts;

/// Perf's own clock is none of the `CLOCK_*`; readers take the pair of times whatever number stands beside it.
const NO_CLOCKID: u32 = u32::MAX;

/// Far more than the kernel's descriptions of its trace pages have.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// What is known before the first record.
pub(super) fn of_machine(machine: &Machine, anchor: &Anchor, command_line: &[String]) -> Features {
    let facts = facts::read(&Config::default(), machine, Vec::new());
    let mut features = Features::default();
    for (number, text) in [
        (feature::HOSTNAME, &facts.hostname),
        (feature::OSRELEASE, &facts.os_release),
        (feature::VERSION, &format!("memwide {}", BUILD.version)),
        (feature::ARCH, &facts.arch),
        (feature::CPUDESC, &facts.cpu_desc),
        (feature::CPUID, &facts.cpuid),
    ] {
        if !text.is_empty() {
            features.set_text(number, text);
        }
    }
    let present = machine.sys_text("devices/system/cpu/present");
    let present = present.map_or(0, |list| parse_list(&list).len());
    let present = u32::try_from(present).unwrap_or(u32::MAX);
    features.set_nr_cpus(present.max(facts.cpus_online), facts.cpus_online);
    let memory = machine.proc_text("meminfo").unwrap_or_default();
    features.set_total_mem_kib(kib(&memory, "MemTotal:"));
    features.set_cmdline(command_line);
    let nodes = nodes(machine);
    if !nodes.is_empty() {
        features.set_numa_topology(&nodes);
    }
    features.set_pmu_mappings(&pmus(machine));
    features.set_clock_data(ClockData {
        clockid: NO_CLOCKID,
        wall_clock_ns: anchor.wall_ns,
        clockid_time_ns: anchor.perf_ns,
    });
    features
}

/// Formats of the tracepoints among `events`, if there are any.
pub(super) fn tracing(events: &[Event], machine: &Machine) -> Option<Vec<u8>> {
    let mut systems: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for event in events.iter().filter(|event| !event.format.is_empty()) {
        let system = event.name.split_once(':').map_or("", |(system, _)| system);
        let formats = systems.entry(system.to_owned()).or_default();
        formats.push(event.format.clone().into_bytes());
    }
    if systems.is_empty() {
        return None;
    }
    let folder = machine.tracing()?;
    let files = TracingFiles {
        header_page: at_once(&folder.join("events/header_page")),
        header_event: at_once(&folder.join("events/header_event")),
        systems: systems.into_iter().collect(),
        printk_formats: fs::read(folder.join("printk_formats")).unwrap_or_default(),
        saved_cmdlines: Vec::new(),
        page_size: u32::try_from(Machine::page_size()).unwrap_or(4096),
    };
    Some(files.encode())
}

/// These files end after their first read, however small it was.
fn at_once(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES_MAX];
    let read = File::open(path).and_then(|mut file| file.read(&mut bytes));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

fn nodes(machine: &Machine) -> Vec<NumaNode> {
    let online = machine
        .sys_text("devices/system/node/online")
        .unwrap_or_default();
    let nodes = parse_list(&online).into_iter().map(|node| {
        let file = |name: &str| {
            let text = machine.sys_text(&format!("devices/system/node/node{node}/{name}"));
            text.unwrap_or_default()
        };
        let memory = file("meminfo");
        NumaNode {
            node,
            total_kib: kib(&memory, "MemTotal:"),
            free_kib: kib(&memory, "MemFree:"),
            cpus: file("cpulist"),
        }
    });
    nodes.collect()
}

/// `NAME N kB`, with or without `Node N` before it.
fn kib(meminfo: &str, name: &str) -> u64 {
    let mut lines = meminfo.lines();
    let rest = lines.find_map(|line| Some(line.split_once(name)?.1));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

fn pmus(machine: &Machine) -> Vec<(u32, String)> {
    let folder = machine.sys.join("bus/event_source/devices");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<(u32, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((machine.pmu(&name)?.kind, name))
        })
        .collect();
    all.sort();
    all
}

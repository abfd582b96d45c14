//! What stands still about a host: its name, CPUs, nodes, memory, kernel.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use memwide_model::{BootId, HostId};
use memwide_proto::v1::{Capability, HostFacts, MemoryRange, Node};
use memwide_service::build_info::BUILD;

use crate::config::Config;
use crate::events::machine::{Machine, parse_list};

/// Label with the collector's process id: the decoder marks its samples as the profiler's.
const PID_LABEL: &str = "memwide.pid";

/// Reads the facts.
pub(crate) fn read(config: &Config, machine: &Machine, capabilities: Vec<Capability>) -> HostFacts {
    let cpu = Cpu::read(machine);
    let mut labels: HashMap<String, String> = HashMap::new();
    labels.extend(
        config
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    labels.insert(PID_LABEL.to_owned(), std::process::id().to_string());
    let nodes = nodes(machine);
    HostFacts {
        hostname: hostname(config, machine),
        arch: std::env::consts::ARCH.to_owned(),
        os_release: machine
            .proc_text("sys/kernel/osrelease")
            .unwrap_or_default(),
        cpuid: cpu.id(),
        remote_means: if nodes.len() > 1 && cpu.vendor == "GenuineIntel" {
            "package".to_owned()
        } else if nodes.len() > 1 {
            "node".to_owned()
        } else {
            String::new()
        },
        cpu_vendor: cpu.vendor,
        cpu_desc: cpu.description,
        microcode: cpu.microcode,
        cpus_online: u32::try_from(machine.online_cpus().len()).unwrap_or(u32::MAX),
        page_size_bytes: u32::try_from(Machine::page_size()).unwrap_or(0),
        memory: memory(machine),
        nodes,
        capabilities,
        virtualization: virtualization(machine, cpu.hypervisor),
        labels,
        kind: "live".to_owned(),
        collector_version: BUILD.version.to_owned(),
    }
}

/// The configured name, else the kernel's.
pub(crate) fn hostname(config: &Config, machine: &Machine) -> String {
    if config.host.is_empty() {
        let name = machine.proc_text("sys/kernel/hostname");
        name.filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned())
    } else {
        config.host.clone()
    }
}

/// The machine id; without one, a hash of the host's name, which is at least stable.
pub(crate) fn host_id(hostname: &str) -> HostId {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    sixteen(&id).map_or_else(
        || HostId(xxhash_rust::xxh3::xxh3_128(hostname.as_bytes()).to_be_bytes()),
        HostId,
    )
}

/// The kernel's id of this boot.
pub(crate) fn boot_id(machine: &Machine) -> BootId {
    let id = machine
        .proc_text("sys/kernel/random/boot_id")
        .unwrap_or_default();
    BootId(sixteen(&id).unwrap_or_default())
}

/// 32 hex digits, with or without dashes.
fn sixteen(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    (digits.len() == 32)
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten()
        .map(u128::to_be_bytes)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Cpu {
    vendor: String,
    description: String,
    microcode: String,
    family: String,
    model: String,
    stepping: String,
    hypervisor: bool,
}

impl Cpu {
    fn read(machine: &Machine) -> Self {
        let text = machine.proc_text("cpuinfo").unwrap_or_default();
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        // The first processor stands for all.
        for line in text.lines().take_while(|line| !line.trim().is_empty()) {
            if let Some((key, value)) = line.split_once(':') {
                fields.insert(key.trim(), value.trim());
            }
        }
        let field = |names: &[&str]| {
            let found = names.iter().find_map(|name| fields.get(name));
            found.map(|value| (*value).to_owned()).unwrap_or_default()
        };
        let flags = fields.get("flags").copied().unwrap_or_default();
        Self {
            vendor: field(&["vendor_id", "CPU implementer"]),
            description: field(&["model name", "Processor", "CPU part"]),
            microcode: field(&["microcode"]),
            family: field(&["cpu family"]),
            model: field(&["model"]),
            stepping: field(&["stepping"]),
            hypervisor: flags.split_whitespace().any(|flag| flag == "hypervisor"),
        }
    }

    /// As perf's CPUID feature: `GenuineIntel,6,85,4`; the last in hex there as well.
    fn id(&self) -> String {
        if self.family.is_empty() {
            return String::new();
        }
        let stepping: u32 = self.stepping.parse().unwrap_or(0);
        format!(
            "{},{},{},{stepping:X}",
            self.vendor, self.family, self.model
        )
    }
}

fn virtualization(machine: &Machine, flag: bool) -> String {
    let product = machine
        .sys_text("class/dmi/id/product_name")
        .unwrap_or_default();
    let vendor = machine
        .sys_text("class/dmi/id/sys_vendor")
        .unwrap_or_default();
    let known = [
        ("KVM", "kvm"),
        ("QEMU", "kvm"),
        ("Amazon EC2", "nitro"),
        ("Google", "gce"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Virtual Machine", "hyper-v"),
        ("Xen", "xen"),
    ];
    if let Some(kind) = machine.sys_text("hypervisor/type") {
        return kind;
    }
    let found = known
        .iter()
        .find(|(mark, _)| product.contains(mark) || vendor.contains(mark));
    match found {
        // Bare-metal instances carry the vendor's name too; the CPU's flag decides.
        Some((_, name)) if flag => (*name).to_owned(),
        _ if flag => "hypervisor".to_owned(),
        _ => String::new(),
    }
}

fn nodes(machine: &Machine) -> Vec<Node> {
    let online = machine.sys_text("devices/system/node/online");
    let Some(online) = online else {
        // A kernel without NUMA: one node with everything.
        return vec![Node {
            node: 0,
            cpus: machine.online_cpus(),
            distances: vec![10],
            memory_bytes: meminfo(&machine.proc_text("meminfo").unwrap_or_default()),
        }];
    };
    let nodes = parse_list(&online).into_iter().map(|node| {
        let file = |name: &str| {
            let text = machine.sys_text(&format!("devices/system/node/node{node}/{name}"));
            text.unwrap_or_default()
        };
        Node {
            node,
            cpus: parse_list(&file("cpulist")),
            distances: file("distance")
                .split_whitespace()
                .filter_map(|distance| distance.parse().ok())
                .collect(),
            memory_bytes: meminfo(&file("meminfo")),
        }
    });
    nodes.collect()
}

/// `MemTotal: N kB`, with or without `Node N` before it.
pub(crate) fn meminfo(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"));
    let kib = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Which physical memory belongs to which node, from the memory blocks each node lists.
fn memory(machine: &Machine) -> Vec<MemoryRange> {
    let size = machine.sys_text("devices/system/memory/block_size_bytes");
    let Some(size) = size.and_then(|hex| u64::from_str_radix(&hex, 16).ok()) else {
        return Vec::new();
    };
    let numa = machine.sys_text("devices/system/node/online");
    let folders = match &numa {
        Some(online) => parse_list(online)
            .into_iter()
            .map(|node| (node, format!("devices/system/node/node{node}")))
            .collect(),
        None => vec![(0, "devices/system/memory".to_owned())],
    };
    let mut blocks: Vec<(u64, u32)> = Vec::new();
    for (node, folder) in folders {
        let entries = fs::read_dir(machine.sys.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        blocks.extend(entries.filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix("memory")?.parse().ok()?;
            Some((number, node))
        }));
    }
    blocks.sort_unstable();
    let mut ranges: Vec<MemoryRange> = Vec::new();
    for (block, node) in blocks {
        let start = block.saturating_mul(size);
        let end = start.saturating_add(size);
        match ranges.last_mut() {
            Some(last) if last.end == start && last.node == node => last.end = end,
            _ => ranges.push(MemoryRange { start, end, node }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn two_nodes_share_memory_by_blocks() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "devices/system/node/online", "0-1\n");
        put(
            root.path(),
            "devices/system/memory/block_size_bytes",
            "8000000\n",
        );
        for (node, cpus, blocks) in [(0, "0-1", [0, 1]), (1, "2-3", [2, 4])] {
            let base = format!("devices/system/node/node{node}");
            put(root.path(), &format!("{base}/cpulist"), cpus);
            put(root.path(), &format!("{base}/distance"), "10 21\n");
            put(
                root.path(),
                &format!("{base}/meminfo"),
                "Node 0 MemTotal:  2048 kB\n",
            );
            for block in blocks {
                put(
                    root.path(),
                    &format!("{base}/memory{block}/state"),
                    "online",
                );
            }
        }
        put(
            root.path(),
            "cpuinfo",
            "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nmodel name : Xeon\nstepping : 11\nflags : fpu\n\nvendor_id : x\n",
        );
        let machine = Machine {
            sys: root.path().to_owned(),
            proc: root.path().to_owned(),
        };
        let facts = read(&Config::default(), &machine, Vec::new());
        assert_eq!(facts.cpuid, "GenuineIntel,6,85,B");
        assert_eq!(
            (facts.remote_means.as_str(), facts.virtualization.as_str()),
            ("package", "")
        );
        assert_eq!(facts.nodes.len(), 2);
        assert_eq!(
            (&facts.nodes[1].cpus, facts.nodes[1].memory_bytes),
            (&vec![2, 3], 2 << 20)
        );
        assert_eq!(facts.nodes[0].distances, [10, 21]);
        let size = 0x800_0000;
        let ranges: Vec<_> = facts
            .memory
            .iter()
            .map(|r| (r.start, r.end, r.node))
            .collect();
        assert_eq!(
            ranges,
            [
                (0, 2 * size, 0),
                (2 * size, 3 * size, 1),
                (4 * size, 5 * size, 1)
            ]
        );
    }

    #[test]
    fn this_machine_has_a_name_cpus_and_a_kernel() {
        let machine = Machine::default();
        let facts = read(&Config::default(), &machine, Vec::new());
        assert!(!facts.hostname.is_empty() && !facts.os_release.is_empty());
        assert!(facts.cpus_online > 0 && facts.page_size_bytes >= 4096);
        assert!(!facts.nodes.is_empty() && facts.nodes[0].memory_bytes > 0);
        assert_eq!(facts.labels[PID_LABEL], std::process::id().to_string());
        assert_ne!(boot_id(&machine), BootId([0; 16]));
    }

    #[test]
    fn ids_are_read_with_and_without_dashes() {
        let plain = sixteen("3d1219c7c4c5404aaa1f6d2a48adfda4\n");
        assert_eq!(plain, sixteen("3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"));
        assert!(plain.is_some() && sixteen("3d12").is_none());
    }
}

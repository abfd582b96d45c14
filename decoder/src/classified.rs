//! Everything a sample says beyond its names: classes, localities, region of the data, context.

use crate::context::Mode;
use crate::locality::{Topology, combine};
use crate::machine::{Machine, Place};
use crate::memory::{EventFacts, Memory};
use crate::symbols::What;
use memwide_model::{
    Classified, Context, Cpu, LatencyKind, Locality, LocalityBasis, Pmu, Region, has_errata,
};
use memwide_perf_abi::SampleView;
use memwide_perf_abi::file::Features;
use memwide_proto::v1;

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;

/// What is derived from one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// Displayed values of `data_src`.
    pub class: Classified,
    /// Node of the data page.
    pub page_node: Option<u8>,
    /// Node of the page against node of the CPU.
    pub page_locality: Locality,
    /// The one that counts, and what it rests on.
    pub locality: Locality,
    /// What `locality` rests on.
    pub basis: LocalityBasis,
    /// What the data address belongs to.
    pub region: Region,
    /// The variable or mapping of the data address.
    pub(crate) data: Option<Place>,
    /// In which context the CPU was.
    pub context: Context,
}

impl Derived {
    /// Of a sample of which no more is asked than its fields.
    pub(crate) const UNASKED: Self = Self {
        class: Classified::NONE,
        page_node: None,
        page_locality: Locality::Unknown,
        locality: Locality::Unknown,
        basis: LocalityBasis::None,
        region: Region::Unknown,
        data: None,
        context: Context::Unknown,
    };
}

/// Knows the host's PMU and memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deriver {
    pmu: Pmu,
    cpu: Cpu,
    may_err: bool,
    topology: Topology,
    own_pid: Option<u32>,
}

impl Deriver {
    /// From a host's facts.
    pub(crate) fn new(facts: &v1::HostFacts) -> Self {
        let pid = facts.labels.get("memwide.pid");
        let cpu = Cpu::parse(&facts.cpuid, &facts.arch);
        Self {
            pmu: Pmu::of(&facts.cpu_vendor, &facts.arch),
            cpu,
            may_err: has_errata(cpu),
            topology: Topology::new(facts),
            own_pid: pid.and_then(|pid| pid.parse().ok()),
        }
    }

    /// From the header of a file.
    pub(crate) fn of_file(features: &Features) -> Self {
        Self::new(&facts_of(features))
    }

    /// What the weight of a sampled load measures.
    pub(crate) fn load_latency(&self) -> LatencyKind {
        self.cpu.load_latency()
    }

    /// What the innermost entry frame of the kernel chain says: the sample's own place, then its callers, of which is known
    /// what they say.
    pub(crate) fn entry(
        machine: &Machine,
        mode: Mode,
        code: Option<&Place>,
        callers: impl FnOnce() -> Option<Context>,
    ) -> Option<Context> {
        if mode != Mode::Kernel {
            return None;
        }
        let own = code.and_then(|place| machine.entry(place));
        own.or_else(callers)
    }

    /// What the innermost entry frame of these says.
    pub(crate) fn entry_of(machine: &Machine, frames: &[(u64, Place)]) -> Option<Context> {
        frames.iter().find_map(|(_, place)| machine.entry(place))
    }

    /// What a sample of an event says of its access.
    #[inline]
    pub(crate) fn memory(&self, view: &SampleView<'_>, event: EventFacts) -> Memory {
        Memory::new(view, event, self.cpu)
    }

    /// `data` is where the data address lies by the mode the code ran in.
    #[expect(
        clippy::too_many_arguments,
        reason = "one sample's facts, used in one place each"
    )]
    pub(crate) fn derive(
        &self,
        machine: &mut Machine,
        view: &SampleView<'_>,
        (memory, event): (&Memory, EventFacts),
        mode: Mode,
        pid: u32,
        time: u64,
        data: Option<Place>,
        entry: Option<Context>,
    ) -> Derived {
        let class = memory.classify(event, self.cpu, self.pmu, self.may_err);
        let page_node = memory
            .phys_addr
            .and_then(|phys| self.topology.node_of_page(phys));
        let page_locality = self.topology.page_locality(page_node, view.cpu());
        let (locality, basis) = combine(class.hw_locality, page_locality, class.level);
        let (region, data) = match (memory.addr, data) {
            (Some(addr), Some(place)) if addr != 0 => region(machine, mode, pid, addr, time, place),
            _ => (Region::Unknown, None),
        };
        let own = self.own_pid == Some(pid) || machine.is_own(pid, time);
        Derived {
            class,
            page_node,
            page_locality,
            locality,
            basis,
            region,
            data,
            context: machine.context(mode, pid, own, entry),
        }
    }
}

/// The region of an address. Kernel code touches user memory too: then the process's mappings say what it is.
fn region(
    machine: &mut Machine,
    mode: Mode,
    pid: u32,
    addr: u64,
    time: u64,
    by_mode: Place,
) -> (Region, Option<Place>) {
    let is_kernel = addr & KERNEL_BIT != 0;
    let place = match (mode, is_kernel) {
        (Mode::Guest | Mode::Other, _) => return (Region::Unknown, None),
        (Mode::Kernel, true) | (Mode::User, false) => by_mode,
        (Mode::Kernel, false) => machine.data(Mode::User, pid, addr, time),
        (Mode::User, true) => machine.data(Mode::Kernel, pid, addr, time),
    };
    let Some(what) = machine.what(&place) else {
        let region = if is_kernel {
            Region::Kernel
        } else {
            Region::Unknown
        };
        return (region, None);
    };
    match what {
        What::File if place.variable => (Region::Global, Some(place)),
        What::Anonymous => match machine.bss(pid, addr, time) {
            Some(variable) => (Region::Global, Some(variable)),
            None => (Region::Anonymous, Some(place)),
        },
        what => (what.region(), Some(place)),
    }
}

/// What a file's header says of the host.
pub(crate) fn facts_of(features: &Features) -> v1::HostFacts {
    let cpuid = features.cpuid().unwrap_or_default();
    let mut facts = v1::HostFacts {
        arch: features.arch().unwrap_or_default(),
        cpu_vendor: cpuid.split(',').next().unwrap_or_default().to_owned(),
        cpuid,
        ..v1::HostFacts::default()
    };
    for node in features.numa_topology().unwrap_or_default() {
        facts.nodes.push(v1::Node {
            node: node.node,
            cpus: cpu_list(&node.cpus),
            ..v1::Node::default()
        });
    }
    if let Some(memory) = features.memory_topology() {
        for node in &memory.nodes {
            for block in &node.blocks {
                let start = block.saturating_mul(memory.block_size);
                facts.memory.push(v1::MemoryRange {
                    start,
                    end: start.saturating_add(memory.block_size),
                    node: u32::try_from(node.node).unwrap_or(u32::MAX),
                });
            }
        }
    }
    facts
}

/// `0-3,8` as numbers; what is no list of CPUs gives none, and no list is longer than 65,536.
fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<u32>()) {
            cpus.extend((first..=last).take(1 << 16));
        }
    }
    cpus.truncate(1 << 16);
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(cpu_list("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(cpu_list(""), Vec::<u32>::new());
        assert_eq!(cpu_list("0-4294967295").len(), 1 << 16);
    }

    #[test]
    fn a_files_topology_places_pages() {
        let mut features = Features::default();
        features.set_numa_topology(&[memwide_perf_abi::file::NumaNode {
            node: 1,
            total_kib: 0,
            free_kib: 0,
            cpus: "2-3".into(),
        }]);
        let topology = Topology::new(&facts_of(&features));
        assert_eq!(topology.node_of_cpu(3), Some(1));
    }
}

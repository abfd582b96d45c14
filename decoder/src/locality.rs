//! Near or far: node of the page against node of the CPU, and which of both words counts.

use memwide_model::{Level, Locality, LocalityBasis};
use memwide_proto::v1;

/// Node number that stands for "not known" in columns.
pub(crate) const NO_NODE: u8 = 255;

/// Most ranges and CPUs taken from a host's facts; real machines have some hundred of the first.
const RANGES_MAX: usize = 1 << 16;
const CPUS_MAX: u32 = 1 << 16;

/// Which node a physical address and a CPU belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Physical memory `[start, end)` of a node, ascending.
    ranges: Vec<(u64, u64, u8)>,
    /// Node of each CPU.
    cpu_nodes: Vec<u8>,
    /// For each node the node with CPUs that is nearest to it; itself if it has CPUs.
    nearest: Vec<u8>,
}

impl Topology {
    /// From a host's facts; empty where they say nothing.
    pub fn new(facts: &v1::HostFacts) -> Self {
        let node = |number: u32| u8::try_from(number).unwrap_or(NO_NODE);
        let mut ranges: Vec<_> = facts
            .memory
            .iter()
            .take(RANGES_MAX)
            .filter(|range| range.start < range.end)
            .map(|range| (range.start, range.end, node(range.node)))
            .collect();
        ranges.sort_unstable();
        let mut topology = Self {
            ranges,
            ..Self::default()
        };
        for one in facts.nodes.iter().take(usize::from(NO_NODE)) {
            for cpu in one.cpus.iter().filter(|cpu| **cpu < CPUS_MAX) {
                set(&mut topology.cpu_nodes, *cpu as usize, node(one.node));
            }
            set(
                &mut topology.nearest,
                usize::from(node(one.node)),
                nearest(facts, one),
            );
        }
        topology
    }

    /// Node of a CPU.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<u8> {
        let node = *self.cpu_nodes.get(cpu as usize)?;
        (node != NO_NODE).then_some(node)
    }

    /// Node of a physical address; 0 is no address.
    pub fn node_of_page(&self, phys_addr: u64) -> Option<u8> {
        if phys_addr == 0 {
            return None;
        }
        let behind = self
            .ranges
            .partition_point(|(start, ..)| *start <= phys_addr);
        let (_, end, node) = *self.ranges.get(behind.checked_sub(1)?)?;
        (phys_addr < end && node != NO_NODE).then_some(node)
    }

    /// Placement of the page as seen from the CPU. Memory without CPUs (CXL, PMEM) counts to its nearest node with some.
    pub fn page_locality(&self, page_node: Option<u8>, cpu: Option<u32>) -> Locality {
        let (Some(page), Some(cpu)) = (page_node, cpu.and_then(|cpu| self.node_of_cpu(cpu))) else {
            return Locality::Unknown;
        };
        let near = self.nearest.get(usize::from(page)).copied().unwrap_or(page);
        if near == cpu {
            Locality::Local
        } else {
            Locality::Remote
        }
    }
}

fn set(list: &mut Vec<u8>, at: usize, value: u8) {
    if list.len() <= at {
        list.resize(at + 1, NO_NODE);
    }
    if let Some(slot) = list.get_mut(at) {
        *slot = value;
    }
}

/// The node with CPUs at the smallest distance; the lowest number of several.
fn nearest(facts: &v1::HostFacts, of: &v1::Node) -> u8 {
    let number = |node: &v1::Node| u8::try_from(node.node).unwrap_or(NO_NODE);
    if !of.cpus.is_empty() {
        return number(of);
    }
    let with_cpus = facts.nodes.iter().zip(&of.distances);
    with_cpus
        .filter(|(node, _)| !node.cpus.is_empty())
        .min_by_key(|(node, distance)| (**distance, node.node))
        .map_or(NO_NODE, |(node, _)| number(node))
}

/// `locality` and what it rests on: the hardware's word; where it is silent, the page's node if the data may have come from memory.
pub(crate) fn combine(hw: Locality, page: Locality, level: Level) -> (Locality, LocalityBasis) {
    if hw != Locality::Unknown {
        return (hw, LocalityBasis::Hw);
    }
    let may_be_memory = matches!(
        level,
        Level::Ram | Level::Pmem | Level::Cxl | Level::Unknown | Level::None
    );
    if may_be_memory && page != Locality::Unknown {
        return (page, LocalityBasis::Page);
    }
    (Locality::Unknown, LocalityBasis::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nodes_and_cxl() -> Topology {
        let node = |node, cpus: &[u32], distances: &[u32]| v1::Node {
            node,
            cpus: cpus.to_vec(),
            distances: distances.to_vec(),
            memory_bytes: 0,
        };
        let range = |start, end, node| v1::MemoryRange { start, end, node };
        Topology::new(&v1::HostFacts {
            nodes: vec![
                node(0, &[0, 1], &[10, 21, 24]),
                node(1, &[2, 3], &[21, 10, 14]),
                node(2, &[], &[24, 14, 10]),
            ],
            memory: vec![
                range(0x1000, 0x2000, 0),
                range(0x2000, 0x3000, 1),
                range(0x8000, 0x9000, 2),
            ],
            ..v1::HostFacts::default()
        })
    }

    #[test]
    fn the_page_is_compared_with_the_cpu() {
        let topology = two_nodes_and_cxl();
        for (phys, cpu, node, locality) in [
            (0x1000, Some(1), Some(0), Locality::Local),
            (0x2fff, Some(1), Some(1), Locality::Remote),
            (0x2fff, Some(3), Some(1), Locality::Local),
            // Memory without CPUs hangs on node 1.
            (0x8000, Some(2), Some(2), Locality::Local),
            (0x8000, Some(0), Some(2), Locality::Remote),
            (0x3000, Some(0), None, Locality::Unknown),
            (0, Some(0), None, Locality::Unknown),
            (0x1000, None, Some(0), Locality::Unknown),
            (0x1000, Some(99), Some(0), Locality::Unknown),
        ] {
            let page = topology.node_of_page(phys);
            assert_eq!(page, node, "{phys:#x}");
            assert_eq!(
                topology.page_locality(page, cpu),
                locality,
                "{phys:#x} {cpu:?}"
            );
        }
    }

    #[test]
    fn the_hardware_is_believed_first_and_the_page_only_for_memory() {
        use Locality::{Local, Remote, Unknown};
        for (hw, page, level, locality, basis) in [
            (Remote, Local, Level::Ram, Remote, LocalityBasis::Hw),
            (Unknown, Remote, Level::Ram, Remote, LocalityBasis::Page),
            (Unknown, Remote, Level::None, Remote, LocalityBasis::Page),
            (Unknown, Remote, Level::Lfb, Unknown, LocalityBasis::None),
            (Unknown, Unknown, Level::Ram, Unknown, LocalityBasis::None),
        ] {
            assert_eq!(combine(hw, page, level), (locality, basis));
        }
    }
}

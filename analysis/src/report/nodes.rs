//! NUMA node of each CPU, from a file's header.

use memwide_perf_abi::file::Features;

/// Most CPUs taken; real machines have some thousands.
const CPUS_MAX: u32 = 1 << 16;

/// Stands for a node that is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Nodes by CPU.
#[derive(Debug, Default)]
pub struct Nodes(Vec<u64>);

impl Nodes {
    /// As the recorder wrote them; empty where it did not.
    pub fn of(features: &Features) -> Self {
        let mut nodes = Vec::new();
        for node in features.numa_topology().unwrap_or_default() {
            for part in node.cpus.split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (Ok(first), Ok(last)) =
                    (first.trim().parse::<u32>(), last.trim().parse::<u32>())
                else {
                    continue;
                };
                for cpu in first..=last.min(CPUS_MAX) {
                    let cpu = cpu as usize;
                    if nodes.len() <= cpu {
                        nodes.resize(cpu + 1, UNKNOWN);
                    }
                    nodes[cpu] = u64::from(node.node);
                }
            }
        }
        Self(nodes)
    }

    /// Whether the recorder wrote no node at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The node of a CPU, if it is known.
    pub fn node(&self, cpu: u32) -> Option<u64> {
        Some(self.of_cpu(Some(cpu))).filter(|node| *node != UNKNOWN)
    }

    /// The node of a CPU.
    pub(super) fn of_cpu(&self, cpu: Option<u32>) -> u64 {
        let node = cpu.and_then(|cpu| self.0.get(cpu as usize));
        node.copied().unwrap_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::file::NumaNode;

    #[test]
    fn cpus_belong_to_the_node_whose_list_names_them() {
        let mut features = Features::default();
        let node = |node, cpus: &str| NumaNode {
            node,
            total_kib: 0,
            free_kib: 0,
            cpus: cpus.to_owned(),
        };
        features.set_numa_topology(&[node(0, "0-1,4"), node(1, "2-3"), node(2, "")]);
        let nodes = Nodes::of(&features);
        let of = |cpu| nodes.of_cpu(Some(cpu));
        assert_eq!(
            [of(0), of(1), of(2), of(3), of(4), of(5)],
            [0, 0, 1, 1, 0, UNKNOWN]
        );
        assert_eq!(nodes.of_cpu(None), UNKNOWN);
        assert_eq!(Nodes::of(&Features::default()).of_cpu(Some(0)), UNKNOWN);
    }
}

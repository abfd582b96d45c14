//! What a file says of the host it was recorded on.

use std::collections::HashMap;

use memwide_perf_abi::file::Features;
use memwide_proto::v1::{HostFacts, MemoryRange, Node};
use memwide_service::build_info::BUILD;

use crate::events::machine::parse_list;

/// The facts, as far as the header has them.
pub(super) fn of_file(features: &Features, hostname: &str) -> HostFacts {
    let cpuid = features.cpuid().unwrap_or_default();
    let nodes: Vec<Node> = features
        .numa_topology()
        .unwrap_or_default()
        .into_iter()
        .map(|node| Node {
            node: node.node,
            cpus: parse_list(&node.cpus),
            distances: Vec::new(),
            memory_bytes: node.total_kib.saturating_mul(1024),
        })
        .collect();
    let intel = cpuid.starts_with("GenuineIntel");
    HostFacts {
        hostname: hostname.to_owned(),
        arch: features.arch().unwrap_or_default(),
        os_release: features.os_release().unwrap_or_default(),
        cpu_vendor: cpuid.split(',').next().unwrap_or_default().to_owned(),
        cpu_desc: features.cpu_desc().unwrap_or_default(),
        remote_means: match (nodes.len(), intel) {
            (0 | 1, _) => String::new(),
            (_, true) => "package".to_owned(),
            (_, false) => "node".to_owned(),
        },
        cpuid,
        microcode: String::new(),
        cpus_online: features.nr_cpus().map_or(0, |(_, online)| online),
        page_size_bytes: 0,
        nodes,
        memory: memory(features),
        capabilities: Vec::new(),
        virtualization: String::new(),
        labels: HashMap::new(),
        kind: "import".to_owned(),
        collector_version: BUILD.version.to_owned(),
    }
}

fn memory(features: &Features) -> Vec<MemoryRange> {
    let Some(topology) = features.memory_topology() else {
        return Vec::new();
    };
    let mut blocks: Vec<(u64, u32)> = Vec::new();
    for node in &topology.nodes {
        let Ok(number) = u32::try_from(node.node) else {
            continue;
        };
        blocks.extend(node.blocks.iter().map(|block| (*block, number)));
    }
    blocks.sort_unstable();
    let mut ranges: Vec<MemoryRange> = Vec::new();
    for (block, node) in blocks {
        let start = block.saturating_mul(topology.block_size);
        let end = start.saturating_add(topology.block_size);
        match ranges.last_mut() {
            Some(last) if last.end == start && last.node == node => last.end = end,
            _ => ranges.push(MemoryRange { start, end, node }),
        }
    }
    ranges
}

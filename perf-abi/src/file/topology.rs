//! What the header says about CPUs, caches and memory.

use super::features::{counted, len32, put_string, string, strings};
use crate::bytes::{Cursor, Put};

/// Which CPUs share what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuTopology {
    /// CPU lists of each package or die, as `0-15,32-47`.
    pub core_siblings: Vec<String>,
    /// CPU lists of each core.
    pub thread_siblings: Vec<String>,
    /// Core and socket of each CPU; empty in old files.
    pub cpus: Vec<CpuPlace>,
    /// CPU lists of each die; empty in old files.
    pub die_siblings: Vec<String>,
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuPlace {
    /// Core id.
    pub core: u32,
    /// Socket id.
    pub socket: u32,
    /// Die id, in files that have it.
    pub die: Option<u32>,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NumaNode {
    /// Number.
    pub node: u32,
    /// Memory, in KiB.
    pub total_kib: u64,
    /// Free when recorded, in KiB.
    pub free_kib: u64,
    /// Its CPUs, as `0-15,32-47`; empty for a node without.
    pub cpus: String,
}

/// Which physical memory belongs to which node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryTopology {
    /// Bytes of a memory block: block n starts at physical address n × this.
    pub block_size: u64,
    /// Nodes with their blocks.
    pub nodes: Vec<MemoryNode>,
}

/// The memory blocks of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryNode {
    /// Number.
    pub node: u64,
    /// Bitmap of its blocks, block 0 in the lowest bit of the first word.
    pub blocks: Vec<u64>,
}

impl MemoryTopology {
    /// The node of a physical address.
    pub fn node_of(&self, phys_addr: u64) -> Option<u64> {
        let block = phys_addr.checked_div(self.block_size)?;
        let word = usize::try_from(block / 64).ok()?;
        let has = |node: &&MemoryNode| {
            node.blocks
                .get(word)
                .is_some_and(|bits| bits & (1 << (block % 64)) != 0)
        };
        self.nodes.iter().find(has).map(|node| node.node)
    }
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheLevel {
    /// 1 nearest.
    pub level: u32,
    /// Bytes of a line.
    pub line_size: u32,
    /// Sets.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// Data, Instruction or Unified.
    pub kind: String,
    /// Size, as `32K`.
    pub size: String,
    /// Its CPUs, as `0-1`.
    pub cpus: String,
}

pub(super) fn cpu_topology(mut cursor: Cursor<'_>, cpus: u32) -> Option<CpuTopology> {
    let mut topology = CpuTopology {
        core_siblings: strings(&mut cursor)?,
        thread_siblings: strings(&mut cursor)?,
        ..CpuTopology::default()
    };
    // What follows came with later versions; without it the lists above still hold.
    for _ in 0..cpus {
        let (Ok(core), Ok(socket)) = (cursor.u32(), cursor.u32()) else {
            topology.cpus.clear();
            return Some(topology);
        };
        topology.cpus.push(CpuPlace {
            core,
            socket,
            die: None,
        });
    }
    topology.die_siblings = strings(&mut cursor).unwrap_or_default();
    for place in &mut topology.cpus {
        place.die = cursor.u32().ok();
    }
    Some(topology)
}

pub(super) fn numa_nodes(mut cursor: Cursor<'_>) -> Option<Vec<NumaNode>> {
    counted(&mut cursor, 24, |cursor| {
        Some(NumaNode {
            node: cursor.u32().ok()?,
            total_kib: cursor.u64().ok()?,
            free_kib: cursor.u64().ok()?,
            cpus: string(cursor)?,
        })
    })
}

pub(super) fn put_numa_nodes(nodes: &[NumaNode]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(len32(nodes.len()));
    for node in nodes {
        out.put_u32(node.node);
        out.put_u64(node.total_kib);
        out.put_u64(node.free_kib);
        put_string(&mut out, &node.cpus);
    }
    out
}

pub(super) fn memory_topology(mut cursor: Cursor<'_>) -> Option<MemoryTopology> {
    if cursor.u64().ok()? != 1 {
        return None; // a version whose fields are unknown
    }
    let block_size = cursor.u64().ok()?;
    let count = usize::try_from(cursor.u64().ok()?).ok()?;
    if count.checked_mul(24)? > cursor.left() {
        return None;
    }
    let mut nodes = Vec::with_capacity(count);
    for _ in 0..count {
        let node = cursor.u64().ok()?;
        cursor.u64().ok()?; // bits, repeated before the bitmap
        let bits = cursor.u64().ok()?;
        let words = usize::try_from(bits.div_ceil(64)).ok()?;
        if words.checked_mul(8)? > cursor.left() {
            return None;
        }
        let blocks = (0..words)
            .map(|_| cursor.u64().ok())
            .collect::<Option<_>>()?;
        nodes.push(MemoryNode { node, blocks });
    }
    Some(MemoryTopology { block_size, nodes })
}

pub(super) fn caches(mut cursor: Cursor<'_>) -> Option<Vec<CacheLevel>> {
    if cursor.u32().ok()? != 1 {
        return None; // a version whose fields are unknown
    }
    counted(&mut cursor, 28, |cursor| {
        Some(CacheLevel {
            level: cursor.u32().ok()?,
            line_size: cursor.u32().ok()?,
            sets: cursor.u32().ok()?,
            ways: cursor.u32().ok()?,
            kind: string(cursor)?,
            size: string(cursor)?,
            cpus: string(cursor)?,
        })
    })
}

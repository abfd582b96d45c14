//! What is wrong with a program's memory accesses, in order of severity, each finding with the numbers it rests on.
//!
//! A number is a finding when the lower end of its 95 % interval reaches the threshold and enough was seen; when the number
//! itself does but not its interval, or too little was seen, the answer is that one *cannot tell*. Severity is the lower end as a
//! multiple of the threshold. Thresholds stand in [`limits`]; they are rules of thumb, and say where looking closer pays.

mod accesses;
mod allocations;
mod judge;
pub mod limits;
mod memory;
mod software;

use crate::counting::Estimate;
use memwide_model::Tier;

pub use judge::{Looked, findings};
pub use memory::{Function, Memory, wanted};

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Threads write and read different variables of one cache line.
    FalseSharing,
    /// Threads fight over the same variable.
    TrueSharing,
    /// Accesses to memory of another node.
    RemoteMemory,
    /// Loads served by memory in the order of addresses.
    Streaming,
    /// Loads served by memory in no order.
    MemoryLatency,
    /// Translations that walk the page tables.
    TlbWalks,
    /// Misses of the last-level cache, as counted.
    CacheMisses,
    /// Minor page faults.
    PageFaults,
    /// Page faults that wait for a device.
    MajorFaults,
    /// Memory that is allocated and kept.
    Growth,
    /// Memory that is mapped and given back over and over.
    Churn,
    /// Waiting for a device.
    Blocked,
    /// Waiting for locks.
    Locks,
    /// Waiting for a CPU.
    CpuWait,
    /// The kernel says that tasks wait for memory.
    Pressure,
}

impl Topic {
    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::FalseSharing => "false sharing",
            Self::TrueSharing => "true sharing",
            Self::RemoteMemory => "remote memory",
            Self::Streaming => "memory bandwidth",
            Self::MemoryLatency => "memory latency",
            Self::TlbWalks => "TLB walks",
            Self::CacheMisses => "cache misses",
            Self::PageFaults => "page faults",
            Self::MajorFaults => "major faults",
            Self::Growth => "memory growth",
            Self::Churn => "allocation churn",
            Self::Blocked => "blocked on devices",
            Self::Locks => "waiting for locks",
            Self::CpuWait => "waiting for a CPU",
            Self::Pressure => "memory pressure",
        }
    }
}

/// Something that is, or may be, wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// In a sentence.
    pub says: String,
    /// The number and its interval.
    pub estimate: Estimate,
    /// What the number is of.
    pub unit: &'static str,
    /// Samples, events or spells it rests on.
    pub n: u64,
    /// Where findings begin.
    pub threshold: f64,
    /// How much its source can say.
    pub tier: Tier,
    /// Enough was seen; else one cannot tell.
    pub is_sure: bool,
    /// What it rests on, a line each.
    pub evidence: Vec<String>,
    /// The command that looks deeper, without its file.
    pub deeper: String,
}

impl Finding {
    /// The lower end as a multiple of the threshold.
    pub fn severity(&self) -> f64 {
        self.estimate.low() / self.threshold
    }
}

/// Whether a number is a finding (`Some(true)`), cannot be told (`Some(false)`), or is nothing to speak of.
fn decide(estimate: Estimate, threshold: f64, n: u64, least: u64) -> Option<bool> {
    (estimate.value >= threshold).then_some(estimate.low() >= threshold && n >= least)
}

#[cfg(test)]
mod tests;

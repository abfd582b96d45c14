//! Vocabulary of memwide: ids, units, the access taxonomy, the loss ledger, rollups and their merge laws.
//!
//! Everything here is pure: no I/O, no clock, no async. Numbers of enums are codes that stand in messages and in the
//! store (`Enum8`); they are never reused.

mod access;
mod build_id;
mod cgroup;
mod classify;
mod code;
mod cpu;
pub mod data_src;
mod errata;
mod hash;
mod id;
mod ledger;
mod load_miss;
mod moments;
pub mod perf_text;
mod pmu;

/// Revision of the taxonomy: raised whenever [`classify`] answers differently than before for any word, or [`implied`] for
/// any event, so that rows of older decoders can be told from new ones and classified again.
pub const TAXONOMY: u16 = 2;

pub use access::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Region,
    Snoop, Suspect, Tier, Tlb,
};
pub use build_id::BuildId;
pub use cgroup::{Qos, Resident};
pub use classify::{Classified, classify};
pub use code::UnknownCode;
pub use cpu::Cpu;
pub use data_src::DataSrc;
pub use errata::{Erratum, errata, has_errata};
pub use hash::ContentHash;
pub use id::{
    BootId, DataId, EventId, FunctionId, HostId, LocationId, MappingId, PartitionId, Source,
    SourceId, StackId, WorkloadId,
};
pub use ledger::Reason;
pub use load_miss::{LoadMiss, implied, load_misses};
pub use moments::Moments;
pub use pmu::Pmu;

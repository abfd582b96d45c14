//! Vocabulary of memwide: ids, units, the access taxonomy, the loss ledger, rollups and their merge laws.
//!
//! Everything here is pure: no I/O, no clock, no async. Numbers of enums are codes that stand in messages and in the
//! store (`Enum8`); they are never reused.

mod access;
mod build_id;
mod code;
mod hash;
mod id;
mod ledger;
mod moments;

pub use access::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, Op, Outcome, Region, Snoop,
    Tier, Tlb,
};
pub use build_id::BuildId;
pub use code::UnknownCode;
pub use hash::ContentHash;
pub use id::{
    BootId, DataId, EventId, FunctionId, HostId, LocationId, MappingId, PartitionId, Source,
    SourceId, StackId, WorkloadId,
};
pub use ledger::Reason;
pub use moments::Moments;

//! On each node: open events, drain rings, snapshot processes, spool, ship raw bytes.
//!
//! - [`run`] collects on this machine until it is stopped; [`Status`] tells what and how far; [`probe`] says what the
//!   machine could collect without starting anything.
//! - [`Import`] replays a perf.data file as a host.
//! - [`Recorder`] writes a perf.data file instead; [`Counters`] count without samples.
//! - [`uplink`] sends the batches of anything that implements [`uplink::BatchStore`]: the [`spool`], a file, a simulated host.
//!
//! It does not decode: no symbol is looked up, no sample field is read but the event's id. What it sends are the kernel's
//! own bytes, packed without loss, and the counts that say what is missing.

mod batch;
mod central;
mod check;
mod claim;
mod clock;
mod config;
mod count;
mod events;
mod facts;
mod governor;
mod identity;
mod live;
pub mod metrics;
mod readings;
mod record;
mod replay;
mod ring;
mod section;
mod select;
mod snapshot;
pub mod spool;
mod status;
mod strange;
mod symbols;
mod sys;
mod sys_heap;
pub mod uplink;

/// The spool's pure state, which the model test drives beside [`uplink::Uplink`]; the files are its edge.
pub mod delivery {
    pub use crate::spool::{Content, Numbers};
}

pub use config::{BudgetConfig, Config, EventConfig, Mode, RingConfig, SelectConfig, SpoolConfig};
pub use count::{CountOptions, CounterAbsent, CounterInfo, CounterReading, Counters};
pub use events::OpenError;
pub use live::{probe, run, run_reporting};
pub use record::{
    RecordError, RecordNote, RecordOptions, RecordSummary, RecordTarget, RecordedEvent, Recorder,
    StackCopies,
};
pub use replay::{
    Import, ImportError, ImportOptions, ImportProgress, ImportSummary, ImportedEvent,
};
pub use section::SectionPacker;
pub use status::{BoostStatus, CentralStatus, EventStatus, Reporter, Status};
pub use sys_heap::keep_little_memory;

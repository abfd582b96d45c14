//! Raw bytes to symbolized, classified accesses.
//!
//! The core is pure: [`Machine`] keeps what side-band records say of a host (tasks, address spaces over time, kernel) and
//! says what an address means; [`Session`] turns batches of one source into blocks of accesses; [`local::LocalSession`]
//! does the same for the records of a perf.data file, for commands. None of them does I/O, asks a clock or fetches symbols:
//! tables are given to them. [`edge`] finds symbols in the file system; [`service`] is the process.
//!
//! # What the caller owes it
//!
//! Nothing about the bytes: batches and records are hostile. What cannot be placed is counted, with a reason.
#![forbid(unsafe_code)]

pub mod archive;
mod bucket;
mod chain;
mod classified;
mod context;
pub mod edge;
mod group;
mod identity;
pub mod local;
mod locality;
mod machine;
mod memory;
pub mod metrics;
mod names;
pub mod service;
mod session;
mod space;
mod symbols;
mod table;

/// The pure state of delivery, which the model test drives; a stream's task is its edge.
pub mod delivery {
    pub use crate::service::{Order, Place, Tell};
}

pub use classified::Derived;
pub use context::Mode;
pub use identity::{Identity, Kind};
pub use locality::Topology;
pub use machine::{Machine, Place};
pub use memory::Memory;
pub use names::{NameIx, Names};
pub use service::{Config, Done, RedecodeError, Redecoder, ServeError, serve};
pub use session::{Decoded, InUse, SectionError, Sent, Session, Want, unpack};
pub use space::{Area, Fork, Policy, Space, Spaces};
pub use symbols::{Object, ObjectIx, Objects, TableState, What};
pub use table::{Loaded, relative};

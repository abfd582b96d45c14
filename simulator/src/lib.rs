//! Hosts that do not exist, with known truth, through the real ingest path.
//!
//! A simulated host sends what a two-socket Intel host with PEBS would send: side-band, perf records with address, data
//! source, latency and physical address, a symbol table on request. What it sent is counted in [`Truth`], independently
//! of everything behind the wire, so that tests and `memwide up --demo` can be held against it.
//!
//! Not for: load tests with realistic addresses (they are spread evenly), other vendors.

mod fleet;
mod host;
mod program;
mod random;
mod records;
mod truth;

pub use fleet::{Fleet, FleetError, demo};
pub use host::{HostSpec, MakeError, SimulatedHost};
pub use program::{BADLY_PLACED, RARE};
pub use truth::{Truth, TruthKey};

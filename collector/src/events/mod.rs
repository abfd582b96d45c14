//! What to collect: names to attrs, attrs to open descriptors, and why something cannot be had.

mod capability;
mod kinds;
mod ladder;
pub(crate) mod machine;
mod open;
mod pmu;
mod spec;

pub use open::OpenError;
pub(crate) use open::{EventSet, OpenEvent, probe};
pub(crate) use pmu::intel_load_latency;

#[cfg(test)]
pub(crate) use open::side_band_layout;

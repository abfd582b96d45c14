//! What to collect: names to attrs, attrs to open descriptors, and why something cannot be had.

mod capability;
mod generic;
mod kinds;
mod ladder;
mod limits;
pub(crate) mod machine;
mod open;
mod plan;
mod pmu;
pub(crate) mod rights;
mod rings;
#[cfg(test)]
mod scenarios;
mod spec;
mod switches;

pub(crate) use capability::explain;
pub(crate) use generic::exclude;
pub(crate) use ladder::open_with_less;
pub use open::OpenError;
pub(crate) use open::{EventSet, OpenEvent, probe, raise_limits, try_open};
pub(crate) use plan::AUTO;
#[cfg(test)]
pub(crate) use rings::side_band_layout;
pub(crate) use rings::{DUMMY, ring_sizes, side_band_attr};
pub(crate) use spec::{Absent, BASE, EventSpec, Fault, base_attr, is_counted, is_fault, resolve};

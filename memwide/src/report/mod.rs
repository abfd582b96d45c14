//! Samples of a file summed up by keys, as `perf report` and `perf mem report` do.

mod filter;
mod interval;
mod keys;
mod names;
mod nodes;
mod render;
mod rows;
mod server;

pub(crate) use filter::Filter;
pub(crate) use keys::Key;
pub(crate) use nodes::Nodes;
pub(crate) use render::{completeness, table};
pub(crate) use rows::{Part, Rows};
pub(crate) use server::question;

/// What `overhead` is the share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimator {
    /// Σ weight, 0 counted as 1, as perf does.
    PerfWeight,
    /// Σ weight.
    Weight,
    /// Number of samples.
    Samples,
    /// Σ period.
    Period,
}

impl Estimator {
    /// All, in the order of the columns.
    pub(crate) const ALL: [Self; 4] = [Self::Samples, Self::Weight, Self::PerfWeight, Self::Period];

    /// Name on the command line and of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PerfWeight => "perf_weight",
            Self::Weight => "weight",
            Self::Samples => "samples",
            Self::Period => "period",
        }
    }

    /// From its name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

//! Samples of a file summed up by keys, as `perf report` and `perf mem report` do.

mod absorb;
mod calls;
mod filter;
mod hierarchy;
mod index;
mod keys;
mod measures;
mod names;
mod nodes;
mod order;
mod parts;
mod paths;
mod reader;
mod rows;
mod symbol_numbers;
mod tree;

pub use calls::{Children, ChildrenError, Function, Tree, Trees};
pub use filter::{Filter, FilterError};
pub use hierarchy::Level;
pub use keys::{Key, KeyError};
pub use measures::{Measures, Weights};
pub use nodes::Nodes;
pub use parts::Part;
pub use reader::{Shown, Value};
pub use rows::{Ready, Rows};
pub use tree::{Node, Order};

/// What `overhead` is the share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
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
    pub const ALL: [Self; 4] = [Self::Samples, Self::Weight, Self::PerfWeight, Self::Period];

    /// Name on the command line and of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfWeight => "perf_weight",
            Self::Weight => "weight",
            Self::Samples => "samples",
            Self::Period => "period",
        }
    }

    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

//! Arguments of the commands that ask a server about a fleet.

use super::{FilterArgs, Format, ServerArgs};
use clap::Args;

/// How to read an answer about NUMA.
const ABOUT_NUMA: &str = "Shares are of all remote samples of the same tier, event and basis (hw: the hardware says so; page: the page lies on \
                          another node than the CPU), with a 95 % interval over hosts and hours where there are enough of them. Mean latencies \
                          are of one kind each and never mixed. A gain is an upper bound: the part of the function's sampled latency that would \
                          go away if remote accesses took as long as local ones of the same level; it is no CPU time. Nodes of pages need \
                          physical addresses; parts are of the first 20 rows. --format json has all numbers behind each advice.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_NUMA)]
pub(crate) struct NumaArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Order by: samples, weight, est_events, latency_cycles [default: samples]
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

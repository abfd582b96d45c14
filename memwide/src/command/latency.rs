//! `memwide latency`: how long the accesses of a fleet take.

use super::parts::{Part, ask, column, wide};
use crate::cli::LatencyArgs;
use crate::failure::Failure;

const PARTS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("measured", "samples"),
        column("mean", ""),
        column("p50", ""),
        column("p90", ""),
        column("p99", ""),
        wide("p999", ""),
        wide("most", ""),
        wide("latency_kind", "latency"),
        column("level", ""),
        column("outcome", ""),
        column("locality", ""),
        column("op", ""),
        column("snoop", ""),
        column("tlb", ""),
        column("region", ""),
        column("data_symbol", "data"),
        column("context", ""),
        column("host", ""),
        column("pod", ""),
        column("comm", ""),
        column("function", ""),
        wide("module", ""),
        wide("event", ""),
    ],
    says: None,
}];

pub(crate) fn run(args: &LatencyArgs) -> Result<(), Failure> {
    let by = [("by", args.by.clone())];
    ask(
        &args.server,
        "latency",
        &args.filter,
        &by,
        PARTS,
        args.format,
    )
}

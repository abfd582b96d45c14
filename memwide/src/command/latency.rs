//! `memwide latency`: how long the accesses of a fleet take.

use super::parts::{Part, ask, column, key, wide};
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
        key("latency_kind", "latency"),
        key("level", ""),
        key("outcome", ""),
        key("locality", ""),
        key("locality_basis", "by"),
        key("op", ""),
        key("snoop", ""),
        key("tlb", ""),
        key("region", ""),
        column("data_symbol", "data"),
        key("data_module", "in"),
        key("context", ""),
        key("host", ""),
        key("namespace", ""),
        key("pod", ""),
        key("container", ""),
        key("service", ""),
        key("comm", ""),
        column("function", ""),
        key("module", ""),
        key("tier", ""),
        key("event", ""),
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

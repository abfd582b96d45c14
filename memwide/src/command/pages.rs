//! `memwide pages`: pages of a fleet by where they are used from.

use super::parts::{Part, ask, column, key, wide};
use crate::cli::AskArgs;
use crate::failure::Failure;

const PARTS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("remote_samples", "remote"),
        wide("samples", ""),
        wide("mean_latency", "mean"),
        column("page_nodes", "lies"),
        column("cpu_nodes", "used"),
        column("verdict", ""),
        column("page", ""),
        wide("page_bytes", "size"),
        key("host", ""),
        key("pid", ""),
        wide("comm", ""),
        wide("region", ""),
        column("data_symbol", "data"),
        key("latency_kind", "latency"),
        key("event", ""),
    ],
    says: None,
}];

pub(crate) fn run(args: &AskArgs) -> Result<(), Failure> {
    ask(&args.server, "pages", &args.filter, &[], PARTS, args.format)
}

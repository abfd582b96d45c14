//! `memwide data`: which data of a fleet is slow.

use super::parts::{Part, ask, column, key, wide};
use crate::cli::DataArgs;
use crate::failure::Failure;

const PARTS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("samples", ""),
        column("share", ""),
        column("remote_samples", "remote"),
        column("mean_latency", "mean"),
        key("latency_kind", "latency"),
        wide("loads", ""),
        wide("stores", ""),
        wide("pages", ""),
        wide("hosts", ""),
        key("region", ""),
        column("data_symbol", "data"),
        key("data_module", "in"),
        column("function", ""),
        key("module", ""),
        key("event", ""),
    ],
    says: None,
}];

pub(crate) fn run(args: &DataArgs) -> Result<(), Failure> {
    let per_function = args.per_function.then(|| "true".to_owned());
    let further = [("by", args.by.clone()), ("per_function", per_function)];
    ask(
        &args.server,
        "data",
        &args.filter,
        &further,
        PARTS,
        args.format,
    )
}

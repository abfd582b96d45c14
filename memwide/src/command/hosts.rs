//! `memwide hosts`: who is seen, in which tier, how completely.

use super::parts::{Part, ask, column, wide};
use crate::cli::AskArgs;
use crate::failure::Failure;

const PARTS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("host", ""),
        column("silent_seconds", "silent"),
        wide("last_seen", "last seen"),
        column("samples_stored", "stored"),
        column("completeness", "complete"),
        wide("resolved", "named"),
        column("lost", ""),
        wide("residue", ""),
        column("blind_seconds", "blind"),
        column("stopped_seconds", "stopped"),
        column("tiers", ""),
        wide("kind", ""),
        wide("cpu_model", "cpu"),
        wide("cpus", ""),
        wide("nodes", ""),
        wide("os_release", "kernel"),
        wide("virtualization", "virtual"),
    ],
    says: None,
}];

pub(crate) fn run(args: &AskArgs) -> Result<(), Failure> {
    ask(&args.server, "hosts", &args.filter, &[], PARTS, args.format)
}

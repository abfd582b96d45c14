//! `memwide numa`: which functions reach over to other nodes, and what to do about it.

use super::parts::{Part, ask, column, wide};
use crate::cli::NumaArgs;
use crate::failure::Failure;

const PARTS: &[Part] = &[
    Part {
        name: "",
        title: "Functions by remote NUMA",
        columns: &[
            column("samples", "remote"),
            column("share", ""),
            column("share_low", "low"),
            column("share_high", "high"),
            column("remote_ratio", "of all"),
            column("mean_remote_latency", "remote"),
            column("mean_local_latency", "local"),
            column("hosts", ""),
            wide("est_events", ""),
            wide("ci_basis", ""),
            wide("latency_kind", "latency"),
            wide("locality_basis", "by"),
            column("function", ""),
            wide("module", ""),
            wide("event", ""),
        ],
    },
    Part {
        name: "advice",
        title: "Advice, each with what it rests on",
        columns: &[
            column("function", ""),
            wide("event", ""),
            column("advice", ""),
            column("gain_at_most", "gain <="),
            column("because", ""),
            wide("gain_basis", ""),
        ],
    },
    Part {
        name: "nodes",
        title: "From the node of the CPU to the node of the page",
        columns: &[
            column("cpu_node", "cpu on"),
            column("page_node", "page on"),
            column("samples", ""),
            column("remote_samples", "remote"),
            column("mean_latency", "mean"),
            column("stall_cycles", "stalled"),
            column("function", ""),
            wide("event", ""),
        ],
    },
    Part {
        name: "latency",
        title: "Latency by level",
        columns: &[
            column("level", ""),
            column("outcome", ""),
            column("locality", ""),
            column("samples", ""),
            column("mean_latency", "mean"),
            wide("latency_kind", "kind"),
            column("function", ""),
            wide("event", ""),
        ],
    },
    Part {
        name: "data",
        title: "Data behind remote accesses",
        columns: &[
            column("samples", "remote"),
            column("share", ""),
            column("pages", ""),
            wide("stores_of_all", "stores"),
            column("region", ""),
            column("data_symbol", "data"),
            wide("data_module", "in"),
            column("function", ""),
            wide("event", ""),
        ],
    },
    Part {
        name: "places",
        title: "Hosts and pods",
        columns: &[
            column("samples", "remote"),
            column("share", ""),
            column("remote_ratio", "of all"),
            column("host", ""),
            wide("namespace", ""),
            column("pod", ""),
            column("function", ""),
            wide("event", ""),
        ],
    },
];

pub(crate) fn run(args: &NumaArgs) -> Result<(), Failure> {
    let by = [("by", args.by.clone())];
    ask(&args.server, "numa", &args.filter, &by, PARTS, args.format)
}

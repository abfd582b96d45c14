//! Commands on files, asked of a server: the same tables, and JSON whose rows are objects as those of a file.

use super::parts::{Part, ask_as_file, column, key, wide};
use crate::cli::{FileArgs, FilterArgs, Format, ServerArgs, SymbolArgs};
use crate::failure::Failure;

const FAULTS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("faults", ""),
        column("share", ""),
        wide("samples", ""),
        column("kind", ""),
        column("region", "memory"),
        wide("pages", ""),
        column("hosts", ""),
        column("function", ""),
        key("module", "object"),
        key("event", ""),
    ],
    says: None,
}];

const ALLOCS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("calls", ""),
        column("share", ""),
        key("kind", ""),
        wide("samples", ""),
        wide("processes", ""),
        column("hosts", ""),
        key("comm", ""),
        column("function", ""),
        key("module", "object"),
        wide("kernel", "in the kernel"),
        wide("event", ""),
    ],
    says: None,
}];

const OFFCPU: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("off_seconds", "off"),
        column("share", ""),
        column("spells", ""),
        column("mean", ""),
        wide("most", ""),
        wide("open", ""),
        wide("threads", ""),
        wide("hosts", ""),
        wide("estimator", ""),
        key("comm", ""),
        column("waits_in", "waits in"),
        column("function", ""),
        key("module", "object"),
    ],
    says: None,
}];

const KERNEL: &[Part] = &[
    Part {
        name: "",
        title: "",
        columns: &[
            column("group", "for whom"),
            column("context", ""),
            column("samples", ""),
            column("share", ""),
            wide("loads", ""),
            wide("stores", ""),
            column("hosts", ""),
            key("event", ""),
        ],
        says: None,
    },
    Part {
        name: "functions",
        title: "Kernel functions by context",
        columns: &[
            column("samples", ""),
            column("context", ""),
            column("function", "kernel function"),
            key("module", ""),
            key("event", ""),
        ],
        says: None,
    },
];

const LINES: &[Part] = &[
    Part {
        name: "",
        title: "Shared cache lines",
        columns: &[
            column("contended", ""),
            column("hitm", ""),
            wide("rmt_hitm", "rmt hitm"),
            column("stores", ""),
            wide("threads", ""),
            wide("writers", ""),
            column("hosts", ""),
            column("verdict", ""),
            column("address", ""),
            column("data_symbol", "data"),
            key("data_module", "in"),
            wide("line_id", "line"),
        ],
        says: None,
    },
    Part {
        name: "accesses",
        title: "Who accesses them",
        columns: &[
            column("line_id", "line"),
            column("offset", ""),
            column("contended", ""),
            column("loads", ""),
            column("stores", ""),
            wide("threads", ""),
            wide("cpus", ""),
            wide("mean_latency", "mean"),
            column("function", ""),
            key("module", ""),
        ],
        says: None,
    },
];

const ANNOTATE: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("share", ""),
        column("samples", ""),
        column("mean_latency", "mean"),
        column("offset", ""),
        wide("address", ""),
        wide("remote_samples", "remote"),
        wide("hosts", ""),
        column("function", ""),
        key("module", ""),
        wide("source_file", "source"),
        wide("source_line", "line"),
        key("event", ""),
    ],
    says: None,
}];

const DIFF: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("share_before", "before"),
        column("share_after", "after"),
        wide("share_of", "of"),
        column("change", ""),
        wide("change_low", "low"),
        wide("change_high", "high"),
        column("changed", ""),
        wide("p_value", "p"),
        key("ci_basis", ""),
        column("function", ""),
        key("module", ""),
        key("tier", ""),
        key("event", ""),
    ],
    says: None,
}];

const RSS: &[Part] = &[Part {
    name: "",
    title: "",
    columns: &[
        column("metric", ""),
        column("last", ""),
        wide("least", ""),
        wide("most", ""),
        column("rate", ""),
        column("unit", ""),
        key("host", ""),
        column("pod", ""),
        column("pid", ""),
        column("comm", ""),
    ],
    says: None,
}];

/// Answers a command by a server if one is given; `None`: read the file.
pub(super) fn answered(question: &str, file: &FileArgs) -> Option<Result<(), Failure>> {
    let (server, filter) = file.asked()?;
    Some(
        no_places(&file.samples.symbols)
            .and_then(|()| asked(&server, question, &filter, &[], file.rows.format)),
    )
}

/// A server does not look at this machine's files.
pub(super) fn no_places(symbols: &SymbolArgs) -> Result<(), Failure> {
    let given = [
        ("--symfs", &symbols.symfs),
        ("--kallsyms", &symbols.kallsyms),
        ("--vmlinux", &symbols.vmlinux),
    ];
    match given.iter().find(|(_, path)| path.is_some()) {
        Some((option, _)) => Err(Failure::usage(anyhow::anyhow!(
            "{option} says where names of a file are looked for; a server has its own, `memwide symbols add` brings it more"
        ))),
        None => Ok(()),
    }
}

/// Asks a question in the way of the command on files that answers it.
pub(super) fn asked(
    server: &ServerArgs,
    question: &str,
    filter: &FilterArgs,
    further: &[(&str, Option<String>)],
    format: Format,
) -> Result<(), Failure> {
    let parts = match question {
        "allocs" => ALLOCS,
        "faults" => FAULTS,
        "offcpu" => OFFCPU,
        "kernel" => KERNEL,
        "lines" => LINES,
        "annotate" => ANNOTATE,
        "diff" => DIFF,
        "rss" => RSS,
        _ => &[],
    };
    ask_as_file(server, question, filter, further, parts, format)
}

//! `memwide numa`: which functions reach over to other nodes, and what to do about it.

use super::parts::{Part, ask, column, key, wide};
use crate::cli::NumaArgs;
use crate::failure::Failure;
use serde_json::Value;

const PARTS: &[Part] = &[
    Part {
        name: "",
        title: "Functions by remote NUMA",
        columns: &[
            column("samples", "remote"),
            column("share", ""),
            column("share_low", "low"),
            column("share_high", "high"),
            wide("share_of", "of"),
            wide("remote_ratio", "of all"),
            column("mean_remote_latency", "remote"),
            column("mean_local_latency", "local"),
            wide("hosts", ""),
            wide("est_events", ""),
            wide("est_unit", "unit"),
            wide("ci_basis", ""),
            key("latency_kind", "latency"),
            key("locality_basis", "by"),
            column("function", ""),
            key("module", ""),
            key("event", ""),
        ],
        says: None,
    },
    Part {
        name: "advice",
        title: "Advice, each with what it rests on",
        columns: &[],
        says: Some(advice),
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
            key("event", ""),
        ],
        says: None,
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
            key("latency_kind", "kind"),
            column("function", ""),
            key("event", ""),
        ],
        says: None,
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
            key("data_module", "in"),
            column("function", ""),
            key("event", ""),
        ],
        says: None,
    },
    Part {
        name: "places",
        title: "Hosts and pods",
        columns: &[
            column("samples", "remote"),
            column("share", ""),
            column("remote_ratio", "of all"),
            column("host", ""),
            key("namespace", ""),
            column("pod", ""),
            column("function", ""),
            key("event", ""),
        ],
        says: None,
    },
];

pub(crate) fn run(args: &NumaArgs) -> Result<(), Failure> {
    let by = [("by", args.by.clone())];
    ask(&args.server, "numa", &args.filter, &by, PARTS, args.format)
}

/// What can be done, in sentences; of the others only how many there are.
fn advice(rows: &[Value]) -> Vec<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let is_some = |row: &&Value| row["advice"] != "none";
    let mut lines: Vec<String> = rows
        .iter()
        .filter(is_some)
        .map(|row| {
            let gain = row["gain_at_most"].as_f64().map_or_else(
                || "gain not known".to_owned(),
                |gain| {
                    format!(
                        "at most {:.1} % of its sampled latency ({})",
                        100.0 * gain,
                        text(row, "latency_kind")
                    )
                },
            );
            format!(
                "{} ({}): {}: {}. {gain}: {}.",
                text(row, "function"),
                text(row, "event"),
                text(row, "advice"),
                text(row, "because"),
                text(row, "gain_basis")
            )
        })
        .collect();
    let none = rows.len() - lines.len();
    if none > 0 {
        lines.push(format!(
            "No advice for {none} functions and events: too few samples, or no single cause; --format json says why of each."
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::advice;
    use serde_json::json;

    #[test]
    fn advice_is_said_with_its_numbers_and_its_absence_counted() {
        let rows = [
            json!({"function": "f", "event": "loads", "advice": "bind", "because": "40 of 40: bind", "gain_at_most": 0.25,
                   "latency_kind": "use", "gain_basis": "40 against 50"}),
            json!({"function": "g", "event": "loads", "advice": "none", "because": "5 samples", "gain_at_most": null}),
            json!({"function": "h", "event": "loads", "advice": "interleave", "because": "w", "gain_at_most": null, "gain_basis": "b"}),
        ];
        assert_eq!(
            advice(&rows),
            [
                "f (loads): bind: 40 of 40: bind. at most 25.0 % of its sampled latency (use): 40 against 50.",
                "h (loads): interleave: w. gain not known: b.",
                "No advice for 1 functions and events: too few samples, or no single cause; --format json says why of each.",
            ]
        );
    }
}

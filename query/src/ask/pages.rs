//! Which pages are used from where, and which lie on the wrong node.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples::{self, NODES, hexadecimal};
use super::table::Source;
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Fewer samples than this say nothing of who uses a page.
const SAMPLES_MIN: u64 = 2;

/// The question `pages`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pages {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Pages {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let with = [
            "host",
            "pid",
            "page",
            "page_bytes",
            "tier",
            "event",
            "latency_kind",
            "region",
            "data_symbol",
            "data_module",
        ];
        let states = [
            ("cpus", "groupUniqArray(s.cpu)"),
            (
                "page_nodes",
                "groupUniqArrayIf(s.page_node, s.page_node != 255)",
            ),
            ("comms", "any(s.comm)"),
            samples::REMOTE,
            samples::LOCAL,
            samples::STORES,
            samples::MEASURED,
        ];
        let source = Source::sampled(&mut statement, filter, &with, &states)
            .wrapped(
                "s.*, arraySort(arrayDistinct(arrayMap(cpu -> if(length(n.cpu_nodes) > cpu, n.cpu_nodes[cpu + 1], 65535), s.cpus))) \
                 AS cpu_nodes",
                &format!("LEFT JOIN ({NODES}) AS n ON n.node_host = s.host"),
            )
            .only("s.page != 0");
        let list = |of: &str| {
            format!(
                "arrayStringConcat(arrayMap(node -> if(node = 65535, '?', toString(node)), arraySort(groupUniqArrayArray({of}))), ' ')"
            )
        };
        let text = |name, expression: String| Output::key_of(name, expression);
        let aggregate = |name, expression: String| Output::sum(Column::text(name), expression);
        let mut outputs: Vec<Output> = ["host", "tier", "event", "latency_kind"]
            .iter()
            .map(|key| Output::key(key))
            .collect();
        outputs.extend([
            text("pid", "toString(s.pid)".to_owned()),
            text("page", hexadecimal("s.page")),
            Output {
                column: Column::number("page_bytes", "bytes"),
                ..text("page_bytes", "s.page_bytes".to_owned())
            },
            aggregate("comm", "any(s.comms)".to_owned()),
            aggregate("region", "any(s.region)".to_owned()),
            aggregate("data_symbol", "any(s.data_symbol)".to_owned()),
            aggregate("data_module", "any(s.data_module)".to_owned()),
            aggregate("page_nodes", list("s.page_nodes")),
            aggregate("cpu_nodes", list("s.cpu_nodes")),
            Output::samples(&source),
            Output::count("remote_samples", "sum(s.n_remote)"),
            Output::count("local_samples", "sum(s.n_local)"),
            Output::count("stores", "sum(s.n_stores)"),
            Output::mean_latency(&source),
            Output::weigh("est_events", source.est_events()),
        ]);
        let shape = Grouped {
            order: "remote_samples",
            partition: &["tier", "event"],
            having: "",
        };
        shape.of_samples(filter, statement, &source, &outputs)
    }

    /// Says of each page whether it lies where it is used.
    fn conclude(&self, answer: &mut Answer) {
        let places = ["page_nodes", "cpu_nodes", "samples"].map(|name| answer.column(name));
        let [Some(lies), Some(used), Some(samples)] = places else {
            return;
        };
        for row in &mut answer.rows {
            let verdict = match (row.get(lies), row.get(used), row.get(samples)) {
                (Some(Value::Text(lies)), Some(Value::Text(used)), Some(Value::Number(n))) => {
                    verdict(lies, used, *n)
                }
                _ => "cannot tell",
            };
            row.push(Value::Text(verdict.to_owned()));
        }
        answer.columns.push(Column::text("verdict"));
        answer.notes.push(format!("rows are pages of a process and event, most remote samples first; `wrong node`: {SAMPLES_MIN} samples or more, all from CPUs of one node, and the page was always on another; node `?` is not known (no physical address, or no facts of the host)"));
    }
}

fn verdict(lies: &str, used: &str, samples: u64) -> &'static str {
    let known = !lies.is_empty() && !used.is_empty() && !used.contains('?');
    let several = |nodes: &str| nodes.contains(' ');
    if !known || samples < SAMPLES_MIN {
        "cannot tell"
    } else if several(lies) {
        "moved"
    } else if several(used) {
        "shared by nodes"
    } else if lies == used {
        "where it is used"
    } else {
        "wrong node"
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_page_is_on_the_wrong_node_only_where_that_is_known() {
        for (lies, used, samples, says) in [
            ("1", "0", 2, "wrong node"),
            ("1", "0", 1, "cannot tell"),
            ("1", "0 ?", 9, "cannot tell"),
            ("", "0", 9, "cannot tell"),
            ("0", "0", 9, "where it is used"),
            ("0", "0 1", 9, "shared by nodes"),
            ("0 1", "1", 9, "moved"),
        ] {
            assert_eq!(
                verdict(lies, used, samples),
                says,
                "{lies} {used} {samples}"
            );
        }
    }
}

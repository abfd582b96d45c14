//! Trees of calls below the rows of a report.

use crate::cli::{CallOrder, Format, ReportArgs};
use crate::failure::Failure;
use crate::output::grouped;
use memwide_analysis::report::{
    Function, Key, Node, Order, Ready, Rows, Tree, Trees, Value as Text,
};
use serde_json::{Map, Value, json};

/// What of callchains is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    /// The tree below each row.
    tree: Option<Order>,
    /// What functions and all they called add up to.
    pub(crate) children: bool,
    /// Share of the event's sum below which branches are cut.
    least: f64,
    /// Functions that were inlined have nodes of their own.
    inlined: bool,
}

impl Calls {
    /// From the command line.
    pub(crate) fn of(args: &ReportArgs, keys: &[Key]) -> Result<Self, Failure> {
        let calls = &args.calls;
        if calls.children {
            Rows::check_children(keys).map_err(Failure::usage)?;
        }
        if calls.call_graph.is_some() && args.format == Format::Csv {
            let wrong = anyhow::anyhow!(
                "--call-graph has no rows for --format csv; take --format json, or `memwide flamegraph --folded`"
            );
            return Err(Failure::usage(wrong));
        }
        if !(0.0..=100.0).contains(&calls.percent_limit) {
            let wrong = anyhow::anyhow!(
                "--percent-limit {} is no percentage; it is 0 to 100",
                calls.percent_limit
            );
            return Err(Failure::usage(wrong));
        }
        Ok(Self {
            tree: calls.call_graph.map(|order| match order {
                CallOrder::Callee => Order::Callee,
                CallOrder::Caller => Order::Caller,
            }),
            children: calls.children,
            least: calls.percent_limit / 100.0,
            inlined: !calls.no_inline,
        })
    }

    /// Whether callchains must be kept.
    pub(crate) fn are_wanted(self) -> bool {
        self.tree.is_some() || self.children
    }

    /// Whether functions that were inlined are looked for: in trees only.
    pub(crate) fn with_inlined(self) -> bool {
        self.inlined && self.tree.is_some()
    }

    /// The trees asked for.
    pub(super) fn trees(self, rows: &Rows) -> Option<Trees<'_>> {
        rows.trees(self.tree?, self.least)
    }

    /// What a reader of trees must know.
    pub(super) fn note(self) -> Option<String> {
        let way = match self.tree? {
            Order::Callee => "below each row the callers of its function",
            Order::Caller => "below each row its calls from the outermost function down",
        };
        Some(format!(
            "{way}; branches below {} % of the event's sum are cut",
            100.0 * self.least
        ))
    }

    fn name_of_children(self) -> &'static str {
        match self.tree {
            Some(Order::Caller) => "callees",
            _ => "callers",
        }
    }

    /// Adds the tree of a row to its document.
    pub(super) fn insert(
        self,
        into: &mut Map<String, Value>,
        trees: &Trees<'_>,
        row: &Ready<'_>,
        whole: f64,
    ) {
        let tree = trees.of(row);
        let name = self.name_of_children();
        into.insert(name.to_owned(), json_nodes(&tree.nodes, name, whole));
        into.insert(format!("{name}_cut"), json_cut(tree.cut, whole));
        into.insert(
            "without_callchain".to_owned(),
            json!({"samples": tree.without.0, "value": tree.without.1}),
        );
    }
}

fn share(value: f64, whole: f64) -> Value {
    if whole > 0.0 {
        (value / whole).into()
    } else {
        Value::Null
    }
}

fn json_cut((branches, samples, value): (u64, u64, f64), whole: f64) -> Value {
    json!({"branches": branches, "samples": samples, "value": value, "overhead": share(value, whole)})
}

fn json_nodes(nodes: &[Node<Function<'_>>], name: &str, whole: f64) -> Value {
    let node = |node: &Node<Function<'_>>| {
        json!({
            "symbol": text(&node.frame.symbol.value),
            "symbol_mode": node.frame.symbol.mode.to_string(),
            "dso": text(&node.frame.dso.value),
            "samples": node.samples,
            "value": node.value,
            "overhead": share(node.value, whole),
            name: json_nodes(&node.children, name, whole),
            format!("{name}_cut"): json_cut(node.cut, whole),
        })
    };
    nodes.iter().map(node).collect::<Vec<_>>().into()
}

fn text<'a>(value: &'a Text<'_>) -> &'a str {
    match value {
        Text::Text(text) => text,
        _ => "",
    }
}

/// One line of a tree for people.
#[derive(Debug)]
pub(super) struct Line {
    /// Share within the event.
    pub(super) overhead: Value,
    /// Samples.
    pub(super) samples: u64,
    /// The function, indented.
    pub(super) text: String,
}

/// The tree as lines. A chain of single calls stays at one depth, as in perf.
pub(super) fn lines(tree: &Tree<'_>, whole: f64) -> Vec<Line> {
    let mut all = Vec::new();
    let is_whole = tree.cut.0 == 0 && tree.without.0 == 0 && tree.nodes.len() == 1;
    add_lines(&mut all, &tree.nodes, tree.cut, (1, is_whole), whole);
    if tree.without.0 > 0 {
        all.push(Line {
            overhead: share(tree.without.1, whole),
            samples: tree.without.0,
            text: "  without callchain".to_owned(),
        });
    }
    all
}

fn add_lines(
    all: &mut Vec<Line>,
    nodes: &[Node<Function<'_>>],
    cut: (u64, u64, f64),
    (depth, is_single): (usize, bool),
    whole: f64,
) {
    let indent = "  ".repeat(depth);
    for node in nodes {
        let mark = if is_single { "│" } else { "└" };
        all.push(Line {
            overhead: share(node.value, whole),
            samples: node.samples,
            text: format!(
                "{indent}{mark} [{}] {}",
                node.frame.symbol.mode,
                text(&node.frame.symbol.value)
            ),
        });
        let child_samples: u64 = node.children.iter().map(|child| child.samples).sum();
        let single = node.children.len() == 1 && child_samples == node.samples;
        let below = if single { depth } else { depth + 1 };
        add_lines(all, &node.children, node.cut, (below, single), whole);
    }
    let (branches, samples, value) = cut;
    if branches > 0 {
        all.push(Line {
            overhead: share(value, whole),
            samples,
            text: format!("{indent}└ smaller branches: {}", grouped(branches)),
        });
    }
}

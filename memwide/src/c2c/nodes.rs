//! The nodes that a site was accessed from, as much of them as was asked for.

use super::Answer;
use memwide_analysis::sharing::{Counter, Counts, Display, SiteRow};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is said of nodes, as `perf c2c report -N` steps through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeInfo {
    /// Their numbers.
    Ids,
    /// How many CPUs of each, and their shares.
    Shares,
    /// The CPUs of each.
    Cpus,
}

impl NodeInfo {
    /// By how often it was asked for; more than all is all, as with perf.
    pub(crate) fn of_level(level: u8) -> Self {
        match level {
            0 => Self::Ids,
            1 => Self::Shares,
            _ => Self::Cpus,
        }
    }

    /// Heading of the column.
    pub(super) fn heading(self, display: Display) -> &'static str {
        match self {
            Self::Ids => "node",
            Self::Shares if display == Display::Peer => "node{cpus %peers %stores}",
            Self::Shares => "node{cpus %hitms %stores}",
            Self::Cpus => "node{cpu list}",
        }
    }
}

/// CPUs of a node that accessed a site, and what they did.
#[derive(Debug, Default)]
struct OfNode {
    cpus: Vec<u32>,
    counts: Counts,
}

fn by_node(answer: &Answer<'_>, site: &SiteRow<'_>) -> BTreeMap<u64, OfNode> {
    let mut found: BTreeMap<u64, OfNode> = BTreeMap::new();
    for cpu in site.cpus.members() {
        if let Some(node) = answer.nodes.node(*cpu) {
            let of = found.entry(node).or_default();
            of.cpus.push(*cpu);
            of.counts
                .merge(&site.by_cpu.get(cpu).copied().unwrap_or_default());
        }
    }
    found
}

/// Nodes of the CPUs, as far as they are known.
pub(super) fn cpu_nodes(answer: &Answer<'_>, site: &SiteRow<'_>) -> Vec<u64> {
    by_node(answer, site).into_keys().collect()
}

/// A site's part of what is displayed and of its stores that a node has.
fn shares(answer: &Answer<'_>, site: &SiteRow<'_>, of: &OfNode) -> [Option<f64>; 2] {
    [answer.display.counter(), Counter::Store].map(|counter| {
        let whole = site.counts.get(counter);
        (whole > 0).then(|| of.counts.get(counter) as f64 / whole as f64)
    })
}

/// The cell of a table.
pub(super) fn cell(answer: &Answer<'_>, site: &SiteRow<'_>) -> String {
    let nodes = by_node(answer, site);
    let text = |(node, of): (&u64, &OfNode)| match answer.node_info {
        NodeInfo::Ids => node.to_string(),
        NodeInfo::Shares => {
            let percent = |share: Option<f64>| {
                share.map_or_else(
                    || "n/a".to_owned(),
                    |share| format!("{:.1}%", 100.0 * share),
                )
            };
            let [displayed, stores] = shares(answer, site, of).map(percent);
            format!("{node}{{{} {displayed} {stores}}}", of.cpus.len())
        }
        NodeInfo::Cpus => format!("{node}{{{}}}", list(&of.cpus)),
    };
    let all: Vec<String> = nodes.iter().map(text).collect();
    let between = if answer.node_info == NodeInfo::Ids {
        ","
    } else {
        " "
    };
    all.join(between)
}

/// The same for programs; nothing where it was not asked for.
pub(super) fn json(answer: &Answer<'_>, site: &SiteRow<'_>) -> Value {
    if answer.node_info == NodeInfo::Ids {
        return Value::Null;
    }
    let nodes = by_node(answer, site);
    let all = nodes.iter().map(|(node, of)| {
        let [displayed, stores] = shares(answer, site, of);
        json!({"node": node, "cpus": of.cpus, "share": displayed, "share_of_stores": stores})
    });
    Value::Array(all.collect())
}

/// Ascending numbers as lists of CPUs are written: `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

/// What to know of nodes that are not there.
pub(super) fn note(answer: &Answer<'_>) -> Option<String> {
    let is_missing = answer.node_info != NodeInfo::Ids && answer.nodes.is_empty();
    is_missing.then(|| {
        "the file does not say which CPUs belong to which node (its header has no NUMA topology): the column of nodes is empty"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        for (cpus, text) in [
            (&[][..], ""),
            (&[5], "5"),
            (&[0, 1], "0-1"),
            (&[0, 1, 2, 8, 10, 11], "0-2,8,10-11"),
        ] {
            assert_eq!(list(cpus), text);
        }
    }
}

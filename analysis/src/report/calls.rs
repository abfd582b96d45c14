//! What callchains add to rows: the tree of calls below each, and what each function's calls cost in all (`children`).

use super::keys::Key;
use super::paths::{NO_PATH, Paths, Share};
use super::reader::{First, Frame, Shown};
use super::rows::{Ready, Rows};
use super::tree::{Node, Order, Way, grow};
use std::collections::BTreeSet;

/// Keys that tell rows apart by what is the same all along a callchain, or by a function in it.
const OF_CALLERS: [Key; 8] = [
    Key::Symbol,
    Key::Dso,
    Key::Comm,
    Key::Pid,
    Key::Tid,
    Key::Cpu,
    Key::Node,
    Key::Event,
];

/// What a row's function and all it called add up to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Children {
    /// Samples with the function anywhere in their callchain; each counts once.
    pub samples: u64,
    /// Their sum of the estimator.
    pub value: f64,
    /// The share of that within the event.
    pub share: Option<f64>,
}

/// Rows cannot have `children` with this key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--children does not go with --sort {key}: callers share with the sample only symbol, dso, comm, pid, tid, cpu, node, event"
)]
pub struct ChildrenError {
    /// The key.
    pub key: &'static str,
}

/// Trees of all rows.
#[derive(Debug)]
pub struct Trees<'a> {
    rows: &'a Rows,
    paths: &'a Paths,
    /// Sorted by row.
    shares: Vec<Share>,
    order: Order,
    /// Branches below this share of the event's sum are cut.
    least: f64,
}

/// The tree of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree<'a> {
    /// Largest first.
    pub nodes: Vec<Node<Function<'a>>>,
    /// Branches too small to be shown: number, samples, sum of the estimator.
    pub cut: (u64, u64, f64),
    /// Samples without a callchain, or with one that is not kept, and their sum.
    pub without: (u64, f64),
}

/// A function in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    /// Name, or address without one.
    pub symbol: Shown<'a>,
    /// File it is in.
    pub dso: Shown<'a>,
}

impl Rows {
    /// Whether `children` can be told with these keys.
    pub fn check_children(keys: &[Key]) -> Result<(), ChildrenError> {
        match keys.iter().find(|key| !OF_CALLERS.contains(key)) {
            Some(key) => Err(ChildrenError { key: key.name() }),
            None => Ok(()),
        }
    }

    /// Counts for each function what it and all it called add up to; functions that only call get rows of their own. To be
    /// called after [`Rows::settle`].
    pub fn count_children(&mut self) {
        let Some(paths) = self.take_paths() else {
            return;
        };
        let mut children = vec![Children::default(); self.len()];
        let mut functions = BTreeSet::new();
        for share in paths.shares() {
            let add = |children: &mut Vec<Children>, row: usize| {
                if children.len() <= row {
                    children.resize(row + 1, Children::default());
                }
                if let Some(sum) = children.get_mut(row) {
                    sum.samples += share.samples;
                    sum.value += share.value;
                }
            };
            functions.clear();
            functions.extend(paths.frames_of(share.path).into_iter().flatten());
            if functions.is_empty() {
                add(&mut children, share.row as usize);
            }
            let mut counted = BTreeSet::new();
            for function in &functions {
                let row = self.row_of_caller(share.row, *function);
                // With --sort dso several functions are one row: it counts a sample once.
                if counted.insert(row) {
                    add(&mut children, row as usize);
                }
            }
        }
        children.resize(self.len(), Children::default());
        self.put_paths(paths, children);
    }

    /// The row that a sample of `row` would have in a function that called it.
    fn row_of_caller(&mut self, row: u32, function: Frame) -> u32 {
        let keys = self.keys().to_vec();
        let (event, mut numbers) = self.numbers_of(row);
        for (key, number) in keys.iter().zip(&mut numbers) {
            match key {
                Key::Symbol => *number = function.symbol,
                Key::Dso => *number = function.dso,
                _ => {}
            }
        }
        self.row_with(event, &numbers, First::default())
    }

    /// The trees below the rows; `least` is the share of the event's sum below which a branch is cut. Without callchains none.
    pub fn trees(&self, order: Order, least: f64) -> Option<Trees<'_>> {
        let paths = self.paths()?;
        let mut shares = paths.shares().to_vec();
        shares.sort_by_key(|share| share.row);
        Some(Trees {
            rows: self,
            paths,
            shares,
            order,
            least,
        })
    }
}

impl<'a> Trees<'a> {
    /// The tree of a row.
    pub fn of(&self, row: &Ready<'_>) -> Tree<'a> {
        let number = u32::try_from(row.number).unwrap_or(u32::MAX);
        let from = self.shares.partition_point(|share| share.row < number);
        let shares = self.shares.get(from..).unwrap_or_default();
        let shares = shares.iter().take_while(|share| share.row == number);
        // The row's own function is not repeated below it.
        let leaf_is_row = self.rows.keys().contains(&Key::Symbol);
        let (mut ways, mut without): (Vec<Way>, _) = (Vec::new(), (0, 0.0));
        for share in shares {
            if share.path == NO_PATH {
                without = (without.0 + share.samples, without.1 + share.value);
                continue;
            }
            let mut frames = self.paths.frames_of(share.path).concat();
            match self.order {
                // … but stands between what was inlined into it and its callers.
                Order::Callee
                    if leaf_is_row
                        && !frames
                            .first()
                            .is_some_and(|f| self.rows.reader().is_inlined(*f)) =>
                {
                    frames.remove(0);
                }
                Order::Callee => {}
                Order::Caller => frames.reverse(),
            }
            ways.push((frames, share.samples, share.value));
        }
        ways.sort_by(|one, other| one.0.cmp(&other.0));
        let (nodes, cut) = grow(&ways, 0, self.least * self.rows.sum(row.event));
        Tree {
            nodes: nodes.into_iter().map(|node| self.shown(node)).collect(),
            cut,
            without,
        }
    }

    fn shown(&self, node: Node<Frame>) -> Node<Function<'a>> {
        let children = node.children.into_iter();
        Node {
            frame: Function {
                symbol: self.rows.shown(Key::Symbol, node.frame.symbol),
                dso: self.rows.shown(Key::Dso, node.frame.dso),
            },
            samples: node.samples,
            value: node.value,
            children: children.map(|child| self.shown(child)).collect(),
            cut: node.cut,
        }
    }
}

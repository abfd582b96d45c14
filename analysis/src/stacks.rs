//! Which call paths do samples come from, and how much of an estimator falls on each?
//!
//! [`Stacks`] is a tree of frames, outermost first. Values are whole numbers of one unit; a caller who mixes events puts the
//! event's name first, so that no sum crosses it.

use memwide_decoder::Mode;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_decoder::{NameIx, Names};
use rustc_hash::FxHashMap;

/// Most nodes; what comes beyond is counted at the last frame that has a node. Some 200 MB.
const NODES_MAX: usize = 1 << 21;

/// Most frames of one stack; the innermost ones beyond are counted at the last one.
const DEPTH_MAX: usize = 1024;

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::COMM | Wanted::CODE | Wanted::FRAMES
}

/// What a frame is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// No code: an event, a task.
    Label,
    /// The kernel or one of its modules.
    Kernel,
    /// A program or library.
    User,
    /// Code without a name.
    Unknown,
}

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Function, `[object]` where no symbol covers the address, `[unknown]` where nothing is mapped.
    pub name: String,
    /// What it is of.
    pub origin: Origin,
}

impl Frame {
    /// A frame that is no code.
    pub fn label(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            origin: Origin::Label,
        }
    }

    fn code(symbol: Option<&str>, dso: &str, kernel: bool) -> Self {
        let short = dso.rsplit('/').next().unwrap_or(dso);
        let (name, is_known) = match symbol {
            Some(symbol) => (symbol.to_owned(), true),
            None if short.starts_with('[') => (short.to_owned(), false),
            None => (format!("[{short}]"), false),
        };
        let origin = match (kernel, is_known) {
            (true, _) => Origin::Kernel,
            (false, true) => Origin::User,
            (false, false) => Origin::Unknown,
        };
        Self { name, origin }
    }
}

/// How a function is shown where it was inlined, as in perf.
pub fn inlined_name(function: &str) -> String {
    format!("{function} (inlined)")
}

/// The frames of a sample, outermost first, inlined functions among them where they were asked for: the task's name, its callchain, its own place where it has no chain.
pub fn frames(sample: &LocalSample<'_>, into: &mut Vec<Frame>) {
    into.clear();
    let chain = sample.inlined_callchain().map(|frame| {
        let kernel = frame.ip & KERNEL_BIT != 0;
        match frame.symbol {
            Some(symbol) if frame.inlined => {
                Frame::code(Some(&inlined_name(symbol)), frame.dso, kernel)
            }
            symbol => Frame::code(symbol, frame.dso, kernel),
        }
    });
    into.extend(chain.take(DEPTH_MAX));
    if into.is_empty() {
        let own = sample.code();
        into.push(Frame::code(
            own.symbol,
            own.dso,
            sample.mode == Mode::Kernel,
        ));
    }
    into.push(Frame::label(sample.comm));
    into.reverse();
}

/// One node of the tree.
#[derive(Debug)]
struct Node {
    name: NameIx,
    origin: Origin,
    own: u64,
    /// Children in the order they came.
    children: Vec<u32>,
}

/// A tree of stacks.
#[derive(Debug)]
pub struct Stacks {
    names: Names,
    nodes: Vec<Node>,
    index: FxHashMap<(u32, NameIx, Origin), u32>,
    n: u64,
}

/// A node as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<'a> {
    /// Its frame.
    pub name: &'a str,
    /// What it is of.
    pub origin: Origin,
    /// Frames above it.
    pub depth: usize,
    /// Sum of what lies before it at its depth and of what its parent begins with: its place from the left.
    pub start: u64,
    /// Its own value and that of all it called.
    pub total: u64,
    /// Its own value.
    pub own: u64,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut names = Names::default();
        let root = Node {
            name: names.intern("all"),
            origin: Origin::Label,
            own: 0,
            children: Vec::new(),
        };
        Self {
            names,
            nodes: vec![root],
            index: FxHashMap::default(),
            n: 0,
        }
    }
}

impl Stacks {
    /// Adds a stack, outermost first.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a Frame>, value: u64) {
        self.n += 1;
        let mut at = 0;
        for frame in frames {
            match self.child(at, frame) {
                Some(child) => at = child,
                None => break,
            }
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.own = node.own.saturating_add(value);
        }
    }

    fn child(&mut self, parent: u32, frame: &Frame) -> Option<u32> {
        let name = self.names.intern(&frame.name);
        let key = (parent, name, frame.origin);
        if let Some(child) = self.index.get(&key) {
            return Some(*child);
        }
        if self.nodes.len() >= NODES_MAX {
            return None;
        }
        let child = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node {
            name,
            origin: frame.origin,
            own: 0,
            children: Vec::new(),
        });
        self.index.insert(key, child);
        self.nodes.get_mut(parent as usize)?.children.push(child);
        Some(child)
    }

    /// Stacks added.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Sum of all values.
    pub fn total(&self) -> u64 {
        let own = self.nodes.iter().map(|node| node.own);
        own.fold(0, u64::saturating_add)
    }

    /// Sums of whole subtrees; children have larger numbers than their parents.
    fn totals(&self) -> Vec<u64> {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.own).collect();
        for at in (0..self.nodes.len()).rev() {
            let children = self.nodes.get(at).map_or(&[][..], |node| &node.children);
            let sum = children
                .iter()
                .filter_map(|child| totals.get(*child as usize))
                .fold(0_u64, |sum, total| sum.saturating_add(*total));
            if let Some(total) = totals.get_mut(at) {
                *total = total.saturating_add(sum);
            }
        }
        totals
    }

    fn sorted_children(&self, at: u32) -> Vec<u32> {
        let mut children = self
            .nodes
            .get(at as usize)
            .map_or_else(Vec::new, |node| node.children.clone());
        children.sort_by_key(|child| {
            self.nodes
                .get(*child as usize)
                .map(|node| self.names.get(node.name))
        });
        children
    }

    /// All nodes, parents before their children, siblings by name; the first is the root.
    pub fn nodes(&self) -> Vec<Shown<'_>> {
        let totals = self.totals();
        let mut all = Vec::with_capacity(self.nodes.len());
        let mut waiting = vec![(0_u32, 0_usize, 0_u64)];
        while let Some((at, depth, start)) = waiting.pop() {
            let Some(node) = self.nodes.get(at as usize) else {
                continue;
            };
            all.push(Shown {
                name: self.names.get(node.name),
                origin: node.origin,
                depth,
                start,
                total: totals.get(at as usize).copied().unwrap_or(0),
                own: node.own,
            });
            let mut from = start;
            let mut children = Vec::new();
            for child in self.sorted_children(at) {
                children.push((child, depth + 1, from));
                from = from.saturating_add(totals.get(child as usize).copied().unwrap_or(0));
            }
            waiting.extend(children.into_iter().rev());
        }
        all
    }

    /// `frame;frame;frame` and value of each path that has a value of its own, by text. Frames are separated by `;`, so one
    /// within a name becomes `:`; control characters become blanks.
    pub fn folded(&self) -> Vec<(String, u64)> {
        let clean = |name: &str| -> String {
            let fit = |c: char| match c {
                ';' => ':',
                c if c.is_control() => ' ',
                c => c,
            };
            name.chars().map(fit).collect()
        };
        let mut lines = Vec::new();
        let mut path: Vec<String> = Vec::new();
        for node in self.nodes().into_iter().skip(1) {
            path.truncate(node.depth - 1);
            path.push(clean(node.name));
            if node.own > 0 {
                lines.push((path.join(";"), node.own));
            }
        }
        lines.sort_unstable();
        lines.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 = first.1.saturating_add(next.1);
            }
            same
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &str) -> Vec<Frame> {
        let frame = |name: &str| Frame {
            name: name.to_owned(),
            origin: Origin::User,
        };
        names.split(' ').map(frame).collect()
    }

    fn stacks(all: &[(&str, u64)]) -> Stacks {
        let mut stacks = Stacks::default();
        for (names, value) in all {
            stacks.add(&stack(names), *value);
        }
        stacks
    }

    #[test]
    fn equal_paths_are_summed_and_sorted() {
        let stacks = stacks(&[("a c", 1), ("a b", 2), ("a c", 4), ("a", 8)]);
        let line = |text: &str, value| (text.to_owned(), value);
        assert_eq!(
            stacks.folded(),
            [line("a", 8), line("a;b", 2), line("a;c", 5)]
        );
        assert_eq!((stacks.n(), stacks.total()), (4, 15));
    }

    #[test]
    fn children_lie_within_their_parent_side_by_side() {
        let stacks = stacks(&[("a c", 1), ("a b x", 2), ("a b y", 3), ("d", 4)]);
        let nodes = stacks.nodes();
        let placed: Vec<_> = nodes
            .iter()
            .map(|node| (node.name, node.depth, node.start, node.total))
            .collect();
        assert_eq!(
            placed,
            [
                ("all", 0, 0, 10),
                ("a", 1, 0, 6),
                ("b", 2, 0, 5),
                ("x", 3, 0, 2),
                ("y", 3, 2, 3),
                ("c", 2, 5, 1),
                ("d", 1, 6, 4),
            ]
        );
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut stacks = Stacks::default();
        stacks.add(&[Frame::label("a;b\nc")], 1);
        assert_eq!(stacks.folded(), [("a:b c".to_owned(), 1)]);
    }

    #[test]
    fn code_without_a_symbol_is_named_after_its_object() {
        for (symbol, dso, kernel, name, origin) in [
            (Some("main"), "/bin/a", false, "main", Origin::User),
            (
                None,
                "/lib/libc.so.6",
                false,
                "[libc.so.6]",
                Origin::Unknown,
            ),
            (None, "[unknown]", false, "[unknown]", Origin::Unknown),
            (
                None,
                "[kernel.kallsyms]",
                true,
                "[kernel.kallsyms]",
                Origin::Kernel,
            ),
        ] {
            let frame = Frame::code(symbol, dso, kernel);
            assert_eq!((frame.name.as_str(), frame.origin), (name, origin));
        }
    }
}

//! The call tree below a row.

use super::reader::Frame;

/// Which way a tree grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the row's function to its callers.
    Callee,
    /// From the outermost caller down to the function.
    Caller,
}

/// A function in a tree, with those beyond it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<T> {
    /// The function.
    pub frame: T,
    /// Samples that came by here.
    pub samples: u64,
    /// Their sum of the estimator.
    pub value: f64,
    /// Largest first; those below the limit are not here.
    pub children: Vec<Node<T>>,
    /// Children that are not here, and their sums: number, samples, value.
    pub cut: (u64, u64, f64),
}

/// One way to a row: frames in the order of the tree, samples, sum of the estimator.
pub(super) type Way = (Vec<Frame>, u64, f64);

/// The functions that come next on some ways, of which `depth` frames are behind. Ways must be sorted by their frames.
pub(super) fn grow(ways: &[Way], depth: usize, least: f64) -> (Vec<Node<Frame>>, (u64, u64, f64)) {
    let next = |way: &Way| way.0.get(depth).copied();
    let (mut nodes, mut cut) = (Vec::new(), (0, 0, 0.0));
    for same in ways.chunk_by(|one, other| next(one) == next(other)) {
        let Some(frame) = same.first().and_then(next) else {
            continue; // ends here
        };
        let samples = same.iter().map(|way| way.1).sum();
        let value = same.iter().map(|way| way.2).sum::<f64>();
        if value < least {
            cut = (cut.0 + 1, cut.1 + samples, cut.2 + value);
            continue;
        }
        let (children, beyond) = grow(same, depth + 1, least);
        nodes.push(Node {
            frame,
            samples,
            value,
            children,
            cut: beyond,
        });
    }
    nodes.sort_by(|one, other| other.value.total_cmp(&one.value));
    (nodes, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(frames: &[u64], samples: u64) -> Way {
        let frame = |symbol: &u64| Frame {
            symbol: *symbol,
            dso: 0,
        };
        (frames.iter().map(frame).collect(), samples, samples as f64)
    }

    #[test]
    fn equal_beginnings_are_one_branch_and_small_ones_are_cut_but_counted() {
        let mut ways = [
            way(&[1, 2], 5),
            way(&[1, 3], 4),
            way(&[1], 1),
            way(&[4], 7),
            way(&[5, 1], 1),
        ];
        ways.sort_by(|one, other| one.0.cmp(&other.0));
        let (nodes, cut) = grow(&ways, 0, 2.0);
        let shown = |node: &Node<Frame>| (node.frame.symbol, node.samples);
        assert_eq!(
            nodes.iter().map(shown).collect::<Vec<_>>(),
            [(1, 10), (4, 7)]
        );
        assert_eq!(cut, (1, 1, 1.0));
        let below: Vec<_> = nodes[0].children.iter().map(shown).collect();
        assert_eq!(below, [(2, 5), (3, 4)]);
        assert!(nodes[1].children.is_empty());
    }
}

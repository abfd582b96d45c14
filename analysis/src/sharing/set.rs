//! Few numbers, exact up to a bound.

/// Most numbers told apart; a machine has fewer CPUs, and more threads than that change no verdict.
const MEMBERS_MAX: usize = 4096;

/// A set of small size, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set<T = u32>(Vec<T>);

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Ord> Set<T> {
    pub(super) fn insert(&mut self, member: T) {
        if let Err(at) = self.0.binary_search(&member)
            && self.0.len() < MEMBERS_MAX
        {
            self.0.insert(at, member);
        }
    }

    pub(super) fn extend(&mut self, members: impl IntoIterator<Item = T>) {
        for member in members {
            self.insert(member);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.extend(other.0.iter().copied());
    }

    /// Its members, ascending.
    pub fn members(&self) -> &[T] {
        &self.0
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody in it is somebody else than somebody in the other.
    pub(super) fn has_another_than(&self, other: &Self) -> bool {
        match (self.0.as_slice(), other.0.as_slice()) {
            ([], _) | (_, []) => false,
            ([mine], [theirs]) => mine != theirs,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[u32]) -> Set {
        let mut set = Set::default();
        for member in members {
            set.insert(*member);
        }
        set
    }

    #[test]
    fn another_is_somebody_else() {
        for (mine, theirs, another) in [
            (&[1][..], &[1][..], false),
            (&[1], &[2], true),
            (&[1, 2], &[1], true),
            (&[], &[1], false),
            (&[1], &[], false),
        ] {
            let found = set(mine).has_another_than(&set(theirs));
            assert_eq!(found, another, "{mine:?} {theirs:?}");
        }
    }

    #[test]
    fn members_are_sorted_and_once() {
        assert_eq!(set(&[3, 1, 3, 2]).members(), [1, 2, 3]);
    }
}

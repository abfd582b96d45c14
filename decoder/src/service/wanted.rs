//! Tables that a stream wants: which it ships itself, which it waits for another stream or decoder to ship.

use super::shelf::Half;
use super::tables::{Tables, Turn};
use crate::metrics;
use crate::session::Want;
use memwide_model::MappingId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tables that a collector is asked for at the same time; the rest waits here, so that what cannot
/// wait overtakes it.
const ASKED_MAX: usize = 8;

/// What is under way or waited for. Dropped, it gives up its turns: others get them.
#[derive(Debug)]
pub(super) struct Wanted {
    tables: Arc<Tables>,
    open: BTreeMap<MappingId, Open>,
    last: u64,
}

#[derive(Debug)]
struct Open {
    want: Want,
    /// This stream ships it.
    is_ours: bool,
    /// Counts wants.
    order: u64,
}

/// What the stream does about a want.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The table is there: take it.
    There(Want),
    /// Ask this stream's collector.
    Ask(Want, Option<Half>),
}

impl Wanted {
    pub(super) fn new(tables: Arc<Tables>) -> Self {
        let open = BTreeMap::new();
        Self {
            tables,
            open,
            last: 0,
        }
    }

    /// Notes a want.
    pub(super) fn add(&mut self, want: Want) {
        let is_ours = false;
        if self.open.len() < super::parcels::REQUESTS_MAX && !self.open.contains_key(&want.mapping)
        {
            metrics::WAITING.add(1);
            self.last += 1;
            let order = self.last;
            let open = Open {
                want,
                is_ours,
                order,
            };
            self.open.insert(open.want.mapping, open);
        }
    }

    /// Whether a table is still to come.
    pub(super) fn has(&self, mapping: MappingId) -> bool {
        self.open.contains_key(&mapping)
    }

    /// Whether others ship what this stream waits for.
    pub(super) fn waits_for_others(&self) -> bool {
        self.open.values().any(|open| !open.is_ours)
    }

    /// Mappings that nobody was asked for yet, as far as this stream knows; as many as its collector may be asked for.
    pub(super) fn undecided(&self) -> Vec<Want> {
        let asked = self.open.values().filter(|open| open.is_ours).count();
        let undecided = self.open.values().filter(|open| !open.is_ours);
        let mut undecided: Vec<_> = undecided.collect();
        // What ends with its process first, then as they came.
        undecided.sort_by_key(|open| (open.want.is_shared(), open.order));
        let undecided = undecided.into_iter().map(|open| open.want.clone());
        undecided.take(ASKED_MAX.saturating_sub(asked)).collect()
    }

    /// The stream ships this one: it has the turn.
    pub(super) fn is_ours(&mut self, mapping: MappingId) {
        if let Some(open) = self.open.get_mut(&mapping) {
            open.is_ours = true;
        }
    }

    /// Whether other hosts may use what is under way.
    pub(super) fn is_shared(&self, mapping: MappingId) -> bool {
        let open = self.open.get(&mapping);
        open.is_some_and(|open| open.is_ours && open.want.is_shared())
    }

    /// Takes a want off the list; says whether this stream has its turn, which the caller gives back.
    pub(super) fn take(&mut self, mapping: MappingId) -> Option<(Want, bool)> {
        let open = self.open.remove(&mapping)?;
        metrics::WAITING.sub(1);
        Some((open.want, open.is_ours))
    }

    /// The table is there, or this stream's collector has none. A turn goes to others.
    pub(super) fn close(&mut self, mapping: MappingId) {
        if let Some((want, true)) = self.take(mapping)
            && want.is_shared()
        {
            self.tables.done(mapping);
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        for mapping in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(mapping);
        }
    }
}

/// Decides about wants. Blocks: it reads and writes the shelf.
pub(super) fn decide(tables: &Tables, undecided: Vec<Want>) -> Vec<Next> {
    let mut next = Vec::new();
    for want in undecided {
        if !want.is_shared() {
            next.push(Next::Ask(want, None));
        } else if tables.rank(want.mapping).is_some() {
            next.push(Next::There(want));
        } else {
            match tables.turn(want.mapping) {
                // The one who had the turn before may just have finished.
                Turn::Mine(_) if tables.is_there_now(want.mapping) => {
                    tables.done(want.mapping);
                    next.push(Next::There(want));
                }
                Turn::Mine(half) => next.push(Next::Ask(want, half)),
                Turn::Wait => {}
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_proto::v1;
    use std::path::Path;

    fn want(mapping: u64) -> Want {
        Want {
            mapping: MappingId(mapping),
            identity: v1::MappingIdentity {
                kind: 1,
                id: vec![5; 20],
                path: "/bin/prog".to_owned(),
            },
            pid: 1,
            start: 0,
            end: 1,
            file: None,
            jit_dump: None,
        }
    }

    #[test]
    fn a_stream_that_ends_gives_its_turn_to_another() {
        let tables = Arc::new(Tables::new(Path::new(""), 0).unwrap());
        let mut first = Wanted::new(Arc::clone(&tables));
        first.add(want(7));
        let next = decide(&tables, first.undecided());
        assert_eq!(next, [Next::Ask(want(7), None)]);
        first.is_ours(MappingId(7));
        let mut second = Wanted::new(Arc::clone(&tables));
        second.add(want(7));
        assert_eq!(decide(&tables, second.undecided()), []);
        assert!(second.waits_for_others());
        drop(first);
        let next = decide(&tables, second.undecided());
        assert_eq!(next, [Next::Ask(want(7), None)]);
    }

    #[test]
    fn a_collector_is_not_asked_for_more_than_it_can_look_at() {
        let tables = Arc::new(Tables::new(Path::new(""), 0).unwrap());
        let mut wanted = Wanted::new(Arc::clone(&tables));
        for mapping in 0..100 {
            wanted.add(want(mapping));
        }
        let first = wanted.undecided();
        assert_eq!(first.len(), ASKED_MAX);
        for want in &first {
            wanted.is_ours(want.mapping);
        }
        assert!(wanted.undecided().is_empty());
        wanted.close(first[0].mapping);
        assert_eq!(wanted.undecided().len(), 1);
    }

    #[test]
    fn what_is_one_hosts_own_is_asked_of_its_collector_whoever_else_asks() {
        let tables = Arc::new(Tables::new(Path::new(""), 0).unwrap());
        let own = Want {
            identity: v1::MappingIdentity {
                kind: 6,
                id: Vec::new(),
                path: "/bin/prog".to_owned(),
            },
            ..want(7)
        };
        for _ in 0..2 {
            let next = decide(&tables, vec![own.clone()]);
            assert_eq!(next, [Next::Ask(own.clone(), None)]);
        }
    }
}

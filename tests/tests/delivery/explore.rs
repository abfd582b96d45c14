//! Goes through interleavings: all of a small world, and long random ones of larger worlds.

use crate::actions::Action;
use crate::world::{Size, World};
use proptest::prelude::*;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

/// What an exploration has seen.
#[derive(Debug, Default)]
struct Seen {
    states: usize,
    ends: usize,
}

/// Every order of steps and of the faults that may strike, each state once. The path to a broken rule is shown.
fn everything(world: World, may: fn(&Action) -> bool) -> Seen {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known = HashSet::from([hasher.hash_one(&world)]);
    let mut seen = Seen::default();
    let mut path = vec![next(world, None, may)];
    while let Some((world, left, _)) = path.last_mut() {
        let Some(action) = left.pop() else {
            path.pop();
            continue;
        };
        let mut after = world.clone();
        let held = after.act(action);
        let broken = held.err().or_else(|| {
            let ended = after.steps().is_empty();
            seen.ends += usize::from(ended);
            ended.then(|| after.check_end().err()).flatten()
        });
        if let Some(broken) = broken {
            let mut trace: Vec<Action> = path.iter().filter_map(|(_, _, by)| *by).collect();
            trace.push(action);
            panic!("{broken}, after {trace:#?}\n{after:#?}");
        }
        if known.insert(hasher.hash_one(&after)) {
            path.push(next(after, Some(action), may));
        }
    }
    seen.states = known.len();
    seen
}

type At = (World, Vec<Action>, Option<Action>);

fn next(world: World, by: Option<Action>, may: fn(&Action) -> bool) -> At {
    let mut actions = world.steps();
    actions.extend(world.strikes().into_iter().filter(may));
    (world, actions, by)
}

const SMALL: Size = Size {
    sources: 1,
    batches: 2,
    paths: 1,
    sinks: 0,
    faults: 0,
    closes: false,
};

#[track_caller]
fn check(world: World, may: fn(&Action) -> bool) {
    let seen = everything(world, may);
    eprintln!("{seen:?}");
    assert!(seen.ends > 0);
}

/// What may happen to a flush on its way, and to those who wait for it.
fn of_flushes(action: &Action) -> bool {
    matches!(
        action,
        Action::AggregatorDies { .. }
            | Action::CommitLost { .. }
            | Action::CommitUnanswered { .. }
            | Action::GivesUpWaiting { .. }
            | Action::PipeBreaks { .. }
    )
}

#[test]
fn every_interleaving_from_spool_to_stream_with_any_two_faults_of_flushes() {
    let size = Size {
        batches: 1,
        faults: 2,
        ..SMALL
    };
    check(World::new(size), of_flushes);
}

#[test]
fn every_interleaving_of_two_batches_from_spool_to_stream_with_any_fault() {
    let size = Size { faults: 1, ..SMALL };
    check(World::new(size), |_| true);
}

#[test]
fn every_interleaving_of_two_decoders_and_two_aggregators_with_any_fault() {
    let size = Size {
        batches: 1,
        paths: 2,
        faults: 1,
        ..SMALL
    };
    check(World::new(size), |_| true);
}

/// A stream with flushes of a batch each, and sinks that begin.
fn filled(batches: u64, size: Size) -> World {
    let mut world = World::new(Size { batches, ..size });
    while let Some(action) = world
        .steps()
        .into_iter()
        .rev() // what is furthest goes first: no flush waits for a second batch
        .find(|action| !matches!(action, Action::Sink { .. }))
    {
        world.act(action).unwrap();
    }
    world
}

/// Sinks, and what may happen to them.
fn of_sinks(action: &Action) -> bool {
    matches!(
        action,
        Action::SinkDies { .. } | Action::InsertUnanswered { .. } | Action::WriteUnanswered { .. }
    )
}

#[test]
fn every_interleaving_of_two_sinks_from_stream_to_store_with_any_fault() {
    let size = Size {
        sinks: 2,
        faults: 2,
        ..SMALL
    };
    check(filled(2, size), of_sinks);
}

#[test]
fn every_interleaving_of_a_sink_that_closes_hours_with_any_three_faults() {
    let size = Size {
        sinks: 1,
        faults: 3,
        closes: true,
        ..SMALL
    };
    check(filled(3, size), of_sinks);
}

/// Steps of a walk before faults end.
const WALK: usize = 400;
/// Steps within which a world without faults must come to rest.
const REST: usize = 5_000;

fn size() -> impl Strategy<Value = Size> {
    (
        1..4usize,
        1..6u64,
        1..3usize,
        1..3usize,
        0..12u8,
        any::<bool>(),
    )
        .prop_map(|(sources, batches, paths, sinks, faults, closes)| Size {
            sources,
            batches,
            paths,
            sinks,
            faults,
            closes,
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_in_a_larger_world_each_batch_counts_once_and_all_comes_to_rest(
        size in size(),
        choices in prop::collection::vec(any::<u16>(), 0..WALK),
    ) {
        let mut world = World::new(size);
        let mut trace = Vec::new();
        for choice in choices {
            let choice = usize::from(choice);
            // A tenth of the steps are faults, as long as there are some.
            let faults = if choice % 10 == 0 { world.strikes() } else { Vec::new() };
            let actions = if faults.is_empty() { world.steps() } else { faults };
            if actions.is_empty() {
                break;
            }
            let action = actions[choice / 10 % actions.len()];
            trace.push(action);
            if let Err(broken) = world.act(action) {
                prop_assert!(false, "{broken}, after {trace:#?}\n{world:#?}");
            }
        }
        // Fair from here on: every part gets its turn.
        for turn in 0..REST {
            let steps = world.steps();
            if steps.is_empty() {
                break;
            }
            prop_assert!(turn + 1 < REST, "never comes to rest: {steps:?}\n{world:#?}");
            let action = steps[turn % steps.len()];
            trace.push(action);
            if let Err(broken) = world.act(action) {
                prop_assert!(false, "{broken}, after {trace:#?}\n{world:#?}");
            }
        }
        if let Err(broken) = world.check_end() {
            prop_assert!(false, "{broken}, after {trace:#?}\n{world:#?}");
        }
    }
}

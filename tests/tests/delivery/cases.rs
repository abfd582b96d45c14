//! Failures that have a name: `docs/delivery.md` lists them.

use crate::actions::Action;
use crate::world::{Size, World};

const SIZE: Size = Size {
    sources: 1,
    batches: 2,
    paths: 1,
    sinks: 1,
    faults: u8::MAX,
    closes: false,
};

fn is(action: Action, name: &str) -> bool {
    format!("{action:?}").starts_with(name)
}

/// Makes what is written happen, in its order; before each, the rest of the world goes on until it can, without what is
/// still to come. Then everything comes to rest, and each batch must have counted once. False: something cannot happen.
#[track_caller]
fn may(size: Size, script: &[&str]) -> bool {
    let mut world = World::new(size);
    for (at, wanted) in script.iter().enumerate() {
        loop {
            let mut actions = world.steps();
            let steps = actions.len();
            actions.extend(world.strikes());
            if let Some(action) = actions.iter().find(|action| is(**action, wanted)) {
                world.act(*action).unwrap();
                break;
            }
            let later = |step: &&Action| script[at..].iter().any(|name| is(**step, name));
            let Some(step) = actions[..steps].iter().find(|step| !later(step)) else {
                return false;
            };
            world.act(*step).unwrap();
        }
    }
    while let Some(step) = world.steps().first() {
        world.act(*step).unwrap();
    }
    world.check_end().unwrap();
    true
}

#[track_caller]
fn play(size: Size, script: &[&str]) {
    assert!(may(size, script), "{script:?} cannot happen");
}

/// D3: the batch is under way when its samples are given up; what arrives second is the duplicate.
#[test]
fn a_batch_given_up_while_it_is_under_way_counts_once() {
    play(SIZE, &["Send", "GiveUp {", "PipeBreaks", "Flush"]);
    play(
        SIZE,
        &["Send", "Decode {", "GiveUp {", "DecoderDies", "Flush"],
    );
}

/// D3: samples are given up and the collector dies before they are gone; the next run sends them as they are or as a gap.
#[test]
fn a_collector_that_dies_while_it_gives_up_or_writes_a_batch_leaves_it_counted() {
    play(SIZE, &["DiesGivingUp", "Flush"]);
    play(SIZE, &["Send", "DiesAppending", "Flush"]);
}

/// D4: one decoder dies with batches sent and not flushed; another sends them whole once more.
#[test]
fn a_decoder_that_dies_after_half_of_its_batches_is_succeeded_by_another() {
    let size = Size { paths: 2, ..SIZE };
    play(
        size,
        &[
            "Connect { source: 0, path: 0 }",
            "Decode {",
            "DecoderDies { path: 0 }",
            "Connect { source: 0, path: 1 }",
            "Flush { path: 1 }",
            "Flush { path: 0 }",
        ],
    );
}

/// D7: the answer to a commit is lost; the cursor says that it was this flush.
#[test]
fn a_commit_whose_answer_is_lost_is_found_in_the_cursor() {
    play(SIZE, &["CommitUnanswered", "Landed"]);
}

/// D7: a flush that its sender has given up arrives after the one it sent instead.
#[test]
fn a_flush_that_arrives_late_is_refused_whole() {
    play(
        SIZE,
        &[
            "Flush",
            "GivesUpWaiting",
            "Commit { at: 1 }",
            "Commit { at: 0 }",
        ],
    );
}

/// D7: an aggregator dies with a flush on its way, which arrives when its successor has applied the same batches.
#[test]
fn a_flush_of_a_dead_aggregator_fences_its_successor() {
    play(
        Size { batches: 1, ..SIZE },
        &[
            "Flush",
            "AggregatorDies",
            "Flush",
            "Commit { at: 0 }",
            "Commit { at: 0 }",
        ],
    );
}

/// D7: two aggregators own the partition; what the slower one has built is dropped and asked for again.
#[test]
fn an_aggregator_that_was_overtaken_drops_what_it_has_and_asks_again() {
    let size = Size {
        sources: 2,
        paths: 2,
        ..SIZE
    };
    play(
        size,
        &[
            "Connect { source: 0, path: 0 }",
            "Connect { source: 1, path: 1 }",
            "Flush { path: 0 }",
            "Flush { path: 1 }",
            "Commit",
            "Commit",
        ],
    );
}

/// D8: a sink stops in the middle of a block; its twin stores the block, and the first one goes on where it was.
#[test]
fn a_sink_that_slept_inserts_nothing_twice() {
    let size = Size { sinks: 2, ..SIZE };
    let script = [
        "Sink { sink: 0", // reads the record
        "Sink { sink: 0", // opens a block
        "Sink { sink: 1",
        "Sink { sink: 1",
        "Sink { sink: 1",
        "Sink { sink: 1",
        "Sink { sink: 1",
        "Sink { sink: 0",
        "Sink { sink: 0",
    ];
    play(size, &script);
}

/// D8: an insert is done and its answer lost; the sink dies and the block comes again.
#[test]
fn an_insert_whose_answer_is_lost_is_repeated_under_the_same_token() {
    play(
        SIZE,
        &[
            "InsertUnanswered",
            "SinkDies",
            "InsertUnanswered",
            "WriteUnanswered",
            "SinkDies",
        ],
    );
}

/// D8: a sink dies after each of its steps, those of a close among them.
#[test]
fn a_close_that_breaks_off_is_repeated() {
    let size = Size {
        closes: true,
        ..SIZE
    };
    let after = |steps: usize| {
        let mut script = vec!["Flush"];
        script.extend(std::iter::repeat_n("Sink {", steps));
        script.push("SinkDies");
        may(size, &script)
    };
    let deaths = (1..1_000).take_while(|steps| after(*steps)).count();
    assert!(deaths > 8, "{deaths} steps");
}

use super::*;
use memwide_model::{BootId, HostId, Source};
use proptest::prelude::*;

fn origin() -> Origin {
    Origin {
        source: Source {
            host: HostId([1; 16]),
            boot: BootId([2; 16]),
            epoch: 3,
        },
        hostname: "host".to_owned(),
        kind: "live",
    }
}

fn progress(next: u64, finished: bool) -> Progress {
    Progress { next, finished }
}

fn message(message: decoder_message::Message) -> DecoderMessage {
    DecoderMessage {
        message: Some(message),
    }
}

fn welcome(next: u64, side_band_through: u64, credit: u64) -> DecoderMessage {
    message(decoder_message::Message::Welcome(Welcome {
        next,
        side_band_through,
        credit: Some(Credit {
            unacked_bytes_max: credit,
        }),
        configure: None,
    }))
}

fn ack(through: u64) -> DecoderMessage {
    message(decoder_message::Message::Ack(Ack { through }))
}

fn resume(from: u64) -> DecoderMessage {
    message(decoder_message::Message::Resume(Resume { from }))
}

/// Steps until nothing may be sent, each of 100 bytes.
fn drain(uplink: &mut Uplink, progress: Progress) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = uplink.step(progress) {
        uplink.sent(step, 100);
        steps.push(step);
    }
    steps
}

#[test]
fn history_runs_from_the_snapshot_or_what_the_decoder_holds_to_the_next_batch() {
    let rows = [
        // snapshot, side_band_through, next, first of the history
        (0, 0, 4, 1),
        (2, 0, 4, 2),
        (2, 2, 4, 3),
        (0, 9, 4, 4),
        (3, 1, 4, 3),
    ];
    for (snapshot, held, next, first) in rows {
        let (mut uplink, _) = Uplink::start(&origin(), progress(6, false), next, snapshot);
        assert_eq!(uplink.step(progress(6, false)), None, "not welcomed");
        uplink
            .receive(welcome(next, held, 1 << 20), progress(6, false))
            .unwrap();
        let mut expected: Vec<Step> = (first..next).map(Step::SideBand).collect();
        expected.extend([Step::Batch(4), Step::Batch(5)]);
        assert_eq!(
            drain(&mut uplink, progress(6, false)),
            expected,
            "{snapshot} {held}"
        );
    }
}

#[test]
fn credit_holds_batches_back_but_never_the_only_one() {
    let now = progress(10, false);
    let (mut uplink, _) = Uplink::start(&origin(), now, 1, 0);
    uplink.receive(welcome(1, 0, 250), now).unwrap();
    assert_eq!(drain(&mut uplink, now).len(), 3);
    uplink.receive(ack(1), now).unwrap();
    assert_eq!(drain(&mut uplink, now), [Step::Batch(4)]);
    let none = message(decoder_message::Message::Credit(Credit {
        unacked_bytes_max: 0,
    }));
    uplink.receive(none, now).unwrap();
    uplink.receive(ack(4), now).unwrap();
    assert_eq!(drain(&mut uplink, now), [Step::Batch(5)]);
}

#[test]
fn what_the_pipeline_has_is_not_what_it_has_committed() {
    let now = progress(6, true);
    let (mut uplink, _) = Uplink::start(&origin(), now, 1, 0);
    assert_eq!(uplink.receive(welcome(6, 5, 100), now), Ok(Effect::None));
    assert!(!uplink.is_done(now) && uplink.waits_for_nothing_but_acks(now));
    assert_eq!(uplink.settle(now), Effect::Ack(5));
    assert!(uplink.is_done(now));
}

#[test]
fn answers_that_break_the_protocol_are_refused_by_name() {
    let now = progress(3, false);
    let start = || Uplink::start(&origin(), now, 1, 0).0;
    let text = |outcome: Result<Effect, ProtocolError>| outcome.unwrap_err().to_string();
    assert!(text(start().receive(ack(1), now)).contains("`ack` before"));
    // Settings may come while the decoder has nobody to take batches.
    let stop = message(decoder_message::Message::Configure(Configure::default()));
    let taken = start().receive(stop, now).unwrap();
    assert!(matches!(taken, Effect::Configure(_)), "{taken:?}");
    let mut uplink = start();
    uplink.receive(welcome(1, 0, 100), now).unwrap();
    assert!(text(uplink.receive(welcome(1, 0, 100), now)).contains("after a"));
    assert!(text(uplink.receive(ack(1), now)).contains("only 0 were sent"));
    assert!(text(uplink.receive(resume(2), now)).contains("`resume` for batch 2"));
    assert!(text(start().receive(welcome(9, 0, 1), now)).contains("wants batch 9"));
    assert!(
        start()
            .receive(DecoderMessage { message: None }, now)
            .is_err()
    );
}

/// A pipeline with a cursor, that loses what it did not commit.
#[derive(Debug, Default)]
struct Pipeline {
    applied: Vec<u64>,
    committed: usize,
}

proptest! {
    #[test]
    fn whatever_happens_each_batch_is_applied_once_in_order(
        steps in proptest::collection::vec(0u8..8, 1..200),
        total in 1u64..20,
        credit in 0u64..500,
    ) {
        let now = progress(total + 1, true);
        let mut pipeline = Pipeline::default();
        let mut freed = 0_u64;
        let mut uplink: Option<Uplink> = None;
        // A fair end: long enough to connect, send and commit everything.
        let fair = std::iter::repeat_n([0, 1, 3], usize::try_from(total).unwrap() + 2).flatten();
        for step in steps.into_iter().chain(fair) {
            match (step, uplink.as_mut()) {
                (0, None) => {
                    let (mut fresh, _) = Uplink::start(&origin(), now, freed + 1, 0);
                    let next = pipeline.applied.len() as u64 + 1;
                    fresh.receive(welcome(next, 0, credit), now).unwrap();
                    uplink = Some(fresh);
                }
                (1 | 2, Some(open)) => {
                    while let Some(step) = open.step(now) {
                        open.sent(step, 100);
                        if let Step::Batch(number) = step {
                            prop_assert!(number > freed, "{number} was freed");
                            if number == pipeline.applied.len() as u64 + 1 {
                                pipeline.applied.push(number);
                            } else if number > pipeline.applied.len() as u64 + 1 {
                                let from = pipeline.applied.len() as u64 + 1;
                                open.receive(resume(from), now).unwrap();
                            }
                            break;
                        }
                    }
                }
                (3 | 4, Some(open)) => {
                    pipeline.committed = pipeline.applied.len();
                    let through = pipeline.committed as u64;
                    if let Effect::Ack(through) = open.receive(ack(through), now).unwrap() {
                        prop_assert!(through > freed);
                        freed = through;
                    }
                }
                (5, Some(open)) => {
                    // The pipeline dies and comes back at its cursor.
                    pipeline.applied.truncate(pipeline.committed);
                    open.receive(resume(pipeline.committed as u64 + 1), now).unwrap();
                }
                (6, _) => uplink = None,
                (7, _) => {
                    pipeline.applied.truncate(pipeline.committed);
                    uplink = None;
                }
                _ => {}
            }
        }
        prop_assert_eq!(pipeline.applied, (1..=total).collect::<Vec<_>>());
        prop_assert_eq!(freed, total);
        prop_assert!(uplink.unwrap().is_done(now));
    }
}

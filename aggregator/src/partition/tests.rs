use super::*;
use memwide_model::{BootId, HostId};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;
const LIMITS: Limits = Limits {
    flush_after_ns: 2 * SECOND,
    flush_bytes: 1_000,
    pending_bytes_max: 4_000,
};

fn source(epoch: u64) -> Source {
    Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch,
    }
}

fn batch(number: u64) -> Offered {
    Offered {
        number,
        closed_wall_ns: NOW,
        import: false,
        has_no_earlier: false,
    }
}

fn offer(partition: &mut Partition, epoch: u64, number: u64) -> Verdict {
    partition.offer(&source(epoch), batch(number), NOW, 0)
}

fn opened() -> Partition {
    let mut partition = Partition::new(LIMITS, 77);
    partition.reload(None, 0);
    assert_eq!(partition.open(source(1)), Some(1));
    partition
}

#[test]
fn only_the_next_batch_is_applied() {
    let mut partition = opened();
    assert_eq!(offer(&mut partition, 1, 2), Verdict::Ahead { next: 1 });
    assert_eq!(offer(&mut partition, 1, 1), Verdict::Apply);
    assert_eq!(
        offer(&mut partition, 1, 1),
        Verdict::Duplicate { committed: 0 }
    );
    assert_eq!(offer(&mut partition, 1, 3), Verdict::Ahead { next: 2 });
    assert_eq!(offer(&mut partition, 1, 2), Verdict::Apply);
}

#[test]
fn a_flush_is_due_by_age_or_by_size_and_never_beside_another() {
    let mut partition = opened();
    assert_eq!(partition.flush_due_ns(), None);
    partition.offer(&source(1), batch(1), NOW, 5 * SECOND);
    assert_eq!(partition.flush_due_ns(), Some(7 * SECOND));
    partition.grew(1_000, 1);
    assert_eq!(partition.flush_due_ns(), Some(5 * SECOND));
    assert!(!partition.full());
    let head = partition.begin_flush(NOW).unwrap();
    assert_eq!(
        (
            head.expected,
            head.cursor.flush,
            head.cursor.sources[0].through
        ),
        (0, 1, 1)
    );
    offer(&mut partition, 1, 2);
    partition.grew(4_000, 1);
    assert!(partition.full());
    assert_eq!(
        (partition.flush_due_ns(), partition.begin_flush(NOW)),
        (None, None)
    );
    assert_eq!(partition.committed(&head.cursor, 9), [(source(1), 1)]);
    assert_eq!(partition.begin_flush(NOW).unwrap().expected, 9);
}

#[test]
fn many_small_messages_fill_a_partition_too() {
    let mut partition = opened();
    offer(&mut partition, 1, 1);
    partition.grew(10, FLUSH_MESSAGES);
    assert!(partition.full());
    assert_eq!(partition.flush_due_ns(), Some(0));
}

#[test]
fn a_reload_goes_back_to_the_cursor() {
    let mut partition = opened();
    offer(&mut partition, 1, 1);
    let first = partition.begin_flush(NOW).unwrap();
    partition.committed(&first.cursor, 3);
    offer(&mut partition, 1, 2);
    partition.begin_flush(NOW).unwrap();
    offer(&mut partition, 1, 3);
    partition.reload(Some(&first.cursor), 3);
    assert_eq!(
        (partition.open(source(1)), partition.flush_due_ns()),
        (Some(2), None)
    );
    assert_eq!(offer(&mut partition, 1, 2), Verdict::Apply);
}

#[test]
fn a_silent_source_leaves_and_what_it_then_sends_expires_unless_it_is_young() {
    let mut partition = opened();
    offer(&mut partition, 1, 1);
    let head = partition.begin_flush(NOW).unwrap();
    partition.committed(&head.cursor, 1);
    // Another source keeps the partition flushing, eight days later.
    let later = NOW + 8 * DAY_NS;
    partition.open(source(2));
    partition.offer(&source(2), batch(1), later, 0);
    let head = partition.begin_flush(later).unwrap();
    let left: Vec<_> = head
        .cursor
        .sources
        .iter()
        .map(|entry| entry.through)
        .collect();
    assert_eq!(
        (
            left.len(),
            head.cursor.sources[0].source.as_ref().unwrap().epoch
        ),
        (1, 2)
    );
    partition.committed(&head.cursor, 2);
    assert_eq!(partition.open(source(1)), Some(1));
    let old = Offered {
        has_no_earlier: true,
        ..batch(2)
    };
    assert_eq!(partition.offer(&source(1), old, later, 0), Verdict::Expired);
    // Also after a restart in between.
    let head = partition.begin_flush(later).unwrap();
    partition.reload(Some(&head.cursor), 3);
    assert_eq!(
        partition.offer(&source(1), batch(3), later, 0),
        Verdict::Expired
    );
    let young = Offered {
        closed_wall_ns: later - DAY_NS,
        ..batch(4)
    };
    assert_eq!(partition.offer(&source(1), young, later, 0), Verdict::Apply);
    assert_eq!(
        partition.offer(&source(1), batch(5), later, 0),
        Verdict::Apply
    );
}

#[test]
fn a_source_the_cursor_does_not_know_is_asked_for_its_first_batch_before_another_is_taken() {
    let mut partition = opened();
    assert_eq!(offer(&mut partition, 1, 40), Verdict::Ahead { next: 1 });
    let rest = Offered {
        has_no_earlier: true,
        ..batch(40)
    };
    assert_eq!(partition.offer(&source(1), rest, NOW, 0), Verdict::Apply);
    assert_eq!(offer(&mut partition, 1, 41), Verdict::Apply);
    let gap = Offered {
        has_no_earlier: true,
        ..batch(43)
    };
    assert_eq!(
        partition.offer(&source(1), gap, NOW, 0),
        Verdict::Ahead { next: 42 }
    );
}

#[test]
fn an_import_of_an_old_file_is_applied_once_and_never_forgotten() {
    let mut partition = opened();
    let old = Offered {
        closed_wall_ns: 5 * SECOND,
        import: true,
        ..batch(1)
    };
    assert_eq!(partition.offer(&source(1), old, NOW, 0), Verdict::Apply);
    let head = partition.begin_flush(NOW).unwrap();
    partition.committed(&head.cursor, 1);
    let later = NOW + 800 * DAY_NS;
    partition.open(source(2));
    partition.offer(&source(2), batch(1), later, 0);
    let head = partition.begin_flush(later).unwrap();
    partition.reload(Some(&head.cursor), 2);
    assert_eq!(partition.open(source(1)), Some(2));
    assert_eq!(
        partition.offer(&source(1), old, later, 0),
        Verdict::Duplicate { committed: 1 }
    );
}

#[test]
fn sources_are_bounded_and_those_that_only_opened_leave_with_their_stream() {
    let mut partition = Partition::new(LIMITS, 1);
    for epoch in 0..SOURCES_MAX as u64 {
        assert_eq!(partition.open(source(epoch)), Some(1));
    }
    assert_eq!(partition.open(source(u64::MAX)), None);
    partition.close(&source(3));
    assert_eq!(partition.open(source(u64::MAX)), Some(1));
}

#[derive(Debug, Clone)]
enum Step {
    Offer { who: usize, epoch: u64, number: u64 },
    Flush { who: usize },
    Land { who: usize, answer_lost: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, 0..3u64, 1..6u64).prop_map(|(who, epoch, number)| Step::Offer { who, epoch, number }),
        2 => (0..2usize).prop_map(|who| Step::Flush { who }),
        2 => (0..2usize, any::<bool>()).prop_map(|(who, answer_lost)| Step::Land { who, answer_lost }),
    ]
}

/// Two aggregators on one partition and a stream that takes a flush only at the expected sequence.
struct Twin {
    partition: Partition,
    built: Vec<(u64, u64)>,
    in_flight: Option<(FlushHead, Vec<(u64, u64)>)>,
}

proptest! {
    #[test]
    fn whatever_two_aggregators_do_the_stream_holds_each_batch_once_and_without_a_hole(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut stream: Vec<(u64, u64)> = Vec::new();
        let (mut cursor, mut sequence): (Option<v1::Cursor>, u64) = (None, 0);
        let mut twins: Vec<Twin> = (0..2u64)
            .map(|id| {
                let mut partition = Partition::new(LIMITS, id);
                for epoch in 0..3 {
                    partition.open(source(epoch));
                }
                Twin { partition, built: Vec::new(), in_flight: None }
            })
            .collect();
        for step in steps {
            match step {
                Step::Offer { who, epoch, number } => {
                    let twin = &mut twins[who];
                    twin.partition.open(source(epoch));
                    if offer(&mut twin.partition, epoch, number) == Verdict::Apply {
                        twin.built.push((epoch, number));
                    }
                }
                Step::Flush { who } => {
                    let twin = &mut twins[who];
                    if let Some(head) = twin.partition.begin_flush(NOW) {
                        twin.in_flight = Some((head, std::mem::take(&mut twin.built)));
                    }
                }
                Step::Land { who, answer_lost } => {
                    let twin = &mut twins[who];
                    let Some((head, rows)) = twin.in_flight.take() else { continue };
                    let mine = |cursor: &Option<v1::Cursor>| {
                        cursor.as_ref().is_some_and(|c| {
                            (c.publisher, c.flush) == (head.cursor.publisher, head.cursor.flush)
                        })
                    };
                    if !mine(&cursor) && head.expected == sequence {
                        stream.extend(&rows);
                        sequence += rows.len() as u64 + 1;
                        cursor = Some(head.cursor.clone());
                        if answer_lost {
                            // It is asked again and must find itself.
                            twin.in_flight = Some((head, rows));
                            continue;
                        }
                    }
                    if mine(&cursor) {
                        twin.partition.committed(&head.cursor, sequence);
                    } else {
                        twin.partition.reload(cursor.as_ref(), sequence);
                        twin.built.clear();
                    }
                }
            }
        }
        for epoch in 0..3 {
            let numbers: Vec<u64> = stream.iter().filter(|(of, _)| *of == epoch).map(|(_, n)| *n).collect();
            let wanted: Vec<u64> = (1..=numbers.len() as u64).collect();
            prop_assert_eq!(numbers, wanted);
        }
    }
}

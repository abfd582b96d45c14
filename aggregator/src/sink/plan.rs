//! What a block record asks for and how it goes on. Pure: the record is the sink's only memory.
//!
//! ```text
//!   done ──open──▶ open ──(every table inserted)──done──▶ done ──closing──▶ closing ──(hour summed)──closed──▶ done
//! ```
//!
//! Each arrow is one compare-and-set, made before what it announces or after what it reports. Whoever comes later, after a
//! death or beside a twin, does what the record says.

use std::time::Duration;

use memwide_proto::SCHEMA_VERSION;
use memwide_proto::v1::BlockRecord;

/// What comes next in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Todo {
    /// Close rows ingested up to here, under the close's token.
    Close {
        /// Whole seconds of wall time.
        through_s: u64,
    },
    /// Insert the messages of the open block, under the block's tokens.
    Repeat {
        /// Sequence of its first message.
        first: u64,
        /// Sequence of its last message.
        last: u64,
    },
    /// Gather a block from this sequence on.
    Gather {
        /// Sequence behind the last block.
        from: u64,
    },
}

/// What the record asks for.
pub fn todo(record: &BlockRecord) -> Todo {
    if record.closing_to_s != 0 {
        return Todo::Close {
            through_s: record.closing_to_s,
        };
    }
    if record.done {
        Todo::Gather {
            from: record.last + 1,
        }
    } else {
        Todo::Repeat {
            first: record.first,
            last: record.last,
        }
    }
}

/// Whether a block or a close is under way.
pub fn is_busy(record: &BlockRecord) -> bool {
    !matches!(todo(record), Todo::Gather { .. })
}

/// The record of a partition that has none.
pub fn fresh(partition: u16) -> BlockRecord {
    BlockRecord {
        schema_version: SCHEMA_VERSION,
        partition: partition.into(),
        done: true,
        ..BlockRecord::default()
    }
}

/// A new block of the messages `first` through `last`. Ingest times only grow: what a close has covered gets no more rows.
pub fn open(record: BlockRecord, first: u64, last: u64, now_s: u64) -> BlockRecord {
    let created_wall_s = now_s.max(record.created_wall_s + 1);
    // Nothing was ingested before the first block.
    let nothing_yet = record.created_wall_s == 0;
    BlockRecord {
        schema_version: SCHEMA_VERSION,
        first,
        last,
        created_wall_s,
        done: false,
        closed_through_s: if nothing_yet {
            created_wall_s - 1
        } else {
            record.closed_through_s
        },
        ..record
    }
}

/// A sink waits at most so long for a hold that nobody ends, from when it first saw it.
pub const HELD_AT_MOST: Duration = Duration::from_mins(5);

/// Clocks of a sink and of whoever holds it may differ by so much, in seconds.
const CLOCKS_DIFFER_S: u64 = 3_600;

/// Whether somebody holds the partition: until then no block and no close is begun. `seen` is how long this very hold was seen
/// already: that, and no clock, bounds it. One that ran out long ago, by whatever clock, holds nobody.
pub fn is_held(record: &BlockRecord, now_s: u64, seen: Duration) -> bool {
    record.held_until_s.saturating_add(CLOCKS_DIFFER_S) > now_s
        && record.held_until_s != 0
        && seen < HELD_AT_MOST
}

/// The record while somebody replaces rows; `None`: a block or a close is under way, and ends first.
pub fn held(record: &BlockRecord, until_s: u64) -> Option<BlockRecord> {
    (!is_busy(record)).then_some(BlockRecord {
        held_until_s: until_s,
        ..*record
    })
}

/// The record when that is done.
pub fn released(record: &BlockRecord) -> BlockRecord {
    BlockRecord {
        held_until_s: 0,
        ..*record
    }
}

/// Every table has the block's rows.
pub fn done(record: BlockRecord) -> BlockRecord {
    BlockRecord {
        done: true,
        ..record
    }
}

/// The close that is due after a finished block: through the block's ingest time, once an interval after the last close,
/// or as soon as what is not closed is `large`, which bounds what a close takes.
pub fn close_due(
    record: &BlockRecord,
    every_s: u64,
    now_s: u64,
    large: bool,
) -> Option<BlockRecord> {
    let (ingested, closed) = (record.created_wall_s, record.closed_through_s);
    let news = record.done && record.closing_to_s == 0 && ingested > closed;
    (news && (large || now_s / every_s > closed / every_s)).then_some(BlockRecord {
        closing_to_s: ingested,
        ..*record
    })
}

/// The close is published.
pub fn closed(record: BlockRecord) -> BlockRecord {
    BlockRecord {
        closed_through_s: record.closing_to_s,
        closing_to_s: 0,
        ..record
    }
}

/// After a write that found another revision than the one known: whether what is there is this very record, so that it
/// was our own write whose answer got lost (or a twin's equal one, which asks for the same).
pub fn is_mine(wrote: &BlockRecord, found: &BlockRecord) -> bool {
    wrote == found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_is_due_once_an_interval_and_only_if_something_was_stored_since() {
        let record = |created_wall_s, closed_through_s, done| BlockRecord {
            created_wall_s,
            closed_through_s,
            done,
            ..BlockRecord::default()
        };
        let cases = [
            (record(3_599, 3_000, true), 3_600, Some(3_599)),
            (record(3_599, 3_000, true), 3_599, None),
            (record(3_599, 3_000, false), 3_600, None),
            (record(3_599, 3_599, true), 9_000, None),
            // Ingest times run ahead of the clock when blocks come faster than one a second.
            (record(9_000, 7_300, true), 10_799, None),
            (record(12_000, 7_300, true), 10_800, Some(12_000)),
        ];
        for (record, now_s, expected) in cases {
            let due = close_due(&record, 3_600, now_s, false).map(|record| record.closing_to_s);
            assert_eq!(due, expected, "{record:?} at {now_s}");
        }
        // Much that is not closed does not wait, unless the block is open or there is nothing new.
        for (record, expected) in [
            (record(3_599, 3_000, true), Some(3_599)),
            (record(3_599, 3_000, false), None),
            (record(3_599, 3_599, true), None),
        ] {
            let due = close_due(&record, 3_600, 3_599, true).map(|record| record.closing_to_s);
            assert_eq!(due, expected, "{record:?}");
        }
    }

    #[test]
    fn a_partition_is_held_between_blocks_only_and_not_for_ever() {
        let between = done(open(fresh(1), 1, 9, 100));
        let busy = [
            open(between, 10, 12, 200),
            close_due(&between, 100, 300, false).unwrap(),
        ];
        for record in busy {
            assert_eq!(held(&record, 400), None, "{record:?}");
        }
        let record = held(&between, 400).unwrap();
        let second = Duration::from_secs(1);
        let cases = [
            (399, Duration::ZERO, true),
            (390, HELD_AT_MOST.saturating_sub(second), true),
            (390, HELD_AT_MOST, false),
            // The sink's clock is ahead, behind, far ahead.
            (1_000, second, true),
            (0, second, true),
            (100_000, Duration::ZERO, false),
        ];
        for (now_s, seen, expected) in cases {
            assert_eq!(is_held(&record, now_s, seen), expected, "{now_s} {seen:?}");
        }
        assert!(!is_held(&between, 1, Duration::ZERO));
        assert_eq!(released(&record), between);
        assert_eq!(
            todo(&record),
            todo(&between),
            "what comes next is as before"
        );
        assert!(held(&fresh(1), 400).is_some(), "nothing has come yet");
    }

    #[test]
    fn a_record_says_what_comes_next_whoever_reads_it() {
        let empty = fresh(3);
        assert_eq!(todo(&empty), Todo::Gather { from: 1 });
        let block = open(empty, 1, 9, 100);
        assert_eq!((block.created_wall_s, block.closed_through_s), (100, 99));
        assert_eq!(todo(&block), Todo::Repeat { first: 1, last: 9 });
        assert_eq!(todo(&done(block)), Todo::Gather { from: 10 });
        let next = open(done(block), 10, 12, 100);
        assert_eq!(
            (next.created_wall_s, next.closed_through_s),
            (101, 99),
            "a block of the same second is later all the same"
        );
        let closing = close_due(&done(next), 100, 300, false).unwrap();
        assert_eq!(todo(&closing), Todo::Close { through_s: 101 });
        let after = closed(closing);
        assert_eq!(todo(&after), Todo::Gather { from: 13 });
        assert_eq!(after.closed_through_s, 101);
    }
}

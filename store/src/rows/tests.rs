use memwide_model::{Context, Locality, LocalityBasis, Moments, Op, Tier};

use super::*;
use crate::native::{NamedCodes, walk};

fn mix(time: u32, host: &str) -> MixRow<'_> {
    MixRow {
        time,
        host,
        workload_id: 1,
        event_id: 2,
        event: "minor-faults",
        tier: Tier::Software,
        op: Op::Unknown,
        level: memwide_model::Level::None,
        outcome: memwide_model::Outcome::Unknown,
        locality: Locality::Remote,
        locality_basis: LocalityBasis::Page,
        context: Context::User,
        sums: Sums {
            moments: Moments {
                n: 3,
                ..Moments::default()
            },
            n_page_remote: 3,
            ..Sums::default()
        },
    }
}

#[test]
fn rows_of_several_days_become_a_block_each() {
    let mut rows = Mix1m::default();
    for time in [86_400, 86_399, 2 * 86_400 - 1, 0] {
        rows.push(&mix(time, "a"));
    }
    assert_eq!(rows.rows(), 4);
    let blocks = rows.finish();
    assert_eq!(
        blocks
            .iter()
            .map(|b| (b.table, b.day, b.rows))
            .collect::<Vec<_>>(),
        [("mix_1m", 0, 2), ("mix_1m", 1, 2)]
    );
}

#[test]
fn a_block_holds_the_named_columns_in_order() {
    let mut rows = Mix1m::default();
    rows.push(&mix(60, "host-a"));
    let blocks = rows.finish();
    let view = walk(&blocks[0].bytes).unwrap();
    assert_eq!(view.names(), Mix1m::columns());
    let column = |name: &str| view.columns.iter().find(|c| c.name == name).unwrap();
    assert_eq!(column("n").data, 3_u64.to_le_bytes());
    assert_eq!(column("n_page_remote").data, 3_u64.to_le_bytes());
    assert_eq!(
        column("locality").kind,
        "Enum8('unknown' = 0, 'local' = 1, 'remote' = 2)"
    );
    assert_eq!(column("locality").data, [2]);
}

#[test]
fn nothing_gathered_is_no_block() {
    assert!(Samples::default().finish().is_empty());
}

#[test]
fn the_ledger_has_a_tier_for_lines_about_no_event() {
    assert_eq!(TierOrNone(None).stored_code(), 0);
    assert_eq!(
        TierOrNone::stored_type(),
        "Enum8('none' = 0, 'software' = 1, 'event' = 2, 'precise' = 3)"
    );
}

#[test]
fn the_size_is_known_before_the_block_is_written() {
    let mut rows = Mix1m::default();
    for i in 0..1000 {
        rows.push(&mix(i, "a"));
    }
    let (before, after) = (
        rows.bytes(),
        rows.finish().iter().map(|b| b.bytes.len()).sum::<usize>(),
    );
    assert!(before <= after && after < before + 4096, "{before} {after}");
}

use super::*;
use proptest::prelude::*;

fn area(start: u64, end: u64, object: usize) -> Area {
    Area {
        start,
        end,
        offset: start,
        object: ObjectIx::at(object).unwrap(),
        access: Access::default(),
    }
}

fn object_at(space: &mut Space, address: u64, time: u64) -> Option<usize> {
    let found = space.lookup(address, time)?;
    assert_eq!(found.offset_of(address), address, "offset of {address:#x}");
    Some(found.object.index())
}

#[test]
fn a_mapping_over_another_splits_it_and_the_past_stays() {
    let mut space = Space::default();
    space.insert(area(100, 200, 1), 10);
    space.insert(area(120, 140, 2), 20);
    for (address, time, object) in [
        (130, 9, None),
        (130, 10, Some(1)),
        (130, 19, Some(1)),
        (130, 20, Some(2)),
        (110, 30, Some(1)),
        (150, 30, Some(1)),
        (200, 30, None),
    ] {
        assert_eq!(
            object_at(&mut space, address, time),
            object,
            "{address} at {time}"
        );
    }
}

#[test]
fn what_is_mapped_has_one_stamp_however_it_came_about() {
    let (mut one, mut other) = (Space::default(), Space::default());
    assert_eq!(one.stamp(), other.stamp());
    one.insert(area(100, 200, 1), 10);
    assert_ne!(one.stamp(), other.stamp());
    other.insert(area(300, 400, 2), 5);
    other.insert(area(100, 200, 1), 7);
    assert_ne!(one.stamp(), other.stamp());
    one.insert(area(300, 400, 2), 11);
    let both = one.stamp();
    assert_eq!(both, other.stamp());
    one.insert(area(120, 140, 3), 12);
    assert_ne!(one.stamp(), both);
    other.remove(300, 400, 20);
    assert_ne!(other.stamp(), both);
    other.insert(area(300, 400, 2), 21);
    assert_eq!(other.stamp(), both);
    other.clear(30);
    assert_eq!(other.stamp(), Space::default().stamp());
}

#[test]
fn a_late_record_lasts_until_the_later_ones_begin() {
    let mut space = Space::default();
    space.insert(area(100, 120, 2), 20);
    space.insert(area(90, 130, 1), 10);
    for (address, time, object) in [
        (110, 15, Some(1)),
        (110, 25, Some(2)),
        (95, 25, Some(1)),
        (125, 25, Some(1)),
    ] {
        assert_eq!(
            object_at(&mut space, address, time),
            object,
            "{address} at {time}"
        );
    }
}

#[test]
fn an_exec_ends_everything_before_it_also_what_is_entered_late() {
    let mut space = Space::default();
    space.insert(area(100, 200, 1), 10);
    space.clear(50);
    space.insert(area(100, 200, 2), 60);
    space.insert(area(300, 400, 3), 40);
    for (address, time, object) in [
        (150, 49, Some(1)),
        (150, 55, None),
        (150, 60, Some(2)),
        (350, 45, Some(3)),
        (350, 55, None),
    ] {
        assert_eq!(
            object_at(&mut space, address, time),
            object,
            "{address} at {time}"
        );
    }
}

#[test]
fn what_ended_before_the_horizon_is_forgotten() {
    let mut space = Space::default();
    space.insert(area(100, 200, 1), 10);
    space.insert(area(100, 200, 2), 20);
    space.prune(20);
    assert_eq!(object_at(&mut space, 150, 15), None);
    assert_eq!(object_at(&mut space, 150, 25), Some(2));
    assert_eq!(space.count(), 1);
}

#[test]
fn the_same_mapping_again_changes_nothing() {
    let mut space = Space::default();
    for time in [10, 20, 5] {
        space.insert(area(100, 200, 1), time);
    }
    assert_eq!(space.count(), 1);
    assert_eq!(object_at(&mut space, 100, 5), Some(1));
}

#[test]
fn a_flood_of_mappings_stays_within_bounds_and_is_counted() {
    let mut space = Space::default();
    for time in 0..10_000_u64 {
        space.insert(area(100, 200, usize::try_from(time).unwrap()), time);
    }
    assert!(space.count() <= OLD_MAX + 1, "{}", space.count());
    assert!(space.take_dropped() > 0);
    assert_eq!(object_at(&mut space, 100, 9_999), Some(9_999));
}

proptest! {
    /// Entered in order of time, the newest mapping at or before a time that covers the address holds.
    #[test]
    fn lookups_equal_a_scan_of_all_records(
        records in prop::collection::vec((0u64..60, 1u64..30), 1..40),
        asked in prop::collection::vec((0u64..100, 0u64..45), 1..50),
    ) {
        let mut space = Space::default();
        for (at, (start, len)) in records.iter().enumerate() {
            space.insert(area(*start, start + len, at), at as u64);
        }
        for (address, time) in asked {
            let scan = records.iter().enumerate().rev().find(|(at, (start, len))| {
                *at as u64 <= time && (*start..start + len).contains(&address)
            });
            let expected = scan.map(|(at, _)| at);
            prop_assert_eq!(object_at(&mut space, address, time), expected);
        }
    }

    /// Any order of entry is safe, and now is the same as in order where mappings do not share times.
    #[test]
    fn any_order_of_entry_gives_the_same_present(
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        records in prop::collection::vec((0u64..30, 1u64..30), 8),
    ) {
        let build = |order: &[usize]| {
            let mut space = Space::default();
            for at in order {
                let (start, len) = records[*at];
                space.insert(area(start, start + len, *at), *at as u64);
            }
            space
        };
        let (mut sorted, mut shuffled) = (build(&[0, 1, 2, 3, 4, 5, 6, 7]), build(&order));
        for address in 0..60 {
            let (one, two) = (object_at(&mut sorted, address, 100), object_at(&mut shuffled, address, 100));
            prop_assert_eq!(one, two, "address {}", address);
        }
    }
}

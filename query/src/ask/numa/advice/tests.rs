use super::*;

const ALL: Evidence = Evidence {
    known: 100,
    known_of_all: 200,
    processes: 2,
    on_one_page_node: 100,
    from_one_cpu_node: 100,
    on_pages_met_again: 90,
    on_pages_of_one_cpu_node: 45,
    stores_on_data: 3,
    stores_seen: 400,
    data_share: 1.0,
};

#[test]
fn each_pattern_has_its_advice_with_its_numbers() {
    let check = |evidence: Evidence, advice: Advice, says: &str| {
        let (found, because) = evidence.advice();
        assert_eq!(found, advice, "{because}");
        assert!(because.contains(says), "{because}");
    };
    check(
        Evidence {
            from_one_cpu_node: 194,
            ..ALL
        },
        Advice::Bind,
        "97 % (194 of 200) of all accesses come from CPUs of one node",
    );
    check(
        Evidence {
            on_pages_of_one_cpu_node: 88,
            ..ALL
        },
        Advice::FirstTouch,
        "98 % (88 of 90)",
    );
    check(ALL, Advice::Interleave, "50 % (45 of 90)");
    check(
        Evidence {
            stores_on_data: 0,
            ..ALL
        },
        Advice::Replicate,
        "400 stores elsewhere",
    );
    // Of 32 samples of 20 processes 29 are on "one" node by chance.
    check(
        Evidence {
            known: 32,
            on_one_page_node: 29,
            processes: 20,
            ..ALL
        },
        Advice::None,
        "32 remote samples of 20 processes",
    );
    check(
        Evidence {
            known_of_all: 100,
            from_one_cpu_node: 100,
            ..ALL
        },
        Advice::Bind,
        "the event shows remote accesses alone",
    );
    // Without stores seen anywhere nobody can say that data is only read.
    check(
        Evidence {
            stores_on_data: 0,
            stores_seen: 0,
            ..ALL
        },
        Advice::Interleave,
        "numactl --interleave",
    );
    check(
        Evidence {
            on_one_page_node: 60,
            ..ALL
        },
        Advice::None,
        "no single cause",
    );
    check(
        Evidence { known: 29, ..ALL },
        Advice::None,
        "29 remote samples",
    );
    check(
        Evidence {
            on_pages_met_again: 10,
            ..ALL
        },
        Advice::None,
        "10 of them are on pages met twice",
    );
}

#[test]
fn the_gain_compares_equal_levels_only_and_is_none_without_a_baseline() {
    let mut latency = Latency {
        weight: 100_000.0,
        ..Latency::default()
    };
    let level = |name: &str| [name.to_owned(), "hit".to_owned()];
    latency
        .levels
        .insert(level("RAM"), [(100, 60_000.0), (50, 15_000.0)]);
    latency
        .levels
        .insert(level("L3"), [(10, 9_000.0), (29, 1_000.0)]);
    let (gain, basis) = latency.gain();
    // 100 remote ones at 600 against 300.
    assert_eq!(gain, Some(0.3));
    assert!(basis.contains("100 remote") && basis.contains("10 more have no local baseline"));
    latency.levels.remove(&level("RAM"));
    assert_eq!(latency.gain().0, None);
    assert_eq!(Latency::default().gain().0, None);
}

use super::*;

fn by(function: &'static str) -> By<'static> {
    By {
        comm: "prog",
        site: Site::named(function),
    }
}

fn sums(allocs: &Allocs, function: &str) -> Sums {
    let rows = allocs.rows();
    rows.iter()
        .find(|row| row.site.function == function)
        .unwrap()
        .sums
}

#[test]
fn leaks_grow_and_churn_goes() {
    let mut allocs = Allocs::default();
    for at in 0..10_u64 {
        allocs.alloc(Kind::Slab, Some(at * 64), 64, &by("leak"));
        allocs.alloc(Kind::Pages, Some(1000 + at), 4096, &by("churn"));
        allocs.free(Kind::Pages, Some(1000 + at), 4096, true);
    }
    allocs.free(Kind::Slab, Some(0xdead), 0, true);
    allocs.free(Kind::Slab, Some(0xbeef), 0, false);
    let leak = sums(&allocs, "leak");
    assert_eq!(
        (leak.n, leak.live_bytes(), leak.pattern(Kind::Slab)),
        (10, 640, "growth")
    );
    let churn = sums(&allocs, "churn");
    assert_eq!(
        (churn.n, churn.live_bytes(), churn.pattern(Kind::Pages)),
        (10, 0, "churn")
    );
    assert_eq!(allocs.unmatched(Kind::Slab), (1, 0));
    assert_eq!(allocs.rows()[0].site.function, "leak", "growth comes first");
}

#[test]
fn large_blocks_that_go_do_not_hide_small_ones_that_stay() {
    let mut allocs = Allocs::default();
    for at in 0..20_u64 {
        allocs.alloc(Kind::Slab, Some(at), 100, &by("mixed"));
        allocs.alloc(Kind::Slab, Some(1000 + at), 100_000, &by("mixed"));
        allocs.free(Kind::Slab, Some(1000 + at), 100_000, true);
    }
    assert_eq!(sums(&allocs, "mixed").pattern(Kind::Slab), "both");
}

#[test]
fn mappings_are_known_from_the_kernels_answer() {
    let mut allocs = Allocs::default();
    allocs.ask_map(Kind::Map, 1, 0x4000, &by("map"));
    allocs.answered(1, 1, 0x7000_0000);
    allocs.ask_map(Kind::Map, 1, 0x4000, &by("refused"));
    allocs.answered(1, 1, -12);
    allocs.unmap(1, 0x7000_1000, 0x1000, true);
    let map = sums(&allocs, "map");
    assert_eq!(
        (map.n, map.bytes, map.freed_bytes, map.freed_n),
        (1, 0x4000, 0x1000, 0)
    );
    assert!(
        allocs
            .rows()
            .iter()
            .all(|row| row.site.function != "refused")
    );
    allocs.unmap(1, 0x9000_0000, 0x2000, true);
    assert_eq!(allocs.unmatched(Kind::Map), (1, 0x2000));
    // Another process has other memory at the same address.
    allocs.unmap(2, 0x7000_0000, 0x1000, true);
    assert_eq!(sums(&allocs, "map").freed_bytes, 0x1000);
    allocs.ask_remap(1, 0x7000_0000, 0x1000, 0x8000, &by("grow"));
    allocs.answered(1, 1, 0x7100_0000);
    assert_eq!(sums(&allocs, "map").freed_bytes, 0x2000);
    assert_eq!(sums(&allocs, "grow").bytes, 0x8000);
}

#[test]
fn what_starting_takes_is_no_memory_that_grows() {
    const READ_WRITE: u64 = 3;
    const PRIVATE: u64 = 2;
    for (prot, flags, dso, kind) in [
        (READ_WRITE, PRIVATE | ANONYMOUS, "prog", Kind::Map),
        (READ_WRITE, PRIVATE | ANONYMOUS, "libc.so.6", Kind::Map),
        (
            READ_WRITE,
            PRIVATE | ANONYMOUS,
            "ld-linux-x86-64.so.2",
            Kind::Loader,
        ),
        (
            READ_WRITE,
            PRIVATE | ANONYMOUS,
            "ld-musl-x86_64.so.1",
            Kind::Map,
        ),
        (0, PRIVATE | ANONYMOUS | 0x2_0000, "libc.so.6", Kind::Stack),
        (0, PRIVATE | ANONYMOUS, "libc.so.6", Kind::Reserved),
        (READ_WRITE, PRIVATE, "prog", Kind::File),
    ] {
        assert_eq!(Kind::of_map(prot, flags, dso), kind, "{dso}");
    }
    let mut allocs = Allocs::default();
    allocs.at(5);
    allocs.ask_map(Kind::Stack, 1, 8 << 20, &by("start_thread"));
    allocs.answered(1, 1, 1 << 40);
    allocs.at(9);
    allocs.ask_map(Kind::Map, 1, 4096, &by("kept"));
    allocs.answered(1, 1, 1 << 41);
    let rows = allocs.rows();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.site.function,
                row.sums.pattern(row.kind),
                row.sums.window_ns,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("kept", "growth", Some((9, 9))),
            ("start_thread", "kept", Some((5, 5)))
        ],
        "memory comes first"
    );
}

#[test]
fn the_heap_grows_and_shrinks_by_its_end() {
    let mut allocs = Allocs::default();
    for (function, end) in [
        ("start", 0x1000),
        ("grow", 0x5000),
        ("grow", 0x6000),
        ("trim", 0x3000),
    ] {
        allocs.ask_break(7, &by(function));
        allocs.answered(7, 7, end);
    }
    let grow = sums(&allocs, "grow");
    assert_eq!((grow.n, grow.bytes, grow.freed_bytes), (2, 0x5000, 0x3000));
    assert_eq!(
        allocs.rows().len(),
        1,
        "asking where the heap ends allocates nothing"
    );
}

#[test]
fn another_program_has_another_heap_and_a_child_its_parents() {
    let mut allocs = Allocs::default();
    let moves = |allocs: &mut Allocs, pid, function, end| {
        allocs.ask_break(pid, &by(function));
        allocs.answered(pid, pid, end);
    };
    moves(&mut allocs, 7, "query", 0x1000);
    moves(&mut allocs, 7, "before", 0x5000);
    allocs.fork(7, 8);
    moves(&mut allocs, 8, "child", 0x9000);
    allocs.exec(7);
    moves(&mut allocs, 7, "query", 0x7000_0000);
    moves(&mut allocs, 7, "after", 0x7000_2000);
    assert_eq!(sums(&allocs, "child").bytes, 0x4000);
    assert_eq!(
        sums(&allocs, "before").live_bytes(),
        0,
        "gone with the exec"
    );
    assert_eq!(sums(&allocs, "after").bytes, 0x2000);
    let mut kept: Vec<_> = allocs
        .kept()
        .flat_map(|(pid, kept)| kept.into_iter().map(move |kept| (pid, kept.bytes, kept.n)))
        .collect();
    kept.sort_unstable();
    assert_eq!(kept, [(7, 0x2000, 1), (8, 0x4000, 1)]);
}

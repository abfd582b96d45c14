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
    allocs.ask_map(1, 0x4000, &by("map"));
    allocs.answered(1, 1, 0x7000_0000);
    allocs.ask_map(1, 0x4000, &by("refused"));
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

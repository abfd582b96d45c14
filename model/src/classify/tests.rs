use super::*;
fn word() -> DataSrc {
    DataSrc::default()
}

#[test]
fn the_highest_snoop_answer_is_shown() {
    for (mask, more, shown) in [
        (0, 0, Snoop::Unknown),
        (snoop::NA, 0, Snoop::Unknown),
        (snoop::NONE, 0, Snoop::None),
        (snoop::NONE | snoop::MISS, 0, Snoop::Miss),
        (snoop::HIT | snoop::MISS, 0, Snoop::Hit),
        (snoop::HIT, snoopx::PEER, Snoop::Peer),
        (snoop::HIT, snoopx::PEER | snoopx::FWD, Snoop::Fwd),
        (snoop::HITM, snoopx::FWD, Snoop::HitM),
    ] {
        let got = classify(word().with_snoop(mask).with_snoopx(more), Pmu::Other).snoop;
        assert_eq!(got, shown, "{mask:#x} {more:#x}");
    }
}

#[test]
fn translations_keep_what_cannot_be_separated() {
    for (mask, shown) in [
        (0, Tlb::Unknown),
        (tlb::NA, Tlb::Unknown),
        (tlb::HIT | tlb::L1 | tlb::L2, Tlb::L1OrL2Hit),
        (tlb::HIT | tlb::L1, Tlb::L1Hit),
        (tlb::HIT | tlb::L2, Tlb::L2Hit),
        (tlb::MISS | tlb::L2, Tlb::Walk),
        (tlb::HIT | tlb::WK, Tlb::Walk),
        (tlb::MISS | tlb::OS, Tlb::Fault),
        (tlb::MISS, Tlb::Miss),
        (tlb::MISS | tlb::L1, Tlb::Miss),
    ] {
        let got = classify(word().with_dtlb(mask), Pmu::Other).tlb;
        assert_eq!(got, shown, "{mask:#x}");
    }
}

#[test]
fn operations_locks_and_blocks() {
    let of = |word| classify(word, Pmu::Other);
    for (mask, shown) in [
        (0, Op::Unknown),
        (op::NA, Op::None),
        (op::LOAD, Op::Load),
        (op::STORE, Op::Store),
        (op::LOAD | op::STORE, Op::LoadStore),
        (op::PFETCH, Op::Prefetch),
        (op::EXEC, Op::Exec),
    ] {
        assert_eq!(of(word().with_op(mask)).op, shown, "{mask:#x}");
    }
    assert!(of(word().with_lock(lock::LOCKED)).locked);
    assert!(!of(word().with_lock(lock::NA)).locked);
    assert_eq!(
        of(word().with_blk(blk::DATA | blk::ADDR)).blocked,
        Blocked::DataAddress
    );
    assert_eq!(of(word().with_blk(blk::NA)).blocked, Blocked::Unknown);
}

#[test]
fn the_same_word_without_any_bit_is_unknown_everywhere() {
    let got = classify(word(), Pmu::Other);
    assert_eq!(
        got,
        Classified {
            level: Level::Unknown,
            ..Classified::NONE
        }
    );
}

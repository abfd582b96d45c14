use super::*;
use memwide_model::data_src::{lvl, snoop};

const HITM: DataSrc = DataSrc::with_snoop(
    DataSrc::with_lvl(DataSrc::with_op(DataSrc(0), op::LOAD), lvl::HIT | lvl::L3),
    snoop::HITM,
);
const STORE: DataSrc =
    DataSrc::with_lvl(DataSrc::with_op(DataSrc(0), op::STORE), lvl::HIT | lvl::L1);
const LOAD: DataSrc = DataSrc::with_lvl(DataSrc::with_op(DataSrc(0), op::LOAD), lvl::HIT | lvl::L1);

fn access(word: DataSrc, addr: u64, tid: u32) -> Access<'static> {
    Access {
        watched: false,
        word,
        addr,
        place: addr,
        data_dso: Some("//anon"),
        variable: None,
        region: Region::Anonymous,
        mode: Mode::User,
        pid: 10,
        tid,
        cpu: Some(tid % 4),
        phys: 0,
        node: None,
        weight: 100,
        ip: 0x400 + u64::from(tid),
        symbol: Some("work"),
        dso: Some("prog"),
    }
}

fn lines(accesses: &[Access<'_>]) -> Lines {
    let mut lines = Lines::new(LineSize::Single);
    for access in accesses {
        lines.add(access);
    }
    lines
}

#[track_caller]
fn check(accesses: &[Access<'_>], kind: Kind) -> Verdict {
    let lines = lines(accesses);
    let shared = lines.shared(Display::Total, Coalesce::default(), true);
    assert_eq!(shared.listed.len(), 1, "one line");
    let verdict = shared.listed[0].verdict.clone();
    let split = verdict.apart + verdict.together + verdict.both + verdict.unseen;
    assert_eq!(split, verdict.contended, "the split sums to n");
    assert_eq!(verdict.kind, kind, "{verdict:?}");
    verdict
}

#[test]
fn variables_in_memory_that_no_file_backs_are_each_processs_own() {
    let of = |pid: u32, dso| Access {
        pid,
        region: Region::Global,
        data_dso: Some(dso),
        ..access(LOAD, 0x40, pid)
    };
    let count = |dso| lines(&[of(10, dso), of(11, dso)]).count();
    assert_eq!(count("//anon"), 2);
    assert_eq!(count("/bin/prog"), 1, "as perf has it");
}

#[test]
fn writers_at_other_offsets_make_false_sharing() {
    let verdict = check(
        &[
            access(HITM, 0x1000, 1),
            access(HITM, 0x1000, 1),
            access(STORE, 0x1008, 2),
        ],
        Kind::FalseSharing,
    );
    assert_eq!((verdict.contended, verdict.apart), (2, 2));
    let (victim, writer) = (verdict.victim.unwrap(), verdict.writer.unwrap());
    assert_eq!((victim.offset, victim.thread, victim.n), (0, 1, 2));
    assert_eq!((writer.offset, writer.thread, writer.n), (8, 2, 1));
}

#[test]
fn a_writer_at_the_same_offset_makes_true_sharing() {
    check(
        &[access(HITM, 0x1000, 1), access(STORE, 0x1000, 2)],
        Kind::TrueSharing,
    );
}

#[test]
fn a_thread_is_no_sharer_with_itself() {
    check(
        &[access(HITM, 0x1000, 1), access(STORE, 0x1008, 1)],
        Kind::WriterUnseen,
    );
    check(
        &[access(LOAD, 0x1000, 1), access(STORE, 0x1008, 1)],
        Kind::NotShared,
    );
}

#[test]
fn two_writers_each_hitting_the_others_word_are_false_sharing() {
    let accesses = [
        access(HITM, 0x1000, 1),
        access(STORE, 0x1000, 1),
        access(HITM, 0x1010, 2),
        access(STORE, 0x1010, 2),
    ];
    check(&accesses, Kind::FalseSharing);
}

#[test]
fn locked_loads_write() {
    let locked = HITM.with_lock(lock::LOCKED);
    check(
        &[access(locked, 0x1000, 1), access(locked, 0x1000, 2)],
        Kind::TrueSharing,
    );
}

#[test]
fn hitm_without_a_writer_in_sight_says_so() {
    check(
        &[access(HITM, 0x1000, 1), access(LOAD, 0x1008, 2)],
        Kind::WriterUnseen,
    );
}

#[test]
fn stores_alone_are_contention_by_where_they_go() {
    check(
        &[access(STORE, 0x1000, 1), access(STORE, 0x1000, 2)],
        Kind::StoresTogether,
    );
    check(
        &[access(STORE, 0x1000, 1), access(STORE, 0x1020, 2)],
        Kind::StoresApart,
    );
    check(
        &[access(LOAD, 0x1000, 1), access(STORE, 0x1020, 2)],
        Kind::ReadsApart,
    );
}

#[test]
fn private_copies_of_one_files_line_are_not_shared() {
    let of = |word, addr, pid| Access {
        data_dso: Some("lib.so"),
        region: Region::Global,
        pid,
        ..access(word, addr, pid)
    };
    check(
        &[of(HITM, 0x1000, 1), of(STORE, 0x1008, 2)],
        Kind::WriterUnseen,
    );
    let phys = |access: Access<'static>, phys| Access { phys, ..access };
    check(
        &[
            phys(of(HITM, 0x1000, 1), 0x8000),
            phys(of(STORE, 0x1008, 2), 0x8008),
        ],
        Kind::FalseSharing,
    );
}

#[test]
fn private_memory_of_two_processes_is_two_lines_and_padding_ends_sharing() {
    let one = access(HITM, 0x1000, 1);
    let other = Access {
        pid: 11,
        ..access(STORE, 0x1008, 2)
    };
    assert_eq!(lines(&[one.clone(), other]).count(), 2);
    assert_eq!(lines(&[one.clone(), access(STORE, 0x1040, 2)]).count(), 2);
    let mut double = Lines::new(LineSize::Double);
    double.add(&one);
    double.add(&access(STORE, 0x1040, 2));
    assert_eq!(double.count(), 1);
}

#[test]
fn sites_are_told_apart_as_asked_and_sum_to_the_line() {
    let accesses = [
        access(HITM, 0x1000, 1),
        Access {
            ip: 0x400,
            weight: 300,
            ..access(HITM, 0x1000, 2)
        },
        Access {
            ip: 0x400,
            ..access(HITM, 0x1000, 1)
        },
    ];
    let lines = lines(&accesses);
    let sites = |coalesce: &str| {
        let coalesce = Coalesce::parse(coalesce).unwrap();
        let shared = lines.shared(Display::Total, coalesce, false);
        let rows = &shared.listed[0].sites();
        rows.iter()
            .map(|row| row.counts.get(Counter::Hitm))
            .collect::<Vec<_>>()
    };
    assert_eq!(sites("iaddr"), [2, 1]);
    assert_eq!(sites("tid"), [2, 1]);
    assert_eq!(sites("pid"), [3]);
    assert_eq!(sites("tid,iaddr").len(), 3);
    assert!(Coalesce::parse("ip").is_err());
    let shared = lines.shared(Display::Total, Coalesce::default(), false);
    let row = &shared.listed[0].sites()[0];
    assert_eq!(row.latencies.local_hitm, Mean { n: 2, sum: 400 });
    assert_eq!(row.cpus.members(), [1, 2]);
}

#[test]
fn lines_are_listed_by_what_is_displayed() {
    let remote = HITM.with_lvl(lvl::HIT | lvl::REM_CCE1);
    let peer = LOAD.with_lvl(lvl::HIT | lvl::L2).with_snoopx(snoopx::PEER);
    let lines = lines(&[
        access(HITM, 0x1000, 1),
        access(remote, 0x2000, 1),
        access(remote, 0x2000, 2),
        access(peer, 0x3000, 1),
        access(LOAD, 0x4000, 1),
    ]);
    let listed = |display| {
        let shared = lines.shared(display, Coalesce::default(), false);
        shared
            .listed
            .iter()
            .map(|line| line.address)
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(Display::Total), [0x2000, 0x1000]);
    assert_eq!(listed(Display::Local), [0x1000]);
    assert_eq!(listed(Display::Remote), [0x2000]);
    assert_eq!(listed(Display::Peer), [0x3000]);
    assert_eq!(Display::fitting(lines.total()), Display::Total);
}

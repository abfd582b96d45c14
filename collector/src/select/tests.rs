use memwide_perf_abi::{encode, kind};

use super::Mode::{Guest, Kernel, User};
use super::*;

const WITH_CGROUP: u64 = 1;
const WITHOUT: u64 = 2;

fn config(include: &[&str], exclude: &[&str]) -> SelectConfig {
    let all = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    SelectConfig {
        include: all(include),
        exclude: all(exclude),
        ..SelectConfig::default()
    }
}

fn record(kind: u32, words: &[u64]) -> Vec<u8> {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut out = Vec::new();
    encode::raw(&mut out, kind, 0, &body).unwrap();
    out
}

fn comm(pid: u32, name: &str) -> Vec<u8> {
    let mut bytes = [0; 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let task = u64::from(pid) | u64::from(pid) << 32;
    record(kind::COMM, &[task, u64::from_le_bytes(bytes), 0])
}

fn fork(pid: u32, parent: u32) -> Vec<u8> {
    let task = u64::from(pid) | u64::from(parent) << 32;
    record(kind::FORK, &[task, task, 0])
}

fn exit(pid: u32) -> Vec<u8> {
    let task = u64::from(pid) | 1 << 32;
    record(
        kind::EXIT,
        &[task, u64::from(pid) | u64::from(pid) << 32, 0],
    )
}

/// Of an event that tells the cgroup (0 stands for one that does not).
fn of(pid: u32, cgroup: u64) -> Vec<u8> {
    match cgroup {
        0 => record(kind::SAMPLE, &[WITHOUT, 0xabc, u64::from(pid)]),
        _ => record(
            kind::SAMPLE,
            &[WITH_CGROUP, 0xabc, u64::from(pid), cgroup, 4096],
        ),
    }
}

/// A machine with two pods: the first in cgroup 10 and 11 (namespace `shop`), the other in 20.
fn selection(config: &SelectConfig) -> Selection {
    let mut all = Selection::new(config).unwrap().unwrap();
    let cgroup = sample::IDENTIFIER | sample::IP | sample::TID | sample::CGROUP;
    for (id, sample_type) in [
        (WITH_CGROUP, cgroup | sample::DATA_PAGE_SIZE),
        (WITHOUT, sample::IDENTIFIER | sample::IP | sample::TID),
    ] {
        let attr = Attr {
            sample_type,
            ..Attr::default()
        };
        all.know_event(&EventDesc {
            ids: vec![id],
            attr: attr.encode(136),
            ..EventDesc::default()
        });
    }
    for (cgroup_id, namespace, pod) in [
        (10, "shop", "web-7d9f"),
        (11, "shop", "db-0"),
        (20, "kube-system", "dns"),
    ] {
        all.know_cgroup(&Workload {
            cgroup_id,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            cgroup_path: format!("/kubepods/{pod}"),
            ..Workload::default()
        });
    }
    all
}

/// The pids of the samples that are kept.
fn kept(all: &mut Selection, samples: &[Vec<u8>]) -> Vec<u32> {
    let mut records = [vec![record(kind::SWITCH, &[5, 5])], samples.to_vec()]
        .concat()
        .concat();
    let (before, mut dropped) = (records.len(), 0);
    all.keep(&mut records, 0, |_| dropped += 1);
    let mut walk = Records::new(&records).map(Result::unwrap);
    assert_eq!(walk.next().unwrap().kind, kind::SWITCH, "is nobody's");
    let pids: Vec<u32> = walk
        .map(|one| u32::from_le_bytes(*one.bytes()[PID_AT..].first_chunk().unwrap()))
        .collect();
    assert_eq!(pids.len() + dropped, samples.len());
    assert!(dropped > 0 || records.len() == before);
    pids
}

#[test]
fn namespaces_pods_commands_and_processes_are_asked_for_or_left_out() {
    let samples = [
        of(1, 10),
        of(2, 11),
        of(3, 20),
        of(4, 99),
        of(5, 0),
        of(6, 0),
    ];
    let names = [comm(4, "web"), comm(5, "backup"), comm(6, "web")].concat();
    #[rustfmt::skip]
    let rows: &[(&[&str], &[&str], &[u32])] = &[
        (&["namespace=shop"], &[], &[1, 2]),
        (&["namespace=shop"], &["pod=db-*"], &[1]),
        (&["pod=web-*", "comm=backup"], &[], &[1, 5]),
        (&[], &["namespace=kube-*"], &[1, 2, 4, 5, 6]),
        (&[], &["comm=web", "pid=2"], &[1, 3, 5]),
        (&["pid=3", "pid=4"], &["comm=web"], &[3]),
        (&["cgroup=/kubepods/*"], &["cgroup=*/dns"], &[1, 2]),
        (&["comm=*b*"], &[], &[4, 5, 6]),
    ];
    for (include, exclude, expected) in rows {
        let mut all = selection(&config(include, exclude));
        all.follow(&names);
        assert_eq!(
            &kept(&mut all, &samples),
            expected,
            "{include:?} without {exclude:?}"
        );
    }
}

#[test]
fn names_are_followed_from_fork_to_exit() {
    let mut all = selection(&config(&["comm=web"], &[]));
    all.meet(&[comm(7, "web"), comm(8, "sh")].concat());
    all.follow(&[fork(9, 7), fork(10, 8), comm(10, "web")].concat());
    assert_eq!(
        kept(&mut all, &[of(7, 0), of(8, 0), of(9, 0), of(10, 0)]),
        [7, 9, 10]
    );
    // A snapshot of an earlier moment is no news.
    all.meet(&comm(10, "sh"));
    all.follow(&[exit(9), comm(7, "sh")].concat());
    assert_eq!(
        kept(&mut all, &[of(7, 0), of(9, 0), of(10, 0)]),
        [9, 10],
        "9 ends with this round"
    );
    assert_eq!(
        kept(&mut all, &[of(9, 0)]),
        [0; 0],
        "its number may be another's now"
    );
}

#[test]
fn a_name_taken_on_another_cpu_is_newer_than_the_fork() {
    let mut all = selection(&config(&["comm=true"], &[]));
    all.meet(&comm(8, "sh"));
    // The ring of the CPU where it took its name is read before that of the CPU where it was made.
    all.follow(&[comm(9, "true"), fork(9, 8)].concat());
    assert_eq!(kept(&mut all, &[of(8, 0), of(9, 0)]), [9]);
}

#[test]
fn events_without_cgroup_take_the_one_their_process_was_last_seen_in() {
    let mut all = selection(&config(&["namespace=shop"], &[]));
    assert_eq!(
        kept(
            &mut all,
            &[of(1, 0), of(1, 10), of(1, 0), of(1, 20), of(1, 0)]
        ),
        [1, 1]
    );
}

#[test]
fn rules_that_are_none_are_refused_by_name() {
    for rule in ["shop", "namespaze=shop", "pid=all", "comm=", "=x"] {
        let wrong = Selection::new(&config(&[], &[rule]))
            .unwrap_err()
            .to_string();
        assert!(
            wrong.contains(rule) && wrong.contains("select.exclude"),
            "{wrong}"
        );
    }
    let nothing = SelectConfig {
        modes: Vec::new(),
        ..SelectConfig::default()
    };
    assert_eq!(Selection::new(&nothing).unwrap_err(), SelectError::NoMode);
    assert!(Selection::new(&SelectConfig::default()).unwrap().is_none());
}

#[test]
fn patterns() {
    #[rustfmt::skip]
    let rows = [
        ("a", "a", true), ("a", "ab", false), ("a*", "ab", true), ("*b", "ab", true), ("*", "", true),
        ("a*c", "abc", true), ("a*c", "ac", true), ("a*c", "acd", false), ("a*b*c", "axbyc", true),
        ("a*b*c", "acb", false), ("*a*a", "a", false), ("", "a", false),
    ];
    for (pattern, text, expected) in rows {
        assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn modes_are_left_out_of_attrs() {
    let flags = |modes: &[Mode]| {
        let mut attr = Attr::default();
        restrict(&mut attr, modes);
        let flags = attr.flags;
        [
            flags.exclude_user(),
            flags.exclude_kernel(),
            flags.exclude_guest(),
            flags.exclude_host(),
        ]
    };
    assert_eq!(flags(&[User, Kernel, Guest]), [false; 4]);
    assert_eq!(flags(&[User]), [false, true, true, false]);
    assert_eq!(flags(&[Kernel, User]), [false, false, true, false]);
    assert_eq!(flags(&[Guest]), [false, false, false, true]);
}

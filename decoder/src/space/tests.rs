use super::*;
use crate::symbols::ObjectIx;

fn area(object: usize) -> Area {
    Area {
        start: 0x1000,
        end: 0x2000,
        offset: 0,
        object: ObjectIx::at(object).unwrap(),
        access: memwide_objects::Access::default(),
    }
}

fn object(spaces: &mut Spaces, pid: u32, time: u64) -> Option<usize> {
    spaces
        .lookup(pid, 0x1800, time)
        .map(|area| area.object.index())
}

const fn process(pid: u32, ppid: u32) -> Fork {
    Fork {
        pid,
        tid: pid,
        ppid,
        ptid: ppid,
    }
}

#[test]
fn a_child_has_its_parents_mappings_until_it_execs() {
    let mut spaces = Spaces::new(Policy::KERNEL);
    spaces.comm(10, 10, b"sh", false, 1);
    spaces.map(10, area(1), 1);
    spaces.fork(process(11, 10), false, 5);
    spaces.comm(11, 11, b"true", true, 7);
    spaces.map(11, area(2), 8);
    for (time, mapped, comm) in [(5, Some(1), "sh"), (7, None, "true"), (9, Some(2), "true")] {
        assert_eq!(object(&mut spaces, 11, time), mapped, "at {time}");
        let name = spaces.comm_at(11, 11, time);
        assert_eq!(spaces.name(name), comm, "at {time}");
    }
    assert_eq!(object(&mut spaces, 10, 9), Some(1));
    assert_eq!(spaces.parent(11), 10);
    assert_ne!(spaces.stamp(10), spaces.stamp(11));
    spaces.fork(process(12, 10), false, 9);
    assert_eq!(spaces.stamp(10), spaces.stamp(12));
    assert_eq!(spaces.stamp(13), 0);
}

#[test]
fn perf_keeps_mappings_through_an_exec() {
    let mut spaces = Spaces::new(Policy::PERF);
    spaces.map(10, area(1), 1);
    spaces.comm(10, 10, b"new", true, 2);
    assert_eq!(object(&mut spaces, 10, 3), Some(1));
}

#[test]
fn a_number_used_again_starts_with_its_new_parents_mappings() {
    let mut spaces = Spaces::new(Policy::KERNEL);
    spaces.map(10, area(1), 1);
    spaces.map(20, area(2), 1);
    spaces.exit(20, 20, 4);
    assert_eq!(object(&mut spaces, 20, 5), Some(2), "late samples");
    spaces.fork(process(20, 10), false, 6);
    assert_eq!(object(&mut spaces, 20, 5), Some(2));
    assert_eq!(object(&mut spaces, 20, 6), Some(1));
}

#[test]
fn a_synthesized_start_copies_nothing() {
    let mut spaces = Spaces::new(Policy::PERF);
    spaces.map(10, area(1), 1);
    spaces.fork(process(11, 10), true, 2);
    assert_eq!(object(&mut spaces, 11, 3), None);
}

#[test]
fn a_thread_is_named_after_the_thread_that_started_it() {
    let mut spaces = Spaces::new(Policy::PERF);
    spaces.comm(10, 10, b"main", false, 1);
    spaces.fork(
        Fork {
            pid: 10,
            tid: 12,
            ppid: 10,
            ptid: 10,
        },
        false,
        2,
    );
    let name = spaces.comm_at(10, 12, 3);
    assert_eq!(spaces.name(name), "main");
    let name = spaces.comm_at(10, 13, 3);
    assert_eq!(spaces.name(name), ":13");
    let name = spaces.comm_at(u32::MAX, u32::MAX, 3);
    assert_eq!(spaces.name(name), ":-1");
    let name = spaces.comm_at(0, 0, 0);
    assert_eq!(spaces.name(name), "swapper");
}

#[test]
fn ended_tasks_are_forgotten_behind_the_horizon() {
    let mut spaces = Spaces::new(Policy::KERNEL);
    for pid in 100..200 {
        spaces.map(pid, area(1), 1);
        spaces.comm(pid, pid, b"x", false, 1);
        spaces.exit(pid, pid, u64::from(pid));
    }
    spaces.prune(150);
    assert_eq!(object(&mut spaces, 149, 2), None);
    assert_eq!(object(&mut spaces, 150, 2), Some(1));
}

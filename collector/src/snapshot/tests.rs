use super::*;
use crate::clock::Namer;
use crate::events::side_band_layout;
use memwide_perf_abi::Records;

fn snapshot(mmap_data: bool) -> Snapshot {
    let layout = side_band_layout();
    let stamp = Stamp::new(&layout, 42, Anchor::for_tests(1_000), mmap_data);
    take(&Machine::default(), &stamp, &mut BuildIds::default(), || ())
}

#[test]
fn this_process_is_in_it_with_its_thread_its_name_and_its_maps() {
    let namer = Namer::start().unwrap(); // a thread with a name of its own
    namer.mark().unwrap();
    let taken = snapshot(true);
    let me = std::process::id();
    let trailer = side_band_layout().trailer();
    let (mut comms, mut parents, mut code, mut data, mut stack) = (vec![], vec![], 0, 0, 0);
    let mut with_build_id = 0;
    for record in Records::new(&taken.records) {
        let record = record.unwrap();
        let id = trailer.parse(&record).unwrap();
        assert!(id.time >= Some(1_000) && id.id == Some(42));
        match Record::parse(record).unwrap() {
            Record::Comm(comm) if comm.pid == me => {
                comms.push(String::from_utf8_lossy(comm.comm).into_owned());
            }
            Record::Fork(task) if task.pid == me => {
                assert!(record.has_misc(misc::FORK_EXEC));
                parents.push(task.ppid);
            }
            Record::Mmap2(map) if map.pid == me => {
                if map.data {
                    data += 1;
                } else {
                    code += 1;
                }
                stack += i32::from(map.filename == b"[stack]");
                with_build_id += i32::from(map.build_id().is_some());
                assert_eq!(record.has_misc(misc::MMAP_DATA), map.data);
            }
            _ => {}
        }
    }
    assert!(
        comms.iter().any(|comm| comm.starts_with("mw-clk")),
        "{comms:?}"
    );
    assert_eq!(parents.first(), Some(&std::os::unix::process::parent_id()));
    assert!(
        parents[1..].iter().all(|parent| *parent == me),
        "{parents:?}"
    );
    assert!(
        code >= 2 && data >= 2 && stack == 1,
        "{code} {data} {stack}"
    );
    assert!(with_build_id >= 1, "the C library has a build id");
    assert_eq!(taken.count as usize, Records::new(&taken.records).count());
    assert!(!taken.cut);
}

#[test]
fn without_data_mappings_only_code_is_listed() {
    let taken = snapshot(false);
    let me = std::process::id();
    let data = Records::new(&taken.records)
        .map(|record| Record::parse(record.unwrap()).unwrap())
        .filter(|record| matches!(record, Record::Mmap2(map) if map.pid == me && map.data))
        .count();
    assert_eq!(data, 0);
}

#[test]
fn a_process_that_is_half_gone_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for (pid, file) in [("1", "status"), ("2", "comm"), ("x", "status")] {
        std::fs::create_dir_all(folder.path().join(pid)).unwrap();
        std::fs::write(folder.path().join(pid).join(file), "PPid:\t0\n").unwrap();
    }
    let machine = Machine {
        proc: folder.path().to_owned(),
        sys: folder.path().to_owned(),
    };
    let layout = side_band_layout();
    let stamp = Stamp::new(&layout, 42, Anchor::for_tests(1_000), true);
    let taken = take(&machine, &stamp, &mut BuildIds::default(), || ());
    assert_eq!((taken.processes, taken.count), (0, 0));
}

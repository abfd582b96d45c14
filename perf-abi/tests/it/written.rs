//! Files written here, read back by this crate and by perf.

use std::io::Cursor;
use std::sync::Arc;

use memwide_perf_abi::file::{
    BuildIdEntry, EventSpec, Features, NumaNode, SampleTime, TracingFiles, feature,
};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, FileId, FileWriter, Mmap2, PerfFile, Record, SampleFields,
    SampleId, SampleLayout, SampleView, Weight, attr_kind, encode, kind, misc, sample,
};

use crate::perf_script::{difference, perf_exists};

const COMMON: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::ADDR
    | sample::CPU
    | sample::PERIOD
    | sample::DATA_SRC;

fn event(kind: u32, config: u64, more: u64, name: &str, ids: &[u64]) -> EventSpec {
    EventSpec {
        attr: Attr {
            kind,
            config,
            sample_type: COMMON | more,
            sample_period: 100,
            flags: AttrFlags::default()
                .with_sample_id_all(true)
                .with_exclude_guest(true),
            ..Attr::default()
        },
        name: name.to_owned(),
        ids: ids.to_vec(),
    }
}

fn events() -> Vec<EventSpec> {
    vec![
        event(
            attr_kind::RAW,
            0x1cd,
            sample::WEIGHT_STRUCT,
            "cpu/mem-loads,ldlat=30/P",
            &[10, 11],
        ),
        event(
            attr_kind::TRACEPOINT,
            300,
            sample::WEIGHT | sample::RAW,
            "",
            &[20, 21],
        ),
    ]
}

fn features() -> Features {
    let format = b"name: thing\nID: 300\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"a=%d\", REC->a\n";
    let tracing = TracingFiles {
        header_page: b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
            .to_vec(),
        header_event: b"# compressed entry header\n".to_vec(),
        systems: vec![("some".to_owned(), vec![format.to_vec()])],
        page_size: 4096,
        ..TracingFiles::default()
    };
    let mut features = Features::default();
    features.set_raw(feature::TRACING_DATA, tracing.encode());
    features.set_text(feature::HOSTNAME, "node7");
    features.set_text(feature::OSRELEASE, "6.18.0");
    features.set_text(feature::ARCH, "x86_64");
    features.set_text(feature::CPUDESC, "a cpu");
    features.set_nr_cpus(4, 2);
    features.set_cmdline(&["memwide", "record"]);
    features.set_sample_time(SampleTime {
        first: 1,
        last: 999,
    });
    features.set_build_ids(&[BuildIdEntry {
        pid: -1,
        misc: misc::USER | misc::BUILD_ID_SIZE,
        build_id: BuildId::new([7; 20], 20),
        filename: b"/usr/bin/thing".to_vec(),
    }]);
    features.set_numa_topology(&[NumaNode {
        node: 0,
        total_kib: 5,
        free_kib: 4,
        cpus: "0-3".to_owned(),
    }]);
    features
}

/// Two CPUs' rings in three rounds; times go back between CPUs, as in real files.
fn write(finished: bool) -> Vec<u8> {
    let events = events();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &events).unwrap();
    let layouts: Vec<_> = events
        .iter()
        .map(|event| SampleLayout::new(&event.attr).unwrap())
        .collect();
    let id = SampleId {
        pid: Some(77),
        tid: Some(77),
        time: Some(5),
        id: Some(10),
        cpu: Some(0),
        ..SampleId::default()
    };
    let mut batch = Vec::new();
    let comm = Record::Comm(Comm {
        pid: 77,
        tid: 77,
        comm: b"thing",
        exec: true,
    });
    encode::record(
        &mut batch,
        &comm,
        misc::USER,
        Some((layouts[0].trailer(), &id)),
    )
    .unwrap();
    let file = FileId::Inode {
        maj: 8,
        min: 1,
        ino: 42,
        generation: 0,
    };
    let mmap = Record::Mmap2(Mmap2 {
        pid: 77,
        tid: 77,
        addr: 0x40_0000,
        len: 0x10_0000,
        pgoff: 0,
        file,
        prot: 5,
        flags: 2,
        filename: b"/usr/bin/thing",
        data: false,
    });
    encode::record(
        &mut batch,
        &mmap,
        misc::USER,
        Some((layouts[0].trailer(), &id)),
    )
    .unwrap();
    writer.write_records(&batch).unwrap();
    for round in 0..3u64 {
        for cpu in 0..2u32 {
            batch.clear();
            for step in 0..5u64 {
                let which = usize::try_from((round + step) % 2).unwrap();
                let fields = SampleFields {
                    id: events[which].ids[usize::try_from(cpu).unwrap()],
                    ip: 0x40_1000 + step,
                    pid: 77,
                    tid: 77 + cpu,
                    time: 100 * round + 10 * step + 3 * u64::from(cpu) + 10,
                    addr: 0x7000_0000 + round,
                    cpu,
                    period: 100,
                    weight: Weight {
                        weight: 300 + step,
                        ins_lat: 7,
                        retire_lat: 8,
                    },
                    data_src: 0x1_0668_1000_0142,
                    raw: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
                    ..SampleFields::default()
                };
                encode::sample(&mut batch, &fields, misc::USER, &layouts[which]).unwrap();
            }
            writer.write_records(&batch).unwrap();
        }
        writer.finish_round().unwrap();
    }
    if finished {
        writer.finish(&features()).unwrap().into_inner()
    } else {
        // Never finished: the header still says that there is no data.
        let mut bytes = writer.finish(&Features::default()).unwrap().into_inner();
        let data = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
        let size = u64::from_le_bytes(bytes[48..56].try_into().unwrap());
        bytes.truncate(usize::try_from(data + size).unwrap());
        bytes[48..56].fill(0);
        bytes[72..104].fill(0);
        bytes
    }
}

#[test]
fn what_is_written_reads_back() {
    let mut file = PerfFile::open(Cursor::new(write(true))).unwrap();
    let read = file.features();
    assert_eq!(read.hostname().as_deref(), Some("node7"));
    assert_eq!(read.nr_cpus(), Some((4, 2)));
    assert_eq!(read.cmdline().unwrap(), ["memwide", "record"]);
    assert_eq!(
        read.sample_time(),
        Some(SampleTime {
            first: 1,
            last: 999
        })
    );
    assert_eq!(read.build_ids(), features().build_ids());
    assert_eq!(read.numa_topology(), features().numa_topology());
    assert_eq!(read.event_desc().unwrap().len(), 2);
    let events = Arc::clone(file.events());
    assert_eq!(events.get(1).unwrap().ids, [20, 21]);
    assert_eq!(events.index_of_id(11), Some(0));

    let mut kinds = Vec::new();
    let mut records = file.records().unwrap();
    while let Some(item) = records.next().unwrap() {
        kinds.push(item.record.kind);
        if item.record.is_sample() {
            let event = events.get(item.event.unwrap()).unwrap();
            let view =
                SampleView::parse(item.record.body(), event.layout.as_ref().unwrap()).unwrap();
            assert!(event.ids.contains(&view.id().unwrap()));
        }
    }
    assert_eq!(records.cut(), None);
    assert_eq!(kinds.len(), 2 + 3 * 11);
    assert_eq!(&kinds[..3], [kind::COMM, kind::MMAP2, kind::SAMPLE]);
}

#[test]
fn sorted_records_are_in_time_order_whatever_the_rings() {
    let mut file = PerfFile::open(Cursor::new(write(true))).unwrap();
    let events = Arc::clone(file.events());
    let mut times = Vec::new();
    let mut records = file.sorted().unwrap();
    while let Some(item) = records.next().unwrap() {
        times.push(events.time_of(item.event, &item.record).unwrap());
    }
    assert_eq!(times.len(), 32);
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(records.early_flushes(), 0);
}

#[test]
fn a_queue_that_is_too_short_is_flushed_early_and_says_so() {
    let mut file = PerfFile::open(Cursor::new(write(true))).unwrap();
    let mut records = file.sorted().unwrap().with_queue_bytes(200);
    let mut count = 0;
    while records.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 32);
    assert!(records.early_flushes() > 0);
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    for bytes in [write(true), write(false)] {
        let whole = PerfFile::open(Cursor::new(write(true))).unwrap();
        let data_end = bytes
            .len()
            .min(usize::try_from(data_end(&write(true))).unwrap());
        drop(whole);
        for cut in 0..bytes.len() {
            let Ok(mut file) = PerfFile::open(Cursor::new(&bytes[..cut])) else {
                assert!(
                    cut < data_end,
                    "a cut behind the data must not keep it from being read"
                );
                continue;
            };
            let unfinished = file.unfinished();
            let mut records = file.records().unwrap();
            let mut end = None;
            while let Some(item) = records.next().unwrap() {
                end = Some(item.offset + u64::try_from(item.record.size()).unwrap());
            }
            if cut < data_end {
                let Some(at) = records.cut() else {
                    // Nobody knows whether there was more behind the last whole record.
                    let cut = u64::try_from(cut).unwrap();
                    assert!(unfinished && end.is_none_or(|end| end == cut));
                    continue;
                };
                assert!(
                    end.is_none_or(|end| end == at.at),
                    "cut at {cut}: {at:?}, {end:?}"
                );
                assert_eq!(at.at + at.have, u64::try_from(cut).unwrap());
            }
        }
    }
}

fn data_end(bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    word(40) + word(48)
}

#[test]
fn perf_reads_what_is_written() {
    if !perf_exists() {
        return;
    }
    let path = std::env::temp_dir().join(format!("memwide-perf-abi-{}.data", std::process::id()));
    std::fs::write(&path, write(true)).unwrap();
    let difference = difference(&path);
    let report = std::process::Command::new("perf")
        .args(["report", "--stdio", "-i"])
        .arg(&path)
        .output()
        .unwrap();
    let header = std::process::Command::new("perf")
        .args(["report", "--header-only", "-i"])
        .arg(&path)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(difference, None);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.contains("thing"), "{report}");
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    for expected in ["node7", "6.18.0", "cpu/mem-loads,ldlat=30/P", "a cpu"] {
        assert!(header.contains(expected), "{expected} is not in {header}");
    }
}

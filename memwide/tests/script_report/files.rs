//! perf.data files with known contents.

use memwide_model::DataSrc;
use memwide_model::data_src::{lock, lvl, lvl_num, op, snoop, tlb};
use memwide_perf_abi::file::{EventSpec, Features, NumaNode, TracingFiles, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, FileId, FileWriter, LostSamples, Mmap, Mmap2, Record,
    SampleFields, SampleId, SampleLayout, Weight, attr_kind, encode, misc, sample,
};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Where the kernel of these files starts.
pub(crate) const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Where the program of these files is mapped: a file that exists nowhere.
pub(crate) const APP: u64 = 0x40_0000;

/// Where its anonymous memory is mapped.
pub(crate) const ANON: u64 = 0x7f00_0000_0000;

/// A load served by the L3; TLB hit, not locked.
pub(crate) const L3: u64 = load(lvl::L3, lvl_num::L3)
    .with_dtlb(tlb::HIT | tlb::L1 | tlb::L2)
    .0;

/// A load from the memory of another node, after a page walk.
pub(crate) const REMOTE: u64 = load(lvl::REM_RAM1, lvl_num::RAM)
    .with_remote(1)
    .with_dtlb(tlb::HIT | tlb::WK)
    .0;

/// A store that hit the L1, as Intel before Ice Lake says it.
pub(crate) const STORE: u64 = DataSrc(0)
    .with_op(op::STORE)
    .with_lvl(lvl::HIT | lvl::L1)
    .with_snoop(snoop::NA)
    .with_lock(lock::NA)
    .with_dtlb(tlb::NA)
    .0;

const fn load(level: u64, number: u64) -> DataSrc {
    DataSrc(0)
        .with_op(op::LOAD)
        .with_lvl(lvl::HIT | level)
        .with_lvl_num(number)
        .with_snoop(snoop::NONE)
}

/// Index of the events in [`events`].
pub(crate) const LOADS: usize = 0;
/// See [`LOADS`].
pub(crate) const STORES: usize = 1;
/// See [`LOADS`].
pub(crate) const SWITCHES: usize = 2;

const COMMON: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::ADDR
    | sample::CPU
    | sample::PERIOD
    | sample::DATA_SRC;

fn event(kind: u32, config: u64, more: u64, name: &str, id: u64) -> EventSpec {
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
        ids: vec![id],
    }
}

/// Loads with everything, stores with a plain weight, a tracepoint.
pub(crate) fn events() -> Vec<EventSpec> {
    let loads =
        sample::WEIGHT_STRUCT | sample::PHYS_ADDR | sample::DATA_PAGE_SIZE | sample::CALLCHAIN;
    vec![
        event(attr_kind::RAW, 0x1cd, loads, "cpu/mem-loads,ldlat=30/P", 10),
        event(
            attr_kind::RAW,
            0x82d0,
            sample::WEIGHT,
            "cpu/mem-stores/P",
            20,
        ),
        event(
            attr_kind::TRACEPOINT,
            300,
            sample::RAW,
            "sched:sched_switch",
            30,
        ),
    ]
}

/// A sample: the event, who ran, its fields.
pub(crate) struct One<'a> {
    pub(crate) event: usize,
    pub(crate) misc: u16,
    pub(crate) fields: SampleFields<'a>,
}

impl Default for One<'_> {
    fn default() -> Self {
        Self {
            event: LOADS,
            misc: misc::USER,
            fields: SampleFields {
                pid: 100,
                tid: 101,
                cpu: 3,
                period: 100,
                ip: APP + 0x1234,
                addr: ANON + 0x40,
                data_src: L3,
                ..SampleFields::default()
            },
        }
    }
}

/// A weight with both latencies beside it.
pub(crate) fn weight(weight: u64) -> Weight {
    Weight {
        weight,
        ins_lat: 12,
        retire_lat: 3,
    }
}

/// Writes a file: side-band, then these samples one nanosecond after the other, then a loss of 5.
pub(crate) fn write(to: &Path, samples: &[One<'_>]) {
    std::fs::write(to, bytes(samples)).unwrap();
}

/// The bytes of [`write`].
pub(crate) fn bytes(samples: &[One<'_>]) -> Vec<u8> {
    made(samples, &features(), Vec::new())
}

/// The same with further executable mappings: first address, bytes, name.
pub(crate) fn with_code(samples: &[One<'_>], code: &[(u64, u64, &str)]) -> Vec<u8> {
    let code = code.iter().map(|(addr, len, name)| {
        let mapped = map(*addr, *len, name.as_bytes(), 5);
        (misc::USER, mapped)
    });
    made(samples, &features(), code.collect())
}

/// The same with a module of the kernel: first address, bytes, name, build id.
pub(crate) fn with_module(
    samples: &[One<'_>],
    (addr, len): (u64, u64),
    name: &str,
    build_id: Option<&[u8]>,
) -> Vec<u8> {
    let id = build_id.and_then(BuildId::from_slice);
    let none = FileId::Inode {
        maj: 0,
        min: 0,
        ino: 0,
        generation: 0,
    };
    let module = Record::Mmap2(Mmap2 {
        pid: u32::MAX,
        tid: 0,
        addr,
        len,
        pgoff: 0,
        file: id.map_or(none, FileId::BuildId),
        prot: 5,
        flags: 2,
        filename: name.as_bytes(),
        data: false,
    });
    made(samples, &features(), vec![(misc::KERNEL, module)])
}

/// The same of a machine that did not say which CPUs belong to which node.
pub(crate) fn without_topology(samples: &[One<'_>]) -> Vec<u8> {
    let mut few = Features::default();
    few.set_text(feature::ARCH, "x86_64");
    made(samples, &few, Vec::new())
}

fn made(samples: &[One<'_>], features: &Features, more: Vec<(u16, Record<'_>)>) -> Vec<u8> {
    let events = events();
    let layouts: Vec<_> = events
        .iter()
        .map(|event| SampleLayout::new(&event.attr).unwrap())
        .collect();
    let mut batch = Vec::new();
    let id = SampleId {
        pid: Some(100),
        tid: Some(100),
        time: Some(1),
        id: Some(10),
        cpu: Some(0),
        ..SampleId::default()
    };
    let trailer = Some((layouts[0].trailer(), &id));
    for (mode, record) in side_band().into_iter().chain(more) {
        encode::record(&mut batch, &record, mode, trailer).unwrap();
    }
    for (at, one) in (0_u64..).zip(samples) {
        let fields = SampleFields {
            id: events[one.event].ids[0],
            time: 1_000_000_001 + at,
            ..one.fields.clone()
        };
        encode::sample(&mut batch, &fields, one.misc, &layouts[one.event]).unwrap();
    }
    let end = SampleId {
        time: Some(u64::MAX / 2),
        ..id
    };
    let lost = Record::LostSamples(LostSamples { lost: 5 });
    encode::record(
        &mut batch,
        &lost,
        misc::USER,
        Some((layouts[0].trailer(), &end)),
    )
    .unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &events).unwrap();
    writer.write_records(&batch).unwrap();
    writer.finish_round().unwrap();
    writer.finish(features).unwrap().into_inner()
}

fn map(addr: u64, len: u64, filename: &[u8], prot: u32) -> Record<'_> {
    Record::Mmap2(Mmap2 {
        pid: 100,
        tid: 100,
        addr,
        len,
        pgoff: 0,
        file: FileId::Inode {
            maj: 8,
            min: 1,
            ino: 42,
            generation: 0,
        },
        prot,
        flags: 2,
        filename,
        data: false,
    })
}

fn side_band() -> Vec<(u16, Record<'static>)> {
    let kernel = Record::Mmap(Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: KERNEL,
        len: 0x100_0000,
        pgoff: KERNEL,
        data: false,
        filename: b"[kernel.kallsyms]_text",
    });
    let comm = |tid| {
        Record::Comm(Comm {
            pid: 100,
            tid,
            comm: b"worker \"1\"",
            exec: false,
        })
    };
    vec![
        (misc::KERNEL, kernel),
        (misc::USER, comm(100)),
        (misc::USER, comm(101)),
        (misc::USER, map(APP, 0x10_0000, b"/nowhere/app", 5)),
        (misc::USER, map(ANON, 0x100_0000, b"//anon", 3)),
    ]
}

fn features() -> Features {
    let format = b"name: sched_switch\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"prev_comm=%s\", REC->prev_comm\n";
    let tracing = TracingFiles {
        systems: vec![("sched".to_owned(), vec![format.to_vec()])],
        page_size: 4096,
        ..TracingFiles::default()
    };
    let mut features = Features::default();
    features.set_raw(feature::TRACING_DATA, tracing.encode());
    features.set_nr_cpus(4, 4);
    features.set_text(feature::HOSTNAME, "node7");
    features.set_text(feature::OSRELEASE, "6.18.0-made-up");
    features.set_text(feature::ARCH, "x86_64");
    features.set_text(feature::CPUID, "GenuineIntel,6,85,7");
    let node = |node, cpus: &str| NumaNode {
        node,
        total_kib: 0,
        free_kib: 0,
        cpus: cpus.to_owned(),
    };
    features.set_numa_topology(&[node(0, "0-1"), node(1, "2-3")]);
    features
}

/// Kernel symbols of these files, written beside them.
pub(crate) fn kallsyms(folder: &Path) -> PathBuf {
    let path = folder.join("kallsyms");
    let text = "ffffffff81000000 T _text\n\
                ffffffff81001000 T clear_page\n\
                ffffffff81002000 T copy_user\n\
                ffffffff81003000 T exc_page_fault\n\
                ffffffff81004000 T _etext\n";
    std::fs::write(&path, text).unwrap();
    path
}

use super::*;
use crate::uplink::BatchStore;
use memwide_perf_abi::file::{BuildIdEntry, ClockData, EventSpec, Features, FileWriter};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, Mmap, Record, Records, SampleFields, SampleId, SampleLayout,
    SampleView, encode, kind, misc, sample,
};
use memwide_proto::v1::{Batch, Section};
use std::io::Cursor;

const FULL: u64 = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU;

fn attr(sample_type: u64, sample_id_all: bool) -> Attr {
    Attr {
        size: 128,
        sample_type,
        sample_period: 7,
        flags: AttrFlags::default().with_sample_id_all(sample_id_all),
        ..Attr::default()
    }
}

struct Made {
    folder: tempfile::TempDir,
    path: PathBuf,
}

/// A file with two events, mappings and `samples` samples, half of each event.
fn made(samples: u64, sample_type: u64, features: &Features) -> Made {
    let attr = attr(sample_type, true);
    let layout = SampleLayout::new(&attr).unwrap();
    let spec = |name: &str, id| EventSpec {
        attr: attr.clone(),
        name: name.to_owned(),
        ids: vec![id],
    };
    let specs = [spec("cycles", 1), spec("cache-misses", 2)];
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &specs).unwrap();
    let mut records = Vec::new();
    let id = SampleId {
        pid: Some(5),
        tid: Some(5),
        time: Some(1_000),
        id: Some(1),
        stream_id: None,
        cpu: Some(0),
    };
    let mut put = |record: &Record<'_>| {
        encode::record(
            &mut records,
            record,
            misc::USER,
            Some((layout.trailer(), &id)),
        )
        .unwrap();
    };
    put(&Record::Comm(Comm {
        pid: 5,
        tid: 5,
        comm: b"prog",
        exec: true,
    }));
    put(&Record::Mmap(Mmap {
        pid: 5,
        tid: 5,
        addr: 0x1000,
        len: 0x1000,
        pgoff: 0,
        filename: b"/bin/prog",
        data: false,
    }));
    for n in 0..samples {
        let fields = SampleFields {
            id: 1 + n % 2,
            ip: 0x1000 + n % 64,
            pid: 5,
            tid: 5,
            time: 2_000 + n * 10,
            ..SampleFields::default()
        };
        encode::sample(&mut records, &fields, misc::USER, &layout).unwrap();
    }
    writer.write_records(&records).unwrap();
    let bytes = writer.finish(features).unwrap().into_inner();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    Made { folder, path }
}

fn store(made: &Made, options: &ImportOptions) -> (Replay, ImportSummary) {
    let import = Import::open(&made.path, options.clone()).unwrap();
    let summary = import.summary();
    (
        Replay::new(
            made.path.clone(),
            import.origin,
            options.clone(),
            import.outline,
        ),
        summary,
    )
}

fn batches(store: &Replay) -> Vec<Batch> {
    let next = store.progress().borrow().next;
    (1..next)
        .map(|number| store.read(number).unwrap())
        .collect()
}

fn unpack(section: Option<&Section>) -> Vec<u8> {
    let section = section.unwrap();
    let mut raw = Vec::new();
    if section.raw_bytes > 0 {
        let packed = zstd::bulk::decompress(&section.data, 64 << 20).unwrap();
        let len = usize::try_from(section.raw_bytes).unwrap();
        memwide_perf_abi::pack::unpack(&packed, len, &mut raw).unwrap();
    }
    raw
}

fn features(hostname: &str) -> Features {
    let mut features = Features::default();
    features.set_text(memwide_perf_abi::file::feature::HOSTNAME, hostname);
    features
}

#[test]
fn the_same_file_and_host_are_the_same_source_with_the_same_batches() {
    let made = made(60_000, FULL, &features("box"));
    let options = ImportOptions::default();
    let (first, summary) = store(&made, &options);
    let all = batches(&first);
    assert!(all.len() > 2, "{} batches", all.len());
    assert_eq!(
        summary
            .events
            .iter()
            .map(|event| event.samples)
            .sum::<u64>(),
        60_000
    );
    assert_eq!(summary.host, "box");
    let (second, again) = store(&made, &options);
    assert_eq!(again, summary);
    assert_eq!(batches(&second), all);
    // Any order of asking gives the same.
    assert_eq!(second.read(2).unwrap(), all[1]);
    assert_eq!(second.read(1).unwrap(), all[0]);
    let source = |options: ImportOptions| Import::open(&made.path, options).unwrap().source();
    let other = source(ImportOptions {
        host: Some("other".to_owned()),
        ..ImportOptions::default()
    });
    let more = source(ImportOptions {
        again: Some(1),
        ..ImportOptions::default()
    });
    assert!(other != summary.source && other.host != summary.source.host);
    assert!(more != summary.source && more.host == summary.source.host);
    drop(made.folder);
}

#[test]
fn counts_are_the_samples_and_the_first_batch_describes_events_and_host() {
    let made = made(50_000, FULL, &features("box"));
    let (store, _) = store(&made, &ImportOptions::default());
    let all = batches(&store);
    assert_eq!(all[0].events.len(), 2);
    assert_eq!(all[0].events[1].name, "cache-misses");
    assert_eq!(all[0].facts.as_ref().unwrap().hostname, "box");
    assert!(
        all[1..]
            .iter()
            .all(|batch| batch.events.is_empty() && batch.facts.is_none())
    );
    let mut seen = [0_u64; 2];
    for batch in &all {
        let raw = unpack(batch.samples.as_ref());
        let mut here = [0_u64; 2];
        for record in Records::new(&raw) {
            here[usize::try_from(record.unwrap().first_word().unwrap()).unwrap() - 1] += 1;
        }
        for count in &batch.counts {
            assert_eq!(here[count.event as usize], count.produced);
        }
        seen[0] += here[0];
        seen[1] += here[1];
    }
    assert_eq!(seen, [25_000, 25_000]);
}

#[test]
fn times_come_from_clock_data_from_the_caller_or_from_the_file() {
    let mut with_clock = features("box");
    with_clock.set_clock_data(ClockData {
        clockid: 1,
        wall_clock_ns: 5_000_000_000_000_000_000 / 3,
        clockid_time_ns: 2_000,
    });
    let file = made(10, FULL, &with_clock);
    let wall = |file: &Made, options: &ImportOptions| store(file, options).1.wall_ns;
    // Samples are from 2,000 to 2,090 ns; a mapping is of long before.
    let base = 5_000_000_000_000_000_000 / 3;
    assert_eq!(wall(&file, &ImportOptions::default()), (base, base + 90));
    let at = ImportOptions {
        at_wall_ns: Some(77_000_000),
        ..ImportOptions::default()
    };
    assert_eq!(wall(&file, &at), (77_000_000, 77_000_090));
    let file = made(10, FULL, &features("box"));
    let modified = std::fs::metadata(&file.path).unwrap().modified().unwrap();
    let modified = modified
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let (first, last) = wall(&file, &ImportOptions::default());
    assert_eq!((u128::from(last), last - first), (modified, 90));
}

#[test]
fn mappings_get_the_build_id_the_header_knows() {
    let mut with_ids = features("box");
    with_ids.set_build_ids(&[BuildIdEntry {
        pid: -1,
        misc: misc::USER,
        build_id: BuildId::from_slice(&[9; 20]).unwrap(),
        filename: b"/bin/prog".to_vec(),
    }]);
    let made = made(4, FULL, &with_ids);
    let (store, _) = store(&made, &ImportOptions::default());
    let raw = unpack(store.read(1).unwrap().side_band.as_ref());
    let maps: Vec<_> = Records::new(&raw)
        .map(|record| record.unwrap())
        .filter(|record| record.kind == kind::MMAP2)
        .collect();
    assert_eq!(maps.len(), 1);
    let layout = SampleLayout::new(&attr(FULL, true)).unwrap();
    assert_eq!(layout.trailer().parse(&maps[0]).unwrap().time, Some(1_000));
    let Record::Mmap2(map) = Record::parse(maps[0]).unwrap() else {
        panic!("no mapping");
    };
    assert_eq!(
        (map.addr, map.prot, map.filename),
        (0x1000, 5, &b"/bin/prog"[..])
    );
    assert_eq!(map.build_id().unwrap().as_bytes(), [9; 20]);
}

#[test]
fn records_without_times_get_them_in_order() {
    let made = made(
        100,
        sample::IDENTIFIER | sample::IP | sample::TID,
        &features("box"),
    );
    let (store, summary) = store(&made, &ImportOptions::default());
    let batch = store.read(1).unwrap();
    let sent = Attr::parse(&batch.events[0].attr).unwrap();
    assert!(sent.samples(sample::TIME) && sent.flags.sample_id_all());
    let layout = SampleLayout::new(&sent).unwrap();
    let raw = unpack(batch.samples.as_ref());
    let times: Vec<u64> = Records::new(&raw)
        .map(|record| {
            let record = record.unwrap();
            let view = SampleView::parse(record.body(), &layout).unwrap();
            assert_eq!((view.pid(), view.ip().unwrap() & !63), (Some(5), 0x1000));
            view.time().unwrap()
        })
        .collect();
    assert_eq!(
        times,
        (3..103).collect::<Vec<_>>(),
        "two records come before"
    );
    let raw = unpack(batch.side_band.as_ref());
    let first = Records::new(&raw).next().unwrap().unwrap();
    let id = layout.trailer().parse(&first).unwrap();
    assert_eq!((id.time, id.pid, id.id), (Some(1), Some(5), Some(1)));
    assert_eq!(summary.wall_ns.1 - summary.wall_ns.0, 99);
}

#[test]
fn bad_input_is_named_and_is_the_inputs_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let open = || Import::open(&path, ImportOptions::default());
    assert!(
        !open().unwrap_err().is_bad_input(),
        "a missing file is not bad input"
    );
    std::fs::write(&path, "").unwrap();
    assert!(open().unwrap_err().is_bad_input());
    std::fs::write(&path, [7; 4_000]).unwrap();
    assert!(open().unwrap_err().is_bad_input());
    let made = made(1_000, FULL, &features("box"));
    let whole = std::fs::read(&made.path).unwrap();
    for cut in (1..whole.len()).step_by(997) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        // Either all records are there (only features are cut), or it is refused as bad input.
        match open() {
            Ok(import) => assert_eq!(import.summary().events[0].samples, 500, "cut at {cut}"),
            Err(error) => assert!(error.is_bad_input(), "cut at {cut}: {error:?}"),
        }
    }
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let kept = Import::open(
        &path,
        ImportOptions {
            allow_cut: true,
            ..ImportOptions::default()
        },
    );
    let kept = kept.unwrap().summary();
    assert!(kept.events[0].samples > 100 && kept.records > kept.events[0].samples);
    let cut = kept.cut.unwrap();
    assert!(cut.at < u64::try_from(whole.len() / 2).unwrap() && !kept.unfinished);
}

/// A load, as SPE writes it: PC, operation, events, latency, address, end.
fn spe_load(pc: u64) -> Vec<u8> {
    let mut bytes = vec![0xb0];
    bytes.extend_from_slice(&pc.to_le_bytes());
    bytes.extend_from_slice(&[0x49, 0, 0x52, 0x16, 0, 0x98, 7, 0, 0xb2]);
    bytes.extend_from_slice(&0x1000_u64.to_le_bytes());
    bytes.extend_from_slice(&[0x01, 0, 0]);
    bytes
}

fn words(kind: u32, words: &[u64]) -> Vec<u8> {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut out = Vec::new();
    encode::raw(&mut out, kind, 0, &body).unwrap();
    out
}

#[test]
fn what_cannot_be_read_is_sent_as_a_count() {
    const PMU: u32 = 12;
    let spe = Attr {
        kind: PMU,
        ..attr(FULL, true)
    };
    let layout = SampleLayout::new(&spe).unwrap();
    let spec = |name: &str, id| EventSpec {
        attr: spe.clone(),
        name: name.to_owned(),
        ids: vec![id],
    };
    let specs = [spec("arm_spe_0//", 1), spec("other", 2)];
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &specs).unwrap();
    let mut trace = [1, 2, 3, 4].map(|n| spe_load(0x1000 * n));
    trace[1][9] = 0xff;
    trace[1][10] = 0xfe;
    let mut trace = trace.concat();
    trace.resize(trace.len().next_multiple_of(8), 0);
    // AUXTRACE_INFO of SPE, a piece of trace, a sample of an id nobody has.
    let info = words(kind::AUXTRACE_INFO, &[4, PMU.into(), 1]);
    let none = u64::from(u32::MAX) << 32;
    let piece = words(kind::AUXTRACE, &[trace.len() as u64, 0, 0, none, 0]);
    let mut stray = Vec::new();
    let fields = SampleFields {
        id: 99,
        time: 5_000,
        ..SampleFields::default()
    };
    encode::sample(&mut stray, &fields, misc::USER, &layout).unwrap();
    writer.write_records(&info).unwrap();
    writer.write_records(&stray).unwrap();
    writer.write_records(&piece).unwrap();
    writer.write_trace(&trace).unwrap();
    let mut features = features("arm");
    features.set_text(memwide_perf_abi::file::feature::ARCH, "aarch64");
    features.set_pmu_mappings(&[(PMU, "arm_spe_0")]);
    features.set_raw(memwide_perf_abi::file::feature::AUXTRACE, vec![0; 8]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::write(&path, writer.finish(&features).unwrap().into_inner()).unwrap();

    let made = Made { folder, path };
    let (store, summary) = store(&made, &ImportOptions::default());
    assert_eq!((summary.broken, summary.skipped_samples), (1, 1));
    let batches = batches(&store);
    let names: Vec<_> = batches[0]
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    assert_eq!(names, ["arm_spe_0//", "other", "memory"]);
    let mut sums = std::collections::BTreeMap::<u32, (u64, u64)>::new();
    for count in batches.iter().flat_map(|batch| &batch.counts) {
        let (produced, undecodable) = sums.entry(count.event).or_default();
        *produced += count.produced;
        *undecodable += count.undecodable;
    }
    assert_eq!(
        sums.into_iter().collect::<Vec<_>>(),
        [(2, (4, 1)), (u32::MAX, (1, 1))]
    );
}

#[test]
fn weights_mean_what_the_cpu_of_the_header_says_by_load_and_store() {
    use memwide_model::LatencyKind::{self, Cache, IbsMiss, None as NoWeight, Unknown, Use};
    let event = |kind: u32, config: u64, weight: u64, name: &str| {
        let attr = Attr {
            kind,
            config,
            ..attr(FULL | weight, true)
        };
        let event = memwide_perf_abi::file::Event::new(attr.clone(), vec![1], name.to_owned());
        (event, attr)
    };
    let (raw, weight) = (4, sample::WEIGHT_STRUCT);
    let cases = [
        event(raw, 0x1cd, weight, "cpu/mem-loads,ldlat=30/P"),
        event(raw, 0x82d0, weight, "cpu/mem-stores/P"),
        event(raw, 0x2cd, weight, "r2cd"),
        event(raw, 0x1d3, weight, "mem_load_l3_miss_retired.local_dram"),
        event(raw, 0x1cd, 0, "cpu/mem-loads/"),
        event(1, 5, weight, "minor-faults"),
        event(11, 0, 0, "ibs_op//"),
    ];
    let (events, attrs): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let kinds = |cpuid: &str| {
        let mut features = features("h");
        features.set_text(memwide_perf_abi::file::feature::CPUID, cpuid);
        features.set_text(memwide_perf_abi::file::feature::ARCH, "x86_64");
        features.set_pmu_mappings(&[(11, "ibs_op")]);
        let all = events::describe(&events, &attrs, &features, None);
        let kinds = all
            .iter()
            .map(|desc| u8::try_from(desc.latency_kind).unwrap());
        kinds
            .map(|code| LatencyKind::from_code(code).unwrap())
            .collect::<Vec<_>>()
    };
    for (cpuid, load, store) in [
        ("GenuineIntel,6,85,7", Use, NoWeight),
        ("GenuineIntel,6,143,8", Cache, Cache),
        ("GenuineIntel,6,215,1", Cache, Cache),
        ("GenuineIntel,19,1,0", Cache, Cache),
        ("", Unknown, Unknown),
    ] {
        let expected = [load, store, store, load, NoWeight, NoWeight, IbsMiss];
        assert_eq!(kinds(cpuid), expected, "{cpuid}");
    }
}

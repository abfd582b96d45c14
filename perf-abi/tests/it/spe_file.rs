//! A perf.data file with SPE data, constructed: its samples are those perf makes of it (`perf script --itrace=M`).

use memwide_perf_abi::file::{EventSpec, Features, FileWriter, MADE_EVENT, SpeCounts, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, PerfFile, Record, SampleId, SampleLayout, SampleView, Switch,
    SwitchCpuWide, encode, kind, misc, sample,
};
use std::io::Cursor;
use std::process::Command;

/// Pieces of trace of two rings.
type Pieces = [Vec<Vec<u8>>; 2];

const PMU: u32 = 9;
const NEOVERSE_N1: &str = "0x00000000413fd0c1";

/// One operation as SPE writes it.
#[derive(Clone, Copy)]
struct Op {
    pc: u64,
    /// 0 load, 1 store, 2 branch.
    what: u8,
    events: u32,
    total: u16,
    addr: u64,
    phys: u64,
    source: Option<u8>,
    context: Option<u32>,
    counter: u64,
}

impl Op {
    fn write(&self, out: &mut Vec<u8>) {
        let word = |out: &mut Vec<u8>, header: u8, value: u64| {
            out.push(header);
            out.extend_from_slice(&value.to_le_bytes());
        };
        word(out, 0xb0, self.pc);
        out.extend_from_slice(&[
            0x98,
            self.total.to_le_bytes()[0],
            self.total.to_le_bytes()[1],
        ]);
        out.push(0x62);
        out.extend_from_slice(&self.events.to_le_bytes());
        match self.what {
            2 => out.extend_from_slice(&[0x4a, 0]),
            what => out.extend_from_slice(&[0x49, what]),
        }
        if self.what != 2 {
            word(out, 0xb2, self.addr);
            word(out, 0xb3, self.phys);
        }
        if let Some(source) = self.source {
            out.extend_from_slice(&[0x43, source]);
        }
        if let Some(context) = self.context {
            out.push(0x65);
            out.extend_from_slice(&context.to_le_bytes());
        }
        word(out, 0x71, self.counter);
    }
}

/// Operations of two CPUs, in turns: every source of the common encoding and some without, stores, branches.
fn operations() -> [Vec<Op>; 2] {
    let mut rings = [Vec::new(), Vec::new()];
    for at in 0..64_u32 {
        let sources = [0, 8, 9, 10, 11, 12, 14, 3];
        let user = at % 5 != 4;
        let op = Op {
            pc: if user {
                0x40_1000 + u64::from(at) * 4
            } else {
                0xa0ff_8000_0801_0000 + u64::from(at) // EL1, non-secure
            },
            what: [0, 0, 1, 0, 2][at as usize % 5],
            events: [0x12, 0x32, 0x1e, 0x316, 0x02][at as usize % 5],
            total: 10 + u16::try_from(at).unwrap(),
            addr: if user {
                0xab00_ffff_0000_0000 + u64::from(at) * 8
            } else {
                0x00ff_8000_0000_2000 // kernel data
            },
            phys: 0x8000_0000_1000_0000 + u64::from(at) * 8,
            source: (at % 7 != 6).then_some(sources[at as usize % sources.len()]),
            context: Some(100 + at % 3),
            counter: 1_000 + u64::from(at) * 10 + u64::from(at % 2) * 3,
        };
        rings[at as usize % 2].push(op);
    }
    rings
}

fn spe_attr() -> Attr {
    Attr {
        kind: PMU,
        config: 1,
        sample_period: 4096,
        sample_type: sample::IP
            | sample::TID
            | sample::TIME
            | sample::CPU
            | sample::IDENTIFIER
            | sample::PHYS_ADDR,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

fn user_record(out: &mut Vec<u8>, kind: u32, words: &[u64]) {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    encode::raw(out, kind, 0, &body).unwrap();
}

/// Records, then AUXTRACE records each with its data.
fn write(
    writer: &mut FileWriter<&mut Cursor<Vec<u8>>>,
    rings: &Pieces,
    flags: &[u64],
    switches: &[(u64, u32, u32)],
) {
    let layout = SampleLayout::new(&spe_attr()).unwrap();
    let mut out = Vec::new();
    // 100 MHz: 10 ns a tick, perf's clock starts at 5 s.
    user_record(
        &mut out,
        kind::TIME_CONV,
        &[20, 10 << 20, 5_000_000_000, 0, 0, 1],
    );
    user_record(&mut out, kind::AUXTRACE_INFO, &[4, PMU.into(), 1]);
    for tid in 100..103 {
        let comm = Record::Comm(Comm {
            pid: 100,
            tid,
            comm: b"loader",
            exec: false,
        });
        let id = SampleId {
            pid: Some(100),
            tid: Some(tid),
            time: Some(5_000_000_001),
            id: Some(7),
            stream_id: None,
            cpu: Some(0),
        };
        encode::record(&mut out, &comm, misc::USER, Some((layout.trailer(), &id))).unwrap();
    }
    for flags in flags {
        let aux = Record::Aux(memwide_perf_abi::Aux {
            offset: 0,
            size: 64,
            flags: *flags,
        });
        let id = SampleId {
            pid: Some(100),
            tid: Some(100),
            time: Some(6_000_000_000),
            id: Some(7),
            stream_id: None,
            cpu: Some(0),
        };
        encode::record(&mut out, &aux, misc::USER, Some((layout.trailer(), &id))).unwrap();
    }
    for (time, cpu, tid) in switches {
        let switch = Record::SwitchCpuWide(SwitchCpuWide {
            switch: Switch {
                out: true,
                preempted: false,
            },
            next_prev_pid: 100,
            next_prev_tid: *tid,
        });
        let id = SampleId {
            pid: Some(0),
            tid: Some(0),
            time: Some(*time),
            id: Some(7),
            stream_id: None,
            cpu: Some(*cpu),
        };
        let trailer = Some((layout.trailer(), &id));
        encode::record(&mut out, &switch, misc::USER, trailer).unwrap();
    }
    writer.write_records(&out).unwrap();
    for (cpu, pieces) in (0_u64..).zip(rings) {
        let mut offset = 0;
        for piece in pieces {
            // idx and tid, cpu and reserved share a word each.
            let any_tid = u64::from(u32::MAX) << 32;
            let words = [piece.len() as u64, offset, 0, cpu | any_tid, cpu];
            out.clear();
            user_record(&mut out, kind::AUXTRACE, &words);
            writer.write_records(&out).unwrap();
            writer.write_trace(piece).unwrap();
            offset += piece.len() as u64;
        }
    }
    writer.finish_round().unwrap();
}

fn file(rings: &Pieces, flags: &[u64]) -> Vec<u8> {
    file_with(rings, flags, &[])
}

/// With switches: time, CPU, thread that follows.
fn file_with(rings: &Pieces, flags: &[u64], switches: &[(u64, u32, u32)]) -> Vec<u8> {
    let event = EventSpec {
        attr: spe_attr(),
        name: "arm_spe_0//".into(),
        ids: vec![7, 8],
    };
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::new(&mut out, &[event]).unwrap();
    write(&mut writer, rings, flags, switches);
    let mut features = Features::default();
    features.set_text(feature::CPUID, NEOVERSE_N1);
    features.set_text(feature::ARCH, "aarch64");
    features.set_pmu_mappings(&[(PMU, "arm_spe_0")]);
    features.set_raw(feature::AUXTRACE, 0_u64.to_le_bytes().to_vec());
    writer.finish(&features).unwrap();
    out.into_inner()
}

fn piece(ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    for op in ops {
        op.write(&mut out);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Each ring's trace in pieces of a few operations, as the kernel hands it on.
fn whole_operations() -> Pieces {
    operations().map(|ops| ops.chunks(5).map(piece).collect())
}

/// The same cut anywhere.
fn anywhere() -> Pieces {
    let chunks = |pieces: Vec<Vec<u8>>| pieces.concat().chunks(97).map(<[u8]>::to_vec).collect();
    whole_operations().map(chunks)
}

#[derive(Debug, PartialEq)]
struct Row {
    pid: u32,
    tid: u32,
    cpu: u32,
    time: u64,
    ip: u64,
    addr: u64,
    phys: u64,
    weight: u64,
    data_src: u64,
}

fn read(bytes: &[u8]) -> (Vec<Row>, SpeCounts) {
    let mut file = PerfFile::open(Cursor::new(bytes)).unwrap();
    let events = std::sync::Arc::clone(file.events());
    let mut rows = Vec::new();
    let mut records = file.sorted().unwrap();
    while let Some(item) = records.next().unwrap() {
        if !item.record.is_sample() {
            continue;
        }
        let event = &events.events()[item.event.unwrap()];
        assert_eq!(event.name, MADE_EVENT);
        let view = SampleView::parse(item.record.body(), event.layout.as_ref().unwrap()).unwrap();
        rows.push(Row {
            pid: view.pid().unwrap(),
            tid: view.tid().unwrap(),
            cpu: view.cpu().unwrap(),
            time: view.time().unwrap(),
            ip: view.ip().unwrap(),
            addr: view.addr().unwrap(),
            phys: view.phys_addr().unwrap(),
            weight: view.weight().unwrap().weight,
            data_src: view.data_src().unwrap(),
        });
    }
    (rows, records.spe().unwrap())
}

#[test]
fn every_load_and_store_becomes_a_sample_in_the_order_of_time() {
    let (rows, counts) = read(&file(&whole_operations(), &[]));
    assert_eq!(read(&file(&anywhere(), &[])).0, rows);
    let ops = accesses();
    assert_eq!(rows.len(), ops.len());
    for (row, (cpu, op)) in rows.iter().zip(&ops) {
        assert_eq!(
            (row.cpu, row.tid, row.pid),
            (*cpu, op.context.unwrap(), 100)
        );
        assert_eq!(row.time, 5_000_000_000 + op.counter * 10);
        assert_eq!(row.weight, u64::from(op.total));
        assert_eq!(row.phys, op.phys & ((1 << 56) - 1));
    }
    assert_eq!(counts.records, 64);
    assert_eq!(counts.accesses, rows.len() as u64);
    assert_eq!((counts.broken, counts.bad_bytes), (0, 0));
}

#[test]
fn collisions_truncation_and_damage_are_counted() {
    let mut data = whole_operations();
    data[0][0][12] = 0xff; // where the events' header stands
    let (rows, counts) = read(&file(&data, &[0, 8, 9, 1]));
    assert_eq!(
        (counts.handed, counts.collided, counts.truncated),
        (4, 2, 2)
    );
    assert!((counts.collision_share() - 0.5).abs() < f64::EPSILON);
    assert_eq!(counts.broken, 1);
    assert!(counts.bad_bytes > 0);
    assert_eq!(counts.records, 63);
    assert_eq!(counts.accesses, rows.len() as u64);
}

#[test]
fn a_file_of_another_tracer_has_no_made_event() {
    let mut bytes = file(&whole_operations(), &[]);
    let info = bytes
        .windows(8)
        .position(|window| window == [70, 0, 0, 0, 0, 0, 32, 0])
        .unwrap();
    bytes[info + 8] = 1; // Intel PT
    let mut file = PerfFile::open(Cursor::new(bytes)).unwrap();
    assert_eq!(file.events().events().len(), 1);
    assert_eq!(file.sorted().unwrap().spe(), None);
}

/// The word as perf 6.1 makes it, where later perfs differ: it fills no snoop field, has another word for another chip, and
/// asks no events where a core's source has no meaning. `docs/parity.md` lists it.
fn as_perf_6_1(word: u64, op: &Op) -> u64 {
    const LEVEL: u64 = 0x3fff << 5 | 15 << 33;
    const SNOOP: u64 = 31 << 19;
    const SNOOP_NA: u64 = 1 << 19;
    let open = if word & SNOOP == SNOOP_NA {
        word & !SNOOP
    } else {
        word
    };
    match (op.what, op.source) {
        (1, _) => word,
        (_, Some(3)) => open & !LEVEL,
        (_, Some(13)) => open & !LEVEL | 0x400 << 5 | 11 << 33,
        _ => open,
    }
}

/// Loads and stores of both rings by time, with their CPU.
fn accesses() -> Vec<(u32, Op)> {
    let mut ops: Vec<(u32, Op)> = Vec::new();
    for (cpu, ring) in (0..).zip(operations()) {
        ops.extend(ring.iter().map(|op| (cpu, *op)));
    }
    ops.sort_by_key(|(_, op)| op.counter);
    ops.retain(|(_, op)| op.what != 2);
    ops
}

/// Compares a file's samples with perf's lines; `ops` are the operations they come from.
fn check_with_perf(name: &str, bytes: &[u8], ops: &[(u32, Op)]) {
    let folder = std::env::temp_dir().join(format!("memwide-spe-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new("perf")
        .args(["script", "--itrace=M", "--ns", "-F"])
        .arg("pid,tid,cpu,time,event,ip,addr,phys_addr,weight,data_src")
        .arg("-i")
        .arg(&path)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = match output {
        Ok(output) if output.status.success() => output,
        failed => {
            eprintln!("skipped: perf cannot read the file: {failed:?}");
            return;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("memory:"))
        .collect();
    let (rows, _) = read(bytes);
    assert_eq!(
        lines.len(),
        rows.len(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for ((line, row), (_, op)) in lines.iter().zip(&rows).zip(ops) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let data_src = as_perf_6_1(row.data_src, op);
        let time = format!(
            "{}.{:09}:",
            row.time / 1_000_000_000,
            row.time % 1_000_000_000
        );
        let start = [
            format!("{}/{}", row.pid, row.tid),
            format!("[{:03}]", row.cpu),
            time,
            "memory:".to_owned(),
            format!("{:x}", row.addr),
            format!("{data_src:x}"),
        ];
        assert_eq!(&words[..start.len()], start.as_slice(), "{line}\n{row:x?}");
        let end = format!("{:x}", row.phys);
        assert_eq!(words.last().copied(), Some(end.as_str()), "{line}");
        assert!(words.contains(&row.weight.to_string().as_str()), "{line}");
        assert!(words.contains(&format!("{:x}", row.ip).as_str()), "{line}");
    }
}

#[test]
fn samples_are_those_perf_makes() {
    let bytes = file(&whole_operations(), &[]);
    check_with_perf("context", &bytes, &accesses());
}

#[test]
fn without_context_packets_switches_tell_who_ran() {
    let bare = operations().map(|ops| {
        let bare = |op: Op| Op {
            context: None,
            ..op
        };
        ops.into_iter().map(bare).collect::<Vec<_>>()
    });
    let pieces = bare.map(|ops| ops.chunks(5).map(piece).collect());
    // From the beginning 101 and 102 run; later 100 on CPU 0.
    let switches = [
        (5_000_000_200, 0, 101),
        (5_000_000_300, 1, 102),
        (5_000_013_000, 0, 100),
    ];
    let bytes = file_with(&pieces, &[], &switches);
    let (rows, _) = read(&bytes);
    for row in &rows {
        let tid = match (row.cpu, row.time >= 5_000_013_000) {
            (0, false) => 101,
            (0, true) => 100,
            _ => 102,
        };
        assert_eq!((row.tid, row.pid), (tid, 100), "{row:x?}");
    }
    check_with_perf("switches", &bytes, &accesses());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    /// Damage anywhere: read to an end or refused, never more accesses than packets can hold.
    #[test]
    fn damaged_files_are_read_or_refused(places in proptest::collection::vec((0..6000_usize, proptest::prelude::any::<u8>()), 1..12)) {
        let mut bytes = file(&anywhere(), &[0, 8]);
        for (at, value) in places {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let Ok(mut file) = PerfFile::open(Cursor::new(&bytes)) else {
            return Ok(());
        };
        let Ok(mut records) = file.sorted() else {
            return Ok(());
        };
        let mut samples = 0;
        while let Ok(Some(item)) = records.next() {
            samples += usize::from(item.record.is_sample());
        }
        proptest::prop_assert!(samples < bytes.len());
    }
}

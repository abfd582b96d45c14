//! Files with what hardware wrote itself: raw IBS registers without `data_src`.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use memwide_decoder::edge::FileSource;
use memwide_decoder::local::LocalSession;
use memwide_model::{Locality, Op, Suspect};
use memwide_perf_abi::file::{EventSpec, Features, FileWriter, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, PerfFile, SampleFields, SampleLayout, encode, misc, sample,
};
use std::io::Cursor;

const IBS_OP: u32 = 11;
const IBS_FETCH: u32 = 10;

fn attr(kind: u32) -> Attr {
    Attr {
        kind,
        sample_period: 0x4_0000,
        sample_type: sample::IP
            | sample::TID
            | sample::TIME
            | sample::CPU
            | sample::IDENTIFIER
            | sample::RAW,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

/// `u32 caps`, then registers as the driver writes them on a Zen 4.
fn op(data: u64, data2: u64, data3: u64) -> Vec<u8> {
    let words = [
        1 << 18, // valid
        0x40_1000,
        data,
        data2,
        data3,
        0x7fff_1000,
        0x1_2345_6000,
        0x40_2000,
        0,
    ];
    raw(&words)
}

fn raw(words: &[u64]) -> Vec<u8> {
    let mut raw = 0xfff_u32.to_le_bytes().to_vec();
    raw.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    raw
}

/// A load that missed both levels, addresses valid.
const MISS: u64 = 1 | 1 << 7 | 1 << 17 | 1 << 18 | 1 << 20 | 0x200 << 32;

fn file() -> Vec<u8> {
    let events = [
        EventSpec {
            attr: attr(IBS_OP),
            name: "ibs_op//".into(),
            ids: vec![1],
        },
        EventSpec {
            attr: attr(IBS_FETCH),
            name: "ibs_fetch//".into(),
            ids: vec![2],
        },
    ];
    let layout = SampleLayout::new(&events[0].attr).unwrap();
    let mut records = Vec::new();
    let samples = [
        (1, op(0x99 << 16, 3 | 1 << 4, MISS)), // memory of another node
        (1, op(0, 5, MISS)),                   // cache of another node, modified
        (1, op(0, 2, MISS)),                   // another CCX
        (1, op(0, 0, 1 | 1 << 15)),            // locked load, hit
        (1, op(1 << 38, 0, 2)),                // store, instruction pointer invalid
        (1, op(0, 0, 0)),                      // no access
        (2, raw(&[1 << 49 | 1 << 50, 0x40_1000, 0, 0])), // fetch
        (1, vec![1, 2, 3, 4]),                 // no registers
    ];
    for (time, (id, raw)) in (1..).zip(&samples) {
        let fields = SampleFields {
            id: *id,
            ip: 0x40_1000,
            pid: 5,
            tid: 5,
            time,
            raw,
            ..SampleFields::default()
        };
        encode::sample(&mut records, &fields, misc::USER, &layout).unwrap();
    }
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::new(&mut out, &events).unwrap();
    writer.write_records(&records).unwrap();
    let mut features = Features::default();
    features.set_text(feature::CPUID, "AuthenticAMD,25,17,1");
    features.set_text(feature::ARCH, "x86_64");
    features.set_pmu_mappings(&[(IBS_OP, "ibs_op"), (IBS_FETCH, "ibs_fetch")]);
    writer.finish(&features).unwrap();
    out.into_inner()
}

#[test]
fn registers_of_a_file_become_accesses() {
    use Locality::{Local, Remote, Unknown};
    let mut file = PerfFile::open(Cursor::new(file())).unwrap();
    let events = file.events().clone();
    let mut session = LocalSession::new(events, file.features(), FileSource::default());
    let mut records = file.sorted().unwrap();
    let mut rows = Vec::new();
    while let Some(item) = records.next().unwrap() {
        session.push(&item.record, item.event, |sample| {
            let class = sample.derived.class;
            rows.push((
                class.op,
                class.level.name(),
                class.hw_locality,
                class.snoop.name(),
                class.locked,
                class.suspect,
                sample.addr().is_some() && sample.phys_addr().is_some(),
            ));
        });
    }
    assert_eq!(
        rows,
        [
            (
                Op::Load,
                "RAM",
                Remote,
                "unknown",
                false,
                Suspect::None,
                true
            ),
            (
                Op::Load,
                "any-cache",
                Remote,
                "hitm",
                false,
                Suspect::None,
                true
            ),
            (
                Op::Load,
                "any-cache",
                Local,
                "hitm",
                false,
                Suspect::None,
                true
            ),
            (Op::Load, "L1", Local, "unknown", true, Suspect::None, false),
            (
                Op::Store,
                "L1",
                Local,
                "unknown",
                false,
                Suspect::RipInvalid,
                false
            ),
            (
                Op::None,
                "unknown",
                Unknown,
                "unknown",
                false,
                Suspect::None,
                false
            ),
            (
                Op::Exec,
                "none",
                Unknown,
                "unknown",
                false,
                Suspect::None,
                false
            ),
            (
                Op::Unknown,
                "none",
                Unknown,
                "unknown",
                false,
                Suspect::None,
                false
            ),
        ]
    );
}

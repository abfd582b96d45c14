//! Recordings that lie in several files.

use std::io::Cursor;

use memwide_perf_abi::file::{EventSpec, Features};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileError, FileWriter, PerfFile, Record, SampleFields, SampleId,
    SampleLayout, attr_kind, encode, kind, misc, sample,
};

fn event() -> EventSpec {
    EventSpec {
        attr: Attr {
            kind: attr_kind::SOFTWARE,
            sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME,
            sample_period: 1,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        },
        name: "event".to_owned(),
        ids: vec![7],
    }
}

fn samples(times: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let layout = SampleLayout::new(&event().attr).unwrap();
    let mut out = Vec::new();
    for time in times {
        let fields = SampleFields {
            id: 7,
            time,
            ..SampleFields::default()
        };
        encode::sample(&mut out, &fields, misc::USER, &layout).unwrap();
    }
    out
}

/// A main file as perf writes it: what it knows of processes has no times.
fn main_file() -> Vec<u8> {
    let layout = SampleLayout::new(&event().attr).unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event()]).unwrap();
    let comm = Record::Comm(Comm {
        pid: 1,
        tid: 1,
        comm: b"prog",
        exec: false,
    });
    let mut out = Vec::new();
    let id = SampleId::default();
    encode::record(&mut out, &comm, 0, Some((layout.trailer(), &id))).unwrap();
    writer.write_records(&out).unwrap();
    writer.finish_round().unwrap();
    writer.finish(&Features::default()).unwrap().into_inner()
}

/// Times of the samples as they are lent, whether something came too late, and how the file ends.
fn read(parts: Vec<Vec<u8>>, queue: Option<usize>) -> (Vec<u64>, u64, Result<bool, FileError>) {
    let parts = parts.into_iter().map(Cursor::new).collect();
    let mut file = PerfFile::open_parts(Cursor::new(main_file()), parts).unwrap();
    let events = file.events().clone();
    let mut records = file.sorted().unwrap();
    if let Some(bytes) = queue {
        records = records.with_queue_bytes(bytes);
    }
    let mut times = Vec::new();
    let mut first = true;
    let end = loop {
        match records.next() {
            Ok(Some(item)) if item.record.kind == kind::SAMPLE => {
                times.push(events.time_of(item.event, &item.record).unwrap());
            }
            Ok(Some(item)) => {
                assert!(first, "what perf knows of processes comes first");
                assert_eq!(item.record.kind, kind::COMM);
            }
            Ok(None) => break Ok(records.cut().is_some()),
            Err(wrong) => break Err(wrong),
        }
        first = false;
    };
    (times, records.early_flushes(), end)
}

#[test]
fn records_of_all_files_come_in_the_order_of_their_times() {
    let parts = vec![
        samples((0..1000).map(|n| 10 + 3 * n)),
        samples((0..1000).map(|n| 11 + 3 * n)),
        Vec::new(),
        samples((0..10).map(|n| 12 + 300 * n)),
    ];
    let (times, late, end) = read(parts, None);
    assert_eq!((times.len(), late), (2010, 0));
    assert!(times.is_sorted());
    assert!(!end.unwrap());
}

#[test]
fn files_far_longer_than_the_queue_are_sorted_in_it() {
    // Each file's own order is off by some records, as when a thread empties several rings.
    let shuffled = |first: u64| (0..20_000).map(move |n: u64| first + 4 * (n ^ 7));
    let parts = vec![samples(shuffled(100)), samples(shuffled(102))];
    let bytes: usize = parts.iter().map(Vec::len).sum();
    let (times, late, end) = read(parts, Some(bytes / 50));
    assert_eq!((times.len(), late), (40_000, 0));
    assert!(times.is_sorted());
    assert!(!end.unwrap());
}

#[test]
fn what_comes_too_late_for_the_queue_is_counted() {
    let mut late = samples((0..5000).map(|n| 1000 + n));
    late.extend(samples([5]));
    let (times, count, _) = read(vec![late, samples((0..5000).map(|n| 1000 + n))], Some(4096));
    assert_eq!((times.len(), count), (10_001, 1));
}

#[test]
fn a_cut_or_damaged_file_costs_its_own_end_only() {
    let whole = samples((0..100).map(|n| 10 + 2 * n));
    let mut cut = samples((0..100).map(|n| 11 + 2 * n));
    cut.truncate(cut.len() / 2 + 3);
    let (times, _, end) = read(vec![cut.clone(), whole.clone()], None);
    assert_eq!(times.len(), 150);
    assert!(end.unwrap(), "it is said to be cut");

    let len = cut.len() / 8 * 8;
    cut.truncate(len);
    cut[len / 2 / 40 * 40 + 6] = 0; // the size of a record
    cut[len / 2 / 40 * 40 + 7] = 0;
    let (times, _, end) = read(vec![cut, whole], None);
    assert!(times.len() > 100 && times.len() < 150, "{}", times.len());
    assert!(matches!(end, Err(FileError::Record { .. })));
}

#[test]
fn of_records_of_the_same_time_those_of_the_first_file_come_first() {
    let layout = SampleLayout::new(&event().attr).unwrap();
    let of = |tid: u32, times: &[u64]| {
        let mut out = Vec::new();
        for time in times {
            let fields = SampleFields {
                id: 7,
                tid,
                time: *time,
                ..SampleFields::default()
            };
            encode::sample(&mut out, &fields, misc::USER, &layout).unwrap();
        }
        Cursor::new(out)
    };
    // The second file is behind, so it is read before the first one's second record.
    let parts = vec![of(1, &[10, 50]), of(2, &[20, 50, 50])];
    let mut file = PerfFile::open_parts(Cursor::new(main_file()), parts).unwrap();
    let mut records = file.sorted().unwrap();
    let mut tids = Vec::new();
    while let Some(item) = records.next().unwrap() {
        if item.record.kind == kind::SAMPLE {
            let view = memwide_perf_abi::SampleView::parse(item.record.body(), &layout).unwrap();
            tids.push(view.tid().unwrap());
        }
    }
    assert_eq!(tids, [1, 2, 1, 2, 2]);
}

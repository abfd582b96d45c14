//! Samples whose user frames come later, in files written here.

use std::io::Cursor;

use memwide_perf_abi::file::{DeferredCounts, EventSpec, Features};
use memwide_perf_abi::{
    Attr, AttrFlags, CallchainDeferred, FileWriter, PerfFile, Record, SampleFields, SampleId,
    SampleLayout, SampleView, Task, Words, attr_kind, encode, kind, misc, sample,
};

const KERNEL: u64 = 128_u64.wrapping_neg();
const USER: u64 = 512_u64.wrapping_neg();
const DEFERRED: u64 = 640_u64.wrapping_neg();
const ENTRY: u64 = 0xffff_ffff_8100_0010;

fn event(flags: AttrFlags) -> EventSpec {
    EventSpec {
        attr: Attr {
            kind: attr_kind::SOFTWARE,
            sample_type: sample::IDENTIFIER
                | sample::IP
                | sample::TID
                | sample::TIME
                | sample::CALLCHAIN
                | sample::WEIGHT,
            sample_period: 1,
            flags: flags.with_sample_id_all(true),
            ..Attr::default()
        },
        name: "event".to_owned(),
        ids: vec![7],
    }
}

/// A file of records, in rounds as given.
struct File {
    layout: SampleLayout,
    writer: FileWriter<Cursor<Vec<u8>>>,
}

impl File {
    fn new(flags: AttrFlags) -> Self {
        let event = event(flags);
        Self {
            layout: SampleLayout::new(&event.attr).unwrap(),
            writer: FileWriter::new(Cursor::default(), &[event]).unwrap(),
        }
    }

    /// As kernels write it that defer user frames.
    fn deferring() -> Self {
        Self::new(AttrFlags::default().with_defer_callchain(true))
    }

    fn sample(&mut self, time: u64, tid: u32, chain: &[u64]) -> &mut Self {
        let fields = SampleFields {
            id: 7,
            ip: ENTRY,
            pid: 1,
            tid,
            time,
            callchain: chain,
            weight: memwide_perf_abi::Weight {
                weight: time,
                ..memwide_perf_abi::Weight::default()
            },
            ..SampleFields::default()
        };
        let mut out = Vec::new();
        encode::sample(&mut out, &fields, misc::KERNEL, &self.layout).unwrap();
        self.writer.write_records(&out).unwrap();
        self
    }

    /// A sample in the kernel whose user frames are to come.
    fn waits(&mut self, time: u64, tid: u32, cookie: u64) -> &mut Self {
        self.sample(time, tid, &[KERNEL, ENTRY, DEFERRED, cookie])
    }

    fn record(&mut self, time: u64, tid: u32, record: &Record<'_>) -> &mut Self {
        let id = SampleId {
            pid: Some(1),
            tid: Some(tid),
            time: Some(time),
            id: Some(7),
            ..SampleId::default()
        };
        let mut out = Vec::new();
        encode::record(&mut out, record, 0, Some((self.layout.trailer(), &id))).unwrap();
        self.writer.write_records(&out).unwrap();
        self
    }

    fn frames(&mut self, time: u64, tid: u32, cookie: u64, frames: &[u64]) -> &mut Self {
        let bytes: Vec<u8> = frames.iter().flat_map(|word| word.to_le_bytes()).collect();
        let record = Record::CallchainDeferred(CallchainDeferred {
            cookie,
            callchain: Words::new(&bytes),
        });
        self.record(time, tid, &record)
    }

    fn exit(&mut self, time: u64, tid: u32) -> &mut Self {
        let task = Task {
            pid: 1,
            ppid: 1,
            tid,
            ptid: 1,
            time,
        };
        self.record(time, tid, &Record::Exit(task))
    }

    fn round(&mut self) -> &mut Self {
        self.writer.finish_round().unwrap();
        self
    }

    /// What a reader gets: time, callchain and weight of samples; time and nothing of other records.
    fn read(self, bound: Option<usize>) -> (Vec<(u64, Vec<u64>, u64)>, DeferredCounts) {
        let bytes = self
            .writer
            .finish(&Features::default())
            .unwrap()
            .into_inner();
        let mut file = PerfFile::open(Cursor::new(bytes)).unwrap();
        let events = file.events().clone();
        let mut records = file.sorted().unwrap();
        if let Some(bound) = bound {
            records = records.with_queue_bytes(bound);
        }
        let mut rows = Vec::new();
        while let Some(item) = records.next().unwrap() {
            let layout = events.events()[0].layout.unwrap();
            if item.record.kind == kind::SAMPLE {
                let view = SampleView::parse(item.record.body(), &layout).unwrap();
                assert_eq!(usize::from(item.record.misc), usize::from(misc::KERNEL));
                let chain = view.callchain().unwrap().iter().collect();
                rows.push((view.time().unwrap(), chain, view.weight().unwrap().weight));
            } else {
                let id = layout.trailer().parse(&item.record).unwrap();
                rows.push((id.time.unwrap(), Vec::new(), 0));
            }
        }
        (rows, records.deferred())
    }
}

#[track_caller]
fn check(file: File, expected: &[(u64, &[u64])], merged: u64, alone: u64) {
    let (rows, counts) = file.read(None);
    let expected: Vec<_> = expected
        .iter()
        .map(|(time, chain)| {
            (
                *time,
                chain.to_vec(),
                if chain.is_empty() { 0 } else { *time },
            )
        })
        .collect();
    assert_eq!(rows, expected);
    assert_eq!(counts, DeferredCounts { merged, alone });
}

const ALONE: &[u64] = &[KERNEL, ENTRY, DEFERRED, 5];

#[test]
fn samples_get_the_frames_of_their_thread_and_cookie_when_these_come() {
    let mut file = File::deferring();
    file.waits(10, 1, 5)
        .waits(20, 2, 5)
        .waits(30, 1, 5)
        .sample(40, 1, &[USER, 0x40])
        .round()
        .frames(50, 1, 5, &[USER, 0x400, 0x500])
        .sample(60, 1, &[USER, 0x40])
        .frames(70, 2, 5, &[0x600]);
    let own = &[KERNEL, ENTRY, USER, 0x400, 0x500][..];
    check(
        file,
        &[
            (40, &[USER, 0x40]),
            (10, own),
            (30, own),
            (60, &[USER, 0x40]),
            (20, &[KERNEL, ENTRY, USER, 0x600]),
        ],
        3,
        0,
    );
}

#[test]
fn another_cookie_ends_the_waiting_without_frames() {
    let mut file = File::deferring();
    file.waits(10, 1, 5)
        .frames(20, 1, 6, &[USER, 0x400])
        .waits(30, 1, 5)
        .frames(40, 1, 5, &[USER, 0x500]);
    check(
        file,
        &[(10, ALONE), (30, &[KERNEL, ENTRY, USER, 0x500])],
        1,
        1,
    );
}

#[test]
fn threads_that_end_and_the_end_of_the_file_let_samples_go() {
    let mut file = File::deferring();
    file.waits(10, 1, 5)
        .waits(20, 2, 5)
        .waits(30, 1, 5)
        .exit(40, 1);
    check(
        file,
        &[(10, ALONE), (30, ALONE), (40, &[]), (20, ALONE)],
        0,
        3,
    );
}

#[test]
fn frames_nobody_waits_for_stay_a_record() {
    let mut file = File::deferring();
    file.frames(10, 1, 5, &[USER, 0x400]).waits(20, 1, 5);
    check(file, &[(10, &[]), (20, ALONE)], 0, 1);
}

#[test]
fn a_file_whose_events_do_not_say_that_frames_come_later_is_read_alike() {
    let mut file = File::new(AttrFlags::default());
    file.waits(10, 1, 5).frames(20, 1, 5, &[USER, 0x400]);
    check(file, &[(10, &[KERNEL, ENTRY, USER, 0x400])], 1, 0);
}

#[test]
fn more_frames_than_a_record_holds_are_cut() {
    let mut file = File::deferring();
    let many: Vec<u64> = std::iter::once(USER).chain(0x1000..0x2fe0).collect();
    file.waits(10, 1, 5).frames(20, 1, 5, &many);
    let (rows, counts) = file.read(None);
    assert_eq!(counts.merged, 1);
    let (_, chain, weight) = &rows[0];
    assert_eq!((&chain[..3], *weight), (&[KERNEL, ENTRY, USER][..], 10));
    assert!((8000..8192).contains(&chain.len()), "{}", chain.len());
    assert_eq!(chain[3..], many[1..chain.len() - 2]);
}

#[test]
fn what_waits_is_bounded_and_the_oldest_goes_first() {
    let mut file = File::deferring();
    for number in 0..2000 {
        // Threads that never come back, among one that does.
        file.waits(10 * number + 1, 100 + u32::try_from(number).unwrap(), 5)
            .waits(10 * number + 2, 1, number)
            .frames(10 * number + 3, 1, number, &[USER, 0x400]);
    }
    let (rows, counts) = file.read(Some(64 << 10));
    assert_eq!(rows.len(), 4000);
    assert_eq!((counts.merged, counts.alone), (2000, 2000));
    let alone: Vec<u64> = rows
        .iter()
        .filter(|(_, chain, _)| chain.as_slice() == ALONE)
        .map(|(time, _, _)| *time)
        .collect();
    assert!(alone.is_sorted());
    // Most were let go while the file was read, not at its end.
    let last = rows
        .iter()
        .rposition(|(_, chain, _)| chain.as_slice() != ALONE);
    assert!(rows.len() - last.unwrap() < 1000, "{last:?}");
}

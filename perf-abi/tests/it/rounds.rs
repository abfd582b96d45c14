//! The order of records against its rule, written down a second time in the plainest way.

use std::io::Cursor;

use memwide_perf_abi::file::{EventSpec, Features};
use memwide_perf_abi::{
    Attr, FileWriter, PerfFile, SampleFields, SampleLayout, SampleView, attr_kind, encode, misc,
    sample,
};
use proptest::prelude::*;

fn event(samples_raw: u64) -> EventSpec {
    EventSpec {
        attr: Attr {
            kind: attr_kind::RAW,
            sample_type: sample::IP | sample::TIME | samples_raw,
            ..Attr::default()
        },
        name: "event".into(),
        ids: vec![1],
    }
}

/// Samples by round; each is a time (0: none) and has bytes to fill. Their addresses count them.
fn file(rounds: &[Vec<(u64, usize)>]) -> Vec<u8> {
    let event = event(sample::RAW);
    let layout = SampleLayout::new(&event.attr).unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event]).unwrap();
    let mut ip = 0;
    for round in rounds {
        for (time, fill) in round {
            let (mut out, raw) = (Vec::new(), vec![7; 4 + 8 * fill]);
            let fields = SampleFields {
                ip,
                time: *time,
                raw: &raw,
                ..SampleFields::default()
            };
            encode::sample(&mut out, &fields, misc::USER, &layout).unwrap();
            writer.write_records(&out).unwrap();
            ip += 1;
        }
        writer.finish_round().unwrap();
    }
    writer.finish(&Features::default()).unwrap().into_inner()
}

/// What is never older than what the round before ended with is final at the end of a round; the rest at the end of the file.
fn by_the_rule(rounds: &[Vec<(u64, usize)>]) -> Vec<u64> {
    let (mut out, mut waiting, mut ip) = (Vec::new(), Vec::new(), 0);
    let (mut newest, mut newest_before) = (0, 0);
    for round in rounds {
        for (time, _) in round {
            if *time == 0 {
                out.push(ip);
            } else {
                waiting.push((*time, ip));
                newest = newest.max(*time);
            }
            ip += 1;
        }
        waiting.sort_by_key(|(time, _)| *time);
        out.extend(
            waiting
                .extract_if(.., |(time, _)| *time <= newest_before)
                .map(|(_, ip)| ip),
        );
        newest_before = newest;
    }
    out.extend(waiting.into_iter().map(|(_, ip)| ip));
    out
}

fn read(bytes: Vec<u8>, queue: Option<usize>) -> Vec<u64> {
    let mut file = PerfFile::open(Cursor::new(bytes)).unwrap();
    let events = std::sync::Arc::clone(file.events());
    let layout = events.get(0).unwrap().layout.unwrap();
    let mut records = file.sorted().unwrap();
    if let Some(bytes) = queue {
        records = records.with_queue_bytes(bytes);
    }
    let mut ips = Vec::new();
    while let Some(item) = records.next().unwrap() {
        let view = SampleView::parse(item.record.body(), &layout).unwrap();
        assert!(view.raw().unwrap().iter().all(|byte| *byte == 7));
        ips.push(view.ip().unwrap());
    }
    ips
}

proptest! {
    #[test]
    fn records_come_as_the_rule_says(
        rounds in prop::collection::vec(
            prop::collection::vec((prop_oneof![9 => 1_u64..60, 1 => Just(0)], 0_usize..40), 0..60),
            1..12,
        ),
        // Later rounds are later, more or less.
        step in 0_u64..60,
    ) {
        let rounds: Vec<Vec<(u64, usize)>> = (0_u64..)
            .zip(rounds)
            .map(|(at, round)| {
                let later = |time: u64| if time == 0 { 0 } else { time + at * step };
                round.into_iter().map(|(time, fill)| (later(time), fill)).collect()
            })
            .collect();
        let expected = by_the_rule(&rounds);
        prop_assert_eq!(&read(file(&rounds), None), &expected);
        // However short the queue, each comes once.
        let mut some_order = read(file(&rounds), Some(2_000));
        some_order.sort_unstable();
        let mut all = expected;
        all.sort_unstable();
        prop_assert_eq!(some_order, all);
    }
}

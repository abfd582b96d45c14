use super::*;
use memwide_perf_abi::PerfFile;
use std::fmt::Write as _;

const LIBRARY: u64 = 3;
const PLACE: u64 = 0x1234;

fn numbers(values: &[u64]) -> Vec<Value> {
    values.iter().copied().map(Value::Number).collect()
}

fn sample(time: u64, bias: u64) -> Vec<Value> {
    let ip = bias + PLACE;
    let mut row = numbers(&[time, 9, 7, 7, 0, ip, 0, 0, 0, 1, 0, 0, 0, 0, 21, 0]);
    row.push(Value::Text("program".to_owned()));
    row
}

fn texts(id: u64, texts: &[&str]) -> Vec<Value> {
    let texts = texts.iter().map(|text| Value::Text((*text).to_owned()));
    std::iter::once(Value::Number(id)).chain(texts).collect()
}

/// Instruction pointers of samples, each with the address of the file there: by the mappings before it.
fn placed(file: &[u8]) -> Vec<Option<u64>> {
    let mut file = PerfFile::open(Cursor::new(file)).unwrap();
    let events = file.events().clone();
    let mut records = file.sorted().unwrap();
    let (mut maps, mut placed) = (Vec::new(), Vec::new());
    while let Some(item) = records.next().unwrap() {
        if item.record.is_sample() {
            let layout = events.events()[0].layout.as_ref().unwrap();
            let view = memwide_perf_abi::SampleView::parse(item.record.body(), layout).unwrap();
            let ip = view.ip().unwrap();
            let newest = maps.iter().rev();
            let holds = |(addr, len, _): &&(u64, u64, u64)| (*addr..*addr + *len).contains(&ip);
            let found = newest.into_iter().find(holds);
            placed.push(found.map(|(addr, _, pgoff)| ip - addr + pgoff));
        } else if let Ok(Record::Mmap2(map)) = Record::parse(item.record) {
            maps.push((map.addr, map.len, map.pgoff));
        }
    }
    placed
}

#[test]
fn a_program_that_replaces_another_has_mappings_of_its_own() {
    let (first, second) = (0x7f00_0000_0000, 0x7f11_1100_0000);
    let rows = Rows {
        samples: vec![sample(10, first), sample(20, second), sample(30, second)],
        events: vec![texts(9, &["faults", ""])],
        places: vec![vec![
            Value::Number(21),
            Value::Number(LIBRARY),
            Value::Number(PLACE),
            Value::Text("0".to_owned()),
        ]],
        mappings: vec![texts(LIBRARY, &["build-id", "0102", "/lib/l.so"])],
        name: "host".to_owned(),
        ..Rows::default()
    };
    let file = write(&rows).unwrap();
    assert_eq!(placed(&file), [Some(PLACE); 3]);
}

#[test]
fn tracepoints_are_written_without_the_formats_that_perf_would_ask_for() {
    let tracepoint = Attr {
        kind: attr_kind::TRACEPOINT,
        config: 321,
        ..Attr::default()
    };
    let stored = tracepoint.encode(128);
    let hex = stored.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    assert_eq!(attr(&hex).kind, attr_kind::SOFTWARE);
    assert_eq!(attr(&hex).config, DUMMY);
}

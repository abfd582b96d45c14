//! Files that lie.

use std::io::Cursor;

use memwide_perf_abi::file::{EventSpec, Features, FileError};
use memwide_perf_abi::{Attr, FileWriter, PerfFile, encode, kind, sample};
use proptest::prelude::*;

use crate::foreign::{self, Amount};

fn small() -> Vec<u8> {
    let event = EventSpec {
        attr: Attr {
            sample_type: sample::IDENTIFIER | sample::TIME,
            ..Attr::default()
        },
        name: "one".to_owned(),
        ids: vec![1, 2, 3],
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event.clone(), event]).unwrap();
    let mut batch = Vec::new();
    for time in 1..20u64 {
        let body: Vec<u8> = [1, time]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
        encode::raw(&mut batch, kind::SAMPLE, 0, &body).unwrap();
    }
    writer.write_records(&batch).unwrap();
    let mut features = Features::default();
    features.set_cmdline(&["a", "b"]);
    features.set_nr_cpus(2, 2);
    writer.finish(&features).unwrap().into_inner()
}

/// Reads everything there is to read; an error is an answer too.
fn read_all(bytes: &[u8]) -> Result<u64, FileError> {
    let mut file = PerfFile::open(Cursor::new(bytes))?;
    let features = file.features();
    let _ = (
        features.cmdline(),
        features.event_desc(),
        features.build_ids(),
        features.cpu_topology(),
    );
    let _ = (
        features.caches(),
        features.memory_topology(),
        features.numa_topology(),
        features.group_desc(),
    );
    let mut count = 0;
    let mut records = file.sorted()?;
    while records.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn message(bytes: &[u8]) -> String {
    read_all(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_no_perf_data_is_refused_by_name() {
    assert!(message(&[]).starts_with("the file is empty"));
    assert!(message(b"\x7fELF\x02\x01\x01\0rest").starts_with("not a perf.data file"));
    assert!(message(b"PERFILE2").contains("has 8 bytes, its header needs 16"));
}

#[test]
fn header_fields_that_lie_are_refused_or_bounded() {
    let good = small();
    assert_eq!(read_all(&good).unwrap(), 19);
    // Every word of the header in turn is a lie.
    for at in (8..104).step_by(8) {
        for lie in [0, 1, 7, u64::MAX, u64::MAX / 2, 1 << 40, 1 << 20] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            // It may be harmless; it must not hang, panic or allocate what it claims.
            let _ = read_all(&bytes);
        }
    }
}

#[test]
fn features_on_top_of_each_other_take_no_more_than_the_file() {
    let mut bytes = small();
    let [at, size] = [40, 48].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
    let table = usize::try_from(at + size).unwrap();
    // Every feature there can be, each the whole file.
    bytes.truncate(table);
    bytes[72..104].fill(0xff);
    let len = u64::try_from(table + 256 * 16).unwrap();
    for _ in 0..256 {
        bytes.extend([0, len].iter().flat_map(|word: &u64| word.to_le_bytes()));
    }
    let file = PerfFile::open(Cursor::new(&bytes)).unwrap();
    let kept: usize = file.features().iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(kept, bytes.len(), "the first and no other");
    assert_eq!(read_all(&bytes).unwrap(), 19);
}

#[test]
fn of_events_that_share_an_id_the_first_gets_its_name() {
    let attr = |config| {
        let attr = Attr {
            config,
            sample_type: sample::IP,
            ..Attr::default()
        };
        [attr.encode(112), 7_u64.to_le_bytes().to_vec()].concat()
    };
    let named = [2_u64.to_le_bytes(), 7_u64.to_le_bytes(), *b"mine\0\0\0\0"].concat();
    let file = pipe(&[
        (kind::HEADER_ATTR, attr(1)),
        (kind::HEADER_ATTR, attr(2)),
        (kind::EVENT_UPDATE, named),
    ]);
    let file = PerfFile::open(Cursor::new(file)).unwrap();
    let names = file.events().events().iter().map(|event| &event.name);
    assert_eq!(names.filter(|name| *name == "mine").count(), 1);
    assert_eq!(file.events().events()[1].name, "mine"); // behind the one every pipe here has
}

#[test]
fn a_size_of_zero_in_the_data_is_an_error_that_says_where() {
    let good = small();
    let mut bytes = good.clone();
    let data = usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    bytes[data + 24 + 6..data + 24 + 8].fill(0);
    let wrong = read_all(&bytes).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        format!("record at byte {} of the file is malformed", data + 24)
    );
}

/// A pipe of one attr, `records` and nothing else.
fn pipe(records: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(16u64.to_le_bytes());
    let attr = Attr {
        sample_type: sample::IP,
        ..Attr::default()
    };
    encode::raw(&mut bytes, kind::HEADER_ATTR, 0, &attr.encode(112)).unwrap();
    for (kind, body) in records {
        encode::raw(&mut bytes, *kind, 0, body).unwrap();
    }
    bytes
}

fn compressed(payload: &[u8]) -> Vec<u8> {
    zstd::encode_all(payload, 1).unwrap()
}

#[test]
fn records_split_over_compressed_records_are_put_together() {
    let mut inner = Vec::new();
    for ip in 0..100u64 {
        encode::raw(&mut inner, kind::SAMPLE, 0, &ip.to_le_bytes()).unwrap();
    }
    let stream = compressed(&inner);
    for at in 1..stream.len() {
        let (first, second) = stream.split_at(at);
        let mut body = u64::try_from(second.len()).unwrap().to_le_bytes().to_vec();
        body.extend(second);
        body.resize(body.len().next_multiple_of(8), 0);
        let file = pipe(&[
            (kind::COMPRESSED, first.to_vec()),
            (kind::COMPRESSED2, body),
        ]);
        assert_eq!(read_all(&file).unwrap(), 101, "split at {at}");
    }
}

#[test]
fn compressed_data_that_is_none_is_refused() {
    let file = pipe(&[(kind::COMPRESSED, vec![0x55; 64])]);
    assert!(message(&file).contains("does not decompress"));
    let file = pipe(&[(kind::COMPRESSED2, u64::MAX.to_le_bytes().to_vec())]);
    assert!(message(&file).contains("is malformed"));
}

#[test]
fn a_few_bytes_that_become_gigabytes_are_refused() {
    // Records of zeros with a valid header, 80 MiB of them: more than one record may become.
    let mut record = Vec::new();
    encode::raw(&mut record, kind::SAMPLE, 0, &vec![0; 65_000]).unwrap();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..80 * 16 {
        std::io::Write::write_all(&mut encoder, &record).unwrap();
    }
    let stream = encoder.finish().unwrap();
    assert!(
        stream.len() < 65_000,
        "{} bytes do not fit into a record",
        stream.len()
    );
    let file = pipe(&[(kind::COMPRESSED, stream)]);
    let mut file = PerfFile::open(Cursor::new(file)).unwrap();
    let mut records = file.records().unwrap();
    let wrong = loop {
        match records.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the bomb was read"),
            Err(wrong) => break wrong,
        }
    };
    assert!(
        matches!(wrong, FileError::InflateTooLarge { .. }),
        "{wrong}"
    );
}

proptest! {
    #[test]
    fn random_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        let mut file = bytes;
        if magic && file.len() >= 8 {
            file[..8].copy_from_slice(b"PERFILE2");
        }
        let _ = read_all(&file);
    }

    #[test]
    fn a_file_of_the_other_byte_order_with_damaged_bytes_is_read_or_refused(
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        pipe in any::<bool>(),
        packed in any::<bool>(),
    ) {
        let mut file = if pipe {
            foreign::pipe(true, Amount::Everything, packed)
        } else {
            foreign::file(true, Amount::Everything)
        };
        let len = file.len();
        for (at, byte) in damage {
            file[at % len] = byte;
        }
        let _ = read_all(&file);
    }

    #[test]
    fn a_file_with_damaged_bytes_is_read_or_refused(damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let mut file = small();
        let len = file.len();
        for (at, byte) in damage {
            file[at % len] = byte;
        }
        let _ = read_all(&file);
    }
}

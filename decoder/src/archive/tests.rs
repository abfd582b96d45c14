//! An archive on a disk: written, bounded, cut, damaged, read again.

use super::key::Key;
use super::write::{Archive, Writer};
use super::{ArchiveError, Day, Entry, Held, Plan, check, days, files_of, held};
use memwide_model::{BootId, HostId, MappingId, Source};
use memwide_proto::v1;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY: Day = Day(20_000);

fn source(epoch: u64) -> Source {
    Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch,
    }
}

/// A batch that was closed at a second of the day; the first one is a snapshot.
fn batch(number: u64, second: i64) -> v1::Batch {
    let closed = DAY.begin_ns().saturating_add_signed(second * 1_000_000_000);
    v1::Batch {
        number,
        closed_wall_ns: closed,
        snapshot: number == 1,
        counts: vec![v1::EventCount {
            produced: number,
            ..v1::EventCount::default()
        }],
        ..v1::Batch::default()
    }
}

fn gap(number: u64, second: i64) -> v1::Batch {
    let gap = Some(v1::Gap {
        reason: "spool_full".to_owned(),
    });
    v1::Batch {
        gap,
        ..batch(number, second)
    }
}

fn open(root: &Path, bytes_max: u64) -> Arc<Archive> {
    Arc::new(Archive::open(root, Path::new(""), bytes_max, 0).unwrap())
}

fn writer(archive: &Arc<Archive>, epoch: u64) -> Writer {
    Writer::new(Arc::clone(archive), source(epoch), "web 1/a")
}

fn plan(root: &Path) -> Result<Plan, ArchiveError> {
    let all = held(root, DAY)?;
    let [one]: &[Held] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!((one.source, one.host.as_str()), (source(1), "web 1/a"));
    Ok(Plan::make(root, DAY, one, None)?.unwrap())
}

/// What a plan reads: `s` a table, `h` of the history, `b` of the day, `g` given up.
fn read(plan: &Plan) -> String {
    let mut words = Vec::new();
    for step in 0..plan.steps() {
        words.push(match plan.read(step).unwrap().unwrap() {
            Entry::Symbols(table) => format!("s{}", table.request),
            Entry::History(batch) => format!("h{}", batch.number),
            Entry::Batch(batch) if batch.gap.is_some() => format!("g{}", batch.number),
            Entry::Batch(batch) => format!("b{}", batch.number),
        });
    }
    words.join(" ")
}

fn only_file(root: &Path) -> PathBuf {
    let files = files_of(root, DAY).unwrap();
    let [file] = files.as_slice() else {
        panic!("{files:?}");
    };
    file.clone()
}

#[test]
fn a_day_is_read_from_the_snapshot_before_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut writer = writer(&open(root, u64::MAX), 1);
    for (number, second) in [(1, -7_200), (2, -3_600), (3, -60), (4, 0), (5, 86_399)] {
        assert!(writer.batch(&batch(number, second)));
        if number == 2 {
            writer.symbols(3, MappingId(77), None, b"table");
        }
    }
    assert!(writer.batch(&batch(6, 86_400)) && writer.batch(&batch(7, 90_000)));
    assert_eq!(days(root).unwrap(), [Day(DAY.0 - 1), DAY, Day(DAY.0 + 1)]);
    let plan = plan(root).unwrap();
    // Ten minutes before and behind the day belong to it: records come late.
    assert_eq!(read(&plan), "h1 h2 s77 b3 b4 b5 b6");
    assert!(plan.missing.is_empty() && !plan.no_history);
}

#[test]
fn of_a_number_that_is_there_twice_the_gap_counts_and_a_batch_before_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let archive = open(root, u64::MAX);
    let mut first = writer(&archive, 1);
    first.batch(&batch(1, 1));
    first.batch(&batch(2, 2));
    first.batch(&batch(2, 2)); // sent again by the same stream
    first.batch(&batch(3, 3));
    let mut second = writer(&archive, 1);
    second.side_band(&batch(1, 1));
    second.side_band(&batch(2, 2));
    second.batch(&gap(3, 3));
    second.batch(&batch(4, 4));
    let plan = plan(root).unwrap();
    assert_eq!(read(&plan), "b1 b2 g3 b4");
    assert!(plan.missing.is_empty());
}

#[test]
fn what_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut writer = writer(&open(root, u64::MAX), 1);
    writer.side_band(&batch(1, 1)); // its samples went before there was an archive
    for number in [2, 5, 6, 9] {
        writer.batch(&batch(number, 10));
    }
    let before = plan(root).unwrap();
    assert_eq!(before.missing, [(3, 4), (7, 8)]);
    assert!(!before.no_history);
    let alone = tempfile::tempdir().unwrap();
    let mut writer = super::write::Writer::new(open(alone.path(), u64::MAX), source(1), "web 1/a");
    writer.batch(&batch(8, 10));
    assert!(plan(alone.path()).unwrap().no_history);
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_entries_and_no_flipped_bit_passes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut writer = writer(&open(root, u64::MAX), 1);
    for number in 1..=3 {
        writer.batch(&batch(number, 10));
    }
    let file = only_file(root);
    let whole = std::fs::read(&file).unwrap();
    let checked = check(&file, None).unwrap();
    assert_eq!((checked.batches, checked.samples), (3, 6));
    assert_eq!((checked.torn, checked.bytes), (None, whole.len() as u64));
    let mut seen = std::collections::BTreeSet::new();
    for len in 0..whole.len() {
        std::fs::write(&file, &whole[..len]).unwrap();
        match check(&file, None) {
            Ok(checked) => {
                assert!(checked.batches < 3 || checked.torn.is_some());
                seen.insert(checked.batches);
            }
            Err(ArchiveError::NotArchive { .. }) => assert!(len < 100, "{len}"),
            Err(other) => panic!("{len}: {other}"),
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        std::fs::write(&file, &flipped).unwrap();
        let error = check(&file, None).expect_err("a flipped bit passes");
        let told = error.to_string();
        assert!(told.contains(&file.display().to_string()), "{told}");
        assert!(matches!(
            error,
            ArchiveError::Damaged { .. } | ArchiveError::NotArchive { .. }
        ));
    }
}

#[test]
fn at_its_bound_the_oldest_days_go_and_then_nothing_more_comes_in() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let first = open(root, u64::MAX);
    let of_day = |days: i64| {
        let mut writer = writer(&first, 1);
        for number in 1..=20 {
            assert!(writer.batch(&batch(number, days * 86_400)));
        }
    };
    of_day(-1);
    of_day(0);
    of_day(1);
    let bytes = |day: Day| -> u64 {
        let files = files_of(root, day).unwrap();
        files
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum()
    };
    let one = bytes(DAY);
    // Room for one day and some more: older ones go at once.
    let small = open(root, one + one / 2);
    assert_eq!(days(root).unwrap(), [Day(DAY.0 + 1)]);
    let mut writer = writer(&small, 2);
    let kept = (1..=40)
        .filter(|number| writer.batch(&batch(*number, 86_400)))
        .count();
    assert!((5..15).contains(&kept), "{kept}");
    assert!(bytes(Day(DAY.0 + 1)) <= one + one / 2);
    small.sweep().unwrap();
    assert_eq!(days(root).unwrap().len(), 1, "the newest day stays");
}

#[test]
fn old_days_go_unless_they_came_in_lately() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let archive = Archive::open(root, Path::new(""), u64::MAX, 30).unwrap();
    let archive = Arc::new(archive);
    writer(&archive, 1).batch(&batch(1, 10));
    let today = Day::of(memwide_service::clock::unix_ns());
    assert!(today.0 > DAY.0 + 30);
    archive.sweep().unwrap();
    assert_eq!(
        days(root).unwrap(),
        [DAY],
        "a file of long ago was imported now"
    );
    // As if that had been long ago too; and a removal that broke off is ended.
    let day = root.join(DAY.to_string());
    for entry in std::fs::read_dir(&day).unwrap() {
        let made = std::fs::File::open(entry.unwrap().path()).unwrap();
        let then =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(DAY.end_ns());
        made.set_modified(then).unwrap();
    }
    std::fs::create_dir(root.join(".removed-2001-01-01")).unwrap();
    archive.sweep().unwrap();
    assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
}

#[test]
fn whoever_has_no_key_or_another_one_is_told_which() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("archive");
    let key = |name: &str, digits: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, digits.repeat(32)).unwrap();
        file
    };
    let (own, other) = (key("own", "ab"), key("other", "cd"));
    let archive = Archive::open(&root, &own, u64::MAX, 0).unwrap();
    writer(&Arc::new(archive), 1).batch(&batch(1, 10));
    let one = held(&root, DAY).unwrap().remove(0);
    let with = |key: Option<&Path>| {
        let key = key.map(|file| Key::read(file).unwrap());
        Plan::make(&root, DAY, &one, key.as_ref())
    };
    assert_eq!(read(&with(Some(&own)).unwrap().unwrap()), "b1");
    let none = with(None).unwrap_err().to_string();
    assert!(
        none.contains("is encrypted with the key") && none.contains("--key FILE"),
        "{none}"
    );
    let wrong = with(Some(&other)).unwrap_err();
    assert!(matches!(wrong, ArchiveError::WrongKey { .. }), "{wrong}");
    let file = key("short", "a");
    let bad = Archive::open(&root, &file, u64::MAX, 0)
        .unwrap_err()
        .to_string();
    assert!(bad.contains("openssl rand -hex 32"), "{bad}");
}

#[test]
fn a_disk_that_refuses_is_counted_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("archive");
    let archive = open(&root, u64::MAX);
    let mut writer = writer(&archive, 1);
    // Nobody can make a folder where a file is, whoever asks.
    let day = root.join(DAY.to_string());
    std::fs::write(&day, "").unwrap();
    assert!(!writer.batch(&batch(1, 10)));
    std::fs::remove_file(&day).unwrap();
    assert!(writer.batch(&batch(1, 10)));
    assert_eq!(check(&only_file(&root), None).unwrap().batches, 1);
}

//! An archive on a disk: written, bounded, cut, damaged, read again.

use super::key::Key;
use super::write::{Archive, Writer};
use super::{ArchiveError, Checked, Day, Entry, Held, Kept, Place, Plan, held};
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
    Arc::new(Archive::open(root, Path::new(""), bytes_max, 0, None).unwrap())
}

fn writer(archive: &Arc<Archive>, epoch: u64) -> Writer {
    Writer::new(Arc::clone(archive), source(epoch), "web 1/a")
}

fn days(root: &Path) -> Vec<Day> {
    Place::folder(root).days().unwrap()
}

fn files_of(root: &Path, day: Day) -> Vec<PathBuf> {
    let files = Place::folder(root).files_of(day).unwrap();
    files.iter().map(|kept| root.join(&kept.name)).collect()
}

fn check(file: &Path) -> Result<Checked, ArchiveError> {
    let root = file.ancestors().nth(3).unwrap();
    let kept = Kept {
        name: file.strip_prefix(root).unwrap().display().to_string(),
        bytes: file.metadata().unwrap().len(),
    };
    super::check(&Place::folder(root), &kept, None)
}

fn plan(root: &Path) -> Result<Plan<'static>, ArchiveError> {
    plan_of(Place::folder(root))
}

fn plan_of(place: Place) -> Result<Plan<'static>, ArchiveError> {
    let place: &Place = Box::leak(Box::new(place));
    let all = held(place, DAY)?;
    let [one]: &[Held] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!((one.source, one.host.as_str()), (source(1), "web 1/a"));
    Ok(Plan::make(place, DAY, one, None)?.unwrap())
}

/// What a plan reads: `s` a table, `h` of the history, `b` of the day, `g` given up.
fn read(mut plan: Plan<'_>) -> String {
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
    let files = files_of(root, DAY);
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
    assert_eq!(days(root), [Day(DAY.0 - 1), DAY, Day(DAY.0 + 1)]);
    let plan = plan(root).unwrap();
    assert!(plan.missing.is_empty() && !plan.no_history);
    // Ten minutes before and behind the day belong to it: records come late.
    assert_eq!(read(plan), "h1 h2 s77 b3 b4 b5 b6");
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
    assert!(plan.missing.is_empty());
    assert_eq!(read(plan), "b1 b2 g3 b4");
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
    let checked = check(&file).unwrap();
    assert_eq!((checked.batches, checked.samples), (3, 6));
    assert_eq!((checked.torn, checked.bytes), (None, whole.len() as u64));
    let mut seen = std::collections::BTreeSet::new();
    for len in 0..whole.len() {
        std::fs::write(&file, &whole[..len]).unwrap();
        match check(&file) {
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
        let error = check(&file).expect_err("a flipped bit passes");
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
        let files = files_of(root, day);
        files
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum()
    };
    let one = bytes(DAY);
    // Room for one day and some more: older ones go at once.
    let small = open(root, one + one / 2);
    assert_eq!(days(root), [Day(DAY.0 + 1)]);
    let mut writer = writer(&small, 2);
    let kept = (1..=40)
        .filter(|number| writer.batch(&batch(*number, 86_400)))
        .count();
    assert!((5..15).contains(&kept), "{kept}");
    assert!(bytes(Day(DAY.0 + 1)) <= one + one / 2);
    small.sweep().unwrap();
    assert_eq!(days(root).len(), 1, "the newest day stays");
}

#[test]
fn old_days_go_unless_they_came_in_lately() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let archive = Archive::open(root, Path::new(""), u64::MAX, 30, None).unwrap();
    let archive = Arc::new(archive);
    writer(&archive, 1).batch(&batch(1, 10));
    let today = Day::of(memwide_service::clock::unix_ns());
    assert!(today.0 > DAY.0 + 30);
    archive.sweep().unwrap();
    assert_eq!(days(root), [DAY], "a file of long ago was imported now");
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
    let archive = Archive::open(&root, &own, u64::MAX, 0, None).unwrap();
    writer(&Arc::new(archive), 1).batch(&batch(1, 10));
    let place = Place::folder(&root);
    let one = held(&place, DAY).unwrap().remove(0);
    let with = |key: Option<&Path>| {
        let key = key.map(|file| Key::read(file).unwrap());
        let plan = Plan::make(&place, DAY, &one, key.as_ref());
        plan.map(|plan| plan.map(read))
    };
    assert_eq!(with(Some(&own)).unwrap().unwrap(), "b1");
    let none = with(None).unwrap_err().to_string();
    assert!(
        none.contains("is encrypted with the key") && none.contains("--key FILE"),
        "{none}"
    );
    let wrong = with(Some(&other)).unwrap_err();
    assert!(matches!(wrong, ArchiveError::WrongKey { .. }), "{wrong}");
    let file = key("short", "a");
    let bad = Archive::open(&root, &file, u64::MAX, 0, None)
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
    assert_eq!(check(&only_file(&root)).unwrap().batches, 1);
}

#[test]
fn days_of_clocks_that_were_wrong_push_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let archive = open(root, u64::MAX);
    let today = Day::of(memwide_service::clock::unix_ns());
    let (past, future) = (Day(0), Day(today.0 + 20_000));
    let mut writer = writer(&archive, 1);
    for (number, day) in (1..).zip([past, Day(today.0 - 1), today, future]) {
        let closed_wall_ns = day.begin_ns();
        assert!(writer.batch(&v1::Batch {
            closed_wall_ns,
            ..batch(number, 0)
        }));
    }
    // Made long ago by its file, however far its own day is.
    let kept_for = |days: u32| {
        let small = Archive::open(root, Path::new(""), u64::MAX, days, None).unwrap();
        small.sweep().unwrap();
    };
    kept_for(30);
    assert_eq!(days(root), [past, Day(today.0 - 1), today, future]);
    for entry in std::fs::read_dir(root.join(future.to_string())).unwrap() {
        let made = std::fs::File::open(entry.unwrap().path()).unwrap();
        let then = std::time::Duration::from_nanos(Day(today.0 - 40).begin_ns());
        made.set_modified(std::time::SystemTime::UNIX_EPOCH + then)
            .unwrap();
    }
    kept_for(30);
    assert_eq!(days(root), [past, Day(today.0 - 1), today]);
    // Of much, today goes last.
    drop(open(root, 1));
    assert_eq!(days(root), [today]);
}

#[test]
fn two_decoders_sweep_one_folder_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let all = open(root, u64::MAX);
    for day in 0..40 {
        writer(&all, 1).batch(&batch(1, day * 86_400));
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(open(root, 1)));
        }
    });
    assert_eq!(days(root), [Day(DAY.0 + 39)]);
    let left = std::fs::read_dir(root).unwrap().count();
    assert_eq!(left, 1, "nothing half removed");
}

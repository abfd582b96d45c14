//! Files that go up into a bucket: whatever happens meanwhile, each batch is there or here, and there once.

use super::*;
use crate::archive::write::{Archive, Up, Writer};
use crate::archive::{Entry, Plan, check, held};
use crate::bucket::tests::bucket_of;
use crate::bucket::tests::s3::{S3, Trouble};
use memwide_model::{BootId, HostId, MappingId, Source};
use memwide_proto::v1;
use std::sync::Arc;
use std::time::Duration;

const DAY: Day = Day(20_000);

fn source() -> Source {
    Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch: 1,
    }
}

fn batch(number: u64, day: Day) -> v1::Batch {
    v1::Batch {
        number,
        closed_wall_ns: day.begin_ns() + number,
        snapshot: number == 1,
        ..v1::Batch::default()
    }
}

/// An archive of a folder that goes up; each batch closes the file before it.
fn open(root: &Path, server: &S3, bytes_max: u64) -> Arc<Archive> {
    let up = Some(Up {
        bucket: Arc::new(bucket_of(server, "archive")),
        close_after: Duration::ZERO,
    });
    Arc::new(Archive::open(root, Path::new(""), bytes_max, 30, up).unwrap())
}

fn put_up_all(archive: &Archive) -> Result<(), UploadError> {
    archive.put_up(&AtomicBool::new(false))
}

fn waiting(root: &Path) -> usize {
    let place = Place::folder(root);
    let days = place.days().unwrap().into_iter();
    days.map(|day| place.files_of(day).unwrap().len()).sum()
}

/// Batches of the day as they are read from the bucket.
fn read(server: &S3) -> String {
    let place = Place::bucket(bucket_of(server, "archive"));
    let one = held(&place, DAY).unwrap().remove(0);
    assert_eq!((one.host.as_str(), one.source), ("web-1", source()));
    let mut plan = Plan::make(&place, DAY, &one, None).unwrap().unwrap();
    let mut words = Vec::new();
    for step in 0..plan.steps() {
        words.push(match plan.read(step).unwrap().unwrap() {
            Entry::Symbols(table) => format!("s{}", table.request),
            Entry::History(batch) => format!("h{}", batch.number),
            Entry::Batch(batch) => format!("b{}", batch.number),
        });
    }
    words.extend(plan.missing.iter().map(|missing| format!("{missing:?}")));
    words.join(" ")
}

#[test]
fn what_nobody_writes_to_goes_up_and_is_read_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let (root, server) = (folder.path(), S3::start());
    let archive = open(root, &server, u64::MAX);
    let mut writer = Writer::new(Arc::clone(&archive), source(), "web-1");
    // A table of long ago, a whole day in between, the day.
    writer.batch(&batch(1, Day(DAY.0 - 5)));
    writer.symbols(2, MappingId(77), None, b"table");
    for number in 2..=9 {
        assert!(writer.batch(&batch(number, Day(DAY.0 - 3))));
    }
    let snapshot = v1::Batch {
        snapshot: true,
        ..batch(10, Day(DAY.0 - 1))
    };
    writer.batch(&snapshot);
    for number in 11..=13 {
        assert!(writer.batch(&batch(number, DAY)));
    }
    put_up_all(&archive).unwrap();
    assert_eq!(waiting(root), 1, "one is written to");
    assert_eq!(read(&server), "s77 h10 b11 b12");
    drop(writer);
    put_up_all(&archive).unwrap();
    assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
    assert_eq!(read(&server), "s77 h10 b11 b12 b13");
    let names: Vec<String> = server.objects().into_keys().collect();
    let of = |word: &str| names.iter().filter(|name| name.contains(word)).count();
    assert_eq!((names.len(), of(".tables.mwa")), (14, 1), "{names:?}");
    assert_eq!(of(&format!("archive/{DAY}/web-1-")), 3);
    let place = Place::bucket(bucket_of(&server, "archive"));
    for kept in place.files_of(DAY).unwrap() {
        assert_eq!(check(&place, &kept, None).unwrap().batches, 1);
    }
    // Whoever asks for a day whose number lies elsewhere, by a clock that was wrong, finds it.
    let mut writer = Writer::new(Arc::clone(&archive), source(), "web-1");
    for (number, day) in [(14, Day(47_000)), (15, Day(0)), (16, DAY)] {
        writer.batch(&batch(number, day));
    }
    drop(writer);
    put_up_all(&archive).unwrap();
    assert_eq!(read(&server), "s77 h10 b11 b12 b13 b14 b15 b16");
}

#[test]
fn a_store_that_is_busy_or_whose_answers_are_lost_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (root, server) = (folder.path(), S3::start());
    let archive = open(root, &server, u64::MAX);
    let mut writer = Writer::new(Arc::clone(&archive), source(), "web-1");
    for number in 1..=3 {
        writer.batch(&batch(number, DAY));
    }
    drop(writer);
    for (trouble, there) in [(Trouble::Busy, 0), (Trouble::AnswersLost, 1)] {
        server.set(trouble);
        let error = put_up_all(&archive).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("cannot put s3://bucket/archive/"),
            "{error}"
        );
        assert_eq!(waiting(root), 3, "{trouble:?}");
        assert!(server.objects().len() >= there, "{trouble:?}");
    }
    server.set(Trouble::None);
    put_up_all(&archive).unwrap();
    assert_eq!((waiting(root), server.objects().len()), (0, 3));
    assert_eq!(read(&server), "b1 b2 b3");
}

#[test]
fn what_a_killed_decoder_left_goes_up_and_two_of_a_folder_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let (root, server) = (folder.path(), S3::start());
    let one = open(root, &server, u64::MAX);
    let mut writer = Writer::new(Arc::clone(&one), source(), "web-1");
    for number in 1..=8 {
        writer.batch(&batch(number, DAY));
    }
    // As a killed process leaves it: half an entry, a file that was only begun, and nobody's lock.
    drop(writer);
    let place = Place::folder(root);
    let last = place.files_of(DAY).unwrap().remove(0);
    let path = root.join(&last.name);
    std::fs::write(path.with_extension("begun"), "MWARCH01").unwrap();
    let torn = std::fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &torn, &[0; 10]).unwrap();
    drop(torn);
    let two = open(root, &server, u64::MAX);
    std::thread::scope(|scope| {
        for archive in [&one, &two, &one, &two] {
            scope.spawn(|| put_up_all(archive).unwrap());
        }
    });
    put_up_all(&two).unwrap();
    assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
    assert_eq!(server.objects().len(), 8);
    assert_eq!(read(&server), "b1 b2 b3 b4 b5 b6 b7 b8");
}

#[test]
fn without_room_nothing_that_waits_goes_and_it_goes_on_when_files_have_gone_up() {
    let folder = tempfile::tempdir().unwrap();
    let (root, server) = (folder.path(), S3::start());
    server.set(Trouble::Busy);
    let archive = open(root, &server, 1_000);
    let mut writer = Writer::new(Arc::clone(&archive), source(), "web-1");
    let mut written = 0;
    for (number, day) in (1..=40).zip([0, 1, 2].into_iter().cycle()) {
        written += usize::from(writer.batch(&batch(number, Day(DAY.0 + day))));
    }
    assert!((3..20).contains(&written), "{written}");
    archive.sweep().unwrap();
    assert!(put_up_all(&archive).is_err());
    archive.sweep().unwrap();
    let place = Place::folder(root);
    let days = place.days().unwrap();
    assert_eq!(days.len(), 3, "old or much, they wait");
    server.set(Trouble::None);
    put_up_all(&archive).unwrap();
    assert!(writer.batch(&batch(41, DAY)));
}

#[test]
fn days_that_are_too_old_go_from_the_bucket_whatever_clocks_made_them() {
    let server = S3::start();
    let bucket = bucket_of(&server, "archive");
    // The server says of each object that it was put on 2026-11-30.
    let day = Day(20_787);
    let names = [Day(0), Day(20_000), day, Day(47_000)].map(|day| day.to_string());
    let fill = || {
        for name in &names {
            for n in 0..3 {
                server.put(&format!("archive/{name}/web-1/{n}.mwa"), vec![0]);
            }
        }
        server.put("archive/other", vec![0]);
    };
    let end_s = day.end_ns() / 1_000_000_000;
    let mut rows = Vec::new();
    for days_later in [10, 29, 31, 32] {
        fill();
        retain(&bucket, 30, end_s + days_later * 86_400).unwrap();
        rows.push(bucket.folders("").unwrap().len());
        assert!(server.objects().contains_key("archive/other"));
    }
    // The day itself counts from its end, the others from when their files came.
    assert_eq!(rows, [4, 4, 0, 0]);
}

use super::*;
use crate::uplink::{BatchStore, StoreError};
use memwide_model::{BootId, HostId, Source};
use memwide_proto::v1::{Batch, EventCount, Section};
use proptest::prelude::*;

fn origin(epoch: u64) -> Origin {
    Origin {
        source: Source {
            host: HostId([1; 16]),
            boot: BootId([2; 16]),
            epoch,
        },
        hostname: "here".to_owned(),
        kind: "live",
    }
}

fn some_section(byte: u8, len: usize) -> Section {
    Section {
        data: vec![byte; len].into(),
        raw_bytes: len as u64,
        records: 1,
        checksum: 7,
        ..Section::default()
    }
}

/// As it stands in batches.
fn section(byte: u8, len: usize) -> Option<Section> {
    Some(some_section(byte, len)).filter(|section| section.raw_bytes > 0)
}

/// A batch with `samples` samples; snapshots as said.
fn batch(number: u64, samples: u64, snapshot: bool) -> Batch {
    Batch {
        number,
        closed_wall_ns: 1_000 + number,
        side_band: section(1, 100),
        samples: (samples > 0).then(|| section(2, 400)).flatten(),
        counts: vec![EventCount {
            event: 1,
            produced: samples,
            ..EventCount::default()
        }],
        snapshot,
        ..Batch::default()
    }
}

fn filled(folder: &Path, batches: u64) -> Epoch {
    let epoch = Epoch::create(&folder.join("epoch-1"), origin(1), Some(1_000)).unwrap();
    for number in 1..=batches {
        epoch.append(&batch(number, 5, number == 1)).unwrap();
    }
    epoch
}

fn reopened(folder: &Path) -> Epoch {
    Epoch::open(&folder.join("epoch-1"), Some(1_000)).unwrap()
}

fn reason(batch: &Batch) -> Option<&str> {
    batch.gap.as_ref().map(|gap| gap.reason.as_str())
}

#[test]
fn what_was_written_is_read_again_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 7));
    let epoch = reopened(folder.path());
    assert_eq!(
        (epoch.next(), epoch.unacked(), epoch.origin()),
        (8, 7, origin(1))
    );
    for number in 1..=7 {
        assert_eq!(epoch.read(number).unwrap(), batch(number, 5, number == 1));
    }
    assert!(epoch.progress().borrow().finished, "nobody adds to it");
    assert!(matches!(epoch.read(8), Err(StoreError::Missing { .. })));
    assert!(matches!(epoch.read(0), Err(StoreError::Missing { .. })));
}

#[test]
fn an_ack_frees_samples_and_keeps_side_band_until_a_newer_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let epoch = filled(folder.path(), 20);
    epoch.append(&batch(21, 5, true)).unwrap();
    epoch.append(&batch(22, 5, false)).unwrap();
    epoch.ack(20).unwrap();
    assert_eq!((epoch.snapshot(), epoch.first_unacked()), (1, 21));
    let freed = epoch.read(3).unwrap();
    assert_eq!(
        (reason(&freed), &freed.samples, freed.counts.len()),
        (Some("freed"), &None, 0)
    );
    assert_eq!(freed.side_band, section(1, 100));
    let before = epoch.bytes();
    epoch.ack(21).unwrap();
    assert_eq!(epoch.snapshot(), 21);
    assert!(
        epoch.bytes() < before,
        "history before the snapshot is gone"
    );
    assert_eq!(epoch.side_band(21).unwrap().side_band, section(1, 100));
    assert_eq!(epoch.read(22).unwrap(), batch(22, 5, false));
    drop(epoch);
    let epoch = reopened(folder.path());
    assert_eq!((epoch.snapshot(), epoch.unacked()), (21, 1));
}

#[test]
fn a_snapshot_written_again_after_a_full_disk_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let epoch = filled(folder.path(), 3);
    let snapshot = batch(4, 5, true);
    // Its samples did not fit at first.
    for _ in 0..2 {
        epoch.append(&snapshot).unwrap();
    }
    epoch.append(&batch(5, 5, false)).unwrap();
    epoch.ack(4).unwrap();
    drop(epoch);
    let epoch = reopened(folder.path());
    assert_eq!((epoch.snapshot(), epoch.next()), (4, 6));
    assert_eq!(epoch.side_band(4).unwrap().side_band, section(1, 100));
    assert_eq!(epoch.read(5).unwrap(), batch(5, 5, false));
}

#[test]
fn above_the_bound_the_oldest_samples_become_gaps_with_their_counts() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 16_000).unwrap();
    let epoch = spool.start(&origin(1)).unwrap();
    let mut number = 0;
    while spool.bytes() <= 15_000 {
        number += 1;
        epoch.append(&batch(number, 5, number == 1)).unwrap();
    }
    for _ in 0..10 {
        number += 1;
        epoch.append(&batch(number, 5, false)).unwrap();
        spool.bound().unwrap();
        assert!(spool.bytes() <= 16_000);
    }
    let first = epoch.read(1).unwrap();
    assert_eq!(
        (reason(&first), epoch::counted(&first)),
        (Some("spool_full"), 5)
    );
    assert_eq!(first.side_band, section(1, 100), "side-band is kept");
    assert_eq!(
        epoch.read(number).unwrap().samples,
        section(2, 400),
        "the newest stays"
    );
    drop((spool, epoch));
    let spool = Spool::open(folder.path(), 16_000).unwrap();
    let again = spool.epochs()[0].read(1).unwrap();
    assert_eq!(reason(&again), Some("spool_full"), "known after a restart");
}

#[test]
fn a_segment_that_was_begun_and_not_written_is_given_up_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 3));
    // Killed behind the making of the file: batch 4 was not promised to anybody.
    let begun = folder.path().join("epoch-1/samples-0000000000000004.log");
    std::fs::write(begun, "").unwrap();
    let epoch = reopened(folder.path());
    while epoch.give_up_oldest().unwrap() {}
    assert_eq!(epoch.next(), 4);
    for number in 1..=3 {
        let read = epoch.read(number).unwrap();
        assert_eq!(
            (reason(&read), epoch::counted(&read)),
            (Some("spool_full"), 5)
        );
    }
}

#[test]
fn side_band_that_no_sample_needs_goes_when_samples_are_not_enough() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 3_000).unwrap();
    let epoch = spool.start(&origin(1)).unwrap();
    for number in 1..=20 {
        epoch
            .append(&batch(number, 0, number == 1 || number == 20))
            .unwrap();
    }
    spool.bound().unwrap();
    let old = epoch.read(2).unwrap();
    assert_eq!((old.side_band, old.side_band_partial), (None, true));
    assert_eq!(old.counts.len(), 1, "counts stay");
    assert_eq!(epoch.read(20).unwrap().side_band, section(1, 100));
}

#[test]
fn earlier_runs_are_found_and_retired() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let epoch = spool.start(&origin(7)).unwrap();
    epoch.append(&batch(1, 5, true)).unwrap();
    spool.seen(&[2; 16], 99);
    let taken = Spool::open(folder.path(), 1 << 20).unwrap_err();
    assert!(matches!(taken, SpoolError::Taken(_)), "{taken:?}");
    drop((spool, epoch));
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    assert_eq!(
        (spool.last_seen(&[2; 16]), spool.last_seen(&[3; 16])),
        (Some(99), None)
    );
    let earlier = spool.epochs();
    assert_eq!((earlier.len(), earlier[0].origin()), (1, origin(7)));
    earlier[0].ack(1).unwrap();
    spool.retire(&earlier[0]).unwrap();
    assert!(spool.epochs().is_empty() && spool.bytes() == 0);
}

/// Sum of what the batches from 1 to `through` say of samples: there, in gaps, or nothing readable.
fn accounted(epoch: &Epoch, through: u64) -> (u64, u64, u64) {
    let (mut there, mut gaps, mut unknown) = (0, 0, 0);
    for number in 1..=through {
        let read = epoch.read(number).unwrap();
        assert_eq!(read.number, number);
        let counted = epoch::counted(&read);
        match (reason(&read), counted) {
            (None, _) => {
                assert!(read.samples.is_some());
                there += counted;
            }
            (Some("spool_corrupt"), 0) => unknown += 1,
            (Some("spool_corrupt"), _) => gaps += counted,
            (Some(other), _) => panic!("{other}"),
        }
    }
    (there, gaps, unknown)
}

#[test]
fn cut_anywhere_nothing_is_lost_silently() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 3));
    let from = folder.path().join("epoch-1");
    let names: Vec<_> = std::fs::read_dir(&from)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    for name in names
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".log"))
    {
        let whole = std::fs::read(from.join(name)).unwrap();
        for cut in (0..whole.len()).step_by(7) {
            let copy = tempfile::tempdir().unwrap();
            let to = copy.path().join("epoch-1");
            std::fs::create_dir_all(&to).unwrap();
            for name in &names {
                std::fs::copy(from.join(name), to.join(name)).unwrap();
            }
            std::fs::write(to.join(name), &whole[..cut]).unwrap();
            let epoch = reopened(copy.path());
            let last = epoch.next() - 1;
            let (there, gaps, unknown) = accounted(&epoch, last);
            // Batches of which not even a header is left at the end were never promised to anybody.
            assert_eq!(
                there + gaps + 5 * unknown,
                5 * last,
                "{name:?} cut at {cut}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_byte_is_a_gap_or_partial_never_silent(at in 0usize..4_000, bit in 0u8..8) {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path(), 4));
        let mut files: Vec<_> = std::fs::read_dir(folder.path().join("epoch-1"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        files.sort();
        let file = &files[at % files.len()];
        let mut bytes = std::fs::read(file).unwrap();
        let place = at % bytes.len();
        bytes[place] ^= 1 << bit;
        std::fs::write(file, bytes).unwrap();
        let epoch = reopened(folder.path());
        let last = epoch.next() - 1;
        prop_assert!(last >= 3);
        for number in 1..=last {
            let read = epoch.read(number).unwrap();
            let whole = read == batch(number, 5, number == 1);
            let said = read.side_band_partial || reason(&read) == Some("spool_corrupt");
            prop_assert!(whole || said, "{read:?}");
        }
    }

    #[test]
    fn any_order_of_writes_acks_and_restarts_keeps_every_count(
        steps in proptest::collection::vec((0u8..6, 0u64..8), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut epoch = filled(folder.path(), 1);
        let (mut written, mut acked, mut gapped) = (1_u64, 0_u64, 0_u64);
        for (what, size) in steps {
            match what {
                0..=2 => {
                    written += 1;
                    epoch.append(&batch(written, size, size == 7)).unwrap();
                }
                3 => {
                    acked = (acked + size).min(written);
                    epoch.ack(acked).unwrap();
                }
                4 => {
                    epoch.give_up_oldest().unwrap();
                    gapped = (1..=written)
                        .filter(|n| reason(&epoch.read(*n).unwrap()) == Some("spool_full"))
                        .max()
                        .unwrap_or(gapped);
                }
                _ => {
                    drop(epoch);
                    epoch = reopened(folder.path());
                }
            }
            prop_assert_eq!((epoch.next(), epoch.first_unacked()), (written + 1, acked + 1));
            for number in acked + 1..=written {
                let read = epoch.read(number).unwrap();
                prop_assert!(matches!(reason(&read), None | Some("spool_full")), "{:?}", read);
                prop_assert!(read.side_band.is_some() && read.counts.len() == 1);
                prop_assert!(number <= gapped || read.gap.is_none(), "{number} {gapped}");
            }
        }
    }
}

/// A file system of so many bytes, unmounted in the end.
struct Small(tempfile::TempDir);

impl Small {
    fn mounted(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a file system may not be mounted here");
            return None;
        }
        Some(Self(folder))
    }

    /// Takes all room there is.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("full");
        let mut file = File::create(&path).unwrap();
        let taken = std::iter::repeat_with(|| std::io::Write::write_all(&mut file, &[1; 4096]));
        assert!(taken.take(1 << 20).any(|written| written.is_err()));
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg(self.0.path())
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn on_a_full_disk_what_is_acked_makes_room_and_the_next_run_starts() {
    let Some(small) = Small::mounted(1 << 20) else {
        return;
    };
    let folder = small.0.path().join("spool");
    let spool = Spool::open(&folder, 1 << 30).unwrap();
    let epoch = spool.start(&origin(1)).unwrap();
    let large = |number| Batch {
        samples: section(2, 40_000),
        ..batch(number, 5, number == 1)
    };
    let full = (1..100).find(|number| epoch.append(&large(*number)).is_err());
    let full = full.unwrap();
    assert!(epoch.append(&large(full)).is_err(), "nothing is acked");
    // All is acked: less than a segment that is kept open otherwise.
    epoch.ack(full - 1).unwrap();
    assert_eq!(epoch.unacked(), 0);
    epoch.append(&large(full)).unwrap();
    assert_eq!(epoch.read(full).unwrap(), large(full));
    // Another fills the disk to the last byte: acks are taken, and another run starts on what was held back.
    let others = small.fill();
    epoch.append(&large(full + 1)).unwrap_err();
    drop((epoch, spool));
    let spool = Spool::open(&folder, 1 << 30).unwrap();
    let earlier = spool.epochs().remove(0);
    assert_eq!((earlier.first_unacked(), earlier.unacked()), (full, 1));
    let epoch = spool.start(&origin(2)).unwrap();
    assert!(!spool.reserve().exists(), "it was needed");
    earlier.ack(full).unwrap();
    spool.retire(&earlier).unwrap();
    epoch.append(&large(1)).unwrap();
    std::fs::remove_file(others).unwrap();
    drop((epoch, spool));
    let spool = Spool::open(&folder, 1 << 30).unwrap();
    spool.start(&origin(3)).unwrap();
    assert!(spool.reserve().exists(), "held back again");
}

#[test]
fn a_spool_that_is_removed_while_it_is_used_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let spool = Spool::open(&path, 1 << 30).unwrap();
    let epoch = spool.start(&origin(1)).unwrap();
    epoch.append(&batch(1, 5, true)).unwrap();
    spool.bound().unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let error = spool.bound().unwrap_err();
    assert!(matches!(&error, SpoolError::Gone { folder } if *folder == path));
    assert!(error.to_string().contains("start the collector again"));
}

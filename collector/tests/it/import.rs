//! Files as hosts, over real gRPC.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use memwide_collector::{Import, ImportError, ImportOptions};
use memwide_perf_abi::file::{EventSpec, Features, FileWriter};
use memwide_perf_abi::{Attr, SampleFields, SampleLayout, encode, misc, sample};
use memwide_service::CancellationToken;
use tokio::sync::watch;

use crate::decoder::{Manners, Running};

/// A file with `samples` samples of one event.
fn file(folder: &Path, samples: u64) -> PathBuf {
    let attr = Attr {
        size: 128,
        sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME,
        sample_period: 1,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr).unwrap();
    let spec = EventSpec {
        attr,
        name: "cycles".to_owned(),
        ids: vec![3],
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[spec]).unwrap();
    for n in 0..samples {
        let fields = SampleFields {
            id: 3,
            ip: 0x1000 + n,
            pid: 5,
            tid: 5,
            time: 10 * n + 10,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        encode::sample(&mut record, &fields, misc::USER, &layout).unwrap();
        writer.write_records(&record).unwrap();
    }
    let path = folder.join("perf.data");
    let bytes = writer.finish(&Features::default()).unwrap().into_inner();
    std::fs::write(&path, bytes).unwrap();
    path
}

async fn import(
    path: &Path,
    host: &str,
    endpoint: &str,
    stop: CancellationToken,
) -> Result<memwide_collector::ImportSummary, ImportError> {
    let options = ImportOptions {
        host: Some(host.to_owned()),
        ..ImportOptions::default()
    };
    let seen = Arc::new(Mutex::new(0));
    let told = seen.clone();
    let import = Import::open(path, options).unwrap();
    let outcome = import
        .run(
            watch::channel(endpoint.to_owned()).1,
            move |progress| *told.lock().unwrap() = progress.acked,
            stop,
        )
        .await;
    if let Ok(summary) = &outcome {
        assert_eq!(
            *seen.lock().unwrap(),
            summary.batches,
            "progress reached the end"
        );
    }
    outcome
}

fn produced(decoder: &Running) -> u64 {
    let got = decoder.got();
    let all = got.batches.values().flatten();
    all.flat_map(|batch| &batch.counts)
        .map(|count| count.produced)
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twice_the_same_changes_nothing_and_another_host_doubles() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 80_000);
    let decoder = Running::start(Manners::default()).await;
    let first = import(&path, "a", &decoder.endpoint, CancellationToken::new())
        .await
        .unwrap();
    assert!(first.batches >= 3, "{} batches", first.batches);
    assert_eq!((produced(&decoder), first.batches_known), (80_000, 0));
    let again = import(&path, "a", &decoder.endpoint, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(
        (produced(&decoder), again.batches_known),
        (80_000, again.batches)
    );
    import(&path, "b", &decoder.endpoint, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(produced(&decoder), 160_000);
    let got = decoder.got();
    assert!(got.hellos.iter().all(|hello| hello.kind == "import"));
    assert_eq!(got.repeated, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decoder_that_moves_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 20_000);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let (address, addresses) = watch::channel(closed);
    let decoder = Running::start(Manners::default()).await;
    let moved = decoder.endpoint.clone();
    let import = Import::open(&path, ImportOptions::default()).unwrap();
    let told = move |progress: memwide_collector::ImportProgress| {
        if progress.waits.is_some() {
            address.send_replace(moved.clone());
        }
    };
    let done = import.run(addresses, told, CancellationToken::new());
    let summary = done.await.unwrap();
    assert_eq!((produced(&decoder), summary.batches_known), (20_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_that_breaks_and_forgets_still_gets_every_sample_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 120_000);
    let batches = Import::open(&path, ImportOptions::default())
        .unwrap()
        .summary()
        .batches;
    let decoder = Running::start(Manners {
        break_after: Some(3),
        ack_every: 2,
        last: Some(batches),
        forgets: true,
        ..Manners::default()
    })
    .await;
    import(&path, "a", &decoder.endpoint, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(produced(&decoder), 120_000);
}

#[tokio::test]
async fn a_stopped_import_says_how_far_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 10);
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = import(&path, "a", "http://127.0.0.1:1", stop)
        .await
        .unwrap_err();
    assert!(
        matches!(stopped, ImportError::Stopped { acked: 0, .. }),
        "{stopped:?}"
    );
    assert!(!stopped.is_bad_input());
}

/// Files of many perf versions, machines and kinds of damage, where they are at hand.
#[test]
fn every_file_at_hand_is_taken_or_refused_as_bad_input() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/perfdata");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no files at {}", folder.display());
        return;
    };
    let mut taken = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "data") {
            continue;
        }
        match Import::open(&path, ImportOptions::default()) {
            Ok(import) => {
                let summary = import.summary();
                assert!(
                    summary.batches > 0 && !summary.events.is_empty(),
                    "{}",
                    path.display()
                );
                taken += 1;
            }
            Err(error) => assert!(error.is_bad_input(), "{}: {error:?}", path.display()),
        }
    }
    assert!(taken > 10, "only {taken} files were taken");
}

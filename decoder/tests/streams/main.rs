//! Collector streams against the real server and an aggregator that does as the test says, all over loopback gRPC.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper of a test fails the test"
)]

mod harness;
mod shared;

use harness::{Collector, World, batch, hello, hurried, names, open, table, within};
use memwide_decoder::archive::{Day, Place, check};
use memwide_decoder::{Config, serve};
use memwide_model::Reason;
use memwide_proto::v1::aggregator_to_decoder::Message as FromAggregator;
use memwide_proto::v1::collector_message::Message as ToDecoder;
use memwide_proto::v1::decoder_message::Message as FromDecoder;
use memwide_proto::{SCHEMA_VERSION, v1};
use memwide_service::CancellationToken;
use prost::Message as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;
use xxhash_rust::xxh3::xxh3_64;

#[tokio::test]
async fn a_batch_is_decoded_and_acked_when_it_is_committed() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    assert_eq!(conn.hostname, "host");
    collector.batch(1).await;
    let decoded = conn.batch().await;
    let block = decoded.accesses.unwrap();
    assert_eq!((decoded.number, block.rows), (1, 1));
    assert_eq!(block.strings, ["prog"]);
    conn.answer(FromAggregator::Committed(v1::Committed { through: 1 }))
        .await;
    assert_eq!(
        collector.answer().await,
        FromDecoder::Ack(v1::Ack { through: 1 })
    );
}

#[tokio::test]
async fn a_batch_waits_for_symbols_that_are_shipped_once_for_all_sources() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        symbol_dir: folder.path().to_owned(),
        symbol_wait_ms: 60_000,
        ..Config::default()
    };
    let mut world = World::start(config.clone()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await;
    assert_eq!(
        (request.pid, request.start, request.end),
        (10, 0x40_0000, 0x40_1000)
    );
    let whole = table();
    for (offset, data) in [(0, &whole[..10]), (10, &whole[10..])] {
        collector
            .send(ToDecoder::Symbols(v1::SymbolChunk {
                request: request.request,
                total_bytes: whole.len() as u64,
                offset,
                data: data.to_vec().into(),
                checksum: xxh3_64(&whole),
                identity: request.identity.clone(),
                ..v1::SymbolChunk::default()
            }))
            .await;
    }
    assert_eq!(names(&conn.batch().await), ["work"]);
    // Another source of the same process, and one of the next process: nobody is asked again.
    let (other, mut conn) = open(&mut world, 2).await;
    other.batch(1).await;
    assert_eq!(names(&conn.batch().await), ["work"]);
    let mut next = World::start(config).await;
    let (third, mut conn) = open(&mut next, 3).await;
    third.batch(1).await;
    assert_eq!(names(&conn.batch().await), ["work"]);
}

#[tokio::test]
async fn a_batch_goes_on_without_symbols_that_are_not_to_be_had() {
    let config = Config {
        symbol_wait_ms: 60_000,
        ..Config::default()
    };
    let mut world = World::start(config).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await.request;
    let unavailable = "the file is gone".to_owned();
    collector
        .send(ToDecoder::Symbols(v1::SymbolChunk {
            request,
            unavailable,
            ..v1::SymbolChunk::default()
        }))
        .await;
    assert_eq!(names(&conn.batch().await), [""]);
}

#[tokio::test]
async fn an_aggregator_that_comes_back_gets_what_it_lacks_the_same_again() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    collector.batch(2).await;
    let first = conn.batch().await;
    let second = conn.batch().await;
    assert_eq!(second.definitions, None, "sent once on a stream");
    // Batch 1 was committed, batch 2 was not.
    world.next.store(2, Ordering::SeqCst);
    drop(conn);
    let mut conn = world.conn().await;
    assert_eq!(collector.resumed_from().await, 2);
    collector.batch(2).await;
    let again = conn.batch().await;
    assert_eq!(again.accesses, second.accesses);
    assert_eq!(again.ledger, second.ledger);
    assert_eq!(
        names(&again),
        names(&first),
        "a new stream needs the definitions"
    );
}

#[tokio::test]
async fn an_aggregator_that_starts_over_gets_the_same_bytes() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    for number in 1..=3 {
        collector.batch(number).await;
    }
    let mut sent = Vec::new();
    for _ in 1..=3 {
        sent.push(conn.batch().await.encode_to_vec());
    }
    conn.answer(FromAggregator::Resume(v1::Resume { from: 1 }))
        .await;
    assert_eq!(collector.resumed_from().await, 1);
    for number in 1..=3_u64 {
        collector.batch(number).await;
        let at = usize::try_from(number).unwrap() - 1;
        assert_eq!(
            conn.batch().await.encode_to_vec(),
            sent[at],
            "batch {number}"
        );
    }
}

#[tokio::test]
async fn a_repeated_batch_is_passed_over_and_a_missing_one_asked_for() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    for number in [1, 1, 3] {
        collector.batch(number).await;
    }
    assert_eq!(collector.resumed_from().await, 2);
    for number in [4, 2, 3] {
        collector.batch(number).await;
    }
    for number in [1, 2, 3] {
        assert_eq!(conn.batch().await.number, number);
    }
}

#[tokio::test]
async fn the_newer_of_two_streams_of_a_source_wins() {
    let mut world = World::start(hurried()).await;
    let (mut older, mut conn) = open(&mut world, 1).await;
    older.batch(1).await;
    conn.batch().await;
    world.next.store(2, Ordering::SeqCst);
    let mut newer = world.collector(1).await;
    let refusal = older.refused().await;
    assert_eq!((refusal.reason.as_str(), refusal.retry), ("busy", true));
    let mut conn = world.conn().await;
    let welcome = newer.welcome().await;
    assert_eq!(
        (welcome.next, welcome.side_band_through),
        (2, 1),
        "the state outlives the stream"
    );
    newer.batch(2).await;
    assert_eq!(conn.batch().await.number, 2);
}

#[tokio::test]
async fn a_decoder_that_knows_nothing_takes_the_history_first() {
    let mut world = World::start(hurried()).await;
    world.next.store(3, Ordering::SeqCst);
    let (collector, mut conn) = open(&mut world, 1).await;
    for number in [1, 2] {
        let mut history = batch(number);
        history.samples = None;
        let batch = Some(history);
        collector
            .send(ToDecoder::SideBand(v1::SideBandBatch { batch }))
            .await;
    }
    collector.batch(3).await;
    let decoded = conn.batch().await;
    assert_eq!(decoded.number, 3);
    assert_eq!(decoded.accesses.unwrap().strings, ["prog"]);
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_counted_and_does_not_block() {
    let mut world = World::start(hurried()).await;
    let (collector, mut conn) = open(&mut world, 1).await;
    let mut damaged = batch(1);
    damaged.samples.as_mut().unwrap().checksum ^= 1;
    collector.send(ToDecoder::Batch(damaged)).await;
    collector.batch(2).await;
    let decoded = conn.batch().await;
    let reason = u32::from(Reason::Undecodable.code());
    let lost = decoded.ledger.iter().find(|entry| entry.reason == reason);
    assert_eq!(
        (decoded.number, lost.map(|entry| entry.records)),
        (1, Some(1))
    );
    assert_eq!(conn.batch().await.accesses.unwrap().rows, 1);
}

#[tokio::test]
async fn what_is_no_collector_is_refused_with_a_reason() {
    let world = World::start(hurried()).await;
    let newer = v1::Hello {
        schema_version: SCHEMA_VERSION + 1,
        ..hello(1)
    };
    let nobody = v1::Hello {
        source: None,
        ..hello(1)
    };
    for (hello, reason) in [(newer, "schema"), (nobody, "source")] {
        let mut collector = Collector::connect(&world.url, hello).await;
        assert_eq!(collector.refused().await.reason, reason);
    }
}

#[tokio::test]
async fn a_stop_ends_open_streams_and_the_server_well() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    conn.batch().await;
    world.stop.cancel();
    let served = world.served.take().unwrap();
    within("the end of the server", served)
        .await
        .unwrap()
        .unwrap();
    let ended = within("the end of the stream", collector.answers.message()).await;
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
}

#[tokio::test]
async fn a_configuration_without_sense_is_refused_by_value() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        partitions: 0,
        ..Config::default()
    };
    let refused = serve(config, listener, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("partitions is 0"), "{refused}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        symbol_dir: PathBuf::from("/proc/none/symbols"),
        ..Config::default()
    };
    let refused = serve(config, listener, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("symbol_dir"), "{refused}");
}

fn archive(folder: &std::path::Path, bytes_max: u64, required: bool) -> Config {
    Config {
        archive_dir: folder.join("archive"),
        archive_bytes_max: bytes_max,
        archive_required: required,
        ..hurried()
    }
}

#[tokio::test]
async fn a_batch_is_archived_before_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(archive(folder.path(), 1 << 20, true)).await;
    let (collector, mut conn) = open(&mut world, 1).await;
    for number in 1..=3 {
        collector.batch(number).await;
        assert_eq!(conn.batch().await.number, number);
        // Nothing is committed yet, let alone acknowledged.
        let place = Place::open(&folder.path().join("archive")).unwrap();
        let files = place.files_of(Day(0)).unwrap();
        assert_eq!(files.len(), 1);
        let checked = check(&place, &files[0], None).unwrap();
        assert_eq!((checked.batches, checked.torn), (number, None));
    }
}

#[tokio::test]
async fn without_room_a_batch_goes_on_unless_the_archive_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(archive(folder.path(), 10, false)).await;
    let (collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    assert_eq!(conn.batch().await.number, 1);
    let mut world = World::start(archive(folder.path(), 10, true)).await;
    let (mut collector, mut conn) = open(&mut world, 2).await;
    collector.batch(1).await;
    let refused = collector.refused().await;
    assert_eq!((refused.reason.as_str(), refused.retry), ("archive", true));
    assert!(refused.message.contains("archive_required"), "{refused:?}");
    let next = within("the end of the stream", conn.batches.recv()).await;
    assert_eq!(next, None, "the batch waits in the spool");
}

#[tokio::test]
async fn keys_of_an_archive_without_a_folder_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        archive_key_file: PathBuf::from("archive.key"),
        ..Config::default()
    };
    let error = serve(config, listener, CancellationToken::new()).await;
    let said = error.unwrap_err().to_string();
    assert!(said.contains("`archive_dir` is empty"), "{said}");
}

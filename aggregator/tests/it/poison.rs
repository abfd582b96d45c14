//! Rows the store will never take, and a store that takes nothing until somebody repairs it.

use async_nats::jetstream;
use memwide_aggregator::metrics;
use memwide_proto::{subject, v1};
use memwide_store::native::{BlockView, walk};
use prost::Message as _;

use crate::feed::{Feed, deliver};
use crate::pipeline::check;
use crate::support::{Aggregator, Nats, PARTITIONS, Sink, TestEngine, servers, until};

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_varint(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn put_varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// The same block with another type and other data in one column.
fn with_column(view: &BlockView<'_>, name: &str, kind: &str, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(view.columns.len(), &mut out);
    put_varint(view.rows, &mut out);
    for column in &view.columns {
        let meant = column.name == name;
        put_text(column.name, &mut out);
        put_text(if meant { kind } else { column.kind }, &mut out);
        out.extend_from_slice(if meant { data } else { column.data });
    }
    out
}

/// Rows of `samples` as they came, to be spoilt.
struct Spoiler {
    context: jetstream::Context,
    partition: u16,
    block: v1::RowBlock,
    native: Vec<u8>,
}

impl Spoiler {
    /// Takes the first rows of `samples` that wait in the stream.
    async fn new(nats: &Nats, feed: &Feed) -> Self {
        let context = jetstream::new(nats.client().await);
        let partition = feed.source.partition(PARTITIONS).0;
        let stream = context.get_stream(subject::STREAM).await.unwrap();
        let mut sequence = 1;
        let block = loop {
            let message = stream
                .raw_message_builder()
                .sequence(sequence)
                .next_by_subject(subject::data(partition))
                .send()
                .await
                .unwrap();
            let block = v1::RowBlock::decode(message.payload).unwrap();
            if block.table == "samples" {
                break block;
            }
            sequence = message.sequence + 1;
        };
        let native = zstd::bulk::decompress(&block.native_zstd, 1 << 20).unwrap();
        Self {
            context,
            partition,
            block,
            native,
        }
    }

    fn rows(&self) -> u64 {
        self.block.rows.into()
    }

    async fn send(&self, native: &[u8], rows: u32) {
        let letter = v1::RowBlock {
            rows,
            native_bytes: native.len() as u64,
            native_zstd: zstd::bulk::compress(native, 1).unwrap().into(),
            ..self.block.clone()
        };
        let subject = subject::data(self.partition);
        let sent = self.context.publish(subject, letter.encode_to_vec().into());
        sent.await.unwrap().await.unwrap();
    }

    async fn letters(&self) -> u64 {
        let name = subject::DEAD_LETTER_STREAM;
        let mut dead = self.context.get_stream(name).await.unwrap();
        dead.info().await.unwrap().state.messages
    }
}

async fn refused(engine: &TestEngine, samples: u64) {
    let sql = "SELECT sum(records) FROM ledger_1m WHERE reason = 'refused'";
    until("refused rows are in the ledger", || async {
        engine.number(sql).await == samples
    })
    .await;
    let probes = "SELECT name FROM system.tables WHERE name LIKE '%probe%'";
    assert_eq!(engine.ask(probes).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_the_store_refuses_go_to_the_dead_letters_and_the_rest_is_stored() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let feed = Feed::new(1, 3, 5_000);
    deliver(&[aggregator.address], &feed).await;
    // Before a sink sees them: messages that the table cannot take, between those that it can.
    let spoiler = Spoiler::new(&nats, &feed).await;
    let (native, rows) = (&spoiler.native, spoiler.block.rows);
    // A level that the table has no name for, as from a newer aggregator; a column of a type that cannot be converted;
    // and something that is no block at all.
    let view = walk(native).unwrap();
    let level = view.columns.iter().find(|column| column.name == "level");
    let level = level.unwrap().data;
    let codes = level.as_ptr().addr() - native.as_ptr().addr();
    let mut newer = native.clone();
    for code in &mut newer[codes..codes + level.len()] {
        *code = if *code == 10 { 99 } else { *code };
    }
    let at = native
        .windows(10)
        .position(|bytes| bytes == b"'RAM' = 10")
        .unwrap();
    newer[at..at + 10].copy_from_slice(b"'XXL' = 99");
    spoiler.send(&newer, rows).await;
    let empty = vec![0; 8 * view.rows];
    let mistyped = with_column(&view, "stack_id", "Array(UInt64)", &empty);
    spoiler.send(&mistyped, rows).await;
    spoiler.send(&[0xff; 40], 2).await;
    let feed = Feed { batches: 6, ..feed };
    deliver(&[aggregator.address], &feed).await;
    let sink = Sink::start(&nats, &engine);
    refused(&engine, 2 * u64::from(rows) + 2).await;
    check(&engine, &[feed]).await;
    assert_eq!(spoiler.letters().await, 3);
    // What can be read of them says whose they are; produced, stored and refused then fit together host by host.
    let of_host = "SELECT sum(records) FROM ledger_1m WHERE reason = 'refused' AND host = 'host1' AND event != ''";
    assert_eq!(engine.number(of_host).await, 2 * u64::from(rows));
    sink.stop().await;
    aggregator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_of_nothing_but_refused_rows_does_not_hold_its_partition_up() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let feed = Feed::new(1, 1, 200);
    deliver(&[aggregator.address], &feed).await;
    let spoiler = Spoiler::new(&nats, &feed).await;
    let sink = Sink::start(&nats, &engine);
    check(&engine, std::slice::from_ref(&feed)).await;
    // Each one alone in its block: there is nothing to compare it with.
    let view = walk(&spoiler.native).unwrap();
    let rows = view.rows;
    let mut words = Vec::new();
    for _ in 0..rows {
        put_text("word", &mut words);
    }
    // Null in each row, then the values below.
    let nulls = [vec![1; rows], vec![0; 8 * rows]].concat();
    let cases: [(&str, &str, &[u8]); 7] = [
        ("stack_id", "Array(UInt64)", &vec![0; 8 * rows]),
        ("stack_id", "String", &words),
        ("stack_id", "Nullable(UInt64)", &nulls),
        ("stack_id", "UUID", &vec![0; 16 * rows]),
        ("time", "Array(UInt64)", &vec![0; 8 * rows]),
        ("host", "UInt64", &vec![0; 8 * rows]),
        ("level", "Array(UInt64)", &vec![0; 8 * rows]),
    ];
    let mut expected = 0;
    for (column, kind, data) in cases {
        let native = with_column(&view, column, kind, data);
        spoiler.send(&native, spoiler.block.rows).await;
        let stored_before = engine.number("SELECT count() FROM samples").await;
        until(&format!("{column} as {kind} is dealt with"), || async {
            stream_is_empty(&spoiler).await
        })
        .await;
        let stored = engine.number("SELECT count() FROM samples").await;
        // What the engine can convert, it may.
        expected += if stored == stored_before {
            spoiler.rows()
        } else {
            0
        };
        refused(&engine, expected).await;
        assert_eq!(expected, spoiler.letters().await * spoiler.rows());
        assert_eq!(sink.readiness.missing(), []);
        eprintln!("{column} as {kind}: {}", stored - stored_before);
    }
    assert!(
        expected >= 4 * spoiler.rows(),
        "{expected} rows were refused"
    );
    // Not a matter of reading: a constraint that the table has.
    let constrain = "ALTER TABLE samples ADD CONSTRAINT some CHECK cpu < 64";
    engine.store().execute(constrain).await.unwrap();
    let cpus = vec![1_u8; 2 * rows];
    let native = with_column(&view, "cpu", "UInt16", &cpus);
    spoiler.send(&native, spoiler.block.rows).await;
    expected += spoiler.rows();
    refused(&engine, expected).await;
    sink.stop().await;
    aggregator.stop().await;
}

async fn stream_is_empty(spoiler: &Spoiler) -> bool {
    let stream = spoiler.context.get_stream(subject::STREAM).await.unwrap();
    let info = stream.info_with_subjects("mw.d.*").await.unwrap();
    futures_util::StreamExt::count(info).await == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_waits_for_a_repair_says_so_and_goes_on_after_it() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let sink = Sink::start(&nats, &engine);
    let feed = Feed::new(1, 2, 100);
    deliver(&[aggregator.address], &feed).await;
    check(&engine, std::slice::from_ref(&feed)).await;
    assert_eq!(aggregator.readiness.missing(), []);
    assert_eq!(sink.readiness.missing(), []);
    let store = engine.store();
    store
        .execute("RENAME TABLE mix_1m TO elsewhere")
        .await
        .unwrap();
    let feed = Feed { batches: 4, ..feed };
    deliver(&[aggregator.address], &feed).await;
    until("the partition says what it waits for", || async {
        !sink.readiness.missing().is_empty()
    })
    .await;
    let [(condition, why)] = &*sink.readiness.missing() else {
        panic!("{:?}", sink.readiness.missing());
    };
    assert_eq!(*condition, "partitions");
    let partition = feed.source.partition(PARTITIONS).0;
    for part in [
        &format!("partition {partition} waits"),
        "`mix_1m`",
        "code 60",
        "restart the sink",
    ] {
        assert!(why.contains(part), "{part} is missing in: {why}");
    }
    assert!(metrics::BLOCKED.get() >= 1);
    store
        .execute("RENAME TABLE elsewhere TO mix_1m")
        .await
        .unwrap();
    check(&engine, &[feed]).await;
    assert_eq!(sink.readiness.missing(), []);
    sink.stop().await;
    aggregator.stop().await;
}

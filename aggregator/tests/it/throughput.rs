//! How fast rows move; prints figures and asserts only that they are right.
//!
//! `MEMWIDE_BENCH_BATCHES=400 cargo nextest run --release -p memwide-aggregator --no-capture rows_move`

use std::time::Instant;

use memwide_store::rows::{SampleRow, Samples, TableRows};

use crate::feed::{BASE_S, Feed, deliver};
use crate::pipeline::check;
use crate::support::{Aggregator, Sink, TestEngine, servers, until};

const ROWS: u32 = 5_000;

/// Rows of `samples` straight into the engine, in blocks of 200,000.
async fn bare(engine: &TestEngine, rows: u64) -> f64 {
    let mut seconds = 0.0;
    for block in 0..rows.div_ceil(200_000) {
        let mut samples = Samples::default();
        for row in 0..200_000_u64 {
            let word = (block * 200_000 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            samples.push(&SampleRow {
                ip: word,
                addr: !word,
                phys_addr: word ^ 0xffff,
                function_id: word % 500,
                ..row_like(row)
            });
        }
        let natives: Vec<_> = samples.finish();
        let begin = Instant::now();
        for native in natives {
            let token = format!("bare {block}");
            let (store, columns) = (engine.store(), Samples::columns());
            store
                .insert_native("samples", &columns, &token, native.bytes.into())
                .await
                .unwrap();
        }
        seconds += begin.elapsed().as_secs_f64();
    }
    seconds
}

fn row_like(row: u64) -> SampleRow<'static> {
    use memwide_model as model;
    SampleRow {
        time: i64::try_from(BASE_S * 1_000_000_000 + row * 1_000).unwrap(),
        host: "bare",
        source_id: 1,
        batch: row / 5_000,
        cpu: 3,
        pid: 1_000,
        tid: 1_001,
        comm: "main",
        workload_id: 7,
        event_id: 11,
        event: "mem-loads",
        tier: model::Tier::Precise,
        context: model::Context::User,
        ip: 0,
        function_id: 0,
        location_id: 10_000 + row % 5_000,
        stack_id: row % 2_000,
        addr: 0,
        phys_addr: 0,
        data_id: row % 50,
        region: model::Region::Heap,
        data_src: row.wrapping_mul(77),
        period: 1 + row % 1_000,
        weight: 200,
        ins_lat: 300,
        retire_lat: 0,
        latency_kind: model::LatencyKind::Use,
        page_shift: 12,
        page_node: 255,
        op: model::Op::Load,
        level: model::Level::Ram,
        outcome: model::Outcome::Hit,
        snoop: model::Snoop::None,
        tlb: model::Tlb::Walk,
        locked: 0,
        blocked: model::Blocked::No,
        hw_locality: model::Locality::Remote,
        page_locality: model::Locality::Unknown,
        locality: model::Locality::Remote,
        locality_basis: model::LocalityBasis::Hw,
        mem_region: model::MemRegion::Unknown,
        suspect: model::Suspect::None,
        decoder_version: "0.1.0+taxonomy.1",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_move_from_decoders_to_the_store() {
    let batches = std::env::var("MEMWIDE_BENCH_BATCHES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(8);
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let feeds: Vec<Feed> = (1..5)
        .map(|epoch| Feed::new(epoch, batches, ROWS))
        .collect();
    let samples = 4 * batches * u64::from(ROWS);

    let aggregator = Aggregator::with(&nats, |config| config.flush_after_ms = 2_000).await;
    let begin = Instant::now();
    let all = feeds.iter().map(|feed| {
        let address = aggregator.address;
        async move { deliver(&[address], feed).await }
    });
    futures_util::future::join_all(all).await;
    let committed = begin.elapsed().as_secs_f64();

    let begin = Instant::now();
    let sink = Sink::start(&nats, &engine);
    let ledger = "SELECT sum(records) FROM ledger_1m WHERE reason = 'stored'";
    until("everything is stored", || async {
        engine.number(ledger).await == samples
    })
    .await;
    let stored = begin.elapsed().as_secs_f64();
    check(&engine, &feeds).await;
    let rows = memwide_aggregator::metrics::STORED_ROWS.get();
    let bare = bare(&engine, samples).await;
    let rate = |rows: u64, seconds: f64| format!("{:.0}", rows as f64 / seconds);
    eprintln!(
        "{samples} samples; decoders to stream {committed:.2} s ({} samples/s), stream to store {stored:.2} s \
         ({} samples/s, {} rows/s of all tables), bare engine {bare:.2} s ({} samples/s)",
        rate(samples, committed),
        rate(samples, stored),
        rate(rows, stored),
        rate(samples.div_ceil(200_000) * 200_000, bare),
    );
    let late = Feed::new(9, 1, 1_000);
    let begin = Instant::now();
    deliver(&[aggregator.address], &late).await;
    let seen = format!("SELECT count() FROM samples WHERE host = '{}'", late.host);
    until("the late samples are seen", || async {
        engine.number(&seen).await == 1_000
    })
    .await;
    eprintln!(
        "a batch is seen {:.2} s after it was sent",
        begin.elapsed().as_secs_f64()
    );
    sink.stop().await;
    aggregator.stop().await;
}

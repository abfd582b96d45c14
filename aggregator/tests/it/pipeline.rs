//! Truth in = rows out.

use crate::feed::{Feed, Truth, deliver};
use crate::support::{Aggregator, Sink, TestEngine, servers, until};

/// Everything the store holds must be exactly `feeds`, in every table.
pub(crate) async fn check(engine: &TestEngine, feeds: &[Feed]) {
    let mut truth = Truth::default();
    for feed in feeds {
        truth += feed.truth();
    }
    until("all batches are in the ledger", || async {
        engine
            .number("SELECT sum(records) FROM ledger_1m WHERE reason = 'batches'")
            .await
            >= truth.batches
    })
    .await;
    let Truth {
        samples,
        period,
        weight,
        remote,
        batches,
    } = truth;
    let one_a_sample = format!("{samples}\t{samples}\t{period}\t{weight}\t{remote}");
    let rows = "SELECT count(), uniqExact(source_id, batch, ip), sum(period), sum(weight), countIf(locality = 'remote')";
    assert_eq!(
        engine.ask(&format!("{rows} FROM samples")).await,
        one_a_sample
    );
    let summed = format!("{samples}\t{period}\t{weight}\t{remote}");
    let sums =
        "SELECT sum(n), toUInt64(sum(sum_p)), toUInt64(sum(sum_w)), sumIf(n, locality = 'remote')";
    for table in ["mix_1m", "fleet_1h"] {
        assert_eq!(
            engine.ask(&format!("{sums} FROM {table}")).await,
            summed,
            "{table}"
        );
    }
    let functions = "SELECT sum(samples), toUInt64(sum(sum_p)), toUInt64(sum(weight)), sumIf(samples, locality = 'remote')";
    for view in ["functions", "sites", "data"] {
        assert_eq!(
            engine.ask(&format!("{functions} FROM {view}")).await,
            summed,
            "{view}"
        );
    }
    let ledger = "SELECT sumIf(records, reason = 'produced'), sumIf(records, reason = 'stored'), \
                  sumIf(records, reason = 'batches') FROM ledger_1m";
    assert_eq!(
        engine.ask(ledger).await,
        format!("{samples}\t{samples}\t{batches}")
    );
    let named = "SELECT count() FROM functions WHERE function = '' OR module != 'program'";
    assert_eq!(engine.number(named).await, 0, "functions without a name");
    let hosts = "SELECT uniqExact(host) FROM hosts WHERE cpu_model = 'Some CPU'";
    assert_eq!(engine.number(hosts).await, feeds.len() as u64);
    let busy = feeds.iter().filter(|feed| feed.rows > 0).count() as u64;
    assert_eq!(
        engine.number("SELECT uniqMerge(hosts) FROM fleet_1h").await,
        busy
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_become_rows_of_every_table() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let sink = Sink::start(&nats, &engine);
    let feeds = [
        Feed::new(1, 5, 400),
        Feed::new(2, 3, 9_000),
        Feed::new(3, 4, 0),
    ];
    for feed in &feeds {
        deliver(&[aggregator.address], feed).await;
    }
    check(&engine, &feeds).await;
    aggregator.stop().await;
    sink.stop().await;
}

//! A day made anew beside the stored one, put in its place table by table, broken off at every step.

use std::sync::atomic::{AtomicUsize, Ordering};

use memwide_model::Level;
use memwide_store::Store;
use memwide_store::native::{Constant, append_constants};
use memwide_store::rows::{
    CloseRow, Closes, ClosesOfCalls, ClosesOfCallsRow, ClosesOfDetails, ClosesOfDetailsRow,
    SampleRow, Samples, TableRows,
};
use memwide_store::schema::{RemadeDay, close_calls, close_details, close_functions_1h};

use crate::support::{ask, engine};
use crate::support_rows::{insert, now, sample};

const SAMPLES: u64 = 2_000;

const DAY: &str = "2026-01-01";

/// Samples as one decoder or another classifies them.
fn rows(count: u64, is_old: bool) -> Samples {
    let mut rows = Samples::default();
    for i in 0..count {
        let of_now = sample(i);
        let level = if is_old { Level::Unknown } else { of_now.level };
        rows.push(&SampleRow { level, ..of_now });
    }
    rows
}

/// What an older decoder had made, closed.
async fn stored(store: &Store, ingested: u32) {
    let blocks = rows(SAMPLES, true).finish();
    insert(store, &blocks, 0, ingested, "old").await.unwrap();
    let functions = ("functions_1h", close_functions_1h(0, 0, ingested));
    let mut closes = vec![functions];
    closes.extend(close_details(0, 0, ingested));
    closes.extend(close_calls(0, 0, ingested));
    for (_, sql) in closes {
        store.insert_select(&sql, "close").await.unwrap();
    }
    let (part, closed_through) = (0, ingested);
    let (mut one, mut two, mut three) = (
        Closes::default(),
        ClosesOfDetails::default(),
        ClosesOfCalls::default(),
    );
    one.push(&CloseRow {
        part,
        closed_through,
    });
    two.push(&ClosesOfDetailsRow {
        part,
        closed_through,
    });
    three.push(&ClosesOfCallsRow {
        part,
        closed_through,
    });
    for blocks in [one.finish(), two.finish(), three.finish()] {
        insert(store, &blocks, 0, 0, "close").await.unwrap();
    }
}

/// The day as the decoder of now makes it.
async fn remade(store: &Store, count: u64) -> RemadeDay {
    let day = RemadeDay::begin(store, DAY, now().into()).await.unwrap();
    assert_eq!(day.not_closed().await.unwrap(), 0);
    let dated = day.dated().await.unwrap();
    let [one] = dated.as_slice() else {
        panic!("{dated:?}");
    };
    for mut block in rows(count, false).finish() {
        let constants = [
            Constant::U16("part", one.part),
            Constant::Seconds("ingested", one.until),
        ];
        block.bytes = append_constants(&block.bytes, &constants).unwrap();
        assert!(RemadeDay::takes(&block, block.day));
        day.insert(block, "new").await.unwrap();
    }
    day.close(one.part, one.until - 1, one.until).await.unwrap();
    day
}

/// Samples by each table that holds all of them, and by the view.
async fn totals(store: &Store) -> String {
    ask(
        store,
        "SELECT (SELECT count() FROM samples), (SELECT sum(n) FROM functions_1h), (SELECT sum(n) FROM data_1h), \
         (SELECT sum(n) FROM fleet_1d), (SELECT sum(samples) FROM functions), (SELECT sum(weight) FROM functions)",
    )
    .await
}

async fn old_rows(store: &Store) -> String {
    let tables = ["samples", "functions_1h", "fleet_1d", "data_1h"];
    let of = tables.map(|table| format!("(SELECT count() FROM {table} WHERE level != 'unknown')"));
    ask(store, &format!("SELECT {}", of.join(", "))).await
}

#[tokio::test]
async fn a_day_is_replaced_by_the_same_totals_wherever_it_was_broken_off() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let ingested = now();
    stored(&store, ingested).await;
    let before = totals(&store).await;
    assert!(
        before.starts_with("2000\t2000\t2000\t2000\t2000\t"),
        "{before}"
    );
    assert_eq!(old_rows(&store).await, "0\t0\t0\t0");
    let day = remade(&store, SAMPLES).await;
    assert_eq!(day.differences().await.unwrap(), (Vec::new(), 0));
    // So many statements, then it is broken off; the next attempt begins from the start.
    let mut whole = None;
    for most in 0..100 {
        let done = AtomicUsize::new(0);
        let go = || done.fetch_add(1, Ordering::Relaxed) < most;
        let ended = day.replace(go).await.unwrap();
        assert_eq!(totals(&store).await, before, "after {most} statements");
        if ended {
            whole = Some(most);
            break;
        }
    }
    assert!(whole.is_some_and(|statements| statements > 20), "{whole:?}");
    let new = old_rows(&store).await;
    assert!(!new.split('\t').any(|rows| rows == "0"), "{new}");
    day.remove().await.unwrap();
    assert_eq!(
        ask(&store, "SHOW DATABASES LIKE 'memwide_redecode'").await,
        ""
    );
    let kept = format!("SELECT countIf(toUnixTimestamp(ingested) != {ingested}) FROM samples");
    assert_eq!(ask(&store, &kept).await, "0", "kept as long as before");
    // Who slept within a block from before may wake now: its tokens are known still.
    let blocks = rows(SAMPLES, true).finish();
    insert(&store, &blocks, 0, ingested, "old").await.unwrap();
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "2000");
}

#[tokio::test]
async fn a_day_of_which_a_sample_is_missing_is_told_by_host_and_minute() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    stored(&store, now()).await;
    let day = remade(&store, SAMPLES - 1).await;
    let (shown, all) = day.differences().await.unwrap();
    let told: Vec<&str> = shown.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(told, ["samples", "functions_1h", "data_1h", "fleet_1d"]);
    assert_eq!(all, 4);
    let one = &shown[0];
    assert_eq!(one.stored, one.made + 1);
    assert_eq!(one.host, sample(SAMPLES - 1).host);
    assert_eq!(one.time, "2026-01-01 00:00:00");
}

use memwide_store::rows::{CloseRow, Closes, Sums, TableRows};
use memwide_store::schema::close_functions_1h;

use crate::support::{ask, engine};
use crate::support_rows::{insert, now, sample, samples};

/// The sums of the view `functions`, in one line.
const TOTALS: &str = "SELECT sum(samples), sum(sum_p), sum(sum_pp), sum(weight), sum(latency_cycles), sum(sum_wpwp), \
     sum(n_stlb_walk), sum(n_locked), sum(n_blocked), sum(n_hitm), sum(n_hitm_rmt), sum(n_fwd), sum(n_peer), \
     sum(n_page_remote), sum(n_page_known) FROM functions";

fn totals(range: std::ops::Range<u64>) -> String {
    let mut sums = Sums::default();
    range.for_each(|i| sums.add(&sample(i)));
    let m = sums.moments;
    format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        m.n,
        m.p,
        m.pp,
        m.w,
        m.wp,
        m.wpwp,
        sums.n_stlb_walk,
        sums.n_locked,
        sums.n_blocked,
        sums.n_hitm,
        sums.n_hitm_rmt,
        sums.n_fwd,
        sums.n_peer,
        sums.n_page_remote,
        sums.n_page_known
    )
}

#[tokio::test]
async fn the_view_is_exact_before_during_and_after_a_close() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let now = now();
    insert(&store, &samples(0..2000), 0, now + 10, "a")
        .await
        .unwrap();
    insert(&store, &samples(2000..2500), 0, now + 20, "b")
        .await
        .unwrap();
    insert(&store, &samples(2500..3000), 1, now + 10, "c")
        .await
        .unwrap();
    let expected = totals(0..3000);
    assert_eq!(ask(&store, TOTALS).await, expected, "all from samples");

    let close = close_functions_1h(0, 0, now + 15);
    for _ in 0..2 {
        store.insert_select(&close, "close/0/15").await.unwrap();
    }
    assert_eq!(ask(&store, TOTALS).await, expected, "closed, not published");
    assert_eq!(ask(&store, "SELECT sum(n) FROM functions_1h").await, "2000");

    let mut closes = Closes::default();
    closes.push(&CloseRow {
        part: 0,
        closed_through: now + 15,
    });
    insert(&store, &closes.finish(), 0, 0, "p").await.unwrap();
    assert_eq!(ask(&store, TOTALS).await, expected, "published");
    store
        .execute("OPTIMIZE TABLE functions_1h FINAL")
        .await
        .unwrap();
    assert_eq!(ask(&store, TOTALS).await, expected, "merged");
    insert(&store, &samples(3000..3100), 0, now + 16, "late")
        .await
        .unwrap();
    assert_eq!(
        ask(&store, TOTALS).await,
        totals(0..3100),
        "late rows of a closed hour"
    );
}

#[tokio::test]
async fn names_are_joined_and_missing_ones_are_empty() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    insert(&store, &samples(0..100), 0, now(), "a")
        .await
        .unwrap();
    let define = |sql: &'static str| store.execute(sql);
    define("INSERT INTO mappings (mapping_id, module, build_id, last_seen) VALUES (2, 'libx.so', 'ab', now())").await.unwrap();
    define("INSERT INTO functions_def (function_id, mapping_id, name, rank, last_seen) VALUES (1000, 2, 'poor', 1, now + 9), (1000, 2, 'good', 3, now())").await.unwrap();
    define("INSERT INTO events (event_id, name, population, last_seen) VALUES (1, 'mem-loads', 'loads', now())").await.unwrap();
    define("INSERT INTO data_def (data_id, name, last_seen) VALUES (1, 'table', now())")
        .await
        .unwrap();
    let functions = "SELECT function, module, build_id, sum(samples) FROM functions WHERE function_id < 1002 \
         GROUP BY ALL ORDER BY 1";
    assert_eq!(
        ask(&store, functions).await,
        "\t\t\t8\ngood\tlibx.so\tab\t8"
    );
    let events = "SELECT event, sum(est_events) > 0, count(est_events) > 0 FROM functions GROUP BY event ORDER BY event";
    assert_eq!(
        ask(&store, events).await,
        "mem-loads\t1\t1\nminor-faults\t\\N\t0"
    );
    let data =
        "SELECT data_symbol, count() FROM accesses WHERE function = 'good' GROUP BY ALL ORDER BY 1";
    assert!(ask(&store, data).await.contains("table\t"));
}

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

#[tokio::test]
async fn a_better_name_and_a_late_start_name_what_was_stored_before() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let stored = "INSERT INTO samples (time, host, event_id, function_id, location_id, part, ingested) VALUES \
         (now(), 'a', 1, 50, 7, 0, now()), (now(), 'a', 1, 60, 8, 0, now()), (now(), 'a', 1, 60, 9, 0, now()), \
         (now(), 'a', 1, 60, 10, 0, now()), (now(), 'a', 1, 60, 11, 0, now())";
    let before = [
        // A start without a name; and a mapping whose starts were not known.
        "INSERT INTO functions_def (function_id, mapping_id, start, size, rank, last_seen) VALUES (50, 2, 256, 64, 0, now())",
        "INSERT INTO functions_def (function_id, mapping_id, rank, last_seen) VALUES (60, 2, 0, now())",
        "INSERT INTO nameless VALUES (8, 60, 2, 600, 0, now()), (9, 60, 2, 9000, 0, now()), (10, 60, 2, 600, 1, now()), (11, 60, 2, 1600, 1, now())",
        "INSERT INTO locations VALUES (8, 2, 600, 60, now()), (9, 2, 9000, 60, now())",
        "INSERT INTO mappings (mapping_id, module, last_seen) VALUES (2, 'prog', now())",
        stored,
    ];
    for sql in before {
        store.execute(sql).await.unwrap();
    }
    let accesses =
        "SELECT location_id, function, source_file, source_line, module FROM accesses ORDER BY 1";
    let functions = "SELECT function, sum(samples) FROM functions GROUP BY ALL ORDER BY 1";
    assert_eq!(
        ask(&store, accesses).await,
        "7\t\t\t0\tprog\n8\t\t\t0\tprog\n9\t\t\t0\tprog\n10\t\t\t0\tprog\n11\t\t\t0\tprog"
    );
    assert_eq!(ask(&store, functions).await, "\t5");
    let late = "INSERT INTO functions_def (function_id, mapping_id, start, size, name, rank, source_file, source_line, file_offset, last_seen) VALUES \
         (50, 2, 256, 64, 'work', 4, '/src/a.c', 12, 0, now()), (61, 2, 512, 128, 'late', 3, '', 0, 1537, now())";
    store.execute(late).await.unwrap();
    assert_eq!(
        ask(&store, accesses).await,
        "7\twork\t/src/a.c\t12\tprog\n8\tlate\t\t0\tprog\n9\t\t\t0\tprog\n10\t\t\t0\tprog\n11\tlate\t\t0\tprog"
    );
    assert_eq!(ask(&store, functions).await, "\t2\nlate\t2\nwork\t1");
    // A worse name that comes later changes nothing.
    let worse = "INSERT INTO functions_def (function_id, mapping_id, start, size, name, rank, last_seen) VALUES (50, 2, 256, 64, 'worse', 1, now() + 9)";
    store.execute(worse).await.unwrap();
    assert_eq!(ask(&store, functions).await, "\t2\nlate\t2\nwork\t1");
}

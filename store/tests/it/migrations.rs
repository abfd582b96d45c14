use memwide_store::Advice;

use crate::support::{ask, engine};
use crate::support_rows::{NEW_YEAR, insert, now, sample, samples};

#[tokio::test]
async fn the_schema_is_applied_once_and_matches_the_row_builders() {
    let Some(engine) = engine().await else { return };
    let store = engine.child.store("memwide").unwrap();
    assert_eq!(
        store.migrate().await.unwrap(),
        [
            "facts",
            "definitions",
            "views",
            "closes_in_array",
            "reasons",
            "suspect",
            "names",
            "cpu_nodes",
            "readings",
            "details",
            "calls",
            "orders"
        ]
    );
    assert!(store.migrate().await.unwrap().is_empty());
    assert_eq!(ask(&store, "SELECT count() FROM migrations").await, "12");
    let uncommented = "SELECT table, name FROM system.columns WHERE database = 'memwide' AND comment = '' \
         AND table IN (SELECT name FROM system.tables WHERE database = 'memwide' AND engine LIKE '%MergeTree')";
    assert_eq!(ask(&store, uncommented).await, "");
}

#[tokio::test]
async fn a_newer_and_a_changed_schema_are_refused() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    store
        .execute("INSERT INTO migrations (number, name, checksum) VALUES (900, 'later', 'x')")
        .await
        .unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.advice(), Advice::Permanent);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("has migration 900, this memwide knows 12"),
        "{cause}"
    );
    store.execute("TRUNCATE TABLE migrations").await.unwrap();
    store
        .execute("INSERT INTO migrations (number, name, checksum) VALUES (1, 'facts', 'other')")
        .await
        .unwrap();
    let error = store.migrate().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("migration 1 (facts) was applied"), "{cause}");
}

#[tokio::test]
async fn a_migration_broken_off_is_applied_again() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    // What a crash between the last statement and its record leaves behind.
    store.execute("TRUNCATE TABLE migrations").await.unwrap();
    store.execute("DROP TABLE stacks").await.unwrap();
    assert_eq!(
        store.migrate().await.unwrap(),
        [
            "facts",
            "definitions",
            "views",
            "closes_in_array",
            "reasons",
            "suspect",
            "names",
            "cpu_nodes",
            "readings",
            "details",
            "calls",
            "orders"
        ]
    );
    assert_eq!(ask(&store, "SELECT count() FROM stacks").await, "0");
}

/// Databases of every earlier version, with a row in them, are brought up to date; what comes in afterwards may still be
/// of an aggregator that knows no newer columns.
#[tokio::test]
async fn rows_of_every_earlier_version_are_kept_and_read() {
    for version in 1..12 {
        let Some(engine) = engine().await else { return };
        let store = engine.child.store("memwide").unwrap();
        store.migrate_through(version).await.unwrap();
        let old = |time: u32, host: &'static str| {
            format!(
                "INSERT INTO samples (time, host, event_id, tier, data_src, part, ingested) \
                 VALUES (toDateTime64({time}, 9, 'UTC'), '{host}', 1, 'precise', 42, 0, now())"
            )
        };
        store.execute(&old(NEW_YEAR, "before")).await.unwrap();
        if version > 1 {
            let event = "INSERT INTO events (event_id, name, pmu, last_seen) VALUES (1, 'loads', 'cpu', now())";
            store.execute(event).await.unwrap();
        }
        let behind = store.migrations_behind().await.unwrap();
        let applied = store.migrate().await.unwrap();
        assert_eq!(applied, behind);
        assert_eq!(applied.len(), 12 - usize::try_from(version).unwrap());
        assert!(store.migrations_behind().await.unwrap().is_empty());
        store.execute(&old(NEW_YEAR + 1, "after")).await.unwrap();
        insert(&store, &samples(1..2), 0, now(), "new")
            .await
            .unwrap();
        let rows = "SELECT host, data_src, mem_region, suspect, decoder_version, pmu, cpuid FROM accesses ORDER BY time";
        let pmu = if version > 1 { "cpu" } else { "" };
        let new = sample(1);
        assert_eq!(
            ask(&store, rows).await,
            format!(
                "before\t42\tunknown\tnone\t\t{pmu}\t\n{}\t{}\t{}\t{}\t{}\t\t\nafter\t42\tunknown\tnone\t\t{pmu}\t",
                new.host, new.data_src, new.mem_region, new.suspect, new.decoder_version
            ),
            "version {version}"
        );
        // Tables of sums are made from what was there before them, too.
        for (table, sql) in memwide_store::schema::close_details(0, 0, now()) {
            store.insert_select(&sql, table).await.unwrap();
        }
        let summed = "SELECT sum(n) FROM sites_1h UNION ALL SELECT sum(n) FROM data_1h";
        assert_eq!(ask(&store, summed).await, "3\n3", "version {version}");
        for table in ["sites_1h", "data_1h", "latency_1h", "fleet_1d"] {
            // Not published: read from samples.
            let all = format!("SELECT sum(n) FROM {table}_all");
            assert_eq!(ask(&store, &all).await, "3", "{table} of version {version}");
        }
    }
}

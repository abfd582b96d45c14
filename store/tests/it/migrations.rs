use memwide_store::Advice;

use crate::support::{ask, engine};

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
            "reasons"
        ]
    );
    assert!(store.migrate().await.unwrap().is_empty());
    assert_eq!(ask(&store, "SELECT count() FROM migrations").await, "5");
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
        cause.contains("has migration 900, this memwide knows 5"),
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
            "reasons"
        ]
    );
    assert_eq!(ask(&store, "SELECT count() FROM stacks").await, "0");
}

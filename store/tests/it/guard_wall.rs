use memwide_store::{Request, guard};

use crate::support::{Raw, TestEngine, engine, refusal};

/// What a hostile reader might send.
const ATTACKS: &[&str] = &[
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM (SELECT * FROM file('/etc/passwd', 'LineAsString') SETTINGS readonly = 0)",
    "SELECT * FROM (SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString') SETTINGS readonly=0) SETTINGS readonly=0",
    "WITH t AS (SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString') SETTINGS readonly = 0) SELECT * FROM t",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM default.`/etc/passwd`",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "SELECT * FROM s3('http://127.0.0.1:1/bucket/k.tsv', NOSIGN, 'TSV', 'a String')",
    "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM executable('id', TSV, 'a String')",
    "SELECT * FROM sqlite('/tmp/x', 'y')",
    "SELECT * FROM loop(memwide.t)",
    "DESCRIBE TABLE file('/etc/passwd', 'LineAsString')",
    "INSERT INTO memwide.t VALUES (1)",
    "INSERT INTO FUNCTION file('/tmp/memwide_attack', 'TSV', 'a UInt8') VALUES (1)",
    "ALTER TABLE memwide.t DELETE WHERE 1",
    "DROP TABLE memwide.t",
    "TRUNCATE TABLE memwide.t",
    "CREATE TABLE memwide.u (a UInt8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE u (a UInt8)",
    "CREATE FUNCTION f AS (x) -> x",
    "CREATE USER u",
    "GRANT ALL ON *.* TO default",
    "BACKUP TABLE memwide.t TO File('/tmp/memwide_attack')",
    "SYSTEM SHUTDOWN",
    "EXECUTE AS default SELECT 1",
    "SELECT 1 INTO OUTFILE '/tmp/memwide_attack'",
    "SELECT 1; DROP TABLE memwide.t",
];

/// What only the guard stops: the engine asks for no grant.
const GUARD_ONLY: &[&str] = &[
    "SELECT file('/etc/passwd')",
    "SELECT arrayMap(file, ['/etc/passwd'])",
    "SELECT * APPLY(file) FROM (SELECT '/etc/passwd' AS a)",
    "SELECT sleepEachRow(1) FROM numbers(100)",
    "SELECT * FROM system.processes",
    "SELECT 1 SETTINGS readonly = 0",
    "KILL QUERY WHERE 1",
];

async fn with_table() -> Option<TestEngine> {
    let engine = engine().await?;
    let store = engine.empty().await;
    store
        .execute("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
        .await
        .unwrap();
    store
        .execute("INSERT INTO t VALUES (1), (2)")
        .await
        .unwrap();
    Some(engine)
}

async fn unharmed(engine: &TestEngine) {
    let store = engine.child.store("memwide").unwrap();
    assert_eq!(
        crate::support::ask(&store, "SELECT sum(a) FROM t").await,
        "3"
    );
    assert!(!std::path::Path::new("/tmp/memwide_attack").exists());
}

#[test]
fn the_guard_refuses_every_attack() {
    for attack in ATTACKS.iter().chain(GUARD_ONLY) {
        assert!(guard::check(attack).is_err(), "{attack}");
    }
}

#[tokio::test]
async fn the_reader_is_refused_even_when_the_caller_forgets_the_guard() {
    let Some(engine) = with_table().await else {
        return;
    };
    let reader = engine.child.reader("memwide").unwrap();
    for attack in ATTACKS.iter().chain(GUARD_ONLY) {
        let error = refusal(&reader, attack).await;
        assert!(error.contains("ACCESS_DENIED"), "{attack}: {error}");
    }
    unharmed(&engine).await;
    let sum = reader
        .guarded(Request::new("SELECT sum(a) FROM t", "TabSeparated"))
        .await
        .unwrap();
    assert_eq!(&sum[..], b"3\n");
}

#[tokio::test]
async fn the_readers_grants_hold_without_any_guard() {
    let Some(engine) = with_table().await else {
        return;
    };
    for attack in ATTACKS {
        // The writer in the reader's role: no guard, no read-only session, only its grants.
        let raw = Raw::connect(&engine.child).await;
        let answer = raw
            .ask(
                "POST",
                "/?role=memwide_reader&database=memwide",
                "",
                attack.as_bytes(),
            )
            .await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{attack}: {answer}");
        let expected = [
            "ACCESS_DENIED",
            "SYNTAX_ERROR",
            "SUPPORT_IS_DISABLED",
            "UNKNOWN_TABLE",
        ];
        assert!(
            expected.iter().any(|name| answer.contains(name)),
            "{attack}: {answer}"
        );
    }
    unharmed(&engine).await;
}

#[tokio::test]
async fn the_reader_may_not_widen_its_session() {
    let Some(engine) = with_table().await else {
        return;
    };
    let reader = engine.child.reader("memwide").unwrap();
    let request = |name: &str| Request::new("SELECT 1", "TabSeparated").setting(name, 1);
    assert!(reader.query(request("max_threads")).await.is_ok());
    for name in [
        "max_memory_usage_for_user",
        "allow_introspection_functions",
        "log_queries",
    ] {
        let error = reader.query(request(name)).await.unwrap_err().to_string();
        assert!(error.contains("the reader may not set"), "{name}: {error}");
    }
    // Its memory it may only lower: more than the engine gives a statement, or no bound at all, stays that.
    let hungry = "SELECT length(groupArray(number)) FROM numbers(20000000)";
    for (bytes, fits) in [("10000000", false), ("0", true), ("99999999999999", true)] {
        let request = Request::new(hungry, "TabSeparated").setting("max_memory_usage", bytes);
        assert_eq!(reader.query(request).await.is_ok(), fits, "{bytes} bytes");
    }
    let bound = Request::new(
        "SELECT toUInt64(getSetting('max_memory_usage'))",
        "TabSeparated",
    );
    let bound = reader
        .query(bound.setting("max_memory_usage", 0))
        .await
        .unwrap();
    assert_ne!(&*bound, b"0\n");
    assert!(
        reader.query(request("readonly")).await.is_ok(),
        "what clients send by themselves is taken and ignored"
    );
    let elsewhere = memwide_store::Store::connect(
        &engine.child.url,
        "reader",
        &engine.child.passwords.reader,
        "other",
    );
    let error = elsewhere
        .unwrap()
        .query(Request::new("SELECT 1", "TabSeparated"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no database"), "{error}");
}

#[tokio::test]
async fn every_table_function_of_the_engine_is_known_to_the_guard() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    for name in crate::support::ask(&store, "SELECT name FROM system.table_functions")
        .await
        .lines()
    {
        let allowed = guard::TABLE_FUNCTIONS.contains(&name.to_ascii_lowercase().as_str());
        let sql = format!("SELECT * FROM t JOIN {name}('x') USING a");
        assert_eq!(guard::check(&sql).is_ok(), allowed, "{sql}");
    }
}

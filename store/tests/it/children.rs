use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use memwide_service::child::ChildError;
use memwide_store::StoreError;
use memwide_store::engine::{Child, EngineOptions};

use crate::support::{TestEngine, ask, engine, engine_with, options, until};

fn alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_stop_ends_the_process_by_itself_and_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let Some(options) = options(&folder.path().join("engine")) else {
        return;
    };
    let child = Child::spawn(options.clone()).await.unwrap();
    let (pid, store) = (child.pid(), child.store("memwide").unwrap());
    store.create_database().await.unwrap();
    store
        .execute("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
        .await
        .unwrap();
    store.execute("INSERT INTO t VALUES (7)").await.unwrap();
    assert!(
        child.stop(Duration::from_secs(20)).await.unwrap(),
        "it had to be killed"
    );
    assert!(!alive(pid));
    let again = Child::spawn(options).await.unwrap();
    assert_eq!(
        ask(&again.store("memwide").unwrap(), "SELECT a FROM t").await,
        "7"
    );
}

#[tokio::test]
async fn a_stop_does_not_wait_for_running_queries() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let query = tokio::spawn(async move {
        store.execute("SELECT sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1 FORMAT Null").await
    });
    let store = engine.child.store("memwide").unwrap();
    running(&store, "sleepEachRow", "1").await;
    let TestEngine { child, .. } = engine;
    assert!(
        child.stop(Duration::from_secs(20)).await.unwrap(),
        "it had to be killed"
    );
    assert!(query.await.unwrap().is_err());
}

/// Waits until as many queries as said have the word in their text, besides the one that asks.
async fn running(store: &memwide_store::Store, word: &str, count: &str) {
    let sql = format!(
        "SELECT countIf(query LIKE '%{word}%' AND query NOT LIKE '%processes%') FROM system.processes"
    );
    until(
        Duration::from_secs(20),
        &format!("{count} queries with {word}"),
        || async { ask(store, &sql).await == count },
    )
    .await;
}

#[tokio::test]
async fn a_query_whose_client_left_is_stopped() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let left = store.clone();
    let query = tokio::spawn(async move {
        left.execute("SELECT sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1 FORMAT Null").await
    });
    running(&store, "sleepEachRow", "1").await;
    query.abort();
    running(&store, "sleepEachRow", "0").await;
}

#[tokio::test]
async fn the_engine_ends_with_the_process_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(options) = options(folder.path()) else {
        return;
    };
    // A shell that starts the engine and then becomes something that only waits.
    let json = EngineOptions {
        data: folder.path().join("engine"),
        ..options.engine
    }
    .to_json()
    .unwrap();
    let script = format!(
        "'{}' \"$(printf %s \"$0\" | sed s/PARENT/$$/)\" & exec sleep 1000",
        options.program.display()
    );
    let json = json.replace("\"parent_pid\":0", "\"parent_pid\":PARENT");
    let mut shell = Command::new("sh")
        .args(["-c", &script, &json])
        .env("MEMWIDE_ENGINE_PASSWORD", "x")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = shell.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).map(|_| line)
    });
    let line = line.await.unwrap().unwrap();
    assert!(line.starts_with("engine listening "), "{line}");
    let port: u16 = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    shell.kill().unwrap();
    shell.wait().unwrap();
    until(Duration::from_secs(10), "the engine ends", || async {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    })
    .await;
}

#[tokio::test]
async fn an_engine_whose_parent_is_gone_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let Some(options) = options(folder.path()) else {
        return;
    };
    let json = EngineOptions {
        parent_pid: 1,
        ..options.engine
    }
    .to_json()
    .unwrap();
    let ended = Command::new(&options.program)
        .arg(json)
        .env("MEMWIDE_ENGINE_PASSWORD", "x")
        .output()
        .unwrap();
    assert!(!ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("its parent is gone"));
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let Some(good) = options(&folder.path().join("engine")) else {
        return;
    };
    let check = async |change: &dyn Fn(&mut EngineOptions), words: &str| {
        let mut options = good.clone();
        change(&mut options.engine);
        match Child::spawn(options).await {
            Err(StoreError::NotReady { last_words, .. }) => {
                assert!(last_words.contains(words), "{last_words}");
            }
            other => panic!("{words}: {other:?}"),
        }
    };
    check(
        &|o| o.library = "/nonexistent/libchdb.so".into(),
        "make tools",
    )
    .await;
    let not_a_library = folder.path().join("x.so");
    std::fs::write(&not_a_library, "not a library").unwrap();
    check(
        &|o| o.library.clone_from(&not_a_library),
        "cannot be loaded",
    )
    .await;
    check(
        &|o| o.data = "/proc/nowhere".into(),
        "create the engine's folder",
    )
    .await;
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    check(&|o| o.port = port, "is the port taken?").await;

    let _running = Child::spawn(good.clone()).await.unwrap();
    check(&|_| {}, "in use by another process").await;
    let mut bad_program = good.clone();
    bad_program.program = "/nonexistent/memwide".into();
    assert!(matches!(
        Child::spawn(bad_program).await,
        Err(StoreError::Child(ChildError::Missing { .. }))
    ));
}

#[tokio::test]
async fn the_folder_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let Some(options) = options(&folder.path().join("deep/engine")) else {
        return;
    };
    let _child = Child::spawn(options.clone()).await.unwrap();
    let mode = std::fs::metadata(&options.engine.data)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn more_requests_than_can_wait_are_turned_away_and_inserts_go_on() {
    let Some(engine) = engine_with(|options| {
        options.read_threads = 1;
        options.queue_requests = 1;
    })
    .await
    else {
        return;
    };
    let store = engine.empty().await;
    store
        .execute("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
        .await
        .unwrap();
    let slow =
        "SELECT sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1 FORMAT Null";
    let mut busy = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = store.clone();
        busy.spawn(async move { store.execute(slow).await });
    }
    // One runs, one waits, the others are answered.
    for _ in 0..4 {
        let error = busy.join_next().await.unwrap().unwrap().unwrap_err();
        assert!(
            error.to_string().contains("TOO_MANY_SIMULTANEOUS_QUERIES"),
            "{error}"
        );
        assert_eq!(error.advice(), memwide_store::Advice::Retry);
    }
    store.execute("INSERT INTO t VALUES (1)").await.unwrap();
    busy.abort_all();
    while busy.join_next().await.is_some() {}
    until(
        Duration::from_secs(20),
        "the reads are free again",
        || async { store.ping().await.is_ok() },
    )
    .await;
    assert_eq!(ask(&store, "SELECT count() FROM t").await, "1");
}

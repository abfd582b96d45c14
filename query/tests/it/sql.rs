//! Guarded SQL over HTTP: what it answers, what it refuses, what bounds it.

use std::time::Duration;

use memwide_query::Limits;
use memwide_store::Request;
use serde_json::json;

use crate::support::{Running, encoded, running, running_with};
use crate::truth::{HOSTILE, SAMPLES};

/// Statements that must not be answered, whoever types them.
pub(crate) const ATTACKS: &[&str] = &[
    "SELECT * FROM (SELECT count() FROM file('/etc/passwd','LineAsString') SETTINGS readonly=0)",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1:9000', system.one)",
    "SELECT * FROM s3('http://127.0.0.1/x')",
    "SELECT * FROM executable('id', 'LineAsString', 'x String')",
    "SELECT * FROM mergeTreeIndex(currentDatabase(), 'samples')",
    "SELECT * FROM merge('system', '.*')",
    "SELECT file('/etc/passwd')",
    "SELECT 1; DROP TABLE samples",
    "SELECT 1;SELECT 2",
    "DROP TABLE samples",
    "INSERT INTO samples SELECT * FROM samples",
    "ALTER TABLE samples DELETE WHERE 1",
    "SELECT 1 INTO OUTFILE '/tmp/memwide-attack'",
    "SELECT 1 SETTINGS max_execution_time = 0",
    "SELECT 1 /* x */ SETTINGS readonly=0",
    "SET readonly = 0",
    "SYSTEM SHUTDOWN",
    "KILL QUERY WHERE 1",
    "CREATE TABLE x (a Int8) ENGINE = Memory",
    "CREATE USER x",
    "GRANT ALL ON *.* TO default",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.server_settings",
    "SELECT * FROM system.stack_trace",
    "SELECT * FROM default.`/etc/passwd`",
    "SHOW PROCESSLIST",
    "SELECT 'unclosed",
    // The same at any depth, behind any disguise.
    "WITH x AS (SELECT 1 SETTINGS readonly = 0) SELECT * FROM x",
    "SELECT (SELECT count() FROM url('http://127.0.0.1:1/', 'LineAsString'))",
    "SELECT * FROM view(SELECT 1 SETTINGS readonly = 0)",
    "SELECT 1 WHERE 1 IN (SELECT toUInt8(1) FROM file('/etc/passwd', 'LineAsString'))",
    "SELECT 1 UNION ALL SELECT count() FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM/**/file/**/('/etc/passwd', 'LineAsString')",
    "SELECT * FROM file -- a comment\n('/etc/passwd', 'LineAsString')",
    "SELECT * FROM `file`('/etc/passwd', 'LineAsString')",
    "SELECT * FROM \"file\"('/etc/passwd', 'LineAsString')",
    "SELECT * FROM FiLe('/etc/passwd', 'LineAsString')",
    "SELECT * FROM file\u{a0}('/etc/passwd', 'LineAsString')",
    "SELECT 1 sEtTiNgS readonly\t=\n0",
    "EXPLAIN SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "DESCRIBE TABLE file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM fileCluster('c', '/etc/passwd', 'LineAsString')",
    "SELECT * FROM urlCluster('c', 'http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM s3Cluster('c', 'http://127.0.0.1/x')",
    "SELECT * FROM remoteSecure('127.0.0.1:9440', system.one)",
    "SELECT * FROM cluster('default', system.one)",
    "SELECT * FROM clusterAllReplicas('default', system.one)",
    "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM sqlite('/etc/passwd', 'x')",
    "SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'CSV')",
    "SELECT * FROM azureBlobStorage('x', 'y', 'z')",
    "SELECT * FROM dictionary('x')",
    "SELECT dictGet('x', 'y', 1)",
    "SELECT * FROM input('x String')",
    "SELECT * FROM system.users",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.named_collections",
    "SELECT * FROM system.dictionaries",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM samples INTO OUTFILE '/tmp/memwide-attack' FORMAT CSV",
    "INSERT INTO FUNCTION file('/tmp/memwide-attack', 'CSV') SELECT 1",
    "CREATE TEMPORARY TABLE x (a Int8)",
    "CREATE FUNCTION f AS (x) -> x",
    "CREATE DICTIONARY d (a Int8) PRIMARY KEY a SOURCE(FILE(path '/etc/passwd' format 'CSV')) LAYOUT(FLAT()) LIFETIME(1)",
    "ATTACH TABLE samples",
    "DETACH TABLE samples",
    "RENAME TABLE samples TO other",
    "TRUNCATE TABLE samples",
    "OPTIMIZE TABLE samples FINAL",
    "BACKUP TABLE samples TO File('/tmp/memwide-attack')",
    "RESTORE TABLE samples FROM File('/tmp/memwide-attack')",
    "SHOW GRANTS",
    "SHOW CREATE USER default",
    "USE system",
];

async fn post(running: &Running, query: &str) -> crate::support::Reply {
    running.sql(json!({ "query": query })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_is_answered_guarded_and_bounded() {
    let limits = Limits {
        seconds: 10,
        rows: 5_000,
        answer_bytes: 1 << 20,
        memory_bytes: 64 << 20,
        ..Limits::default()
    };
    let Some(running) = running_with(limits).await else {
        return;
    };
    answers(&running).await;
    attacks(&running).await;
    bounds(&running).await;
    running.stop().await;
}

async fn answers(running: &Running) {
    let reply = post(
        running,
        "SELECT count() AS n, max(ip) AS ip, any(host) AS host FROM samples",
    )
    .await;
    let answer = reply.json();
    assert_eq!(reply.status, 200, "{answer}");
    assert_eq!(
        answer["columns"],
        json!([
            {"name": "n", "type": "UInt64", "unit": null},
            {"name": "ip", "type": "UInt64", "unit": null},
            {"name": "host", "type": "String", "unit": null},
        ])
    );
    assert_eq!(answer["rows"][0][0], SAMPLES);
    assert_eq!(answer["rows"][0][1], format!("{:#x}", u64::MAX));
    assert!(answer["completeness"]["hosts_seen"].is_u64());

    let query = "SELECT {name:String} AS name, count() FROM samples WHERE comm = {name:String} AND period > {least:UInt64}";
    let body = json!({"query": query, "params": {"name": HOSTILE, "least": 0}});
    let rows = running.sql(body).await.json()["rows"].clone();
    assert_eq!(rows[0][0], HOSTILE);
    assert!(rows[0][1].as_u64().unwrap() > 1_000, "{rows}");

    let url = format!(
        "/api/v1/sql?query={}&format=csv&param_x=7",
        encoded("SELECT 1 AS a, {x:UInt8} AS b, 'q\"' AS c")
    );
    let reply = running.get(&url).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "\"a\",\"b\",\"c\"\n1,7,\"q\"\"\"\n")
    );
    assert!(reply.content_type.starts_with("text/csv") && reply.completeness.is_some());
    let twice = running.get(&format!("{url}&param_x=8")).await;
    assert_eq!(twice.status, 400);
    assert!(
        twice.text().contains("`x` is given more than once"),
        "{}",
        twice.text()
    );
    for (format, magic) in [("arrow", b"ARROW1".as_slice()), ("parquet", b"PAR1")] {
        let reply = running.sql(json!({"query": "SELECT host, count() AS n FROM samples GROUP BY host", "format": format})).await;
        assert!(
            reply.status == 200 && reply.body.starts_with(magic) && reply.body.ends_with(magic),
            "{}",
            reply.text()
        );
    }
    let reply = post(running, "SHOW TABLES").await;
    assert!(reply.text().contains("\"functions\""), "{}", reply.text());
}

async fn attacks(running: &Running) {
    for attack in ATTACKS {
        for reply in [
            post(running, attack).await,
            running
                .get(&format!("/api/v1/sql?query={}", encoded(attack)))
                .await,
        ] {
            let problem = reply.json();
            assert!(
                [400, 403].contains(&reply.status),
                "{attack}: {} {problem}",
                reply.status
            );
            assert_eq!(reply.content_type, "application/problem+json", "{attack}");
            for part in ["title", "detail", "remedy"] {
                assert!(
                    problem[part].as_str().is_some_and(|text| !text.is_empty()),
                    "{attack}: {part}"
                );
            }
        }
    }
    // Names come as parameters too, and are no way around.
    for name in [
        "system.processes",
        "system`.`processes",
        "samples`; DROP TABLE samples --",
        "file('/etc/passwd')",
    ] {
        let body = json!({"query": "SELECT count() FROM {t:Identifier}", "params": {"t": name}});
        let reply = running.sql(body).await;
        assert!(
            [400, 403].contains(&reply.status),
            "{name}: {}",
            reply.text()
        );
    }
    let long = format!("SELECT '{}'", "x".repeat(4 << 20));
    let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    for (huge, detail) in [(long, "at most 1048576"), (deep, "")] {
        let reply = post(running, &huge).await;
        assert!((400..500).contains(&reply.status), "{}", reply.status);
        assert!(reply.text().contains(detail), "{}", reply.text());
        assert_eq!(
            running.get("/api/v1/status").await.json()["ready"],
            true,
            "it still answers"
        );
    }
    let exact = post(
        running,
        "SELECT 1/0, -1/0, nan, toDecimal128('12345678901234567890.12', 2), toUInt256(2)",
    )
    .await
    .json();
    assert_eq!(
        exact["rows"][0],
        json!(["inf", "-inf", "nan", "12345678901234567890.12", 2])
    );
    let left = post(running, "SELECT count() FROM samples").await.json();
    assert_eq!(left["rows"], json!([[SAMPLES]]));
    assert!(!std::path::Path::new("/tmp/memwide-attack").exists());
}

async fn bounds(running: &Running) {
    let check = async |query: &str, status: u16, detail: &str| {
        let reply = post(running, query).await;
        let problem = reply.json();
        assert_eq!(reply.status, status, "{query}: {problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains(detail),
            "{query}: {problem}"
        );
        assert_ne!(problem["remedy"], "");
    };
    check(
        "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)",
        422,
        "longer than 10 s (max_execution_time)",
    )
    .await;
    check(
        "SELECT number FROM numbers(6000)",
        422,
        "5000 rows (max_result_rows)",
    )
    .await;
    check(
        "SELECT length(range(400000000))",
        422,
        "the 64 MiB a statement may have (max_memory_usage)",
    )
    .await;
    check(
        "SELECT repeat('x', 500000) FROM numbers(5)",
        422,
        "1048576 bytes",
    )
    .await;
    check("SELECT nothing FROM samples", 400, "nothing").await;
    check("SELECT 1 FROM nothing", 400, "nothing").await;
    check("SELEC 1", 403, "SELEC").await;
    check("  ", 400, "`query` is empty").await;
    let reply = running
        .sql(json!({"query": "SELECT 1", "format": "xml"}))
        .await;
    assert_eq!(
        (reply.status, reply.json()["remedy"].clone()),
        (400, json!("use one of json, csv, arrow, parquet"))
    );
    let reply = running
        .sql(json!({"query": "SELECT 1", "params": {"a-b": 1}}))
        .await;
    assert_eq!(reply.status, 400);
    let wide = json!({"query": "SELECT {x:UInt8} AS x", "params": {"x": 300}});
    let reply = running.sql(wide).await;
    let problem = reply.json();
    assert_eq!(reply.status, 400, "{problem}");
    assert_eq!(
        problem["detail"],
        "the parameter `x` is 300, and `UInt8` holds 0 to 255"
    );
    let reply = running.sql(json!({"query": "SELECT 1", "parms": {}})).await;
    assert!(
        reply.status == 400 && reply.json()["detail"].as_str().unwrap().contains("parms"),
        "{}",
        reply.text()
    );
    let plain = [("content-type", "text/plain")];
    let reply = running
        .send(
            "POST",
            "/api/v1/sql",
            &plain,
            Some("{\"query\":\"SELECT 1\"}".to_owned()),
        )
        .await;
    assert_eq!(reply.status, 415, "a foreign page could send this");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_find_room_beside_long_statements() {
    let limits = Limits {
        seconds: 10,
        at_once: 2,
        ..Limits::default()
    };
    let Some(running) = running_with(limits).await else {
        return;
    };
    let running = std::sync::Arc::new(running);
    let long = "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)";
    let asked: Vec<_> = (0..3)
        .map(|_| {
            let running = std::sync::Arc::clone(&running);
            tokio::spawn(async move { post(&running, long).await.status })
        })
        .collect();
    // While they run, one after the other, and wait.
    let answered = async || {
        let reply = running.get("/api/v1/hosts").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    answered().await;
    let is_under_way = asked.iter().any(|statement| !statement.is_finished());
    assert!(is_under_way, "the question waited for all statements");
    let mut statuses = Vec::new();
    for statement in asked {
        statuses.push(statement.await.unwrap());
    }
    statuses.sort_unstable();
    // Some ran out of their time, who waited as long found no place.
    assert!(
        statuses.contains(&422) && statuses.contains(&503),
        "{statuses:?}"
    );
    std::sync::Arc::into_inner(running).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_ends_when_its_client_leaves() {
    let Some(running) = running().await else {
        return;
    };
    let marker = "numbers(999999999999)";
    let under_way = async || {
        let sql = format!(
            "SELECT count() FROM system.processes WHERE query LIKE '%{marker}%' AND query NOT LIKE '%processes%'"
        );
        let answer = running
            .store
            .query(Request::new(sql, "TabSeparated"))
            .await
            .unwrap();
        answer.trim_ascii() == b"1"
    };
    let address = running.url.trim_start_matches("http://").to_owned();
    let query = encoded(&format!("SELECT sum(cityHash64(number)) FROM {marker}"));
    let mut client = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = format!("GET /api/v1/sql?query={query} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes())
        .await
        .unwrap();
    until("the statement runs", &under_way, true).await;
    drop(client);
    until("the statement has ended", &under_way, false).await;
    running.stop().await;
}

/// Waits until `condition` is `wanted`, for less than the statement's own limit.
async fn until(what: &str, condition: &impl AsyncFn() -> bool, wanted: bool) {
    for _ in 0..400 {
        if condition().await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain: {what}");
}

//! ClickHouse's HTTP interface: the requests of its clients by hand, and the clients themselves where they are
//! (`scripts/fetch-clients`, `MEMWIDE_CLIENTS`).

use std::path::{Path, PathBuf};
use std::process::Command;

use memwide_query::Limits;
use serde_json::{Value as Json, json};

use crate::cookbook::{COOKBOOK, statements};
use crate::sql::ATTACKS;
use crate::support::{Reply, Running, encoded, running, running_with};

/// Revision of a client of Go, which Grafana's data source uses.
const REVISION: u64 = 54_483;

async fn post(running: &Running, parameters: &str, sql: &str) -> Reply {
    let path = format!("/?{parameters}");
    running.send("POST", &path, &[], Some(sql.to_owned())).await
}

/// The texts of the columns of one row, from blocks as that client reads them: about the block, names, types, forms.
fn texts(block: &[u8]) -> Vec<String> {
    let mut rest = block
        .strip_prefix(&[1, 0, 2, 255, 255, 255, 255, 0])
        .unwrap();
    let mut take = |bytes: usize| {
        let (head, tail) = rest.split_at(bytes);
        rest = tail;
        head
    };
    let columns = take(1)[0];
    assert_eq!(take(1), [1], "one row");
    let mut values = Vec::new();
    for _ in 0..columns {
        let mut text = || {
            let length = usize::from(take(1)[0]);
            String::from_utf8(take(length).to_vec()).unwrap()
        };
        let (_, kind) = (text(), text());
        assert_eq!(take(1), [0], "no form of its own");
        values.push(match kind.as_str() {
            "String" => {
                let length = usize::from(take(1)[0]);
                String::from_utf8(take(length).to_vec()).unwrap()
            }
            "UInt32" => u32::from_le_bytes(take(4).try_into().unwrap()).to_string(),
            "UInt8" => take(1)[0].to_string(),
            other => panic!("{other}"),
        });
    }
    assert!(rest.is_empty());
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_clickhouse_clients_are_answered() {
    let limits = Limits {
        rows: 5_000,
        ..Limits::default()
    };
    let Some(running) = running_with(limits).await else {
        return;
    };
    assert_eq!(running.get("/ping").await.text(), "Ok.\n");
    assert!(running.get("/").await.content_type.starts_with("text/html"));
    grafana(&running).await;
    formats(&running).await;
    settings(&running).await;
    refusals(&running).await;
    running.stop().await;
}

/// What Grafana's data source sends over HTTP: greeting, health check, schema, and a panel whose macros are expanded.
async fn grafana(running: &Running) {
    let native =
        format!("client_protocol_version={REVISION}&database=memwide&default_format=Native");
    let hello = "SELECT displayName(), version(), revision(), timezone()";
    let reply = post(running, &native, hello).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let hello = texts(&reply.body);
    let revision: u64 = hello[2].parse().unwrap();
    assert!(
        revision >= 54_454,
        "its blocks are read by this revision: {hello:?}"
    );
    assert_eq!(hello[3], "UTC");
    let one = post(running, &native, "SELECT 1").await;
    assert_eq!(texts(&one.body), ["1"]);
    let version = post(running, &native, "SELECT version()").await;
    assert_eq!(texts(&version.body), [hello[1].clone()]);

    let rows = async |sql: &str| -> Vec<Json> {
        let reply = post(
            running,
            "database=memwide&default_format=JSONCompactEachRow",
            sql,
        )
        .await;
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        let text = reply.text();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    assert!(rows("SHOW DATABASES").await.contains(&json!(["memwide"])));
    assert!(
        rows("SHOW TABLES FROM \"memwide\"")
            .await
            .contains(&json!(["samples"]))
    );
    let of_samples = "SELECT name, type, table FROM system.columns WHERE database IN ('memwide') AND table = 'samples'";
    let columns = rows(of_samples).await;
    assert!(
        columns.iter().any(|column| column[0] == "function_id"),
        "{columns:?}"
    );
    let tables = "SELECT name FROM system.tables WHERE database = 'memwide' ORDER BY name";
    assert!(rows(tables).await.contains(&json!(["functions"])));
    assert!(
        rows("SELECT name FROM system.databases ORDER BY name")
            .await
            .contains(&json!(["memwide"]))
    );
    let functions = "SELECT name, is_aggregate, case_insensitive, alias_to, origin, description, syntax, arguments, \
                     returned_value, examples, categories FROM system.functions LIMIT 4000";
    assert!(rows(functions).await.len() > 500);
    // $__timeInterval, $__timeFilter and $__timeFilter_ms once they are expanded.
    let panel = "SELECT toStartOfInterval(toDateTime(time), INTERVAL 3600 second) AS time, sum(samples) AS n FROM functions \
                 WHERE time >= toDateTime(1763632800) AND time <= toDateTime(1795168800) GROUP BY time ORDER BY time ASC";
    let panel = rows(panel).await;
    assert!(
        !panel.is_empty() && panel.iter().all(|row| row[1] != "0"),
        "{panel:?}"
    );
    let fine = "SELECT count() FROM samples WHERE time >= fromUnixTimestamp64Milli(1763632800000) \
                AND time <= fromUnixTimestamp64Milli(1795168800000)";
    assert_ne!(rows(fine).await[0][0], "0");
    // Its row limit is a setting.
    let limited = post(
        running,
        "limit=3&default_format=TSV",
        "SELECT host FROM samples",
    )
    .await;
    assert_eq!(limited.text().lines().count(), 3);
}

async fn formats(running: &Running) {
    for (sql, says) in [
        ("SELECT 1 AS one FORMAT JSONEachRow", "{\"one\":1}\n"),
        ("SELECT 1 AS one\n FORMAT CSVWithNames;", "\"one\"\n1\n"),
        ("SELECT 1 AS one, 'a'", "1\ta\n"),
        ("SELECT {x:String}, {n:UInt64}\nFORMAT TSV", "a\\tb\t7\n"),
    ] {
        let reply = post(running, "param_x=a%5Ctb&param_n=7", sql).await;
        assert_eq!((reply.status, reply.text().as_str()), (200, says), "{sql}");
    }
    let get = running
        .get(&format!("/?query={}", encoded("SELECT 2 FORMAT TSV")))
        .await;
    assert_eq!(get.text(), "2\n");
    // The answer in ClickHouse's own packing: a checksum, then how it is packed.
    let framed = post(running, "compress=1", "SELECT 1 FORMAT Native").await;
    assert_eq!(framed.body[16], 0x82, "{:?}", framed.body);
    let form = "--B\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT {x:UInt8}\r\n\
                --B\r\nContent-Disposition: form-data; name=\"param_x\"\r\n\r\n9\r\n--B--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=B")];
    let reply = running
        .send("POST", "/", &kind, Some(form.to_owned()))
        .await;
    assert_eq!(reply.text(), "9\n");
    // A column whose data nobody here can measure is no block of garbage.
    let state = "SELECT uniqState(1) FORMAT Native";
    let reply = post(
        running,
        &format!("client_protocol_version={REVISION}"),
        state,
    )
    .await;
    assert_eq!(reply.status, 501, "{}", reply.text());
    assert!(
        reply.text().contains("AggregateFunction"),
        "{}",
        reply.text()
    );
}

async fn settings(running: &Running) {
    let many = "SELECT number FROM numbers(6000)";
    // The service's own bound of 5,000 rows stands, whatever is asked for; less is taken.
    for (setting, limit) in [
        ("max_result_rows=0", "5000"),
        ("max_result_rows=1000000", "5000"),
        ("max_result_rows=x", "5000"),
        ("max_result_rows=1000000&max_result_rows=7000", "5000"),
        ("readonly=0", "5000"),
    ] {
        let reply = post(running, setting, many).await;
        assert_eq!(reply.status, 500, "{setting}: {}", reply.text());
        assert!(
            reply.text().starts_with("Code: 396. "),
            "{setting}: {}",
            reply.text()
        );
        assert!(
            reply.text().contains(&format!("more than {limit} rows")),
            "{setting}: {}",
            reply.text()
        );
    }
    let few = post(
        running,
        "max_result_rows=10",
        "SELECT number FROM numbers(11)",
    )
    .await;
    assert!(few.text().starts_with("Code: 396. "), "{}", few.text());
    let taken = "session_id=x&session_timeout=9&send_progress_in_http_headers=1&http_headers_progress_interval_ms=10000\
                 &wait_end_of_query=1&cancel_http_readonly_queries_on_client_close=1&readonly=2&quota_key=k\
                 &date_time_input_format=best_effort&cast_string_to_dynamic_use_inference=1&role=none\
                 &output_format_json_quote_64bit_integers=0&enable_http_compression=1&query_id=q";
    let taken = taken.replace(' ', "");
    let reply = post(
        running,
        &taken,
        "SELECT toUInt64(5) AS n FORMAT JSONEachRow",
    )
    .await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "{\"n\":5}\n"));
}

async fn refusals(running: &Running) {
    for attack in ATTACKS {
        let reply = post(running, "", attack).await;
        assert_ne!(reply.status, 200, "{attack}: {}", reply.text());
        assert!(
            reply.text().starts_with("Code: "),
            "{attack}: {}",
            reply.text()
        );
    }
    for (parameters, sql, code, says) in [
        (
            "",
            "SELECT * FROM file('/etc/passwd', 'LineAsString')",
            497,
            "ACCESS_DENIED",
        ),
        (
            "",
            "SELECT 1 FORMAT Native SETTINGS readonly = 0",
            497,
            "SETTINGS",
        ),
        ("", "SELECT * FROM (SELECT 1 FORMAT TSV)", 497, "FORMAT"),
        ("", "SELECT 1 FORMAT Npy", 73, "JSONEachRow"),
        ("default_format=Template", "SELECT 1", 73, "JSONEachRow"),
        ("database=system", "SELECT 1", 81, "`system`"),
        ("allow_ddl=1", "SELECT 1", 452, "`allow_ddl`"),
        (
            "format_template_row=%2Fetc%2Fpasswd",
            "SELECT 1",
            452,
            "`format_template_row`",
        ),
        ("max_threads=1%2Creadonly%3D0", "SELECT 1", 27, "readonly"),
        ("decompress=1", "SELECT 1", 49, "plain text"),
        (
            "param_x=1&param_x=2",
            "SELECT {x:UInt8}",
            36,
            "more than once",
        ),
        ("", "SELECT nothing FROM samples", 47, "UNKNOWN_IDENTIFIER"),
        ("", "SELECT", 62, "SYNTAX_ERROR"),
        ("", "", 497, "empty"),
        (
            "",
            "INSERT INTO samples FORMAT JSONEachRow {\"batch\": 1}",
            497,
            "INSERT",
        ),
    ] {
        let reply = post(running, parameters, sql).await;
        let text = reply.text();
        assert!(
            text.starts_with(&format!("Code: {code}. DB::Exception: ")),
            "{parameters} {sql}: {text}"
        );
        assert!(
            text.contains(says) && text.contains("(version "),
            "{parameters} {sql}: {text}"
        );
    }
    let origin = [("origin", "http://127.0.0.1:1")];
    let reply = running
        .send("POST", "/", &origin, Some("SELECT 1".to_owned()))
        .await;
    assert_eq!(reply.status, 403, "{}", reply.text());
    let packed = [("content-encoding", "gzip")];
    let reply = running
        .send("POST", "/", &packed, Some("SELECT 1".to_owned()))
        .await;
    assert!(reply.text().starts_with("Code: 49. "), "{}", reply.text());
}

/// The folder of the clients; `None`, said loudly, where they are not.
fn clients() -> Option<PathBuf> {
    let folder = std::env::var_os("MEMWIDE_CLIENTS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: MEMWIDE_CLIENTS is not set; scripts/fetch-clients says to what");
    }
    folder
}

/// The line of JSON that a client prints.
fn said(command: &mut Command) -> Json {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_run_the_cookbook() {
    let Some(folder) = clients() else { return };
    let Some(running) = running().await else {
        return;
    };
    let place = running.url.trim_start_matches("http://").to_owned();
    let (host, port) = place.rsplit_once(':').unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let cookbook = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(cookbook.path(), COOKBOOK).unwrap();
    let (mut python, mut node) = (Command::new("python3"), Command::new("node"));
    python
        .arg(scripts.join("cookbook.py"))
        .args([host, port, "memwide"])
        .arg(cookbook.path())
        .env("PYTHONPATH", folder.join("python"));
    node.arg(scripts.join("cookbook.mjs"))
        .arg(&folder)
        .args([running.url.as_str(), "memwide"])
        .arg(cookbook.path());
    let (python, node) = tokio::task::spawn_blocking(move || (said(&mut python), said(&mut node)))
        .await
        .unwrap();
    for found in [&python, &node] {
        let rows = found["rows"].as_array().unwrap();
        assert_eq!(rows.len(), statements().len());
        assert!(rows.iter().all(|rows| rows.as_u64() > Some(0)), "{found}");
    }
    assert_eq!(python["rows"], node["rows"]);

    assert!(python["settings"].as_u64() > Some(100), "{python}");
    assert_eq!(python["streamed"], 69_999_u64 * 70_000 / 2);
    let typed = "[([1, None], {'a': 1.5}, {'a': 'x', 'b': 2}, IPv4Address('10.0.0.1'))]";
    assert_eq!(python["typed"], typed);
    assert_eq!(python["raw"], "{\"one\":1}\n");
    assert_eq!(python["columns"], json!(["time", "host"]));
    let refused = json!([
        [497, "ACCESS_DENIED"],
        [497, "ACCESS_DENIED"],
        [47, "UNKNOWN_IDENTIFIER"]
    ]);
    assert_eq!(python["refused"], refused);
    assert!(python["insert"].is_string(), "{python}");

    assert_eq!(
        (&node["ping"], &node["select"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        node["bound"],
        json!([{"t": "a'b\\c\td", "l": [1, 2], "n": null}])
    );
    assert_eq!(node["form"], json!([{"n": 20_000}]));
    assert_eq!(
        node["whole"],
        json!([[{"name": "one", "type": "UInt8"}], [{"one": 1}]])
    );
    assert_eq!(node["limited"], "396");
    let refused = json!([["497", "ACCESS_DENIED"], ["47", "UNKNOWN_IDENTIFIER"]]);
    assert_eq!(node["refused"], refused);
    assert_eq!(
        (&node["command"], &node["insert"]),
        (&json!("497"), &json!("497"))
    );
    running.stop().await;
}

//! Every statement of docs/cookbook.md runs as it stands there, and finds something.

use serde_json::json;

use crate::support::running;

pub(crate) const COOKBOOK: &str = include_str!("../../../docs/cookbook.md");

/// The statements between fences.
pub(crate) fn statements() -> Vec<&'static str> {
    let blocks = COOKBOOK.split("```sql\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_the_cookbook_runs_and_finds_something() {
    let Some(running) = running().await else {
        return;
    };
    let statements = statements();
    assert_eq!(statements.len(), 36);
    let params = json!({"since": "2026-11-20 10:00:00", "until": "2026-11-20 12:00:00"});
    for (at, query) in statements.iter().enumerate() {
        let reply = running.sql(json!({"query": query, "params": params})).await;
        assert_eq!(reply.status, 200, "{}: {query}\n{}", at + 1, reply.text());
        let rows = reply.json()["rows"].as_array().unwrap().len();
        assert!(rows > 0, "{}: no rows\n{query}", at + 1);
    }
    formats(&running, statements[0]).await;
    running.stop().await;
}

/// Other formats hold the same rows.
async fn formats(running: &crate::support::Running, query: &str) {
    let params = json!({"since": "2026-11-20 10:00:00", "until": "2026-11-20 12:00:00"});
    let ask = async |format: &str| {
        running
            .sql(json!({"query": query, "params": params, "format": format}))
            .await
    };
    let rows = ask("json").await.json()["rows"].as_array().unwrap().len();
    let csv = ask("csv").await;
    assert_eq!(
        csv.text().lines().next().unwrap(),
        r#""function","module","tier","event","samples""#
    );
    assert!(csv.text().lines().count() > rows);
    for (format, magic, content_type) in [
        ("arrow", &b"ARROW1"[..], "application/vnd.apache.arrow.file"),
        ("parquet", b"PAR1", "application/vnd.apache.parquet"),
    ] {
        let reply = ask(format).await;
        assert_eq!(
            (reply.status, reply.content_type.as_str()),
            (200, content_type)
        );
        assert!(
            reply.body.starts_with(magic) && reply.body.ends_with(magic),
            "{format}"
        );
        assert!(reply.completeness.is_some(), "{format}");
    }
}

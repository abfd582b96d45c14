//! The outside of HTTP: the document, problems, formats, headers, status.

use memwide_query::{ServiceState, StatusDetail};
use serde_json::{Value as Json, json};

use crate::support::{Running, running};
use crate::truth::ALL;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_as_documented() {
    let Some(running) = running().await else {
        return;
    };
    document(&running).await;
    problems(&running).await;
    formats(&running).await;
    page(&running).await;
    status(&running).await;
    running.stop().await;
}

/// Every documented path, method and parameter is taken, and nothing else is.
async fn document(running: &Running) {
    let document = running.get("/api/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), memwide_query::ask::Name::ALL.len() + 4 + 6);
    for (path, operations) in paths {
        for method in ["get", "post", "put", "delete"] {
            let documented = operations.get(method).is_some();
            let headers = [("content-type", "application/json")];
            let reply = running
                .send(&method.to_uppercase(), path, &headers, None)
                .await;
            assert_eq!(
                reply.status == 405,
                !documented,
                "{method} {path}: {}",
                reply.status
            );
        }
        let operation = &operations["get"];
        let (mut url, mut plain) = (format!("{path}?"), path.clone());
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            let value = example(name, &parameter["schema"]);
            url.extend([name, "=", &value, "&"]);
            if parameter["required"] == true {
                plain = format!("{path}?{name}={value}");
            }
        }
        let reply = running.get(&url).await;
        if path.ends_with("/export/perf-data") {
            // No sample is of all that: no recording.
            assert_eq!(reply.status, 404, "{url}: {}", reply.text());
            continue;
        }
        assert_eq!(reply.status, 200, "{url}: {}", reply.text());
        let reply = running.get(&plain).await;
        assert_eq!(reply.status, 200, "{plain}: {}", reply.text());
        if path.contains("/export/") {
            let content = operation["responses"]["200"]["content"]
                .as_object()
                .unwrap();
            assert!(content.contains_key(&reply.content_type), "{path}");
        } else {
            holds(
                &document,
                &operation["responses"]["200"]["content"]["application/json"]["schema"],
                &reply.json(),
                path,
            );
        }
        if !operation["parameters"].as_array().unwrap().is_empty() {
            let joint = if plain.contains('?') { '&' } else { '?' };
            assert_eq!(
                running
                    .get(&format!("{plain}{joint}nonsense=1"))
                    .await
                    .status,
                400,
                "{path}"
            );
        }
    }
}

/// A value that the schema of a parameter allows.
fn example(name: &str, schema: &Json) -> String {
    let schema = if schema["type"] == "array" {
        &schema["items"]
    } else {
        schema
    };
    match (name, &schema["enum"], schema["type"].as_str()) {
        ("since", ..) => "-2h".to_owned(),
        ("until", ..) => "now".to_owned(),
        ("before_since", ..) => "-6h".to_owned(),
        ("before_until", ..) => "-4h".to_owned(),
        ("before_build_id", ..) => "00ff11".to_owned(),
        ("build_id", ..) => "00ff10".to_owned(),
        ("query", ..) => "SELECT%201".to_owned(),
        (_, Json::Array(values), _) => values[0].as_str().unwrap().replace('+', "%2B"),
        (_, _, Some("integer")) => "7".to_owned(),
        (_, _, Some("boolean")) => "true".to_owned(),
        _ => "x".to_owned(),
    }
}

/// The answer has the documented members, and no others.
fn holds(document: &Json, schema: &Json, answer: &Json, path: &str) {
    let name = schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
    let Some(properties) = document["components"]["schemas"][name]["properties"].as_object() else {
        return;
    };
    let documented: Vec<&String> = properties.keys().collect();
    let answered: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(documented, answered, "{path}");
    for (member, schema) in properties {
        if schema.get("$ref").is_some() {
            holds(document, schema, &answer[member], path);
        }
    }
}

async fn problems(running: &Running) {
    let check = async |path: &str, status: u16, detail: &str, remedy: &str| {
        let reply = running.get(path).await;
        let problem = reply.json();
        assert_eq!(
            (reply.status, reply.content_type.as_str()),
            (status, "application/problem+json"),
            "{path}"
        );
        assert_eq!(problem["status"], status);
        assert!(
            problem["detail"].as_str().unwrap().contains(detail),
            "{path}: {problem}"
        );
        assert!(
            problem["remedy"].as_str().unwrap().contains(remedy),
            "{path}: {problem}"
        );
    };
    check(
        "/api/v1/functions?locality=far",
        400,
        "`locality` does not take `far`",
        "remote",
    )
    .await;
    check(
        "/api/v1/functions?hots=a",
        400,
        "does not take `hots`",
        "host",
    )
    .await;
    check("/api/v1/functions?format=xml", 400, "`format`", "csv").await;
    check(
        "/api/v1/function",
        404,
        "/api/v1/function",
        "/api/v1/functions",
    )
    .await;
    check("/nonsense", 404, "/nonsense", "/api/v1/functions").await;
    let reply = running.send("POST", "/api/v1/functions", &[], None).await;
    assert_eq!(
        (reply.status, reply.json()["remedy"].clone()),
        (405, json!("use GET"))
    );
    let foreign = [("host", "evil.example")];
    let reply = running
        .send("GET", "/api/v1/functions", &foreign, None)
        .await;
    assert_eq!(reply.status, 403, "a name that was made to lead here");
}

async fn formats(running: &Running) {
    let json = running
        .get(&format!("/api/v1/ledger?{ALL}&host=beta"))
        .await
        .json();
    let rows = json["rows"].as_array().unwrap().len();
    let csv = running
        .get(&format!("/api/v1/ledger?{ALL}&host=beta&format=csv"))
        .await;
    assert!(csv.content_type.starts_with("text/csv"));
    assert_eq!(csv.text().lines().count(), rows + 1);
    assert!(
        csv.text()
            .starts_with("host,tier,event,reason,records,seconds\r\nbeta,"),
        "{}",
        csv.text()
    );
    let header: Json = serde_json::from_str(&csv.completeness.unwrap()).unwrap();
    assert_eq!(header, json["completeness"]);
    let accept = [("accept", "text/csv")];
    let accepted = running
        .send(
            "GET",
            &format!("/api/v1/ledger?{ALL}&host=beta"),
            &accept,
            None,
        )
        .await;
    assert_eq!(accepted.body, csv.body);
    let table = running
        .get(&format!("/api/v1/ledger?{ALL}&host=beta&format=table"))
        .await;
    assert!(
        table.content_type.starts_with("text/plain") && table.text().contains("1 of 1 hosts seen"),
        "{}",
        table.text()
    );
}

async fn page(running: &Running) {
    for (path, content_type) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/question.js", "text/javascript"),
        ("/style.css", "text/css"),
    ] {
        let reply = running.get(path).await;
        assert!(
            reply.status == 200 && reply.content_type.starts_with(content_type),
            "{path}"
        );
        assert!(
            reply.policy.contains("default-src 'none'") && !reply.policy.contains("unsafe"),
            "{}",
            reply.policy
        );
        let text = reply.text();
        for sink in [
            "innerHTML",
            "insertAdjacentHTML",
            "outerHTML",
            "document.write",
            "eval(",
            "http://",
            "https://",
        ] {
            let foreign = text.replace("xmlns='http://www.w3.org/2000/svg'", "");
            assert!(!foreign.contains(sink), "{path} has {sink}");
        }
    }
    for (path, says) in [
        ("/healthz", "ok"),
        ("/metrics", "query_answered_requests_total"),
    ] {
        let reply = running.get(path).await;
        assert!(
            reply.status == 200 && reply.text().contains(says),
            "{path}: {}",
            reply.text()
        );
    }
}

async fn status(running: &Running) {
    let service = ServiceState {
        name: "sink".into(),
        state: "running".into(),
        detail: String::new(),
    };
    running.status.send_replace(StatusDetail {
        ingest_address: "127.0.0.1:1".into(),
        services: vec![service],
        collects: vec!["minor-faults in tier software".into()],
    });
    let status = running.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["ready"], &status["ingest_address"]),
        (&json!(true), &json!("127.0.0.1:1"))
    );
    assert_eq!(
        status["services"],
        json!([{"name": "sink", "state": "running", "detail": ""}])
    );
    assert_eq!(
        status["store"],
        json!({"reachable": true, "rows": true, "problem": null})
    );
    running.stores.send_replace(None);
    let status = running.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["ready"], &status["store"]["reachable"]),
        (&json!(false), &json!(false))
    );
    let reply = running.get("/api/v1/functions").await;
    assert_eq!(
        (reply.status, reply.json()["title"].clone()),
        (503, json!("the store is not ready"))
    );
}

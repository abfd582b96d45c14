//! Standing rules fire when a column is beyond its threshold by more than noise, and tell a webhook.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use memwide_query::{Limits, Rule, Rules};
use serde_json::Value as Json;

use crate::support::running_by;
use crate::truth::{ALL, BEGIN};

/// Requests that the webhook does not take: as many as one telling tries.
const REFUSED: u32 = 3;

/// Answers requests, and gives the body of each but the first ones, which it refuses.
fn webhook() -> (String, mpsc::Receiver<Json>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (send, receive) = mpsc::sync_channel(8);
    std::thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4_096];
            let body = loop {
                let n = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..n]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
                if let Some(body) = body.and_then(|body| serde_json::from_str(&body).ok()) {
                    break body;
                }
                assert!(n > 0, "the request ended early: {text}");
            };
            if number < REFUSED {
                let answer = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n";
                stream.write_all(answer).unwrap();
                continue;
            }
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
            if send.send(body).is_err() {
                return;
            }
        }
    });
    (url, receive)
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_fire_beyond_noise_and_tell_a_webhook() {
    let (url, told) = webhook();
    let shares = format!("functions?{ALL}&event=mem-stores");
    let rule = |name: &str, question: &str, column: &str, above: f64| Rule {
        name: name.to_owned(),
        question: question.to_owned(),
        column: column.to_owned(),
        above: Some(above),
        beyond_noise: true,
        every_seconds: 1,
        ..Rule::default()
    };
    // Each of four functions has a quarter of the stores.
    let rules = vec![
        Rule {
            webhook: url,
            ..rule("a-fifth", &shares, "share", 0.15)
        },
        rule("a-half", &shares, "share", 0.5),
        rule("no-interval", &shares, "hosts", 2.0),
        rule("nobody", &format!("{shares}&host=nobody"), "share", 0.5),
        rule(
            "nothing-changed",
            &format!("diff?{ALL}&host=alpha&before_host=beta"),
            "change",
            0.0,
        ),
        Rule {
            name: "statement".to_owned(),
            sql: format!(
                "SELECT host, count() AS n FROM samples WHERE time < toDateTime({}) GROUP BY host",
                BEGIN + 7_200
            ),
            column: "n".to_owned(),
            above: Some(10.0),
            every_seconds: 1,
            ..Rule::default()
        },
        Rule {
            name: "wrong".to_owned(),
            sql: "SELECT nothing FROM samples".to_owned(),
            every_seconds: 1,
            ..Rule::default()
        },
    ];
    let now_ns = u64::from(BEGIN) * 1_000_000_000;
    let Some(running) = running_by(Limits::default(), Rules::new(rules, now_ns).unwrap()).await
    else {
        return;
    };
    let body = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_mins(1)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&body["name"], &body["state"]),
        (&"a-fifth".into(), &"firing".into()),
        "{body}"
    );
    assert_eq!(body["rows"].as_array().unwrap().len(), 4, "{body}");
    let until = Instant::now() + Duration::from_mins(1);
    let states = loop {
        let answer = running.get("/api/v1/rules").await.json();
        let rules = answer["rules"].as_array().unwrap().clone();
        if rules.iter().all(|rule| rule["state"] != "unasked") || Instant::now() > until {
            break rules;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let state = |name: &str| {
        let rule = states.iter().find(|rule| rule["name"] == name).unwrap();
        (
            rule["state"].as_str().unwrap(),
            rule["problem"].as_str().unwrap(),
        )
    };
    assert_eq!(state("a-half"), ("quiet", ""));
    assert_eq!(state("nothing-changed"), ("quiet", ""));
    assert_eq!(state("statement"), ("firing", ""));
    let (failed, why) = state("no-interval");
    assert!(
        failed == "failed" && why.contains("has no interval"),
        "{why}"
    );
    let (failed, why) = state("nobody");
    assert!(
        failed == "failed" && why.contains("nothing was judged"),
        "{why}"
    );
    let (failed, why) = state("wrong");
    assert!(
        failed == "failed" && why.contains("no such column"),
        "{why}"
    );
    let metrics = running.get("/metrics").await.text();
    for line in [
        "query_standing_queries{state=\"firing\"} 2",
        "query_standing_queries{state=\"quiet\"} 2",
        "query_standing_queries{state=\"failed\"} 3",
        "query_webhook_requests_total{outcome=\"failed\"} 1",
        "query_webhook_requests_total{outcome=\"taken\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    running.stop().await;
}

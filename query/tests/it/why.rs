//! Lists of values, values nobody knows, and answers without rows: what is said of them.

use serde_json::Value as Json;

use crate::support::{Running, encoded, running};
use crate::truth::{ALL, HOSTILE, rows};

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_lists_and_what_is_missing_is_told_with_what_is_near() {
    let Some(running) = running().await else {
        return;
    };
    lists(&running).await;
    unknown(&running).await;
    empty(&running).await;
    running.stop().await;
}

async fn notes(running: &Running, question: &str) -> String {
    let answer = running.get(&format!("/api/v1/{question}")).await.json();
    assert!(answer["rows"].is_array(), "{answer}");
    answer["notes"].to_string()
}

fn samples(records: &[Json]) -> u64 {
    let of = records.iter();
    of.map(|record| record["samples"].as_u64().unwrap()).sum()
}

async fn lists(running: &Running) {
    let two = rows().filter(|row| row.host != "gamma").count() as u64;
    for list in [
        "host=alpha,beta",
        "host=alpha&host=beta",
        "host=%20alpha,,beta,alpha",
    ] {
        for question in ["functions", "breakdown", "latency", "kernel"] {
            let url = format!("/api/v1/{question}?{ALL}&{list}&limit=1000");
            let found = running.get(&url).await.records();
            if question == "latency" {
                assert!(!found.is_empty(), "{list}");
            } else {
                assert_eq!(samples(&found), two, "{question} {list}");
            }
        }
        let hosts = running
            .get(&format!("/api/v1/hosts?{ALL}&{list}"))
            .await
            .records();
        assert_eq!(hosts.len(), 2, "{list}");
    }
    let in_pods = rows().filter(|row| row.workload_id != 0).count() as u64;
    let url = format!("/api/v1/functions?{ALL}&pod=cart-1,cart-2&namespace=shop,none&limit=1000");
    assert_eq!(samples(&running.get(&url).await.records()), in_pods);
    // Names of functions, events and commands have commas.
    let name = encoded("void fill<int>(char*, int)");
    let found = running
        .get(&format!("/api/v1/functions?{ALL}&function={name}"))
        .await
        .records();
    assert_eq!(found.len(), 3, "of three events");
    let found = running
        .get(&format!(
            "/api/v1/functions?{ALL}&event=mem-loads,ldlat=30&comm={}",
            encoded(HOSTILE)
        ))
        .await
        .records();
    assert!(!found.is_empty());
}

async fn unknown(running: &Running) {
    let said = notes(running, &format!("functions?{ALL}&host=alpha,bata")).await;
    assert!(
        said.contains("no host `bata` is known; near it: `beta`"),
        "{said}"
    );
    let said = notes(running, &format!("numa?{ALL}&host=Alpha")).await;
    assert!(
        said.contains("no host `Alpha` is known; near it: `alpha`"),
        "{said}"
    );
    let said = notes(running, &format!("functions?{ALL}&function=lokup")).await;
    assert!(
        said.contains("no function `lokup` is known; near it: `lookup`"),
        "{said}"
    );
    let said = notes(
        running,
        &format!("functions?{ALL}&event=mem-loads,mem-stores"),
    )
    .await;
    assert!(
        said.contains(
            "no event `mem-loads,mem-stores` is known; near it: `mem-stores`; a comma is part"
        ),
        "{said}"
    );
    let said = notes(running, &format!("functions?{ALL}&pod=cart-1,card-2")).await;
    assert!(
        said.contains("no pod `card-2` is known; near it: `cart-"),
        "{said}"
    );
    let said = notes(running, &format!("rss?{ALL}&host=zeta")).await;
    assert!(said.contains("no host `zeta` is known"), "{said}");
    let fine = notes(
        running,
        &format!("functions?{ALL}&host=alpha,beta&pod=cart-1"),
    )
    .await;
    assert!(!fine.contains("is known"), "{fine}");
}

async fn empty(running: &Running) {
    let before = "since=2026-11-18T10:00:00Z&until=2026-11-18T11:00:00Z";
    let said = notes(running, &format!("functions?{before}&host=alpha")).await;
    assert!(
        said.contains("no sample is from 2026-11-18T10:00:00Z to 2026-11-18T11:00:00Z; there are some from 2026-11-20T10:00:00Z until before 2026-11-20T12:00:00Z"),
        "{said}"
    );
    let days = "since=2026-11-17T00:00:00Z&until=2026-11-18T00:00:00Z";
    let said = notes(running, &format!("functions?{days}")).await;
    assert!(said.contains("there are some from 2026-11-20T10"), "{said}");
    let said = notes(running, &format!("functions?{ALL}&tier=event")).await;
    assert!(
        said.contains("of the 3000 samples in this range none has tier `event`; there are tiers precise, software, events mem-loads,ldlat=30, mem-stores, minor-faults"),
        "{said}"
    );
    let said = notes(running, &format!("functions?{ALL}&tier=software&op=store")).await;
    assert!(said.contains("none passes all filters: "), "{said}");
    let said = notes(running, &format!("latency?{ALL}&event=minor-faults")).await;
    assert!(
        said.contains("samples of this range pass the filters, of tiers software and events minor-faults; none has a measured latency"),
        "{said}"
    );
    let wrong = running
        .get(&format!("/api/v1/functions?{ALL}&limit=-1"))
        .await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong
            .text()
            .contains("`-1` is no number of rows from 1 to 10000"),
        "{}",
        wrong.text()
    );
}

//! `pressure`, `rss` and `counters` equal sums and levels reckoned here from the same readings.

use memwide_store::rows::{Pressure, PressureRow, TableRows};
use serde_json::{Value as Json, json};

use crate::support::running;
use crate::truth::{ALL, BEGIN, WORKLOADS, put};

/// Changes of 1, 2, 3 … µs over seconds, and a level that falls.
fn reading(i: i64, metric: &'static str, workload_id: u64) -> PressureRow<'static> {
    let is_level = metric == "level";
    PressureRow {
        time: (i64::from(BEGIN) + i) * 1_000_000_000,
        host: "alpha",
        workload_id,
        pid: 0,
        comm: "",
        metric,
        mode: "",
        value: if is_level { 100.0 - i as f64 } else { i as f64 },
        unit: if is_level { "bytes" } else { "us" },
        interval_ns: if is_level { 0 } else { 1_000_000_000 },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_become_rates_and_levels_stay_levels() {
    let Some(running) = running().await else {
        return;
    };
    let mut rows = Pressure::default();
    for i in 1..=10 {
        rows.push(&reading(i, "stall", 0));
        rows.push(&reading(i, "stall", WORKLOADS[0].0));
        rows.push(&reading(i, "level", 0));
    }
    for block in rows.finish() {
        put(&running.store, &block, "readings").await;
    }
    let found = running
        .get(&format!("/api/v1/pressure?{ALL}"))
        .await
        .records();
    assert_eq!(found.len(), 3);
    let of = |metric: &str, pod: &str| -> Json {
        let is_it = |row: &&Json| row["metric"] == metric && row["pod"] == pod;
        found.iter().find(is_it).unwrap().clone()
    };
    for pod in ["", WORKLOADS[0].1] {
        let stall = of("stall", pod);
        assert_eq!(
            (
                &stall["change"],
                &stall["seconds"],
                &stall["rate"],
                &stall["readings"]
            ),
            (&json!(55.0), &json!(10.0), &json!(5.5), &json!(10)),
            "{stall}"
        );
        assert_eq!(
            (&stall["last"], &stall["unit"]),
            (&Json::Null, &json!("us"))
        );
    }
    let level = of("level", "");
    assert_eq!(
        (
            &level["last"],
            &level["least"],
            &level["most"],
            &level["rate"]
        ),
        (&json!(90.0), &json!(90.0), &json!(99.0), &Json::Null),
        "{level}"
    );
    let one = running
        .get(&format!("/api/v1/pressure?{ALL}&metric=level&host=alpha"))
        .await
        .records();
    assert_eq!(one, [level]);
    let of_pod = running
        .get(&format!("/api/v1/pressure?{ALL}&pod={}", WORKLOADS[0].1))
        .await
        .records();
    assert_eq!(of_pod.len(), 1);
    for question in ["rss", "counters"] {
        assert!(
            running
                .get(&format!("/api/v1/{question}?{ALL}"))
                .await
                .records()
                .is_empty()
        );
    }
    running.stop().await;
}

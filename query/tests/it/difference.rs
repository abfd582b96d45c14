//! `diff` equals shares counted here from the same samples.

use std::collections::BTreeSet;

use serde_json::json;

use crate::count::{Sample, close, count_for, counts_for, grouped, key_of, share_of};
use crate::support::{Running, running};
use crate::truth::{ALL, function, rows};

#[tokio::test(flavor = "multi_thread")]
async fn differences_equal_shares_of_the_same_samples() {
    let Some(running) = running().await else {
        return;
    };
    let all: Vec<Sample> = rows().collect();
    let of = |host: &str| -> Vec<Sample> {
        all.iter().copied().filter(|row| row.host == host).collect()
    };
    check(
        &running,
        &format!("diff?{ALL}&host=alpha&before_host=beta"),
        &of("beta"),
        &of("alpha"),
    )
    .await;
    let hour = |at: i64| -> Vec<Sample> {
        let begin = i64::from(crate::truth::BEGIN) + at * 3_600;
        let within = |row: &&Sample| (begin..begin + 3_600).contains(&(row.time / 1_000_000_000));
        all.iter().filter(within).copied().collect()
    };
    let range = "since=2026-11-20T11:00:00Z&until=2026-11-20T12:00:00Z";
    check(&running, &format!("diff?{range}"), &hour(0), &hour(1)).await;
    // Two parts of hours, one behind the other: no sample is on both sides.
    let minutes = |from: i64, until: i64| -> Vec<Sample> {
        let begin = i64::from(crate::truth::BEGIN);
        let of = begin + from * 60..begin + until * 60;
        let within = |row: &&Sample| of.contains(&(row.time / 1_000_000_000));
        all.iter().filter(within).copied().collect()
    };
    let range = "since=2026-11-20T10:50:00Z&until=2026-11-20T11:40:00Z&before_since=2026-11-20T10:00:00Z&before_until=2026-11-20T10:50:00Z";
    let (before, after) = (minutes(0, 50), minutes(50, 100));
    check(&running, &format!("diff?{range}"), &before, &after).await;
    let same = running
        .get(&format!("/api/v1/diff?{ALL}&host=alpha&before_host=alpha"))
        .await;
    assert_eq!(same.status, 400);
    assert!(same.text().contains("before_build_id"), "{}", same.text());
    // A side without any sample: nothing can be told, and nothing is called changed.
    let reply = running
        .get(&format!(
            "/api/v1/diff?{ALL}&before_since=2026-11-18T10:00:00Z&before_until=2026-11-18T12:00:00Z"
        ))
        .await;
    assert!(
        reply
            .records()
            .iter()
            .all(|record| record["changed"] == "cannot tell")
    );
    running.stop().await;
}

async fn check(running: &Running, question: &str, before: &[Sample], after: &[Sample]) {
    let key = |row: &Sample| vec![function(row).to_owned(), row.event.to_owned()];
    let sides = [grouped(before, key), grouped(after, key)];
    let keys: BTreeSet<_> = sides.iter().flat_map(|side| side.keys()).collect();
    let reply = running.get(&format!("/api/v1/{question}")).await;
    let found = reply.records();
    assert_eq!(found.len(), keys.len(), "{}", reply.text());
    let mut last = f64::INFINITY;
    for record in &found {
        let what = record.to_string();
        let key = key_of(record, &["function", "event"]);
        let mut shares = [0.0; 2];
        let mut variance = 0.0;
        for (at, (side, name)) in sides.iter().zip(["before", "after"]).enumerate() {
            let samples = side.get(&key).map_or(0, Vec::len);
            let of_event = side.iter().filter(|(other, _)| other[1] == key[1]);
            let whole: f64 = of_event.map(|(_, rows)| count_for(rows)).sum();
            shares[at] = side.get(&key).map_or(0.0, count_for) / whole;
            let deviates = |(own, row): (bool, &Sample)| {
                (counts_for(row) * (f64::from(u8::from(own)) - shares[at]) / whole).powi(2)
            };
            let rows = side.iter().filter(|(other, _)| other[1] == key[1]);
            let rows = rows.flat_map(|(other, rows)| rows.iter().map(|row| (*other == key, row)));
            variance += rows.map(deviates).sum::<f64>();
            assert_eq!(record[format!("samples_{name}")], samples, "{what}");
            close(&record[format!("share_{name}")], &json!(shares[at]), &what);
        }
        assert_eq!(record["share_of"], share_of(&record["event"]), "{what}");
        let change = shares[1] - shares[0];
        close(&record["change"], &json!(change), &what);
        assert!(
            change.abs() <= last + 1e-12,
            "the largest change comes first"
        );
        last = change.abs();
        // Fewer than eight host-hours a side: the noise is that of the samples.
        assert_eq!(record["ci_basis"], "sampling_only", "{what}");
        let half = 1.959_963_985 * variance.sqrt();
        close(&record["change_low"], &json!(change - half), &what);
        close(&record["change_high"], &json!(change + half), &what);
        // The samples are picked at random: nothing changed.
        assert_eq!(record["changed"], "no", "{what}");
        assert!(record["p_value"].as_f64().unwrap() > 0.001, "{what}");
    }
}

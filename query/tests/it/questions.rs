//! Answers equal sums made here from the same rows.

use std::collections::BTreeMap;

use memwide_model::{LatencyKind, Locality, Snoop, Tier};
use memwide_store::rows::SampleRow;
use serde_json::{Value as Json, json};

use crate::count::{counts_for, share_of};
use crate::support::{Running, encoded, running};
use crate::truth::{self, ALL, FUNCTIONS, HOSTILE, HOSTS, PART, SAMPLES, function, rows};

/// Sums of samples by a key.
#[derive(Debug, Default, Clone, PartialEq)]
struct Summed {
    samples: u64,
    weight: f64,
    latency_cycles: f64,
    est_events: f64,
    n_hitm: u64,
    n_hitm_rmt: u64,
    n_page_known: u64,
    n_blocked: u64,
    /// What shares are of.
    counts_for: f64,
    hosts: Vec<&'static str>,
}

type Key = Vec<String>;

fn summed(
    wanted: impl Fn(&SampleRow<'static>) -> bool,
    key: impl Fn(&SampleRow<'static>) -> Key,
) -> BTreeMap<Key, Summed> {
    let mut all: BTreeMap<Key, Summed> = BTreeMap::new();
    for row in rows().filter(|row| wanted(row)) {
        let sums = all.entry(key(&row)).or_default();
        sums.samples += 1;
        sums.weight += f64::from(row.weight);
        sums.latency_cycles += f64::from(row.weight) * row.period as f64;
        sums.est_events += row.period as f64;
        sums.counts_for += counts_for(&row);
        sums.n_hitm += u64::from(row.snoop == Snoop::HitM);
        sums.n_hitm_rmt +=
            u64::from(row.snoop == Snoop::HitM && row.hw_locality == Locality::Remote);
        sums.n_page_known += u64::from(row.page_locality != Locality::Unknown);
        sums.n_blocked += u64::from(row.blocked.code() > 1);
        if !sums.hosts.contains(&row.host) {
            sums.hosts.push(row.host);
        }
    }
    all
}

/// Asks and compares every row: `columns` name the key.
async fn check(
    running: &Running,
    question: &str,
    table: &str,
    columns: &[&str],
    expected: &BTreeMap<Key, Summed>,
) {
    check_of(running, question, table, columns, (expected, expected)).await;
}

/// The same; shares are of `whole`.
async fn check_of(
    running: &Running,
    question: &str,
    table: &str,
    columns: &[&str],
    (expected, whole): (&BTreeMap<Key, Summed>, &BTreeMap<Key, Summed>),
) {
    let reply = running.get(&format!("/api/v1/{question}")).await;
    assert_eq!(
        reply.json()["source_table"],
        table,
        "{question}: {}",
        reply.text()
    );
    let records = reply.records();
    assert_eq!(records.len(), expected.len(), "{question}");
    for record in &records {
        let key: Key = columns
            .iter()
            .map(|column| record[*column].as_str().unwrap().to_owned())
            .collect();
        let sums = expected
            .get(&key)
            .unwrap_or_else(|| panic!("{question}: {key:?} was not expected"));
        let of_group: f64 = whole
            .iter()
            .filter(|(other, _)| {
                columns
                    .iter()
                    .zip(other.iter().zip(&key))
                    .all(|(column, (a, b))| !["tier", "event"].contains(column) || a == b)
            })
            .map(|(_, sums)| sums.counts_for)
            .sum();
        let share = record["share"].as_f64().unwrap();
        assert!(
            (share - sums.counts_for / of_group).abs() < 1e-9,
            "{question}: {key:?} {share}"
        );
        assert_eq!(record["share_of"], share_of(&record["event"]), "{question}");
        let expected = json!({
            "samples": sums.samples,
            "n_hitm": sums.n_hitm,
            "n_hitm_rmt": sums.n_hitm_rmt,
            "n_page_known": sums.n_page_known,
            "n_blocked": sums.n_blocked,
            "hosts": sums.hosts.len(),
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&record[name], value, "{question}: {key:?} {name}");
        }
        let real = |name: &str, expected: f64| {
            if let Some(value) = record.get(name) {
                assert_eq!(value.as_f64(), Some(expected), "{question}: {key:?} {name}");
            }
        };
        real("weight", sums.weight);
        real("latency_cycles", sums.latency_cycles);
        // Intel's load latency samples randomly tagged loads: the sum of its periods estimates nothing.
        if record["event"] == "mem-loads,ldlat=30" {
            assert_eq!(
                (&record["est_events"], &record["est_unit"]),
                (&Json::Null, &json!("")),
                "{question}: {key:?}"
            );
        } else {
            real("est_events", sums.est_events);
            assert_eq!(record["est_unit"], "events", "{question}: {key:?}");
        }
    }
}

const FUNCTION_KEY: &[&str] = &["function", "tier", "event"];

fn function_key(row: &SampleRow<'static>) -> Key {
    vec![
        function(row).to_owned(),
        row.tier.name().to_owned(),
        row.event.to_owned(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_the_sums_of_their_samples() {
    let Some(running) = running().await else {
        return;
    };
    let all = summed(|_| true, function_key);
    check(
        &running,
        &format!("functions?{ALL}"),
        "fleet_1h",
        FUNCTION_KEY,
        &all,
    )
    .await;
    // `comm` is no key of fleet_1h; both values together are all samples.
    let comms = format!("comm=main&comm={}", encoded(HOSTILE));
    check(
        &running,
        &format!("functions?{ALL}&{comms}"),
        "functions",
        FUNCTION_KEY,
        &all,
    )
    .await;
    let (from, until) = (
        1_795_168_800_000_000_000 + 300_500_000_000,
        1_795_168_800_000_000_000 + 2_700_250_000_000,
    );
    let part = summed(|row| (from..until).contains(&row.time), function_key);
    assert!(part.values().map(|sums| sums.samples).sum::<u64>() > 900);
    check(
        &running,
        &format!("functions?{PART}"),
        "samples",
        FUNCTION_KEY,
        &part,
    )
    .await;
    one_filter_at_a_time(&running).await;
    breakdowns(&running).await;
    locality_with_its_basis(&running).await;
    the_rest(&running).await;
    running.stop().await;
}

async fn one_filter_at_a_time(running: &Running) {
    let shop = |pod: &str| {
        truth::WORKLOADS
            .iter()
            .find(|(_, name)| *name == pod)
            .unwrap()
            .0
    };
    let cart_1 = shop("cart-1");
    let on_beta = summed(|row| row.host == "beta", function_key);
    check(
        running,
        &format!("functions?{ALL}&host=beta"),
        "functions",
        FUNCTION_KEY,
        &on_beta,
    )
    .await;
    let in_pod = summed(|row| row.workload_id == cart_1, function_key);
    check(
        running,
        &format!("functions?{ALL}&pod=cart-1"),
        "functions",
        FUNCTION_KEY,
        &in_pod,
    )
    .await;
    check(
        running,
        &format!("functions?{PART}&pod=none"),
        "samples",
        FUNCTION_KEY,
        &BTreeMap::new(),
    )
    .await;
    let hitm = summed(|row| row.snoop == Snoop::HitM, function_key);
    check(
        running,
        &format!("functions?{ALL}&snoop=hitm"),
        "samples",
        FUNCTION_KEY,
        &hitm,
    )
    .await;
    let stores = summed(|row| row.op.name() == "store", function_key);
    check(
        running,
        &format!("functions?{ALL}&op=store"),
        "fleet_1h",
        FUNCTION_KEY,
        &stores,
    )
    .await;
    // The share of one function is that among all.
    let whole = summed(|_| true, function_key);
    for (_, name) in FUNCTIONS {
        let one = summed(|row| function(row) == *name, function_key);
        let name = encoded(name);
        for (further, table) in [
            ("", "fleet_1h"),
            ("&context=user,syscall", "functions"),
            ("&snoop=unknown,none,miss,hit,peer,fwd,hitm", "samples"),
        ] {
            check_of(
                running,
                &format!("functions?{ALL}{further}&function={name}"),
                table,
                FUNCTION_KEY,
                (&one, &whole),
            )
            .await;
        }
    }
    let with_build = summed(|row| row.function_id != 4, function_key);
    check(
        running,
        &format!("functions?{ALL}&build_id=00FF10"),
        "fleet_1h",
        FUNCTION_KEY,
        &with_build,
    )
    .await;
    let key = |row: &SampleRow<'static>| {
        let mut key = function_key(row);
        key.push(row.host.to_owned());
        key
    };
    let columns = ["function", "tier", "event", "host"];
    check(
        running,
        &format!("functions?{ALL}&per_host=true"),
        "functions",
        &columns,
        &summed(|_| true, key),
    )
    .await;
}

async fn breakdowns(running: &Running) {
    let key = |row: &SampleRow<'static>| {
        let names = [
            row.tier.name(),
            row.event,
            row.level.name(),
            row.outcome.name(),
        ];
        names.map(str::to_owned).to_vec()
    };
    let columns = ["tier", "event", "level", "outcome"];
    let levels = summed(|_| true, key);
    assert_eq!(
        levels.values().map(|sums| sums.samples).sum::<u64>(),
        SAMPLES
    );
    check(
        running,
        &format!("breakdown?{ALL}&by=level"),
        "mix_1m",
        &columns,
        &levels,
    )
    .await;
    let lookup = summed(|row| row.function_id == 1, key);
    check(
        running,
        &format!("breakdown?{ALL}&by=level&function=lookup"),
        "functions",
        &columns,
        &lookup,
    )
    .await;
    check(
        running,
        &format!(
            "breakdown?{ALL}&by=level&function=lookup&snoop=unknown,none,miss,hit,peer,fwd,hitm"
        ),
        "samples",
        &columns,
        &lookup,
    )
    .await;
    let key = |row: &SampleRow<'static>| {
        vec![
            row.tier.name().to_owned(),
            row.event.to_owned(),
            row.snoop.name().to_owned(),
        ]
    };
    check(
        running,
        &format!("breakdown?{ALL}&by=snoop"),
        "samples",
        &["tier", "event", "snoop"],
        &summed(|_| true, key),
    )
    .await;
    let key = |row: &SampleRow<'static>| {
        let pod = truth::WORKLOADS
            .iter()
            .find(|(id, _)| *id == row.workload_id)
            .map_or("", |(_, pod)| pod);
        vec![
            row.tier.name().to_owned(),
            row.event.to_owned(),
            row.host.to_owned(),
            pod.to_owned(),
        ]
    };
    let columns = ["tier", "event", "host", "pod"];
    let pods = summed(|_| true, key);
    check(
        running,
        &format!("breakdown?{ALL}&by=host,workload"),
        "mix_1m",
        &columns,
        &pods,
    )
    .await;
    check(
        running,
        &format!("breakdown?{ALL}&by=host&by=workload&comm=main"),
        "functions",
        &columns,
        &summed(|row| row.comm == "main", key),
    )
    .await;
}

async fn locality_with_its_basis(running: &Running) {
    let key = |row: &SampleRow<'static>| {
        let mut key = function_key(row);
        key.push(row.locality_basis.name().to_owned());
        key
    };
    let columns = ["function", "tier", "event", "locality_basis"];
    let remote = summed(|row| row.locality == Locality::Remote, key);
    check(
        running,
        &format!("functions?{ALL}&locality=remote"),
        "fleet_1h",
        &columns,
        &remote,
    )
    .await;
    let unknown = summed(|row| row.locality == Locality::Unknown, key);
    check(
        running,
        &format!("functions?{ALL}&locality=unknown"),
        "fleet_1h",
        &columns,
        &unknown,
    )
    .await;
}

/// Order, cuts, tiers, completeness: what is not a sum.
async fn the_rest(running: &Running) {
    let reply = running
        .get(&format!(
            "/api/v1/functions?{ALL}&by=latency_cycles&limit=2"
        ))
        .await;
    let (answer, records) = (reply.json(), reply.records());
    let latency: Vec<f64> = records
        .iter()
        .map(|record| record["latency_cycles"].as_f64().unwrap())
        .collect();
    assert!(
        latency.len() == 2 && latency[0] >= latency[1] && latency[1] > 0.0,
        "{latency:?}"
    );
    assert_eq!(records[0]["latency_kind"], LatencyKind::Use.name());
    let notes = answer["notes"].to_string();
    for said in [
        "`use` is load latency",
        "latency_cycles where est_events is null",
    ] {
        assert!(notes.contains(said), "{notes}");
    }
    assert!(notes.contains("cut after 2 rows"), "{notes}");

    let reply = running
        .get(&format!(
            "/api/v1/functions?{ALL}&by=est_events&function=lookup"
        ))
        .await;
    let (answer, records) = (reply.json(), reply.records());
    assert_eq!(
        records.last().unwrap()["est_events"],
        Json::Null,
        "nulls come last"
    );
    assert!(
        answer["notes"].to_string().contains("not to be added up"),
        "{}",
        answer["notes"]
    );
    let tiers: Vec<&Json> = records.iter().map(|record| &record["tier"]).collect();
    assert!(
        tiers.contains(&&json!("precise")) && tiers.contains(&&json!("software")),
        "{tiers:?}"
    );

    let complete = &answer["completeness"];
    let of_tier = |tier: Tier| rows().filter(|row| row.tier == tier).count();
    assert_eq!(
        *complete,
        json!({
            "since": "2026-11-20T10:00:00Z",
            "until": "2026-11-20T12:00:00Z",
            "samples_in_range": SAMPLES,
            "stopped_seconds": 0.0,
            "stopped_cpu_seconds": 0.0,
            "hosts_seen": 3,
            "hosts_expected": 5,
            "samples_stored": SAMPLES - 5,
            "samples_named": SAMPLES - 12,
            "samples_produced": SAMPLES + 100,
            "tiers": [
                {"tier": "precise", "samples": of_tier(Tier::Precise) - 5},
                {"tier": "software", "samples": of_tier(Tier::Software)},
            ],
            "blind_seconds": 1.5,
            "missing": {"gap": 90, "lost": 7, "refused": 5, "residue": 9, "undecodable": 10},
        })
    );
    let of_beta = running
        .get(&format!("/api/v1/breakdown?{ALL}&host=beta"))
        .await
        .json();
    let beta = rows().filter(|row| row.host == "beta").count();
    assert_eq!(of_beta["completeness"]["hosts_expected"], 1);
    assert_eq!(of_beta["completeness"]["samples_stored"], beta);
    assert_eq!(of_beta["completeness"]["samples_produced"], beta);
    assert_eq!(of_beta["completeness"]["blind_seconds"], 1.5);
    hosts_and_ledger(running).await;
}

async fn hosts_and_ledger(running: &Running) {
    let records = running.get(&format!("/api/v1/hosts?{ALL}")).await.records();
    let names: Vec<&str> = records
        .iter()
        .map(|record| record["host"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["alpha", "beta", "facts-only", "gamma", "idle", "imported"]
    );
    let alpha = &records[0];
    let produced = rows().filter(|row| row.host == "alpha").count() + 100;
    // 90 given up, 10 undecodable, 5 refused by the store after they had been counted as stored.
    let stored = produced - 105;
    assert_eq!(alpha["samples_stored"], stored);
    assert_eq!(alpha["samples_produced"], produced);
    let complete = alpha["completeness"].as_f64().unwrap();
    assert!((complete - stored as f64 / produced as f64).abs() < 1e-12);
    assert_eq!(alpha["samples_named"], stored - 7);
    let resolved = alpha["resolved"].as_f64().unwrap();
    let off = resolved - (stored - 7) as f64 / stored as f64;
    assert!(off.abs() < 1e-12, "{resolved}");
    assert_eq!(
        (&alpha["lost"], &alpha["residue"]),
        (&json!(112), &json!(9))
    );
    assert_eq!(
        records[3]["tiers"], "precise software",
        "a host without facts has the tiers it sent"
    );
    assert_eq!(alpha["os_release"], "6.18", "the newest facts");
    assert_eq!(
        (&alpha["tiers"], &alpha["cpus"]),
        (&json!("precise software"), &json!(8))
    );
    assert_eq!(alpha["last_seen"], "2026-11-20T11:59:00Z");
    assert_eq!(records[1]["blind_seconds"], 1.5);
    assert_eq!(
        records[2]["last_seen"], "2026-11-20T09:00:00Z",
        "known by its facts alone"
    );
    assert_eq!(
        (&records[4]["completeness"], &records[4]["last_seen"]),
        (&Json::Null, &json!("2026-11-20T08:00:00Z"))
    );
    let precise = running
        .get(&format!(
            "/api/v1/hosts?{ALL}&tier=precise&host=alpha&host=beta"
        ))
        .await
        .records();
    assert_eq!(precise.len(), 2, "beta has no facts, but precise samples");

    let ledger = running
        .get(&format!("/api/v1/ledger?{ALL}&host=alpha&limit=100"))
        .await
        .records();
    let line = |event: &str, reason: &str| {
        let found = ledger
            .iter()
            .find(|line| line["event"] == event && line["reason"] == reason);
        found.map_or(Json::Null, |line| line["records"].clone())
    };
    for (_, event, ..) in truth::EVENTS {
        let count = rows()
            .filter(|row| row.host == "alpha" && row.event == *event)
            .count();
        assert_eq!(line(event, "stored"), json!(count), "{event}");
    }
    assert_eq!(line("mem-loads,ldlat=30", "gap"), 90);
    assert!(ledger.iter().all(|line| line["host"] == "alpha"));
    assert_eq!(HOSTS.len(), 3);
}

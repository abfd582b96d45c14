//! `numa` equals counts made here from the same samples.

use std::collections::{BTreeMap, BTreeSet};

use memwide_model::{Locality, Op};
use serde_json::{Value as Json, json};

use crate::count::{Key, Sample, close, count_for, counts_for, grouped, key_of, mean, share_of};
use crate::support::{Reply, Running, running};
use crate::truth::{ALL, BEGIN, DATA, HOSTS, PART, function, rows};

/// Node of the CPU: known on the host with facts alone.
fn cpu_node(row: &Sample) -> Option<u64> {
    (row.host == "alpha").then_some(u64::from(row.cpu / 4))
}

fn page_node(row: &Sample) -> Option<u64> {
    (row.page_node != 255).then_some(row.page_node.into())
}

fn is_remote(row: &Sample) -> bool {
    row.locality == Locality::Remote
}

fn known(node: Option<u64>) -> String {
    node.map_or("null".to_owned(), |node| node.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn numa_equals_counts_of_the_same_samples() {
    let Some(running) = running().await else {
        return;
    };
    let all: Vec<Sample> = rows().collect();
    let begin = i64::from(BEGIN) * 1_000_000_000;
    let part =
        |row: &&Sample| (begin + 300_500_000_000..begin + 2_700_250_000_000).contains(&row.time);
    check(&running, &format!("numa?{ALL}"), "fleet_1h", &all).await;
    let of: Vec<Sample> = all
        .iter()
        .copied()
        .filter(|row| row.host == "alpha")
        .collect();
    check(
        &running,
        &format!("numa?{ALL}&host=alpha"),
        "functions",
        &of,
    )
    .await;
    let of: Vec<Sample> = all.iter().filter(part).copied().collect();
    check(&running, &format!("numa?{PART}"), "samples", &of).await;
    let of: Vec<Sample> = all
        .iter()
        .copied()
        .filter(|row| row.op == Op::Store)
        .collect();
    check(&running, &format!("numa?{ALL}&op=store"), "fleet_1h", &of).await;
    nothing(&running).await;
    patterns(&running).await;
    running.stop().await;
}

async fn check(running: &Running, question: &str, table: &str, samples: &[Sample]) {
    let reply = running.get(&format!("/api/v1/{question}")).await;
    assert_eq!(reply.json()["source_table"], table, "{}", reply.text());
    functions(&reply, samples);
    latency(&reply, samples);
    places(&reply, samples);
    nodes(&reply, samples);
    data(&reply, samples, &rows().collect::<Vec<_>>());
    evidence(&reply, samples);
}

const OF: [&str; 2] = ["function", "event"];

fn of(row: &Sample) -> Key {
    vec![function(row).to_owned(), row.event.to_owned()]
}

fn functions(reply: &Reply, samples: &[Sample]) {
    let names = [
        "function",
        "tier",
        "event",
        "latency_kind",
        "locality_basis",
    ];
    let key = |row: &Sample| {
        let mut key = of(row);
        key.insert(1, row.tier.name().to_owned());
        key.extend([row.latency_kind.name(), row.locality_basis.name()].map(str::to_owned));
        key
    };
    let mut expected = grouped(samples, key);
    expected.retain(|_, rows| rows.iter().any(is_remote));
    let records = reply.records();
    assert_eq!(records.len(), expected.len());
    let of_event = |event: &Json| {
        let of = samples.iter();
        count_for(of.filter(|row| is_remote(row) && event == row.event))
    };
    for record in &records {
        let rows = &expected[&key_of(record, &names)];
        let remote: Vec<&Sample> = rows.iter().filter(|row| is_remote(row)).collect();
        let local: Vec<&Sample> = rows
            .iter()
            .filter(|row| row.locality == Locality::Local)
            .collect();
        let hosts: BTreeSet<&str> = remote.iter().map(|row| row.host).collect();
        let what = record.to_string();
        assert_eq!(record["samples"], remote.len(), "{what}");
        assert_eq!(record["local_samples"], local.len(), "{what}");
        assert_eq!(record["hosts"], hosts.len(), "{what}");
        let [far, near] = [&remote, &local].map(|rows| count_for(rows.iter().copied()));
        let share = json!(far / of_event(&record["event"]));
        close(&record["share"], &share, &what);
        assert_eq!(record["share_of"], share_of(&record["event"]), "{what}");
        close(&record["remote_ratio"], &json!(far / (far + near)), &what);
        close(&record["mean_remote_latency"], &mean(&remote), &what);
        close(&record["mean_local_latency"], &mean(&local), &what);
        let period = remote.iter().map(|row| row.period as f64).sum::<f64>();
        let counted = record["event"] != "mem-loads,ldlat=30";
        close(
            &record["est_events"],
            &if counted { json!(period) } else { Json::Null },
            &what,
        );
        interval(record, &remote, samples);
    }
}

/// Fewer than eight host-hours: the interval is that of the samples, and says so.
fn interval(record: &Json, of_row: &[&Sample], samples: &[Sample]) {
    let of: Vec<&Sample> = samples
        .iter()
        .filter(|row| is_remote(row) && record["event"] == row.event)
        .collect();
    let clusters: BTreeSet<(&str, i64)> = of
        .iter()
        .map(|row| (row.host, row.time / 3_600_000_000_000))
        .collect();
    assert_eq!(record["clusters"], clusters.len(), "{record}");
    assert_eq!(record["ci_basis"], "sampling_only");
    // As many samples of equal size as give the same variance.
    let whole = count_for(of.iter().copied());
    let share = count_for(of_row.iter().copied()) / whole;
    let deviates = |row: &&Sample| {
        let is_of = of_row.iter().any(|other| other.time == row.time);
        (counts_for(row) * (f64::from(u8::from(is_of)) - share) / whole).powi(2)
    };
    let variance: f64 = of.iter().map(deviates).sum();
    let (n, z2) = (share * (1.0 - share) / variance, 1.959_964_f64.powi(2));
    let middle = (share + z2 / 2.0 / n) / (1.0 + z2 / n);
    let half = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
    for (name, expected) in [("share_low", middle - half), ("share_high", middle + half)] {
        let found = record[name].as_f64().unwrap();
        assert!(
            (found - expected.clamp(0.0, 1.0)).abs() < 1e-6,
            "{record}: {expected}"
        );
    }
}

fn latency(reply: &Reply, samples: &[Sample]) {
    let shown: BTreeSet<&str> = samples
        .iter()
        .filter(|row| is_remote(row))
        .map(function)
        .collect();
    let expected = grouped(
        samples.iter().filter(|row| shown.contains(function(row))),
        |row| {
            let mut key = of(row);
            key.extend(
                [row.level.name(), row.outcome.name(), row.locality.name()].map(str::to_owned),
            );
            key
        },
    );
    let names = [OF.as_slice(), &["level", "outcome", "locality"]].concat();
    let records = reply.part("latency");
    assert_eq!(records.len(), expected.len());
    for record in &records {
        let rows = &expected[&key_of(record, &names)];
        assert_eq!(record["samples"], rows.len());
        close(
            &record["mean_latency"],
            &mean(&rows.iter().collect::<Vec<_>>()),
            &record.to_string(),
        );
    }
}

fn places(reply: &Reply, samples: &[Sample]) {
    let pod = |row: &Sample| {
        crate::truth::WORKLOADS
            .iter()
            .find(|(id, _)| *id == row.workload_id)
            .map_or("", |(_, pod)| pod)
    };
    let expected = grouped(samples.iter().filter(|row| is_remote(row)), |row| {
        let mut key = of(row);
        key.extend([row.host, pod(row)].map(str::to_owned));
        key
    });
    let names = [OF.as_slice(), &["host", "pod"]].concat();
    let records = reply.part("places");
    assert!(records.len() == expected.len() || expected.len() > 10 * HOSTS.len());
    for record in &records {
        let rows = &expected[&key_of(record, &names)];
        assert_eq!(record["samples"], rows.len(), "{record}");
        let key = key_of(record, &OF);
        let of_all = samples.iter();
        let whole = count_for(of_all.filter(|row| is_remote(row) && of(row) == key));
        let share = json!(count_for(rows) / whole);
        close(&record["share"], &share, &record.to_string());
    }
}

fn nodes(reply: &Reply, samples: &[Sample]) {
    let shown: BTreeSet<&str> = samples
        .iter()
        .filter(|row| is_remote(row))
        .map(function)
        .collect();
    let expected = grouped(
        samples.iter().filter(|row| shown.contains(function(row))),
        |row| {
            let mut key = of(row);
            key.extend([known(cpu_node(row)), known(page_node(row))]);
            key
        },
    );
    let names = [OF.as_slice(), &["cpu_node", "page_node"]].concat();
    let records = reply.part("nodes");
    assert_eq!(records.len(), expected.len());
    for record in &records {
        let rows = &expected[&key_of(record, &names)];
        assert_eq!(record["samples"], rows.len(), "{record}");
        assert_eq!(
            record["remote_samples"],
            rows.iter().filter(|row| is_remote(row)).count()
        );
        assert_eq!(
            record["stall_cycles"],
            Json::Null,
            "no retire latency was sampled"
        );
    }
}

/// `of_all`: what the question's range and hosts hold, of any function, event and operation.
fn data(reply: &Reply, samples: &[Sample], of_all: &[Sample]) {
    let name = |row: &Sample| {
        DATA.iter()
            .find(|data| data.id == row.data_id)
            .unwrap()
            .name
    };
    let expected = grouped(samples.iter().filter(|row| is_remote(row)), |row| {
        let mut key = of(row);
        key.extend([row.region.name(), name(row)].map(str::to_owned));
        key
    });
    let names = [OF.as_slice(), &["region", "data_symbol"]].concat();
    let records = reply.part("data");
    assert_eq!(records.len(), expected.len());
    for record in &records {
        let rows = &expected[&key_of(record, &names)];
        assert_eq!(record["samples"], rows.len(), "{record}");
        let key = key_of(record, &OF);
        let of_all_data = samples.iter();
        let whole = count_for(of_all_data.filter(|row| is_remote(row) && of(row) == key));
        let share = json!(count_for(rows) / whole);
        close(&record["share"], &share, &record.to_string());
        let pages: BTreeSet<(&str, u32, u64)> = rows
            .iter()
            .map(|row| (row.host, row.pid, row.addr >> 12))
            .collect();
        assert_eq!(record["pages"], pages.len(), "{record}");
        if rows[0].data_id == 0 {
            assert_eq!(record["samples_of_all"], Json::Null);
        } else if samples.len() == of_all.len() {
            let same: Vec<&Sample> = of_all
                .iter()
                .filter(|row| row.data_id == rows[0].data_id)
                .collect();
            assert_eq!(record["samples_of_all"], same.len());
            assert_eq!(
                record["stores_of_all"],
                same.iter().filter(|row| row.op == Op::Store).count()
            );
        }
    }
}

/// Samples of the most frequent value within each process, summed.
fn most(rows: &[&Sample], of: impl Fn(&Sample) -> Option<u64>) -> usize {
    let mut counts: BTreeMap<(&str, u32), BTreeMap<Option<u64>, usize>> = BTreeMap::new();
    for row in rows {
        *counts
            .entry((row.host, row.pid))
            .or_default()
            .entry(of(row))
            .or_default() += 1;
    }
    counts.values().map(|of| of.values().max().unwrap()).sum()
}

fn evidence(reply: &Reply, samples: &[Sample]) {
    let placed = |row: &&Sample| cpu_node(row).is_some() && page_node(row).is_some();
    let expected = grouped(samples.iter().filter(placed), of);
    let records = reply.part("advice");
    assert!(!records.is_empty(), "{}", reply.json()["notes"]);
    for record in &records {
        let rows = &expected[&key_of(record, &OF)];
        let remote: Vec<&Sample> = rows.iter().filter(|row| is_remote(row)).collect();
        assert_eq!(record["known_samples"], remote.len(), "{record}");
        let processes: BTreeSet<(&str, u32)> =
            remote.iter().map(|row| (row.host, row.pid)).collect();
        assert_eq!(record["processes"], processes.len());
        let is_its = |row: &&Sample| processes.contains(&(row.host, row.pid));
        let of_all: Vec<&Sample> = rows.iter().filter(is_its).collect();
        assert_eq!(record["known_of_all"], of_all.len(), "{record}");
        assert_eq!(
            record["on_one_page_node"],
            most(&remote, page_node),
            "{record}"
        );
        assert_eq!(
            record["from_one_cpu_node"],
            most(&of_all, cpu_node),
            "{record}"
        );
        let page = |row: &Sample| (row.host, row.pid, row.addr >> 12);
        let mut users: BTreeMap<_, (usize, BTreeSet<Option<u64>>)> = BTreeMap::new();
        for row in rows {
            let page = users.entry(page(row)).or_default();
            page.0 += 1;
            page.1.insert(cpu_node(row));
        }
        let again: Vec<&&Sample> = remote
            .iter()
            .filter(|row| users[&page(row)].0 > 1)
            .collect();
        assert_eq!(record["on_pages_met_again"], again.len());
        let single = again
            .iter()
            .filter(|row| users[&page(row)].1.len() == 1)
            .count();
        assert_eq!(record["on_pages_of_one_cpu_node"], single, "{record}");
        // Random nodes are no pattern: nothing is advised that would claim a gain.
        assert_eq!(record["gain_at_most"], Json::Null, "{record}");
    }
    let notes = reply.json()["notes"].to_string();
    assert!(notes.contains("no cost figure on this PMU"), "{notes}");
}

async fn nothing(running: &Running) {
    let reply = running
        .get(&format!("/api/v1/numa?{ALL}&tier=software"))
        .await;
    assert_eq!(reply.records(), Vec::<Json>::new());
    let answer = reply.json();
    assert_eq!(answer["parts"], json!([]), "nothing to detail");
    assert!(
        answer["notes"].to_string().contains("reached another node"),
        "{}",
        answer["notes"]
    );
    let reply = running.get("/api/v1/numa?locality=local").await;
    assert_eq!(reply.status, 400, "it is about remote accesses");
}

/// Samples of an hour of their own: `lookup` runs on node 0 on memory of node 1; pages of `fill` have one user each, half of
/// them on node 1, and all lie on node 0; pages of the third have users on both.
fn pattern(i: u64) -> Sample {
    let which = i % 3;
    let (node, page) = match which {
        0 => (0, i % 7),
        1 => (i / 3 % 2, 100 + i / 3 % 2 + 2 * (i % 5)),
        _ => (i / 3 % 2, 200 + i % 5),
    };
    let home = u64::from(which == 0);
    let is_remote = node != home;
    let locality = if is_remote {
        Locality::Remote
    } else {
        Locality::Local
    };
    let (event_id, event, tier, latency_kind, _) = crate::truth::EVENTS[0];
    Sample {
        time: (i64::from(BEGIN) + 7_200) * 1_000_000_000
            + i64::try_from(i).unwrap() * 1_000_000_000,
        host: "alpha",
        event_id,
        event,
        tier,
        latency_kind,
        function_id: 1 + which,
        cpu: u16::try_from(node * 4 + i % 4).unwrap(),
        pid: 10,
        addr: 0x7000_0000_0000 + (page << 12) + i % 64 * 8,
        page_node: u8::try_from(home).unwrap(),
        weight: if is_remote { 600 } else { 200 },
        op: Op::Load,
        level: memwide_model::Level::Ram,
        outcome: memwide_model::Outcome::Hit,
        locality,
        hw_locality: locality,
        locality_basis: memwide_model::LocalityBasis::Hw,
        data_id: DATA[2].id,
        region: DATA[2].region,
        ..crate::truth::sample(i)
    }
}

async fn patterns(running: &Running) {
    let samples: Vec<Sample> = (0..1_200).map(pattern).collect();
    crate::truth::insert_samples(&running.store, samples.iter().copied(), "patterns").await;
    let reply = running
        .get("/api/v1/numa?since=2026-11-20T12:00:00Z&until=2026-11-20T13:00:00Z")
        .await;
    functions(&reply, &samples);
    evidence_of_patterns(&reply);
}

fn evidence_of_patterns(reply: &Reply) {
    let advice = reply.part("advice");
    let of = |name: &str| advice.iter().find(|row| row["function"] == name).unwrap();
    let bind = of("lookup");
    assert_eq!(bind["advice"], "bind", "{bind}");
    // All of its accesses are remote: nothing of its own to compare with.
    assert_eq!(bind["gain_at_most"], Json::Null, "{bind}");
    assert!(
        bind["because"]
            .as_str()
            .unwrap()
            .contains("100 % (400 of 400)"),
        "{bind}"
    );
    let first_touch = of(crate::truth::FUNCTIONS[1].1);
    assert_eq!(
        first_touch["advice"], "first touch by the user",
        "{first_touch}"
    );
    // 200 remote ones of 600 cycles beside 200 local ones of 200: at most 400 of 800 would go.
    let gain = first_touch["gain_at_most"].as_f64().unwrap();
    assert!((gain - 0.5).abs() < 1e-9, "{first_touch}");
    assert!(
        first_touch["gain_basis"]
            .as_str()
            .unwrap()
            .contains("200 remote samples against the means of 200 local ones")
    );
    let shared = of(crate::truth::HOSTILE);
    assert_eq!(shared["advice"], "interleave", "{shared}");
    assert_eq!(
        shared["gain_at_most"],
        Json::Null,
        "it makes no access local"
    );
}

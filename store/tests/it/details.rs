//! Tables that are summed from `samples` at a close, against sums of the same samples made here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memwide_model::{Locality, Op, Snoop, Suspect, Tier};
use memwide_store::Store;
use memwide_store::rows::{
    CloseRow, Closes, ClosesOfDetails, ClosesOfDetailsRow, SampleRow, Samples, Sums, TableRows,
};
use memwide_store::schema::{close_details, close_functions_1h};

use crate::support::{ask, engine};
use crate::support_rows::{insert, now, sample};

/// All samples of `closed`.
const ALL: Range<u64> = 0..4_000;

/// Samples of which lines and pages are used again.
fn dense(i: u64) -> SampleRow<'static> {
    SampleRow {
        addr: 0x7000 + i * 24 % 40_000,
        ..sample(i)
    }
}

async fn put(store: &Store, range: Range<u64>, part: u16, ingested: u32) {
    let mut rows = Samples::default();
    range.clone().for_each(|i| rows.push(&dense(i)));
    let token = format!("{range:?}");
    insert(store, &rows.finish(), part, ingested, &token)
        .await
        .unwrap();
}

/// One close as a sink does it, twice, as after a death.
async fn close(store: &Store, part: u16, after: u32, through: u32) {
    let token = format!("close/{part}/{through}");
    for _ in 0..2 {
        let sql = close_functions_1h(part, after, through);
        store.insert_select(&sql, &token).await.unwrap();
        for (_, sql) in close_details(part, after, through) {
            store.insert_select(&sql, &token).await.unwrap();
        }
    }
    let (mut closes, mut details) = (Closes::default(), ClosesOfDetails::default());
    closes.push(&CloseRow {
        part,
        closed_through: through,
    });
    details.push(&ClosesOfDetailsRow {
        part,
        closed_through: through,
    });
    for rows in [closes.finish(), details.finish()] {
        insert(store, &rows, 0, 0, &token).await.unwrap();
    }
}

/// Two partitions and three closes.
async fn closed(store: &Store) {
    let now = now();
    put(store, 0..2_000, 0, now + 10).await;
    put(store, 2_000..3_000, 1, now + 10).await;
    close(store, 0, 0, now + 15).await;
    put(store, 3_000..4_000, 0, now + 20).await;
    close(store, 0, now + 15, now + 20).await;
    close(store, 1, 0, now + 30).await;
}

/// Rows and two sums by key.
type Keyed = BTreeMap<String, (u64, u64, u64)>;

/// What a statement answers, whose last three columns are sums.
async fn keyed(store: &Store, sql: &str) -> Keyed {
    let answer = ask(store, sql).await;
    let row = |line: &str| {
        let mut cells: Vec<&str> = line.split('\t').collect();
        let sums = cells.split_off(cells.len() - 3);
        let sum = |i: usize| sums[i].parse::<u64>().unwrap();
        (cells.join(" "), (sum(0), sum(1), sum(2)))
    };
    answer.lines().map(row).collect()
}

/// The same of samples: how many, their periods, weight × period.
fn expected(range: Range<u64>, key: impl Fn(&SampleRow<'_>) -> Option<String>) -> Keyed {
    let mut found = Keyed::new();
    for row in range.map(dense) {
        let Some(key) = key(&row) else { continue };
        let sums = found.entry(key).or_default();
        sums.0 += 1;
        sums.1 += row.period;
        sums.2 += row.period * u64::from(row.weight);
    }
    found
}

/// All sums of a table, in the order of its columns.
async fn totals(store: &Store, table: &str) -> String {
    let names = "n sum_p sum_pp sum_w sum_wp sum_wpwp n_stlb_walk n_locked n_blocked n_hitm n_hitm_rmt n_fwd n_peer \
         n_page_remote n_page_known";
    let summed: Vec<String> = names
        .split_whitespace()
        .map(|name| format!("sum({name})"))
        .collect();
    ask(store, &format!("SELECT {} FROM {table}", summed.join(", "))).await
}

fn totals_of(only: impl Fn(&SampleRow<'_>) -> bool) -> String {
    let mut sums = Sums::default();
    let rows = ALL.map(dense).filter(only);
    rows.for_each(|row| sums.add(&row));
    let m = sums.moments;
    let floats = [m.p, m.pp, m.w, m.wp, m.wpwp].map(|sum| sum.to_string());
    let counts = [
        sums.n_stlb_walk,
        sums.n_locked,
        sums.n_blocked,
        sums.n_hitm,
        sums.n_hitm_rmt,
        sums.n_fwd,
        sums.n_peer,
        sums.n_page_remote,
        sums.n_page_known,
    ];
    let counts = counts.map(|sum| sum.to_string());
    format!("{}\t{}\t{}", m.n, floats.join("\t"), counts.join("\t"))
}

/// Host, process and line.
fn place(row: &SampleRow<'_>) -> (String, u32, u64) {
    (row.host.to_owned(), row.pid, row.addr & !63)
}

fn of_line(row: &SampleRow<'_>) -> bool {
    row.tier == Tier::Precise
        && (matches!(row.op, Op::Load | Op::Store | Op::LoadStore) || row.locked != 0)
}

#[tokio::test]
async fn every_table_of_a_close_has_the_sums_of_the_samples() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    closed(&store).await;
    let tables = [
        ("fleet_1d", totals_of(|_| true)),
        ("sites_1h", totals_of(|_| true)),
        ("data_1h", totals_of(|_| true)),
        ("pages_1h", totals_of(|_| true)),
        ("lines_1m", totals_of(of_line)),
    ];
    for merged in [false, true] {
        for (table, expected) in &tables {
            if merged {
                let merge = format!("OPTIMIZE TABLE {table} FINAL");
                store.execute(&merge).await.unwrap();
            }
            let found = totals(&store, table).await;
            assert_eq!(found, *expected, "{table}, merged: {merged}");
        }
    }
}

#[tokio::test]
async fn keys_of_closed_tables_are_those_of_the_samples() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    closed(&store).await;
    let found = async |keys: &str, table: &str| {
        let sums = "sum(n), toUInt64(sum(sum_p)), toUInt64(sum(sum_wp))";
        let sql = format!("SELECT {keys}, {sums} FROM {table} GROUP BY {keys}");
        keyed(&store, &sql).await
    };
    assert_eq!(
        found("location_id, function_id, level", "sites_1h").await,
        expected(ALL, |row| {
            let (location, function) = (row.location_id, row.function_id);
            Some(format!("{location} {function} {}", row.level))
        })
    );
    assert_eq!(
        found("toUnixTimestamp(time), function_id, locality", "fleet_1d").await,
        expected(ALL, |row| {
            let day = row.time / 86_400_000_000_000 * 86_400;
            Some(format!("{day} {} {}", row.function_id, row.locality))
        })
    );
    let hosts = ask(&store, "SELECT uniqMerge(hosts) FROM fleet_1d").await;
    assert_eq!(hosts, "3");
    assert_eq!(
        found("data_id, host, workload_id, function_id", "data_1h").await,
        expected(ALL, |row| {
            let (data, host, workload) = (row.data_id, row.host, row.workload_id);
            Some(format!("{data} {host} {workload} {}", row.function_id))
        })
    );
    let sql = "SELECT kind, toUnixTimestamp(time), pid, comm, sum(n), toUInt64(sum(faults)), 0 FROM faults_1m \
         GROUP BY kind, time, pid, comm";
    let mut wanted = expected(ALL, |row| {
        let minute = row.time / 60_000_000_000 * 60;
        let of = format!("minor {minute} {} {}", row.pid, row.comm);
        (row.event == "minor-faults").then_some(of)
    });
    for sums in wanted.values_mut() {
        sums.2 = 0;
    }
    assert_eq!(keyed(&store, sql).await, wanted);
}

#[tokio::test]
async fn latencies_lie_in_their_buckets_and_none_is_left_out() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    closed(&store).await;
    let sql = "SELECT bucket, latency_kind, sum(n), toUInt64(sum(sum_p)), toUInt64(sum(sum_w)) FROM latency_1h GROUP BY 1, 2";
    let mut wanted = Keyed::new();
    for row in ALL.map(dense) {
        // The largest b with 2^b <= weight^4, in whole numbers.
        let bucket = u128::from(row.weight).pow(4).checked_ilog2();
        let bucket = bucket.map_or(-1, i64::from);
        let key = format!("{bucket} {}", row.latency_kind);
        let sums = wanted.entry(key).or_default();
        sums.0 += 1;
        sums.1 += row.period;
        sums.2 += u64::from(row.weight);
    }
    assert_eq!(keyed(&store, sql).await, wanted);
    let saturated = ALL
        .map(dense)
        .filter(|row| row.suspect == Suspect::Saturated)
        .count();
    let sql = "SELECT sum(n_saturated) FROM latency_1h";
    assert_eq!(ask(&store, sql).await, saturated.to_string());
}

#[tokio::test]
async fn lines_are_those_that_are_shared_and_the_rest_is_exact() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    closed(&store).await;
    let mut wanted = Keyed::new();
    // Each close by itself.
    for range in [0..2_000, 2_000..3_000, 3_000..4_000] {
        let (mut answered, mut written) = (BTreeSet::new(), BTreeSet::new());
        let mut cpus: BTreeMap<_, BTreeSet<u16>> = BTreeMap::new();
        for row in range.clone().map(dense).filter(of_line) {
            if matches!(row.snoop, Snoop::HitM | Snoop::Fwd | Snoop::Peer) {
                answered.insert(place(&row));
            }
            if matches!(row.op, Op::Store | Op::LoadStore) || row.locked != 0 {
                written.insert(place(&row));
            }
            cpus.entry(place(&row)).or_default().insert(row.cpu);
        }
        let of_close = expected(range, |row| {
            let place = of_line(row).then(|| place(row))?;
            let shared = written.contains(&place) && cpus[&place].len() > 1;
            let (host, pid, line) = &place;
            Some(if shared || answered.contains(&place) {
                format!("{host} {pid} {line} {}", row.addr & 63)
            } else {
                format!("{host} 0 0 0")
            })
        });
        for (key, sums) in of_close {
            let all = wanted.entry(key).or_default();
            *all = (all.0 + sums.0, all.1 + sums.1, all.2 + sums.2);
        }
    }
    assert!(wanted.contains_key("host-a 0 0 0") && wanted.len() > 100);
    let sql = "SELECT host, pid, line, offset, sum(n), toUInt64(sum(sum_p)), toUInt64(sum(sum_wp)) FROM lines_1m \
         GROUP BY 1, 2, 3, 4";
    assert_eq!(keyed(&store, sql).await, wanted);
}

#[tokio::test]
async fn pages_beyond_the_first_thousand_are_the_rest_and_nothing_is_lost() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let now = now();
    let mut rows = Samples::default();
    // 1500 pages of one host, hour and event, of which 1000 have two samples.
    for i in 0..2_500 {
        rows.push(&SampleRow {
            time: sample(0).time,
            host: "host-a",
            pid: 7,
            event_id: 1,
            event: "mem-loads",
            addr: 0x10_0000 + i % 1_500 * 4_096 + i % 64,
            page_shift: 0,
            page_locality: Locality::Remote,
            ..sample(i)
        });
    }
    insert(&store, &rows.finish(), 0, now, "p").await.unwrap();
    close(&store, 0, 0, now).await;
    let sql = "SELECT page = 0, pid, uniqExact(page), sum(n), sum(n_page_remote), min(length(cpus)) > 0 FROM pages_1h \
         GROUP BY 1, 2 ORDER BY 1";
    assert_eq!(
        ask(&store, sql).await,
        "0\t7\t1000\t2000\t2000\t1\n1\t0\t1\t500\t500\t0"
    );
}

#[tokio::test]
async fn views_of_closed_tables_are_exact_before_and_after_a_close() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let now = now();
    put(&store, 0..1_000, 0, now + 10).await;
    let looks = async |count: u64| {
        let rows = (0..count).map(dense);
        let faults = rows.filter(|row| row.event == "minor-faults").count();
        for (view, count) in [
            ("sites", count),
            ("latency", count),
            ("data", count),
            ("faults", faults as u64),
        ] {
            let found = ask(&store, &format!("SELECT sum(samples) FROM {view}")).await;
            assert_eq!(found, count.to_string(), "{view} of {count}");
        }
    };
    looks(1_000).await;
    // What is not in the named views, and what questions of days read.
    let more = "SELECT * FROM (SELECT 'a', sum(n_measured), uniqMerge(hosts), sum(n) FROM sites_1h_all UNION ALL \
         SELECT 'b', sum(n_measured), 0, sum(n) FROM data_1h_all UNION ALL \
         SELECT 'c', sum(n_addr), uniqExactMerge(pages), sum(n) FROM faults_1m_all UNION ALL \
         SELECT 'd', 0, uniqMerge(hosts), sum(n) FROM fleet_1d_all UNION ALL \
         SELECT 'e', 0, 0, sum(n) FROM latency_1h_all) ORDER BY 1";
    let before = ask(&store, more).await;
    let pages = (0..1_000)
        .map(dense)
        .filter(|row| row.event == "minor-faults");
    let pages: BTreeSet<_> = pages
        .map(|row| (row.host, row.pid, row.addr >> 12))
        .collect();
    let measured = (0..1_000).map(dense).filter(|row| row.weight > 0).count();
    assert_eq!(
        before,
        format!(
            "a\t{measured}\t3\t1000\nb\t{measured}\t0\t1000\nc\t500\t{}\t500\nd\t0\t3\t1000\ne\t0\t0\t1000",
            pages.len()
        )
    );
    for (_, sql) in close_details(0, 0, now + 10) {
        store.insert_select(&sql, "broken off").await.unwrap();
    }
    looks(1_000).await; // summed, not published
    assert_eq!(ask(&store, more).await, before);
    for table in ["sites_1h", "latency_1h", "data_1h", "faults_1m", "fleet_1d"] {
        let empty = format!("TRUNCATE TABLE {table}");
        store.execute(&empty).await.unwrap();
    }
    close(&store, 0, 0, now + 20).await;
    looks(1_000).await;
    assert_eq!(ask(&store, more).await, before);
    put(&store, 1_000..1_500, 0, now + 30).await;
    looks(1_500).await;
}

//! Allocations and time off the CPU, closed from samples: against sums of the same samples made here, whatever is closed.

use std::collections::BTreeMap;

use memwide_store::Store;
use memwide_store::rows::{ClosesOfCalls, ClosesOfCallsRow, SampleRow, Samples, TableRows};
use memwide_store::schema::close_calls;

use crate::support::{ask, engine};
use crate::support_rows::{NEW_YEAR, insert, now, sample};

const HOSTS: [&str; 2] = ["host-a", "host-b"];
const CPUS: u64 = 3;
const THREADS: u64 = 5;

/// The switches of two hosts, in order of time: threads take turns on CPUs, the idle one (0) among them, which is not seen to
/// leave CPU 1.
fn switches(count: u64) -> Vec<SampleRow<'static>> {
    let mut state = 42_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut on = BTreeMap::new();
    let mut rows = Vec::new();
    for i in 0..count {
        let host = random(2);
        let cpu = random(CPUS);
        let leaves = on.get(&(host, cpu)).copied().unwrap_or(0);
        let tid = u32::try_from(leaves).unwrap();
        rows.push(SampleRow {
            time: i64::from(NEW_YEAR) * 1_000_000_000
                + i64::try_from(i * 40_000_000 + random(1_000)).unwrap(),
            host: HOSTS[usize::try_from(host).unwrap()],
            cpu: u16::try_from(cpu).unwrap(),
            tid,
            pid: tid / 2,
            comm: ["even", "odd"][usize::try_from(leaves % 2).unwrap()],
            event: "sched:sched_switch",
            event_id: 9,
            period: 1,
            stack_id: 1 + random(3),
            ..sample(i)
        });
        // Who comes is on no other CPU of the host.
        let free = (0..=THREADS).filter(|thread| {
            *thread == 0 || !on.iter().any(|((of, _), tid)| *of == host && tid == thread)
        });
        let free: Vec<u64> = free.collect();
        let comes = free[usize::try_from(random(free.len() as u64)).unwrap()];
        on.insert((host, cpu), comes);
    }
    rows.retain(|row| (row.cpu, row.tid) != (1, 0));
    rows
}

/// Times left, spells, nanoseconds in them and the longest, by minute, host, thread and callchain.
type Off = BTreeMap<(i64, String, u32, u64), (u64, u64, u64, u64)>;

fn expected(rows: &[SampleRow<'_>]) -> Off {
    let mut off = Off::new();
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.tid != 0) {
        let minute = row.time / 60_000_000_000 * 60;
        let key = (minute, row.host.to_owned(), row.tid, row.stack_id);
        let sums = off.entry(key).or_default();
        sums.0 += 1;
        let of_host = |other: &&SampleRow<'_>| other.host == row.host;
        let next = rows[i + 1..]
            .iter()
            .filter(of_host)
            .position(|other| other.tid == row.tid);
        let Some(next) = next else { continue };
        let later: Vec<&SampleRow<'_>> = rows[i + 1..].iter().filter(of_host).collect();
        let cpu = later[next].cpu;
        let before = later[..next].iter().rev().find(|other| other.cpu == cpu);
        // It left again where it had come to by the switch before; if that is its own, somebody ran there unseen.
        let Some(came) = before.filter(|came| came.tid != row.tid) else {
            continue;
        };
        if came.time >= row.time {
            let spell = u64::try_from(came.time - row.time).unwrap();
            sums.1 += 1;
            sums.2 += spell;
            sums.3 = sums.3.max(spell);
        }
    }
    off
}

async fn found(store: &Store, table: &str) -> Off {
    let sql = format!(
        "SELECT toUnixTimestamp(time), host, tid, stack_id, sum(n), sum(spells), sum(off_ns), max(off_ns_max) FROM {table} \
         GROUP BY time, host, tid, stack_id"
    );
    let answer = ask(store, &sql).await;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        let key = (
            cells[0].parse().unwrap(),
            cells[1].to_owned(),
            cells[2].parse().unwrap(),
            number(3),
        );
        (key, (number(4), number(5), number(6), number(7)))
    };
    answer.lines().map(row).collect()
}

async fn put(store: &Store, rows: &[SampleRow<'_>], ingested: u32) {
    let mut all = Samples::default();
    for row in rows {
        all.push(row);
    }
    insert(store, &all.finish(), 0, ingested, &ingested.to_string())
        .await
        .unwrap();
}

/// One close as a sink does it, twice, as after a death; `published` or broken off before.
async fn close(store: &Store, after: u32, through: u32, published: bool) {
    let token = format!("calls/{through}");
    for _ in 0..2 {
        for (_, sql) in close_calls(0, after, through) {
            store.insert_select(&sql, &token).await.unwrap();
        }
    }
    if published {
        let mut closes = ClosesOfCalls::default();
        closes.push(&ClosesOfCallsRow {
            part: 0,
            closed_through: through,
        });
        insert(store, &closes.finish(), 0, 0, &token).await.unwrap();
    }
}

#[tokio::test]
async fn time_off_the_cpu_is_exact_whatever_is_closed() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let (rows, now) = (switches(4_000), now());
    assert!(expected(&rows).values().map(|sums| sums.1).sum::<u64>() > 2_000);
    let ends = [900, 901, 2_500, rows.len()];
    let mut from = 0;
    for (i, to) in (0_u32..).zip(ends) {
        put(&store, &rows[from..to], now + 10 * (i + 1)).await;
        assert_eq!(
            found(&store, "offcpu_1m_all").await,
            expected(&rows[..to]),
            "{to} before its close"
        );
        if i < 3 {
            close(
                &store,
                if i == 0 { 0 } else { now + 10 * i },
                now + 10 * (i + 1),
                false,
            )
            .await;
            assert_eq!(
                found(&store, "offcpu_1m_all").await,
                expected(&rows[..to]),
                "{to}, not published"
            );
            close(
                &store,
                if i == 0 { 0 } else { now + 10 * i },
                now + 10 * (i + 1),
                true,
            )
            .await;
            assert_eq!(
                found(&store, "offcpu_1m_all").await,
                expected(&rows[..to]),
                "{to} closed"
            );
            store
                .execute("OPTIMIZE TABLE offcpu_1m FINAL")
                .await
                .unwrap();
        }
        from = to;
    }
    assert_eq!(found(&store, "offcpu_1m").await, expected(&rows[..2_500]));
    assert_eq!(found(&store, "offcpu_1m_all").await, expected(&rows));
}

/// Of these switches those from and to every second thread, as the kernel gives them.
fn of_every_second_thread<'a>(rows: &[SampleRow<'a>]) -> Vec<SampleRow<'a>> {
    let comes = |at: usize, row: &SampleRow<'_>| {
        let mut later = rows[at + 1..].iter();
        let leaves_next = later.find(|next| next.host == row.host && next.cpu == row.cpu);
        leaves_next.is_some_and(|next| next.tid % 2 == 1)
    };
    let known = rows.iter().enumerate();
    let known = known.filter(|(at, row)| row.tid % 2 == 1 || comes(*at, row));
    known
        .map(|(_, row)| SampleRow {
            event: "sched:sched_switch/threads=2/",
            ..*row
        })
        .collect()
}

#[tokio::test]
async fn switches_of_some_threads_are_enough_for_these() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let (rows, now) = (switches(2_000), now());
    let known = of_every_second_thread(&rows);
    assert!(known.len() < rows.len() && known.iter().any(|row| row.tid % 2 == 0 && row.tid > 0));
    let mut wanted = expected(&rows);
    wanted.retain(|key, _| key.2 % 2 == 1);
    let half = known.len() / 2;
    put(&store, &known[..half], now + 10).await;
    close(&store, 0, now + 10, true).await;
    put(&store, &known[half..], now + 20).await;
    assert_eq!(found(&store, "offcpu_1m_all").await, wanted);
    close(&store, now + 10, now + 20, true).await;
    assert_eq!(found(&store, "offcpu_1m").await, wanted);
}

#[tokio::test]
async fn allocations_are_exact_whatever_is_closed() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let now = now();
    let event = |i: u64| {
        ["kmem:kmalloc", "syscalls:sys_enter_mmap", "cycles"][usize::try_from(i % 3).unwrap()]
    };
    let rows: Vec<SampleRow<'_>> = (0..3_000)
        .map(|i| SampleRow {
            event: event(i),
            ..sample(i)
        })
        .collect();
    let wanted = |rows: &[SampleRow<'_>]| {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.event != "cycles") {
            let kind = if row.event == "kmem:kmalloc" {
                "kernel objects allocated"
            } else {
                "mmap"
            };
            let minute = row.time / 60_000_000_000 * 60;
            let key = format!(
                "{minute} {kind} {} {} {} {}",
                row.host, row.pid, row.function_id, row.stack_id
            );
            let of = sums.entry(key).or_default();
            *of = (of.0 + 1, of.1 + row.period);
        }
        sums
    };
    let found = async |table: &str| {
        let sql = format!(
            "SELECT concatWithSeparator(' ', toUnixTimestamp(time), kind, host, pid, function_id, stack_id) AS k, sum(n), \
             toUInt64(sum(calls)) FROM {table} GROUP BY k"
        );
        let answer = ask(&store, &sql).await;
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            (
                cells[0].to_owned(),
                (cells[1].parse().unwrap(), cells[2].parse().unwrap()),
            )
        };
        answer
            .lines()
            .map(row)
            .collect::<BTreeMap<String, (u64, u64)>>()
    };
    put(&store, &rows[..1_000], now + 10).await;
    assert_eq!(found("allocs_1m_all").await, wanted(&rows[..1_000]));
    close(&store, 0, now + 10, true).await;
    put(&store, &rows[1_000..], now + 20).await;
    assert_eq!(found("allocs_1m").await, wanted(&rows[..1_000]));
    assert_eq!(found("allocs_1m_all").await, wanted(&rows));
}

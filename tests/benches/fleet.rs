//! A simulated fleet through the real ingest, every service a process of its own on this machine: what each stage costs a
//! sample, how long a sample takes to be seen, what is at rest, and whether anything is unaccounted for.
//!
//! ```text
//! MEMWIDE_FLEET_HOSTS=1000 MEMWIDE_FLEET_SECONDS=120 cargo bench -p memwide-tests --bench fleet
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

use memwide_service::{CancellationToken, clock};
use memwide_simulator::Fleet;
use memwide_tests::measured::cpu_of;
use memwide_tests::{Deployment, Setup, tools_missing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Samples a second of a host.
const RATE: u64 = 100;

/// Hosts whose samples are looked for.
const WATCHED: usize = 20;

/// After the last batch, everything is stored within this.
const SETTLED_WITHIN: Duration = Duration::from_mins(10);

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).unwrap_or_default();
    text.parse().unwrap_or(usual)
}

/// One number of the store; 0 while it gives none.
fn ask(deployment: &Deployment, sql: &str) -> u64 {
    let rows = deployment.sql(sql);
    let cell = rows
        .ok()
        .and_then(|rows| rows.first()?.first()?.parse().ok());
    cell.unwrap_or(0)
}

/// Looks for new samples until `over`; seconds from sample to sight, of samples spread evenly over what is new.
fn watch(deployment: &Deployment, hosts: &[String], over: &AtomicBool) -> Vec<f64> {
    let names: Vec<String> = hosts.iter().map(|host| format!("'{host}'")).collect();
    let sql = format!(
        "SELECT host, toUnixTimestamp64Nano(max(time)) FROM samples WHERE host IN ({}) \
         AND time > now() - INTERVAL 5 MINUTE GROUP BY host",
        names.join(", ")
    );
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut ages = Vec::new();
    // ATOMICS: a flag alone; nothing else is read by it.
    while !over.load(Ordering::Relaxed) {
        let rows = deployment.sql(&sql).unwrap_or_default();
        let now_ns = clock::unix_ns();
        for row in rows {
            let newest: u64 = row[1].parse().unwrap();
            let before = seen.insert(row[0].clone(), newest);
            let Some(before) = before.filter(|before| *before < newest) else {
                continue;
            };
            for part in 0..10 {
                let taken = before + (newest - before) * part / 10;
                ages.push(now_ns.saturating_sub(taken) as f64 / 1e9);
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    ages.sort_by(f64::total_cmp);
    ages
}

fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn main() {
    if let Some(missing) = tools_missing() {
        println!("skipped: {missing}");
        return;
    }
    let hosts = usize::try_from(number("MEMWIDE_FLEET_HOSTS", 200)).unwrap();
    let seconds = number("MEMWIDE_FLEET_SECONDS", 60);
    let deployment = Deployment::start_with(&Setup {
        usual_pace: true,
        ..Setup::default()
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cpu = |deployment: &Deployment| -> BTreeMap<&str, f64> {
        let services = Deployment::SERVICES.into_iter();
        let mut of: BTreeMap<&str, f64> = services
            .map(|name| (name, deployment.cpu_seconds(name)))
            .collect();
        of.insert("hosts", cpu_of(std::process::id()));
        of
    };
    let (epoch, before) = (clock::unix_ns(), cpu(&deployment));
    let fleets = [("a", "decoder-1"), ("b", "decoder-2")].map(|(prefix, decoder)| {
        let fleet = Fleet::new(prefix, hosts / 2, &[1, 5, 9], RATE, epoch);
        (fleet, deployment.endpoint(decoder))
    });
    let watched: Vec<String> = fleets
        .iter()
        .flat_map(|(fleet, _)| fleet.names().into_iter().take(WATCHED / 2))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let (ages, sent, settled) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| watch(&deployment, &watched, &over));
        let sending = fleets.iter().map(|(fleet, endpoint)| {
            let ran = fleet.run_for(endpoint, seconds, CancellationToken::new());
            async move { ran.await.unwrap() }
        });
        let mut sending: Vec<_> = sending.collect();
        let (second, first) = (sending.pop().unwrap(), sending.pop().unwrap());
        runtime.block_on(async { tokio::join!(first, second) });
        let sent = begin.elapsed();
        let made: u64 = fleets
            .iter()
            .map(|(fleet, _)| fleet.truth().samples(|_| true))
            .sum();
        let ledger = "SELECT sum(records) FROM ledger_1m WHERE reason = 'stored'";
        while ask(&deployment, ledger) < made && begin.elapsed() < sent + SETTLED_WITHIN {
            std::thread::sleep(Duration::from_millis(250));
        }
        let settled = begin.elapsed();
        over.store(true, Ordering::Relaxed);
        (looking.join().unwrap(), sent, settled)
    });
    let after = cpu(&deployment);
    let made: u64 = fleets
        .iter()
        .map(|(fleet, _)| fleet.truth().samples(|_| true))
        .sum();
    let stored = ask(&deployment, "SELECT count() FROM samples");
    let different = ask(
        &deployment,
        "SELECT uniqExact(source_id, batch, time) FROM samples",
    );
    let said = ask(
        &deployment,
        "SELECT sumIf(records, reason = 'produced') FROM ledger_1m",
    );
    println!(
        "{hosts} hosts × {RATE} samples/s for {seconds} s: {made} made, {stored} stored ({different} different), {said} in the ledger, \
         {} unaccounted; committed after {:.1} s, stored after {:.1} s",
        made.abs_diff(stored),
        sent.as_secs_f64(),
        settled.as_secs_f64()
    );
    println!(
        "sample to answer: median {:.2} s, p95 {:.2} s, most {:.2} s (n={} of {WATCHED} hosts)",
        quantile(&ages, 50),
        quantile(&ages, 95),
        quantile(&ages, 100),
        ages.len()
    );
    println!("process        CPU µs a sample   cores   MiB at the end");
    for (name, used) in &after {
        let used = used - before[name];
        println!(
            "{name:<14} {:>15.2} {:>7.3} {:>16}",
            used * 1e6 / made as f64,
            used / settled.as_secs_f64(),
            deployment.memory_mib(name)
        );
    }
    let tables = "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'memwide' \
         GROUP BY table ORDER BY 3 DESC LIMIT 12";
    println!("table          rows a sample   bytes a row   bytes a sample");
    for row in deployment.sql(tables).unwrap() {
        let (rows, bytes): (f64, f64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        println!(
            "{:<14} {:>13.4} {:>13.1} {:>16.2}",
            row[0],
            rows / made as f64,
            bytes / rows,
            bytes / made as f64
        );
    }
    assert_eq!(made, stored, "samples are unaccounted for");
}

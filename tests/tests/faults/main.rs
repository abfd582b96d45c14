//! Faults on real processes: every service and every source by itself, killed, paused and doubled at random moments under
//! load; then the store is held against the sources' own diaries (`docs/delivery.md`).
//!
//! Failures of one kind each have a case of their own.
//!
//! `MEMWIDE_FAULT_SCHEDULES` (3) schedules from seed `MEMWIDE_FAULT_SEED` (1) on; `make faults` runs many.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod away;
mod cases;
mod central;
mod cluster;
mod disk;
mod keeping;
mod network;
mod odd;
mod oracle;
mod schedule;
mod shelf;
mod source;

use memwide_tests::{Deployment, tools_missing, until};
use oracle::{Sums, Truth};
use schedule::{LOAD_MS, Op, Schedule};
use source::Order;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// After the load, everything is in the store within this; slow machines under load included.
const SETTLED_WITHIN: Duration = Duration::from_mins(2);

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).unwrap_or_default();
    text.parse().unwrap_or(usual)
}

fn start(deployment: &mut Deployment, name: &str, order: &Order) {
    start_behind(deployment, name, order, &[]);
}

/// The same behind other words of a command line.
fn start_behind(deployment: &mut Deployment, name: &str, order: &Order, before: &[&str]) {
    let program = std::env::current_exe().unwrap();
    let words: Vec<&OsStr> = before.iter().map(OsStr::new).collect();
    let words = [words, vec![program.as_os_str()]].concat();
    let mut command = std::process::Command::new(words[0]);
    command
        .args(&words[1..])
        .args(["source::process", "--exact", "--nocapture"])
        .env(source::VARIABLE, order.text());
    deployment.spawn(name, &mut command);
}

/// The sources of a schedule, by the name of their process.
fn orders(deployment: &Deployment, seed: u64, schedule: &Schedule) -> Vec<(String, Order)> {
    let order = |source: usize| {
        let host = format!("s{seed}-{source}");
        let folder = deployment.folder().join(&host);
        std::fs::create_dir_all(&folder).unwrap();
        let endpoint = deployment.endpoint(if source.is_multiple_of(2) {
            "decoder-1"
        } else {
            "decoder-2"
        });
        let order = Order {
            name: host,
            endpoint,
            folder,
            samples: schedule.samples,
            spool_bytes: schedule.spool_bytes,
            steps: Vec::new(),
        };
        (format!("source-{source}"), order)
    };
    (1..=schedule.sources).map(order).collect()
}

fn act(deployment: &mut Deployment, op: &Op, orders: &[(String, Order)]) {
    match op {
        Op::Kill(name) => deployment.kill(name),
        Op::Stop(name) => drop(deployment.signal(name, "STOP")),
        Op::Continue(name) => drop(deployment.signal(name, "CONT")),
        Op::Lead(decoder, aggregator) => deployment.lead_to(decoder, aggregator),
        Op::Run(name) => match orders.iter().find(|(source, _)| source == name) {
            Some((_, order)) => start(deployment, name, order),
            // Not where nothing can be collected.
            None if name == "collector" && !deployment.collects() => {}
            None => deployment.run(name),
        },
    }
}

/// Everything runs again as it should, whatever was done.
fn mend(deployment: &mut Deployment, orders: &[(String, Order)]) {
    for twin in ["aggregator-2", "sink-2"] {
        deployment.kill(twin);
    }
    let sources = orders.iter().map(|(name, _)| name.as_str());
    let others = sources.chain(["collector"]);
    for name in Deployment::SERVICES.into_iter().chain(others) {
        if !deployment.signal(name, "CONT") {
            act(deployment, &Op::Run(name.to_owned()), orders);
        }
    }
}

/// One schedule: what was stored, or what is wrong.
fn run(
    deployment: &mut Deployment,
    schedule: &Schedule,
    orders: &[(String, Order)],
) -> Result<Vec<Truth>, String> {
    for (name, order) in orders {
        start(deployment, name, order);
    }
    let begin = Instant::now();
    let wait = |at: u64| {
        let at = Duration::from_millis(at);
        std::thread::sleep(at.saturating_sub(begin.elapsed()));
    };
    for (at, op) in &schedule.ops {
        wait(*at);
        // A service that gives up by itself is a failure, whatever was done to the others.
        if let Some(name) = deployment.died().first() {
            return Err(format!(
                "{name} ended by itself:\n{}",
                deployment.last_words(name)
            ));
        }
        act(deployment, op, orders);
    }
    wait(LOAD_MS);
    mend(deployment, orders);
    for (_, order) in orders {
        std::fs::write(order.last_call(), "").unwrap();
    }
    let settle = Instant::now();
    for (name, order) in orders {
        loop {
            match deployment.ended(name) {
                Some(true) => break,
                Some(false) => {
                    return Err(format!("{name} failed:\n{}", deployment.last_words(name)));
                }
                None if settle.elapsed() > SETTLED_WITHIN => {
                    return Err(format!(
                        "{} is not committed: {}",
                        order.name,
                        ready(deployment)
                    ));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
    let truth = |(_, order): &(String, Order)| {
        let diary = std::fs::read_to_string(order.diary()).unwrap_or_default();
        Truth::read(&order.name, order.samples, &diary)
    };
    Ok(orders.iter().map(truth).collect())
}

/// What services say who are not well.
fn ready(deployment: &Deployment) -> String {
    let mut said = String::new();
    for name in Deployment::SERVICES {
        if let Err(why) = deployment.readiness(name) {
            let words = deployment.last_words(name);
            said += &format!("{name} is not ready: {why}\n{words}\n");
        }
    }
    said
}

fn check(deployment: &Deployment, truths: &[Truth]) -> Result<Sums, String> {
    let mut all = Sums::default();
    for truth in truths {
        let sums = truth.check(deployment)?;
        all.produced += sums.produced;
        all.stored += sums.stored;
        all.gap += sums.gap;
    }
    Ok(all)
}

/// Rows come after their batches are committed: looks until all is right, or time is over.
fn settled(deployment: &Deployment, truths: &[Truth]) -> Result<Sums, String> {
    let begin = Instant::now();
    loop {
        let checked = check(deployment, truths);
        if checked.is_ok() || begin.elapsed() > SETTLED_WITHIN {
            return checked;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The collector of this machine stops, and everything it has made is looked for.
fn live(deployment: &mut Deployment) {
    if !deployment.collects() {
        return;
    }
    deployment.signal("collector", "INT");
    until("the collector has stopped", SETTLED_WITHIN, || {
        deployment.ended("collector").is_some()
    });
    let mut last = Err(String::new());
    until(
        "what this machine produced is stored or in the ledger",
        SETTLED_WITHIN,
        || {
            last = oracle::check_live(deployment);
            if let Err(why) = &last {
                eprintln!("{why}");
            }
            last.is_ok()
        },
    );
    let Sums {
        produced,
        stored,
        gap,
    } = last.unwrap_or_default();
    eprintln!("live {produced:9} {stored:9} {gap:9}");
}

#[test]
fn schedules_of_kills_pauses_and_twins_lose_and_double_nothing() {
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    let (count, first) = (
        number("MEMWIDE_FAULT_SCHEDULES", 3),
        number("MEMWIDE_FAULT_SEED", 1),
    );
    let mut deployment = Deployment::start();
    if !deployment.collect() {
        eprintln!("no collector: {}", deployment.last_words("collector"));
    }
    let mut truths = Vec::new();
    let mut wrong = Vec::new();
    let start = Instant::now();
    eprintln!("seed  produced    stored       gap  seconds  verdict  faults (times in ms)");
    for seed in first..first + count {
        let schedule = Schedule::new(seed);
        let orders = orders(&deployment, seed, &schedule);
        let begin = Instant::now();
        let ran = run(&mut deployment, &schedule, &orders);
        let checked = ran.and_then(|of_schedule| {
            let sums = settled(&deployment, &of_schedule);
            truths.extend(of_schedule);
            sums
        });
        let Sums {
            produced,
            stored,
            gap,
        } = checked.as_ref().copied().unwrap_or_default();
        let (seconds, verdict) = (
            begin.elapsed().as_secs_f64(),
            if checked.is_ok() { "clean" } else { "WRONG" },
        );
        eprintln!(
            "{seed:4} {produced:9} {stored:9} {gap:9} {seconds:8.1}  {verdict:7}  {}",
            schedule.text
        );
        if let Err(why) = checked {
            eprintln!("{why}\n{}", ready(&deployment));
            wrong.push(seed);
            mend(&mut deployment, &[]);
        }
    }
    // What came late would show now.
    if wrong.is_empty() {
        check(&deployment, &truths).expect("still right at the end");
        live(&mut deployment);
    }
    let ran = start.elapsed().as_secs_f64();
    eprintln!(
        "{count} schedules in {ran:.0} s, {} clean",
        count - wrong.len() as u64
    );
    assert!(wrong.is_empty(), "schedules {wrong:?} are wrong");
}

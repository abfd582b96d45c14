//! The whole pipeline: real gRPC, real nats-server, the real engine. What goes in is what can be asked for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_model::Locality;
use memwide_service::CancellationToken;
use memwide_simulator::{BADLY_PLACED, Fleet, RARE};
use memwide_tests::{Up, UpOptions, children_of, kill_9, process_named, tools_missing, until};
use std::time::Duration;

/// Committed rows become visible within a few seconds; slow machines under load included.
const VISIBLE_WITHIN: Duration = Duration::from_mins(1);

fn skip() -> bool {
    let missing = tools_missing();
    if let Some(missing) = &missing {
        eprintln!("skipped: {missing}");
    }
    missing.is_some()
}

fn up(args: &[&str]) -> Up {
    Up::start(&UpOptions {
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        ..UpOptions::default()
    })
}

#[test]
fn simulated_hosts_are_stored_exactly_and_found_by_their_truth() {
    if skip() {
        return;
    }
    let up = up(&["--no-collect"]);
    let fleet = Fleet::new("sim", 3, &[1], 400, 1);
    up.send(&fleet, 6);
    let truth = fleet.truth();
    let all = truth.samples(|_| true);
    assert_eq!(all, 3 * 400 * 6);
    up.wait_for(all);

    for (key, samples) in truth.rows() {
        let query = format!(
            "select sum(samples) from functions where function = '{}' and host = '{}' and event = '{}' and locality = '{}'",
            key.function,
            fleet.names()[key.host],
            key.event,
            key.locality,
        );
        assert_eq!(up.number(&query), samples, "{key:?}");
    }
    let rollups = [
        "select sum(n) from mix_1m",
        "select sum(n) from fleet_1h",
        "select count() from accesses where function_id != 0 and module = 'orders'",
        "select sum(records) from ledger_1m where reason = 'produced'",
        "select sum(records) from ledger_1m where reason = 'stored'",
    ];
    for query in rollups {
        assert_eq!(up.number(query), all, "{query}");
    }

    // The flagship question, as a user asks it.
    let answer = up.get("functions?locality=remote&per_host=true&limit=1000&since=-2h");
    let columns: Vec<&str> = answer["columns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    let at = |name: &str| {
        columns
            .iter()
            .position(|column| *column == name)
            .unwrap_or_else(|| panic!("{name} in {columns:?}"))
    };
    let rows = answer["rows"].as_array().unwrap();
    let mut hosts: Vec<&str> = rows
        .iter()
        .filter(|row| row[at("function")] == BADLY_PLACED)
        .filter_map(|row| row[at("host")].as_str())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(hosts, ["sim-2"], "{answer:#}");
    let rare: u64 = rows
        .iter()
        .filter(|row| row[at("function")] == RARE)
        .filter_map(|row| row[at("samples")].as_u64())
        .sum();
    assert_eq!(
        rare,
        truth.samples(|key| key.function == RARE && key.locality == Locality::Remote)
    );

    // The same source again adds nothing.
    up.send(&Fleet::new("sim", 3, &[1], 400, 1), 6);
    check_sums(&up, all);
}

#[test]
fn kill_9_of_any_process_loses_and_doubles_nothing() {
    if skip() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let options = UpOptions {
        data: Some(data.path().to_owned()),
        args: vec!["--no-collect".to_owned()],
        ..UpOptions::default()
    };
    let mut all = 0;
    for (round, victim) in ["nats-server", "store-engine"].into_iter().enumerate() {
        let up = Up::start(&options);
        let fleet = Fleet::new("kill", 2, &[], 2_000, 10 + round as u64);
        std::thread::scope(|scope| {
            scope.spawn(|| up.send(&fleet, 12));
            let process =
                memwide_tests::until_some("the victim runs", Duration::from_secs(10), || {
                    process_named(up.pid(), victim)
                });
            kill_9(process.pid);
        });
        all += fleet.truth().samples(|_| true);
        up.wait_for(all);
        check_sums(&up, all);
        let (status, said) = up.interrupt();
        assert!(status.success(), "{said}");
    }

    // memwide itself, while a fleet is half-way; the senders go on against the successor.
    let mut up = Up::start(&options);
    let fleet = Fleet::new("kill", 2, &[], 2_000, 20);
    let before = up.number("select count() from samples");
    assert_eq!(before, all, "a restart changes nothing");
    {
        let (fleet, endpoint) = (fleet.clone(), up.ingest());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stop = CancellationToken::new();
        let sending = runtime.spawn({
            let stop = stop.clone();
            async move { fleet.send(&endpoint, 12, stop).await }
        });
        until("some rows arrive", VISIBLE_WITHIN, || {
            up.try_number("select count() from samples")
                .is_ok_and(|rows| rows > before)
        });
        up.kill();
        stop.cancel();
        drop(runtime.block_on(sending));
    }
    let up = Up::start(&options);
    up.send(&Fleet::new("kill", 2, &[], 2_000, 20), 12);
    all += 2 * 2_000 * 12;
    up.wait_for(all);
    check_sums(&up, all);
}

fn check_sums(up: &Up, all: u64) {
    for query in [
        "select count() from samples",
        "select sum(n) from mix_1m",
        "select sum(n) from fleet_1h",
        "select sum(records) from ledger_1m where reason = 'produced'",
        "select sum(records) from ledger_1m where reason = 'stored'",
    ] {
        assert_eq!(up.number(query), all, "{query}");
    }
}

#[test]
fn this_machine_is_collected_and_stopping_leaves_nothing_running() {
    if skip() {
        return;
    }
    let up = up(&[]);
    let said = up.said();
    if said.contains("not collecting on this machine") {
        eprintln!("skipped: {said}");
        return;
    }
    // Fresh pages of this test's own children: 100 processes have thousands of faults.
    for _ in 0..100 {
        let ran = std::process::Command::new("true").status();
        assert!(ran.is_ok_and(|status| status.success()));
    }
    until(
        "faults of this machine are rows with function names",
        VISIBLE_WITHIN,
        || {
            up.try_number(
                "select count() from functions where event = 'minor-faults' and function != ''",
            )
            .is_ok_and(|rows| rows > 0)
        },
    );
    assert!(up.number("select uniqExact(host) from samples") == 1);
    let children = children_of(up.pid());
    assert_eq!(
        children.len(),
        2,
        "nats-server and the engine: {children:?}"
    );
    let (status, said) = up.interrupt();
    assert!(status.success(), "{said}");
    until("both children are gone", Duration::from_secs(10), || {
        children
            .iter()
            .all(|child| !std::path::Path::new(&format!("/proc/{}", child.pid)).exists())
    });
}

#[test]
fn children_die_with_a_killed_memwide() {
    if skip() {
        return;
    }
    let mut up = up(&["--no-collect"]);
    let children = children_of(up.pid());
    assert_eq!(children.len(), 2, "{children:?}");
    up.kill();
    until("both children are gone", Duration::from_secs(10), || {
        children
            .iter()
            .all(|child| !std::path::Path::new(&format!("/proc/{}", child.pid)).exists())
    });
}

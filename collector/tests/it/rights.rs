//! What a process may collect with which rights, on this machine: the table of `docs/collector.md`.

use std::collections::BTreeMap;
use std::process::Command;

use memwide_collector::{Config, EventConfig, Reporter, SpoolConfig, probe, run_reporting};
use memwide_service::CancellationToken;

use crate::decoder::{Manners, Running};

/// Set: the test below prints what it is told instead.
const SAY: &str = "MEMWIDE_TEST_SAYS_RIGHTS";

fn wanted() -> Config {
    Config {
        events: vec![
            EventConfig::named("minor-faults"),
            EventConfig::named("kmem:kmalloc"),
        ],
        ..Config::default()
    }
}

/// What a user without rights but these is told, by name; `None`: it cannot be tried here.
fn told(capabilities: &str) -> Option<BTreeMap<String, bool>> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    if capabilities.is_empty() {
        command.args(["--bounding-set=-all", "--inh-caps=-all"]);
    } else {
        command.arg(format!("--inh-caps={capabilities}"));
        command.arg(format!("--ambient-caps={capabilities}"));
    }
    command.arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "rights::each_right_gives_what_the_table_says",
        "--nocapture",
    ]);
    let done = command.env(SAY, "1").output().ok()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix("right "));
    let said: BTreeMap<String, bool> = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, answer)| (name.to_owned(), answer == "true"))
        .collect();
    (!said.is_empty()).then_some(said)
}

#[test]
fn each_right_gives_what_the_table_says() {
    if std::env::var_os(SAY).is_some() {
        for row in probe(&wanted()) {
            println!("right {} {}", row.name, row.available);
        }
        return;
    }
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let is_usual = level.is_ok_and(|level| matches!(level.trim(), "1" | "2"));
    let Some(nothing) = told("").filter(|_| is_usual) else {
        eprintln!("skipped: no setpriv, no right to use it, or another level of paranoia");
        return;
    };
    for name in [
        "all-processes-events",
        "minor-faults",
        "all-processes-names",
        "mapped-files",
    ] {
        assert_eq!(nothing.get(name), Some(&false), "{name} without rights");
    }
    let rows = [
        ("+perfmon", "all-processes-events"),
        ("+perfmon", "minor-faults"),
        ("+perfmon,+ipc_lock", "locked-memory"),
        (
            "+perfmon,+sys_ptrace,+dac_read_search",
            "all-processes-names",
        ),
        ("+perfmon,+sys_ptrace,+dac_read_search", "tracepoints"),
        ("+perfmon,+sys_ptrace,+dac_read_search", "kmem:kmalloc"),
        ("+syslog", "kernel-symbols"),
        (
            "+sys_ptrace,+dac_read_search,+checkpoint_restore",
            "mapped-files",
        ),
    ];
    for (capabilities, name) in rows {
        let Some(said) = told(capabilities) else {
            eprintln!("skipped: {capabilities} cannot be given here");
            continue;
        };
        assert_eq!(
            said.get(name),
            Some(&true),
            "{name} with {capabilities}: {said:?}"
        );
    }
    // Listing what others have mapped is not yet looking at it.
    for capabilities in [
        "+dac_read_search",
        "+sys_ptrace,+dac_read_search",
        "+perfmon",
    ] {
        if let Some(said) = told(capabilities) {
            let row = said.get("mapped-files");
            assert_eq!(row, Some(&false), "mapped-files with {capabilities}");
        }
    }
}

/// Where the collector of the test below sends to, and its spool.
const ENDPOINT: &str = "MEMWIDE_TEST_ENDPOINT";
const SPOOL: &str = "MEMWIDE_TEST_SPOOL";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_right_pressure_and_memory_are_collected() {
    if let (Some(endpoint), Some(spool)) = (std::env::var_os(ENDPOINT), std::env::var_os(SPOOL)) {
        let config = Config {
            endpoint: endpoint.into_string().unwrap(),
            spool: SpoolConfig {
                dir: spool.into(),
                ..SpoolConfig::default()
            },
            readings_ms: 200,
            ..Config::default()
        };
        let (reporter, _status) = Reporter::new();
        run_reporting(config, reporter, CancellationToken::new())
            .await
            .unwrap();
        return;
    }
    let is_refused = told("").is_some_and(|said| said.get("side-band") == Some(&false));
    if !is_refused {
        eprintln!("skipped: no setpriv, no right to use it, or everybody may sample here");
        return;
    }
    let decoder = Running::start(Manners::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let mut child = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "rights::without_any_right_pressure_and_memory_are_collected",
        ])
        .env(ENDPOINT, &decoder.endpoint)
        .env(SPOOL, folder.path().join("spool"))
        .spawn()
        .unwrap();
    decoder
        .until("readings of an unprivileged collector", |got| {
            let batches = got.batches.values().flatten();
            let mut readings = batches.filter_map(|batch| batch.readings.as_ref());
            readings.any(|one| !one.rss.is_empty() && !one.pressure.is_empty())
        })
        .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let got = decoder.got();
    let first = &got.batches.values().next().unwrap()[0];
    let facts = first.facts.as_ref().unwrap();
    let faults = facts
        .capabilities
        .iter()
        .find(|one| one.name == "minor-faults");
    assert!(!faults.unwrap().available && first.samples.is_none());
}

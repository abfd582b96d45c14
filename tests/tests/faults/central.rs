//! What the centre tells a collector of this machine: real processes, from the decoder's file and the command line to the
//! store.

use crate::cases::{SOON, skip};
use memwide_tests::{Deployment, memwide, until};
use std::process::Command;

/// Faults all the time, by processes called `dd`.
const LOAD: &str =
    "while :; do dd if=/dev/zero of=/dev/null bs=8M count=1 2>/dev/null; sleep 0.05; done";

fn number(deployment: &Deployment, sql: &str) -> u64 {
    let rows = deployment.sql(sql).unwrap_or_default();
    let first = rows.first().and_then(|row| row.first());
    first.and_then(|cell| cell.parse().ok()).unwrap_or(0)
}

/// Waits until a row of the host's capabilities says so; `%`: anything between.
fn says(deployment: &Deployment, words: &str) {
    let sql =
        format!("SELECT count() FROM hosts WHERE host = 'live' AND capabilities LIKE '%{words}%'");
    until(words, SOON, || number(deployment, &sql) > 0);
}

/// Whether samples with a shorter period than configured (211) have come, and nearly all are of these processes: a process has
/// its name for the collector as soon as it takes it.
const BOOSTED: &str = "\
SELECT count() > 20 AND countIf(comm = 'dd') >= 0.9 * count() FROM samples
WHERE host = 'live' AND event = 'minor-faults' AND period < 200";

#[test]
fn boosts_settings_and_the_kill_switch_reach_the_store() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    if !deployment.collect() {
        eprintln!("skipped: nothing can be collected here");
        return;
    }
    let mut load = Command::new("sh");
    deployment.spawn("load", load.args(["-c", LOAD]));
    let of_live = "SELECT count() FROM samples WHERE host = 'live'";
    until("rows of this machine", SOON, || {
        number(&deployment, of_live) > 0
    });

    let decoder = deployment.endpoint("decoder-2");
    let boost = |more: &[&str]| {
        let mut command = Command::new(memwide());
        let words = ["boost", "--host", "li*", "--decoder", decoder.as_str()];
        command.args(words).args(["--format", "json"]).args(more);
        let output = command.env_remove("MEMWIDE_SERVER").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (code, said) = boost(&["--comm", "dd", "--for", "60s", "--factor", "20"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\"live\"") && said.contains("true"), "{said}");
    until("only `dd` is sampled more often", SOON, || {
        number(&deployment, BOOSTED) == 1
    });
    assert_eq!(boost(&["--end"]).0, Some(0));

    deployment.tell_collectors("version = 2\n[[collectors]]\nhosts = 'li*'\nstop = true\n");
    says(
        &deployment,
        "version 2 is in force, told by %; it stops all sampling",
    );
    let stopped =
        "SELECT sum(seconds) > 0 FROM ledger_1m WHERE host = 'live' AND reason = 'throttled_s'";
    until("the time without samples is in the ledger", SOON, || {
        number(&deployment, stopped) == 1
    });
    let (code, said) = boost(&["--comm", "dd"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("sampling is stopped"), "{said}");

    deployment
        .tell_collectors("version = 3\n[[collectors]]\nhosts = '*'\nevents = ['minor-fautls']\n");
    says(&deployment, "version 3 is refused");
    let before = number(&deployment, of_live);
    deployment.tell_collectors(
        "version = 4\n[[collectors]]\nhosts = '*'\nevents = [{ name = 'minor-faults', period = 101 }]\n",
    );
    says(&deployment, "version 4 is in force");
    let other = "SELECT uniqExact(source_id) FROM samples WHERE host = 'live'";
    until("another run of this machine", SOON, || {
        number(&deployment, other) == 2 && number(&deployment, of_live) > before
    });
    deployment.kill("load");
}

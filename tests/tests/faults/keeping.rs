//! Backup and restore of a running installation, and a copy of one that was stopped or killed.

use crate::cases::{SOON, diary, finish, order, skip};
use crate::{settled, start};
use memwide_simulator::Fleet;
use memwide_tests::{Deployment, Up, UpOptions, until};
use std::path::Path;
use std::process::Command;

fn rows(deployment: &Deployment) -> u64 {
    let rows = deployment.sql("SELECT count() FROM samples");
    rows.map_or(0, |rows| rows[0][0].parse().unwrap_or(0))
}

/// The steps of `docs/keeping.md`: the store is lost after a backup that was taken while the sink was stopped.
#[test]
fn a_store_restored_from_a_backup_goes_on_exactly() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    let order = order(&deployment, "kept", &deployment.folder().join("kept"));
    start(&mut deployment, "source", &order);
    until("rows are stored", SOON, || rows(&deployment) > 10_000);
    // Under load: a block is open at most moments, and finished before the sink ends.
    deployment.signal("sink-1", "TERM");
    until("the sink has ended", SOON, || {
        deployment.ended("sink-1").is_some()
    });
    assert_eq!(deployment.ended("sink-1"), Some(true));
    deployment
        .sql("BACKUP DATABASE memwide TO File('kept')")
        .unwrap();
    let before = rows(&deployment);
    deployment.kill("engine");
    let store = deployment.folder().join("store");
    for entry in std::fs::read_dir(&store).unwrap().flatten() {
        if entry.file_name() != "backups" {
            let removed = std::fs::remove_dir_all(entry.path());
            removed
                .or_else(|_| std::fs::remove_file(entry.path()))
                .unwrap();
        }
    }
    deployment.run("engine");
    deployment.wait_ready("engine");
    deployment
        .sql_in("default", "CREATE DATABASE IF NOT EXISTS memwide")
        .unwrap();
    deployment
        .sql_in("default", "RESTORE DATABASE memwide FROM File('kept')")
        .unwrap();
    assert_eq!(rows(&deployment), before);
    deployment.run("sink-1");
    until("rows come again", SOON, || rows(&deployment) > before);
    finish(&mut deployment, "source", &order);
    settled(&deployment, &[diary(&order)]).unwrap();
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Samples that fleets made.
pub(crate) fn made(fleets: &[Fleet]) -> u64 {
    let of = fleets.iter();
    of.map(|fleet| fleet.truth().samples(|_| true)).sum()
}

/// The data folder of `memwide up` is all there is: killed right after batches were committed, copied, started elsewhere.
#[test]
fn a_copy_of_the_data_folder_goes_on_where_the_original_was_killed() {
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = |data: &str| UpOptions {
        data: Some(folder.path().join(data)),
        args: vec!["--no-collect".to_owned()],
        ..UpOptions::default()
    };
    let mut up = Up::start(&options("first"));
    let fleets = [1, 2].map(|epoch| Fleet::new("kept", 3, &[], 500, epoch));
    up.send(&fleets[0], 10);
    up.kill();
    copy(&folder.path().join("first"), &folder.path().join("second"));
    let up = Up::start(&options("second"));
    up.send(&fleets[1], 10);
    let made = made(&fleets);
    for sql in [
        "SELECT count() FROM samples",
        "SELECT uniqExact(source_id, batch, time) FROM samples",
        "SELECT sum(records) FROM ledger_1m WHERE reason = 'stored'",
        "SELECT sum(samples) FROM functions",
        "SELECT sum(n) FROM mix_1m",
    ] {
        until(sql, SOON, || up.number(sql) >= made);
        assert_eq!(up.number(sql), made, "{sql}");
    }
}

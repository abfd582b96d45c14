//! The disk under the stream is full for a while.
//!
//! A stream of nats-server whose write failed takes nothing more until the server is started again, or it hangs: whoever runs the server
//! looks after it, here the test as a liveness probe would, there the supervisor of `memwide up`.

use crate::cases::{SOON, diary, finish, order, says, skip};
use crate::keeping::made;
use crate::{check, ready, start};
use async_nats::jetstream;
use memwide_simulator::Fleet;
use memwide_tests::{Deployment, Setup, Up, UpOptions, until, within};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The disk stays full for so long after it was told.
const FULL_FOR: Duration = Duration::from_secs(4);

/// A disk of its own for the stream; `None` where none can be mounted.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(&folder)
            .output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: no disk can be mounted here");
        }
        mounted.then_some(Self(folder))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
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

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        drop(unmounted);
    }
}

#[test]
fn a_full_disk_under_the_stream_loses_nothing() {
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path().join("disk")) else {
        return;
    };
    let mut deployment = Deployment::start_with(&Setup {
        stream: Some(disk.0.clone()),
        ..Setup::default()
    });
    let order = order(&deployment, "full", &deployment.folder().join("full"));
    start(&mut deployment, "source", &order);
    let stored = |deployment: &Deployment| {
        let rows = deployment.sql("SELECT count() FROM samples");
        rows.is_ok_and(|rows| rows[0][0] != "0")
    };
    until("rows are stored", SOON, || stored(&deployment));
    until("the aggregator says that nothing is taken", SOON, || {
        disk.fill();
        says(&deployment, "aggregator-1", "flushes: ")
    });
    // It stays full while flushes and records are tried again and again.
    let begin = Instant::now();
    while begin.elapsed() < FULL_FOR {
        disk.fill();
        std::thread::sleep(Duration::from_millis(20));
    }
    disk.make_room();
    std::fs::write(order.last_call(), "").unwrap();
    let mut restarts = 0;
    let is_committed = within(2 * SOON, || {
        restarts += u32::from(deployment.look_after_nats());
        deployment.ended("source") == Some(true)
    });
    let said = || ready(&deployment) + &deployment.last_words("nats");
    assert!(is_committed, "with room again not committed: {}", said());
    eprintln!("nats-server was started again {restarts} times");
    finish(&mut deployment, "source", &order);
    deployment.wait_ready("aggregator-1");
    let is_stored = within(2 * SOON, || {
        deployment.look_after_nats();
        check(&deployment, &[diary(&order)]).is_ok()
    });
    let wrong = check(&deployment, &[diary(&order)]).err();
    let said = || ready(&deployment) + &deployment.last_words("nats");
    assert!(is_stored, "{wrong:?}: {}", said());
}

/// A stream of the server of `memwide up` beside ours, to fill the disk with: its own text says how it is reached.
struct Beside {
    runtime: tokio::runtime::Runtime,
    context: jetstream::Context,
}

impl Beside {
    fn new(up: &Up) -> Self {
        let config = std::fs::read_to_string(up.data.join("nats.conf")).unwrap();
        let value = |before: &str| {
            let (_, rest) = config.split_once(before).unwrap();
            let end = rest.find([' ', '\n']).unwrap();
            rest[..end].trim_matches('"').to_owned()
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let context = runtime.block_on(async {
            let client = async_nats::ConnectOptions::with_token(value("token: "))
                .connect(format!("127.0.0.1:{}", value("port: ")))
                .await
                .unwrap();
            let mut context = jetstream::new(client);
            context.set_timeout(Duration::from_secs(2));
            let made = context.create_stream(jetstream::stream::Config {
                name: "BESIDE".to_owned(),
                subjects: vec!["beside".to_owned()],
                ..jetstream::stream::Config::default()
            });
            made.await.unwrap();
            context
        });
        Self { runtime, context }
    }

    fn is_taken(&self) -> bool {
        self.runtime.block_on(async {
            let sent = self.context.publish("beside", vec![0; 64 << 10].into());
            match sent.await {
                Ok(answer) => answer.await.is_ok(),
                Err(_) => false,
            }
        })
    }
}

#[test]
fn up_starts_nats_server_again_whose_disk_was_full() {
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path().join("stream")) else {
        return;
    };
    let up = Up::start(&UpOptions {
        data: Some(folder.path().to_owned()),
        args: vec!["--no-collect".to_owned()],
        ..UpOptions::default()
    });
    let fleets = [1, 2].map(|epoch| Fleet::new("full", 3, &[], 500, epoch));
    up.send(&fleets[0], 10);
    let beside = Beside::new(&up);
    assert!(beside.is_taken());
    until("a write fails", SOON, || {
        disk.fill();
        !beside.is_taken()
    });
    let restarted = || {
        let services = up.get("status")["services"].clone();
        let nats = services.as_array().and_then(|all| {
            let of_nats = |service: &&serde_json::Value| service["name"] == "nats-server";
            all.iter().find(of_nats)?["detail"].as_str()
        });
        nats.is_some_and(|detail| detail.contains("started"))
    };
    until("it is started again", SOON, restarted);
    disk.make_room();
    until("with room it is taken", SOON, || beside.is_taken());
    up.send(&fleets[1], 10);
    let made = made(&fleets);
    for sql in [
        "SELECT count() FROM samples",
        "SELECT uniqExact(source_id, batch, time) FROM samples",
        "SELECT sum(n) FROM mix_1m",
    ] {
        until(sql, SOON, || up.number(sql) >= made);
        assert_eq!(up.number(sql), made, "{sql}");
    }
    let metrics = up.metrics();
    let counted = |line: &&str| line.starts_with("child_restarts_total{cause=\"unwell\"}");
    let line = metrics.lines().find(counted).unwrap();
    assert!(!line.ends_with(" 0"), "{line}");
    assert!(
        up.said().contains("no space left on device"),
        "{}",
        up.said()
    );
}

use super::*;
use std::io::Read;
use std::process::{Command, Stdio};
use tokio_util::sync::CancellationToken;

/// Longest wait for something that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Spec {
    Spec::new("shell", "/bin/sh").args(["-c", script])
}

fn runs(pid: u32) -> bool {
    // A zombie has ended; only its parent has not looked yet.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with('Z'))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, wait).await;
    assert!(held.is_ok(), "{what} did not happen within {PATIENCE:?}");
}

#[tokio::test]
async fn its_output_is_kept_and_its_status_returned() {
    let mut child = Child::spawn(shell("echo port 4711; echo oops >&2; exit 3"))
        .await
        .unwrap();
    let status = child.wait().await.unwrap();
    assert_eq!(status.code(), Some(3));
    let output = child.output().clone();
    assert_eq!(output.last().len(), 2, "all of it once the wait is over");
    let port = output.find_map(|line| line.strip_prefix("port ")?.parse::<u16>().ok());
    assert_eq!(port, Some(4711));
    assert!(output.last().contains(&"oops".to_owned()));
}

#[tokio::test]
async fn a_missing_program_is_named_with_the_remedy() {
    let spec = Spec::new("nats-server", "/nonexistent/nats-server").remedy("run `make tools`");
    let text = Child::spawn(spec).await.unwrap_err().to_string();
    assert_eq!(
        text,
        "nats-server is not at /nonexistent/nats-server; run `make tools`"
    );
}

#[tokio::test]
async fn stopping_is_polite_first() {
    let child = Child::spawn(shell(
        "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done",
    ));
    let child = child.await.unwrap();
    let output = child.output().clone();
    until("the trap", || !output.last().is_empty()).await;
    let status = child.stop(PATIENCE).await.unwrap();
    assert_eq!(status.code(), Some(7));
}

#[tokio::test]
async fn what_ignores_the_polite_signal_is_killed() {
    let child = Child::spawn(shell("trap '' TERM; echo up; while :; do sleep 0.01; done"));
    let child = child.await.unwrap();
    let (pid, output) = (child.pid(), child.output().clone());
    until("the trap", || !output.last().is_empty()).await;
    let status = child.stop(Duration::from_millis(1)).await.unwrap();
    assert_eq!(status.code(), None, "ended by a signal");
    assert!(!runs(pid));
}

#[tokio::test]
async fn a_dropped_child_is_killed() {
    let child = Child::spawn(shell("exec sleep 1000")).await.unwrap();
    let pid = child.pid();
    assert!(runs(pid));
    drop(child);
    until("its end", || !runs(pid)).await;
}

/// Set in the copy of this test program that plays the parent.
const PARENT: &str = "MEMWIDE_TEST_PARENT";

#[test]
fn a_child_dies_when_its_parent_is_killed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if std::env::var_os(PARENT).is_some() {
        runtime.block_on(async {
            let child = Child::spawn(shell("exec sleep 1000")).await.unwrap();
            println!("child={};", child.pid());
            std::future::pending::<()>().await;
        });
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("child::tests::a_child_dies_when_its_parent_is_killed")
        .env(PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    let mut pipe = parent.stdout.take().unwrap();
    let pid: u32 = loop {
        assert_eq!(
            pipe.read(&mut byte).unwrap(),
            1,
            "it ended and said: {said}"
        );
        said.push(char::from(byte[0]));
        if let Some((_, pid)) = said.trim_end_matches(';').split_once("child=")
            && said.ends_with(';')
        {
            break pid.parse().unwrap();
        }
    };
    assert!(runs(pid));
    parent.kill().unwrap(); // SIGKILL: no code of the parent runs
    parent.wait().unwrap();
    runtime.block_on(until("the end of the child", || !runs(pid)));
}

#[tokio::test]
async fn a_child_survives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Handle::current();
    let asked =
        std::thread::spawn(move || runtime.block_on(Child::spawn(shell("exec sleep 1000"))));
    let child = tokio::task::spawn_blocking(|| asked.join().unwrap().unwrap());
    let mut child = child.await.unwrap();
    let ended = tokio::time::timeout(Duration::from_millis(100), child.wait()).await;
    assert!(ended.is_err(), "{ended:?}");
}

fn quick() -> Policy {
    Policy {
        ready_within: PATIENCE,
        look_every: Duration::from_millis(2),
        look_after_every: Duration::from_millis(2),
        unwell_looks: 3,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        stop_grace: PATIENCE,
        hopeless_starts: 3,
    }
}

#[tokio::test]
async fn a_supervised_child_comes_back_when_killed_and_stops_when_told() {
    let stop = CancellationToken::new();
    let (supervisor, task) = supervise(
        |generation| shell(&format!("echo ready {generation}; exec sleep 1000")),
        |probe| async move {
            let line = format!("ready {}", probe.generation);
            probe
                .output
                .find_map(|said| (said == line).then_some(()))
                .is_some()
        },
        always_well,
        quick(),
        stop.clone(),
    );
    let story = async {
        let (first, generation) = supervisor.ready().await.unwrap();
        assert_eq!(generation, 1);
        let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        let mut state = supervisor.state();
        let again = |state: &State| matches!(state, State::Ready { generation: 2, .. });
        let reached = tokio::time::timeout(PATIENCE, state.wait_for(again)).await;
        let State::Ready { pid: second, .. } = *reached.unwrap().unwrap() else {
            panic!("not ready")
        };
        assert_ne!(first, second);
        stop.cancel();
        second
    };
    let (ended, second) = tokio::join!(task, story);
    ended.unwrap();
    assert!(!runs(second));
    assert_eq!(*supervisor.state().borrow(), State::Stopped);
}

#[tokio::test]
async fn what_never_becomes_ready_is_given_up_with_its_last_words() {
    let (supervisor, task) = supervise(
        |_| shell("echo no library >&2; sleep 0.05; exit 2"),
        |_| async { false },
        always_well,
        quick(),
        CancellationToken::new(),
    );
    let text = task.await.unwrap_err().to_string();
    assert!(text.contains("ended 3 times"), "{text}");
    assert!(text.contains("exit status: 2"), "{text}");
    assert!(text.contains("no library"), "{text}");
    assert_eq!(supervisor.ready().await, None);
}

#[tokio::test]
async fn what_is_not_ready_in_time_is_killed() {
    let policy = Policy {
        ready_within: Duration::from_millis(20),
        hopeless_starts: 2,
        ..quick()
    };
    let (_supervisor, task) = supervise(
        |_| shell("exec sleep 1000"),
        |_| async { false },
        always_well,
        policy,
        CancellationToken::new(),
    );
    let text = task.await.unwrap_err().to_string();
    assert!(text.contains("not ready within 20ms"), "{text}");
}

#[tokio::test]
async fn what_says_that_it_is_unwell_is_started_again() {
    let stop = CancellationToken::new();
    let (supervisor, task) = supervise(
        |_| shell("exec sleep 1000"),
        |_| async { true },
        |probe| async move { (probe.generation == 1).then(|| "no room".to_owned()) },
        quick(),
        stop.clone(),
    );
    let mut state = supervisor.state();
    let story = async {
        let waits = |state: &State| matches!(state, State::Waiting { .. });
        let reached = tokio::time::timeout(PATIENCE, state.wait_for(waits)).await;
        let said = reached.unwrap().unwrap().clone();
        let again = |state: &State| matches!(state, State::Ready { generation: 2, .. });
        let reached = tokio::time::timeout(PATIENCE, state.wait_for(again)).await;
        reached.unwrap().unwrap();
        stop.cancel();
        said
    };
    let (ended, said) = tokio::join!(task, story);
    ended.unwrap();
    let State::Waiting { status } = said else {
        panic!("{said:?}")
    };
    assert!(status.starts_with("no room, signal: 15"), "{status}");
    assert!(metrics::RESTARTS.get(metrics::Cause::Unwell) > 0);
}

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

const GRACE: Duration = Duration::from_secs(20);

fn tasks() -> (Tasks, CancellationToken) {
    let stop = CancellationToken::new();
    (Tasks::new(stop.clone()), stop)
}

fn chain(error: &RunError) -> String {
    Chain(error).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_hangs_ends_at_the_deadline_and_is_named() {
    let (tasks, stop) = tasks();
    tasks.spawn("writer", std::future::pending());
    tasks.spawn("intake", async { Ok(()) });
    tasks.spawn("archiver", std::future::pending());
    stop.cancel();
    let failure = tasks.run(GRACE).await.unwrap_err().to_string();
    assert_eq!(
        failure,
        "not drained within 20s: archiver, writer still ran"
    );
}

#[tokio::test(start_paused = true)]
async fn draining_may_take_almost_the_grace() {
    let (tasks, stop) = tasks();
    let token = stop.clone();
    tasks.spawn("slow", async move {
        token.cancelled().await;
        tokio::time::sleep(GRACE.mul_f64(0.99)).await;
        Ok(())
    });
    stop.cancel();
    tasks.run(GRACE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_stop_there_is_no_deadline() {
    let (tasks, _stop) = tasks();
    tasks.spawn("long", async {
        tokio::time::sleep(GRACE * 1000).await;
        Ok(())
    });
    tasks.run(GRACE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_service_stops_the_rest() {
    let (tasks, stop) = tasks();
    let token = stop.clone();
    tasks.spawn("waits", async move {
        token.cancelled().await;
        Ok(())
    });
    tasks.spawn("ends", async { Ok(()) });
    tasks.run(GRACE).await.unwrap();
    assert!(stop.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_stops_nothing() {
    let (tasks, stop) = tasks();
    let token = stop.clone();
    let (begin, later) = (tokio::time::Instant::now(), stop.clone());
    tasks.spawn("service", async move {
        token.cancelled().await;
        Ok(())
    });
    tasks.spawn_job("job", async { Ok(()) });
    tasks.spawn_job("stopper", async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        later.cancel();
        Ok(())
    });
    tasks.run(GRACE).await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_wins_and_keeps_its_cause() {
    let (tasks, stop) = tasks();
    let token = stop.clone();
    tasks.spawn("late", async move {
        token.cancelled().await;
        anyhow::bail!("broke while stopping")
    });
    tasks.spawn_job("early", async {
        Err(anyhow::anyhow!("disk full").context("spool"))
    });
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(chain(&failure), "early failed: spool: disk full");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_with_its_text() {
    let (tasks, _stop) = tasks();
    tasks.spawn("fragile", async { panic!("boom {}", 7) });
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(failure.to_string(), "fragile panicked: boom 7");
}

#[tokio::test(start_paused = true)]
async fn a_visitor_may_fail_alone() {
    let (tasks, stop) = tasks();
    let (spawner, token) = (tasks.spawner(), stop.clone());
    tasks.spawn("listener", async move {
        spawner.spawn_visitor("connection", async { anyhow::bail!("reset") });
        token.cancelled().await;
        Ok(())
    });
    tasks.spawn_job("stopper", async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
        Ok(())
    });
    tasks.run(GRACE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_started_while_running_is_drained_too() {
    let (tasks, stop) = tasks();
    let spawner = tasks.spawner();
    let done = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&done);
    tasks.spawn_job("starter", async move {
        spawner.spawn_job("late", async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            flag.store(true, Ordering::SeqCst);
            Ok(())
        });
        stop.cancel();
        Ok(())
    });
    tasks.run(GRACE).await.unwrap();
    assert!(done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_thread_reports_its_failure_and_its_panic() {
    let (tasks, _stop) = tasks();
    tasks
        .spawn_thread("ring", || anyhow::bail!("no ring"))
        .unwrap();
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(chain(&failure), "ring failed: no ring");

    let tasks = Tasks::new(CancellationToken::new());
    tasks.spawn_thread("ring", || panic!("torn")).unwrap();
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(chain(&failure), "ring failed: panicked: torn");
}

/// Set in the copy of this test program that is interrupted.
const INTERRUPTED: &str = "MEMWIDE_TEST_INTERRUPTED";

#[test]
fn a_second_signal_ends_the_process_at_once() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    if std::env::var_os(INTERRUPTED).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let stop = stop_on_signal().unwrap();
            println!("\nlistening");
            stop.cancelled().await;
            println!("\nstopping");
            std::future::pending::<()>().await; // a drain that hangs
        });
    }
    let mut copy = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("run::tests::a_second_signal_ends_the_process_at_once")
        .env(INTERRUPTED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(copy.id()).unwrap()).unwrap();
    let mut lines = BufReader::new(copy.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        assert!(
            lines.any(|line| line.unwrap() == wanted),
            "it ended without saying `{wanted}`"
        );
    };
    until("listening");
    kill_process(pid, Signal::TERM).unwrap();
    until("stopping");
    // Signals right behind the first one belong to it.
    let status = loop {
        kill_process(pid, Signal::INT).unwrap();
        if let Some(status) = copy.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(i32::from(exit::INTERRUPTED)));
}

//! What collecting costs, beside `perf record` of the same events under the same load.
//!
//! The collector runs as a process of its own, with its spool on disk, and sends over loopback to a decoder in this process
//! that acks. Each load runs small and large: the slope between the two is the cost of a sample, without what starting and
//! stopping cost. CPU time is the scheduler's, in nanoseconds: clock ticks of 10 ms are a third of what is measured. What the
//! kernel does for a recorder in the programs that are sampled, or later for its files, is in nobody's figure. Needs root and
//! perf.
//!
//! ```text
//! make bench
//! MEMWIDE_BENCH_PAGES=200000 cargo bench -p memwide-collector --bench cost     shorter loads
//! MEMWIDE_BENCH_ROW=lean MEMWIDE_BENCH_RUNS=2 …                                one row, fewer runs
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

#[allow(
    dead_code,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "the tests' decoder, of which a bench needs a part"
)]
#[path = "../tests/it/decoder.rs"]
mod decoder;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use decoder::{Manners, Running};
use memwide_collector::{
    BudgetConfig, Config, EventConfig, Reporter, RingConfig, SpoolConfig, run_reporting,
};
use memwide_service::CancellationToken;
use prost::Message as _;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::{ClockId, clock_gettime};

/// Runs of each size, both recorders in turn; the lowest cost counts, as noise only adds.
const RUNS: usize = 5;
/// Faults as the collector takes them, asked of perf.
const PHYSICAL: &[&str] = &[
    "-e",
    "minor-faults",
    "-d",
    "--phys-data",
    "--data-page-size",
];

/// The burst: at least so many samples a second, for so long.
const BURST_RATE: f64 = 300_000.0;
const BURST_SECONDS: u64 = 60;
/// Bytes of the sample ring of each CPU, of both.
const RING_BYTES: u64 = 4 << 20;

/// A load, and what is recorded of it.
struct Row {
    what: &'static str,
    event: EventConfig,
    /// What perf is told.
    perf: &'static [&'static str],
    load: &'static str,
    /// Our cost ÷ perf's, at most.
    target: f64,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: f64,
    samples: f64,
    lost: u64,
    /// Of the load alone.
    seconds: f64,
    /// Sent bytes, and MiB resident without the rings.
    bytes: f64,
    resident: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("load") => load(&arguments[2], arguments[3].parse().unwrap()),
        Some("collect") => collect(&arguments[2], &arguments[3], &arguments[4]),
        _ => measure(),
    }
}

fn measure() {
    let pages: u64 = setting("MEMWIDE_BENCH_PAGES").unwrap_or(2_000_000);
    let runs = setting("MEMWIDE_BENCH_RUNS").unwrap_or(RUNS);
    let only = std::env::var("MEMWIDE_BENCH_ROW").unwrap_or_default();
    let has_perf = Command::new("perf").arg("--version").output().is_ok();
    let rows = [
        Row {
            what: "page faults, lean",
            event: EventConfig::named("page-faults").every(1),
            perf: &["-e", "page-faults", "-d"],
            load: "faults",
            target: 1.2,
        },
        Row {
            what: "minor faults with physical address",
            event: EventConfig::named("minor-faults").every(1),
            perf: PHYSICAL,
            load: "faults",
            target: 1.6,
        },
        Row {
            what: "kmem:mm_page_alloc",
            event: EventConfig::named("kmem:mm_page_alloc").every(1),
            perf: &["-e", "kmem:mm_page_alloc"],
            load: "faults",
            target: 1.6,
        },
        Row {
            what: "sched:sched_switch with callchains",
            event: EventConfig::named("sched:sched_switch")
                .every(1)
                .with_callchain(),
            perf: &["-e", "sched:sched_switch", "-g"],
            load: "switches",
            target: 1.6,
        },
    ];
    println!(
        "CPU seconds for a million samples (slope of two loads, lowest of {runs} runs each)\n"
    );
    println!(
        "{:<36} {:>8} {:>8} {:>6} {:>9} {:>7} {:>10} {:>8} {:>8}",
        "what", "memwide", "perf", "ratio", "samples/s", "lost", "perf lost", "B/sample", "MiB"
    );
    for row in rows.iter().filter(|row| row.what.contains(&only)) {
        let sizes = [pages / 8, pages];
        let (mut own, mut theirs) = ([None; 2], [None; 2]);
        for _ in 0..runs {
            for (at, size) in sizes.into_iter().enumerate() {
                keep(&mut own[at], ours(row, size));
                keep(&mut theirs[at], has_perf.then(|| perf(row, size)).flatten());
            }
        }
        let [Some(small), Some(large)] = own else {
            println!("{:<36} cannot be opened here", row.what);
            continue;
        };
        let theirs = theirs[0]
            .zip(theirs[1])
            .map(|(small, large)| [small, large]);
        let slope = |small: Cost, large: Cost| {
            (large.cpu - small.cpu) / (large.samples - small.samples) * 1e6
        };
        let own = slope(small, large);
        let other = theirs.map(|[small, large]| (slope(small, large), large.lost));
        println!(
            "{:<36} {own:>8.4} {:>8} {:>6} {:>9.0} {:>7} {:>10} {:>8.1} {:>8.0}",
            row.what,
            other.map_or_else(|| "-".to_owned(), |(cpu, _)| format!("{cpu:.4}")),
            other.map_or_else(|| "-".to_owned(), |(cpu, _)| format!("{:.2}", own / cpu)),
            large.samples / large.seconds,
            large.lost,
            other.map_or_else(|| "-".to_owned(), |(_, lost)| lost.to_string()),
            large.bytes / large.samples,
            large.resident,
        );
        if let Some((cpu, _)) = other {
            let met = if own / cpu <= row.target {
                "met"
            } else {
                "missed"
            };
            println!("{:<36} target: ratio at most {:.1}: {met}", "", row.target);
        }
    }
    if only.is_empty() || "burst".contains(&only) {
        burst();
    }
}

/// Faults as fast as all CPUs can, for a minute: nothing may be lost while the programs compete with the collector.
fn burst() {
    let row = Row {
        what: "burst",
        event: EventConfig::named("minor-faults").every(1),
        perf: PHYSICAL,
        load: "seconds",
        target: 0.0,
    };
    println!("\nfaults at full speed for {BURST_SECONDS} s, each a sample");
    let told = |who: &str, cost: Option<Cost>| {
        let Some(cost) = cost else {
            println!("{who:<10} cannot be opened here");
            return;
        };
        let rate = cost.samples / cost.seconds;
        println!(
            "{who:<10} {rate:>9.0} samples/s, {} of {:.0} lost, {:.4} CPU s/M, {:.0} MiB",
            cost.lost,
            cost.samples,
            cost.cpu / cost.samples * 1e6,
            cost.resident,
        );
        if who == "memwide" {
            let met = cost.lost == 0 && rate >= BURST_RATE;
            let met = if met { "met" } else { "missed" };
            println!(
                "{:<10} target: {BURST_RATE:.0} samples/s, none lost: {met}",
                ""
            );
        }
    };
    told("memwide", ours(&row, BURST_SECONDS));
    told("perf", perf(&row, BURST_SECONDS));
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Keeps the cheaper one.
fn keep(best: &mut Option<Cost>, cost: Option<Cost>) {
    let best_cpu = best.map_or(f64::INFINITY, |best| best.cpu);
    if let Some(cost) = cost.filter(|cost| cost.cpu < best_cpu) {
        *best = Some(cost);
    }
}

fn ours(row: &Row, size: u64) -> Option<Cost> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        // A pipeline commits every two seconds.
        let manners = Manners {
            ack_every: 64,
            ..Manners::default()
        };
        let decoder = Running::start(manners).await;
        let event = serde_json::to_string(&row.event).unwrap();
        let spool = folder.path().join("spool");
        let mut child = again(&["collect", &decoder.endpoint, spool.to_str()?, &event]);
        let is_there = |got: &decoder::Got| got.batches.values().any(|all| all.len() > 1);
        for _ in 0..1_000 {
            if is_there(&decoder.got()) || child.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        let mut asked = Asked::new(&mut child);
        let before = asked.cpu();
        let skip = decoder.got().batches.values().map(Vec::len).sum::<usize>();
        let started = Instant::now();
        let load = tokio::task::spawn_blocking({
            let load = row.load;
            move || run_load(load, size)
        });
        load.await.unwrap();
        let seconds = started.elapsed().as_secs_f64();
        // What is in the rings is sent within a batch or two.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let cpu = asked.cpu() - before;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let high = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let resident: f64 = high?.split_whitespace().next()?.parse().unwrap();
        // Its input's end stops it.
        drop(asked);
        child.wait().unwrap();
        let got = decoder.got();
        let batches: Vec<_> = got.batches.values().flatten().skip(skip).collect();
        let counts = || batches.iter().flat_map(|batch| &batch.counts);
        let bytes: usize = batches.iter().map(|batch| batch.encoded_len()).sum();
        Some(Cost {
            cpu,
            samples: counts().map(|count| count.produced).sum::<u64>() as f64,
            lost: counts().map(|count| count.lost).sum(),
            seconds,
            bytes: bytes as f64,
            resident: resident / 1024.0,
        })
    })
}

fn perf(row: &Row, size: u64) -> Option<Cost> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let program = std::env::current_exe().unwrap();
    let started = Instant::now();
    let pages = (RING_BYTES / 4096).to_string();
    let mut child = Command::new("perf")
        .args(["record", "-q", "-a", "-c", "1", "-B", "-N", "-m", &pages])
        .args(row.perf)
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(&program)
        .args(["load", row.load, &size.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let cpu = cpu_of_ended(&child);
    if !child.wait().unwrap().success() {
        return None;
    }
    let seconds = started.elapsed().as_secs_f64();
    let said = Command::new("perf")
        .args(["report", "--stats", "-i"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let number = |name: &str| -> Option<u64> {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(name))?;
        line.split(':')
            .nth(1)?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    Some(Cost {
        cpu,
        samples: number("SAMPLE events")? as f64,
        lost: number("LOST events").unwrap_or(0),
        seconds,
        bytes: std::fs::metadata(&file).unwrap().len() as f64,
        resident: 0.0,
    })
}

fn run_load(load: &str, size: u64) {
    let mut child = again(&["load", load, &size.to_string()]);
    assert!(child.wait().unwrap().success());
}

fn again(arguments: &[&str]) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn load(what: &str, size: u64) {
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    match what {
        "faults" => {
            let threads = (0..cpus).map(|_| std::thread::spawn(move || touch(size / cpus)));
            let threads: Vec<_> = threads.collect();
            for one in threads {
                one.join().unwrap();
            }
        }
        "seconds" => {
            let end = Instant::now() + Duration::from_secs(size);
            let threads = (0..cpus).map(|_| {
                std::thread::spawn(move || {
                    while Instant::now() < end {
                        touch(10_000);
                    }
                })
            });
            let threads: Vec<_> = threads.collect();
            for one in threads {
                one.join().unwrap();
            }
        }
        _ => switch(size / 8),
    }
}

/// Touches fresh pages.
fn touch(pages: u64) {
    const CHUNK: usize = 1_000;
    for _ in 0..pages / CHUNK as u64 {
        let mut memory = memmap2::MmapOptions::new()
            .len(CHUNK * 4096)
            .map_anon()
            .unwrap();
        for at in (0..memory.len()).step_by(4096) {
            memory[at] = 1;
        }
    }
}

/// Two threads wake each other through pipes.
fn switch(times: u64) {
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut byte = [1];
    for _ in 0..times {
        here.write_all(&byte).unwrap();
        here.read_exact(&mut byte).unwrap();
    }
    drop(here);
    other.join().unwrap();
}

fn collect(endpoint: &str, spool: &str, event: &str) {
    let config = Config {
        endpoint: endpoint.to_owned(),
        spool: SpoolConfig {
            dir: spool.into(),
            ..SpoolConfig::default()
        },
        rings: RingConfig {
            sample_bytes: RING_BYTES,
            ..RingConfig::default()
        },
        events: vec![serde_json::from_str(event).unwrap()],
        budget: BudgetConfig {
            govern: false,
            ..BudgetConfig::default()
        },
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stop = CancellationToken::new();
    let ended = stop.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            line.unwrap();
            let time = clock_gettime(ClockId::ProcessCPUTime);
            println!("{}", time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
        }
        ended.cancel();
    });
    let (reporter, _status) = Reporter::new();
    runtime
        .block_on(run_reporting(config, reporter, stop))
        .unwrap();
}

/// A collector that is asked what CPU time it took, all its threads together.
struct Asked {
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Asked {
    fn new(child: &mut Child) -> Self {
        Self {
            ask: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
        }
    }

    fn cpu(&mut self) -> f64 {
        self.ask.write_all(b"\n").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().parse().unwrap()
    }
}

/// CPU seconds of a child of one thread, without its own children, once it has ended; it is still to be waited for.
fn cpu_of_ended(child: &Child) -> f64 {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), ended).unwrap();
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

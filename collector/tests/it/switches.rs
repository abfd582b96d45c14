//! Switches of some threads, on this machine.

use std::time::Duration;

use memwide_collector::{Config, EventConfig, Reporter, probe, run_reporting};
use memwide_perf_abi::{Attr, Records, SampleLayout, SampleView, kind};
use memwide_proto::v1::EventDesc;
use memwide_service::CancellationToken;

use crate::decoder::{Manners, Running, unpack};
use crate::live::config;

const NAME: &str = "sched:sched_switch/threads=2/";
/// Waits of a thread of ours.
const WAITS: usize = 50;

/// Sleeps again and again in a thread whose number is odd, and says the number.
fn wait_in_an_odd_thread() -> u32 {
    loop {
        let thread = std::thread::spawn(|| {
            let tid = u32::try_from(own_tid()).unwrap();
            if tid % 2 == 1 {
                for _ in 0..WAITS {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            tid
        });
        let tid = thread.join().unwrap();
        if tid % 2 == 1 {
            return tid;
        }
    }
}

fn own_tid() -> i32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Where the tracepoint's data say who comes.
fn next_pid_at(event: &EventDesc) -> usize {
    let (_, rest) = event.format.split_once("next_pid;").unwrap();
    let (_, rest) = rest.split_once("offset:").unwrap();
    rest.split_once(';').unwrap().0.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_switch_of_the_chosen_threads_comes_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = Config {
        events: vec![EventConfig::named(NAME).with_callchain()],
        budget: memwide_collector::BudgetConfig {
            cpu_percent: 1e6,
            handler_percent: 1e6,
            bytes_per_second: 1 << 40,
            ..memwide_collector::BudgetConfig::default()
        },
        ..config(&decoder.endpoint, folder.path())
    };
    let rows = probe(&config);
    let row = rows.iter().find(|row| row.name == NAME).unwrap();
    if !row.available {
        eprintln!("skipped: {}", row.reason);
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status.wait_for(|status| status.batches > 0).await.unwrap();
    let waiting = tokio::task::spawn_blocking(wait_in_an_odd_thread);
    let mine = waiting.await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();

    let epoch = status.borrow().source.unwrap().epoch;
    let got = decoder.got();
    let batches = &got.batches[&epoch];
    let event = batches[0]
        .events
        .iter()
        .find(|event| event.name == NAME)
        .unwrap();
    assert_eq!(event.population, "", "of some threads only");
    let layout = SampleLayout::new(&Attr::parse(&event.attr).unwrap()).unwrap();
    let next_pid_at = next_pid_at(event);
    let (mut left, mut came, mut lost) = (0, 0, 0);
    for batch in batches {
        let counts = batch
            .counts
            .iter()
            .filter(|count| count.event == event.ordinal);
        for count in counts {
            assert_eq!(count.period, 1, "each of them from the start");
            lost += count.lost + count.residue;
        }
        let bytes = unpack(batch.samples.as_ref().unwrap());
        for record in Records::new(&bytes).map(Result::unwrap) {
            if record.kind != kind::SAMPLE {
                continue;
            }
            let sample = SampleView::parse(record.body(), &layout).unwrap();
            let raw = sample.raw().unwrap();
            let next = raw[next_pid_at..next_pid_at + 4].try_into().unwrap();
            let (leaves, comes) = (sample.tid().unwrap(), u32::from_le_bytes(next));
            assert!(
                leaves % 2 == 1 || comes % 2 == 1,
                "{leaves} leaves for {comes}"
            );
            left += usize::from(leaves == mine);
            came += usize::from(comes == mine);
        }
    }
    assert!(left >= WAITS, "left {left}, came {came}, {lost} lost");
    // Some kernels do not record when the idle task of a CPU leaves: who comes then is not seen, and where that is is chance.
    if came < WAITS {
        eprintln!("of {left} waits {came} were seen to end: the idle task is not seen to leave");
    }
}

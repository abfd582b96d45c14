//! Samples of those who are asked for, on this machine.

use memwide_collector::{Config, EventConfig, Mode, Reporter, SelectConfig, run_reporting};
use memwide_perf_abi::{Attr, Records, SampleLayout, SampleView, kind, misc};
use memwide_service::CancellationToken;

use crate::decoder::{Manners, Running, unpack};
use crate::live::{config, fault, possible};

const PAGES: usize = 20_000;

/// Samples of this process and of others, and those of the kernel's mode among them.
async fn collect(select: SelectConfig) -> Option<(u64, u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = Config {
        select,
        events: vec![EventConfig::named("minor-faults").every(1)],
        ..config(&decoder.endpoint, folder.path())
    };
    if !possible(&config) {
        return None;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status
        .wait_for(|status| status.connected && status.batches > 0)
        .await
        .unwrap();
    tokio::task::spawn_blocking(|| {
        fault(PAGES);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "for i in 1 2 3; do /bin/true; done"]);
        assert!(shell.status().unwrap().success());
    })
    .await
    .unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    let said = status.borrow().clone();
    let got = decoder.got();
    let batches = &got.batches[&said.source.unwrap().epoch];
    let layout = Attr::parse(&batches[0].events[1].attr).unwrap();
    let layout = SampleLayout::new(&layout).unwrap();
    let (mut own, mut others, mut kernel, mut produced, mut residue) = (0, 0, 0, 0, 0);
    for batch in batches {
        let bytes = unpack(batch.samples.as_ref().unwrap());
        for record in Records::new(&bytes).map(Result::unwrap) {
            if record.kind != kind::SAMPLE {
                continue;
            }
            let sample = SampleView::parse(record.body(), &layout).unwrap();
            if sample.pid() == Some(std::process::id()) {
                own += 1;
            } else {
                others += 1;
            }
            kernel += u64::from(record.misc & misc::CPUMODE_MASK == misc::KERNEL);
        }
        for count in &batch.counts {
            produced += count.produced;
            residue += count.residue;
        }
    }
    assert_eq!(own + others, produced, "what is counted is what is sent");
    // What is left out is not missing; another recorder on the machine leaves a few that are.
    assert!(residue < 100, "{residue} are missing without a word");
    Some((own, others, kernel))
}

fn rules(rules: &[String]) -> SelectConfig {
    SelectConfig {
        include: rules.to_vec(),
        ..SelectConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_asked_for_is_kept_and_nothing_is_missing() {
    let pid = std::process::id();
    let Some((own, others, _)) = collect(rules(&[format!("pid={pid}")])).await else {
        return;
    };
    assert!(own >= PAGES as u64, "{own} of {PAGES}");
    assert_eq!(others, 0);
    let all_but = SelectConfig {
        exclude: vec![format!("pid={pid}")],
        ..SelectConfig::default()
    };
    let (own, others, _) = collect(all_but).await.unwrap();
    assert_eq!(own, 0);
    assert!(others > 100, "{others} of shells");
    let user = SelectConfig {
        modes: vec![Mode::User],
        ..rules(&["comm=true".to_owned()])
    };
    let (own, others, kernel) = collect(user).await.unwrap();
    assert_eq!((own, kernel), (0, 0));
    assert!((60..3_000).contains(&others), "{others} of three programs");
}

//! `export/perf-data` is a file that perf reads, with the samples that are stored.

use std::process::Command;

use crate::count::Sample;
use crate::support::{Running, running};
use crate::truth::{ALL, HOSTILE, rows};

fn perf(args: &[&str], file: &std::path::Path) -> Option<String> {
    let run = Command::new("perf")
        .args(args)
        .arg("-f")
        .arg("-i")
        .arg(file)
        .output();
    let Ok(output) = run else {
        eprintln!("skipped: there is no perf to read the file");
        return None;
    };
    assert!(
        output.status.success(),
        "perf {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn perf_reads_the_samples_that_are_stored() {
    let Some(running) = running().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let reply = running
        .get(&format!(
            "/api/v1/export/perf-data?{ALL}&host=alpha&comm=main"
        ))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let folded = running
        .get(&format!("/api/v1/export/folded?{ALL}&host=alpha&comm=main"))
        .await;
    assert!(reply.completeness.is_some());
    assert_eq!(reply.completeness, folded.completeness, "of the one host");
    std::fs::write(&file, &reply.body).unwrap();
    let mut of_host: Vec<Sample> = rows()
        .filter(|row| row.host == "alpha" && row.comm == "main")
        .collect();
    of_host.sort_by_key(|row| row.time);
    let fields = "comm,pid,tid,cpu,time,event,period,addr,weight,phys_addr,data_page_size";
    if let Some(text) = perf(&["script", "-G", "--ns", "-F", fields], &file) {
        let found: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(found.len(), of_host.len());
        for (words, row) in found.iter().zip(&of_host) {
            let expected = [
                row.comm.to_owned(),
                format!("{}/{}", row.pid, row.tid),
                format!("[{:03}]", row.cpu),
                format!(
                    "{}.{:09}:",
                    row.time / 1_000_000_000,
                    row.time % 1_000_000_000
                ),
                row.period.to_string(),
                format!("{}:", row.event),
                format!("{:x}", row.addr),
                row.weight.to_string(),
                format!("{:x}", row.phys_addr),
                "4K".to_owned(),
            ];
            assert_eq!(*words, expected);
        }
        let report = perf(
            &["report", "--stdio", "--sort", "pid", "-F", "sample,pid"],
            &file,
        )
        .unwrap();
        let sums: usize = report
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_whitespace().next()?.parse::<usize>().ok())
            .sum();
        assert_eq!(sums, of_host.len(), "{report}");
    }
    refused(&running).await;
    running.stop().await;
}

async fn refused(running: &Running) {
    for (filter, status, says) in [
        ("", 400, "alpha, beta, gamma"),
        ("&host=alpha,beta", 400, "choose one with `host`"),
        ("&host=none", 404, "no sample of"),
    ] {
        let reply = running
            .get(&format!("/api/v1/export/perf-data?{ALL}{filter}"))
            .await;
        assert_eq!(reply.status, status, "{filter}");
        assert!(reply.text().contains(says), "{}", reply.text());
    }
    let hostile = crate::support::encoded(HOSTILE);
    let reply = running
        .get(&format!(
            "/api/v1/export/perf-data?{ALL}&host=beta&comm={hostile}"
        ))
        .await;
    assert_eq!(reply.status, 200, "names are bytes: {}", reply.text());
}

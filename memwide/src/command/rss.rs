//! `memwide rss`: what made resident memory grow.

use super::of_server;
use super::on_file::{Answer, OnFile};
use crate::cli::RssArgs;
use crate::failure::Failure;
use crate::output::{Listing, Section, grouped, width};
use memwide_analysis::rss::{Change, Rss, SKIP, member_name, wanted};
use memwide_analysis::site::{Site, Wanted};
use memwide_analysis::tracepoints::{Tracepoints, is_whole};
use memwide_perf_abi::tracepoint::TracepointEvent;
use serde_json::json;

/// Processes shown in text.
const PROCESSES: usize = 20;

pub(crate) fn run(args: &RssArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("rss", &args.file) {
        return answered;
    }
    let mut file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let mut only = file.take_sites();
    let recording = file.recording();
    let tracing = recording.tracing_data().map(AsRef::as_ref);
    let tracepoints = Tracepoints::new(recording.events(), tracing);
    let (mut rss, mut changes, mut partial) = (Rss::default(), 0_u64, false);
    let callers = args.sites.callers;
    let mut buffer = String::new();
    let sites = Wanted {
        skip: &SKIP,
        over: &[],
        callers,
    };
    let mut left = file.each(|sample| {
        if let Some(TracepointEvent::RssStat(stat)) = tracepoints.read(sample) {
            let site = Site::of(sample, sites, &mut buffer);
            if !only.takes(&site) {
                return;
            }
            changes += 1;
            partial |= !is_whole(sample.event);
            rss.add(&Change {
                space: stat.mm_id,
                own: stat.current.unwrap_or(true),
                pid: sample.pid().unwrap_or(0),
                comm: sample.comm,
                member: stat.member,
                bytes: stat.bytes,
                site,
            });
        }
    })?;
    left.unfit |= only.unfit();
    let mut listing = Listing::default()
        .column("net_bytes", "net", "bytes")
        .wide("grown_bytes", "grown", "bytes")
        .wide("shrunk_bytes", "shrunk", "bytes")
        .column("changes", "changes", "n")
        .column("memory", "memory", "")
        .column("comm", "comm", "")
        .column("function", "function", "")
        .wide("callers", "called by", "")
        .wide("dso", "object", "")
        .wide("kernel", "in the kernel", "");
    for row in rss.sites() {
        listing.push(vec![
            (row.grown - row.shrunk).into(),
            row.grown.into(),
            row.shrunk.into(),
            row.n.into(),
            member_name(row.member).into(),
            row.comm.into(),
            row.site.function.into(),
            row.site.callers.into(),
            row.site.dso.into(),
            row.site.kernel.into(),
        ]);
    }
    let mut processes = Listing::default()
        .column("pid", "pid", "")
        .column("comm", "comm", "")
        .column("memory", "memory", "")
        .column("first_bytes", "first", "bytes")
        .column("last_bytes", "last", "bytes")
        .column("peak_bytes", "peak", "bytes")
        .wide("changes", "changes", "n");
    for history in rss.histories() {
        processes.push(vec![
            history.pid.to_string().into(),
            history.comm.into(),
            member_name(history.member).into(),
            history.first.into(),
            history.last.into(),
            history.peak.into(),
            history.n.into(),
        ]);
    }
    let processes = processes.limited(args.file.rows.limit(), &mut Vec::new());
    let mut notes = vec![format!("{} changes of counters", grouped(changes))];
    if changes == 0 {
        notes.push(
            "this file has no kmem:rss_stat event; record with -e kmem:rss_stat -g".to_owned(),
        );
    }
    if rss.foreign() > 0 {
        notes.push(format!(
            "{} changes by others than the owner (reclaim, start of a program): in the processes, at no site",
            grouped(rss.foreign())
        ));
    }
    if partial {
        notes.push(
            "not every change was recorded: what happened between is put down to the next site"
                .to_owned(),
        );
    }
    let shown = processes.clone().limited(PROCESSES, &mut Vec::new());
    Answer {
        listing,
        more: vec![Section {
            title: "Counters of processes, the largest change first".to_owned(),
            about: Vec::new(),
            table: shown.table(width()),
        }],
        json: json!({"changes": changes, "foreign": rss.foreign(), "processes": processes.json()}),
        notes,
        ..Answer::default()
    }
    .finish(left, &args.file.rows)
}

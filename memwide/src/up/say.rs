//! What `up` tells a person. The line `ready: URL` is for programs too.

use super::place::Place;
use super::services::Services;
use crate::output::grouped;
use memwide_collector::{EventStatus, Status};
use memwide_proto::v1::Capability;
use memwide_service::build_info::VERSION;
use std::io::Write as _;
use std::time::Duration;

/// Nobody reads any more: nothing to do about it.
fn say(text: &str) {
    let mut out = anstream::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

pub(super) fn starting(place: &Place) {
    say(&format!(
        "memwide {VERSION}, data in {}",
        place.root().display()
    ));
    say("starting nats-server and the store …");
}

pub(super) fn collecting(services: &Services) {
    say(&collects(services));
}

/// What is collected, in which tier, and why not better.
pub(super) fn collects(services: &Services) -> String {
    let mut text = match (services.collector(), services.collector_failure()) {
        (None, _) => "not collecting on this machine (--no-collect)".to_owned(),
        (Some(_), Some(why)) => format!("not collecting on this machine: {why}"),
        (Some(status), None) => plan(&status),
    };
    if services.demo() {
        text.push_str("\nsimulating 8 two-socket hosts, demo-1 … demo-8 (kind `simulated` in `memwide hosts`)");
    }
    text
}

/// Events with tier and period, then what is missing and the remedy.
fn plan(status: &Status) -> String {
    let mut text = format!("collecting on {}:", status.hostname);
    for event in &status.events {
        text.push_str(&format!(
            "\n  {:<28} {:<9} {}",
            event.name,
            event.tier,
            rate(event)
        ));
    }
    let missing: Vec<&Capability> = status
        .capabilities
        .iter()
        .filter(|row| !row.available && !row.reason.is_empty())
        .collect();
    if !missing.is_empty() {
        text.push_str("\nwhy not better (memwide doctor says more):");
        for row in missing {
            text.push_str(&format!("\n  {:<28} {}", row.name, row.reason));
            if !row.remedy.is_empty() {
                text.push_str(&format!("; {}", row.remedy));
            }
        }
    }
    text
}

fn rate(event: &EventStatus) -> String {
    match event.period {
        0 => format!("on {} CPUs", event.cpus),
        1 => format!("every event, on {} CPUs", event.cpus),
        period => format!("one of {} events, on {} CPUs", grouped(period), event.cpus),
    }
}

pub(super) fn silent(services: &Services, waited: Duration) {
    let sent = services.collector().map_or(0, |status| status.samples());
    say(&format!(
        "no rows yet after {} s; the collector here has taken {} samples",
        waited.as_secs(),
        grouped(sent)
    ));
}

pub(super) fn ready(url: &str, ingest: &str) {
    say(&format!(
        "page, API, SQL and query gRPC at {url}/, ingest gRPC at {ingest}"
    ));
    let server = if url.ends_with(crate::cli::DEFAULT_LISTEN) {
        String::new()
    } else {
        format!("export MEMWIDE_SERVER={url}; ")
    };
    say(&format!(
        "try: {server}memwide top, memwide hosts, memwide sql \"select * from functions limit 5\"; ctrl-c stops"
    ));
    say(&format!("ready: {url}"));
}

pub(super) fn stopping() {
    say(
        "stopping: what is under way is flushed, the rest stays in the spool (ctrl-c again: at once)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_model::Tier;

    #[test]
    fn the_plan_names_tier_period_and_remedy() {
        let status = Status {
            hostname: "web-1".to_owned(),
            events: vec![EventStatus {
                name: "minor-faults".to_owned(),
                pmu: "software".to_owned(),
                tier: Tier::Software,
                period: 19,
                cpus: 2,
                samples: 0,
                lost: 0,
            }],
            capabilities: vec![Capability {
                name: "pebs-loads".to_owned(),
                tier: "precise".to_owned(),
                available: false,
                reason: "no PMU".to_owned(),
                remedy: "run on bare metal".to_owned(),
            }],
            ..Status::default()
        };
        let text = plan(&status);
        for part in [
            "collecting on web-1",
            "software",
            "one of 19 events, on 2 CPUs",
            "no PMU; run on bare metal",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}

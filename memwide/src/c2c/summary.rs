//! The summary, with perf's words.

use super::{Answer, grouping};
use crate::output::{Section, grouped};
use memwide_analysis::sharing::{Counter as C, Counts, Display, Shared};

/// Text of one line of the summary is this wide.
const LINE: usize = 47;

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} %", part as f64 / whole as f64 * 100.0)
    }
}

/// Everything, by kind of access.
pub(super) fn events(answer: &Answer<'_>) -> Section {
    let n = answer.lines.total();
    let misses = n.llc_misses();
    let of_misses = |counter| share(n.get(counter), misses);
    let count = |counter| grouped(n.get(counter));
    let lines = [
        ("Total records", count(C::Entries)),
        ("Locked Load/Store Operations", count(C::Locks)),
        ("Load Operations", count(C::Load)),
        ("Loads - uncacheable", count(C::LoadUncached)),
        ("Loads - IO", count(C::LoadIo)),
        ("Loads - Miss", count(C::LoadMiss)),
        ("Loads - no mapping", count(C::LoadNoAddress)),
        ("Load Fill Buffer Hit", count(C::LoadFillBuffer)),
        ("Load L1D hit", count(C::LoadL1)),
        ("Load L2D hit", count(C::LoadL2)),
        (
            "Load LLC hit",
            grouped(n.get(C::LoadL3) + n.get(C::LocalHitm)),
        ),
        ("Load Local HITM", count(C::LocalHitm)),
        ("Load Remote HITM", count(C::RemoteHitm)),
        ("Load Remote HIT", count(C::RemoteHit)),
        ("Load Local DRAM", count(C::LocalDram)),
        ("Load Remote DRAM", count(C::RemoteDram)),
        ("Load MESI State Exclusive", count(C::LoadExclusive)),
        ("Load MESI State Shared", count(C::LoadShared)),
        ("Load LLC Misses", grouped(misses)),
        ("Load access blocked by data", count(C::BlockedData)),
        ("Load access blocked by address", count(C::BlockedAddress)),
        ("Load HIT Local Peer", count(C::LocalPeer)),
        ("Load HIT Remote Peer", count(C::RemotePeer)),
        ("LLC Misses to Local DRAM", of_misses(C::LocalDram)),
        ("LLC Misses to Remote DRAM", of_misses(C::RemoteDram)),
        ("LLC Misses to Remote cache (HIT)", of_misses(C::RemoteHit)),
        (
            "LLC Misses to Remote cache (HITM)",
            of_misses(C::RemoteHitm),
        ),
        ("Store Operations", count(C::Store)),
        ("Store - uncacheable", count(C::StoreUncached)),
        ("Store - no mapping", count(C::StoreNoAddress)),
        ("Store L1D Hit", count(C::StoreL1Hit)),
        ("Store L1D Miss", count(C::StoreL1Miss)),
        ("Store No available memory level", count(C::StoreNoLevel)),
        ("No Page Map Rejects", count(C::NoMap)),
        ("Unable to parse data source", count(C::NoParse)),
    ];
    section("Trace Event Information", &lines, answer.width)
}

/// The lines that are passed round, together.
pub(super) fn shared(answer: &Answer<'_>, shared: &Shared<'_>) -> Section {
    let n = &shared.counts;
    let count = |counter| grouped(n.get(counter));
    let lines = [
        ("Total Shared Cache Lines", grouped(shared.lines)),
        ("Load HITs on shared lines", count(C::Load)),
        ("Fill Buffer Hits on shared lines", count(C::LoadFillBuffer)),
        ("L1D hits on shared lines", count(C::LoadL1)),
        ("L2D hits on shared lines", count(C::LoadL2)),
        (
            "LLC hits on shared lines",
            grouped(n.get(C::LoadL3) + n.get(C::LocalHitm)),
        ),
        ("Load hits on peer cache or nodes", count(C::Peer)),
        ("Locked Access on shared lines", count(C::Locks)),
        ("Blocked Access on shared lines", grouped(blocked(n))),
        ("Store HITs on shared lines", count(C::Store)),
        ("Store L1D hits on shared lines", count(C::StoreL1Hit)),
        ("Store No available memory level", count(C::StoreNoLevel)),
        ("Total Merged records", grouped(merged(n))),
    ];
    section(
        "Global Shared Cache Line Event Information",
        &lines,
        answer.width,
    )
}

pub(super) fn blocked(counts: &Counts) -> u64 {
    counts.get(C::BlockedData) + counts.get(C::BlockedAddress)
}

pub(super) fn merged(counts: &Counts) -> u64 {
    counts.get(C::LocalHitm) + counts.get(C::RemoteHitm) + counts.get(C::Store)
}

/// What was recorded and how it is grouped.
pub(super) fn details(answer: &Answer<'_>) -> Section {
    let events = answer.events.events().iter();
    let events: Vec<&str> = events.map(|event| event.name.as_str()).collect();
    let sorted = match answer.display {
        Display::Total => "Total HITMs",
        Display::Local => "Local HITMs",
        Display::Remote => "Remote HITMs",
        Display::Peer => "Peer Snoop",
    };
    let about = vec![
        format!("Events: {}", events.join(", ")),
        format!(
            "Cachelines sort on: {sorted}; data grouping: {}; {} bytes a line",
            grouping(answer.coalesce),
            answer.lines.size().bytes()
        ),
    ];
    Section {
        title: "c2c details".to_owned(),
        about,
        ..Section::default()
    }
}

/// Label and number, in two columns where there is room.
fn section(title: &str, lines: &[(&str, String)], width: usize) -> Section {
    let line = |(label, value): &(&str, String)| {
        let room = LINE.saturating_sub(label.chars().count());
        format!("{label}{value:>room$}")
    };
    let all: Vec<String> = lines.iter().map(line).collect();
    let about = if width >= 2 * LINE + 4 {
        let (left, right) = all.split_at(all.len().div_ceil(2));
        let empty = String::new();
        let right = right.iter().chain(std::iter::once(&empty));
        left.iter()
            .zip(right)
            .map(|(left, right)| format!("{left}    {right}").trim_end().to_owned())
            .collect()
    } else {
        all
    };
    Section {
        title: title.to_owned(),
        about,
        ..Section::default()
    }
}

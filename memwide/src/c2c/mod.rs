//! Shared cache lines as tables, JSON and CSV.

mod json;
mod nodes;
mod summary;
mod tables;

use crate::cli::Format;
use crate::output::{Document, Section};
use crate::recording::Leftovers;
use crate::report::completeness;
use memwide_analysis::report::Nodes;
use memwide_analysis::sharing::{
    Coalesce, Counter, Display, Evidence, Kind, LineRow, Lines, Shared, Verdict,
};
use memwide_model::Region;
use memwide_perf_abi::file::EventTable;
pub(crate) use nodes::NodeInfo;
use serde_json::{Value, json};

/// What was found, and how it is to be shown.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) lines: &'a Lines,
    pub(crate) display: Display,
    pub(crate) coalesce: Coalesce,
    pub(crate) events: &'a EventTable,
    pub(crate) nodes: &'a Nodes,
    /// What is said of them.
    pub(crate) node_info: NodeInfo,
    /// Also lines that are not shared.
    pub(crate) all: bool,
    pub(crate) stats_only: bool,
    /// Lines at most, and in text also sites of a line.
    pub(crate) limit: Option<usize>,
    /// Columns of the terminal.
    pub(crate) width: usize,
}

/// Lines shown one by one in text, and sites of each, unless asked otherwise.
const LINES_IN_TEXT: usize = 10;
const SITES_IN_TEXT: usize = 20;

/// The whole answer, in one format: there may be very many lines and sites.
pub(crate) fn document(answer: &Answer<'_>, left: &Leftovers, format: Format) -> Document {
    let limit = answer.limit.unwrap_or(usize::MAX);
    let shared = answer
        .lines
        .shared(answer.display, answer.coalesce, answer.all);
    let lines = shared.listed.iter().take(limit);
    let lines: Vec<(usize, &LineRow<'_>)> = lines.enumerate().collect();
    let written = shared.written.iter().take(limit);
    let written: Vec<(usize, &LineRow<'_>)> = written.enumerate().collect();
    let mut document = Document::default();
    match format {
        Format::Json => document.json = whole(answer, left, &shared, [&lines, &written]),
        Format::Csv if answer.stats_only => document.csv = json::csv_of_stats(answer, &shared),
        Format::Csv => document.csv = json::csv(answer, &lines),
        Format::Table => {
            document.sections = sections(answer, &shared, [&lines, &written]);
            document.notes = notes(answer, &shared, [lines.len(), written.len()]);
        }
    }
    document
}

/// The JSON document.
fn whole(
    answer: &Answer<'_>,
    left: &Leftovers,
    shared: &Shared<'_>,
    [lines, written]: [&[(usize, &LineRow<'_>)]; 2],
) -> Value {
    let all = |rows: &[(usize, &LineRow<'_>)]| -> Vec<Value> {
        let rows = rows.iter();
        rows.map(|(at, line)| json::line(answer, *at, line))
            .collect()
    };
    json!({
        "summary": json::summary(answer),
        "shared": json::shared(shared),
        "details": details(answer),
        "lines": all(lines),
        "written": all(written),
        "notes": nodes::note(answer).into_iter().collect::<Vec<_>>(),
        "completeness": completeness(left),
    })
}

/// What people read.
fn sections(
    answer: &Answer<'_>,
    shared: &Shared<'_>,
    [lines, written]: [&[(usize, &LineRow<'_>)]; 2],
) -> Vec<Section> {
    let mut sections = vec![
        summary::events(answer),
        summary::shared(answer, shared),
        summary::details(answer),
    ];
    if answer.stats_only {
        return sections;
    }
    sections.extend(verdicts(answer, shared));
    let most = answer.limit.unwrap_or(SITES_IN_TEXT);
    if !lines.is_empty() {
        sections.push(tables::lines(answer, lines));
        let one_by_one = lines.iter().take(answer.limit.unwrap_or(LINES_IN_TEXT));
        sections.extend(one_by_one.map(|(at, line)| tables::sites(answer, *at, line, most)));
    }
    if !written.is_empty() {
        sections.push(tables::written(written));
    }
    sections
}

/// What is not shown.
fn notes(answer: &Answer<'_>, shared: &Shared<'_>, [lines, written]: [usize; 2]) -> Vec<String> {
    let mut notes: Vec<String> = nodes::note(answer).into_iter().collect();
    for (all, shown, what) in [
        (
            shared.listed.len(),
            lines.min(answer.limit.unwrap_or(LINES_IN_TEXT)),
            "shared",
        ),
        (shared.written.len(), written, "written"),
    ] {
        if all > shown && !answer.stats_only {
            notes.push(format!(
                "{shown} of {all} {what} lines shown one by one; --limit N shows N"
            ));
        }
    }
    let other = answer.lines.other().get(Counter::Entries);
    if other > 0 {
        notes.push(format!(
            "{other} samples fell on lines beyond the {} told apart: in the summary, not in the lines",
            answer.lines.count()
        ));
    }
    notes
}

fn details(answer: &Answer<'_>) -> Value {
    let events = answer.events.events().iter();
    json!({
        "events": events.map(|event| event.name.as_str()).collect::<Vec<_>>(),
        "display": answer.display.name(),
        "grouping": grouping(answer.coalesce),
        "line_bytes": answer.lines.size().bytes(),
    })
}

/// What sites are told apart by, as perf says it.
fn grouping(coalesce: Coalesce) -> String {
    let keys = [
        (coalesce.pid, "pid"),
        (coalesce.tid, "tid"),
        (coalesce.iaddr, "iaddr"),
        (coalesce.dso, "dso"),
    ];
    let chosen = keys.iter().filter(|(is, _)| *is).map(|(_, key)| *key);
    let all: Vec<&str> = std::iter::once("offset").chain(chosen).collect();
    all.join(",")
}

/// What all lines together say.
fn verdicts(answer: &Answer<'_>, shared: &Shared<'_>) -> Option<Section> {
    let count = |kind: Kind| {
        let of = |rows: &[LineRow<'_>]| rows.iter().filter(|row| row.verdict.kind == kind).count();
        of(&shared.listed) + of(&shared.written)
    };
    let found = [
        Kind::FalseSharing,
        Kind::Mixed,
        Kind::TrueSharing,
        Kind::WriterUnseen,
        Kind::StoresApart,
        Kind::StoresTogether,
        Kind::ReadsApart,
        Kind::ReadsTogether,
    ];
    let found: Vec<String> = found
        .into_iter()
        .map(|kind| (kind, count(kind)))
        .filter(|(_, n)| *n > 0)
        .map(|(kind, n)| format!("{n} {}", kind.name()))
        .collect();
    let total = answer.lines.total();
    let mut about = Vec::new();
    if !found.is_empty() {
        about.push(format!("Lines by verdict: {}.", found.join("; ")));
    }
    if total.get(Counter::Entries) > 0 && total.get(Counter::NoParse) == total.get(Counter::Entries)
    {
        about.push(
            "No sample says whether it loads or stores: record with memory events, as `perf mem record` or `perf c2c record` do."
                .to_owned(),
        );
    } else if total.get(Counter::Hitm) == 0 && total.get(Counter::Peer) == 0 {
        about.push(
            "No load was answered by another cache (no HitM, no peer snoop in the file), or the hardware does not tell (most Arm SPE, AMD before Zen 4). What is left to judge by is who writes where."
                .to_owned(),
        );
    }
    (!about.is_empty()).then(|| Section {
        title: "Verdicts".to_owned(),
        about,
        ..Section::default()
    })
}

/// What lies on a line: the variable with the line's distance from its start, else the kind of memory.
fn data_name(line: &LineRow<'_>) -> String {
    match line.variable {
        Some((name, 0)) => name.to_owned(),
        Some((name, at)) if at > 0 => format!("{name}+{at:#x}"),
        Some((name, at)) => format!("{name}-{:#x}", at.unsigned_abs()),
        None if line.region == Region::Unknown && !line.data_dso.is_empty() => {
            short(line.data_dso).to_owned()
        }
        None => line.region.name().to_owned(),
    }
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A verdict in a sentence.
fn sentence(verdict: &Verdict) -> String {
    let Verdict {
        contended,
        apart,
        together,
        both,
        unseen,
        threads,
        writers,
        offsets,
        writes,
        ..
    } = verdict;
    let mut text = format!("{}: ", verdict.kind.name());
    if *contended > 0 {
        text.push_str(&format!(
            "of {contended} contended loads, others wrote at other offsets only for {apart}, at the same for {together}, at both for {both}, unseen for {unseen}; "
        ));
    }
    text.push_str(&format!(
        "{threads} threads at {offsets} offsets, {writers} of them write ({writes} writes)."
    ));
    let witness = |evidence: &Evidence| {
        format!(
            "{} at {:#x} (thread {}, n {})",
            evidence.function, evidence.offset, evidence.thread, evidence.n
        )
    };
    match (&verdict.victim, &verdict.writer) {
        (Some(victim), Some(writer)) => text.push_str(&format!(
            " Most: {}; against {}.",
            witness(victim),
            witness(writer)
        )),
        (Some(victim), None) => text.push_str(&format!(" Most: {}.", witness(victim))),
        _ => {}
    }
    if verdict.apart > 0 || verdict.kind == Kind::StoresApart {
        text.push_str(
            " Moving what different threads write to lines of their own (alignas(64)) ends it.",
        );
    }
    text
}

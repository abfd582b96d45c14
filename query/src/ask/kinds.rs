//! What kinds of latency mean, said with every answer that has latencies.

use memwide_model::LatencyKind;

use crate::answer::{Answer, Value};

/// Columns of latencies.
const LATENCIES: &[&str] = &[
    "weight",
    "mean_latency",
    "mean_remote_latency",
    "latency_cycles",
    "p50",
];

/// What a kind measures.
const fn measures(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::None => "",
        LatencyKind::Use => "load latency, from dispatch to use of the data (Intel up to Ice Lake)",
        LatencyKind::Cache => {
            "latency of the cache access, not of the instruction, which is `ins_lat` (Intel from Alder Lake and Sapphire Rapids on)"
        }
        LatencyKind::Retire => "retire latency",
        LatencyKind::IbsMiss => "load miss latency (AMD IBS)",
        LatencyKind::IbsTagToRetire => "from tag to retire (AMD IBS)",
        LatencyKind::SpeTotal => "total latency (Arm SPE)",
        LatencyKind::Unknown => "a weight of unknown meaning",
    }
}

/// Notes the kinds of an answer's rows, and of what its `latency_cycles` are no sum.
pub(crate) fn note(answer: &mut Answer) {
    let place = |name: &str| answer.column(name);
    let Some(kinds) = place("latency_kind") else {
        return;
    };
    if LATENCIES.iter().all(|name| place(name).is_none()) {
        return;
    }
    let is = |row: &[Value], kind: LatencyKind| matches!(row.get(kinds), Some(Value::Text(text)) if text == kind.name());
    let said: Vec<String> = LatencyKind::ALL
        .iter()
        .filter(|kind| **kind != LatencyKind::None)
        .filter(|kind| answer.rows.iter().any(|row| is(row, **kind)))
        .map(|kind| format!("`{}` is {}", kind.name(), measures(*kind)))
        .collect();
    let [cycles, events] = ["latency_cycles", "est_events"].map(place);
    let has = |row: &[Value], at: Option<usize>| match at.and_then(|at| row.get(at)) {
        Some(Value::Real(real)) => *real > 0.0,
        _ => false,
    };
    let tagged = events.is_some()
        && answer
            .rows
            .iter()
            .any(|row| has(row, cycles) && !has(row, events));
    if !said.is_empty() {
        answer
            .notes
            .push(format!("latency_kind: {}; cycles", said.join("; ")));
    }
    if tagged {
        answer.notes.push("latency_cycles where est_events is null are of the accesses the CPU happened to pick: they compare rows of one event, no more".to_owned());
    }
}

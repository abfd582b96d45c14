//! `memwide kernel`: what the kernel does for a process, and what interrupts it.

use super::of_server;
use super::on_file::{Answer, OnFile, period_unit};
use crate::cli::KernelArgs;
use crate::failure::Failure;
use crate::output::{Listing, Section, grouped, width};
use memwide_analysis::contexts::{Contexts, Group, Row, Taken, wanted};
use memwide_model::Context;
use serde_json::{Value, json};

/// Functions of the kernel shown in text.
const FUNCTIONS: usize = 20;

pub(crate) fn run(args: &KernelArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("kernel", &args.file) {
        return answered;
    }
    let file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let events = file.recording().events().clone();
    let mut contexts = Contexts::default();
    let left = file.each(|sample| contexts.add(&Taken::of(sample)))?;
    let name = |event: usize| events.get(event).map_or("", |event| event.name.as_str());
    let rows = contexts.rows();
    let mut listing = Listing::default()
        .column("group", "for whom", "")
        .column("context", "context", "")
        .column("samples", "samples", "n")
        .column("share", "share", "ratio")
        .column("rate", "rate", "samples/s")
        .wide("rate_low", "low", "samples/s")
        .wide("rate_high", "high", "samples/s")
        .wide("loads", "loads", "n")
        .wide("stores", "stores", "n")
        .wide("period", "period", period_unit(events.events()))
        .column("event", "event", "");
    for row in &rows {
        listing.push(vec![
            row.group.name().into(),
            row.context.name().into(),
            row.sums.n.into(),
            row.share.into(),
            row.rate.into(),
            row.rate_interval.map(|[low, _]| low).into(),
            row.rate_interval.map(|[_, high]| high).into(),
            row.sums.loads.into(),
            row.sums.stores.into(),
            row.sums.period.into(),
            name(row.event).into(),
        ]);
    }
    let mut functions = Listing::default()
        .column("samples", "samples", "n")
        .column("context", "context", "")
        .column("function", "kernel function", "")
        .wide("loads", "loads", "n")
        .wide("stores", "stores", "n")
        .column("event", "event", "");
    for found in contexts.functions() {
        functions.push(vec![
            found.sums.n.into(),
            found.context.name().into(),
            found.name.into(),
            found.sums.loads.into(),
            found.sums.stores.into(),
            name(found.event).into(),
        ]);
    }
    let functions = functions.limited(args.file.rows.limit(), &mut Vec::new());
    let shown = functions.clone().limited(FUNCTIONS, &mut Vec::new());
    let mut indices: Vec<usize> = rows.iter().map(|row| row.event).collect();
    indices.dedup();
    let about: Vec<String> = indices
        .iter()
        .map(|event| about(&contexts, &rows, *event, name(*event)))
        .collect();
    let mut notes = vec![
        "rates are of the time between the first and the last sample of the event: counts grow with it, and cannot be compared between recordings of unequal length"
            .to_owned(),
    ];
    let untold = rows.iter().filter(|row| row.context == Context::Kernel);
    let untold: u64 = untold.map(|row| row.sums.n).sum();
    if untold > 0 {
        notes.push(format!(
            "{} samples of the kernel have no frame that tells why it ran: record with kernel callchains (-g)",
            grouped(untold)
        ));
    }
    let more = vec![Section {
        title: "Kernel functions by context".to_owned(),
        about: Vec::new(),
        table: shown.table(width()),
    }];
    Answer {
        about,
        listing,
        more,
        json: json!({
            "events": indices.iter().map(|event| total(&contexts, &rows, *event, name(*event))).collect::<Vec<_>>(),
            "functions": functions.json(),
        }),
        notes,
    }
    .finish(left, &args.file.rows)
}

fn groups(rows: &[Row], event: usize) -> impl Iterator<Item = (Group, u64, u64)> {
    let rows: Vec<Row> = rows
        .iter()
        .filter(|row| row.event == event)
        .copied()
        .collect();
    Group::ALL.into_iter().map(move |group| {
        let of = rows.iter().filter(|row| row.group == group);
        let sums = of.fold((0, 0), |(n, kernel), row| {
            (n + row.sums.n, kernel + row.sums.kernel)
        });
        (group, sums.0, sums.1)
    })
}

/// The kernel's share, and for whom it was, in a sentence.
fn about(contexts: &Contexts, rows: &[Row], event: usize, name: &str) -> String {
    let total = contexts.total(event);
    let parts: Vec<String> = groups(rows, event)
        .filter(|(_, _, kernel)| *kernel > 0)
        .map(|(group, _, kernel)| format!("{} {}", grouped(kernel), group.name()))
        .collect();
    let length = contexts
        .seconds(event)
        .map_or_else(String::new, |seconds| format!(" in {seconds:.3} s"));
    let share = total.kernel as f64 / total.n.max(1) as f64 * 100.0;
    let split = if parts.is_empty() {
        String::new()
    } else {
        format!(": {}", parts.join(", "))
    };
    format!(
        "{name}: {} samples{length}, {} of them ({share:.1} %) in the kernel{split}.",
        grouped(total.n),
        grouped(total.kernel)
    )
}

fn total(contexts: &Contexts, rows: &[Row], event: usize, name: &str) -> Value {
    let total = contexts.total(event);
    let seconds = contexts.seconds(event);
    let group = |(group, n, kernel): (Group, u64, u64)| {
        json!({
            "group": group.name(), "samples": n, "kernel_samples": kernel,
            "rate": seconds.map(|seconds| n as f64 / seconds),
            "kernel_rate": seconds.map(|seconds| kernel as f64 / seconds),
        })
    };
    json!({
        "event": name, "samples": total.n, "kernel_samples": total.kernel, "loads": total.loads,
        "stores": total.stores, "period": total.period, "seconds": seconds,
        "groups": groups(rows, event).map(group).collect::<Vec<_>>(),
    })
}

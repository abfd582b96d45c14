//! `memwide faults`: page faults by function and memory.

use super::of_server;
use super::on_file::{Answer, OnFile};
use crate::cli::FaultsArgs;
use crate::failure::Failure;
use crate::output::{Listing, grouped};
use memwide_analysis::faults::{Fault, Faults, Kind, wanted};
use serde_json::json;

pub(crate) fn run(args: &FaultsArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("faults", &args.file) {
        return answered;
    }
    let mut file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let mut sites = file.take_sites();
    let events = file.recording().events().clone();
    let mut faults = Faults::default();
    let (mut others, mut buffer) = (0_u64, String::new());
    let callers = args.sites.callers;
    let mut left = file.each(|sample| match Fault::of(sample, callers, &mut buffer) {
        Some(fault) if sites.takes(&fault.site) => faults.add(&fault),
        Some(_) => {}
        None => others += 1,
    })?;
    left.unfit |= sites.unfit();
    let mut listing = Listing::default()
        .column("faults", "faults", "events")
        .column("share", "share", "ratio")
        .wide("samples", "samples", "n")
        .column("kind", "kind", "")
        .column("region", "memory", "")
        .wide("pages", "pages", "n")
        .column("function", "function", "")
        .wide("callers", "called by", "")
        .wide("dso", "object", "")
        .wide("kernel", "in the kernel", "");
    for row in faults.rows() {
        listing.push(vec![
            row.faults.into(),
            row.share.into(),
            row.samples.into(),
            row.kind.name().into(),
            row.region.name().into(),
            (row.pages > 0).then_some(row.pages).into(),
            row.site.function.into(),
            row.site.callers.into(),
            row.site.dso.into(),
            row.site.kernel.into(),
        ]);
    }
    let totals = faults.totals();
    let mut notes: Vec<String> = totals
        .iter()
        .map(|(kind, samples, faults)| {
            format!(
                "{} {} faults by {} samples; shares are of the faults of a kind",
                grouped(*faults),
                kind.name(),
                grouped(*samples)
            )
        })
        .collect();
    let has = |kind| totals.iter().any(|(found, ..)| *found == kind);
    if has(Kind::All) && (has(Kind::Minor) || has(Kind::Major)) {
        notes.push(
            "`all` are the same faults as minor and major together: do not add them".to_owned(),
        );
    }
    if totals.is_empty() {
        let names: Vec<&str> = events
            .events()
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        notes.push(format!(
            "no event of this file counts page faults ({}); record with -e minor-faults,major-faults",
            names.join(", ")
        ));
    } else if others > 0 {
        notes.push(format!(
            "{} samples of other events: not faults",
            grouped(others)
        ));
    }
    if faults.other() > 0 {
        notes.push(format!(
            "{} samples in no row: there are too many",
            grouped(faults.other())
        ));
    }
    let total = |(kind, samples, faults): &(Kind, u64, u64)| json!({"kind": kind.name(), "samples": samples, "faults": faults});
    Answer {
        listing,
        json: json!({
            "total": totals.iter().map(total).collect::<Vec<_>>(),
            "estimator": "sum of periods of events the kernel counts without gaps",
        }),
        notes,
        ..Answer::default()
    }
    .finish(left, &args.file.rows)
}

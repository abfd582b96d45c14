//! The verdict as text, JSON and CSV.

use super::look::Seen;
use super::{Step, Taken};
use crate::cli::{DiagnoseArgs, Format};
use crate::command::missing::by_reason;
use crate::failure::Failure;
use crate::output::{Document, Listing, Section, grouped};
use crate::report::completeness;
use memwide_analysis::diagnosis::Finding;
use serde_json::{Value, json};
use std::io;

pub(super) fn print(
    args: &DiagnoseArgs,
    taken: &Taken,
    seen: &Seen,
    seconds: f64,
    findings: &[Finding],
) -> Result<(), Failure> {
    let (sure, unsure): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.is_sure);
    let verdict = verdict(&sure, &unsure, taken, seen.left.unfit);
    let file = file_name(args, taken);
    let mut sections = vec![Section {
        title: format!("Verdict: {verdict}"),
        ..Section::default()
    }];
    for (title, of) in [
        ("Findings, the most severe first", &sure),
        ("Cannot tell", &unsure),
    ] {
        if of.is_empty() {
            continue;
        }
        let mut about = Vec::new();
        for (at, finding) in of.iter().enumerate() {
            about.extend(told(at + 1, finding, file.as_deref()));
        }
        sections.push(Section {
            title: title.to_owned(),
            about,
            ..Section::default()
        });
    }
    sections.push(Section {
        title: format!("Looked at, {seconds:.3} s"),
        about: taken.steps.iter().flat_map(looked_at).collect(),
        ..Section::default()
    });
    let mut notes = taken.notes.clone();
    notes.extend(seen.left.lines());
    let samples: Vec<String> = seen
        .samples()
        .map(|(name, n)| format!("{name} {}", grouped(n)))
        .collect();
    notes.push(format!(
        "samples: {}",
        if samples.is_empty() {
            "none".to_owned()
        } else {
            samples.join(", ")
        }
    ));
    if taken.is_temporary {
        notes.push(
            "the recording is not kept; --keep FILE keeps it for the commands named above"
                .to_owned(),
        );
    }
    let document = Document {
        sections,
        json: json!({
            "verdict": verdict,
            "findings": sure.iter().map(|finding| json_of(finding, file.as_deref())).collect::<Vec<_>>(),
            "cannot_tell": unsure.iter().map(|finding| json_of(finding, file.as_deref())).collect::<Vec<_>>(),
            "steps": taken.steps.iter().map(step_json).collect::<Vec<_>>(),
            "seconds": seconds,
            "samples": seen.samples().map(|(name, n)| json!({"event": name, "samples": n})).collect::<Vec<_>>(),
            "counts": taken.counts.iter().map(|(name, count)| json!({"event": name, "count": count})).collect::<Vec<_>>(),
            "memory_pressure_share": taken.pressure,
            "completeness": completeness(&seen.left),
            "notes": notes,
        }),
        csv: rows(findings, file.as_deref()).csv(),
        notes,
    };
    match document.print(args.format) {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        printed => printed?,
    }
    if args.format == Format::Csv {
        seen.left.say(); // the others carry it with them
    }
    Ok(())
}

fn verdict(sure: &[&Finding], unsure: &[&Finding], taken: &Taken, is_unfit: bool) -> String {
    let blind: Vec<&str> = taken
        .steps
        .iter()
        .filter(|step| !step.is_taken())
        .map(|step| step.name)
        .collect();
    let blind = if blind.is_empty() {
        String::new()
    } else {
        format!("; not seen here: {}", blind.join(", "))
    };
    match (sure, unsure) {
        ([], []) if !taken.steps.iter().any(Step::is_taken) => {
            format!("cannot tell: no event tells of memory{blind}")
        }
        ([], []) if is_unfit => format!("cannot tell: no sample fits the filter{blind}"),
        ([], []) => format!("nothing above the thresholds{blind}"),
        ([], [first, ..]) => format!(
            "cannot tell: {}, but too little was seen{blind}",
            first.says
        ),
        ([first], _) => format!("{}: {}{blind}", first.topic.name(), first.says),
        ([first, rest @ ..], _) => {
            let others = rest.iter().map(|finding| finding.topic.name());
            let mut others: Vec<&str> = others.collect();
            others.dedup();
            format!(
                "{}: {}; also {}{blind}",
                first.topic.name(),
                first.says,
                others.join(", ")
            )
        }
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

fn told(at: usize, finding: &Finding, file: Option<&str>) -> Vec<String> {
    let interval = finding
        .estimate
        .ci95
        .map_or_else(String::new, |[low, high]| {
            format!(", 95 % {} to {}", number(low), number(high))
        });
    let mut lines = vec![
        format!("{at}. {}: {}", finding.topic.name(), finding.says),
        format!(
            "   {} {} (n {}{interval}; threshold {}; tier {})",
            number(finding.estimate.value),
            finding.unit,
            grouped(finding.n),
            number(finding.threshold),
            finding.tier.name()
        ),
    ];
    lines.extend(finding.evidence.iter().map(|line| format!("   - {line}")));
    lines.push(format!("   look deeper: {}", deeper(finding, file)));
    lines
}

fn deeper(finding: &Finding, file: Option<&str>) -> String {
    let command = &finding.deeper;
    if command.starts_with("record") {
        return format!("memwide {command}");
    }
    let file = file.unwrap_or("FILE");
    match command.split_once(' ') {
        Some((command, rest)) => format!("memwide {command} -i {file} {rest}"),
        None => format!("memwide {command} -i {file}"),
    }
}

fn file_name(args: &DiagnoseArgs, taken: &Taken) -> Option<String> {
    let is_kept = args.keep.is_some() || args.input.is_some();
    is_kept.then(|| taken.file.display().to_string())
}

/// What a step gave, and what not, by reason.
fn looked_at(step: &Step) -> Vec<String> {
    let mut lines = Vec::new();
    if step.is_taken() {
        let all = step.taken.join(", ");
        lines.push(format!("+ {} ({}): {all}", step.name, step.tells));
    }
    let missing = step.missing.iter();
    let missing = missing.map(|(what, reason, remedy)| (&**what, &**reason, &**remedy));
    for (names, why) in by_reason(missing) {
        let what = if step.is_taken() {
            format!("without {names}")
        } else {
            step.tells.to_owned()
        };
        lines.push(format!("– {} ({what}): {why}", step.name));
    }
    lines
}

fn step_json(step: &Step) -> Value {
    let missing = step
        .missing
        .iter()
        .map(|(what, reason, remedy)| json!({"what": what, "reason": reason, "remedy": remedy}));
    json!({
        "step": step.name, "tells": step.tells, "available": step.is_taken(), "taken": step.taken,
        "missing": missing.collect::<Vec<_>>(),
    })
}

fn json_of(finding: &Finding, file: Option<&str>) -> Value {
    json!({
        "topic": finding.topic.name(), "says": finding.says, "value": finding.estimate.value,
        "unit": finding.unit, "n": finding.n, "ci95": finding.estimate.ci95,
        "threshold": finding.threshold, "severity": finding.severity(), "tier": finding.tier.name(),
        "evidence": finding.evidence, "look_deeper": deeper(finding, file),
    })
}

fn rows(findings: &[Finding], file: Option<&str>) -> Listing {
    let mut listing = Listing::default()
        .column("topic", "topic", "")
        .column("sure", "sure", "")
        .column("value", "value", "")
        .column("unit", "unit", "")
        .column("n", "n", "n")
        .column("ci95_low", "low", "")
        .column("ci95_high", "high", "")
        .column("threshold", "threshold", "")
        .column("tier", "tier", "")
        .column("says", "says", "")
        .column("look_deeper", "look deeper", "");
    for finding in findings {
        let interval = finding.estimate.ci95;
        listing.push(vec![
            finding.topic.name().into(),
            finding.is_sure.into(),
            finding.estimate.value.into(),
            finding.unit.into(),
            finding.n.into(),
            interval.map(|[low, _]| low).into(),
            interval.map(|[_, high]| high).into(),
            finding.threshold.into(),
            finding.tier.name().into(),
            finding.says.as_str().into(),
            deeper(finding, file).into(),
        ]);
    }
    listing
}

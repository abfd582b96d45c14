//! `memwide doctor`: what this machine can collect, in which tier, what is missing, the exact remedy.

use super::role::collector_config;
use crate::cli::{DoctorArgs, Format};
use crate::failure::Failure;
use crate::output::{Column, Table};
use memwide_proto::v1::Capability;
use memwide_store::tools;
use serde_json::{Value, json};

pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let config = args.config.as_deref().map(collector_config).transpose()?;
    let config = config.unwrap_or_default();
    let mut rows = memwide_collector::probe(&config);
    rows.push(program("nats-server", &tools::nats_server()));
    rows.push(program("engine", &tools::engine_library()));
    let mut table = table(&rows);
    if args.format == Format::Table {
        // Reasons and remedies are sentences: they stand below, whole.
        table.keep_columns(|name| !["reason", "remedy"].contains(&name));
        table.notes = verdict(&rows, config.readings_ms > 0);
    }
    Ok(table.print(args.format)?)
}

/// A program that `memwide up` starts.
fn program(name: &str, found: &Result<std::path::PathBuf, tools::ToolError>) -> Capability {
    // What it says ends in the remedy.
    let reason = found
        .as_ref()
        .err()
        .map(ToString::to_string)
        .unwrap_or_default();
    Capability {
        name: name.to_owned(),
        tier: String::new(),
        available: found.is_ok(),
        reason,
        remedy: String::new(),
    }
}

fn table(rows: &[Capability]) -> Table {
    let columns = ["capability", "tier", "available", "reason", "remedy"];
    Table {
        columns: columns
            .into_iter()
            .map(|name| Column::new(name, ""))
            .collect(),
        rows: rows
            .iter()
            .map(|row| {
                let available = if row.available { "yes" } else { "no" };
                vec![
                    Value::from(row.name.clone()),
                    Value::from(row.tier.clone()),
                    Value::from(available),
                    Value::from(row.reason.clone()),
                    Value::from(row.remedy.clone()),
                ]
            })
            .collect(),
        notes: Vec::new(),
        json: Some(json!({
            "best_tier": best_tier(rows),
            "capabilities": rows.iter().map(|row| json!({
                "name": row.name, "tier": row.tier, "available": row.available,
                "reason": row.reason, "remedy": row.remedy,
            })).collect::<Vec<_>>(),
        })),
    }
}

/// The best tier that can be collected here; empty: none.
fn best_tier(rows: &[Capability]) -> &str {
    let has = |tier: &str| rows.iter().any(|row| row.available && row.tier == tier);
    ["precise", "event", "software"]
        .into_iter()
        .find(|tier| has(tier))
        .unwrap_or_default()
}

/// What is left where no event can be sampled. `readings`: the configuration asks for pressure and memory.
fn without_events(rows: &[Capability], readings: bool) -> [String; 2] {
    let is = |name: &str, available| {
        rows.iter()
            .any(|row| row.name == name && row.available == available)
    };
    let mut text = "no event of all processes can be sampled here".to_owned();
    // It goes on without events where it may not record; not where it may and the list has none that is there.
    if readings && is("side-band", false) {
        text.push_str(if is("memory-pressure", true) {
            "; the collector still collects pressure and memory"
        } else {
            "; the collector still collects memory"
        });
    }
    [
        text,
        "your own processes need fewer rights: try memwide record -- COMMAND".to_owned(),
    ]
}

fn verdict(rows: &[Capability], readings: bool) -> Vec<String> {
    let mut lines = vec![String::new()];
    match best_tier(rows) {
        "" => lines.extend(without_events(rows, readings)),
        "precise" => lines.push("best tier: precise (addresses, levels and latencies by hardware)".to_owned()),
        "event" => lines.push("best tier: event (hardware events without data source)".to_owned()),
        _ => lines.push("best tier: software (faults, breakpoints, tracepoints, clock); levels and latencies need a PMU".to_owned()),
    }
    // Once where several rows say and want the same.
    let mut told: Vec<(Vec<&str>, [&str; 2])> = Vec::new();
    for row in rows {
        let says = [row.reason.as_str(), row.remedy.as_str()];
        if says == ["", ""] {
            continue;
        }
        match told.iter_mut().find(|(_, known)| *known == says) {
            Some((names, _)) => names.push(&row.name),
            None => told.push((vec![&row.name], says)),
        }
    }
    lines.extend(told.iter().map(|(names, says)| {
        let says: Vec<&str> = says
            .iter()
            .copied()
            .filter(|text| !text.is_empty())
            .collect();
        format!("{}: {}", names.join(", "), says.join("; "))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tier: &str, available: bool) -> Capability {
        Capability {
            name: "x".to_owned(),
            tier: tier.to_owned(),
            available,
            reason: "no PMU".to_owned(),
            remedy: "bare metal".to_owned(),
        }
    }

    #[test]
    fn the_best_available_tier_is_named() {
        assert_eq!(
            best_tier(&[row("precise", false), row("software", true)]),
            "software"
        );
        assert_eq!(
            best_tier(&[row("precise", true), row("software", true)]),
            "precise"
        );
        assert_eq!(best_tier(&[row("precise", false)]), "");
    }

    #[test]
    fn every_reason_and_remedy_is_printed_in_full() {
        let rows = [row("precise", false), row("event", false)];
        assert!(verdict(&rows, true).contains(&"x, x: no PMU; bare metal".to_owned()));
        let degraded = Capability {
            available: true,
            remedy: String::new(),
            ..row("software", true)
        };
        assert!(verdict(&[degraded], true).contains(&"x: no PMU".to_owned()));
    }

    #[test]
    fn without_events_what_is_left_is_named() {
        let named = |name: &str, available| Capability {
            name: name.to_owned(),
            ..row("", available)
        };
        let rows = [named("side-band", false), named("memory-pressure", true)];
        let said = verdict(&rows, true).join("\n");
        assert!(
            said.contains("still collects pressure and memory"),
            "{said}"
        );
        assert!(said.contains("\nyour own processes"), "{said}");
        let said = verdict(&rows, false).join("\n");
        assert!(!said.contains("still collects"), "{said}");
        let hidden = [named("side-band", false), named("memory-pressure", false)];
        let said = verdict(&hidden, true).join("\n");
        assert!(said.contains("still collects memory"), "{said}");
    }

    #[test]
    fn a_missing_program_has_its_remedy_once() {
        let missing = tools::ToolError::Missing {
            tool: "nats-server",
            looked_for: "/nonexistent".into(),
            variable: "MEMWIDE_NATS_SERVER",
        };
        let lines = verdict(&[program("nats-server", &Err(missing))], true);
        let said = lines.last().unwrap();
        assert_eq!(said.matches("make tools").count(), 1, "{said}");
    }
}

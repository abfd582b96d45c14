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
    let mut rows = memwide_collector::probe(&config.unwrap_or_default());
    rows.push(program("nats-server", &tools::nats_server()));
    rows.push(program("engine", &tools::engine_library()));
    let mut table = table(&rows);
    if args.format == Format::Table {
        // Reasons and remedies are sentences: they stand below, whole.
        table.keep_columns(|name| !["reason", "remedy"].contains(&name));
        table.notes = verdict(&rows);
    }
    Ok(table.print(args.format)?)
}

/// A program that `memwide up` starts.
fn program(name: &str, found: &Result<std::path::PathBuf, tools::ToolError>) -> Capability {
    let (reason, remedy) = match found {
        Ok(_) => (String::new(), String::new()),
        Err(error) => (error.to_string(), "run `make tools`".to_owned()),
    };
    Capability {
        name: name.to_owned(),
        tier: String::new(),
        available: found.is_ok(),
        reason,
        remedy,
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

fn verdict(rows: &[Capability]) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.push(match best_tier(rows) {
        "" => "nothing can be collected here".to_owned(),
        "precise" => "best tier: precise (addresses, levels and latencies by hardware)".to_owned(),
        "event" => "best tier: event (hardware events without data source)".to_owned(),
        _ => "best tier: software (faults, breakpoints, tracepoints, clock); levels and latencies need a PMU".to_owned(),
    });
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
        assert!(verdict(&rows).contains(&"x, x: no PMU; bare metal".to_owned()));
        let degraded = Capability {
            available: true,
            remedy: String::new(),
            ..row("software", true)
        };
        assert!(verdict(&[degraded]).contains(&"x: no PMU".to_owned()));
    }
}

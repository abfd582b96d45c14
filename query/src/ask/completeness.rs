//! The two statements behind the completeness of every answer, and the reading of their rows.

use std::collections::BTreeMap;

use memwide_model::Reason;

use super::table::time_condition;
use super::time::{DAY_NS, MINUTE_NS, Range};
use crate::answer::{Column, Completeness, Kind, Value};
use crate::statement::Statement;

/// Since when a host that showed itself counts as expected: 24 hours before the range's end, or its start.
pub(super) fn expected_since(range: Range) -> u64 {
    range.since_ns.min(range.until_ns.saturating_sub(DAY_NS))
}

/// Reasons that count samples which are not stored, as a list for SQL.
pub(super) fn losses() -> String {
    let names: Vec<String> = Reason::ALL
        .iter()
        .filter(|reason| is_loss(**reason))
        .map(|reason| format!("'{reason}'"))
        .collect();
    names.join(", ")
}

fn is_loss(reason: Reason) -> bool {
    reason.is_loss_of_produced() || matches!(reason, Reason::Lost | Reason::Residue)
}

fn host_condition(statement: &mut Statement, hosts: &[String]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    format!(" AND host IN ({})", statement.texts(hosts))
}

/// Sums of the ledger by reason and tier.
pub(super) fn ledger_statement(range: Range, hosts: &[String]) -> Statement {
    let mut statement = Statement::default();
    let time = time_condition(&mut statement, false, range.outwards(MINUTE_NS));
    let hosts = host_condition(&mut statement, hosts);
    statement.sql = format!(
        "SELECT reason, tier, sum(records), sum(seconds) FROM ledger_1m WHERE {time}{hosts} \
         GROUP BY reason, tier ORDER BY reason, tier"
    );
    statement
}

/// Hosts seen within the range, and hosts to be expected there.
pub(super) fn hosts_statement(range: Range, hosts: &[String]) -> Statement {
    let range = range.outwards(MINUTE_NS);
    let expected = Range {
        since_ns: expected_since(range),
        until_ns: range.until_ns,
    };
    let mut statement = Statement::default();
    let within = time_condition(&mut statement, false, range);
    let lately = time_condition(&mut statement, false, expected);
    let hosts = host_condition(&mut statement, hosts);
    statement.sql = format!(
        "SELECT uniqExactIf(host, seen), uniqExact(host) FROM \
         (SELECT host, {within} AS seen FROM ledger_1m WHERE {lately}{hosts} \
         UNION ALL SELECT host, 0 AS seen FROM hosts WHERE {lately}{hosts})"
    );
    statement
}

/// Rows of [`ledger_statement`].
#[derive(Debug)]
pub(crate) struct LedgerCounts;

impl LedgerCounts {
    pub(crate) fn columns() -> Vec<Column> {
        vec![
            Column::text("reason"),
            Column::text("tier"),
            Column::number("records", "records"),
            Column::real("seconds", "seconds"),
        ]
    }

    pub(crate) fn read(rows: &[Vec<Value>], into: &mut Completeness) {
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            let [
                Value::Text(reason),
                Value::Text(tier),
                Value::Number(records),
                seconds,
            ] = row.as_slice()
            else {
                continue;
            };
            match Reason::from_name(reason) {
                Some(Reason::Stored) => {
                    into.samples_stored += records;
                    if tier != "none" {
                        *into.tiers.entry(tier.clone()).or_default() += records;
                    }
                }
                Some(Reason::Produced) => into.samples_produced += records,
                Some(Reason::BlindSeconds) => {
                    if let Value::Real(seconds) = seconds {
                        into.blind_seconds += seconds;
                    }
                }
                Some(reason) if is_loss(reason) && *records > 0 => {
                    *missing.entry(reason.name().to_owned()).or_default() += records;
                }
                _ => {}
            }
        }
        into.missing = missing;
    }
}

/// The row of [`hosts_statement`].
#[derive(Debug)]
pub(crate) struct HostCounts;

impl HostCounts {
    pub(crate) fn columns() -> Vec<Column> {
        let count = |name| Column {
            name,
            kind: Kind::Number,
            unit: "hosts",
        };
        vec![count("seen"), count("expected")]
    }

    pub(crate) fn read(rows: &[Vec<Value>], into: &mut Completeness) {
        if let Some([Value::Number(seen), Value::Number(expected)]) =
            rows.first().map(Vec::as_slice)
        {
            (into.hosts_seen, into.hosts_expected) = (*seen, *expected);
        }
    }
}

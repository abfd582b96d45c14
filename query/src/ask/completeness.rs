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
        "SELECT uniqExactIf(host, seen AND host != ''), uniqExactIf(host, host != '') FROM \
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
        let mut refused: BTreeMap<String, u64> = BTreeMap::new();
        let mut without_name = 0;
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
                Some(Reason::Unresolved | Reason::Nameless) => without_name += records,
                Some(reason) if is_loss(reason) && *records > 0 => {
                    *missing.entry(reason.name().to_owned()).or_default() += records;
                    if reason == Reason::Refused {
                        *refused.entry(tier.clone()).or_default() += records;
                    }
                }
                _ => {}
            }
        }
        // Aggregators count a sample as stored before a sink may find that the store refuses it.
        for (tier, records) in refused {
            into.samples_stored = into.samples_stored.saturating_sub(records);
            if let Some(stored) = into.tiers.get_mut(&tier) {
                *stored = stored.saturating_sub(records);
            }
        }
        into.samples_named = into.samples_stored.saturating_sub(without_name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_samples_are_not_stored_and_nameless_ones_not_named() {
        let line = |reason: Reason, tier: &str, records| {
            vec![
                Value::Text(reason.name().to_owned()),
                Value::Text(tier.to_owned()),
                Value::Number(records),
                Value::Real(0.0),
            ]
        };
        let rows = [
            line(Reason::Produced, "precise", 100),
            line(Reason::Stored, "precise", 80),
            line(Reason::Stored, "software", 10),
            line(Reason::Gap, "precise", 12),
            line(Reason::Undecodable, "precise", 5),
            line(Reason::Expired, "precise", 3),
            line(Reason::Refused, "precise", 20),
            line(Reason::Refused, "none", 2),
            line(Reason::Unresolved, "precise", 4),
            line(Reason::Nameless, "software", 3),
            line(Reason::Partial, "software", 9),
        ];
        let mut complete = Completeness::default();
        LedgerCounts::read(&rows, &mut complete);
        assert_eq!((complete.samples_stored, complete.samples_named), (68, 61));
        assert_eq!(complete.tiers["precise"], 60);
        assert_eq!(complete.tiers["software"], 10);
        let lost = complete.missing.values().sum::<u64>();
        assert_eq!(complete.samples_stored + lost, 110, "{complete:?}");
    }
}

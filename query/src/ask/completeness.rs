//! The statements behind the completeness of every answer, and the reading of their rows.
//!
//! The ledger knows batches by the minute in which they were closed: of live hosts a second after their samples, of imports
//! at the newest sample of a piece. So rows in the range are counted too, by the time of their samples. Time in which
//! nothing was seen is entered when it has ended: it lies before that.

use std::collections::BTreeMap;

use memwide_model::Reason;

use super::time::{
    DAY_NS, HOUR_NS, MINUTE_NS, Range, is_whole_hours, minutes_condition, time_condition,
};
use crate::answer::{Column, Completeness, Dark, Kind, Value};
use crate::statement::Statement;

/// Since when a host that showed itself counts as expected: 24 hours before the range's end, or its start.
pub(super) fn expected_since(range: Range) -> u64 {
    range.since_ns.min(range.until_ns.saturating_sub(DAY_NS))
}

/// Reasons that count samples which are lost, as a list for SQL.
pub(super) fn losses() -> String {
    let names: Vec<String> = Reason::ALL
        .iter()
        .filter(|reason| is_loss(**reason) && **reason != Reason::Residue)
        .map(|reason| format!("'{reason}'"))
        .collect();
    names.join(", ")
}

fn is_loss(reason: Reason) -> bool {
    reason.is_loss_of_produced() || matches!(reason, Reason::Lost | Reason::Residue)
}

/// Longest range whose rows are counted by the time of their samples: in longer ones the edges matter less.
const IN_RANGE_MAX_NS: u64 = 2 * HOUR_NS;
/// Time in which nothing was seen is looked for so long after the range: when it has ended.
const DARK_AFTER_NS: u64 = DAY_NS;

fn host_condition(statement: &mut Statement, hosts: &[String]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    format!(" AND host IN ({})", statement.texts(hosts))
}

/// Sums of the ledger by reason and tier.
pub(super) fn ledger_statement(range: Range, hosts: &[String]) -> Statement {
    let mut statement = Statement::default();
    let time = minutes_condition(&mut statement, range.outwards(MINUTE_NS));
    let hosts = host_condition(&mut statement, hosts);
    statement.sql = format!(
        "SELECT reason, tier, sum(records) FROM ledger_1m WHERE {time}{hosts} GROUP BY reason, tier ORDER BY reason, tier"
    );
    statement
}

/// Rows of samples in the range; `None` where it is long.
pub(super) fn in_range_statement(range: Range, hosts: &[String]) -> Option<Statement> {
    if range.len_ns() > IN_RANGE_MAX_NS {
        return None;
    }
    let mut statement = Statement::default();
    let time = time_condition(&mut statement, false, range.outwards(MINUTE_NS));
    let hosts = host_condition(&mut statement, hosts);
    statement.sql = format!("SELECT sum(n) FROM mix_1m WHERE {time}{hosts}");
    Some(statement)
}

/// Time without samples within the range, by reason: on how many hosts, how long, where most.
pub(super) fn dark_statement(range: Range, hosts: &[String]) -> Statement {
    let mut statement = Statement::default();
    let minutes = range.outwards(MINUTE_NS);
    let searched = Range {
        until_ns: minutes.until_ns + DARK_AFTER_NS,
        ..minutes
    };
    let time = time_condition(&mut statement, false, searched);
    let hosts = host_condition(&mut statement, hosts);
    let mut seconds = |ns: u64| format!("({} / 1e9)", statement.number(ns));
    let (since, until) = (seconds(range.since_ns), seconds(range.until_ns));
    let within = |from: &str, to: &str| {
        format!("greatest(0, least({to}, {until}) - greatest({from}, {since}))")
    };
    // Blindness ends in its minute and began before; sampling that stands still is entered minute by minute.
    let blind = within("m + 60 - seconds", "m + 60");
    let stopped = format!("seconds * {} / 60", within("m", "m + 60"));
    statement.sql = format!(
        "SELECT reason, count(), sum(most), sum(most / cpus), argMax(host, most), argMax(event, most), max(most) FROM \
         (SELECT r.reason AS reason, r.host AS host, max(r.s) AS most, argMax(r.event, r.s) AS event, nullIf(any(h.cpus), 0) AS cpus FROM \
         (SELECT toString(reason) AS reason, host, event, sum(part) AS s FROM \
         (SELECT reason, host, event, toFloat64(toUnixTimestamp(time)) AS m, if(reason = '{blind_s}', {blind}, {stopped}) AS part FROM ledger_1m \
         WHERE reason IN ('{blind_s}', '{throttled_s}') AND seconds > 0 AND {time}{hosts}) WHERE part > 0 GROUP BY reason, host, event) AS r \
         LEFT JOIN (SELECT host, toFloat64(argMax(cpus, time)) AS cpus FROM hosts GROUP BY host) AS h ON h.host = r.host \
         GROUP BY r.reason, r.host) GROUP BY reason ORDER BY reason",
        blind_s = Reason::BlindSeconds.name(),
        throttled_s = Reason::ThrottledSeconds.name(),
    );
    statement
}

/// Hosts seen within the range, and hosts to be expected there. Of a host of imported files alone nothing more is expected.
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
    let sampled = if range.len_ns() > IN_RANGE_MAX_NS {
        String::new()
    } else {
        format!(" UNION ALL SELECT host, 1 AS seen, NULL AS live FROM mix_1m WHERE {within}{hosts}")
    };
    // Hosts are told apart once they are few: texts of every minute would take most of the time of short questions.
    let ledger = if is_whole_hours(range) {
        let hours = lately.replace("time ", "toStartOfHour(time) ");
        format!(
            "SELECT host, max({seen}) AS seen, NULL AS live FROM (SELECT host, toStartOfHour(time) AS hour FROM ledger_1m \
             WHERE {hours}{hosts} GROUP BY host, hour) GROUP BY host",
            seen = within.replace("time ", "hour "),
        )
    } else {
        format!(
            "SELECT host, max({within}) AS seen, NULL AS live FROM ledger_1m WHERE {lately}{hosts} GROUP BY host"
        )
    };
    statement.sql = format!(
        "SELECT countIf(seen AND host != ''), countIf((seen OR ifNull(live, 1)) AND host != '') FROM \
         (SELECT host, max(seen) AS seen, max(live) AS live FROM \
         ({ledger}{sampled} \
         UNION ALL SELECT host, 0 AS seen, kind != 'import' AS live FROM hosts WHERE {lately}{hosts}) GROUP BY host)"
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

/// Rows of [`dark_statement`].
#[derive(Debug)]
pub(crate) struct DarkTimes;

impl DarkTimes {
    pub(crate) fn columns() -> Vec<Column> {
        vec![
            Column::text("reason"),
            Column::number("hosts", "hosts"),
            Column::real("most", "seconds"),
            Column::real("most_a_cpu", "seconds"),
            Column::text("host"),
            Column::text("event"),
            Column::real("most_of_host", "seconds"),
        ]
    }

    pub(crate) fn read(rows: &[Vec<Value>], into: &mut Completeness) {
        for row in rows {
            let [
                Value::Text(reason),
                Value::Number(hosts),
                Value::Real(sum),
                by_cpus,
                Value::Text(host),
                Value::Text(event),
                Value::Real(most),
            ] = row.as_slice()
            else {
                continue;
            };
            let mut dark = Dark {
                hosts: *hosts,
                most: (host.clone(), event.clone(), *most),
                ..Dark::default()
            };
            if reason == Reason::BlindSeconds.name() {
                dark.seconds = Some(*sum);
                into.blind = dark;
            } else {
                dark.cpu_seconds = *sum;
                dark.seconds = match by_cpus {
                    Value::Real(seconds) => Some(*seconds),
                    _ => None,
                };
                into.stopped = dark;
            }
        }
        if into.stopped.hosts == 0 {
            into.stopped.seconds = Some(0.0);
        }
    }
}

/// What a reader must know of the completeness of a range.
pub(crate) fn notes(complete: &Completeness, range: Range) -> Vec<String> {
    let mut notes = Vec::new();
    if complete.hosts_seen < complete.hosts_expected {
        notes.push(format!(
            "{} of {} hosts sent nothing in this range",
            complete.hosts_expected - complete.hosts_seen,
            complete.hosts_expected
        ));
    }
    let length = range.len_ns() as f64 / 1e9;
    let matters = |seconds: f64| seconds >= 1.0 || seconds >= DARK_PART * length;
    let hosts = |dark: &Dark| match dark.hosts {
        1 => format!("`{}`", dark.most.0),
        many => format!("{many} hosts, most on `{}`", dark.most.0),
    };
    if matters(complete.blind_seconds()) {
        notes.push(format!(
            "blind for {:.1} s in all on {}: no samples are from then",
            complete.blind_seconds(),
            hosts(&complete.blind)
        ));
    }
    let stopped = &complete.stopped;
    if matters(stopped.seconds.unwrap_or(stopped.cpu_seconds)) {
        let whole = stopped.seconds.map_or_else(String::new, |seconds| {
            format!(" ({seconds:.1} s of all their CPUs)")
        });
        notes.push(format!(
            "sampling stood still, stopped or throttled, for {:.1} CPU-seconds{whole} on {}, there of {}: no samples are from then; `memwide ledger` has all",
            stopped.cpu_seconds,
            hosts(stopped),
            stopped.most.1
        ));
    }
    if let Some(rows) = complete.samples_in_range {
        let off = rows.abs_diff(complete.samples_stored);
        if off as f64 > BATCHES_DIFFER * rows.max(complete.samples_stored) as f64 && off > 100 {
            notes.push(format!(
                "{rows} samples are from these minutes, {} are of batches closed in them (imports close theirs late): `samples_stored` and what is missing are of the batches",
                complete.samples_stored
            ));
        }
    }
    notes
}

/// Less of a range without samples is not worth a line.
const DARK_PART: f64 = 0.01;
/// Rows in the range and rows of batches closed in it may differ by this part.
const BATCHES_DIFFER: f64 = 0.05;

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

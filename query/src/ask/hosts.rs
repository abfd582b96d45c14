//! Which hosts there are: facts, last sign of life, completeness.

use memwide_model::{Reason, Tier};

use super::completeness::{expected_since, losses};
use super::filter::{Dimension, Filter};

use super::time::{MINUTE_NS, Range, time_condition};
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::Column;
use crate::statement::Statement;

/// Filters that hosts know.
const DIMENSIONS: &[Dimension] = &[Dimension::Host, Dimension::Tier];

/// Facts shown, as the table `hosts` names them.
const FACTS: &[&str] = &[
    "kind",
    "arch",
    "os_release",
    "cpu_vendor",
    "cpu_model",
    "remote_means",
    "virtualization",
    "version",
];

/// The question `hosts`.
#[derive(Debug, Clone, PartialEq)]
pub struct Hosts {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Hosts {
    const DIMENSIONS: &'static [Dimension] = DIMENSIONS;
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let range = filter.range.outwards(MINUTE_NS);
        let expected = Range {
            since_ns: expected_since(range),
            until_ns: range.until_ns,
        };
        let mut statement = Statement::default();
        let hosts = match filter.values(Dimension::Host) {
            [] => String::new(),
            names => format!(" AND host IN ({})", statement.texts(names)),
        };
        let tiers = match filter.values(Dimension::Tier) {
            [] => String::new(),
            names => format!(
                " AND hasAny(arrayConcat(tiers, seen_tiers), [{}])",
                statement.texts(names)
            ),
        };
        let within = time_condition(&mut statement, false, range);
        let lately = time_condition(&mut statement, false, expected);
        let mut moment = |ns: u64| {
            let seconds = statement.number(ns / 1_000_000_000);
            format!("toDateTime({seconds}, 'UTC')")
        };
        let (until, since) = (moment(range.until_ns), moment(expected.since_ns));
        let of = |reason: Reason| {
            format!(
                "toInt64(sumIf(records, {within} AND reason = '{}'))",
                reason.name()
            )
        };
        let all_tiers = [Tier::Precise, Tier::Event, Tier::Software];
        let all_tiers = all_tiers.map(|tier| format!("'{}'", tier.name()));
        let facts: Vec<String> = FACTS
            .iter()
            .map(|fact| format!("argMax(h.{fact}, h.time) AS {fact}"))
            .collect();
        statement.sql = format!(
            "SELECT host, formatDateTime(greatest(ledger_time, toDateTime(facts_time, 'UTC')), \
             '%Y-%m-%dT%H:%i:%SZ', 'UTC'), \
             greatest(0, {asked} - toInt64(toUnixTimestamp(greatest(ledger_time + 59, toDateTime(facts_time, 'UTC'))))), \
             stored, produced, if(produced = 0, NULL, stored / produced), named, if(stored = 0, NULL, named / stored), \
             lost, residue, blind, if(cpus = 0, NULL, stopped / cpus), stopped, \
             arrayStringConcat(if(empty(tiers), arraySort(tier -> indexOf([{all_tiers}], tier), seen_tiers), tiers), ' '), {facts}, nullIf(cpus, 0), nullIf(nodes, 0), capabilities \
             FROM (SELECT host, max(time) AS ledger_time, \
             toUInt64(greatest({stored} - {refused}, 0)) AS stored, toUInt64({produced}) AS produced, \
             toUInt64(greatest({stored} - {refused} - {unresolved} - {nameless}, 0)) AS named, \
             sumIf(records, {within} AND reason IN ({losses})) AS lost, \
             sumIf(records, {within} AND reason = '{residue}') AS residue, \
             sumIf(seconds, {within} AND reason = '{blind}') AS blind, \
             arrayMax(mapValues(sumMapIf(map(event, seconds), {within} AND reason = '{stopped}'))) AS stopped, \
             groupUniqArrayIf(toString(tier), {within} AND reason = 'stored' AND tier != 'none') AS seen_tiers \
             FROM ledger_1m WHERE {lately}{hosts} AND host != '' GROUP BY host) AS l \
             FULL OUTER JOIN (SELECT host, max(h.time) AS facts_time, {fact_list}, argMax(h.tiers, h.time) AS tiers, \
             toUInt64(argMax(h.cpus, h.time)) AS cpus, toUInt64(argMax(h.nodes, h.time)) AS nodes, \
             argMax(h.capabilities, h.time) AS capabilities \
             FROM hosts AS h WHERE time < {until}{hosts} GROUP BY host) AS f USING (host) \
             WHERE (ledger_time >= {since} OR facts_time >= {since}){tiers} ORDER BY host LIMIT {limit}",
            asked = filter.asked_ns / 1_000_000_000,
            facts = FACTS.join(", "),
            fact_list = facts.join(", "),
            stored = of(Reason::Stored),
            produced = of(Reason::Produced),
            refused = of(Reason::Refused),
            unresolved = of(Reason::Unresolved),
            nameless = of(Reason::Nameless),
            losses = losses(),
            residue = Reason::Residue.name(),
            blind = Reason::BlindSeconds.name(),
            stopped = Reason::ThrottledSeconds.name(),
            all_tiers = all_tiers.join(", "),
            limit = u64::from(filter.limit) + 1,
        );
        let mut columns = vec![
            Column::text("host"),
            Column::text("last_seen"),
            Column::number("silent_seconds", "seconds"),
            Column::number("samples_stored", "samples"),
            Column::number("samples_produced", "samples"),
            Column::real("completeness", "ratio"),
            Column::number("samples_named", "samples"),
            Column::real("resolved", "ratio"),
            Column::number("lost", "records"),
            Column::number("residue", "records"),
            Column::real("blind_seconds", "seconds"),
            Column::real("stopped_seconds", "seconds"),
            Column::real("stopped_cpu_seconds", "CPU-seconds"),
            Column::text("tiers"),
        ];
        columns.extend(FACTS.iter().map(|fact| Column::text(fact)));
        columns.extend([
            Column::number("cpus", "cpus"),
            Column::number("nodes", "nodes"),
            Column::text("capabilities"),
        ]);
        Plan {
            statement,
            columns,
            table: "hosts",
            limit: filter.limit,
            range,
            hosts: filter.values(Dimension::Host).to_vec(),
            hidden: Vec::new(),
            notes: vec!["silent_seconds: at least so long, as signs of life count by the minute; lost: the kernel had no room, or given up on the way; residue: counted by the event, neither taken nor lost; stopped: sampling stood still or was throttled; tiers: what the host can collect, of simulated and imported hosts what they sent".to_owned()],
        }
    }
}

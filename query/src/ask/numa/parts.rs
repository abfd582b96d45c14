//! What stands behind rows of `numa`: latency, hosts and pods, nodes, data, and the evidence for advice.

use super::super::filter::{Dimension, Filter};
use super::super::grouped::share;
use super::super::samples::{CPU_NODE, DATA, FUNCTION, NODES, PAGE_NODE, conditions};
use super::super::table::{COUNTED_EVENTS, SAMPLES, Source, Table, WEIGHT};
use super::super::{PartPlan, Plan};
use super::{LOCAL, REMOTE, ratio};
use crate::answer::Column;
use crate::statement::Statement;

/// Hosts and pods, and pieces of data, shown of a function and event.
const SHOWN_OF_EACH: u32 = 10;
/// Rows of a part.
const ROWS_MAX: u32 = 5_000;

/// What ties the rows of parts to those of the answer.
pub(super) const OF: [&str; 4] = ["function", "module", "build_id", "event"];

/// Numbers of the part `evidence`.
pub(super) const NUMBERS: [Column; 7] = [
    Column::number("known_samples", "samples"),
    Column::number("known_of_all", "samples"),
    Column::number("processes", "processes"),
    Column::number("on_one_page_node", "samples"),
    Column::number("from_one_cpu_node", "samples"),
    Column::number("on_pages_met_again", "samples"),
    Column::number("on_pages_of_one_cpu_node", "samples"),
];

/// All parts of the functions with these ids.
pub(super) fn all(filter: &Filter, plan: &Plan, ids: &str) -> Vec<PartPlan> {
    vec![
        latency(filter, plan, ids),
        places(filter, plan, ids),
        nodes(filter, plan, ids),
        data(filter, plan, ids),
        evidence(filter, plan, ids),
    ]
}

fn of(further: impl IntoIterator<Item = Column>) -> Vec<Column> {
    OF.iter()
        .map(|name| Column::text(name))
        .chain(further)
        .collect()
}

fn table(candidates: &[Table], filter: &Filter, further: &[Dimension], plan: &Plan) -> Table {
    let needs = [filter.needs().as_slice(), further].concat();
    Table::exact(candidates, &needs, plan.range)
}

/// Means by level and locality; kinds are never mixed.
fn latency(filter: &Filter, plan: &Plan, ids: &str) -> PartPlan {
    let all = [Table::Fleet, Table::Functions, Table::Samples];
    let table = table(&all, filter, &[], plan);
    let keys = [
        "function",
        "module",
        "build_id",
        "event",
        "latency_kind",
        "level",
        "outcome",
        "locality",
        "locality_basis",
    ];
    let mut statement = Statement::default();
    let source = Source::of_functions(&mut statement, table, filter, plan.range, &keys, Some(ids));
    let (named, selected) = Source::numbered(&keys);
    statement.sql = format!(
        "SELECT {named}, v0, v1, if(k4 = 'none' OR v1 = 0, NULL, v1 / v0) FROM \
         (SELECT {selected}, {samples} AS v0, {weight} AS v1 FROM {rows} GROUP BY {named}) \
         ORDER BY {named} LIMIT {ROWS_MAX}",
        named = named.join(", "),
        selected = selected.join(", "),
        samples = source.sum(SAMPLES),
        weight = source.sum(WEIGHT),
        rows = source.rows(),
    );
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(key)).collect();
    columns.extend([
        Column::number("samples", "samples"),
        Column::real("weight", "cycles"),
        Column::real("mean_latency", "cycles"),
    ]);
    PartPlan {
        name: "latency",
        statement,
        columns,
    }
}

/// Hosts and pods with the most remote samples.
fn places(filter: &Filter, plan: &Plan, ids: &str) -> PartPlan {
    let table = table(
        &[Table::Functions, Table::Samples],
        filter,
        &[Dimension::Host],
        plan,
    );
    let keys = [
        "function",
        "module",
        "build_id",
        "event",
        "host",
        "namespace",
        "pod",
    ];
    let mut statement = Statement::default();
    let with = [keys.as_slice(), &["locality"]].concat();
    let source = Source::of_functions(&mut statement, table, filter, plan.range, &with, Some(ids));
    let (named, selected) = Source::numbered(&keys);
    let remote = Source::sum_if(SAMPLES, REMOTE);
    let [share, _] = share("r", Some(("e", "est_events")), "k0, k1, k2, k3");
    statement.sql = format!(
        "SELECT {named}, r, {share}, ratio FROM \
         (SELECT {selected}, {remote} AS r, {events} AS e, {ratio} AS ratio FROM {rows} GROUP BY {named}) WHERE r > 0 \
         ORDER BY k0, k1, k2, k3, r DESC, k4, k5, k6 LIMIT {SHOWN_OF_EACH} BY k0, k1, k2, k3 LIMIT {ROWS_MAX}",
        named = named.join(", "),
        selected = selected.join(", "),
        events = Source::est_events_if(REMOTE),
        ratio = ratio(&remote, &Source::sum_if(SAMPLES, LOCAL)),
        rows = source.rows(),
    );
    let columns = of([
        Column::text("host"),
        Column::text("namespace"),
        Column::text("pod"),
        Column::number("samples", "samples"),
        Column::real("share", "ratio"),
        Column::real("remote_ratio", "ratio"),
    ]);
    PartPlan {
        name: "places",
        statement,
        columns,
    }
}

/// Samples of these functions with the nodes of CPU and page.
fn sampled(statement: &mut Statement, filter: &Filter, plan: &Plan, ids: &str) -> String {
    let conditions = conditions(statement, filter, plan.range);
    format!(
        "(SELECT {FUNCTION} AS function, f.module AS module, f.build_id AS build_id, s.event AS event, \
         s.latency_kind AS latency_kind, s.locality AS locality, s.host AS host, s.pid AS pid, \
         bitShiftRight(s.addr, 12) AS page, {CPU_NODE} AS cpu_node, {PAGE_NODE} AS page_node, s.op AS op, \
         s.weight AS weight, s.data_id AS data_id, s.region AS region, \
         if(s.event_id IN ({COUNTED_EVENTS}), toFloat64(s.period), NULL) AS events, \
         if(isNotNull(events) AND s.retire_lat > 0, toFloat64(s.retire_lat) * events, NULL) AS stall_cycles \
         FROM samples AS s LEFT JOIN ({NODES}) AS n ON n.node_host = s.host \
         LEFT JOIN function_names AS f ON f.function_id = s.function_id \
         WHERE {conditions} AND s.function_id IN ({ids}))"
    )
}

/// From the node of the CPU to the node of the page.
fn nodes(filter: &Filter, plan: &Plan, ids: &str) -> PartPlan {
    let mut statement = Statement::default();
    let sampled = sampled(&mut statement, filter, plan, ids);
    statement.sql = format!(
        "SELECT function, module, build_id, event, latency_kind, cpu_node, page_node, count() AS c, \
         countIf(locality = 'remote'), if(countIf(weight > 0) = 0, NULL, avgIf(weight, weight > 0)), sum(stall_cycles) FROM {sampled} \
         GROUP BY function, module, build_id, event, latency_kind, cpu_node, page_node \
         ORDER BY function, module, build_id, event, cpu_node, page_node LIMIT {ROWS_MAX}"
    );
    PartPlan {
        name: "nodes",
        statement,
        columns: of([
            Column::text("latency_kind"),
            Column::number("cpu_node", ""),
            Column::number("page_node", ""),
            Column::number("samples", "samples"),
            Column::number("remote_samples", "samples"),
            Column::real("mean_latency", "cycles"),
            Column::real("stall_cycles", "cycles"),
        ]),
    }
}

/// What the remote accesses were to, and whether anybody was seen to write it.
fn data(filter: &Filter, plan: &Plan, ids: &str) -> PartPlan {
    let mut statement = Statement::default();
    let sampled = sampled(&mut statement, filter, plan, ids);
    let mut any = filter.clone();
    any.clear(&[Dimension::Function, Dimension::Event, Dimension::Op]);
    let conditions = conditions(&mut statement, &any, plan.range);
    let [share, _] = share(
        "r.n",
        Some(("r.e", "est_events")),
        "r.function, r.module, r.build_id, r.event",
    );
    statement.sql = format!(
        "WITH r AS (SELECT function, module, build_id, event, region, data_id, count() AS n, \
         if(countIf(isNull(events)) > 0, NULL, sum(events)) AS e, uniqExact(host, pid, page) AS pages \
         FROM {sampled} WHERE locality = 'remote' GROUP BY function, module, build_id, event, region, data_id), \
         u AS (SELECT s.data_id AS data_id, count() AS n, countIf(s.op IN ('store', 'load+store')) AS stores \
         FROM samples AS s WHERE {conditions} GROUP BY data_id) \
         SELECT r.function, r.module, r.build_id, r.event, r.region, d.data_symbol, d.data_module, r.n AS c, \
         {share}, r.pages, if(r.data_id = 0, NULL, u.n), if(r.data_id = 0, NULL, u.stores), \
         (SELECT sum(stores) FROM u) FROM r LEFT JOIN u ON u.data_id = r.data_id \
         LEFT JOIN ({DATA}) AS d ON d.data_id = r.data_id \
         ORDER BY r.function, r.module, r.build_id, r.event, c DESC, r.region, d.data_symbol, d.data_module \
         LIMIT {SHOWN_OF_EACH} BY r.function, r.module, r.build_id, r.event LIMIT {ROWS_MAX}"
    );
    PartPlan {
        name: "data",
        statement,
        columns: of([
            Column::text("region"),
            Column::text("data_symbol"),
            Column::text("data_module"),
            Column::number("samples", "samples"),
            Column::real("share", "ratio"),
            Column::number("pages", "pages"),
            Column::number("samples_of_all", "samples"),
            Column::number("stores_of_all", "samples"),
            Column::number("stores_seen", "samples"),
        ]),
    }
}

/// Numbers that advice rests on: samples whose CPU and page have a known node, of processes with remote ones.
fn evidence(filter: &Filter, plan: &Plan, ids: &str) -> PartPlan {
    let mut statement = Statement::default();
    let sampled = sampled(&mut statement, filter, plan, ids);
    let of = OF.join(", ");
    let most = |node: &str, of: &str| {
        format!("arrayMax(tupleElement(sumMapIf([toUInt64({node})], [toUInt64(1)], {of}), 2))")
    };
    statement.sql = format!(
        "WITH k AS (SELECT {of}, host, pid, page, assumeNotNull(cpu_node) AS cn, assumeNotNull(page_node) AS pn, \
         locality = 'remote' AS is_remote FROM {sampled} WHERE isNotNull(cpu_node) AND isNotNull(page_node)), \
         p AS (SELECT {of}, host, pid, countIf(is_remote) AS remote, count() AS known_all, {page} AS on_page_node, {cpu} AS on_cpu_node \
         FROM k GROUP BY {of}, host, pid HAVING remote > 0), \
         g AS (SELECT {of}, host, pid, page, count() AS n, countIf(is_remote) AS remote, uniqExact(cn) AS users FROM k \
         GROUP BY {of}, host, pid, page HAVING remote > 0) \
         SELECT p.*, g.* EXCEPT ({of}) FROM \
         (SELECT {of}, sum(remote) AS known, sum(known_all), uniqExact(host, pid), sum(on_page_node), sum(on_cpu_node) FROM p GROUP BY {of}) AS p \
         INNER JOIN (SELECT {of}, sumIf(remote, n > 1), sumIf(remote, n > 1 AND users = 1) FROM g GROUP BY {of}) AS g USING ({of}) \
         ORDER BY {of} LIMIT {ROWS_MAX}",
        page = most("pn", "is_remote"),
        cpu = most("cn", "1"),
    );
    PartPlan {
        name: "evidence",
        statement,
        columns: self::of(NUMBERS),
    }
}

//! Statements that sum a partition's samples, by the time they were ingested, into tables of hours and minutes.
//!
//! Run them with [`Store::insert_select`](crate::Store::insert_select) under a token that names the close; then publish the
//! close as one row of `closes`, `closes_of_details` or `closes_of_calls`.

use crate::native::Column as _;
use crate::rows::SumsColumns;

/// Pages of a host, hour and event that have rows of their own.
const PAGES: u32 = 1_000;

/// Threads and CPUs that are named of a line or page.
const NAMED: u32 = 64;

/// What identifies an access in these tables.
const ACCESS: &str =
    "event_id, event, tier, latency_kind, op, level, outcome, locality, locality_basis";

/// Names of the sums of every rollup.
fn sums() -> Vec<&'static str> {
    let mut names = Vec::new();
    SumsColumns::names("", &mut names);
    names
}

/// Those sums of rows `v`.
fn summed(sums: &[&str]) -> String {
    let each: Vec<String> = sums.iter().map(|name| format!("sum(v.{name})")).collect();
    each.join(", ")
}

/// Of which rows a close consists.
fn ingested(part: u16, after: u32, through: u32) -> String {
    format!(
        "v.part = {part} AND v.ingested > toDateTime({after}, 'UTC') AND v.ingested <= toDateTime({through}, 'UTC')"
    )
}

/// The statement that closes `functions_1h` for a partition, for what was ingested after `after` and through `through`
/// (seconds since 1970 UTC).
pub fn close_functions_1h(part: u16, after: u32, through: u32) -> String {
    let keys = format!("time, function_id, host, workload_id, {ACCESS}, context, comm");
    plain("functions_1h", &keys, &sums(), "", part, after, through)
}

/// A table whose rows are samples with equal keys, summed; `state` is one more column, an aggregate called as it.
fn plain(
    table: &str,
    keys: &str,
    sums: &[&str],
    state: &str,
    part: u16,
    after: u32,
    through: u32,
) -> String {
    let column = state.rsplit_once(" AS ").map_or("", |(_, column)| column);
    let comma = if state.is_empty() { "" } else { ", " };
    format!(
        "INSERT INTO {table} ({keys}, part, close, {columns}{comma}{column}, ingested) \
         SELECT {keys}, v.part, toDateTime({through}, 'UTC'), {summed}{comma}{state}, max(v.ingested) \
         FROM samples_as_functions AS v WHERE {of} GROUP BY {keys}, v.part",
        columns = sums.join(", "),
        summed = summed(sums),
        of = ingested(part, after, through),
    )
}

/// Tables and the statements that close them besides `functions_1h`, which must be closed through `through` already.
pub fn close_details(part: u16, after: u32, through: u32) -> Vec<(&'static str, String)> {
    let measured = [sums(), vec!["n_measured"]].concat();
    let plain = |table, keys: &str, sums: &[&str], state: &str| {
        let sql = plain(table, keys, sums, state, part, after, through);
        (table, sql)
    };
    vec![
        ("fleet_1d", fleet(part, after, through)),
        plain(
            "sites_1h",
            &format!("time, function_id, location_id, {ACCESS}"),
            &measured,
            "uniqState(cityHash64(v.host)) AS hosts",
        ),
        plain(
            "latency_1h",
            &format!("time, function_id, {ACCESS}, bucket"),
            &["n", "sum_p", "sum_w", "n_saturated"],
            "",
        ),
        plain(
            "data_1h",
            &format!("time, data_id, region, function_id, host, workload_id, {ACCESS}"),
            &measured,
            "",
        ),
        ("pages_1h", pages(part, after, through)),
        ("lines_1m", lines(part, after, through)),
        ("faults_1m", faults(part, after, through)),
    ]
}

/// Days, from the rows of `functions_1h` that its closes made: a fraction of the samples.
fn fleet(part: u16, after: u32, through: u32) -> String {
    let sums = sums();
    format!(
        "INSERT INTO fleet_1d (time, function_id, {ACCESS}, cpu_model, part, close, {columns}, hosts, ingested) \
         SELECT toStartOfDay(v.time) AS day, v.function_id, {access}, e.cpu_model, v.part, \
         toDateTime({through}, 'UTC'), {summed}, uniqState(cityHash64(v.host)), max(v.ingested) \
         FROM functions_1h AS v \
         LEFT JOIN (SELECT event_id, argMax(cpu_model, last_seen) AS cpu_model FROM events GROUP BY event_id) AS e \
         ON e.event_id = v.event_id \
         WHERE v.part = {part} AND v.close > toDateTime({after}, 'UTC') AND v.close <= toDateTime({through}, 'UTC') \
         GROUP BY day, v.function_id, {access}, e.cpu_model, v.part",
        columns = sums.join(", "),
        summed = summed(&sums),
        access = of("v", ACCESS),
    )
}

/// `a, b` as `t.a, t.b`.
fn of(table: &str, columns: &str) -> String {
    let named: Vec<String> = columns
        .split(", ")
        .map(|column| format!("{table}.{column}"))
        .collect();
    named.join(", ")
}

/// The pages with most samples; all others in one row for each kind of memory and data.
fn pages(part: u16, after: u32, through: u32) -> String {
    let sums = sums();
    let of_close = ingested(part, after, through);
    format!(
        "INSERT INTO pages_1h (time, host, pid, page, page_shift, region, data_id, event_id, event, tier, latency_kind, \
         part, close, {columns}, n_loads, n_stores, page_nodes, cpus, ingested) \
         WITH top AS (SELECT v.time, v.host, v.event_id, v.pid, v.page FROM samples_as_functions AS v \
         WHERE {of_close} AND v.addr != 0 GROUP BY v.time, v.host, v.event_id, v.pid, v.page \
         ORDER BY v.time, v.host, v.event_id, count() DESC, v.pid, v.page LIMIT {PAGES} BY v.time, v.host, v.event_id) \
         SELECT v.time, v.host, if(kept, v.pid, 0) AS of_pid, if(kept, v.page, 0) AS of_page, \
         if(kept, v.page_shift, 0) AS of_shift, v.region, v.data_id, v.event_id, v.event, v.tier, v.latency_kind, v.part, \
         toDateTime({through}, 'UTC'), {summed}, sum(v.n_loads), sum(v.n_stores), \
         groupUniqArrayIf({NAMED})(v.page_node, kept), groupUniqArrayIf({NAMED})(v.cpu, kept), max(v.ingested) \
         FROM (SELECT *, (time, host, event_id, pid, page) IN (top) AS kept FROM samples_as_functions AS v \
         WHERE {of_close} AND v.addr != 0) AS v \
         GROUP BY v.time, v.host, of_pid, of_page, of_shift, v.region, v.data_id, v.event_id, v.event, v.tier, \
         v.latency_kind, v.part",
        columns = sums.join(", "),
        summed = summed(&sums),
    )
}

/// Lines that another cache had to answer, or that several CPUs use and one writes; all others in rows of line 0. Memory
/// that processes share is told by its physical address.
fn lines(part: u16, after: u32, through: u32) -> String {
    let sums = sums();
    let of_close = ingested(part, after, through);
    let identity =
        "v.time, v.host, if(v.phys_line = 0, v.pid, 0), if(v.phys_line = 0, v.line, v.phys_line)";
    format!(
        "INSERT INTO lines_1m (time, host, pid, line, offset, phys_line, region, data_id, function_id, event_id, event, \
         tier, latency_kind, part, close, {columns}, n_loads, n_stores, tids, cpus, ingested) \
         WITH shared AS (SELECT {identity} FROM samples_as_functions AS v WHERE {of_close} AND v.of_line \
         GROUP BY {identity} HAVING sum(v.n_hitm) + sum(v.n_fwd) + sum(v.n_peer) > 0 OR (uniqExact(v.cpu) > 1 AND max(v.writes))) \
         SELECT v.minute, v.host, if(kept, v.pid, 0) AS of_pid, if(kept, v.line, 0) AS of_line, \
         if(kept, v.offset, 0) AS of_offset, if(kept, v.phys_line, 0) AS of_phys, v.region, if(kept, v.data_id, 0) AS of_data, \
         if(kept, v.function_id, 0) AS of_function, v.event_id, v.event, v.tier, v.latency_kind, v.part, \
         toDateTime({through}, 'UTC'), {summed}, sum(v.n_loads), sum(v.n_stores), \
         groupUniqArrayIf({NAMED})(v.tid, kept), groupUniqArrayIf({NAMED})(v.cpu, kept), max(v.ingested) \
         FROM (SELECT *, ({identity}) IN (shared) AS kept FROM samples_as_functions AS v \
         WHERE {of_close} AND v.of_line) AS v \
         GROUP BY v.minute, v.host, of_pid, of_line, of_offset, of_phys, v.region, of_data, of_function, v.event_id, v.event, \
         v.tier, v.latency_kind, v.part",
        columns = sums.join(", "),
        summed = summed(&sums),
    )
}

/// Page faults.
fn faults(part: u16, after: u32, through: u32) -> String {
    let keys = "host, workload_id, pid, comm, function_id, region, data_id, event_id, event, tier, latency_kind, context";
    format!(
        "INSERT INTO faults_1m (time, kind, {keys}, part, close, n, faults, n_page_remote, n_page_known, n_addr, pages, \
         ingested) \
         SELECT v.minute, v.fault_kind, {of_v}, v.part, toDateTime({through}, 'UTC'), sum(v.n), sum(v.faults), \
         sum(v.n_page_remote), sum(v.n_page_known), sum(v.n_addr), \
         uniqExactStateIf(v.fault_page, v.n_addr != 0), max(v.ingested) \
         FROM samples_as_functions AS v WHERE {of} AND v.fault_kind != '' \
         GROUP BY v.minute, v.fault_kind, {of_v}, v.part",
        of_v = of("v", keys),
        of = ingested(part, after, through),
    )
}

/// Tables and the statements that close them, published in `closes_of_calls`.
pub fn close_calls(part: u16, after: u32, through: u32) -> Vec<(&'static str, String)> {
    vec![
        ("allocs_1m", allocs(part, after, through)),
        ("offcpu_1m", offcpu(part, after, through)),
    ]
}

/// Allocations.
fn allocs(part: u16, after: u32, through: u32) -> String {
    let keys =
        "host, workload_id, pid, comm, function_id, stack_id, event_id, event, tier, context";
    format!(
        "INSERT INTO allocs_1m (time, kind, {keys}, part, close, n, calls, ingested) \
         SELECT v.minute, v.alloc_kind, {of_v}, v.part, toDateTime({through}, 'UTC'), sum(v.n), sum(v.calls), max(v.ingested) \
         FROM samples_as_functions AS v WHERE {of} AND v.alloc_kind != '' GROUP BY v.minute, v.alloc_kind, {of_v}, v.part",
        of_v = of("v", keys),
        of = ingested(part, after, through),
    )
}

/// A thread that was away for longer than this many seconds, by the time its switches were ingested, is not seen to come
/// back: bounds what a close reads.
const AWAY_S: u32 = 86_400;

/// Time off the CPU. A switch is sampled in the thread that leaves: it came to the CPU at the switch before on that CPU, and
/// was off from where it had left to there; not where it had left that CPU itself, as somebody ran there unseen. Both may have
/// been closed before: a close begins with the last switch of each thread and of each CPU before it.
fn offcpu(part: u16, after: u32, through: u32) -> String {
    let switches = "match(v.event, '^sched:sched_switch(:|/|$)') AND v.period <= 1";
    // Of an event that is of one thread of so many the others' waits are not known, only that they left.
    let known = "(NOT match(w.event, '/threads=') \
         OR bitAnd(w.tid, toUInt32OrZero(extract(w.event, '/threads=([0-9]+)/')) - 1) = 1)";
    let earlier = ingested(part, after.saturating_sub(AWAY_S), after);
    let keys = "host, workload_id, pid, tid, comm, stack_id, event_id, event, tier";
    let carried: Vec<String> = [
        "cpu",
        "workload_id",
        "pid",
        "comm",
        "stack_id",
        "event_id",
        "event",
        "tier",
        "ingested",
    ]
    .iter()
    .map(|column| format!("argMax(v.{column}, v.time)"))
    .collect();
    format!(
        "INSERT INTO offcpu_1m (time, {keys}, part, close, n, spells, off_ns, off_ns_max, ingested) \
         WITH k AS (SELECT v.host AS host, v.tid AS tid, v.tid AS who, toUnixTimestamp64Nano(v.time) AS t, v.cpu AS cpu, \
         v.workload_id AS workload_id, v.pid AS pid, v.comm AS comm, v.stack_id AS stack_id, v.event_id AS event_id, \
         v.event AS event, v.tier AS tier, v.ingested AS ingested, 1 AS fresh FROM samples AS v WHERE {fresh} AND {switches} \
         UNION ALL SELECT v.host, v.tid, v.tid, toUnixTimestamp64Nano(max(v.time)), {carried}, 0 FROM samples AS v \
         WHERE {earlier} AND {switches} GROUP BY v.host, v.tid \
         UNION ALL SELECT v.host, 0, argMax(v.tid, v.time), toUnixTimestamp64Nano(max(v.time)), v.cpu, 0, 0, '', 0, 0, '', any(v.tier), max(v.ingested), 0 \
         FROM samples AS v WHERE {earlier} AND {switches} GROUP BY v.host, v.cpu), \
         w AS (SELECT *, if(lagInFrame(k.who) OVER there = k.tid, 0, lagInFrame(k.t) OVER there) AS came FROM k \
         WINDOW there AS (PARTITION BY k.host, k.cpu ORDER BY k.t, k.fresh ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)), \
         b AS (SELECT *, leadInFrame(w.came) OVER own AS back, leadInFrame(w.fresh) OVER own AS told, \
         leadInFrame(w.ingested) OVER own AS told_at, told AND back >= w.t AS ended FROM w WHERE w.tid != 0 AND {known} \
         WINDOW own AS (PARTITION BY w.host, w.tid ORDER BY w.t, w.fresh ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)) \
         SELECT toStartOfMinute(fromUnixTimestamp64Nano(b.t, 'UTC')) AS minute, {of_b}, {part}, toDateTime({through}, 'UTC'), \
         sum(b.fresh), countIf(b.ended), sumIf(b.back - b.t, b.ended), maxIf(b.back - b.t, b.ended), \
         max(if(b.told, b.told_at, b.ingested)) FROM b WHERE b.fresh OR b.told GROUP BY minute, {of_b}",
        fresh = ingested(part, after, through),
        carried = carried.join(", "),
        of_b = of("b", keys),
    )
}

//! What is asked of the store for a recording: samples of one host, and what describes them.

use crate::answer::Column;
use crate::ask::{Filter, PartPlan, conditions_of_samples};
use crate::statement::Statement;

/// Most samples of a recording; what would be cut is refused instead.
pub(crate) const SAMPLES_MAX: u64 = 200_000;

fn part(name: &'static str, statement: Statement, columns: Vec<Column>) -> PartPlan {
    PartPlan {
        name,
        statement,
        columns,
    }
}

/// A statement about the rows that pass the filter: `{of}` in `sql` stands for `FROM samples … WHERE …`.
fn about(filter: &Filter, sql: &str) -> Statement {
    let mut statement = Statement::default();
    let conditions = conditions_of_samples(&mut statement, filter);
    let of = format!("FROM samples AS s WHERE {conditions}");
    statement.sql = sql.replace("{of}", &of);
    statement
}

/// Samples and hosts of the selection.
pub(crate) fn size(filter: &Filter) -> PartPlan {
    let sql = "SELECT count(), arrayStringConcat(arraySort(groupUniqArray(20)(toString(s.host))), ', '), uniqExact(s.host) {of}";
    part(
        "size",
        about(filter, sql),
        vec![
            Column::number("samples", "samples"),
            Column::text("hosts"),
            Column::number("n_hosts", "hosts"),
        ],
    )
}

/// Samples by time.
pub(crate) fn samples(filter: &Filter) -> PartPlan {
    let sql = format!(
        "SELECT toUInt64(toUnixTimestamp64Nano(s.time)), s.event_id, s.pid, s.tid, s.cpu, s.ip, s.addr, s.phys_addr, s.data_src, \
         s.period, s.weight, s.ins_lat, s.retire_lat, s.page_shift, s.location_id, s.stack_id, s.comm {{of}} \
         ORDER BY s.time, s.cpu, s.ip LIMIT {SAMPLES_MAX}"
    );
    let numbers = [
        "time",
        "event_id",
        "pid",
        "tid",
        "cpu",
        "ip",
        "addr",
        "phys_addr",
        "data_src",
        "period",
        "weight",
        "ins_lat",
        "retire_lat",
        "page_shift",
        "location_id",
        "stack_id",
    ];
    let mut columns = numbers.map(|name| Column::number(name, "")).to_vec();
    columns.push(Column::text("comm"));
    part("samples", about(filter, &sql), columns)
}

/// Their events.
pub(crate) fn events(filter: &Filter) -> PartPlan {
    let sql = "SELECT event_id, argMax(name, last_seen), argMax(attr, last_seen) FROM events \
               WHERE event_id IN (SELECT s.event_id {of}) GROUP BY event_id ORDER BY event_id";
    part(
        "events",
        about(filter, sql),
        vec![
            Column::number("event_id", ""),
            Column::text("name"),
            Column::text("attr"),
        ],
    )
}

/// Their callchains: places, innermost first.
pub(crate) fn stacks(filter: &Filter) -> PartPlan {
    let sql = "SELECT stack_id, arrayStringConcat(any(locations), ' ') FROM stacks \
               WHERE stack_id IN (SELECT s.stack_id {of} AND s.stack_id != 0) GROUP BY stack_id";
    part(
        "stacks",
        about(filter, sql),
        vec![Column::number("stack_id", ""), Column::text("locations")],
    )
}

/// Places of samples and callchains: mapping, address, and what has to be taken from the address for the file's offset
/// (as text: it may be negative); null: not known.
pub(crate) fn places(filter: &Filter) -> PartPlan {
    let sql = "WITH used AS (SELECT s.location_id AS id {of} UNION DISTINCT SELECT arrayJoin(locations) AS id FROM stacks \
               WHERE stack_id IN (SELECT s.stack_id {of} AND s.stack_id != 0)) \
               SELECT l.location_id, any(l.mapping_id), any(l.address), \
               if(max(n.is_offset) = 1, '0', if(max(d.file_offset) = 0, NULL, toString(toInt64(max(d.start)) - toInt64(max(d.file_offset)) + 1))) \
               FROM locations AS l LEFT JOIN functions_def AS d ON d.function_id = l.function_id \
               LEFT JOIN nameless AS n ON n.location_id = l.location_id \
               WHERE l.location_id IN (SELECT id FROM used) GROUP BY l.location_id";
    part(
        "places",
        about(filter, sql),
        vec![
            Column::number("location_id", ""),
            Column::number("mapping_id", ""),
            Column::number("address", ""),
            Column::text("shift"),
        ],
    )
}

/// All mappings these places can lie in.
pub(crate) fn mappings(filter: &Filter) -> PartPlan {
    let sql = "SELECT mapping_id, argMax(kind, last_seen), argMax(build_id, last_seen), argMax(path, last_seen) FROM mappings \
               WHERE mapping_id IN (SELECT mapping_id FROM locations WHERE location_id IN \
               (SELECT s.location_id {of} UNION DISTINCT SELECT arrayJoin(locations) FROM stacks \
               WHERE stack_id IN (SELECT s.stack_id {of} AND s.stack_id != 0))) GROUP BY mapping_id";
    part(
        "mappings",
        about(filter, sql),
        vec![
            Column::number("mapping_id", ""),
            Column::text("kind"),
            Column::text("build_id"),
            Column::text("path"),
        ],
    )
}

/// Facts of the host.
pub(crate) fn host(name: &str) -> PartPlan {
    let mut statement = Statement::default();
    let host = statement.texts(&[name.to_owned()]);
    statement.sql = format!(
        "SELECT argMax(os_release, time), argMax(arch, time), argMax(cpu_model, time), argMax(cpuid, time), \
         toUInt64(argMax(cpus, time)) FROM hosts WHERE host = {host}"
    );
    part(
        "host",
        statement,
        vec![
            Column::text("os_release"),
            Column::text("arch"),
            Column::text("cpu_model"),
            Column::text("cpuid"),
            Column::number("cpus", "cpus"),
        ],
    )
}

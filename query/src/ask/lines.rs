//! Which cache lines are fought over, or shared falsely, on how many hosts.
//!
//! A line of a variable is the same line on all hosts and in all processes: programs are mapped in whole pages, so its place
//! in a page stays. What else is mapped (heap, stacks) is a line of its process alone.
//!
//! A load that another cache had to answer is *contended*. Who made it so is told by who else was seen to write the line in
//! the same process: at the same offset only (true sharing), at other offsets only (false sharing), both, or nobody. Writers
//! of another process, or of another line of a large variable, wrote another piece of memory: they tell nothing of who
//! made a load contended, and are called that.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples::{FUNCTION, conditions, hexadecimal};
use super::table::Table;
use super::{Ask, AskError, Extra, Given, PartPlan, Plan};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Lines whose accesses are shown.
const DETAILED: usize = 20;
/// Accesses of all of them.
const ACCESSES_MAX: u32 = 5_000;
/// Bytes of a line.
const LINE: u32 = 64;

/// The question `lines`.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Range, filters, rows.
    pub filter: Filter,
}

/// Samples of the range that touch a line of which somebody else's cache had to answer, or that several CPUs use and
/// somebody writes; with who else writes it.
fn accesses(statement: &mut Statement, filter: &Filter) -> String {
    let conditions = conditions(statement, filter, filter.range);
    let data = super::samples::DATA;
    let own = [
        "host",
        "pid",
        "line",
        "at",
        "tid",
        "cpu",
        "data_id",
        "region",
        "function_id",
        "tier",
        "writes",
        "loads",
        "stores",
        "snoop",
        "hw_locality",
        "weight",
        "latency_kind",
    ];
    // Named once more: columns that joined tables share have the table's name in theirs else.
    let own: Vec<String> = own
        .iter()
        .map(|name| format!("a.{name} AS {name}"))
        .collect();
    let own = own.join(", ");
    format!(
        "WITH a AS (SELECT s.host AS host, s.pid AS pid, bitShiftRight(s.addr, 6) AS line, toUInt8(bitAnd(s.addr, {mask})) AS at, \
         s.tid AS tid, s.cpu AS cpu, s.data_id AS data_id, s.region AS region, s.function_id AS function_id, s.tier AS tier, \
         s.op IN ('store', 'load+store') OR s.locked != 0 AS writes, s.op IN ('load', 'load+store') AS loads, \
         s.op IN ('store', 'load+store') AS stores, s.snoop AS snoop, s.hw_locality AS hw_locality, s.weight AS weight, \
         s.latency_kind AS latency_kind FROM samples AS s WHERE {conditions} AND s.addr != 0 AND s.tier = 'precise' \
         AND (s.op IN ('load', 'store', 'load+store') OR s.locked != 0)), \
         c AS (SELECT host, pid, line, groupUniqArrayIf((tid, at), writes) AS writers, \
         countIf(snoop IN ('hitm', 'fwd', 'peer')) AS answered, uniqExact(cpu) AS cpus FROM a GROUP BY host, pid, line \
         HAVING answered > 0 OR (cpus > 1 AND notEmpty(writers))), \
         x AS (SELECT {own}, a.loads AND a.snoop IN ('hitm', 'fwd', 'peer') AS contended, \
         arrayExists(w -> w.1 != a.tid AND w.2 = a.at, c.writers) AS same, \
         arrayExists(w -> w.1 != a.tid AND w.2 != a.at, c.writers) AS apart, \
         arrayExists(w -> w.1 = a.tid, c.writers) AS own, \
         d.data_symbol AS data_symbol, d.data_module AS data_module, d.data_build_id AS data_build_id, \
         a.region IN ('global', 'file') AND a.data_id != 0 AS fixed, \
         if(fixed, concat(d.data_build_id, '/', d.data_module, '/', d.data_symbol, '+', toString(bitAnd(a.line, 63))), \
         concat(a.host, '/', toString(a.pid), '/', toString(a.line))) AS place \
         FROM a INNER JOIN c ON c.host = a.host AND c.pid = a.pid AND c.line = a.line \
         LEFT JOIN ({data}) AS d ON d.data_id = a.data_id)",
        mask = LINE - 1,
    )
}

impl Ask for Lines {
    const DIMENSIONS: &'static [Dimension] = &[
        Dimension::Host,
        Dimension::Namespace,
        Dimension::Pod,
        Dimension::Container,
        Dimension::Service,
        Dimension::BuildId,
        Dimension::Comm,
        Dimension::Function,
        Dimension::Event,
        Dimension::Context,
    ];
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let accesses = accesses(&mut statement, filter);
        let of = |name, unit, expression: &str| {
            Output::sum(Column::number(name, unit), expression.to_owned())
        };
        let text = |name, expression: &str| Output::sum(Column::text(name), expression.to_owned());
        let outputs = [
            Output::key_of("line_id", "concat('0x', lower(hex(sipHash64(s.place))))"),
            Output::key("tier"),
            text("data_symbol", "any(s.data_symbol)"),
            text("data_module", "any(s.data_module)"),
            text("data_build_id", "any(s.data_build_id)"),
            text("region", "any(s.region)"),
            text(
                "address",
                &format!(
                    "if(any(s.fixed), concat('page + ', {}), {})",
                    hexadecimal("any(bitAnd(s.line, 63) * 64)"),
                    hexadecimal("(any(s.line) * 64)")
                ),
            ),
            Output::count("samples", "count()"),
            Output::count("hitm", "countIf(s.contended AND s.snoop = 'hitm')"),
            Output::count(
                "rmt_hitm",
                "countIf(s.contended AND s.snoop = 'hitm' AND s.hw_locality = 'remote')",
            ),
            Output::count("fwd", "countIf(s.contended AND s.snoop = 'fwd')"),
            Output::count("peer", "countIf(s.contended AND s.snoop = 'peer')"),
            Output::count("loads", "countIf(s.loads)"),
            Output::count("stores", "countIf(s.stores)"),
            Output::count("contended", "countIf(s.contended)"),
            Output::count(
                "by_same_offset",
                "countIf(s.contended AND s.same AND NOT s.apart)",
            ),
            Output::count(
                "by_other_offset",
                "countIf(s.contended AND s.apart AND NOT s.same)",
            ),
            Output::count("by_both", "countIf(s.contended AND s.apart AND s.same)"),
            Output::count(
                "writer_unseen",
                "countIf(s.contended AND NOT s.apart AND NOT s.same)",
            ),
            Output::count("writes_beside_writes", "countIf(s.writes AND s.same)"),
            Output::count("writes_near_writes", "countIf(s.writes AND s.apart)"),
            Output::count("reads_beside_writes", "countIf(NOT s.writes AND s.same)"),
            Output::count("reads_near_writes", "countIf(NOT s.writes AND s.apart)"),
            of("offsets", "offsets", "uniqExact(s.at)"),
            of("threads", "threads", "uniqExact(s.host, s.pid, s.tid)"),
            of(
                "writers",
                "threads",
                "uniqExactIf((s.host, s.pid, s.tid), s.writes)",
            ),
            of(
                "own_writers",
                "threads",
                "uniqExactIf((s.host, s.pid, s.tid), s.contended AND s.own)",
            ),
            of("cpus", "cpus", "uniqExact(s.host, s.cpu)"),
            of("processes", "processes", "uniqExact(s.host, s.pid)"),
            of("lines", "lines", "uniqExact(s.host, s.pid, s.line)"),
            of("hosts", "hosts", "uniqExact(s.host)"),
        ];
        let shape = Grouped {
            order: "contended",
            partition: &["tier"],
            having: "",
        };
        let rounded = super::samples::kept(filter);
        shape.select(
            Table::Samples,
            filter,
            rounded,
            statement,
            &accesses,
            "x AS s",
            &outputs,
        )
    }

    fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        let place = plan
            .columns
            .iter()
            .position(|column| column.name == "line_id");
        let ids: Vec<String> = rows
            .iter()
            .take(DETAILED)
            .filter_map(|row| match row.get(place?) {
                Some(Value::Text(id)) => Some(id.clone()),
                _ => None,
            })
            .collect();
        if ids.is_empty() {
            return Vec::new();
        }
        let mut statement = Statement::default();
        let accesses = accesses(&mut statement, &self.filter);
        let ids = statement.texts(&ids);
        statement.sql = format!(
            "{accesses} SELECT concat('0x', lower(hex(sipHash64(s.place)))) AS line_id, s.at AS at, {FUNCTION} AS fn, f.module AS mo, \
             count() AS n, countIf(s.loads), countIf(s.stores), countIf(s.contended) AS contended, \
             countIf(s.contended AND s.snoop = 'hitm'), uniqExact(s.host, s.pid, s.tid), uniqExact(s.host, s.cpu), uniqExact(s.host), \
             if(countIf(s.weight > 0) = 0, NULL, avgIf(s.weight, s.weight > 0)), s.latency_kind AS kind \
             FROM x AS s LEFT JOIN function_names AS f ON f.function_id = s.function_id WHERE line_id IN ({ids}) \
             GROUP BY line_id, at, fn, mo, kind ORDER BY line_id, at, contended DESC, n DESC, fn, mo, kind LIMIT {ACCESSES_MAX}"
        );
        vec![PartPlan {
            name: "accesses",
            statement,
            columns: vec![
                Column::text("line_id"),
                Column::number("offset", "bytes"),
                Column::text("function"),
                Column::text("module"),
                Column::number("samples", "samples"),
                Column::number("loads", "samples"),
                Column::number("stores", "samples"),
                Column::number("contended", "samples"),
                Column::number("hitm", "samples"),
                Column::number("threads", "threads"),
                Column::number("cpus", "cpus"),
                Column::number("hosts", "hosts"),
                Column::real("mean_latency", "cycles"),
                Column::text("latency_kind"),
            ],
        }]
    }

    fn conclude(&self, answer: &mut Answer) {
        let names = [
            "contended",
            "by_same_offset",
            "by_other_offset",
            "by_both",
            "writes_beside_writes",
            "writes_near_writes",
            "reads_beside_writes",
            "reads_near_writes",
            "writers",
            "own_writers",
        ];
        let places = names.map(|name| answer.column(name));
        let (mut peers_only, mut several) = (true, false);
        let hitm = answer.column("hitm");
        let [lines, processes] = ["lines", "processes"].map(|name| answer.column(name));
        for row in &mut answer.rows {
            let number = |place: Option<usize>| match place.and_then(|at| row.get(at)) {
                Some(Value::Number(number)) => *number,
                _ => 0,
            };
            peers_only &= number(hitm) == 0;
            several |= number(lines) > number(processes);
            let verdict = verdict(places.map(number));
            row.push(Value::Text(verdict.to_owned()));
        }
        answer.columns.push(Column::text("verdict"));
        answer.notes.push("lines of 64 bytes that another cache had to answer for (`contended`), or that several CPUs use and somebody writes; offsets are where accesses begin. Lines of variables are one over all hosts and processes of a build; others are of one process".to_owned());
        if peers_only && !answer.rows.is_empty() {
            answer.notes.push("no HitM is recorded here: PMUs that have none (Arm SPE) tell peers, others tell nothing of modified lines".to_owned());
        }
        let place = answer.column("verdict");
        let says = |row: &Vec<Value>, word: &str| matches!(place.and_then(|at| row.get(at)), Some(Value::Text(text)) if text == word);
        for (word, means) in [
            (
                "writers elsewhere",
                "writers were seen in other processes, or on other lines of the variable, none in the process of a contended load: nothing tells true from false sharing",
            ),
            (
                "own writes only",
                "nobody but the threads whose loads were contended was seen to write",
            ),
        ] {
            if answer.rows.iter().any(|row| says(row, word)) {
                answer.notes.push(format!("{word}: {means}"));
            }
        }
        if several {
            answer.notes.push("where `lines` is above `processes`, a variable larger than a page has several lines at the same place of a page: they are one row".to_owned());
        }
    }
}

/// The same words as for files, from the same findings.
fn verdict(
    [
        contended,
        same,
        other,
        both,
        stores_same,
        stores_apart,
        reads_same,
        reads_apart,
        writers,
        own_writers,
    ]: [u64; 10],
) -> &'static str {
    if contended > 0 {
        return match (other, same, both) {
            (0, 0, 0) if writers == 0 => "writer unseen",
            (0, 0, 0) if writers == own_writers => "own writes only",
            (0, 0, 0) => "writers elsewhere",
            (_, 0, 0) => "false sharing",
            (0, _, 0) => "true sharing",
            _ => "false and true sharing",
        };
    }
    if stores_same > 0 {
        "stores, same offset"
    } else if stores_apart > 0 {
        "stores, different offsets"
    } else if reads_same > 0 {
        "read and written, same offset"
    } else if reads_apart > 0 {
        "read and written, different offsets"
    } else {
        "not shared"
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn verdicts_follow_from_who_else_wrote() {
        for (found, says) in [
            ([5, 0, 0, 0, 0, 0, 0, 0, 0, 0], "writer unseen"),
            ([5, 0, 0, 0, 0, 0, 0, 0, 2, 0], "writers elsewhere"),
            ([5, 0, 0, 0, 0, 0, 0, 0, 2, 1], "writers elsewhere"),
            ([5, 0, 0, 0, 0, 0, 0, 0, 1, 1], "own writes only"),
            ([5, 0, 5, 0, 9, 9, 0, 0, 2, 0], "false sharing"),
            ([5, 5, 0, 0, 0, 0, 0, 0, 1, 0], "true sharing"),
            ([5, 1, 4, 0, 0, 0, 0, 0, 1, 0], "false and true sharing"),
            ([5, 0, 0, 5, 0, 0, 0, 0, 1, 0], "false and true sharing"),
            ([0, 0, 0, 0, 1, 1, 1, 1, 2, 0], "stores, same offset"),
            ([0, 0, 0, 0, 0, 1, 1, 1, 2, 0], "stores, different offsets"),
            (
                [0, 0, 0, 0, 0, 0, 1, 1, 1, 0],
                "read and written, same offset",
            ),
            (
                [0, 0, 0, 0, 0, 0, 0, 1, 1, 0],
                "read and written, different offsets",
            ),
            ([0; 10], "not shared"),
        ] {
            assert_eq!(verdict(found), says);
        }
    }
}

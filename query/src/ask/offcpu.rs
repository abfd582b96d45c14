//! Where threads wait off the CPU, and how long: from the switches of all CPUs.
//!
//! A switch is sampled in the thread that leaves. So the thread that leaves a CPU came to it at the switch before on that
//! CPU, and a thread was off from where it left to where it came back. Nothing else has to be known; but every switch has:
//! the tracepoint `sched:sched_switch` with period 1, on all CPUs. Where the same thread left a CPU before, somebody ran there
//! unseen, and nobody knows when the thread came back.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples::{conditions, conditions_of};
use super::sites::sites;
use super::table::Table;
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

const SWITCHES: &str = "match(s.event, '^sched:sched_switch(:|/|$)')";

/// One thread of so many, of an event that is of some only; else 1.
const ONE_OF: &str = "greatest(toUInt64OrZero(extract(s.event, '/threads=([0-9]+)/')), 1)";

/// Of the others only that they left is known.
const KNOWN: &str = "(NOT match(w.event, '/threads=') OR \
                     bitAnd(w.tid, toUInt32OrZero(extract(w.event, '/threads=([0-9]+)/')) - 1) = 1)";

/// The question `offcpu`.
#[derive(Debug, Clone, PartialEq)]
pub struct Offcpu {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Offcpu {
    const DIMENSIONS: &'static [Dimension] = &[
        Dimension::Host,
        Dimension::Namespace,
        Dimension::Pod,
        Dimension::Container,
        Dimension::Service,
        Dimension::Comm,
    ];
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let table = Table::choose(
            &[Table::Offcpu, Table::Samples],
            &filter.needs(),
            filter.range,
        );
        let (range, rounded) = table.range(filter);
        let asked = conditions_of(&mut statement, table, filter, range);
        let (rows, of_switches) = match table {
            Table::Samples => (spells(&mut statement, filter), format!(" AND {SWITCHES}")),
            _ => (table.rows(), String::new()),
        };
        let sites = sites(table, &format!("{asked}{of_switches}"));
        let with = format!(
            "WITH x AS (SELECT s.host AS host, s.pid AS pid, s.tid AS tid, s.comm AS comm, s.tier AS tier, s.event AS event, \
             {ONE_OF} AS one_of, if(one_of = 1, 'all threads', concat('one thread of ', toString(one_of))) AS estimator, \
             s.n AS n, s.spells AS spells, s.off_ns AS off_ns, s.off_ns_max AS off_ns_max, \
             if(p.function = '' AND p.kernel = '', '[no callchain]', p.function) AS function, p.module AS module, p.kernel AS waits_in \
             FROM {rows} AS s LEFT JOIN ({sites}) AS p ON p.stack_id = s.stack_id WHERE {asked})"
        );
        let seconds = |name, expression: &str| {
            Output::sum(Column::real(name, "seconds"), expression.to_owned())
        };
        let number = |name, unit, expression: &str| {
            Output::sum(Column::number(name, unit), expression.to_owned())
        };
        let outputs = [
            Output::joined("function"),
            Output::joined("module"),
            Output::joined("waits_in"),
            Output::joined("comm"),
            Output::joined("tier"),
            Output::joined("event"),
            Output::joined("estimator"),
            seconds("off_seconds", "sum(s.off_ns * s.one_of) / 1e9"),
            number("spells", "spells", "sum(s.spells * s.one_of)"),
            seconds(
                "mean",
                "if(sum(s.spells) = 0, NULL, sum(s.off_ns) / 1e9 / sum(s.spells))",
            ),
            seconds(
                "most",
                "if(sum(s.spells) = 0, NULL, max(s.off_ns_max) / 1e9)",
            ),
            number(
                "open",
                "spells",
                "toUInt64(greatest(sum(s.n) - sum(s.spells), 0) * any(s.one_of))",
            ),
            Output::count("samples", "sum(s.n)"),
            Output::weigh("off_seconds", "sum(s.off_ns * s.one_of) / 1e9".to_owned()),
            number(
                "threads",
                "threads",
                "uniqExact(s.host, s.pid, s.tid) * any(s.one_of)",
            ),
            number("hosts", "hosts", "uniqExact(s.host)"),
        ];
        let shape = Grouped {
            order: "off_seconds",
            partition: &["tier", "event"],
            having: "",
        };
        shape.select(
            table,
            filter,
            (range, rounded),
            statement,
            &with,
            "x AS s",
            &outputs,
        )
    }

    fn conclude(&self, answer: &mut Answer) {
        if answer.rows.is_empty() {
            answer.notes.push("time off the CPU needs every switch of all CPUs: the event sched:sched_switch with period 1, or of one thread of N: sched:sched_switch/threads=8/; collectors do not record it by default (`memwide offcpu --help`)".to_owned());
            return;
        }
        let mut columns = answer.columns.iter();
        let estimator = columns.position(|column| column.name == "estimator");
        let all = Value::Text("all threads".to_owned());
        let is_part = |row: &Vec<Value>| {
            estimator
                .and_then(|at| row.get(at))
                .is_some_and(|cell| *cell != all)
        };
        if answer.rows.iter().any(is_part) {
            answer.notes.push("`one thread of N`: every switch is known of the threads whose number leaves 1 when divided by N; their seconds, spells and threads times N estimate those of all. `samples`, `mean` and `most` are those of the threads that are known".to_owned());
        }
        answer.notes.push("off from where a thread leaves a CPU to where it comes back, as the switches of all CPUs tell it; `function` is the innermost one of the program, `waits_in` what the kernel does for it; `open` spells had not ended, nobody saw their end, or their thread ended with them. Lost samples (see completeness) make spells too short or hide them".to_owned());
    }
}

/// Switches as rows of `offcpu_1m`, each by itself.
fn spells(statement: &mut Statement, filter: &Filter) -> String {
    // Who leaves a CPU tells when the next one came: of a host all switches are needed, whoever is asked for.
    let mut of_hosts = filter.clone();
    let others = Offcpu::DIMENSIONS.iter().copied();
    let others: Vec<Dimension> = others.filter(|one| *one != Dimension::Host).collect();
    of_hosts.clear(&others);
    let all = conditions(statement, &of_hosts, filter.range);
    format!(
        "(SELECT b.*, toUInt64(1) AS n, toUInt64(b.back >= b.t) AS spells, toUInt64(if(b.back >= b.t, b.back - b.t, 0)) AS off_ns, \
         off_ns AS off_ns_max FROM (SELECT w.*, leadInFrame(w.came) OVER (PARTITION BY w.host, w.tid ORDER BY w.t \
         ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS back FROM (SELECT s.time AS time, s.host AS host, s.cpu AS cpu, \
         s.pid AS pid, s.tid AS tid, s.comm AS comm, s.workload_id AS workload_id, s.stack_id AS stack_id, s.tier AS tier, \
         s.event AS event, toUnixTimestamp64Nano(s.time) AS t, \
         if(lagInFrame(s.tid) OVER there = s.tid, 0, lagInFrame(t) OVER there) AS came FROM samples AS s \
         WHERE {all} AND {SWITCHES} AND s.period <= 1 WINDOW there AS (PARTITION BY s.host, s.cpu ORDER BY t \
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS w WHERE w.tid != 0 AND {KNOWN}) AS b)"
    )
}

//! Single samples, for what no table of sums keeps: addresses, CPUs, pages, stacks.

use super::filter::{Dimension, Filter};
use super::table::{SAMPLES_KEPT_NS, Table};
use super::time::Range;
use super::{AskError, Given, one_of};
use crate::statement::Statement;

/// Name and file of each piece of data.
pub(super) const DATA: &str = "SELECT n.data_id AS data_id, argMax(n.name, n.last_seen) AS data_symbol, \
     any(m.module) AS data_module, any(m.build_id) AS data_build_id FROM data_def AS n \
     LEFT JOIN (SELECT mapping_id, argMax(module, last_seen) AS module, argMax(build_id, last_seen) AS build_id \
     FROM mappings GROUP BY mapping_id) AS m ON m.mapping_id = n.mapping_id GROUP BY data_id";

/// Node of each CPU of each host, by its newest facts.
pub(super) const NODES: &str = "SELECT h.host AS node_host, argMax(h.cpu_nodes, h.time) AS cpu_nodes FROM hosts AS h \
     WHERE notEmpty(h.cpu_nodes) GROUP BY node_host";

/// Node of the CPU of a sample `s` joined to [`NODES`] `n`; null: not known.
pub(super) const CPU_NODE: &str =
    "if(length(n.cpu_nodes) > s.cpu, nullIf(n.cpu_nodes[s.cpu + 1], 65535), NULL)";

/// Node of the page of a sample; null: not known.
pub(super) const PAGE_NODE: &str = "nullIf(s.page_node, 255)";

/// Names of a sample's function, joined as `f`; missing ones as questions show them.
pub(super) const FUNCTION: &str = "if(f.function = '', '[unknown]', f.function)";

/// Columns of sums over rows of a table by what they are of, by name: what of samples is a count of them.
pub(super) fn accesses(table: Table) -> [(&'static str, &'static str); 5] {
    if table == Table::Samples {
        return [LOADS, STORES, REMOTE, LOCAL, MEASURED];
    }
    [
        ("n_loads", "sumIf(s.n, s.op IN ('load', 'load+store'))"),
        ("n_stores", "sumIf(s.n, s.op IN ('store', 'load+store'))"),
        ("n_remote", "sumIf(s.n, s.locality = 'remote')"),
        ("n_local", "sumIf(s.n, s.locality = 'local')"),
        // Rows closed by an earlier version do not tell.
        (
            MEASURED.0,
            "if(countIf(isNull(s.n_measured)) > 0, NULL, sum(s.n_measured))",
        ),
    ]
}

/// Columns of sums over samples, by name.
pub(super) const LOADS: (&str, &str) = ("n_loads", "countIf(s.op IN ('load', 'load+store'))");
pub(super) const STORES: (&str, &str) = ("n_stores", "countIf(s.op IN ('store', 'load+store'))");
pub(super) const REMOTE: (&str, &str) = ("n_remote", "countIf(s.locality = 'remote')");
pub(super) const LOCAL: (&str, &str) = ("n_local", "countIf(s.locality = 'local')");
pub(super) const MEASURED: (&str, &str) = ("n_measured", "countIf(s.weight > 0)");
pub(super) const PROCESSES: (&str, &str) = ("n_processes", "uniqExactState(s.host, s.pid)");
pub(super) const PAGES: (&str, &str) = (
    "n_pages",
    "uniqExactIfState(s.host, s.pid, bitShiftRight(s.addr, 12), s.addr != 0)",
);

/// The range of a question that only samples answer, and what a reader must know of it.
pub(super) fn kept(filter: &Filter) -> (Range, Option<String>) {
    let begins_ns = filter.asked_ns.saturating_sub(SAMPLES_KEPT_NS);
    let note = (filter.range.since_ns < begins_ns).then(|| {
        "`samples` keeps 3 days: what is older is only here if it came in late".to_owned()
    });
    (filter.range, note)
}

/// A whole number as `0x…`, without zeros before it.
pub(super) fn hexadecimal(number: &str) -> String {
    format!("if({number} = 0, '0x0', concat('0x', trim(LEADING '0' FROM lower(hex({number})))))")
}

/// Conditions on rows of `samples AS s`: the range and every filter.
pub(super) fn conditions(statement: &mut Statement, filter: &Filter, range: Range) -> String {
    conditions_of(statement, Table::Samples, filter, range)
}

/// The same on rows of any table.
pub(super) fn conditions_of(
    statement: &mut Statement,
    table: Table,
    filter: &Filter,
    range: Range,
) -> String {
    let mut all = vec![table.time_condition(statement, range)];
    for (dimension, values) in filter.dimensions() {
        let (place, name) = (statement.texts(values), dimension.name());
        all.push(match dimension {
            Dimension::Function => {
                let nameless = if values.iter().any(|value| value == "[unknown]") {
                    " OR s.function_id NOT IN (SELECT function_id FROM function_names WHERE function != '')"
                } else {
                    ""
                };
                format!(
                    "(s.function_id IN (SELECT function_id FROM function_names WHERE function IN ({place})){nameless})"
                )
            }
            Dimension::BuildId => format!(
                "s.function_id IN (SELECT function_id FROM function_names WHERE build_id IN ({place}))"
            ),
            Dimension::Namespace
            | Dimension::Pod
            | Dimension::Container
            | Dimension::Service => format!(
                "s.workload_id IN (SELECT workload_id FROM workload_names WHERE {name} IN ({place}))"
            ),
            _ => format!("s.{name} IN ({place})"),
        });
    }
    all.join(" AND ")
}

/// The same of the filter's own range.
pub(crate) fn all_conditions(statement: &mut Statement, filter: &Filter) -> String {
    conditions(statement, filter, filter.range)
}

/// Names of functions, workloads and data that `keys` need, joined to rows `t` that have their ids.
pub(super) struct Joins {
    /// Ids that the rows must have.
    pub(super) ids: Vec<&'static str>,
    /// Further columns, each with `, ` before it.
    names: String,
    /// The joins.
    pub(super) tables: String,
}

/// Columns that come with the name of a function.
pub(super) const FUNCTION_NAMES: &[&str] = &["function", "module", "build_id"];
/// Columns that come with the name of data.
pub(super) const DATA_NAMES: &[&str] = &["data_symbol", "data_module", "data_build_id"];
/// Columns that come with the name of a workload.
pub(super) const WORKLOAD_NAMES: &[&str] = &["namespace", "pod", "container", "service"];

impl Joins {
    /// What `keys` need; functions also where a filter asks for their names.
    pub(super) fn of(keys: &[&str], functions: bool) -> Self {
        let any = |names: &[&str]| keys.iter().any(|key| names.contains(key));
        let mut all = Self {
            ids: Vec::new(),
            names: String::new(),
            tables: String::new(),
        };
        if functions || any(FUNCTION_NAMES) {
            all.add("function_id", "f", FUNCTION_NAMES, "function_names");
        }
        if any(WORKLOAD_NAMES) {
            all.add("workload_id", "w", WORKLOAD_NAMES, "workload_names");
        }
        if any(DATA_NAMES) {
            all.add("data_id", "d", DATA_NAMES, &format!("({DATA})"));
        }
        all
    }

    /// The columns of `t` and the names. Behind several joins an id of `t` has to be named to keep its name.
    pub(super) fn columns(&self) -> String {
        let named: Vec<String> = self
            .ids
            .iter()
            .map(|id| format!(", t.{id} AS {id}"))
            .collect();
        let own = match self.ids.len() {
            0 | 1 => "t.*".to_owned(),
            _ => format!("t.* EXCEPT ({}){}", self.ids.join(", "), named.concat()),
        };
        own + &self.names
    }

    /// True if nothing has to be joined.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn add(&mut self, id: &'static str, alias: &str, names: &[&str], from: &str) {
        self.ids.push(id);
        for name in names {
            self.names.push_str(&format!(", {alias}.{name} AS {name}"));
        }
        self.tables.push_str(&format!(
            " LEFT JOIN {from} AS {alias} ON {alias}.{id} = t.{id}"
        ));
    }
}

/// Whether a column is a name and not a column of its own.
pub(super) fn is_name(key: &str) -> bool {
    [FUNCTION_NAMES, WORKLOAD_NAMES, DATA_NAMES]
        .iter()
        .any(|names| names.contains(&key))
}

/// Counts (`rows`) of samples by `keys` and `further` expressions (`… AS name`), as something to select from, called `s`.
pub(super) fn named(
    statement: &mut Statement,
    table: Table,
    filter: &Filter,
    keys: &[&'static str],
    further: &[&str],
    condition: &str,
) -> String {
    let conditions = conditions_of(statement, table, filter, filter.range);
    let (from, count) = match table {
        Table::Samples => (table.rows(), "count()"),
        _ => (table.rows(), "sum(s.n)"),
    };
    let joins = Joins::of(keys, false);
    let own = keys.iter().filter(|key| !is_name(key));
    let own: Vec<String> = own
        .chain(&joins.ids)
        .map(|key| format!("s.{key} AS {key}"))
        .chain(further.iter().map(|one| (*one).to_owned()))
        .collect();
    let grouped: Vec<&str> = own
        .iter()
        .map(|one| {
            one.rsplit_once(" AS ")
                .map_or(one.as_str(), |(_, name)| name)
        })
        .collect();
    format!(
        "(SELECT {columns} FROM (SELECT {own}, {count} AS rows FROM {from} AS s WHERE {conditions} AND {condition} \
         GROUP BY {grouped}) AS t{joined}) AS s",
        columns = joins.columns(),
        joined = joins.tables,
        own = own.join(", "),
        grouped = grouped.join(", "),
    )
}

/// What tells rows of samples apart, as the parameter `by` chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(Vec<&'static str>);

/// Names of `by`, and the columns of each.
const KEYS: &[(&str, &[&str])] = &[
    ("function", FUNCTION_NAMES),
    ("level", &["level", "outcome"]),
    ("locality", &["locality", "locality_basis"]),
    ("op", &["op"]),
    ("snoop", &["snoop"]),
    ("tlb", &["tlb"]),
    ("region", &["region"]),
    (
        "data",
        &["region", "data_symbol", "data_module", "data_build_id"],
    ),
    ("context", &["context"]),
    ("host", &["host"]),
    ("workload", WORKLOAD_NAMES),
    ("comm", &["comm"]),
];

impl Keys {
    pub(super) fn names() -> Vec<&'static str> {
        KEYS.iter().map(|(name, _)| *name).collect()
    }

    /// The parameter `by`; `default` unless given.
    pub(super) fn given(given: &Given<'_>, default: &[&'static str]) -> Result<Self, AskError> {
        let mut asked = given.list("by");
        if asked.is_empty() {
            asked = default.iter().map(|name| (*name).to_owned()).collect();
        }
        let mut columns: Vec<&'static str> = Vec::new();
        for name in asked {
            let (_, of) = one_of("by", &name, KEYS, |(name, _)| name)?;
            columns.extend(
                of.iter()
                    .filter(|column| !columns.contains(column))
                    .copied()
                    .collect::<Vec<_>>(),
            );
        }
        Ok(Self(columns))
    }

    /// Their columns.
    pub(super) fn columns(&self) -> &[&'static str] {
        &self.0
    }
}

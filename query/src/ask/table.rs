//! The tables that questions read, how each writes the same dimensions and sums, and which one is the coarsest that
//! suffices.

use super::Plan;
use super::filter::{Dimension, Filter};
use super::time::{DAY_NS, HOUR_NS, MINUTE_NS, Range};
use crate::answer::Column;
use crate::statement::Statement;

/// A table or view with samples or sums of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Hour × function, all hosts together.
    Fleet,
    /// Minute × host, no function.
    Mix,
    /// Hour × function × host.
    Functions,
    /// Every sample.
    Samples,
}

/// A sum over samples, besides the number of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    /// Name in answers and in the view `functions`.
    pub(super) name: &'static str,
    /// Column of the rollups.
    rollup: &'static str,
    /// Aggregate over samples; the same rules stand in the view `samples_as_functions`.
    samples: &'static str,
}

/// Samples.
pub(super) const SAMPLES: Sum = Sum {
    name: "samples",
    rollup: "n",
    samples: "count()",
};
/// Σ weight.
pub(super) const WEIGHT: Sum = Sum {
    name: "weight",
    rollup: "sum_w",
    samples: "sum(toFloat64(s.weight))",
};
/// Σ weight × period.
pub(super) const LATENCY: Sum = Sum {
    name: "latency_cycles",
    rollup: "sum_wp",
    samples: "sum(toFloat64(s.weight) * toFloat64(s.period))",
};
/// Σ period, an estimate of events where the event declares what it counts.
const PERIOD: Sum = Sum {
    name: "est_events",
    rollup: "sum_p",
    samples: "sum(toFloat64(s.period))",
};

/// Counts of samples with a property.
pub(super) const COUNTS: &[Sum] = &[
    Sum {
        name: "n_hitm",
        rollup: "n_hitm",
        samples: "countIf(s.snoop = 'hitm')",
    },
    Sum {
        name: "n_hitm_rmt",
        rollup: "n_hitm_rmt",
        samples: "countIf(s.snoop = 'hitm' AND s.hw_locality = 'remote')",
    },
    Sum {
        name: "n_fwd",
        rollup: "n_fwd",
        samples: "countIf(s.snoop = 'fwd')",
    },
    Sum {
        name: "n_peer",
        rollup: "n_peer",
        samples: "countIf(s.snoop = 'peer')",
    },
    Sum {
        name: "n_page_remote",
        rollup: "n_page_remote",
        samples: "countIf(s.page_locality = 'remote')",
    },
    Sum {
        name: "n_page_known",
        rollup: "n_page_known",
        samples: "countIf(s.page_locality != 'unknown')",
    },
    Sum {
        name: "n_stlb_walk",
        rollup: "n_stlb_walk",
        samples: "countIf(s.tlb = 'walk')",
    },
    Sum {
        name: "n_locked",
        rollup: "n_locked",
        samples: "countIf(s.locked != 0)",
    },
    Sum {
        name: "n_blocked",
        rollup: "n_blocked",
        samples: "countIf(s.blocked NOT IN ('unknown', 'no'))",
    },
];

/// Every sum, for carrying them through a subquery.
fn all_sums() -> impl Iterator<Item = Sum> {
    [SAMPLES, PERIOD, WEIGHT, LATENCY]
        .into_iter()
        .chain(COUNTS.iter().copied())
}

/// Events whose periods add up to a count of something.
const COUNTED_EVENTS: &str = "SELECT event_id FROM events WHERE population != ''";

/// A function without a name is shown, and asked for, as this.
const FUNCTION: &str = "if(function = '', '[unknown]', function)";

impl Table {
    /// The coarsest of `candidates` that has all the `needs` and whose steps are not longer than the range.
    pub(super) fn choose(candidates: &[Self], needs: &[Dimension], range: Range) -> Self {
        let suffices = |table: &&Self| {
            let fits =
                range.len_ns() >= table.step_ns() || range.outwards(table.step_ns()) == range;
            fits && needs.iter().all(|need| table.has(*need))
        };
        candidates
            .iter()
            .find(suffices)
            .copied()
            .unwrap_or(Self::Samples)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet_1h",
            Self::Mix => "mix_1m",
            Self::Functions => "functions",
            Self::Samples => "samples",
        }
    }

    /// Length of its time steps.
    const fn step_ns(self) -> u64 {
        match self {
            Self::Fleet | Self::Functions => HOUR_NS,
            Self::Mix => MINUTE_NS,
            Self::Samples => 1,
        }
    }

    fn has(self, dimension: Dimension) -> bool {
        use Dimension as D;
        match dimension {
            D::Event | D::Tier | D::Op | D::Level | D::Locality => true,
            D::Host | D::Namespace | D::Pod | D::Container | D::Service | D::Context => {
                self != Self::Fleet
            }
            D::Function | D::BuildId => self != Self::Mix,
            D::Comm => matches!(self, Self::Functions | Self::Samples),
            D::Snoop => self == Self::Samples,
        }
    }

    /// The range rounded to its steps, and what a reader must know of it.
    pub(super) fn rounded(self, filter: &Filter) -> (Range, Option<String>) {
        let rounded = filter.range.outwards(self.step_ns());
        let step = if self.step_ns() == HOUR_NS {
            "hours"
        } else {
            "minutes"
        };
        let note = if rounded != filter.range {
            Some(format!(
                "`{}` has whole {step}: this is {rounded}",
                self.name()
            ))
        } else if self == Self::Samples
            && filter.range.since_ns.saturating_add(SAMPLES_KEPT_NS) < filter.asked_ns
        {
            Some(
                "`samples` keeps 3 days: ask for whole hours, without `snoop`, of what is older"
                    .to_owned(),
            )
        } else {
            None
        };
        (rounded, note)
    }
}

/// How long the table `samples` keeps its rows.
const SAMPLES_KEPT_NS: u64 = 3 * DAY_NS;

/// Rows to be grouped, and how they hold sums.
#[derive(Debug)]
pub(super) struct Source {
    table: Table,
    /// The rows are sums already, of a subquery.
    summed: bool,
    /// What stands behind FROM.
    from: String,
    /// What stands behind WHERE; may be empty.
    conditions: String,
}

impl Source {
    /// Rows of `table` that pass the filter, with columns for the keys of `outputs`.
    ///
    /// Names of functions and workloads are joined to sums by id, not to each row; the view `functions` has them.
    pub(super) fn new(
        statement: &mut Statement,
        table: Table,
        filter: &Filter,
        range: Range,
        keys: &[&'static str],
    ) -> Self {
        let mut conditions = vec![time_condition(statement, table == Table::Samples, range)];
        let mut name_conditions = Vec::new();
        for (dimension, values) in filter.dimensions() {
            let (place, column) = (statement.texts(values), dimension.name());
            match dimension {
                Dimension::Function => name_conditions.push(format!("{FUNCTION} IN ({place})")),
                Dimension::BuildId => name_conditions.push(format!("{column} IN ({place})")),
                Dimension::Namespace
                | Dimension::Pod
                | Dimension::Container
                | Dimension::Service
                    if table != Table::Functions =>
                {
                    conditions.push(format!(
                        "workload_id IN (SELECT workload_id FROM workload_names WHERE {column} IN ({place}))"
                    ));
                }
                _ => conditions.push(format!("{column} IN ({place})")),
            }
        }
        let functions =
            !name_conditions.is_empty() || keys.iter().any(|key| FUNCTION_NAMES.contains(key));
        let workloads = keys.iter().any(|key| WORKLOAD_NAMES.contains(key));
        if table == Table::Functions || !(functions || workloads) {
            conditions.append(&mut name_conditions);
            let from = format!("{} AS s", table.name());
            return Self {
                table,
                summed: false,
                from,
                conditions: conditions.join(" AND "),
            };
        }
        let mut source = Self {
            table,
            summed: false,
            from: String::new(),
            conditions: conditions.join(" AND "),
        };
        source.from = source.joined(keys, functions, workloads);
        source.summed = true;
        source.conditions = name_conditions.join(" AND ");
        source
    }

    /// Sums by id, joined to names.
    fn joined(&self, keys: &[&'static str], functions: bool, workloads: bool) -> String {
        let own = |key: &&&str| !FUNCTION_NAMES.contains(*key) && !WORKLOAD_NAMES.contains(*key);
        let mut ids: Vec<&str> = keys.iter().filter(own).copied().collect();
        ids.push("event_id");
        let (mut names, mut joins) = (String::new(), String::new());
        if functions {
            ids.push("function_id");
            names.push_str(", f.function AS function, f.module AS module, f.build_id AS build_id");
            joins.push_str(" LEFT JOIN function_names AS f ON f.function_id = t.function_id");
        }
        if workloads {
            ids.push("workload_id");
            names.push_str(", w.namespace AS namespace, w.pod AS pod, w.container AS container, w.service AS service");
            joins.push_str(" LEFT JOIN workload_names AS w ON w.workload_id = t.workload_id");
        }
        let sums: Vec<String> = all_sums()
            .map(|sum| format!("{} AS {}", self.sum(sum), sum.rollup))
            .collect();
        let hosts = match self.table {
            Table::Fleet => "uniqMergeState(s.hosts)",
            _ => "uniqExactState(s.host)",
        };
        format!(
            "(SELECT t.*{names} FROM (SELECT {ids}, {sums}, {hosts} AS hosts FROM {table} AS s WHERE {conditions} \
             GROUP BY {ids}) AS t{joins}) AS s",
            ids = ids.join(", "),
            sums = sums.join(", "),
            table = self.table.name(),
            conditions = self.conditions,
        )
    }

    /// The expression of a key.
    pub(super) fn key(name: &'static str) -> String {
        if name == "function" {
            FUNCTION.to_owned()
        } else {
            name.to_owned()
        }
    }

    /// The expression of a sum.
    pub(super) fn sum(&self, sum: Sum) -> String {
        match self.table {
            Table::Functions => format!("sum(s.{})", sum.name),
            Table::Samples if !self.summed => sum.samples.to_owned(),
            _ => format!("sum(s.{})", sum.rollup),
        }
    }

    /// The estimate of events: null as soon as one of the samples is of an event that counts nothing.
    pub(super) fn est_events(&self) -> String {
        let uncounted = match self.table {
            Table::Functions => "isNull(s.est_events)".to_owned(),
            _ => format!("s.event_id NOT IN ({COUNTED_EVENTS})"),
        };
        format!("if(countIf({uncounted}) > 0, NULL, {})", self.sum(PERIOD))
    }

    /// The expression of the number of hosts.
    pub(super) const fn hosts(&self) -> &'static str {
        match self.table {
            Table::Fleet => "uniqMerge(s.hosts)",
            _ if self.summed => "uniqExactMerge(s.hosts)",
            _ => "uniqExact(s.host)",
        }
    }
}

/// Columns that come with the name of a function.
const FUNCTION_NAMES: &[&str] = &["function", "module", "build_id"];
/// Columns that come with the name of a workload.
const WORKLOAD_NAMES: &[&str] = &["namespace", "pod", "container", "service"];

/// `time` within the range, for a column of nanoseconds or of seconds.
pub(super) fn time_condition(statement: &mut Statement, nanoseconds: bool, range: Range) -> String {
    let mut bound = |ns: u64| {
        if nanoseconds {
            format!(
                "fromUnixTimestamp64Nano(toInt64({}), 'UTC')",
                statement.number(ns)
            )
        } else {
            format!(
                "toDateTime({}, 'UTC')",
                statement.number(ns / 1_000_000_000)
            )
        }
    };
    let since = bound(range.since_ns);
    format!("time >= {since} AND time < {}", bound(range.until_ns))
}

/// One column of a grouped statement.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) column: Column,
    pub(super) expression: String,
    pub(super) key: bool,
}

impl Output {
    pub(super) fn key(name: &'static str) -> Self {
        Self {
            column: Column::text(name),
            expression: Source::key(name),
            key: true,
        }
    }

    pub(super) const fn sum(column: Column, expression: String) -> Self {
        Self {
            column,
            expression,
            key: false,
        }
    }
}

/// `outputs` of `source` and the counts that every table has, as a plan over `range`; `rounded` says how the range asked
/// for was rounded.
pub(super) fn plan(
    table: Table,
    filter: &Filter,
    (range, rounded): (Range, Option<String>),
    mut statement: Statement,
    source: &Source,
    mut outputs: Vec<Output>,
    order: &str,
) -> Plan {
    let counts = COUNTS.iter();
    outputs.extend(
        counts.map(|count| Output::sum(Column::number(count.name, "samples"), source.sum(*count))),
    );
    let columns = grouped(&mut statement, &outputs, source, order, filter.limit);
    Plan {
        statement,
        columns,
        table: table.name(),
        limit: filter.limit,
        range,
        hosts: filter.values(Dimension::Host).to_vec(),
        notes: rounded.into_iter().collect(),
    }
}

/// `outputs` of `source`, grouped by the keys, with the share of each row's samples within its tier and event behind
/// the column `samples`, ordered, one row more than wanted.
///
/// Columns are named by their place, so that no alias shadows a column.
fn grouped(
    statement: &mut Statement,
    outputs: &[Output],
    source: &Source,
    order: &str,
    limit: u32,
) -> Vec<Column> {
    let place = |name: &str| {
        outputs
            .iter()
            .position(|output| output.column.name == name)
            .unwrap_or_default()
    };
    let (samples, order) = (place("samples"), place(order));
    let selected: Vec<String> = outputs
        .iter()
        .enumerate()
        .map(|(i, output)| format!("{} AS c{i}", output.expression))
        .collect();
    let keys: Vec<String> = outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| output.key)
        .map(|(i, _)| format!("c{i}"))
        .collect();
    let mut shown: Vec<String> = (0..outputs.len()).map(|i| format!("c{i}")).collect();
    let share = format!(
        "c{samples} / sum(c{samples}) OVER (PARTITION BY c{}, c{})",
        place("tier"),
        place("event")
    );
    shown.insert(samples + 1, share);
    let conditions = &source.conditions;
    let filter = if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {conditions}")
    };
    let from = &source.from;
    statement.sql = format!(
        "SELECT {} FROM (SELECT {} FROM {from}{filter} GROUP BY {keys}) ORDER BY c{order} DESC NULLS LAST, \
         c{samples} DESC, {keys} LIMIT {}",
        shown.join(", "),
        selected.join(", "),
        u64::from(limit) + 1,
        keys = keys.join(", "),
    );
    let mut columns: Vec<_> = outputs.iter().map(|output| output.column.clone()).collect();
    columns.insert(samples + 1, Column::real("share", "ratio"));
    columns
}

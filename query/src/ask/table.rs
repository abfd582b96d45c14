//! The tables that questions read, how each writes the same dimensions and sums, and which one is the coarsest that
//! suffices.

use super::filter::{Dimension, Filter};
use super::samples::{Joins, is_name};
use super::time::{DAY_NS, HOUR_NS, MINUTE_NS, Range, minutes_condition, time_condition};
use crate::statement::Statement;

/// A table or view with samples or sums of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Hour × function, all hosts together.
    Fleet,
    /// Minute × host, no function.
    Mix,
    /// Day × function, all hosts together.
    Days,
    /// Hour × function × host.
    Functions,
    /// Hour × place in the code, all hosts together.
    Sites,
    /// Hour × function × bucket of latency, all hosts together.
    Latencies,
    /// Hour × data × function × host.
    Data,
    /// Minute × process × function × memory, of page faults.
    Faults,
    /// Minute × process × callchain, of allocations.
    Allocs,
    /// Minute × thread × callchain, of switches.
    Offcpu,
    /// Every sample.
    Samples,
}

/// What each of these tables has is closed every hour; its view `…_all` adds what is not closed, without names.
const CLOSED: [Table; 7] = [
    Table::Days,
    Table::Sites,
    Table::Latencies,
    Table::Data,
    Table::Faults,
    Table::Allocs,
    Table::Offcpu,
];

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
/// Σ period, whatever the event counts.
pub(super) const PERIODS: Sum = Sum {
    name: "sum_p",
    ..PERIOD
};
/// Σ period².
pub(super) const SQUARES: Sum = Sum {
    name: "sum_pp",
    rollup: "sum_pp",
    samples: "sum(toFloat64(s.period) * toFloat64(s.period))",
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
    [SAMPLES, PERIOD, SQUARES, WEIGHT, LATENCY]
        .into_iter()
        .chain(COUNTS.iter().copied())
}

/// Events whose periods add up to a count of something.
pub(super) const COUNTED_EVENTS: &str = "SELECT event_id FROM events WHERE population != ''";

/// Clocks: their periods are nanoseconds, whatever a recording calls its population.
const CLOCKS: &str = "SELECT event_id FROM events WHERE startsWith(population, 'ns ') OR match(name, '^(cpu|task)-clock(:|$)')";

/// A function without a name is shown, and asked for, as this.
const FUNCTION: &str = "if(function = '', '[unknown]', function)";

impl Table {
    /// The coarsest of `candidates` that has all the `needs` and whose steps are not longer than the range.
    pub(super) fn choose(candidates: &[Self], needs: &[Dimension], range: Range) -> Self {
        let suffices =
            |table: &&Self| table.fits(range) && needs.iter().all(|need| table.has(*need));
        candidates
            .iter()
            .find(suffices)
            .copied()
            .unwrap_or(Self::Samples)
    }

    /// The coarsest of `candidates` that has all the `needs` and can be read over just this range.
    pub(super) fn exact(candidates: &[Self], needs: &[Dimension], range: Range) -> Self {
        let suffices = |table: &&Self| {
            range.outwards(table.step_ns()) == range && needs.iter().all(|need| table.has(*need))
        };
        let found = candidates.iter().find(suffices);
        found.copied().unwrap_or(Self::Samples)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet_1h",
            Self::Days => "fleet_1d",
            Self::Mix => "mix_1m",
            Self::Functions => "functions",
            Self::Sites => "sites_1h",
            Self::Latencies => "latency_1h",
            Self::Data => "data_1h",
            Self::Faults => "faults_1m",
            Self::Allocs => "allocs_1m",
            Self::Offcpu => "offcpu_1m",
            Self::Samples => "samples",
        }
    }

    /// What is read for it.
    pub(super) fn rows(self) -> String {
        match self {
            // Without names: those of the view would be joined to every row.
            Self::Functions => "functions_1h_all".to_owned(),
            closed if CLOSED.contains(&closed) => format!("{}_all", self.name()),
            _ => self.name().to_owned(),
        }
    }

    /// Length of its time steps.
    const fn step_ns(self) -> u64 {
        match self {
            Self::Days => DAY_NS,
            Self::Fleet | Self::Functions | Self::Sites | Self::Latencies | Self::Data => HOUR_NS,
            Self::Mix | Self::Faults | Self::Allocs | Self::Offcpu => MINUTE_NS,
            Self::Samples => 1,
        }
    }

    fn fits(self, range: Range) -> bool {
        let whole = range.outwards(self.step_ns()) == range;
        match self {
            // Hours beside them would count hosts twice.
            Self::Days => whole,
            // What is not closed is followed through all hosts: dearer than the samples of a short range.
            Self::Offcpu => range.len_ns() >= 2 * HOUR_NS,
            _ => whole || range.len_ns() >= self.step_ns(),
        }
    }

    fn has(self, dimension: Dimension) -> bool {
        use Dimension as D;
        let of_access = matches!(dimension, D::Op | D::Level | D::Locality);
        let of_function = matches!(dimension, D::Function | D::BuildId);
        let of_event = matches!(dimension, D::Event | D::Tier);
        match self {
            Self::Samples => true,
            Self::Functions => dimension != D::Snoop,
            Self::Mix => !of_function && !matches!(dimension, D::Comm | D::Snoop),
            Self::Fleet | Self::Days | Self::Sites | Self::Latencies => {
                of_event || of_access || of_function
            }
            Self::Data => !matches!(dimension, D::Comm | D::Context | D::Snoop),
            Self::Faults | Self::Allocs => !of_access && dimension != D::Snoop,
            Self::Offcpu => {
                !of_access && !of_function && !matches!(dimension, D::Snoop | D::Context)
            }
        }
    }

    /// `time` within the range. Minutes of whole hours are asked for by their hour: sums of hours are kept beside them.
    pub(super) fn time_condition(self, statement: &mut Statement, range: Range) -> String {
        if self == Self::Mix {
            return minutes_condition(statement, range);
        }
        time_condition(statement, self == Self::Samples, range)
    }

    /// Which sums it has.
    fn sums(self) -> impl Iterator<Item = Sum> {
        let few = matches!(self, Self::Faults | Self::Allocs | Self::Offcpu);
        all_sums().take(if few { 1 } else { usize::MAX })
    }

    /// The range of a question that it answers, and what a reader must know of it.
    pub(super) fn range(self, filter: &Filter) -> (Range, Option<String>) {
        match self {
            Self::Samples => super::samples::kept(filter),
            _ => self.rounded(filter),
        }
    }

    /// The range rounded to its steps, and what a reader must know of it.
    pub(super) fn rounded(self, filter: &Filter) -> (Range, Option<String>) {
        let rounded = filter.range.outwards(self.step_ns());
        let step = match self.step_ns() {
            DAY_NS => "days",
            HOUR_NS => "hours",
            _ => "minutes",
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
pub(super) const SAMPLES_KEPT_NS: u64 = 3 * DAY_NS;

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
    /// Names of functions, workloads and data are joined to sums by id, not to each row.
    pub(super) fn new(
        statement: &mut Statement,
        table: Table,
        filter: &Filter,
        range: Range,
        keys: &[&'static str],
    ) -> Self {
        Self::of_functions(statement, table, filter, range, keys, None)
    }

    /// The same, of functions with these ids only, a list for SQL.
    pub(super) fn of_functions(
        statement: &mut Statement,
        table: Table,
        filter: &Filter,
        range: Range,
        keys: &[&'static str],
        function_ids: Option<&str>,
    ) -> Self {
        let mut conditions = vec![table.time_condition(statement, range)];
        conditions.extend(function_ids.map(|ids| format!("s.function_id IN ({ids})")));
        let mut name_conditions = Vec::new();
        for (dimension, values) in filter.dimensions() {
            let (place, column) = (statement.texts(values), dimension.name());
            match dimension {
                Dimension::Function => name_conditions.push(format!("{FUNCTION} IN ({place})")),
                Dimension::BuildId => name_conditions.push(format!("{column} IN ({place})")),
                Dimension::Namespace
                | Dimension::Pod
                | Dimension::Container
                | Dimension::Service => {
                    conditions.push(format!(
                        "workload_id IN (SELECT workload_id FROM workload_names WHERE {column} IN ({place}))"
                    ));
                }
                _ => conditions.push(format!("{column} IN ({place})")),
            }
        }
        let joins = Joins::of(keys, !name_conditions.is_empty());
        // Hours of `mix_1m` are kept as sums, which are read where nothing else is asked of them.
        if joins.is_empty() && table != Table::Mix {
            let from = format!("{} AS s", table.rows());
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
        // Of a function in an hour of a host there are few rows: summing by id first would sum the same twice.
        if table == Table::Functions && ["host", "hour"].iter().all(|key| keys.contains(key)) {
            source.from = format!(
                "(SELECT {} FROM (SELECT * FROM {} AS s WHERE {}) AS t{}) AS s",
                joins.columns(),
                table.rows(),
                source.conditions,
                joins.tables
            );
        } else {
            source.from = source.joined(keys, &joins, &[]);
            source.summed = true;
        }
        source.conditions = name_conditions.join(" AND ");
        source
    }

    /// Samples that pass the filter, summed by `keys`, with further aggregates of theirs.
    pub(super) fn sampled(
        statement: &mut Statement,
        filter: &Filter,
        keys: &[&'static str],
        states: &[(&str, &str)],
    ) -> Self {
        Self::summed(
            statement,
            Table::Samples,
            filter,
            filter.range,
            keys,
            states,
        )
    }

    /// The same of rows of a table, of which `states` are aggregates.
    pub(super) fn summed(
        statement: &mut Statement,
        table: Table,
        filter: &Filter,
        range: Range,
        keys: &[&'static str],
        states: &[(&str, &str)],
    ) -> Self {
        let mut source = Self {
            table,
            summed: false,
            from: String::new(),
            conditions: super::samples::conditions_of(statement, table, filter, range),
        };
        source.from = source.joined(keys, &Joins::of(keys, false), states);
        source.summed = true;
        source.conditions.clear();
        source
    }

    /// Sums by id, joined to names; `states` are further aggregates, names and expressions.
    fn joined(&self, keys: &[&'static str], joins: &Joins, states: &[(&str, &str)]) -> String {
        let mut ids: Vec<&str> = keys.iter().filter(|key| !is_name(key)).copied().collect();
        ids.push("event_id");
        ids.extend(&joins.ids);
        let by_host = self.table == Table::Mix;
        if by_host && !ids.contains(&"host") {
            ids.push("host");
        }
        let selected: Vec<&str> = ids
            .iter()
            .map(|id| match *id {
                "hour" => HOUR_AS,
                "page" => PAGE_AS,
                "page_bytes" => PAGE_BYTES_AS,
                own => own,
            })
            .collect();
        let sums = self.table.sums();
        let mut sums: Vec<String> = sums
            .map(|sum| format!("{} AS {}", self.sum(sum), sum.rollup))
            .collect();
        sums.extend(
            states
                .iter()
                .map(|(name, state)| format!("{state} AS {name}")),
        );
        let hosts = match self.table {
            Table::Fleet | Table::Days | Table::Sites => ", uniqMergeState(s.hosts) AS hosts",
            _ if by_host => "",
            _ => ", uniqExactState(s.host) AS hosts",
        };
        format!(
            "(SELECT {columns} FROM (SELECT {selected}, {sums}{hosts} FROM {table} AS s WHERE {conditions} \
             GROUP BY {ids}) AS t{joined}) AS s",
            columns = joins.columns(),
            joined = joins.tables,
            selected = selected.join(", "),
            ids = ids.join(", "),
            sums = sums.join(", "),
            table = self.table.rows(),
            conditions = self.conditions,
        )
    }

    /// The same rows, each with what `columns` say; `join` brings what they need.
    pub(super) fn wrapped(mut self, columns: &str, join: &str) -> Self {
        self.from = format!("(SELECT {columns} FROM {} {join}) AS s", self.from);
        self
    }

    /// Of its rows those that a condition holds for.
    pub(super) fn only(mut self, condition: &str) -> Self {
        if !self.conditions.is_empty() {
            self.conditions.push_str(" AND ");
        }
        self.conditions.push_str(condition);
        self
    }

    /// Names by place, so that no alias shadows a column, and the columns of `keys` under them.
    pub(super) fn numbered(keys: &[&'static str]) -> (Vec<String>, Vec<String>) {
        let names: Vec<String> = (0..keys.len()).map(|i| format!("k{i}")).collect();
        let columns = keys.iter().zip(&names);
        let columns = columns.map(|(key, name)| format!("{} AS {name}", Self::key(key)));
        let columns = columns.collect();
        (names, columns)
    }

    /// The expression of a key.
    pub(super) fn key(name: &'static str) -> String {
        if name == "function" {
            FUNCTION.to_owned()
        } else {
            name.to_owned()
        }
    }

    /// The expression of the hour, for sums by it.
    pub(super) const fn hour(&self) -> &'static str {
        if self.summed { "s.hour" } else { HOUR }
    }

    /// The expression of a sum.
    pub(super) fn sum(&self, sum: Sum) -> String {
        match self.table {
            Table::Samples if !self.summed => sum.samples.to_owned(),
            _ => format!("sum(s.{})", sum.rollup),
        }
    }

    /// The expression of a sum over the rows that a condition holds for; only of what has been summed already.
    pub(super) fn sum_if(sum: Sum, condition: &str) -> String {
        format!("sumIf(s.{}, {condition})", sum.rollup)
    }

    /// The expression of the number of hosts that a condition holds for; only of what has been summed already.
    pub(super) fn hosts_if(&self, condition: &str) -> String {
        match self.table {
            Table::Fleet | Table::Days => format!("uniqMergeIf(s.hosts, {condition})"),
            _ if self.has_states() => format!("uniqExactMergeIf(s.hosts, {condition})"),
            _ => format!("uniqExactIf(s.host, {condition})"),
        }
    }

    /// Its rows hold states of hosts, not hosts.
    const fn has_states(&self) -> bool {
        self.summed && !matches!(self.table, Table::Mix)
    }

    /// What stands behind FROM, with its conditions.
    pub(super) fn rows(&self) -> String {
        match self.conditions.as_str() {
            "" => self.from.clone(),
            conditions => format!("{} WHERE {conditions}", self.from),
        }
    }

    /// The estimate of events: null as soon as one of the samples is of an event that counts nothing.
    pub(super) fn est_events(&self) -> String {
        Self::counted(&self.sum(PERIOD))
    }

    /// The same of the rows that a condition holds for.
    pub(super) fn est_events_if(condition: &str) -> String {
        Self::counted(&Self::sum_if(PERIOD, condition))
    }

    /// What the estimate of events counts: `ns` of a clock, else `events`; empty where there is none.
    pub(super) fn est_unit() -> String {
        format!(
            "multiIf(countIf({}) > 0, '', countIf(s.event_id IN ({CLOCKS})) > 0, 'ns', 'events')",
            Self::uncounted()
        )
    }

    fn counted(sum: &str) -> String {
        format!("if(countIf({}) > 0, NULL, {sum})", Self::uncounted())
    }

    fn uncounted() -> String {
        format!("s.event_id NOT IN ({COUNTED_EVENTS})")
    }

    /// The expression of the number of hosts.
    pub(super) const fn hosts(&self) -> &'static str {
        match self.table {
            Table::Fleet | Table::Days => "uniqMerge(s.hosts)",
            // Rows closed by an earlier version do not tell.
            Table::Sites => "if(countIf(isNull(s.n_measured)) > 0, NULL, uniqMerge(s.hosts))",
            _ if self.has_states() => "uniqExactMerge(s.hosts)",
            _ => "uniqExact(s.host)",
        }
    }
}

/// The hour of a row, in seconds since 1970, whatever the type of its time.
const HOUR: &str = "toUnixTimestamp(toStartOfHour(s.time))";
/// Where the page of an address begins; pages of which nobody told the size are small ones.
const PAGE_AS: &str = "bitShiftLeft(bitShiftRight(s.addr, if(s.page_shift = 0, 12, s.page_shift)), if(s.page_shift = 0, 12, s.page_shift)) AS page";
const PAGE_BYTES_AS: &str =
    "if(s.page_shift = 0, NULL, bitShiftLeft(toUInt64(1), s.page_shift)) AS page_bytes";
const HOUR_AS: &str = "toUnixTimestamp(toStartOfHour(s.time)) AS hour";

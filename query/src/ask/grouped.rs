//! Rows grouped by keys: columns, shares, order, and what was cut.

use super::Plan;
use super::filter::{Dimension, Filter};
use super::samples::kept;
use super::table::{COUNTS, LATENCY, SAMPLES, Source, Table, WEIGHT};
use super::time::Range;
use crate::answer::Column;
use crate::statement::Statement;

/// One column of a grouped statement.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) column: Column,
    pub(super) expression: String,
    pub(super) role: Role,
}

/// What a column is to a grouped statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Rows differ in it.
    Key,
    /// It adds up.
    Sum,
    /// It is read for what comes next, not shown.
    Hidden,
    /// What shares are of, where it is known; else they are of samples.
    Weigh,
}

impl Output {
    pub(super) fn key(name: &'static str) -> Self {
        Self::key_of(name, Source::key(name))
    }

    /// A key that rows have no column for, or one of another name.
    pub(super) fn key_of(name: &'static str, expression: impl Into<String>) -> Self {
        Self {
            column: Column::text(name),
            expression: expression.into(),
            role: Role::Key,
        }
    }

    /// A key that stands in the rows under its name, functions too: they are joined already.
    pub(super) fn joined(name: &'static str) -> Self {
        Self::key_of(name, format!("s.{name}"))
    }

    pub(super) const fn sum(column: Column, expression: String) -> Self {
        Self {
            column,
            expression,
            role: Role::Sum,
        }
    }

    /// Samples of a row.
    pub(super) fn samples(source: &Source) -> Self {
        Self::sum(Column::number("samples", "samples"), source.sum(SAMPLES))
    }

    /// Samples counted in another way.
    pub(super) fn count(name: &'static str, expression: &str) -> Self {
        Self::sum(Column::number(name, "samples"), expression.to_owned())
    }

    /// The estimators beside the number of samples.
    pub(super) fn estimators(source: &Source) -> Vec<Self> {
        let mut all = vec![Self::sum(
            Column::real("weight", "cycles"),
            source.sum(WEIGHT),
        )];
        all.extend(Self::est_events(source.est_events()));
        let latency = Column::real("latency_cycles", "cycles");
        all.push(Self::sum(latency, source.sum(LATENCY)));
        all
    }

    /// The estimate of events, its unit, and shares by it: while a period changes, samples stand for different numbers of
    /// events, so shares of samples lean to when it was short.
    pub(super) fn est_events(expression: String) -> [Self; 3] {
        [
            Self::weigh("est_events", expression.clone()),
            Self::sum(Column::real("est_events", EST_UNIT), expression),
            Self::sum(Column::text("est_unit"), Source::est_unit()),
        ]
    }

    /// What shares are of, where it is not null, by its name.
    pub(super) fn weigh(name: &'static str, expression: String) -> Self {
        Self {
            column: Column::real(name, ""),
            expression,
            role: Role::Weigh,
        }
    }

    /// Mean of the latencies measured; rows must have [`MEASURED`](super::samples::MEASURED).
    pub(super) fn mean_latency(source: &Source) -> Self {
        let weight = source.sum(WEIGHT);
        Self::sum(
            Column::real("mean_latency", "cycles"),
            format!(
                "if(countIf(isNull(s.n_measured)) > 0 OR sum(s.n_measured) = 0, NULL, {weight} / sum(s.n_measured))"
            ),
        )
    }

    /// Hosts that a row is of.
    pub(super) fn hosts(source: &Source) -> Self {
        Self::sum(Column::number("hosts", "hosts"), source.hosts().to_owned())
    }

    /// The same where rows are of functions, else nothing.
    pub(super) fn function_ids_if(keys: &[&str]) -> Self {
        if keys.contains(&"function") {
            return Self::function_ids();
        }
        Self {
            expression: "''".to_owned(),
            ..Self::function_ids()
        }
    }

    /// The ids of the functions in a row, by blanks: what further statements ask for. One more than [`FUNCTION_IDS_MAX`] means
    /// that there are others: names such as `[unknown]` have very many.
    pub(super) fn function_ids() -> Self {
        Self {
            column: Column::text("function_ids"),
            expression: format!(
                "arrayStringConcat(arrayMap(id -> toString(id), groupUniqArray({})(s.function_id)), ' ')",
                FUNCTION_IDS_MAX + 1
            ),
            role: Role::Hidden,
        }
    }
}

/// Unit of a column whose rows say theirs in the column `est_unit`.
const EST_UNIT: &str = "of est_unit";

/// Most functions of one row that further statements ask for; a row of more is left out of them.
pub(super) const FUNCTION_IDS_MAX: usize = 256;

/// `outputs` of `source` and the counts that every table has, as a plan over `range`; `rounded` says how the range asked
/// for was rounded.
pub(super) fn plan(
    table: Table,
    filter: &Filter,
    (range, rounded): (Range, Option<String>),
    statement: Statement,
    source: &Source,
    mut outputs: Vec<Output>,
    order: &str,
) -> Plan {
    let counts = COUNTS.iter();
    outputs.extend(
        counts.map(|count| Output::sum(Column::number(count.name, "samples"), source.sum(*count))),
    );
    let shape = Grouped {
        order,
        partition: &["tier", "event"],
        having: "",
    };
    shape.plan(table, filter, (range, rounded), statement, source, &outputs)
}

/// How rows are grouped, shared out and ordered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouped<'a> {
    /// Column that orders rows.
    pub(super) order: &'a str,
    /// Columns within whose values shares add up to 1.
    pub(super) partition: &'a [&'a str],
    /// Column that has to be above 0; empty: none.
    pub(super) having: &'a str,
}

impl Grouped<'_> {
    /// The plan of `outputs` over `range`.
    pub(super) fn plan(
        self,
        table: Table,
        filter: &Filter,
        (range, rounded): (Range, Option<String>),
        statement: Statement,
        source: &Source,
        outputs: &[Output],
    ) -> Plan {
        let rows = source.rows();
        self.select(
            table,
            filter,
            (range, rounded),
            statement,
            "",
            &rows,
            outputs,
        )
    }

    /// The plan of `outputs` of a question that only samples answer.
    pub(super) fn of_samples(
        self,
        filter: &Filter,
        statement: Statement,
        source: &Source,
        outputs: &[Output],
    ) -> Plan {
        let range = kept(filter);
        self.plan(Table::Samples, filter, range, statement, source, outputs)
    }

    /// The plan of `outputs` of any rows called `s`; `with` stands before the statement.
    #[expect(
        clippy::too_many_arguments,
        reason = "each says one thing of one statement"
    )]
    pub(super) fn select(
        self,
        table: Table,
        filter: &Filter,
        (range, rounded): (Range, Option<String>),
        mut statement: Statement,
        with: &str,
        rows: &str,
        outputs: &[Output],
    ) -> Plan {
        let columns = grouped(&mut statement, outputs, (with, rows), self, filter);
        let hidden = outputs.iter().filter(|output| output.role == Role::Hidden);
        Plan {
            statement,
            columns,
            hidden: plan_hidden(hidden.map(|output| output.column.clone())),
            table: table.name(),
            limit: filter.limit,
            range,
            hosts: filter.values(Dimension::Host).to_vec(),
            notes: rounded.into_iter().collect(),
        }
    }
}

/// Columns read and not shown: rows and samples in all, then these.
fn plan_hidden(further: impl Iterator<Item = Column>) -> Vec<Column> {
    [
        Column::number("rows_in_all", "rows"),
        Column::number("samples_in_all", "samples"),
    ]
    .into_iter()
    .chain(further)
    .collect()
}

/// `outputs` of rows, grouped by the keys, with the share of each row within its partition and what that is of behind the
/// column `samples`, ordered, one row more than wanted; rows and samples in all and what is hidden come last.
///
/// Columns are named by their place, so that no alias shadows a column. Functions are picked after shares are told: the
/// share of one function is that among all.
fn grouped(
    statement: &mut Statement,
    outputs: &[Output],
    (with, rows): (&str, &str),
    shape: Grouped<'_>,
    filter: &Filter,
) -> Vec<Column> {
    let place = |name: &str| {
        outputs
            .iter()
            .position(|output| output.column.name == name && output.role != Role::Weigh)
            .unwrap_or_default()
    };
    let (samples, order) = (place("samples"), place(shape.order));
    let named = |role: fn(Role) -> bool| -> Vec<String> {
        let outputs = outputs.iter().enumerate();
        let taken = outputs.filter(|(_, output)| role(output.role));
        taken.map(|(i, _)| format!("c{i}")).collect()
    };
    let selected: Vec<String> = outputs
        .iter()
        .enumerate()
        .map(|(i, output)| format!("{} AS c{i}", output.expression))
        .collect();
    let keys = named(|role| role == Role::Key).join(", ");
    let is_shown = |role: Role| !matches!(role, Role::Hidden | Role::Weigh);
    let mut shown = named(is_shown);
    let partition: Vec<String> = shape
        .partition
        .iter()
        .map(|name| format!("c{}", place(name)))
        .collect();
    let weighed = outputs.iter().enumerate();
    let weighed = weighed
        .filter(|(_, output)| output.role == Role::Weigh)
        .map(|(i, output)| (format!("c{i}"), output.column.name))
        .next();
    let weighed = weighed
        .as_ref()
        .map(|(place, name)| (place.as_str(), *name));
    let [share, of] = share(&format!("c{samples}"), weighed, &partition.join(", "));
    let behind = samples + 1;
    shown.splice(behind..behind, ["share", "share_of"].map(str::to_owned));
    shown.push("count() OVER ()".to_owned());
    shown.push(format!("sum(c{samples}) OVER ()"));
    shown.extend(named(|role| role == Role::Hidden));
    let having = match shape.having {
        "" => String::new(),
        name => format!(" HAVING c{} > 0", place(name)),
    };
    let is_function =
        |output: &Output| output.role == Role::Key && output.column.name == "function";
    let functions = filter.values(Dimension::Function);
    let picked = match outputs.iter().position(is_function) {
        Some(at) if !functions.is_empty() => {
            format!(" WHERE c{at} IN ({})", statement.texts(functions))
        }
        _ => String::new(),
    };
    statement.sql = format!(
        "{with}{}SELECT {} FROM (SELECT *, {share} AS share, {of} AS share_of FROM (SELECT {} FROM {rows} GROUP BY {keys}{having})){picked} \
         ORDER BY c{order} DESC NULLS LAST, c{samples} DESC, {keys} LIMIT {}",
        if with.is_empty() { "" } else { " " },
        shown.join(", "),
        selected.join(", "),
        u64::from(filter.limit) + 1,
    );
    let taken = outputs.iter().filter(|output| is_shown(output.role));
    let mut columns: Vec<_> = taken.map(|output| output.column.clone()).collect();
    columns.splice(
        behind..behind,
        [Column::real("share", "ratio"), Column::text("share_of")],
    );
    columns
}

/// The share of a row within its partition, and what it is of: the column `weighed` (with its name) where every row of the
/// partition has it, else samples.
pub(super) fn share(samples: &str, weighed: Option<(&str, &str)>, partition: &str) -> [String; 2] {
    let over = format!("OVER (PARTITION BY {partition})");
    let of_samples = format!("{samples} / sum({samples}) {over}");
    let Some((weighed, name)) = weighed else {
        return [of_samples, "'samples'".to_owned()];
    };
    let known = format!("sum(isNull({weighed})) {over} = 0 AND sum({weighed}) {over} > 0");
    [
        format!("if({known}, {weighed} / sum({weighed}) {over}, {of_samples})"),
        format!("if({known}, '{name}', 'samples')"),
    ]
}

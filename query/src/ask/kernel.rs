//! What the kernel does for a process, and what merely interrupts it, over the fleet; the profiler's own part.

use memwide_model::Context;

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::table::{SAMPLES, Source, Table};
use super::{Ask, AskError, Extra, Given, PartPlan, Plan};
use crate::answer::{Answer, Column, Value};
use crate::statement::Statement;

/// Kernel functions shown.
const FUNCTIONS: u32 = 100;

/// For whom something is done, in each context; the same words as for files.
const GROUPS: &[(&str, &[Context])] = &[
    (
        "on behalf",
        &[Context::User, Context::Syscall, Context::Fault],
    ),
    (
        "interrupted",
        &[Context::Irq, Context::Softirq, Context::Timer, Context::Nmi],
    ),
    ("profiler", &[Context::Profiler]),
    ("kernel itself", &[Context::Idle, Context::Kthread]),
];

/// The question `kernel`.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Range, filters, rows.
    pub filter: Filter,
}

fn group() -> String {
    let mut cases = String::new();
    for (name, contexts) in GROUPS {
        let contexts: Vec<String> = contexts
            .iter()
            .map(|context| format!("'{}'", context.name()))
            .collect();
        cases.push_str(&format!(
            "s.context IN ({}), '{name}', ",
            contexts.join(", ")
        ));
    }
    format!("multiIf({cases}'not told')")
}

/// What a table must have: rows are by context, whatever is asked for.
fn needs(filter: &Filter) -> Vec<Dimension> {
    [filter.needs().as_slice(), &[Dimension::Context]].concat()
}

impl Ask for Kernel {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let needs = needs(filter);
        let table = Table::choose(
            &[Table::Mix, Table::Functions, Table::Samples],
            &needs,
            filter.range,
        );
        let (range, rounded) = table.rounded(filter);
        let mut statement = Statement::default();
        let keys = ["context", "tier", "event"];
        // Loads and stores are told apart once rows are summed.
        let with = ["context", "tier", "event", "op"];
        let source = if table == Table::Samples {
            Source::sampled(&mut statement, filter, &with, &[])
        } else {
            Source::new(&mut statement, table, filter, range, &with)
        };
        let mut outputs = vec![Output::key_of("group", group())];
        outputs.extend(keys.iter().map(|key| Output::key(key)));
        outputs.extend([
            Output::samples(&source),
            Output::sum(
                Column::number("loads", "samples"),
                Source::sum_if(SAMPLES, "s.op IN ('load', 'load+store')"),
            ),
            Output::sum(
                Column::number("stores", "samples"),
                Source::sum_if(SAMPLES, "s.op IN ('store', 'load+store')"),
            ),
        ]);
        outputs.extend(Output::est_events(source.est_events()));
        outputs.push(Output::hosts(&source));
        let shape = Grouped {
            order: "samples",
            partition: &["tier", "event"],
            having: "",
        };
        shape.plan(
            table,
            filter,
            (range, rounded),
            statement,
            &source,
            &outputs,
        )
    }

    fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
        if rows.is_empty() {
            return Vec::new();
        }
        let needs = needs(&self.filter);
        let table = Table::exact(&[Table::Functions, Table::Samples], &needs, plan.range);
        let mut statement = Statement::default();
        let keys = ["function", "module", "context", "tier", "event"];
        let source = Source::new(&mut statement, table, &self.filter, plan.range, &keys);
        let source = source.only("s.context != 'user'");
        let selected: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| format!("{} AS k{i}", Source::key(key)))
            .collect();
        statement.sql = format!(
            "SELECT {}, {} AS c FROM {} GROUP BY k0, k1, k2, k3, k4 ORDER BY c DESC, k0, k1, k2, k3, k4 LIMIT {FUNCTIONS}",
            selected.join(", "),
            source.sum(SAMPLES),
            source.rows(),
        );
        let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(key)).collect();
        columns.push(Column::number("samples", "samples"));
        vec![PartPlan {
            name: "functions",
            statement,
            columns,
        }]
    }

    fn conclude(&self, answer: &mut Answer) {
        let context = answer.column("context");
        let untold = Value::Text(Context::Kernel.name().to_owned());
        let untold = |row: &Vec<Value>| context.and_then(|at| row.get(at)) == Some(&untold);
        if answer.rows.iter().any(untold) {
            answer.notes.push("context `kernel`: no frame tells why the kernel ran; only kernel callchains tell a fault from an interrupt".to_owned());
        }
    }
}

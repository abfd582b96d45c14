//! Where page faults come from: by function and memory, minor and major apart.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples;
use super::table::{Source, Table};
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::{Answer, Column};
use crate::statement::Statement;

/// What an event counts, from the name perf gives it; `''`: no faults.
const KIND: &str = "multiIf(match(s.event, '^minor-faults(:|$)'), 'minor', match(s.event, '^major-faults(:|$)'), 'major', \
     match(s.event, '^(page-faults|faults)(:|$)'), 'all', startsWith(s.event, 'exceptions:page_fault'), 'exception', '')";

/// The question `faults`.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Faults {
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
        let keys = ["function", "module", "build_id", "region", "tier", "event"];
        let table = Table::choose(
            &[Table::Faults, Table::Samples],
            &filter.needs(),
            filter.range,
        );
        let (range, rounded) = table.range(filter);
        let of_samples = [
            ("n_faults", "sum(toFloat64(greatest(s.period, 1)))"),
            samples::PAGES,
            samples::PROCESSES,
        ];
        let of_table = [
            ("n_faults", "sum(s.faults)"),
            ("n_pages", "uniqExactMergeState(s.pages)"),
            samples::PROCESSES,
            ("untold", "countIf(isNull(s.n_addr))"),
        ];
        let (states, pages): (&[(&str, &str)], _) = if table == Table::Samples {
            (&of_samples, "nullIf(uniqExactIfMerge(s.n_pages), 0)")
        } else {
            // Rows closed by an earlier version do not tell.
            (
                &of_table,
                "if(sum(s.untold) > 0, NULL, nullIf(uniqExactMerge(s.n_pages), 0))",
            )
        };
        let source = Source::summed(&mut statement, table, filter, range, &keys, states);
        let source = source.only(&format!("{KIND} != ''"));
        let mut outputs = vec![Output::key_of("kind", KIND)];
        outputs.extend(keys.iter().map(|key| Output::key(key)));
        outputs.extend([
            Output::sum(
                Column::real("faults", "events"),
                "sum(s.n_faults)".to_owned(),
            ),
            Output::samples(&source),
            Output::weigh("faults", "sum(s.n_faults)".to_owned()),
            Output::sum(Column::number("pages", "pages"), pages.to_owned()),
            Output::sum(
                Column::number("processes", "processes"),
                "uniqExactMerge(s.n_processes)".to_owned(),
            ),
            Output::hosts(&source),
        ]);
        let shape = Grouped {
            order: "faults",
            partition: &["kind", "tier", "event"],
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

    fn conclude(&self, answer: &mut Answer) {
        if answer.rows.is_empty() {
            answer.notes.push(
                "no event that counts page faults has samples here; collectors count them as minor-faults and major-faults"
                    .to_owned(),
            );
            return;
        }
        answer.notes.push("`faults` is the sum of periods of events that the kernel counts without gaps; shares are of the faults of a kind. `all` are the same faults as minor and major together: do not add them".to_owned());
    }
}

//! Where allocations come from: calls by kind, by the code that makes them. Sizes and addresses are fields of tracepoints,
//! which are not stored: so calls are counted, and neither bytes nor what is left of them.

use super::filter::{Dimension, Filter};
use super::grouped::{Grouped, Output};
use super::samples::{self, conditions_of};
use super::sites::sites;
use super::table::{Source, Table};
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::{Answer, Column};
use crate::statement::Statement;

/// What an event is, by the name perf gives it; `''`: no allocation.
const KIND: &str = "multiIf(match(s.event, '^kmem:mm_page_alloc(:|$)'), 'pages allocated', \
     match(s.event, '^kmem:mm_page_free(_batched)?(:|$)'), 'pages freed', \
     match(s.event, '^kmem:(kmalloc|kmem_cache_alloc)(_node)?(:|$)'), 'kernel objects allocated', \
     match(s.event, '^kmem:(kfree|kmem_cache_free)(:|$)'), 'kernel objects freed', \
     match(s.event, '^(syscalls:sys_(enter|exit)_mmap|mmap:.*)(:|$)'), 'mmap', \
     match(s.event, '^syscalls:sys_(enter|exit)_munmap(:|$)'), 'munmap', \
     match(s.event, '^syscalls:sys_(enter|exit)_mremap(:|$)'), 'mremap', \
     match(s.event, '^syscalls:sys_(enter|exit)_brk(:|$)'), 'brk', \
     match(s.event, '^filemap:mm_filemap_add_to_page_cache(:|$)'), 'page cache filled', \
     match(s.event, '^filemap:mm_filemap_delete_from_page_cache(:|$)'), 'page cache emptied', '')";

/// The question `allocs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocs {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Allocs {
    const DIMENSIONS: &'static [Dimension] = &[
        Dimension::Host,
        Dimension::Namespace,
        Dimension::Pod,
        Dimension::Container,
        Dimension::Service,
        Dimension::Comm,
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
        let with = ["stack_id", "function", "module", "comm", "tier", "event"];
        let table = Table::choose(
            &[Table::Allocs, Table::Samples],
            &filter.needs(),
            filter.range,
        );
        let (range, rounded) = table.range(filter);
        let calls = match table {
            Table::Samples => "sum(toFloat64(greatest(s.period, 1)))",
            _ => "sum(s.calls)",
        };
        let states = [("n_calls", calls), samples::PROCESSES];
        let source = Source::summed(&mut statement, table, filter, range, &with, &states);
        let asked = conditions_of(&mut statement, table, filter, range);
        let sites = sites(table, &format!("{asked} AND {KIND} != ''"));
        let source = source.only(&format!("{KIND} != ''")).wrapped(
            &format!(
                "s.* EXCEPT (function, module), {KIND} AS kind, \
                 multiIf(p.function != '', p.function, s.function != '', s.function, '[unknown]') AS function, \
                 if(p.function != '', p.module, s.module) AS module, p.kernel AS kernel"
            ),
            &format!("LEFT JOIN ({sites}) AS p ON p.stack_id = s.stack_id"),
        );
        let outputs = [
            Output::joined("kind"),
            Output::joined("function"),
            Output::joined("module"),
            Output::joined("kernel"),
            Output::joined("comm"),
            Output::joined("tier"),
            Output::joined("event"),
            Output::sum(Column::real("calls", "events"), "sum(s.n_calls)".to_owned()),
            Output::samples(&source),
            Output::weigh("calls", "sum(s.n_calls)".to_owned()),
            Output::sum(
                Column::number("processes", "processes"),
                "uniqExactMerge(s.n_processes)".to_owned(),
            ),
            Output::hosts(&source),
        ];
        let shape = Grouped {
            order: "calls",
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
            answer.notes.push("no allocation tracepoint has samples here (kmem:*, syscalls:*mmap, brk, filemap:*); collectors do not record them by default (`memwide allocs --help`)".to_owned());
            return;
        }
        answer.notes.push("calls, not bytes: sizes and addresses are not stored, so what leaks and what only churns is told by `memwide allocs -i FILE` alone. `function` is the innermost one of the program, else the kernel's; `kernel` what it asked of the kernel".to_owned());
    }
}

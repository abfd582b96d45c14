//! What is read for each side, so that no sample is on both.

use super::{Diff, KEYS};
use crate::answer::Column;
use crate::ask::filter::Filter;
use crate::ask::grouped::{Grouped, Output};
use crate::ask::table::{SAMPLES, Source, Table};
use crate::ask::time::{HOUR_NS, Range};
use crate::ask::{LIMIT_MAX, Plan};
use crate::statement::Statement;

/// Where a side can be read, the coarsest first.
const TABLES: &[Table] = &[Table::Fleet, Table::Functions, Table::Samples];

/// From this length on a side may do without the hour that both have a part of.
const HOURS_MIN_NS: u64 = 3 * HOUR_NS;

/// One side as it is asked.
#[derive(Debug)]
pub(super) struct SideAsked {
    pub(super) filter: Filter,
    tables: &'static [Table],
}

/// Both sides.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) before: SideAsked,
    pub(super) after: SideAsked,
    /// Begin of an hour that is in neither.
    pub(super) left_out: Option<u64>,
}

impl Diff {
    /// Both sides, of which no sample is on both unless that was asked for: where hours rounded outwards would overlap, short
    /// sides are read from samples, and long ones do without the hour they share.
    pub(super) fn sides(&self) -> Sides {
        let asked = |filter: &Filter| SideAsked {
            filter: filter.clone(),
            tables: TABLES,
        };
        let mut sides = Sides {
            before: asked(&self.before),
            after: asked(&self.filter),
            left_out: None,
        };
        let (one, other) = (self.before.range, self.filter.range);
        if one.overlaps(other) || !sides.before.read().overlaps(sides.after.read()) {
            return sides;
        }
        if one.len_ns().min(other.len_ns()) < HOURS_MIN_NS {
            for side in [&mut sides.before, &mut sides.after] {
                side.tables = &[Table::Samples];
            }
            return sides;
        }
        let (first, second) = if one.since_ns < other.since_ns {
            (
                &mut sides.before.filter.range,
                &mut sides.after.filter.range,
            )
        } else {
            (
                &mut sides.after.filter.range,
                &mut sides.before.filter.range,
            )
        };
        (*first, *second) = (first.outwards(HOUR_NS), second.outwards(HOUR_NS));
        // What was the last hour of the one and the first of the other.
        first.until_ns -= HOUR_NS;
        sides.left_out = Some(second.since_ns);
        second.since_ns += HOUR_NS;
        sides
    }
}

impl SideAsked {
    pub(super) fn plan(&self) -> Plan {
        side(&self.filter, self.tables)
    }

    /// The range that would be read.
    fn read(&self) -> Range {
        let filter = &self.filter;
        let table = Table::choose(self.tables, &filter.needs(), filter.range);
        table.rounded(filter).0
    }
}

/// Functions and their shares on one side.
fn side(filter: &Filter, tables: &[Table]) -> Plan {
    let table = Table::choose(tables, &filter.needs(), filter.range);
    let rounded = table.rounded(filter);
    let mut statement = Statement::default();
    let functions = filter.of_all_functions();
    let source = Source::new(&mut statement, table, &functions, rounded.0, KEYS);
    let mut outputs: Vec<Output> = KEYS.iter().map(|key| Output::key(key)).collect();
    outputs.push(Output::sum(
        Column::number("samples", "samples"),
        source.sum(SAMPLES),
    ));
    outputs.push(Output::weigh("est_events", source.est_events()));
    let shape = Grouped {
        order: "samples",
        partition: &["tier", "event"],
        having: "",
    };
    // Rows are compared before they are cut.
    let mut all = filter.clone();
    all.limit = LIMIT_MAX;
    shape.plan(table, &all, rounded, statement, &source, &outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::time::text;

    /// The ranges that are read, and of which table; the hour left out.
    fn sides(before: [&str; 2], after: [&str; 2]) -> ([String; 2], &'static str, Option<String>) {
        let now = 1_767_263_400_000_000_000; // 10:30 on 2026-01-01
        let filter = |[since, until]: [&str; 2]| {
            let moment = |text: &str| format!("2026-01-01T{text}:00Z");
            let range = Range::parse(&moment(since), &moment(until), now).unwrap();
            Filter::new(range, now)
        };
        let diff = Diff {
            filter: filter(after),
            before: filter(before),
        };
        let sides = diff.sides();
        let shown = |side: &SideAsked| side.plan().range.to_string().replace("2026-01-01T", "");
        let shown = [shown(&sides.before), shown(&sides.after)];
        (shown, sides.after.plan().table, sides.left_out.map(text))
    }

    #[test]
    fn no_sample_is_on_both_sides_unless_asked_for() {
        // Whole hours, or an hour between them: rounding outwards does no harm.
        let (ranges, table, left_out) = sides(["04:00", "05:00"], ["05:00", "06:00"]);
        assert_eq!(ranges, ["04:00:00Z to 05:00:00Z", "05:00:00Z to 06:00:00Z"]);
        assert_eq!((table, left_out), ("fleet_1h", None));
        let (ranges, table, _) = sides(["01:30", "03:30"], ["05:30", "07:30"]);
        assert_eq!(ranges, ["01:00:00Z to 04:00:00Z", "05:00:00Z to 08:00:00Z"]);
        assert_eq!(table, "fleet_1h");
        // Short: sample by sample.
        let (ranges, table, left_out) = sides(["01:36", "03:36"], ["03:36", "05:36"]);
        assert_eq!(ranges, ["01:36:00Z to 03:36:00Z", "03:36:00Z to 05:36:00Z"]);
        assert_eq!((table, left_out), ("samples", None));
        // Long: without the hour they share, whichever comes first.
        let left = Some("2026-01-01T04:00:00Z".to_owned());
        let (ranges, table, left_out) = sides(["01:30", "04:30"], ["04:30", "07:30"]);
        assert_eq!(ranges, ["01:00:00Z to 04:00:00Z", "05:00:00Z to 08:00:00Z"]);
        assert_eq!((table, left_out), ("fleet_1h", left.clone()));
        let (ranges, _, left_out) = sides(["04:30", "07:30"], ["01:30", "04:30"]);
        assert_eq!(ranges, ["05:00:00Z to 08:00:00Z", "01:00:00Z to 04:00:00Z"]);
        assert_eq!(left_out, left);
        let (ranges, _, left_out) = sides(["01:30", "04:10"], ["04:50", "08:00"]);
        assert_eq!(ranges, ["01:30:00Z to 04:10:00Z", "04:50:00Z to 08:00:00Z"]);
        assert_eq!(left_out, None);
        // Asked for.
        let (ranges, ..) = sides(["01:30", "05:30"], ["04:30", "07:30"]);
        assert_eq!(ranges, ["01:00:00Z to 06:00:00Z", "04:00:00Z to 08:00:00Z"]);
    }
}

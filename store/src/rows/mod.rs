//! Typed rows of every table that is filled from outside, gathered column by column and written as Native blocks, one
//! for each day.
//!
//! `samples` and its like are facts: the sink adds `part` and `ingested` to them. Names and units are those of the
//! tables. Rollup rows hold sums; partial rows of the same key add up in the store.

mod codes;
mod definitions;
mod facts;
mod readings;
mod sums;

pub use codes::TierOrNone;
pub use definitions::{
    DataDef, DataRow, EventRow, Events, FunctionRow, FunctionsDef, LocationRow, Locations,
    MappingRow, Mappings, Nameless, NamelessRow, StackRow, Stacks, SymbolTableRow, SymbolTables,
    WorkloadRow, Workloads,
};
pub use facts::{
    CloseRow, Closes, ClosesOfCalls, ClosesOfCallsRow, ClosesOfDetails, ClosesOfDetailsRow,
    Fleet1h, FleetRow, HostRow, Hosts, Ledger1m, LedgerRow, Mix1m, MixRow, SampleRow, Samples,
};
pub use readings::{CounterRow, Counters, Pressure, PressureRow, Rss, RssRow};
pub use sums::{Sums, SumsColumns};

/// Tables of facts: the sink adds `part` (`UInt16`) and `ingested` (`DateTime('UTC')`) to their rows.
pub const FACTS: &[&str] = &[
    Samples::TABLE,
    Mix1m::TABLE,
    Fleet1h::TABLE,
    Ledger1m::TABLE,
    Hosts::TABLE,
    Pressure::TABLE,
    Rss::TABLE,
    Counters::TABLE,
];

/// In `hosts.cpu_nodes`: the node of this CPU is not known.
pub const CPU_NODE_UNKNOWN: u64 = 65_535;

/// Seconds of a day.
const DAY_SECONDS: i64 = 86_400;

/// Rows of one table and one day in ClickHouse's Native format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeBlock {
    /// Name of the table.
    pub table: &'static str,
    /// Days since 1970-01-01 UTC; 0 for tables without a day.
    pub day: u16,
    /// Number of rows.
    pub rows: u32,
    /// The block.
    pub bytes: Vec<u8>,
}

/// What all row builders do.
pub trait TableRows: Default {
    /// Name of the table.
    const TABLE: &'static str;

    /// Rows gathered so far.
    fn rows(&self) -> usize;

    /// About how many bytes their blocks will take.
    fn bytes(&self) -> usize;

    /// The blocks, by day; none if there are no rows.
    fn finish(self) -> Vec<NativeBlock>;
}

/// Day of a moment in seconds since 1970 UTC; moments before 1970 or beyond the last day are put on the nearest.
fn day_of_seconds(seconds: i64) -> u16 {
    u16::try_from((seconds / DAY_SECONDS).max(0)).unwrap_or(u16::MAX)
}

fn day_of_ns(ns: i64) -> u16 {
    day_of_seconds(ns / 1_000_000_000)
}

/// Declares a table's row and the builder that gathers such rows.
macro_rules! table {
    (
        $(#[$meta:meta])*
        $builder:ident of $(#[$row_meta:meta])* $row:ident in $table:literal, day = $day:expr;
        $($(#[$field_meta:meta])* $field:ident: $column:ty,)+
    ) => {
        $(#[$row_meta])*
        #[derive(Debug, Clone, Copy)]
        pub struct $row<'a> {
            $($(#[$field_meta])* pub $field: <$column as $crate::native::Column>::Value<'a>,)+
        }

        $(#[$meta])*
        #[derive(Debug, Default)]
        pub struct $builder {
            days: std::collections::BTreeMap<u16, Box<columns::$builder>>,
            rows: usize,
        }

        impl $builder {
            /// Names of the table's columns, in the blocks' order, without those the sink adds.
            pub fn columns() -> Vec<&'static str> {
                let mut names = Vec::new();
                $(<$column as $crate::native::Column>::names(stringify!($field), &mut names);)+
                names
            }

            /// Adds a row.
            pub fn push(&mut self, row: &$row<'_>) {
                let day: fn(&$row<'_>) -> u16 = $day;
                let columns = self.days.entry(day(row)).or_default();
                columns.rows += 1;
                self.rows += 1;
                $($crate::native::Column::push(&mut columns.$field, row.$field);)+
            }
        }

        impl $crate::rows::TableRows for $builder {
            const TABLE: &'static str = $table;

            fn rows(&self) -> usize {
                self.rows
            }

            fn bytes(&self) -> usize {
                self.days.values().map(|columns| columns.bytes()).sum()
            }

            fn finish(self) -> Vec<$crate::rows::NativeBlock> {
                let count = 0 $(+ <$column as $crate::native::Column>::COLUMNS)+;
                self.days
                    .into_iter()
                    .map(|(day, columns)| {
                        let bytes = $crate::native::write_block(count, columns.rows, columns.bytes(), |out| {
                            $($crate::native::Column::write(&columns.$field, stringify!($field), out);)+
                        });
                        let rows = u32::try_from(columns.rows).unwrap_or(u32::MAX);
                        $crate::rows::NativeBlock { table: $table, day, rows, bytes }
                    })
                    .collect()
            }
        }
    };
}

/// Declares the columns behind the builders of a file, in a module of their own so that their names stay free.
macro_rules! tables {
    ($({
        $(#[$meta:meta])*
        $builder:ident of $(#[$row_meta:meta])* $row:ident in $table:literal, day = $day:expr;
        $($(#[$field_meta:meta])* $field:ident: $column:ty,)+
    })+) => {
        mod columns {
            use super::*;
            $(
                #[derive(Debug, Default)]
                pub(super) struct $builder {
                    pub(super) rows: usize,
                    $(pub(super) $field: $column,)+
                }

                impl $builder {
                    pub(super) fn bytes(&self) -> usize {
                        0 $(+ $crate::native::Column::bytes(&self.$field))+
                    }
                }
            )+
        }
        $($crate::rows::table! {
            $(#[$meta])*
            $builder of $(#[$row_meta])* $row in $table, day = $day;
            $($(#[$field_meta])* $field: $column,)+
        })+
    };
}

use {table, tables};

#[cfg(test)]
mod tests;

//! Readings: what was read of a host beside samples, in tables of one shape.

use super::{day_of_ns, tables};
use crate::native::{Named, TimeNs};

/// Declares such tables.
macro_rules! readings {
    ($($(#[$meta:meta])* $builder:ident of $(#[$row_meta:meta])* $row:ident in $table:literal;)+) => {
        tables! {$({
            $(#[$meta])*
            $builder of
            $(#[$row_meta])*
            $row in $table, day = |row| day_of_ns(row.time);
            /// Moment, or end of the interval, in nanoseconds since 1970 UTC.
            time: TimeNs,
            /// Name of the host.
            host: Named,
            /// Workload; 0: the whole host, or a process.
            workload_id: Vec<u64>,
            /// Process; 0: not of one.
            pid: Vec<u32>,
            /// Name of the process.
            comm: Named,
            /// What was read.
            metric: Named,
            /// `:u` or `:k` where modes are counted apart.
            mode: Named,
            /// In the unit beside it.
            value: Vec<f64>,
            /// Unit of `value`.
            unit: Named,
            /// `value` is the change over so long; 0: a level.
            interval_ns: Vec<u64>,
        })+}
    };
}

readings! {
    /// Gathers rows of `pressure`.
    Pressure of
    /// One reading of pressure.
    PressureRow in "pressure";
    /// Gathers rows of `rss`.
    Rss of
    /// One reading of memory.
    RssRow in "rss";
    /// Gathers rows of `counters`.
    Counters of
    /// One reading of a counter, or of the collector's own cost.
    CounterRow in "counters";
}

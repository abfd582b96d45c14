//! An access block as it came, checked once: after that every row can be read.

use memwide_model::{
    Blocked, Context, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Region, Snoop,
    Suspect, Tlb,
};
use memwide_proto::v1::AccessBlock;

/// Why a block cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// A column has another length than the block.
    #[error("column {column} has {have} entries, the block {rows}")]
    Length {
        /// The column.
        column: &'static str,
        /// Its entries.
        have: usize,
        /// Rows of the block.
        rows: usize,
    },
    /// An index points nowhere.
    #[error("column {column} points at entry {index} of {entries}")]
    Index {
        /// The column.
        column: &'static str,
        /// The index.
        index: usize,
        /// Entries there are.
        entries: usize,
    },
    /// A code that the vocabulary has no name for.
    #[error(
        "column {column} has code {code}, which is not known here: update the aggregator first"
    )]
    Code {
        /// The column.
        column: &'static str,
        /// The code.
        code: u8,
    },
}

macro_rules! lengths {
    ($block:ident, $rows:ident, required: $($required:ident)+; optional: $($optional:ident)+) => {
        $(if $block.$required.len() != $rows {
            return Err(Malformed::Length { column: stringify!($required), have: $block.$required.len(), rows: $rows });
        })+
        $(if !$block.$optional.is_empty() && $block.$optional.len() != $rows {
            return Err(Malformed::Length { column: stringify!($optional), have: $block.$optional.len(), rows: $rows });
        })+
    };
}

macro_rules! codes {
    ($block:ident, $($column:ident: $kind:ident,)+) => {
        $(if let Some(code) = $block.$column.iter().find(|code| $kind::from_code(**code).is_err()) {
            return Err(Malformed::Code { column: stringify!($column), code: *code });
        })+
    };
}

fn points_within(
    column: &'static str,
    indexes: impl Iterator<Item = usize>,
    entries: usize,
) -> Result<(), Malformed> {
    match indexes.max() {
        Some(index) if index >= entries => Err(Malformed::Index {
            column,
            index,
            entries,
        }),
        _ => Ok(()),
    }
}

/// Checks lengths, indexes and codes; a column without any entry stands for zeros. Returns the number of rows.
pub(crate) fn check(block: &AccessBlock) -> Result<usize, Malformed> {
    let rows = block.rows as usize;
    lengths!(block, rows,
        required: time_wall_ns comm event;
        optional: cpu pid tid ip function_id location_id stack_id addr phys_addr data_id data_src period weight ins_lat
            retire_lat page_shift op level outcome snoop tlb locked blocked hw_locality page_locality locality
            locality_basis region context workload page_node suspect mem_region
    );
    codes!(block,
        op: Op, level: Level, outcome: Outcome, snoop: Snoop, tlb: Tlb, blocked: Blocked, hw_locality: Locality,
        page_locality: Locality, locality: Locality, locality_basis: LocalityBasis, region: Region, context: Context,
        suspect: Suspect, mem_region: MemRegion,
    );
    points_within(
        "comm",
        block.comm.iter().map(|index| *index as usize),
        block.strings.len(),
    )?;
    points_within(
        "event",
        block.event.iter().map(|index| usize::from(*index)),
        block.events.len(),
    )?;
    points_within(
        "workload",
        block.workload.iter().map(|index| *index as usize),
        block.workloads.len(),
    )?;
    Ok(rows)
}

/// Entry of a column that may be left out.
pub(super) fn at<T: Copy + Default>(column: &[T], row: usize) -> T {
    column.get(row).copied().unwrap_or_default()
}

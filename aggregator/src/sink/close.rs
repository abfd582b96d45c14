//! The hour close: rows of `samples` ingested in (a, b] summed into tables of hours, then published by one row each of
//! `closes`, `closes_of_details` and `closes_of_calls`.
//!
//! Runs between two blocks, so that everything ingested up to b is in the store, and nothing ingested up to b will come.

use std::sync::{Mutex, PoisonError};

use memwide_proto::{subject, v1};
use memwide_store::rows::{
    CloseRow, Closes, ClosesOfCalls, ClosesOfCallsRow, ClosesOfDetails, ClosesOfDetailsRow,
    NativeBlock, TableRows,
};
use memwide_store::schema::{close_calls, close_details, close_functions_1h};
use memwide_store::{Request, Store, StoreError};
use serde::Deserialize;

use super::insert::Target;

/// What is behind by more than two closes (tables that are new, or a sink that did not know them) is closed in pieces that
/// end at multiples of so many seconds: bounds the store's memory, and a repeat cuts alike.
const PIECE_S: u32 = 600;

/// Repeats a close that the record says is under way. False: the process stops.
pub(super) async fn run(target: &Target, record: &v1::BlockRecord, every_s: u64) -> bool {
    let (after, through) = (
        seconds(record.closed_through_s),
        seconds(record.closing_to_s),
    );
    let part = target.partition;
    let token = format!("{}/{part}/close/{after}-{through}", subject::STREAM);
    let sql = close_functions_1h(part, after, through);
    let row = CloseRow {
        part,
        closed_through: through,
    };
    let mut closes = Closes::default();
    closes.push(&row);
    sum(target, "functions_1h", &sql, &token).await
        && publish(target, &token, closes.finish()).await
        && all(target, &DETAILS, through, seconds(every_s)).await
        && all(target, &CALLS, through, seconds(every_s)).await
}

/// Tables that are closed and published together.
struct Tables {
    /// Word in tokens.
    word: &'static str,
    /// Where it stands how far they are closed.
    closes: &'static str,
    /// The statements, for a partition and what was ingested in (a, b].
    statements: fn(u16, u32, u32) -> Vec<(&'static str, String)>,
    /// The row that publishes a close of a partition.
    row: fn(u16, u32) -> Vec<NativeBlock>,
}

const DETAILS: Tables = Tables {
    word: "details",
    closes: "closes_of_details",
    statements: close_details,
    row: |part, closed_through| {
        let mut closes = ClosesOfDetails::default();
        closes.push(&ClosesOfDetailsRow {
            part,
            closed_through,
        });
        closes.finish()
    },
};

/// These came later: where those are closed already they begin at the samples there are.
const CALLS: Tables = Tables {
    word: "calls",
    closes: "closes_of_calls",
    statements: close_calls,
    row: |part, closed_through| {
        let mut closes = ClosesOfCalls::default();
        closes.push(&ClosesOfCallsRow {
            part,
            closed_through,
        });
        closes.finish()
    },
};

/// Samples of a partition that are not closed. `None`: the process stops.
pub(super) async fn rows_waiting(target: &Target, record: &v1::BlockRecord) -> Option<u64> {
    let (part, after) = (target.partition, record.closed_through_s);
    let sql = format!(
        "SELECT count() AS found FROM samples WHERE part = {part} AND ingested > toDateTime({after}, 'UTC')"
    );
    ask(target, &sql).await
}

/// Closes tables from where they are closed to. False: the process stops.
async fn all(target: &Target, tables: &Tables, through: u32, every_s: u32) -> bool {
    let (part, closes) = (target.partition, tables.closes);
    let closed = format!(
        "SELECT toUnixTimestamp(max(closed_through)) AS found FROM {closes} WHERE part = {part}"
    );
    let oldest =
        format!("SELECT toUnixTimestamp(min(ingested)) AS found FROM samples WHERE part = {part}");
    let Some(closed) = ask(target, &closed).await else {
        return false;
    };
    let mut after = seconds(closed);
    while after < through {
        let Some(oldest) = ask(target, &oldest).await else {
            return false;
        };
        let to = piece(after, through, seconds(oldest), every_s);
        let token = format!("{}/{part}/{}/{after}-{to}", subject::STREAM, tables.word);
        for (table, sql) in (tables.statements)(part, after, to) {
            if !sum(target, table, &sql, &token).await {
                return false;
            }
        }
        if !publish(target, &token, (tables.row)(part, to)).await {
            return false;
        }
        after = to;
    }
    true
}

/// End of the next piece of (`after`, `through`]; nothing was ingested before `oldest`.
fn piece(after: u32, through: u32, oldest: u32, every_s: u32) -> u32 {
    if through - after <= every_s.saturating_mul(2) || oldest == 0 {
        return through;
    }
    let begin = after.max(oldest.saturating_sub(1));
    through.min((begin / PIECE_S + 1) * PIECE_S)
}

fn seconds(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// One number that the store is asked for, however long it is away.
async fn ask(target: &Target, sql: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Row {
        found: u64,
    }
    let found = Mutex::new(0);
    let asking = |store: Store| {
        let found = &found;
        async move {
            let rows: Vec<Row> = store.rows(Request::new(sql, "JSONEachRow")).await?;
            *found.lock().unwrap_or_else(PoisonError::into_inner) =
                rows.first().map_or(0, |row| row.found);
            Ok::<(), StoreError>(())
        }
    };
    if !target.until_done("closes", asking).await {
        return None;
    }
    Some(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

async fn sum(target: &Target, table: &str, sql: &str, token: &str) -> bool {
    let summing = |store: Store| {
        let (sql, token) = (sql.to_owned(), token.to_owned());
        async move { store.insert_select(&sql, &token).await }
    };
    target.until_done(table, summing).await
}

/// Inserts the row that makes a close count.
async fn publish(target: &Target, token: &str, blocks: Vec<NativeBlock>) -> bool {
    for block in blocks {
        let native: bytes::Bytes = block.bytes.into();
        let inserting = |store: Store| {
            let (native, token) = (native.clone(), token.to_owned());
            async move {
                let columns = Closes::columns();
                store
                    .insert_native(block.table, &columns, &token, native)
                    .await
            }
        };
        if !target.until_done(block.table, inserting).await {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_behind_is_closed_in_pieces_that_a_repeat_cuts_alike() {
        let cut = |after, through, oldest| piece(after, through, oldest, 3_600);
        assert_eq!(cut(10_000, 13_600, 9_000), 13_600, "an hour is one piece");
        assert_eq!(cut(0, 50_000, 0), 50_000, "nothing is stored");
        assert_eq!(cut(0, 50_000, 20_000), 20_400);
        assert_eq!(cut(20_400, 50_000, 20_000), 21_000);
        assert_eq!(
            cut(20_400, 50_000, 30_100),
            30_600,
            "hours of nothing are one piece"
        );
        assert_eq!(
            cut(0, 50_000, 20_400),
            20_400,
            "a piece ends with its last second"
        );
    }
}

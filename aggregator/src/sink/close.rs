//! The hour close: rows of `samples` ingested in (a, b] summed into `functions_1h`, then published by one row of `closes`.
//!
//! Runs between two blocks, so that everything ingested up to b is in the store, and nothing ingested up to b will come.

use memwide_proto::{subject, v1};
use memwide_store::rows::{CloseRow, Closes, TableRows};
use memwide_store::schema::close_functions_1h;

use super::insert::Target;

/// The close that is due after a finished block: through the block's ingest time, once an interval after the last close.
pub(super) fn due(record: &v1::BlockRecord, every_s: u64, now_s: u64) -> Option<u64> {
    let (ingested, closed) = (record.created_wall_s, record.closed_through_s);
    let news = record.done && record.closing_to_s == 0 && ingested > closed;
    (news && now_s / every_s > closed / every_s).then_some(ingested)
}

/// Repeats a close that the record says is under way. False: the process stops.
pub(super) async fn run(target: &Target, record: &v1::BlockRecord) -> bool {
    let seconds = |seconds: u64| u32::try_from(seconds).unwrap_or(u32::MAX);
    let (after, through) = (
        seconds(record.closed_through_s),
        seconds(record.closing_to_s),
    );
    let part = target.partition;
    let token = format!("{}/{part}/close/{after}-{through}", subject::STREAM);
    let sql = close_functions_1h(part, after, through);
    let summed = target
        .until_done("functions_1h", |store| {
            let (sql, token) = (sql.clone(), token.clone());
            async move { store.insert_select(&sql, &token).await }
        })
        .await;
    if !summed {
        return false;
    }
    let mut rows = Closes::default();
    rows.push(&CloseRow {
        part,
        closed_through: through,
    });
    let native: bytes::Bytes = rows
        .finish()
        .into_iter()
        .flat_map(|block| block.bytes)
        .collect();
    target
        .until_done("closes", |store| {
            let (native, token) = (native.clone(), token.clone());
            async move {
                store
                    .insert_native(Closes::TABLE, &Closes::columns(), &token, native)
                    .await
            }
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_is_due_once_an_interval_and_only_if_something_was_stored_since() {
        let record = |created_wall_s, closed_through_s, done| v1::BlockRecord {
            created_wall_s,
            closed_through_s,
            done,
            ..v1::BlockRecord::default()
        };
        let cases = [
            (record(3_599, 3_000, true), 3_600, Some(3_599)),
            (record(3_599, 3_000, true), 3_599, None),
            (record(3_599, 3_000, false), 3_600, None),
            (record(3_599, 3_599, true), 9_000, None),
            // Ingest times run ahead of the clock when blocks come faster than one a second.
            (record(9_000, 7_300, true), 10_799, None),
            (record(12_000, 7_300, true), 10_800, Some(12_000)),
        ];
        for (record, now_s, expected) in cases {
            assert_eq!(
                due(&record, 3_600, now_s),
                expected,
                "{record:?} at {now_s}"
            );
        }
    }
}

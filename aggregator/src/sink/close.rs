//! The hour close: rows of `samples` ingested in (a, b] summed into `functions_1h`, then published by one row of `closes`.
//!
//! Runs between two blocks, so that everything ingested up to b is in the store, and nothing ingested up to b will come.

use memwide_proto::{subject, v1};
use memwide_store::rows::{CloseRow, Closes, TableRows};
use memwide_store::schema::close_functions_1h;

use super::insert::Target;

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

//! Whose samples were refused: the ledger's lines about messages that are in the dead-letter stream.

use std::collections::BTreeMap;

use memwide_model::{Reason, Tier};
use memwide_proto::v1;
use memwide_store::native::{BlockView, names, walk};
use memwide_store::rows::{Ledger1m, LedgerRow, Samples, TableRows, TierOrNone};
use prost::Message as _;

use super::dead::Letter;
use super::reader::Stored;
use crate::encode;

/// What samples are counted by: host, source, event, its name, its tier.
type Key = (String, u64, u64, String, Option<u8>);

/// Lines of the ledger about the messages of `letters`. The same messages give the same lines.
pub(super) fn lines(messages: &[Stored], letters: &[Letter], time: u32) -> Ledger1m {
    let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
    for letter in letters.iter().filter(|letter| letter.samples > 0) {
        let message = messages
            .iter()
            .find(|message| message.sequence == letter.sequence);
        match message.and_then(count) {
            Some(found) => {
                for (key, samples) in found {
                    *counts.entry(key).or_default() += samples;
                }
            }
            // What it holds cannot be read: samples of nobody.
            None => *counts.entry(Key::default()).or_default() += letter.samples,
        }
    }
    let mut ledger = Ledger1m::default();
    for ((host, source_id, event_id, event, tier), records) in counts {
        ledger.push(&LedgerRow {
            time,
            host: &host,
            source_id,
            event_id,
            event: &event,
            tier: TierOrNone(tier.and_then(|code| Tier::from_code(code).ok())),
            reason: Reason::Refused,
            records,
            seconds: 0.0,
            last_batch: 0,
        });
    }
    ledger
}

/// Samples of a message; `None` where the columns needed are damaged themselves.
fn count(message: &Stored) -> Option<BTreeMap<Key, u64>> {
    let block = v1::RowBlock::decode(message.payload.clone()).ok()?;
    if block.table != Samples::TABLE {
        return None;
    }
    let native = encode::native(&block).ok()?;
    let view = walk(&native).ok()?;
    if view.rows != block.rows as usize {
        return None;
    }
    let (hosts, events) = (named(&view, "host")?, named(&view, "event")?);
    let (sources, event_ids) = (numbers(&view, "source_id")?, numbers(&view, "event_id")?);
    let tiers = column(&view, "tier", "Enum8(")?;
    let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
    for (row, tier) in tiers.iter().enumerate().take(view.rows) {
        let key = (
            (*hosts.get(row)?).to_owned(),
            *sources.get(row)?,
            *event_ids.get(row)?,
            (*events.get(row)?).to_owned(),
            Some(*tier),
        );
        *counts.entry(key).or_default() += 1;
    }
    Some(counts)
}

fn column<'a>(view: &BlockView<'a>, name: &str, kind: &str) -> Option<&'a [u8]> {
    let mut columns = view.columns.iter();
    let found = columns.find(|column| column.name == name && column.kind.starts_with(kind))?;
    Some(found.data)
}

fn numbers(view: &BlockView<'_>, name: &str) -> Option<Vec<u64>> {
    let (words, _) = column(view, name, "UInt64")?.as_chunks();
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn named<'a>(view: &BlockView<'a>, name: &str) -> Option<Vec<&'a str>> {
    names(column(view, name, "LowCardinality(String)")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_nobodys() {
        let letters = [
            Letter {
                sequence: 7,
                samples: 3,
            },
            Letter {
                sequence: 8,
                samples: 0,
            },
        ];
        let block = v1::RowBlock {
            table: "samples".to_owned(),
            rows: 3,
            native_zstd: vec![1, 2, 3].into(),
            ..v1::RowBlock::default()
        };
        let message = Stored {
            sequence: 7,
            payload: block.encode_to_vec().into(),
        };
        let blocks = lines(&[message], &letters, 60).finish();
        assert_eq!(blocks.len(), 1);
        let view = walk(&blocks[0].bytes).unwrap();
        assert_eq!(named(&view, "host").unwrap(), [""]);
        assert_eq!(numbers(&view, "records").unwrap(), [3]);
    }
}

//! From messages to inserts: which rows go where under which token. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use memwide_proto::{subject, v1};
use memwide_store::native::{Constant, append_constants, walk};
use memwide_store::rows::{FACTS, Ledger1m, Samples, TableRows};
use prost::Message as _;

use super::dead::Letter;
use super::reader::Stored;
use super::refused;
use super::vocabulary::Vocabulary;
use crate::encode;
use crate::error::Cause;

/// One insert.
#[derive(Debug, Clone)]
pub(super) struct Insert {
    pub(super) table: String,
    pub(super) day: u32,
    pub(super) token: String,
    pub(super) columns: Vec<String>,
    pub(super) parts: Vec<Part>,
}

/// The rows of one message.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) sequence: u64,
    pub(super) rows: u32,
    pub(super) native: Bytes,
}

impl Insert {
    /// Rows in it.
    pub(super) fn rows(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.rows)).sum()
    }

    /// The body: Native blocks one behind the other.
    pub(super) fn body(&self) -> Bytes {
        match &*self.parts {
            [only] => only.native.clone(),
            parts => parts
                .iter()
                .map(|part| &*part.native)
                .collect::<Vec<_>>()
                .concat()
                .into(),
        }
    }
}

/// A message that can never be inserted.
#[derive(Debug)]
pub(super) struct Poison {
    pub(super) sequence: u64,
    pub(super) why: String,
    /// Samples in it.
    pub(super) samples: u64,
}

/// Samples in a message, as far as it can be read.
pub(super) fn samples_in(message: &Stored) -> u64 {
    let decoded = v1::RowBlock::decode(message.payload.clone());
    decoded
        .ok()
        .filter(|block| block.table == Samples::TABLE)
        .map_or(0, |block| block.rows.into())
}

/// Groups a block's messages into inserts, definitions first and the ledger last. `refused` are messages that are in the
/// dead-letter stream already; those that cannot be read come back beside the inserts.
pub(super) fn inserts(
    record: &v1::BlockRecord,
    messages: &[Stored],
    refused: &[u64],
    vocabulary: &Vocabulary,
) -> (Vec<Insert>, Vec<Poison>) {
    let partition = u16::try_from(record.partition).unwrap_or(u16::MAX);
    let ingested = u32::try_from(record.created_wall_s).unwrap_or(u32::MAX);
    let constants = [
        Constant::U16("part", partition),
        Constant::Seconds("ingested", ingested),
    ];
    // Messages of one flush come in the order in which tables are to be filled.
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<(usize, u32, Vec<String>), Vec<Part>> = BTreeMap::new();
    let mut poison = Vec::new();
    for message in messages
        .iter()
        .filter(|message| !refused.contains(&message.sequence))
    {
        let (table, day, columns, part) = match read(message, &constants, vocabulary) {
            Ok(read) => read,
            Err(why) => {
                let (sequence, samples) = (message.sequence, samples_in(message));
                poison.push(Poison {
                    sequence,
                    why: why.to_string(),
                    samples,
                });
                continue;
            }
        };
        let place = order
            .iter()
            .position(|known| *known == table)
            .unwrap_or_else(|| {
                order.push(table);
                order.len() - 1
            });
        groups.entry((place, day, columns)).or_default().push(part);
    }
    let mut inserts: Vec<Insert> = Vec::new();
    for ((place, day, columns), parts) in groups {
        let table = order[place].clone();
        let mut token = subject::insert_token(partition, record.first, record.last, &table, day);
        // Rows of aggregators of two versions: each set of columns is an insert of its own.
        let before = inserts
            .iter()
            .filter(|one| one.table == table && one.day == day)
            .count();
        if before > 0 {
            token = format!("{token}/{before}");
        }
        inserts.push(Insert {
            table,
            day,
            token,
            columns,
            parts,
        });
    }
    inserts.sort_by_key(|insert| (rank(&insert.table), insert.day));
    (inserts, poison)
}

/// Definitions, then facts, then the ledger: an answer never shows more than the ledger says.
fn rank(table: &str) -> usize {
    if table == Ledger1m::TABLE {
        return 2;
    }
    usize::from(FACTS.contains(&table))
}

fn read(
    message: &Stored,
    constants: &[Constant],
    vocabulary: &Vocabulary,
) -> Result<(String, u32, Vec<String>, Part), Cause> {
    let block = v1::RowBlock::decode(message.payload.clone())?;
    let plain = block
        .table
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain || block.table.is_empty() {
        return Err(format!("`{}` cannot be a table", block.table).into());
    }
    let native = encode::native(&block)?;
    let view = walk(&native)?;
    if let Some(unknown) = vocabulary.unknown(&block.table, &view) {
        return Err(unknown.into());
    }
    if view.rows != block.rows as usize {
        return Err(format!("{} rows, {} were promised", view.rows, block.rows).into());
    }
    let mut columns: Vec<String> = view.names().iter().map(|name| (*name).to_owned()).collect();
    if columns.iter().any(|name| name.contains(['`', '\\'])) {
        return Err("a column's name is none".into());
    }
    let native = if FACTS.contains(&block.table.as_str()) {
        columns.extend(["part".to_owned(), "ingested".to_owned()]);
        append_constants(&native, constants)?
    } else {
        native
    };
    let part = Part {
        sequence: message.sequence,
        rows: block.rows,
        native: native.into(),
    };
    Ok((block.table, block.day, columns, part))
}

/// The ledger's lines about refused samples, as an insert of their own.
pub(super) fn enter_refused(
    record: &v1::BlockRecord,
    messages: &[Stored],
    letters: &[Letter],
    inserts: &mut Vec<Insert>,
) {
    let partition = u16::try_from(record.partition).unwrap_or(u16::MAX);
    let ingested = u32::try_from(record.created_wall_s).unwrap_or(u32::MAX);
    let ledger = refused::lines(messages, letters, ingested - ingested % 60);
    let constants = [
        Constant::U16("part", partition),
        Constant::Seconds("ingested", ingested),
    ];
    for block in ledger.finish() {
        let Ok(native) = append_constants(&block.bytes, &constants) else {
            continue;
        };
        let mut columns: Vec<String> = Ledger1m::columns().into_iter().map(str::to_owned).collect();
        columns.extend(["part".to_owned(), "ingested".to_owned()]);
        let day = u32::from(block.day);
        let token =
            subject::insert_token(partition, record.first, record.last, Ledger1m::TABLE, day)
                + "/refused";
        let part = Part {
            sequence: record.last,
            rows: block.rows,
            native: native.into(),
        };
        inserts.push(Insert {
            table: Ledger1m::TABLE.to_owned(),
            day,
            token,
            columns,
            parts: vec![part],
        });
    }
}

//! From the stream into the store: blocks, their records, hours.

use crate::world::{Block, Broken, Message, Sink, Table, What, World};
use memwide_aggregator::delivery::plan::{self, Todo};
use memwide_proto::subject;
use memwide_proto::v1::BlockRecord;

/// An hour of this world, in seconds: every other block closes one.
const CLOSE_EVERY_S: u64 = 2;

/// What a sink can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read the record.
    Learn,
    /// Read the open block's messages again.
    Reread,
    /// Insert the next message's rows.
    Insert,
    /// Write that the block is done.
    Done,
    /// Begin a close.
    Close,
    /// The next step of a close.
    Closing,
    /// Read what waits.
    Gather,
    Nothing,
}

impl World {
    pub(crate) fn next_of(&self, sink: usize) -> Next {
        let sink = &self.sinks[sink];
        let Some((record, _)) = &sink.kept else {
            // A sink without news looks again when there are some: nothing changes by looking sooner.
            let news = !record_is_idle(&self.nats.record) || !self.nats.messages.is_empty();
            return if news { Next::Learn } else { Next::Nothing };
        };
        match (plan::todo(record), &sink.block) {
            (Todo::Close { .. }, _) => Next::Closing,
            (Todo::Repeat { .. }, None) => Next::Reread,
            (Todo::Repeat { .. }, Some(block)) if block.inserted < block.messages.len() => {
                Next::Insert
            }
            (Todo::Repeat { .. }, Some(_)) => Next::Done,
            (Todo::Gather { from }, _) => {
                if self.closes
                    && plan::close_due(record, CLOSE_EVERY_S, self.now_s, false).is_some()
                {
                    Next::Close
                } else if self.nats.messages.iter().any(|m| m.sequence >= from) {
                    Next::Gather
                } else {
                    Next::Nothing
                }
            }
        }
    }

    pub(crate) fn learn(&mut self, sink: usize) {
        self.sinks[sink].kept = Some((self.nats.record, self.nats.revision));
        if let Todo::Gather { from } = plan::todo(&self.nats.record) {
            self.nats.messages.retain(|m| m.sequence >= from);
        }
    }

    pub(crate) fn forget(&mut self, sink: usize) {
        self.sinks[sink] = Sink::default();
    }

    fn messages(&self, first: u64, last: u64) -> Vec<Message> {
        let within = |message: &&Message| (first..=last).contains(&message.sequence);
        self.nats.messages.iter().filter(within).cloned().collect()
    }

    pub(crate) fn reread(&mut self, sink: usize) -> Result<(), Broken> {
        let (record, revision) = self.sinks[sink].kept.unwrap();
        let messages = self.messages(record.first, record.last);
        let ends = (
            messages.first().map(|m| m.sequence),
            messages.last().map(|m| m.sequence),
        );
        if ends == (Some(record.first), Some(record.last)) {
            self.sinks[sink].block = Some(Block {
                messages,
                inserted: 0,
            });
        } else if (record, revision) == (self.nats.record, self.nats.revision) {
            return Err(format!(
                "messages {} to {} are gone, the record needs them",
                record.first, record.last
            ));
        } else {
            self.forget(sink);
        }
        Ok(())
    }

    /// A block of `most` messages at most begins.
    pub(crate) fn gather(&mut self, sink: usize, most: usize) {
        let (record, _) = self.sinks[sink].kept.unwrap();
        let mut messages = self.messages(record.last + 1, u64::MAX);
        messages.truncate(most);
        self.now_s += 1;
        let (first, last) = (messages[0].sequence, messages[messages.len() - 1].sequence);
        let opened = plan::open(record, first, last, self.now_s);
        if self.write(sink, opened) {
            self.sinks[sink].block = Some(Block {
                messages,
                inserted: 0,
            });
        }
    }

    /// Compare and set; false: somebody else's record is there.
    pub(crate) fn write(&mut self, sink: usize, record: BlockRecord) -> bool {
        let (_, revision) = self.sinks[sink].kept.unwrap();
        if revision == self.nats.revision {
            self.nats.record = record;
            self.nats.revision += 1;
        } else if !plan::is_mine(&record, &self.nats.record) {
            self.forget(sink);
            return false;
        }
        self.sinks[sink].kept = Some((record, self.nats.revision));
        true
    }

    /// Inserts the next message's rows, samples before the ledger, under the block's token of the table.
    pub(crate) fn insert(&mut self, sink: usize) {
        let (record, _) = self.sinks[sink].kept.unwrap();
        let block = self.sinks[sink].block.clone().unwrap();
        let mut tables: Vec<Table> = block.messages.iter().map(|m| m.table).collect();
        tables.sort_unstable();
        tables.dedup();
        let done = self.sinks[sink].block.as_mut().unwrap();
        let Some(table) = tables.get(block.inserted) else {
            done.inserted = block.messages.len();
            return;
        };
        done.inserted += 1;
        if done.inserted == tables.len() {
            done.inserted = block.messages.len();
        }
        let name = format!("{table:?}");
        let token = subject::insert_token(0, record.first, record.last, &name, 0);
        if !self.store.tokens.insert(token) {
            return;
        }
        for message in block.messages.iter().filter(|m| m.table == *table) {
            for row in &message.rows {
                match table {
                    Table::Samples if row.what == What::Samples => {
                        self.store.samples.push((*row, record.created_wall_s));
                    }
                    Table::Samples => {}
                    Table::Ledger => self.store.ledger.push(*row),
                }
            }
        }
        self.store.samples.sort_unstable();
        self.store.ledger.sort_unstable();
    }

    pub(crate) fn done(&mut self, sink: usize) {
        let (record, _) = self.sinks[sink].kept.unwrap();
        if self.write(sink, plan::done(record)) {
            self.sinks[sink].block = None;
            self.nats.messages.retain(|m| m.sequence > record.last);
        }
    }

    pub(crate) fn close(&mut self, sink: usize) {
        let (record, _) = self.sinks[sink].kept.unwrap();
        if let Some(closing) = plan::close_due(&record, CLOSE_EVERY_S, self.now_s, false) {
            self.write(sink, closing);
        }
    }

    /// Sums the hour, then publishes it, then says so in the record.
    pub(crate) fn closing(&mut self, sink: usize) {
        let (record, _) = self.sinks[sink].kept.unwrap();
        let (after, through) = (record.closed_through_s, record.closing_to_s);
        self.sinks[sink].closing += 1;
        match self.sinks[sink].closing {
            1 => {
                let token = format!("close/{after}-{through}");
                if self.store.tokens.insert(token) {
                    let rows = self.store.samples.iter();
                    let rows = rows.filter(|(_, at)| (after + 1..=through).contains(at));
                    let rows: Vec<_> = rows.map(|(row, _)| (*row, through)).collect();
                    self.store.functions.extend(rows);
                    self.store.functions.sort_unstable();
                }
            }
            2 => self.store.closed_through = self.store.closed_through.max(through),
            _ => {
                self.sinks[sink].closing = 0;
                self.write(sink, plan::closed(record));
            }
        }
    }
}

fn record_is_idle(record: &BlockRecord) -> bool {
    !plan::is_busy(record)
}

//! From the aggregator's rows into the stream: flushes, their answers, fences.

use crate::world::{
    Aggregator, Broken, Commit, Cursor, Flight, Head, Heard, Message, Table, ToDecoder, WALL_NS,
    What, World, index, source,
};
use memwide_aggregator::delivery::Judged;

impl World {
    /// An aggregator takes out what it has applied and sends it.
    pub(crate) fn flush(&mut self, path: usize) {
        let aggregator = &mut self.aggregators[path];
        let head = Head(aggregator.partition.begin_flush(WALL_NS).unwrap());
        let rows = std::mem::take(&mut aggregator.rows);
        aggregator.flight = Some(Flight {
            head,
            rows,
            answer: Heard::Nothing,
        });
        self.resend(path);
    }

    /// The flush under way goes to the server (once more).
    fn resend(&mut self, path: usize) {
        let aggregator = &mut self.aggregators[path];
        let flight = aggregator.flight.as_mut().unwrap();
        flight.answer = Heard::Nothing;
        self.nats.wire.push(Commit {
            path,
            lives: aggregator.lives,
            head: flight.head.clone(),
            rows: flight.rows.clone(),
        });
    }

    /// The server takes a flush whole, if the cursor is where it is expected, or not at all.
    pub(crate) fn commit(&mut self, at: usize, answers: bool) -> Result<(), Broken> {
        let commit = self.nats.wire.remove(at);
        let nats = &mut self.nats;
        let before = nats.cursor.as_ref().map_or(0, |cursor| cursor.sequence);
        let taken = commit.head.0.expected == before;
        if taken {
            for row in &commit.rows {
                if row.what == What::Freed || !self.ever.insert((row.source, row.batch)) {
                    return Err(format!(
                        "batch {} of source {} is committed twice",
                        row.batch, row.source
                    ));
                }
            }
            // Two messages, so that a block may end between them.
            for table in [Table::Samples, Table::Ledger] {
                nats.last += 1;
                nats.messages.push_back(Message {
                    sequence: nats.last,
                    table,
                    rows: commit.rows.clone(),
                });
            }
            nats.last += 1;
            nats.cursor = Some(Cursor {
                message: commit.head.0.cursor.clone(),
                sequence: nats.last,
            });
        }
        let last = nats.last;
        let aggregator = &mut self.aggregators[commit.path];
        let flight = aggregator
            .flight
            .as_mut()
            .filter(|flight| aggregator.lives == commit.lives && flight.head == commit.head);
        if let Some(flight) = flight
            && answers
        {
            flight.answer = if taken { Heard::Taken(last) } else { Heard::No };
        }
        Ok(())
    }

    /// An aggregator hears how its flush ended, or gives up waiting and reads the cursor.
    pub(crate) fn landed(&mut self, path: usize) {
        let aggregator = &mut self.aggregators[path];
        let flight = aggregator.flight.clone().unwrap();
        let found = self.nats.cursor.clone();
        let cursor = found.as_ref().map(|cursor| &cursor.message);
        let at = found.as_ref().map_or(0, |cursor| cursor.sequence);
        let sequence = match flight.answer {
            Heard::Taken(sequence) => sequence,
            _ => match flight.head.0.judge(cursor, at) {
                Judged::Committed => at,
                Judged::Again => return self.resend(path),
                Judged::Fenced => return self.fenced(path),
            },
        };
        aggregator.flight = None;
        for (source, through) in aggregator
            .partition
            .committed(&flight.head.0.cursor, sequence)
        {
            if let Some((pipe, _)) = self.aggregators[path].streams.get(&index(&source)) {
                self.tell(*pipe, ToDecoder::Committed(through));
            }
        }
    }

    fn fenced(&mut self, path: usize) {
        let cursor = self.nats.cursor.clone();
        let aggregator = &mut self.aggregators[path];
        aggregator.flight = None;
        aggregator.rows.clear();
        let at = cursor.as_ref().map_or(0, |cursor| cursor.sequence);
        aggregator
            .partition
            .reload(cursor.as_ref().map(|cursor| &cursor.message), at);
        let mut told = Vec::new();
        for (of, (pipe, order)) in &mut aggregator.streams {
            if let Some(next) = aggregator.partition.open(source(*of)) {
                order.asked();
                told.push((*pipe, next));
            }
        }
        for (pipe, next) in told {
            if next > 1 {
                self.tell(pipe, ToDecoder::Committed(next - 1));
            }
            self.tell(pipe, ToDecoder::Resume(next));
        }
    }

    /// An aggregator is killed and started again. What it had sent to the server may still get there.
    pub(crate) fn aggregator_dies(&mut self, path: usize) {
        let lives = self.aggregators[path].lives + 1;
        self.aggregators[path] = Aggregator::start(path, lives, self.nats.cursor.as_ref());
        let pipes: Vec<u32> = self
            .pipes
            .iter()
            .filter(|(_, pipe)| pipe.path == path)
            .map(|(id, _)| *id)
            .collect();
        for id in pipes {
            self.end_pipe(id);
        }
    }
}

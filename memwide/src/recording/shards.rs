//! One file read by several threads. Records come in one order, which one thread finds out; it puts them into chunks, and every
//! worker gets every chunk:
//!
//! ```text
//!            chunk 0  1  2  3  4 …
//! worker 0:        ●  ·  ·  ●  ·       ● decodes the samples
//! worker 1:        ·  ●  ·  ·  ●       · follows tasks and mappings only
//! worker 2:        ·  ·  ●  ·  ·
//! ```
//!
//! So each worker knows at every sample what one thread alone would know, and what workers make of their chunks can be put in
//! order again by asking one after the other.

use super::{Leftovers, Recording, Shown};
use crate::failure::Failure;
use memwide_decoder::edge::{FileSource, Refusal};
use memwide_decoder::local::{
    LocalSample, LocalSession, SharedTables, Skipped, Wanted, needs_every_sample,
};
use memwide_perf_abi::RawRecord;
use memwide_perf_abi::file::FileRecord;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Records of a chunk, and its bytes, at most.
const CHUNK_RECORDS: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that wait for a worker at most, and results of it.
const WAITING: usize = 3;
/// Beyond this many workers the thread that reads is what they wait for: it takes about a tenth of what decoding takes.
const WORKERS_MAX: usize = 8;

/// What a worker does with its samples.
pub(crate) trait Shard: Send {
    /// What a chunk of samples comes to.
    type Out: Default + Send;

    /// The samples of the chunk with this number follow.
    fn begin(&mut self, _chunk: u64) {}

    /// Takes a sample; a single shard may say stop.
    fn take(&mut self, sample: &LocalSample<'_>) -> ControlFlow<()>;

    /// Ends the chunk and swaps what it came to for an `out` that is used up.
    fn end(&mut self, _out: &mut Self::Out) {}
}

/// Records in order, one after the other in `bytes`.
#[derive(Debug, Default)]
struct Chunk {
    number: u64,
    bytes: Vec<u8>,
    /// Index of each one's event, and 1; 0 without an event.
    events: Vec<u32>,
}

impl Chunk {
    fn push(&mut self, item: &FileRecord<'_>) {
        self.bytes.extend_from_slice(item.record.bytes());
        let event = item.event.and_then(|event| u32::try_from(event + 1).ok());
        self.events.push(event.unwrap_or(0));
    }

    fn is_full(&self) -> bool {
        self.events.len() >= CHUNK_RECORDS || self.bytes.len() >= CHUNK_BYTES
    }

    fn records(&self) -> impl Iterator<Item = (RawRecord<'_>, Option<usize>)> {
        let mut rest = self.bytes.as_slice();
        self.events.iter().map_while(move |event| {
            let (record, behind) = RawRecord::split_first(rest).ok()?;
            rest = behind;
            Some((record, (*event as usize).checked_sub(1)))
        })
    }
}

/// What a worker has to say in the end.
#[derive(Debug, Default)]
struct Said {
    shown: Shown,
    skipped: Skipped,
    refused: (Vec<Refusal>, u64),
}

impl Recording {
    /// How many workers are worth it, or as many as are asked for. One where samples hang together; also where lines of the
    /// source or members of variables are wanted, as each worker would read the debug information for itself.
    pub(crate) fn workers(&self, asked: Option<u16>) -> usize {
        let from_debug = [Wanted::LINES, Wanted::INLINES, Wanted::MEMBERS];
        let is_wanted = |what: &Wanted| self.wanted.has(*what);
        if from_debug.iter().any(is_wanted) || needs_every_sample(self.events()) {
            return 1;
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        asked.map_or_else(|| cores().min(WORKERS_MAX), usize::from)
    }

    /// Gives every sample that perf shows to one of the shards, each on a thread of its own, chunk by chunk. `consume` gets what
    /// the chunks come to in perf's order, until it says stop. The shards come back.
    pub(crate) fn each_sharded<S: Shard>(
        self,
        mut shards: Vec<S>,
        mut consume: impl FnMut(&mut S::Out) -> ControlFlow<()> + Send,
    ) -> Result<(Leftovers, Vec<S>), Failure> {
        if let [shard] = shards.as_mut_slice() {
            let left = self.each_alone(shard, consume)?;
            return Ok((left, shards));
        }
        let tables = SharedTables::default();
        let session = |_: &S| self.session().sharing(tables.clone());
        let sessions: Vec<_> = shards.iter().map(session).collect();
        let (left, said, whole) = std::thread::scope(|scope| {
            let (mut inputs, mut outputs, mut workers) = (Vec::new(), Vec::new(), Vec::new());
            let of = shards.len() as u64;
            for ((shard, session), at) in shards.iter_mut().zip(sessions).zip(0_u64..) {
                let (input, chunks) = sync_channel(WAITING);
                let (results, output) = sync_channel(WAITING);
                let (back, used) = sync_channel(WAITING);
                inputs.push(input);
                outputs.push((output, back));
                let mine = move |chunk: u64| chunk % of == at;
                workers.push(
                    scope.spawn(move || work(shard, session, mine, &chunks, (&results, &used))),
                );
            }
            let consumer = scope.spawn(move || {
                // Ends with the first worker that has no more: the ones after it have none either.
                for (output, back) in outputs.iter().cycle() {
                    let Ok(mut out) = output.recv() else { break };
                    if consume(&mut out).is_break() {
                        break;
                    }
                    drop(back.try_send(out)); // a buffer too many
                }
            });
            let mut feed = Feed::new(inputs);
            let left = self.read(|_, item| feed.push(item));
            let _ = feed.send(); // the rest
            drop(feed);
            let said: Vec<Said> = workers
                .into_iter()
                .filter_map(|one| one.join().ok())
                .collect();
            let whole = said.len() as u64 == of && consumer.join().is_ok();
            (left, said, whole)
        });
        if !whole {
            return Err(anyhow::anyhow!("a thread that decodes samples ended in a panic").into());
        }
        let mut left = left?;
        for said in said {
            left.shown += said.shown;
            left.skipped += said.skipped;
            left.refused.take(said.refused);
        }
        Ok((left, shards))
    }

    /// The same on this thread.
    fn each_alone<S: Shard>(
        self,
        shard: &mut S,
        mut consume: impl FnMut(&mut S::Out) -> ControlFlow<()>,
    ) -> Result<Leftovers, Failure> {
        let mut out = S::Out::default();
        let (mut taken, mut chunk) = (0, 0);
        let each = |sample: &LocalSample<'_>| {
            if taken == CHUNK_RECORDS {
                shard.end(&mut out);
                if consume(&mut out).is_break() {
                    return ControlFlow::Break(());
                }
                (taken, chunk) = (0, chunk + 1);
                shard.begin(chunk);
            }
            taken += 1;
            shard.take(sample)
        };
        let left = self.each(each)?;
        shard.end(&mut out);
        let _ = consume(&mut out); // it was the last
        Ok(left)
    }
}

/// Decodes the chunks that are `mine`, follows the others.
fn work<S: Shard>(
    shard: &mut S,
    mut session: LocalSession<FileSource>,
    mine: impl Fn(u64) -> bool,
    chunks: &Receiver<Arc<Chunk>>,
    (results, used): (&SyncSender<S::Out>, &Receiver<S::Out>),
) -> Said {
    let mut said = Said::default();
    for chunk in chunks {
        if !mine(chunk.number) {
            for (record, _) in chunk.records() {
                session.follow(&record);
            }
            continue;
        }
        shard.begin(chunk.number);
        for (record, event) in chunk.records() {
            session.push(&record, event, |sample| {
                if said.shown.takes(sample) {
                    let _ = shard.take(sample); // one of several does not say stop
                }
            });
        }
        let mut out = used.try_recv().unwrap_or_default();
        shard.end(&mut out);
        if results.send(out).is_err() {
            break; // nobody wants more
        }
    }
    said.skipped = session.skipped();
    said.refused = session.refusals();
    said
}

/// The thread that reads: fills chunks and hands them to all workers.
struct Feed {
    workers: Vec<SyncSender<Arc<Chunk>>>,
    filling: Chunk,
    /// Handed on, oldest first; used again once all workers are through.
    sent: VecDeque<Arc<Chunk>>,
}

impl Feed {
    fn new(workers: Vec<SyncSender<Arc<Chunk>>>) -> Self {
        Self {
            workers,
            filling: Chunk::default(),
            sent: VecDeque::new(),
        }
    }

    fn push(&mut self, item: &FileRecord<'_>) -> ControlFlow<()> {
        self.filling.push(item);
        if self.filling.is_full() {
            self.send()
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Hands on what there is; says stop once a worker wants no more.
    fn send(&mut self) -> ControlFlow<()> {
        let number = self.filling.number;
        let next = Chunk {
            number: number + 1,
            ..self.unused()
        };
        let chunk = Arc::new(std::mem::replace(&mut self.filling, next));
        for worker in &self.workers {
            if worker.send(Arc::clone(&chunk)).is_err() {
                return ControlFlow::Break(());
            }
        }
        self.sent.push_back(chunk);
        ControlFlow::Continue(())
    }

    fn unused(&mut self) -> Chunk {
        let oldest = self.sent.front_mut();
        let Some(oldest) = oldest.and_then(Arc::get_mut) else {
            return Chunk::default();
        };
        let mut chunk = std::mem::take(oldest);
        self.sent.pop_front();
        chunk.bytes.clear();
        chunk.events.clear();
        chunk
    }
}

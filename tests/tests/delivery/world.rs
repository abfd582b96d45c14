//! Everything there is at one moment, and what must hold of it.

use memwide_aggregator::delivery::{FlushHead, Limits, Order as Offers, Partition};
use memwide_collector::delivery::Numbers;
use memwide_collector::uplink::{Origin, Progress, Uplink};
use memwide_decoder::delivery::Order;
use memwide_model::{BootId, HostId, Source};
use memwide_proto::v1;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

/// A rule that was broken.
pub(crate) type Broken = String;

/// What the world starts as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Sources, all of one partition.
    pub(crate) sources: usize,
    /// Batches of each.
    pub(crate) batches: u64,
    /// Decoders, each with an aggregator of its own that believes it owns the partition.
    pub(crate) paths: usize,
    /// Sinks that believe they own the partition.
    pub(crate) sinks: usize,
    /// Faults that may happen.
    pub(crate) faults: u8,
    /// Whether hours close.
    pub(crate) closes: bool,
}

/// What of a batch reached a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    Samples,
    /// Its counts only, as a loss with a reason.
    Gap,
    /// Nothing: it was committed before. Only an aggregator that does not know what its twin did asks for it.
    Freed,
}

/// A batch of which there is a row (in the tables: all its rows).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    pub(crate) source: usize,
    pub(crate) batch: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Collector {
    pub(crate) numbers: Numbers,
    /// Batches without samples, and whether they say that there are some.
    pub(crate) side: BTreeMap<u64, bool>,
    pub(crate) samples: BTreeSet<u64>,
    pub(crate) next: u64,
    pub(crate) finished: bool,
    /// A batch whose samples were not written when the collector died.
    pub(crate) torn: Option<u64>,
    pub(crate) uplink: Option<(Uplink, u32)>,
}

/// Batches that are snapshots.
pub(crate) const SNAPSHOTS: [u64; 2] = [1, 3];

impl Collector {
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            next: self.next,
            finished: self.finished,
        }
    }

    pub(crate) fn committed(&self) -> bool {
        self.numbers.acked + 1 >= self.next
    }
}

/// What a decoder says to a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ToCollector {
    Welcome(u64),
    Ack(u64),
    Resume(u64),
}

/// A collector's stream in a decoder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) source: usize,
    pub(crate) path: usize,
    /// The collector has gone; what it had sent is still here.
    pub(crate) orphan: bool,
    pub(crate) up: VecDeque<(u64, What)>,
    pub(crate) down: VecDeque<ToCollector>,
    pub(crate) order: Order,
    pub(crate) queue: VecDeque<(u64, What)>,
    /// Its stream to the aggregator.
    pub(crate) pipe: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ToAggregator {
    Open,
    Batch(u64, What),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ToDecoder {
    Opened(u64),
    Committed(u64),
    Resume(u64),
    Refuse,
}

/// A decoder's stream in an aggregator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pipe {
    pub(crate) source: usize,
    pub(crate) path: usize,
    /// The decoder's side is closed; what it had sent may still arrive.
    pub(crate) orphan: bool,
    pub(crate) up: VecDeque<ToAggregator>,
    pub(crate) down: VecDeque<ToDecoder>,
}

/// A partition's cursor in the stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cursor {
    pub(crate) message: v1::Cursor,
    pub(crate) sequence: u64,
}

impl Hash for Cursor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.message.encode_to_vec(), self.sequence).hash(state);
    }
}

/// A flush's cursor and fence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head(pub(crate) FlushHead);

impl Hash for Head {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.cursor.encode_to_vec(), self.0.expected).hash(state);
    }
}

/// What an aggregator has heard of its flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Heard {
    Nothing,
    /// It is in the stream, its cursor at this sequence.
    Taken(u64),
    /// It was refused, or nothing will be heard any more.
    No,
}

/// A flush under way.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Flight {
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
    pub(crate) answer: Heard,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct Aggregator {
    pub(crate) lives: u64,
    pub(crate) partition: Partition,
    pub(crate) rows: Vec<Row>,
    pub(crate) streams: BTreeMap<usize, (u32, Offers)>,
    pub(crate) flight: Option<Flight>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Samples,
    Ledger,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) table: Table,
    pub(crate) rows: Vec<Row>,
}

/// A flush on its way to the server.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Commit {
    pub(crate) path: usize,
    pub(crate) lives: u64,
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct Nats {
    pub(crate) last: u64,
    pub(crate) messages: VecDeque<Message>,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) wire: Vec<Commit>,
    pub(crate) record: v1::BlockRecord,
    pub(crate) revision: u64,
}

/// A block under way in a sink: what is inserted of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) messages: Vec<Message>,
    pub(crate) inserted: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sink {
    /// The record as known, and its revision.
    pub(crate) kept: Option<(v1::BlockRecord, u64)>,
    pub(crate) block: Option<Block>,
    /// Steps of a close that are done.
    pub(crate) closing: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) tokens: BTreeSet<String>,
    /// Rows with their ingest times.
    pub(crate) samples: Vec<(Row, u64)>,
    pub(crate) ledger: Vec<Row>,
    /// Rows of `functions_1h`, with the close they came by.
    pub(crate) functions: Vec<(Row, u64)>,
    pub(crate) closed_through: u64,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct World {
    pub(crate) collectors: Vec<Collector>,
    pub(crate) links: BTreeMap<u32, Link>,
    pub(crate) pipes: BTreeMap<u32, Pipe>,
    pub(crate) aggregators: Vec<Aggregator>,
    pub(crate) nats: Nats,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) store: Store,
    pub(crate) now_s: u64,
    pub(crate) closes: bool,
    pub(crate) faults: u8,
    /// All rows ever committed.
    pub(crate) ever: BTreeSet<(usize, u64)>,
}

const LIMITS: Limits = Limits {
    flush_after_ns: 0,
    flush_bytes: u64::MAX,
    pending_bytes_max: u64::MAX,
};

/// Wall time of everything: nothing is old here.
pub(crate) const WALL_NS: u64 = 1_700_000_000_000_000_000;

pub(crate) fn source(index: usize) -> Source {
    Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch: index as u64 + 1,
    }
}

pub(crate) fn index(source: &Source) -> usize {
    usize::try_from(source.epoch).unwrap() - 1
}

pub(crate) fn origin(index: usize) -> Origin {
    Origin {
        source: source(index),
        hostname: "host".to_owned(),
        kind: "live",
    }
}

impl Aggregator {
    pub(crate) fn start(path: usize, lives: u64, cursor: Option<&Cursor>) -> Self {
        let mut partition = Partition::new(LIMITS, (path as u64) << 32 | lives);
        let sequence = cursor.map_or(0, |cursor| cursor.sequence);
        partition.reload(cursor.map(|cursor| &cursor.message), sequence);
        Self {
            lives,
            partition,
            rows: Vec::new(),
            streams: BTreeMap::new(),
            flight: None,
        }
    }
}

impl World {
    pub(crate) fn new(size: Size) -> Self {
        let collector = || Collector {
            numbers: Numbers::default(),
            side: (1..=size.batches).map(|number| (number, true)).collect(),
            samples: (1..=size.batches).collect(),
            next: size.batches + 1,
            finished: false,
            torn: None,
            uplink: None,
        };
        Self {
            collectors: (0..size.sources).map(|_| collector()).collect(),
            links: BTreeMap::new(),
            pipes: BTreeMap::new(),
            aggregators: (0..size.paths)
                .map(|path| Aggregator::start(path, 0, None))
                .collect(),
            nats: Nats {
                last: 0,
                messages: VecDeque::new(),
                cursor: None,
                wire: Vec::new(),
                record: memwide_aggregator::delivery::plan::fresh(0),
                revision: 0,
            },
            sinks: vec![Sink::default(); size.sinks],
            store: Store::default(),
            now_s: 100,
            closes: size.closes,
            faults: size.faults,
            ever: BTreeSet::new(),
        }
    }

    /// Last batch of a source that the stream's cursor covers.
    pub(crate) fn covered(&self, of: usize) -> u64 {
        let wanted: v1::Source = (&source(of)).into();
        let cursor = self.nats.cursor.as_ref();
        let entry = cursor.and_then(|cursor| {
            let mut entries = cursor.message.sources.iter();
            entries.find(|entry| entry.source.as_ref() == Some(&wanted))
        });
        entry.map_or(0, |entry| entry.through)
    }

    /// What must hold at every moment.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        for (of, collector) in self.collectors.iter().enumerate() {
            let (acked, covered) = (collector.numbers.acked, self.covered(of));
            if acked > covered {
                return Err(format!(
                    "source {of} was told that {acked} is committed, the cursor says {covered}"
                ));
            }
        }
        let once = |name: &str, mut rows: Vec<(usize, u64)>| {
            let all = rows.len();
            rows.sort_unstable();
            rows.dedup();
            if rows.len() == all {
                Ok(())
            } else {
                Err(format!("{name} has a batch twice"))
            }
        };
        let key = |row: &Row| (row.source, row.batch);
        let stored = self.store.samples.iter().map(|(row, _)| key(row));
        once("samples", stored.collect())?;
        once("ledger", self.store.ledger.iter().map(key).collect())?;
        let visible = self
            .store
            .functions
            .iter()
            .filter(|(_, close)| *close <= self.store.closed_through);
        let mut functions: Vec<Row> = visible.map(|(row, _)| *row).collect();
        let mut samples: Vec<Row> = Vec::new();
        for (row, ingested) in &self.store.samples {
            samples.push(*row);
            if *ingested > self.store.closed_through {
                functions.push(*row);
            }
        }
        functions.sort_unstable();
        samples.sort_unstable();
        if functions != samples {
            return Err(format!(
                "functions show {functions:?}, samples are {samples:?}"
            ));
        }
        Ok(())
    }

    /// What must hold when nothing is left to do: every batch that reached a spool is a row or a gap, once.
    pub(crate) fn check_end(&self) -> Result<(), Broken> {
        if !self.sinks.is_empty() && !self.nats.messages.is_empty() {
            return Err("rows stay in the stream".to_owned());
        }
        for (of, collector) in self.collectors.iter().enumerate() {
            if !collector.committed() {
                return Err(format!(
                    "source {of} stands still at {} of {}",
                    collector.numbers.acked,
                    collector.next - 1
                ));
            }
            for number in 1..collector.next {
                let of_batch = |row: &&Row| (row.source, row.batch) == (of, number);
                // What no sink has taken is in the stream.
                let in_stream = |table: Table| {
                    let messages = self.nats.messages.iter();
                    let of_table = messages.filter(move |message| message.table == table);
                    of_table.flat_map(|message| &message.rows)
                };
                let ledger = self.store.ledger.iter().chain(in_stream(Table::Ledger));
                let ledger: Vec<&Row> = ledger.filter(of_batch).collect();
                let waiting = in_stream(Table::Samples).filter(|row| row.what == What::Samples);
                let stored = self.store.samples.iter().map(|(row, _)| row);
                let stored = stored.chain(waiting).filter(of_batch).count();
                let [entry] = ledger[..] else {
                    return Err(format!(
                        "batch {number} of source {of} is {} times in the ledger",
                        ledger.len()
                    ));
                };
                if stored != usize::from(entry.what == What::Samples) {
                    return Err(format!(
                        "batch {number} of source {of}: {stored} rows, the ledger says {:?}",
                        entry.what
                    ));
                }
            }
        }
        Ok(())
    }
}

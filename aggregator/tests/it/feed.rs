//! Sources with known truth, and a decoder's end of the stream.

use std::net::SocketAddr;
use std::time::Duration;

use memwide_model::{
    BootId, Context, HostId, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome,
    Reason, Region, Snoop, Source, Suspect, Tier, Tlb,
};
use memwide_proto::{SCHEMA_VERSION, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use v1::accumulate_client::AccumulateClient;
use v1::aggregator_to_decoder::Message;
use v1::decoder_to_aggregator::Message as Sent;

/// 2026-11-29 00:00:00 UTC and some, within one hour of one day.
pub(crate) const BASE_S: u64 = 1_795_910_400 + 3_600;

/// A source and its batches.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub(crate) source: Source,
    pub(crate) host: String,
    pub(crate) batches: u64,
    pub(crate) rows: u32,
}

/// What the store must hold of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Truth {
    pub(crate) samples: u64,
    pub(crate) period: u64,
    pub(crate) weight: u64,
    pub(crate) remote: u64,
    pub(crate) batches: u64,
}

impl std::ops::AddAssign for Truth {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.period += other.period;
        self.weight += other.weight;
        self.remote += other.remote;
        self.batches += other.batches;
    }
}

/// A number that depends on all of its arguments, for columns that should not compress away.
fn mixed(a: u64, b: u64, c: u64) -> u64 {
    let mut x = a ^ b.rotate_left(21) ^ c.rotate_left(42);
    for _ in 0..3 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x ^ (x >> 31)
}

impl Feed {
    pub(crate) fn new(epoch: u64, batches: u64, rows: u32) -> Self {
        let source = Source {
            host: HostId([epoch.to_le_bytes()[0]; 16]),
            boot: BootId([9; 16]),
            epoch,
        };
        Self {
            source,
            host: format!("host{epoch}"),
            batches,
            rows,
        }
    }

    pub(crate) fn truth(&self) -> Truth {
        let mut truth = Truth {
            batches: self.batches,
            ..Truth::default()
        };
        for number in 1..=self.batches {
            let block = self.batch(number, false).accesses.unwrap();
            truth.samples += u64::from(block.rows);
            truth.period += block.period.iter().sum::<u64>();
            truth.weight += block
                .weight
                .iter()
                .map(|weight| u64::from(*weight))
                .sum::<u64>();
            let remote = |code: &u8| u64::from(*code == Locality::Remote.code());
            truth.remote += block.locality.iter().map(remote).sum::<u64>();
        }
        truth
    }

    /// Batch `number`; `first` of a stream carries definitions and facts.
    pub(crate) fn batch(&self, number: u64, first: bool) -> v1::DecodedBatch {
        let rows = self.rows as usize;
        let closed_ns = (BASE_S + number) * 1_000_000_000;
        let word =
            |row: usize, what: u64| mixed(self.source.epoch, number, (row as u64) << 8 | what);
        let words = |what: u64| (0..rows).map(|row| word(row, what)).collect::<Vec<u64>>();
        let code = |code: u8| vec![code; rows];
        let pick = |what: u64, from: &[u8]| -> Vec<u8> {
            (0..rows)
                .map(|row| from[usize::try_from(word(row, what) % from.len() as u64).unwrap()])
                .collect()
        };
        let accesses = v1::AccessBlock {
            rows: self.rows,
            time_wall_ns: (0..rows as u64)
                .map(|row| closed_ns - 1_000_000_000 + row * 1_000)
                .collect(),
            cpu: (0..self.rows).map(|row| row % 64).collect(),
            pid: (0..self.rows).map(|row| 1_000 + row % 10).collect(),
            tid: (0..self.rows).map(|row| 1_000 + row % 30).collect(),
            comm: (0..self.rows).map(|row| row % 3).collect(),
            event: (0..rows).map(|row| u8::from(row % 2 == 1)).collect(),
            ip: words(1),
            function_id: (0..rows).map(|row| 100 + word(row, 2) % 500).collect(),
            location_id: (0..rows).map(|row| 10_000 + word(row, 2) % 5_000).collect(),
            stack_id: (0..rows).map(|row| word(row, 3) % 2_000).collect(),
            addr: words(4),
            phys_addr: words(5),
            data_id: (0..rows).map(|row| word(row, 6) % 50).collect(),
            data_src: words(7),
            period: (0..rows).map(|row| 1 + word(row, 8) % 1_000).collect(),
            weight: (0..rows)
                .map(|row| u32::try_from(word(row, 9) % 700).unwrap())
                .collect(),
            ins_lat: (0..rows)
                .map(|row| u32::try_from(word(row, 10) % 900).unwrap())
                .collect(),
            retire_lat: vec![0; rows],
            page_shift: code(12),
            op: pick(11, &[Op::Load.code(), Op::Store.code()]),
            level: pick(12, &[Level::L1.code(), Level::L3.code(), Level::Ram.code()]),
            outcome: code(Outcome::Hit.code()),
            snoop: pick(13, &[Snoop::None.code(), Snoop::HitM.code()]),
            tlb: pick(14, &[Tlb::L1Hit.code(), Tlb::Walk.code()]),
            locked: pick(15, &[0, 1]),
            blocked: code(1),
            hw_locality: pick(16, &[1, 2]),
            page_locality: code(Locality::Unknown.code()),
            locality: pick(16, &[1, 2]),
            locality_basis: code(LocalityBasis::Hw.code()),
            region: code(Region::Heap.code()),
            context: code(Context::User.code()),
            workload: vec![0; rows],
            page_node: code(255),
            suspect: pick(17, &[Suspect::None.code(), Suspect::Saturated.code()]),
            mem_region: pick(18, &[MemRegion::Unknown.code(), MemRegion::Mmio.code()]),
            strings: ["main", "worker", "io"].map(str::to_owned).to_vec(),
            events: vec![11, 12],
            workloads: vec![7],
        };
        let half = u64::from(self.rows) / 2;
        let entry = |event_id, records| v1::LedgerEntry {
            event_id,
            reason: Reason::Produced.code().into(),
            records,
            seconds: 0.0,
        };
        v1::DecodedBatch {
            number,
            closed_wall_ns: closed_ns,
            host: self.host.clone(),
            accesses: Some(accesses),
            definitions: first.then(definitions),
            ledger: vec![entry(11, u64::from(self.rows) - half), entry(12, half)],
            facts: first.then(|| v1::HostFacts {
                hostname: self.host.clone(),
                cpu_desc: "Some CPU".to_owned(),
                kind: "simulated".to_owned(),
                ..v1::HostFacts::default()
            }),
            readings: None,
            decoder_version: "0.1.0+taxonomy.1".to_owned(),
        }
    }
}

fn definitions() -> v1::Definitions {
    let event = |event_id, name: &str| v1::EventDef {
        event_id,
        name: name.to_owned(),
        pmu: "cpu".to_owned(),
        tier: Tier::Precise.code().into(),
        period_mode: "fixed".to_owned(),
        period: 1_000,
        latency_kind: LatencyKind::Use.code().into(),
        ..v1::EventDef::default()
    };
    v1::Definitions {
        functions: (0..500)
            .map(|index| v1::FunctionDef {
                function_id: 100 + index,
                mapping_id: 1,
                start: index * 64,
                name: format!("function_{index}"),
                linkage_name: String::new(),
                rank: 3,
                ..v1::FunctionDef::default()
            })
            .collect(),
        mappings: vec![v1::MappingDef {
            mapping_id: 1,
            identity: Some(v1::MappingIdentity {
                kind: v1::mapping_identity::Kind::BuildId.into(),
                id: vec![0xab; 20],
                path: "/usr/bin/program".to_owned(),
            }),
        }],
        events: vec![event(11, "mem-loads"), event(12, "mem-stores")],
        workloads: vec![v1::Workload {
            workload_id: 7,
            pod: "pod".to_owned(),
            ..v1::Workload::default()
        }],
        ..v1::Definitions::default()
    }
}

/// An open stream to an aggregator.
pub(crate) struct Line {
    out: mpsc::Sender<v1::DecoderToAggregator>,
    answers: Streaming<v1::AggregatorToDecoder>,
}

impl Line {
    /// Opens a stream for `source`; the batch wanted next comes with it.
    pub(crate) async fn open(address: SocketAddr, source: &Source) -> Option<(Self, u64)> {
        let mut client = AccumulateClient::connect(format!("http://{address}"))
            .await
            .ok()?;
        let (out, sent) = mpsc::channel(4);
        let open = v1::Open {
            schema_version: SCHEMA_VERSION,
            source: Some(source.into()),
            hostname: "h".to_owned(),
        };
        out.send(v1::DecoderToAggregator {
            message: Some(Sent::Open(open)),
        })
        .await
        .ok()?;
        let answers = client
            .apply(ReceiverStream::new(sent))
            .await
            .ok()?
            .into_inner();
        let mut line = Self { out, answers };
        match line.answer().await? {
            Message::Opened(opened) => Some((line, opened.next)),
            _ => None,
        }
    }

    pub(crate) async fn send(&self, batch: v1::DecodedBatch) -> bool {
        self.out
            .send(v1::DecoderToAggregator {
                message: Some(Sent::Batch(batch)),
            })
            .await
            .is_ok()
    }

    /// The next answer; `None` when the stream has ended.
    pub(crate) async fn answer(&mut self) -> Option<Message> {
        self.answers.message().await.ok().flatten()?.message
    }
}

/// Sends a feed as a decoder does, through any of `addresses`, until all of it is committed.
pub(crate) async fn deliver(addresses: &[SocketAddr], feed: &Feed) {
    for turn in 0.. {
        let address = addresses[turn % addresses.len()];
        let Some((mut line, mut next)) = Line::open(address, &feed.source).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let mut first = true;
        loop {
            let wants = next <= feed.batches;
            let sending = async {
                if wants {
                    line.out.reserve().await.map_err(|_| ())
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                biased;
                answer = line.answers.message() => match answer.ok().flatten().and_then(|answer| answer.message) {
                    Some(Message::Committed(committed)) if committed.through >= feed.batches => return,
                    Some(Message::Resume(resume)) => (next, first) = (resume.from, true),
                    Some(Message::Committed(_) | Message::Opened(_)) => {}
                    Some(Message::Refuse(_)) | None => break,
                },
                permit = sending => {
                    let Ok(permit) = permit else { break };
                    permit.send(v1::DecoderToAggregator { message: Some(Sent::Batch(feed.batch(next, first))) });
                    (next, first) = (next + 1, false);
                }
            }
        }
    }
}

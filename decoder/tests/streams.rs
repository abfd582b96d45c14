//! Collector streams against the real server and an aggregator that does as the test says, all over loopback gRPC.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper of a test fails the test"
)]

use memwide_decoder::{Config, serve};
use memwide_model::Reason;
use memwide_objects::{
    Flags, Segments, Source as SymbolSource, Symbol, SymbolTable, Symbols, SymbolsBuilder,
};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, FileId, Mmap2, Record, SampleFields, SampleId, SampleLayout,
    encode, misc, sample,
};
use memwide_proto::v1::accumulate_server::{Accumulate, AccumulateServer};
use memwide_proto::v1::aggregator_to_decoder::Message as FromAggregator;
use memwide_proto::v1::collector_message::Message as ToDecoder;
use memwide_proto::v1::decoder_message::Message as FromDecoder;
use memwide_proto::v1::decoder_to_aggregator::Message as ToAggregator;
use memwide_proto::v1::ingest_client::IngestClient;
use memwide_proto::{SCHEMA_VERSION, v1};
use memwide_service::CancellationToken;
use prost::Message as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use xxhash_rust::xxh3::xxh3_64;

/// Nothing here takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

/// One stream of a decoder, as the aggregator sees it.
struct Conn {
    hostname: String,
    batches: mpsc::Receiver<v1::DecodedBatch>,
    answers: mpsc::Sender<Result<v1::AggregatorToDecoder, Status>>,
}

impl Conn {
    async fn batch(&mut self) -> v1::DecodedBatch {
        let batch = within("a decoded batch", self.batches.recv()).await;
        batch.expect("the decoder closed its stream")
    }

    async fn answer(&self, message: FromAggregator) {
        let message = Some(message);
        let answer = v1::AggregatorToDecoder { message };
        self.answers.send(Ok(answer)).await.unwrap();
    }
}

struct Fake {
    conns: mpsc::Sender<Conn>,
    next: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Accumulate for Fake {
    type ApplyStream = ReceiverStream<Result<v1::AggregatorToDecoder, Status>>;

    async fn apply(
        &self,
        request: Request<Streaming<v1::DecoderToAggregator>>,
    ) -> Result<Response<Self::ApplyStream>, Status> {
        let mut inbound = request.into_inner();
        let (answers, out) = mpsc::channel(8);
        let (batches_in, batches) = mpsc::channel(8);
        let (conns, next) = (self.conns.clone(), Arc::clone(&self.next));
        tokio::spawn(async move {
            let first = inbound.message().await.unwrap().unwrap();
            let Some(ToAggregator::Open(open)) = first.message else {
                panic!("the first message is not `open`: {first:?}");
            };
            let conn = Conn {
                hostname: open.hostname,
                batches,
                answers,
            };
            let next = next.load(Ordering::SeqCst);
            conn.answer(FromAggregator::Opened(v1::Opened { next }))
                .await;
            conns.send(conn).await.unwrap();
            while let Ok(Some(message)) = inbound.message().await {
                if let Some(ToAggregator::Batch(batch)) = message.message
                    && batches_in.send(batch).await.is_err()
                {
                    return; // the test let go of the stream: it ends
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }
}

/// A decoder and its aggregator.
struct World {
    url: String,
    conns: mpsc::Receiver<Conn>,
    next: Arc<AtomicU64>,
    stop: CancellationToken,
    served: Option<tokio::task::JoinHandle<Result<(), memwide_decoder::ServeError>>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start(config: Config) -> Self {
        let (conns_in, conns) = mpsc::channel(8);
        let next = Arc::new(AtomicU64::new(1));
        let fake = Fake {
            conns: conns_in,
            next: Arc::clone(&next),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let aggregator = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let until = stop.clone();
        tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(AccumulateServer::new(fake))
                .serve_with_incoming_shutdown(TcpListenerStream::new(listener), until.cancelled())
                .await
                .unwrap();
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config {
            aggregators: vec![aggregator],
            ..config
        };
        let served = Some(tokio::spawn(serve(config, listener, stop.clone())));
        Self {
            url,
            conns,
            next,
            stop,
            served,
        }
    }

    async fn conn(&mut self) -> Conn {
        let conn = within("the decoder's stream", self.conns.recv()).await;
        conn.unwrap()
    }

    async fn collector(&self, epoch: u64) -> Collector {
        Collector::connect(&self.url, hello(epoch)).await
    }
}

fn hello(epoch: u64) -> v1::Hello {
    v1::Hello {
        schema_version: SCHEMA_VERSION,
        source: Some(v1::Source {
            host_id: vec![1; 16],
            boot_id: vec![2; 16],
            epoch,
        }),
        hostname: "host".into(),
        kind: "live".into(),
        first_unacked: 1,
        next: 2,
        snapshot: 0,
    }
}

struct Collector {
    out: mpsc::Sender<v1::CollectorMessage>,
    answers: Streaming<v1::DecoderMessage>,
}

impl Collector {
    async fn connect(url: &str, hello: v1::Hello) -> Self {
        let mut client = IngestClient::connect(url.to_owned()).await.unwrap();
        let (out, messages) = mpsc::channel(8);
        let message = Some(ToDecoder::Hello(hello));
        out.send(v1::CollectorMessage { message }).await.unwrap();
        let answers = client.collect(ReceiverStream::new(messages)).await.unwrap();
        Self {
            out,
            answers: answers.into_inner(),
        }
    }

    async fn send(&self, message: ToDecoder) {
        let message = Some(message);
        self.out
            .send(v1::CollectorMessage { message })
            .await
            .unwrap();
    }

    async fn batch(&self, number: u64) {
        self.send(ToDecoder::Batch(batch(number))).await;
    }

    async fn answer(&mut self) -> FromDecoder {
        let answer = within("an answer of the decoder", self.answers.message()).await;
        answer
            .unwrap()
            .expect("the decoder closed the stream")
            .message
            .unwrap()
    }

    async fn welcome(&mut self) -> v1::Welcome {
        match self.answer().await {
            FromDecoder::Welcome(welcome) => welcome,
            other => panic!("not a welcome: {other:?}"),
        }
    }

    async fn resumed_from(&mut self) -> u64 {
        match self.answer().await {
            FromDecoder::Resume(resume) => resume.from,
            other => panic!("not a resume: {other:?}"),
        }
    }

    async fn refused(&mut self) -> v1::Refuse {
        match self.answer().await {
            FromDecoder::Refuse(refuse) => refuse,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    async fn asked(&mut self) -> v1::SymbolRequest {
        match self.answer().await {
            FromDecoder::Symbols(request) => request,
            other => panic!("not a request for symbols: {other:?}"),
        }
    }
}

fn attr() -> Attr {
    let fields = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::PERIOD;
    Attr {
        sample_type: fields,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

fn section(raw: Vec<u8>, records: u32) -> v1::Section {
    v1::Section {
        encoding: v1::section::Encoding::Raw.into(),
        raw_bytes: raw.len() as u64,
        records,
        checksum: xxh3_64(&raw),
        data: raw.into(),
    }
}

/// Batch 1 says what there is; each batch has one sample of `/bin/prog`.
fn batch(number: u64) -> v1::Batch {
    let layout = SampleLayout::new(&attr()).unwrap();
    let mut raw = Vec::new();
    let fields = SampleFields {
        id: 7,
        ip: 0x40_0110,
        pid: 10,
        tid: 10,
        time: 1_000 * number,
        period: 1,
        ..SampleFields::default()
    };
    encode::sample(&mut raw, &fields, misc::USER, &layout).unwrap();
    let mut batch = v1::Batch {
        number,
        closed_wall_ns: 1_000_000 * number,
        samples: Some(section(raw, 1)),
        counts: vec![v1::EventCount {
            produced: 1,
            ..v1::EventCount::default()
        }],
        ..v1::Batch::default()
    };
    if number == 1 {
        batch.events = vec![v1::EventDesc {
            name: "cpu-clock".into(),
            attr: attr().encode(144),
            ids: vec![7],
            tier: "software".into(),
            ..v1::EventDesc::default()
        }];
        batch.side_band = Some(side_band(&layout));
    }
    batch
}

fn side_band(layout: &SampleLayout) -> v1::Section {
    let comm = Record::Comm(Comm {
        pid: 10,
        tid: 10,
        comm: b"prog",
        exec: true,
    });
    let mmap = Record::Mmap2(Mmap2 {
        pid: 10,
        tid: 10,
        addr: 0x40_0000,
        len: 0x1000,
        pgoff: 0,
        file: FileId::BuildId(BuildId::new([5; 20], 20)),
        prot: 5,
        flags: 2,
        filename: b"/bin/prog",
        data: false,
    });
    let mut raw = Vec::new();
    for (time, record) in [(1, comm), (2, mmap)] {
        let id = SampleId {
            time: Some(time),
            id: Some(7),
            ..SampleId::default()
        };
        encode::record(&mut raw, &record, misc::USER, Some((layout.trailer(), &id))).unwrap();
    }
    section(raw, 2)
}

fn table() -> Vec<u8> {
    let mut builder = SymbolsBuilder::default();
    builder.push(Symbol {
        start: 0x100,
        size: 0x40,
        name: "work",
        source: SymbolSource::SymTab,
        flags: Flags::NONE,
    });
    SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default()).encode()
}

/// Does not wait for symbols.
fn hurried() -> Config {
    Config {
        symbol_wait_ms: 0,
        ..Config::default()
    }
}

fn names(batch: &v1::DecodedBatch) -> Vec<&str> {
    let functions = batch.definitions.iter().flat_map(|all| &all.functions);
    functions.map(|function| function.name.as_str()).collect()
}

/// A collector and the aggregator's end of its stream.
async fn open(world: &mut World, epoch: u64) -> (Collector, Conn) {
    let mut collector = world.collector(epoch).await;
    let conn = world.conn().await;
    let welcome = collector.welcome().await;
    assert_eq!(welcome.next, world.next.load(Ordering::SeqCst));
    assert!(welcome.credit.unwrap().unacked_bytes_max > 0);
    (collector, conn)
}

#[tokio::test]
async fn a_batch_is_decoded_and_acked_when_it_is_committed() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    assert_eq!(conn.hostname, "host");
    collector.batch(1).await;
    let decoded = conn.batch().await;
    let block = decoded.accesses.unwrap();
    assert_eq!((decoded.number, block.rows), (1, 1));
    assert_eq!(block.strings, ["prog"]);
    conn.answer(FromAggregator::Committed(v1::Committed { through: 1 }))
        .await;
    assert_eq!(
        collector.answer().await,
        FromDecoder::Ack(v1::Ack { through: 1 })
    );
}

#[tokio::test]
async fn a_batch_waits_for_symbols_that_are_shipped_once_for_all_sources() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        symbol_dir: folder.path().to_owned(),
        symbol_wait_ms: 60_000,
        ..Config::default()
    };
    let mut world = World::start(config.clone()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await;
    assert_eq!(
        (request.pid, request.start, request.end),
        (10, 0x40_0000, 0x40_1000)
    );
    let whole = table();
    for (offset, data) in [(0, &whole[..10]), (10, &whole[10..])] {
        collector
            .send(ToDecoder::Symbols(v1::SymbolChunk {
                request: request.request,
                total_bytes: whole.len() as u64,
                offset,
                data: data.to_vec().into(),
                checksum: xxh3_64(&whole),
                identity: request.identity.clone(),
                ..v1::SymbolChunk::default()
            }))
            .await;
    }
    assert_eq!(names(&conn.batch().await), ["work"]);
    // Another source of the same process, and one of the next process: nobody is asked again.
    let (other, mut conn) = open(&mut world, 2).await;
    other.batch(1).await;
    assert_eq!(names(&conn.batch().await), ["work"]);
    let mut next = World::start(config).await;
    let (third, mut conn) = open(&mut next, 3).await;
    third.batch(1).await;
    assert_eq!(names(&conn.batch().await), ["work"]);
}

#[tokio::test]
async fn a_batch_goes_on_without_symbols_that_are_not_to_be_had() {
    let config = Config {
        symbol_wait_ms: 60_000,
        ..Config::default()
    };
    let mut world = World::start(config).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await.request;
    let unavailable = "the file is gone".to_owned();
    collector
        .send(ToDecoder::Symbols(v1::SymbolChunk {
            request,
            unavailable,
            ..v1::SymbolChunk::default()
        }))
        .await;
    assert_eq!(names(&conn.batch().await), [""]);
}

#[tokio::test]
async fn an_aggregator_that_comes_back_gets_what_it_lacks_the_same_again() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    collector.batch(2).await;
    let first = conn.batch().await;
    let second = conn.batch().await;
    assert_eq!(second.definitions, None, "sent once on a stream");
    // Batch 1 was committed, batch 2 was not.
    world.next.store(2, Ordering::SeqCst);
    drop(conn);
    let mut conn = world.conn().await;
    assert_eq!(collector.resumed_from().await, 2);
    collector.batch(2).await;
    let again = conn.batch().await;
    assert_eq!(again.accesses, second.accesses);
    assert_eq!(again.ledger, second.ledger);
    assert_eq!(
        names(&again),
        names(&first),
        "a new stream needs the definitions"
    );
}

#[tokio::test]
async fn an_aggregator_that_starts_over_gets_the_same_bytes() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    for number in 1..=3 {
        collector.batch(number).await;
    }
    let mut sent = Vec::new();
    for _ in 1..=3 {
        sent.push(conn.batch().await.encode_to_vec());
    }
    conn.answer(FromAggregator::Resume(v1::Resume { from: 1 }))
        .await;
    assert_eq!(collector.resumed_from().await, 1);
    for number in 1..=3_u64 {
        collector.batch(number).await;
        let at = usize::try_from(number).unwrap() - 1;
        assert_eq!(
            conn.batch().await.encode_to_vec(),
            sent[at],
            "batch {number}"
        );
    }
}

#[tokio::test]
async fn a_repeated_batch_is_passed_over_and_a_missing_one_asked_for() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    for number in [1, 1, 3] {
        collector.batch(number).await;
    }
    assert_eq!(collector.resumed_from().await, 2);
    for number in [4, 2, 3] {
        collector.batch(number).await;
    }
    for number in [1, 2, 3] {
        assert_eq!(conn.batch().await.number, number);
    }
}

#[tokio::test]
async fn the_newer_of_two_streams_of_a_source_wins() {
    let mut world = World::start(hurried()).await;
    let (mut older, mut conn) = open(&mut world, 1).await;
    older.batch(1).await;
    conn.batch().await;
    world.next.store(2, Ordering::SeqCst);
    let mut newer = world.collector(1).await;
    let refusal = older.refused().await;
    assert_eq!((refusal.reason.as_str(), refusal.retry), ("busy", true));
    let mut conn = world.conn().await;
    let welcome = newer.welcome().await;
    assert_eq!(
        (welcome.next, welcome.side_band_through),
        (2, 1),
        "the state outlives the stream"
    );
    newer.batch(2).await;
    assert_eq!(conn.batch().await.number, 2);
}

#[tokio::test]
async fn a_decoder_that_knows_nothing_takes_the_history_first() {
    let mut world = World::start(hurried()).await;
    world.next.store(3, Ordering::SeqCst);
    let (collector, mut conn) = open(&mut world, 1).await;
    for number in [1, 2] {
        let mut history = batch(number);
        history.samples = None;
        let batch = Some(history);
        collector
            .send(ToDecoder::SideBand(v1::SideBandBatch { batch }))
            .await;
    }
    collector.batch(3).await;
    let decoded = conn.batch().await;
    assert_eq!(decoded.number, 3);
    assert_eq!(decoded.accesses.unwrap().strings, ["prog"]);
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_counted_and_does_not_block() {
    let mut world = World::start(hurried()).await;
    let (collector, mut conn) = open(&mut world, 1).await;
    let mut damaged = batch(1);
    damaged.samples.as_mut().unwrap().checksum ^= 1;
    collector.send(ToDecoder::Batch(damaged)).await;
    collector.batch(2).await;
    let decoded = conn.batch().await;
    let reason = u32::from(Reason::Undecodable.code());
    let lost = decoded.ledger.iter().find(|entry| entry.reason == reason);
    assert_eq!(
        (decoded.number, lost.map(|entry| entry.records)),
        (1, Some(1))
    );
    assert_eq!(conn.batch().await.accesses.unwrap().rows, 1);
}

#[tokio::test]
async fn what_is_no_collector_is_refused_with_a_reason() {
    let world = World::start(hurried()).await;
    let newer = v1::Hello {
        schema_version: SCHEMA_VERSION + 1,
        ..hello(1)
    };
    let nobody = v1::Hello {
        source: None,
        ..hello(1)
    };
    for (hello, reason) in [(newer, "schema"), (nobody, "source")] {
        let mut collector = Collector::connect(&world.url, hello).await;
        assert_eq!(collector.refused().await.reason, reason);
    }
}

#[tokio::test]
async fn a_stop_ends_open_streams_and_the_server_well() {
    let mut world = World::start(hurried()).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    conn.batch().await;
    world.stop.cancel();
    let served = world.served.take().unwrap();
    within("the end of the server", served)
        .await
        .unwrap()
        .unwrap();
    let ended = within("the end of the stream", collector.answers.message()).await;
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
}

#[tokio::test]
async fn a_configuration_without_sense_is_refused_by_value() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        partitions: 0,
        ..Config::default()
    };
    let refused = serve(config, listener, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("partitions is 0"), "{refused}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        symbol_dir: PathBuf::from("/proc/none/symbols"),
        ..Config::default()
    };
    let refused = serve(config, listener, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("symbol_dir"), "{refused}");
}

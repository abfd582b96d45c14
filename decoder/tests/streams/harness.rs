//! A test collector, a fake aggregator over real gRPC, and the decoder between them.

use memwide_decoder::{Config, serve};
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

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

/// One stream of a decoder, as the aggregator sees it.
pub(crate) struct Conn {
    pub(crate) hostname: String,
    pub(crate) batches: mpsc::Receiver<v1::DecodedBatch>,
    pub(crate) answers: mpsc::Sender<Result<v1::AggregatorToDecoder, Status>>,
}

impl Conn {
    pub(crate) async fn batch(&mut self) -> v1::DecodedBatch {
        let batch = within("a decoded batch", self.batches.recv()).await;
        batch.expect("the decoder closed its stream")
    }

    pub(crate) async fn answer(&self, message: FromAggregator) {
        let message = Some(message);
        let answer = v1::AggregatorToDecoder { message };
        self.answers.send(Ok(answer)).await.unwrap();
    }
}

pub(crate) struct Fake {
    pub(crate) conns: mpsc::Sender<Conn>,
    pub(crate) next: Arc<AtomicU64>,
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
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) conns: mpsc::Receiver<Conn>,
    pub(crate) next: Arc<AtomicU64>,
    pub(crate) stop: CancellationToken,
    pub(crate) served: Option<tokio::task::JoinHandle<Result<(), memwide_decoder::ServeError>>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub(crate) async fn start(config: Config) -> Self {
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

    pub(crate) async fn conn(&mut self) -> Conn {
        let conn = within("the decoder's stream", self.conns.recv()).await;
        conn.unwrap()
    }

    pub(crate) async fn collector(&self, epoch: u64) -> Collector {
        Collector::connect(&self.url, hello(epoch)).await
    }
}

pub(crate) fn hello(epoch: u64) -> v1::Hello {
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
        ..v1::Hello::default()
    }
}

pub(crate) struct Collector {
    pub(crate) out: mpsc::Sender<v1::CollectorMessage>,
    pub(crate) answers: Streaming<v1::DecoderMessage>,
}

impl Collector {
    pub(crate) async fn connect(url: &str, hello: v1::Hello) -> Self {
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

    pub(crate) async fn send(&self, message: ToDecoder) {
        let message = Some(message);
        self.out
            .send(v1::CollectorMessage { message })
            .await
            .unwrap();
    }

    pub(crate) async fn batch(&self, number: u64) {
        self.send(ToDecoder::Batch(batch(number))).await;
    }

    pub(crate) async fn answer(&mut self) -> FromDecoder {
        let answer = within("an answer of the decoder", self.answers.message()).await;
        answer
            .unwrap()
            .expect("the decoder closed the stream")
            .message
            .unwrap()
    }

    pub(crate) async fn welcome(&mut self) -> v1::Welcome {
        match self.answer().await {
            FromDecoder::Welcome(welcome) => welcome,
            other => panic!("not a welcome: {other:?}"),
        }
    }

    pub(crate) async fn resumed_from(&mut self) -> u64 {
        match self.answer().await {
            FromDecoder::Resume(resume) => resume.from,
            other => panic!("not a resume: {other:?}"),
        }
    }

    pub(crate) async fn refused(&mut self) -> v1::Refuse {
        match self.answer().await {
            FromDecoder::Refuse(refuse) => refuse,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    pub(crate) async fn asked(&mut self) -> v1::SymbolRequest {
        match self.answer().await {
            FromDecoder::Symbols(request) => request,
            other => panic!("not a request for symbols: {other:?}"),
        }
    }
}

pub(crate) fn attr() -> Attr {
    let fields = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::PERIOD;
    Attr {
        sample_type: fields,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

pub(crate) fn section(raw: Vec<u8>, records: u32) -> v1::Section {
    v1::Section {
        encoding: v1::section::Encoding::Raw.into(),
        raw_bytes: raw.len() as u64,
        records,
        checksum: xxh3_64(&raw),
        data: raw.into(),
    }
}

/// Batch 1 says what there is; each batch has one sample of `/bin/prog`.
pub(crate) fn batch(number: u64) -> v1::Batch {
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

pub(crate) fn side_band(layout: &SampleLayout) -> v1::Section {
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

pub(crate) fn table() -> Vec<u8> {
    named("work", SymbolSource::SymTab).encode()
}

/// The table of `/bin/prog`, with this name for the function that samples hit.
pub(crate) fn named(name: &str, source: SymbolSource) -> SymbolTable {
    let mut builder = SymbolsBuilder::default();
    builder.push(Symbol {
        start: 0x100,
        size: 0x40,
        name,
        source,
        flags: Flags::NONE,
    });
    SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
}

/// Does not wait for symbols.
pub(crate) fn hurried() -> Config {
    Config {
        symbol_wait_ms: 0,
        ..Config::default()
    }
}

pub(crate) fn names(batch: &v1::DecodedBatch) -> Vec<&str> {
    let functions = batch.definitions.iter().flat_map(|all| &all.functions);
    functions.map(|function| function.name.as_str()).collect()
}

/// A collector and the aggregator's end of its stream.
pub(crate) async fn open(world: &mut World, epoch: u64) -> (Collector, Conn) {
    let mut collector = world.collector(epoch).await;
    let conn = world.conn().await;
    let welcome = collector.welcome().await;
    assert_eq!(welcome.next, world.next.load(Ordering::SeqCst));
    assert!(welcome.credit.unwrap().unacked_bytes_max > 0);
    (collector, conn)
}

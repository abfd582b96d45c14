//! A decoder that only keeps what it gets: batches in order, once each, as an aggregator would.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use memwide_proto::v1::ingest_server::{Ingest, IngestServer};
use memwide_proto::v1::{
    Ack, Batch, Boost, CollectorMessage, ConfigReport, Configure, Credit, DecoderMessage, Hello,
    Refuse, Resume, Section, SymbolChunk, SymbolRequest, Welcome, collector_message,
    decoder_message, section,
};
use memwide_service::{CancellationToken, grpc};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// HTTP/2 window of a stream, as a decoder has it.
const WINDOW_BYTES: u32 = 2 << 20;

/// How it behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    /// Acks only every so many batches.
    pub(crate) ack_every: u64,
    /// Breaks each stream after so many batches.
    pub(crate) break_after: Option<u64>,
    /// Forgets this many uncommitted batches when a stream breaks, as a killed pipeline does.
    pub(crate) forgets: bool,
    /// Asks once to go back to the last ack after so many batches.
    pub(crate) resume_after: Option<u64>,
    pub(crate) credit: u64,
    /// The last batch, acked whatever its number.
    pub(crate) last: Option<u64>,
    /// Refuses every source.
    pub(crate) refuse: Option<Refuse>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            ack_every: 1,
            break_after: None,
            forgets: false,
            resume_after: None,
            credit: 32 << 20,
            last: None,
            refuse: None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) hellos: Vec<Hello>,
    /// By epoch, applied in order.
    pub(crate) batches: HashMap<u64, Vec<Batch>>,
    pub(crate) history: Vec<Batch>,
    pub(crate) symbols: Vec<SymbolChunk>,
    /// Numbers that came although they were applied before.
    pub(crate) repeated: u64,
    committed: HashMap<u64, u64>,
    requests: Vec<SymbolRequest>,
    /// What each stream is told at its welcome, and running ones with the next answer.
    settings: Option<Configure>,
    unsaid: Vec<Configure>,
    pub(crate) reports: Vec<ConfigReport>,
    resumed: bool,
}

impl Got {
    /// Answers to a batch that was just applied.
    fn applied(
        &mut self,
        epoch: u64,
        number: u64,
        manners: &Manners,
    ) -> Option<decoder_message::Message> {
        if manners.resume_after == Some(number) && !self.resumed {
            self.resumed = true;
            let through = self.committed.get(&epoch).copied().unwrap_or(0);
            let kept = usize::try_from(through).unwrap();
            self.batches.entry(epoch).or_default().truncate(kept);
            return Some(decoder_message::Message::Resume(Resume {
                from: through + 1,
            }));
        }
        if !number.is_multiple_of(manners.ack_every) && !manners.ends_with(number) {
            return None;
        }
        self.committed.insert(epoch, number);
        Some(decoder_message::Message::Ack(Ack { through: number }))
    }
}

impl Manners {
    fn ends_with(&self, number: u64) -> bool {
        self.last == Some(number)
    }
}

#[derive(Clone)]
pub(crate) struct Decoder {
    got: Arc<Mutex<Got>>,
    manners: Arc<Mutex<Manners>>,
    stop: CancellationToken,
}

pub(crate) struct Running {
    pub(crate) endpoint: String,
    pub(crate) decoder: Decoder,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Running {
    pub(crate) async fn start(manners: Manners) -> Self {
        let decoder = Decoder {
            got: Arc::default(),
            manners: Arc::new(Mutex::new(manners)),
            stop: CancellationToken::new(),
        };
        Self::serve(decoder, "127.0.0.1:0".parse().unwrap()).await
    }

    async fn serve(decoder: Decoder, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let decoder = Decoder {
            stop: stop.clone(),
            ..decoder
        };
        let service = IngestServer::new(decoder.clone()).max_decoding_message_size(32 << 20);
        let serving = grpc::serve(listener, Routes::new(service), WINDOW_BYTES, stop.clone());
        tokio::spawn(serving);
        Self {
            endpoint: format!("http://{address}"),
            decoder,
            address,
            stop,
        }
    }

    /// Ends the server; what it got is kept.
    pub(crate) async fn stop(self) -> (Decoder, SocketAddr) {
        self.stop.cancel();
        tokio::time::sleep(Duration::from_millis(20)).await;
        (self.decoder, self.address)
    }

    /// Serves again at the same address.
    pub(crate) async fn again((decoder, address): (Decoder, SocketAddr)) -> Self {
        Self::serve(decoder, address).await
    }

    pub(crate) fn got(&self) -> MutexGuard<'_, Got> {
        self.decoder.got.lock().unwrap()
    }

    pub(crate) fn ask(&self, request: SymbolRequest) {
        self.got().requests.push(request);
    }

    /// Pushes settings to the stream that is open and to those that come.
    pub(crate) fn push(&self, version: u64, toml: &str) {
        let settings = Configure {
            version,
            toml: toml.to_owned(),
            ..Configure::default()
        };
        let mut got = self.got();
        got.settings = Some(settings.clone());
        got.unsaid.push(settings);
    }

    /// Asks the stream that is open for shorter periods.
    pub(crate) fn boost(&self, boost: Boost) {
        self.got().unsaid.push(Configure {
            boost: Some(boost),
            ..Configure::default()
        });
    }

    /// Waits until `holds`, for at most a minute.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Got) -> bool) {
        for _ in 0..6_000 {
            if holds(&self.got()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not within a minute: {what}");
    }
}

#[tonic::async_trait]
impl Ingest for Decoder {
    type CollectStream = ReceiverStream<Result<DecoderMessage, Status>>;

    async fn collect(
        &self,
        request: Request<Streaming<CollectorMessage>>,
    ) -> Result<Response<Self::CollectStream>, Status> {
        let (send, receive) = mpsc::channel(64);
        let decoder = self.clone();
        tokio::spawn(async move {
            let mut incoming = request.into_inner();
            let stop = decoder.stop.clone();
            tokio::select! {
                () = decoder.converse(&mut incoming, &send) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(receive)))
    }
}

impl Decoder {
    async fn converse(
        &self,
        incoming: &mut Streaming<CollectorMessage>,
        send: &mpsc::Sender<Result<DecoderMessage, Status>>,
    ) {
        let manners = self.manners.lock().unwrap().clone();
        let mut epoch = 0;
        let mut taken = 0;
        while let Ok(Some(message)) = incoming.message().await {
            let answers = self.take(message.message.unwrap(), &manners, &mut epoch, &mut taken);
            for message in answers {
                if send
                    .send(Ok(DecoderMessage {
                        message: Some(message),
                    }))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            if manners.break_after.is_some_and(|most| taken >= most) {
                break;
            }
        }
        if manners.forgets {
            let mut got = self.got.lock().unwrap();
            let through = got.committed.get(&epoch).copied().unwrap_or(0);
            let kept = usize::try_from(through).unwrap();
            got.batches.entry(epoch).or_default().truncate(kept);
        }
    }

    fn take(
        &self,
        message: collector_message::Message,
        manners: &Manners,
        epoch: &mut u64,
        taken: &mut u64,
    ) -> Vec<decoder_message::Message> {
        use collector_message::Message as In;
        use decoder_message::Message as Out;
        let mut got = self.got.lock().unwrap();
        let mut answers = Vec::new();
        match message {
            In::Hello(hello) => {
                *epoch = hello.source.as_ref().unwrap().epoch;
                got.hellos.push(hello);
                if let Some(refuse) = &manners.refuse {
                    return vec![Out::Refuse(refuse.clone())];
                }
                let through = got.committed.get(epoch).copied().unwrap_or(0);
                let kept = usize::try_from(through).unwrap();
                got.batches.entry(*epoch).or_default().truncate(kept);
                answers.push(Out::Welcome(Welcome {
                    next: through + 1,
                    side_band_through: 0,
                    credit: Some(Credit {
                        unacked_bytes_max: manners.credit,
                    }),
                    configure: got.settings.clone(),
                }));
                if through > 0 {
                    answers.push(Out::Ack(Ack { through }));
                }
            }
            In::SideBand(batch) => got.history.push(batch.batch.unwrap()),
            In::Batch(batch) => {
                *taken += 1;
                let number = batch.number;
                let applied = got.batches.entry(*epoch).or_default();
                let next = applied.len() as u64 + 1;
                match number.cmp(&next) {
                    Ordering::Greater => answers.push(Out::Resume(Resume { from: next })),
                    Ordering::Less => got.repeated += 1,
                    Ordering::Equal => {
                        applied.push(batch);
                        answers.extend(got.applied(*epoch, number, manners));
                    }
                }
            }
            In::Symbols(chunk) => got.symbols.push(chunk),
            In::Config(report) => got.reports.push(report),
        }
        answers.extend(got.requests.drain(..).map(Out::Symbols));
        answers.extend(got.unsaid.drain(..).map(Out::Configure));
        answers
    }
}

/// Unpacks a section and checks what it says of itself.
pub(crate) fn unpack(section: &Section) -> Vec<u8> {
    let raw_bytes = usize::try_from(section.raw_bytes).unwrap();
    if raw_bytes == 0 {
        return Vec::new();
    }
    let plain = zstd::bulk::decompress(&section.data, 256 << 20).unwrap();
    let raw = match section.encoding() {
        section::Encoding::WordDeltaZstd => {
            let mut raw = Vec::new();
            memwide_perf_abi::pack::unpack(&plain, raw_bytes, &mut raw).unwrap();
            raw
        }
        _ => plain,
    };
    assert_eq!(raw.len(), raw_bytes);
    assert_eq!(xxhash_rust::xxh3::xxh3_64(&raw), section.checksum);
    raw
}

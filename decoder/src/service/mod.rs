//! The process: `Ingest` for collectors on one side, `Accumulate` of aggregators on the other.
//!
//! ```text
//! collector ─ hello ─▶ stream ─ open ─▶ aggregator     one task a source; the newest stream of a source wins
//!           ◀ welcome ─       ◀ opened ─
//!           ─ batch ──▶ wait for symbols, decode on a worker ─ decoded batch ─▶
//!           ◀ ack, resume ─   ◀ committed, resume ─
//! ```

mod archive;
mod boosts;
mod collectors;
mod config;
mod error;
mod history;
mod job;
mod names;
mod order;
mod parcels;
mod redecode;
mod registry;
mod shelf;
mod stream;
mod tables;
mod upstream;
mod wanted;

pub use config::Config;
pub use error::ServeError;
pub use order::{Order, Place, Tell};
pub use redecode::{Done, RedecodeError, Redecoder};

use crate::archive::Archive;
use boosts::{BoostsService, Hosts};
use collectors::Collectors;
use memwide_proto::{limits, v1};
use memwide_service::run::{Spawner, Tasks};
use memwide_service::{CancellationToken, grpc};
use names::NamesService;
use registry::Registry;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stream::Stream;
use tables::Tables;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use v1::boosts_server::BoostsServer;
use v1::ingest_server::{Ingest, IngestServer};
use v1::names_server::NamesServer;

/// Answers that may wait for a connection; small ones.
const ANSWERS: usize = 64;

/// Between the stop and the end: a batch that is being decoded is given up, its collector still has it.
const GRACE: Duration = Duration::from_secs(5);

/// Pause between two looks at the folder of symbol tables.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// HTTP/2 window of a stream, in bytes: one batch on its way and one behind it.
const WINDOW_BYTES: u32 = 2 << 20;

/// What all streams share.
#[derive(Debug)]
struct Shared {
    config: Config,
    registry: Arc<Registry>,
    tables: Arc<Tables>,
    /// Where raw batches are kept, if they are.
    archive: Option<Arc<Archive>>,
    workers: Arc<Semaphore>,
    /// What collectors are told.
    collectors: Arc<Collectors>,
    hosts: Arc<Hosts>,
    /// Whose turn it is to tell names to what was stored before.
    telling: Semaphore,
    spawner: Spawner,
}

/// Serves `Ingest` on `listener` until `stop` is cancelled.
///
/// Aggregators may come later than this and go away meanwhile: collectors wait, nothing is lost.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    check(&config)?;
    let (folder, bytes_max) = (config.symbol_dir.clone(), config.symbol_bytes_max);
    let opened = tokio::task::spawn_blocking(move || {
        Tables::new(&folder, bytes_max).map_err(|source| ServeError::SymbolDir { folder, source })
    });
    let tables = opened.await.map_err(|error| ServeError::SymbolDir {
        folder: config.symbol_dir.clone(),
        source: std::io::Error::other(error),
    })??;
    let tables = Arc::new(tables);
    let archive = archive::open(&config).await?;
    let tasks = Tasks::new(stop.child_token());
    let registry = Registry::new(config.session_keep(), config.sessions_kept);
    tasks.spawn(
        "symbols",
        watch_tables(
            Arc::clone(&tables),
            Arc::clone(&registry),
            tasks.stop().clone(),
        ),
    );
    if let Some(archive) = archive.clone() {
        let stop = tasks.stop();
        tasks.spawn(
            "archive",
            archive::sweep(Arc::clone(&archive), stop.clone()),
        );
        if archive.goes_up() {
            tasks.spawn("archive going up", archive::put_up(archive, stop.clone()));
        }
    }
    let closed = archive.clone();
    let collectors = Arc::new(Collectors::new(config.collectors_file.clone()));
    tasks.spawn("settings of collectors", {
        let (collectors, stop) = (Arc::clone(&collectors), tasks.stop().clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                () = collectors.follow() => Ok(()),
            }
        }
    });
    let shared = Arc::new(Shared {
        collectors,
        hosts: Arc::default(),
        registry,
        workers: Arc::new(Semaphore::new(config.decoders())),
        tables,
        archive,
        telling: Semaphore::new(1),
        spawner: tasks.spawner(),
        config,
    });
    let names = NamesServer::new(NamesService {
        shared: Arc::clone(&shared),
    })
    .max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
    let boosts = BoostsServer::new(BoostsService {
        shared: Arc::clone(&shared),
    });
    let service = Service { shared };
    let server = IngestServer::new(service)
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);
    let until = tasks.stop().clone();
    tasks.spawn("gRPC", async move {
        grpc::serve(
            listener,
            Routes::new(server).add_service(names).add_service(boosts),
            WINDOW_BYTES,
            until,
        )
        .await
        .map_err(|failure| ServeError::Serve(failure).into())
    });
    let ran = tasks.run(GRACE).await;
    if let Some(archive) = closed.filter(|archive| archive.goes_up()) {
        archive::put_up_rest(archive).await;
    }
    ran.map_err(|failure| failure.into_cause().unwrap_or_else(Into::into))
}

fn check(config: &Config) -> Result<(), ServeError> {
    let wrong = |text: String| Err(ServeError::Config(text));
    if config.partitions == 0 || config.partitions > 1024 {
        return wrong(format!(
            "partitions is {}, 1 to 1024 are possible",
            config.partitions
        ));
    }
    let of = config.aggregators.len();
    if of == 0 || of > usize::from(config.partitions) {
        let most = config.partitions;
        return wrong(format!(
            "{of} aggregators, 1 to {most} (partitions) are possible"
        ));
    }
    archive::check(config)?;
    for url in &config.aggregators {
        if tonic::transport::Endpoint::from_shared(url.clone()).is_err() {
            return wrong(format!(
                "aggregator `{url}` is no URL; write http://host:port"
            ));
        }
    }
    Ok(())
}

/// Looks what other decoders have put on the shelf, says what is used here and lets go of what is not, as long as the process
/// runs.
async fn watch_tables(
    tables: Arc<Tables>,
    registry: Arc<Registry>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let (tables, registry) = (Arc::clone(&tables), Arc::clone(&registry));
        tokio::task::spawn_blocking(move || {
            registry.sweep();
            tables.let_go();
            tables.touch();
            tables.look();
        })
        .await?;
    }
}

struct Service {
    shared: Arc<Shared>,
}

type Answer = Result<v1::DecoderMessage, Status>;

#[tonic::async_trait]
impl Ingest for Service {
    type CollectStream = Pin<Box<dyn tokio_stream::Stream<Item = Answer> + Send>>;

    async fn collect(
        &self,
        request: Request<Streaming<v1::CollectorMessage>>,
    ) -> Result<Response<Self::CollectStream>, Status> {
        let (out, answers) = mpsc::channel(ANSWERS);
        let stream = Stream::new(Arc::clone(&self.shared), request.into_inner(), out);
        let spawner = &self.shared.spawner;
        let stop = spawner.stop().clone();
        spawner.spawn_visitor("collector stream", stream.run(stop));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

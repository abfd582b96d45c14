//! A file as a store of batches: made when asked for, made again when asked for again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memwide_proto::v1::Batch;
use prost::Message as _;
use tokio::sync::watch;

use super::batches::{self, Outline};
use super::{ImportError, ImportOptions};
use crate::uplink::{BatchStore, Origin, Progress, StoreError};

/// Batches made ahead of the one asked for.
const AHEAD: usize = 2;
/// Bytes of unacked batches kept for a resume; older ones are made again.
const KEEP_BYTES: usize = 64 << 20;

/// The store.
#[derive(Debug)]
pub(super) struct Replay {
    path: PathBuf,
    origin: Origin,
    options: ImportOptions,
    outline: Outline,
    inner: Mutex<Inner>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Default)]
struct Inner {
    acked: u64,
    /// Numbers read with their samples.
    sent: std::collections::BTreeSet<u64>,
    kept: BTreeMap<u64, Batch>,
    kept_bytes: usize,
    producer: Option<Producer>,
}

#[derive(Debug)]
struct Producer {
    batches: Receiver<Result<Batch, ImportError>>,
    next: u64,
}

impl Replay {
    pub(super) fn new(
        path: PathBuf,
        origin: Origin,
        options: ImportOptions,
        outline: Outline,
    ) -> Self {
        let progress = Progress {
            next: outline.batches + 1,
            finished: true,
        };
        Self {
            path,
            origin,
            options,
            outline,
            inner: Mutex::default(),
            progress: watch::Sender::new(progress),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest batch that is committed.
    pub(super) fn acked(&self) -> u64 {
        self.lock().acked
    }

    /// Distinct batches that were sent with their samples.
    pub(super) fn sent(&self) -> u64 {
        self.lock().sent.len() as u64
    }

    /// A thread that makes batches from `from` on, until nobody takes them.
    fn produce(&self, from: u64) -> std::io::Result<Producer> {
        let (send, batches) = sync_channel(AHEAD);
        let (path, options, outline) = (
            self.path.clone(),
            self.options.clone(),
            self.outline.clone(),
        );
        let hostname = self.origin.hostname.clone();
        std::thread::Builder::new()
            .name("mw-replay".to_owned())
            .spawn(move || {
                let made =
                    batches::make(
                        &path,
                        &options,
                        &outline,
                        &hostname,
                        from,
                        |batch| match send.send(Ok(batch)) {
                            Ok(()) => ControlFlow::Continue(()),
                            Err(_) => ControlFlow::Break(()),
                        },
                    );
                if let Err(error) = made {
                    // Nobody waits for it when the import was stopped.
                    drop(send.send(Err(error)));
                }
            })?;
        Ok(Producer {
            batches,
            next: from,
        })
    }

    fn get(&self, number: u64) -> Result<Batch, StoreError> {
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Broken {
            what: format!("cannot make batch {number} of {}", self.path.display()),
            source,
        };
        let mut inner = self.lock();
        if let Some(batch) = inner.kept.get(&number) {
            return Ok(batch.clone());
        }
        if inner
            .producer
            .as_ref()
            .is_none_or(|producer| producer.next > number)
        {
            inner.producer = Some(self.produce(number).map_err(|error| broken(error.into()))?);
        }
        loop {
            let Some(producer) = &mut inner.producer else {
                return Err(broken("its thread is gone".into()));
            };
            let Ok(made) = producer.batches.recv() else {
                return Err(broken("the file is shorter than before".into()));
            };
            let batch = made.map_err(|error| broken(error.into()))?;
            producer.next = batch.number + 1;
            if batch.number == number {
                inner.keep(&batch);
                return Ok(batch);
            }
        }
    }
}

impl Inner {
    fn keep(&mut self, batch: &Batch) {
        self.kept_bytes += batch.encoded_len();
        self.kept.insert(batch.number, batch.clone());
        while self.kept_bytes > KEEP_BYTES {
            let Some((_, oldest)) = self.kept.pop_first() else {
                break;
            };
            self.kept_bytes -= oldest.encoded_len();
        }
    }
}

impl BatchStore for Replay {
    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn first_unacked(&self) -> u64 {
        self.lock().acked + 1
    }

    fn snapshot(&self) -> u64 {
        0
    }

    fn read(&self, number: u64) -> Result<Batch, StoreError> {
        let next = self.outline.batches + 1;
        if number == 0 || number >= next {
            return Err(StoreError::Missing { number, next });
        }
        let batch = self.get(number)?;
        self.lock().sent.insert(number);
        Ok(batch)
    }

    fn side_band(&self, number: u64) -> Result<Batch, StoreError> {
        let mut batch = self.get(number)?;
        batch.samples = None;
        Ok(batch)
    }

    fn ack(&self, through: u64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.acked = inner.acked.max(through);
        while let Some(oldest) = inner.kept.first_entry()
            && *oldest.key() <= through
        {
            let bytes = oldest.remove().encoded_len();
            inner.kept_bytes -= bytes;
        }
        Ok(())
    }
}

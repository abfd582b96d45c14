//! A perf.data file as a host.
//!
//! The same file under the same host name is the same source with the same batches, so importing it again changes nothing.
//! Records come in the order perf processes them and leave as they are, with two exceptions, both stated in the events'
//! attrs or the records themselves: mappings whose build id stands in the file's header get it into the record, and
//! records of events without time stamps get one, a nanosecond apart in perf's order.

mod batches;
mod error;
mod events;
mod facts;
mod options;
mod records;
mod store;
mod symbols;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memwide_model::{BootId, ContentHash, HostId, Source};
use memwide_perf_abi::file::PerfFile;
use memwide_service::CancellationToken;
use tokio::sync::watch;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::events::machine::Machine;
use crate::uplink::{self, Observer, Origin, UplinkEvent};
use batches::Outline;
pub use error::ImportError;
pub use options::{ImportOptions, ImportProgress, ImportSummary, ImportedEvent};
use store::Replay;
use symbols::FileSymbols;

/// Bytes hashed at once.
const HASH_BYTES: usize = 1 << 20;

/// A file ready to be sent.
#[derive(Debug)]
pub struct Import {
    path: PathBuf,
    origin: Origin,
    options: ImportOptions,
    outline: Outline,
}

impl Import {
    /// Reads the file once: its events, counts, times, the number of batches.
    pub fn open(path: &Path, options: ImportOptions) -> Result<Self, ImportError> {
        let content = hash(path)?;
        let file = open(path)?;
        let named = options.host.clone().or_else(|| file.features().hostname());
        let stem = || {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        let hostname = named
            .filter(|name| !name.is_empty())
            .or_else(stem)
            .unwrap_or_else(|| "import".to_owned());
        let outline = batches::outline(path, &options)?;
        let epoch = ContentHash::of("import")
            .bytes(&content)
            .bytes(hostname.as_bytes())
            .number(options.again.map_or(0, |again| again | 1 << 63));
        let source = Source {
            host: HostId(xxh3_128(format!("host {hostname}").as_bytes()).to_be_bytes()),
            boot: BootId(content),
            epoch: epoch.finish(),
        };
        Ok(Self {
            path: path.to_owned(),
            origin: Origin {
                source,
                hostname,
                kind: "import",
            },
            options,
            outline,
        })
    }

    /// What it is called in the store.
    pub fn source(&self) -> Source {
        self.origin.source
    }

    /// What will have been done when everything is committed.
    pub fn summary(&self) -> ImportSummary {
        ImportSummary {
            source: self.origin.source,
            host: self.origin.hostname.clone(),
            events: self.outline.events.clone(),
            batches: self.outline.batches,
            batches_known: 0,
            skipped_samples: self.outline.skipped_samples,
            lost: self.outline.lost,
            wall_ns: self.outline.wall_ns,
            cut: self.outline.cut,
            unfinished: self.outline.unfinished,
            records: self.outline.records,
        }
    }

    /// Sends it to the decoder at `endpoint` and waits until all of it is committed. A decoder that moves is followed: when
    /// the endpoint changes, the rest goes to the new one.
    pub async fn run(
        self,
        mut endpoint: watch::Receiver<String>,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Result<ImportSummary, ImportError> {
        let mut summary = self.summary();
        let batches = summary.batches;
        let symbols = Arc::new(FileSymbols::new(
            &self.options,
            &self.path,
            Machine::default(),
        ));
        let store = Arc::new(Replay::new(
            self.path.clone(),
            self.origin,
            self.options,
            self.outline,
        ));
        let told = store.clone();
        let observer: Observer = Arc::new(move |event| {
            let waits = match event {
                UplinkEvent::Disconnected(why) => Some(why),
                UplinkEvent::Connected | UplinkEvent::Acked(_) => None,
            };
            progress(ImportProgress {
                acked: told.acked(),
                batches,
                waits,
            });
        });
        let sent = loop {
            let address = endpoint.borrow_and_update().clone();
            let sending = uplink::run(
                &address,
                store.clone(),
                symbols.clone(),
                observer.clone(),
                stop.clone(),
            );
            tokio::select! {
                sent = sending => break sent,
                Ok(()) = endpoint.changed() => {}
            }
        };
        sent.map_err(|source| ImportError::Uplink {
            path: self.path,
            source,
        })?;
        let acked = store.acked();
        if acked < batches {
            return Err(ImportError::Stopped { acked, batches });
        }
        summary.batches_known = batches - store.sent();
        Ok(summary)
    }
}

fn open(path: &Path) -> Result<PerfFile<BufReader<File>>, ImportError> {
    let file = File::open(path).map_err(ImportError::unreadable(path))?;
    PerfFile::open(BufReader::new(file)).map_err(ImportError::malformed(path))
}

/// Of the whole content.
fn hash(path: &Path) -> Result<[u8; 16], ImportError> {
    let mut file = File::open(path).map_err(ImportError::unreadable(path))?;
    let mut hash = Xxh3::new();
    let mut chunk = vec![0; HASH_BYTES];
    loop {
        let len = file
            .read(&mut chunk)
            .map_err(ImportError::unreadable(path))?;
        if len == 0 {
            return Ok(hash.digest128().to_be_bytes());
        }
        hash.update(chunk.get(..len).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;

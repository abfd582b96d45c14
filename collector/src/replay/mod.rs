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

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memwide_model::{BootId, ContentHash, HostId, Source};
use memwide_perf_abi::file::{PARTS_MAX, PerfFile, part_number};
use memwide_service::CancellationToken;
use tokio::sync::watch;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::events::machine::Machine;
use crate::uplink::{self, NoSettings, Observer, Origin, UplinkEvent};
use batches::Outline;
pub use error::ImportError;
pub use options::{ImportOptions, ImportProgress, ImportSummary, ImportedEvent};
use store::Replay;
use symbols::FileSymbols;

/// Bytes hashed at once.
const HASH_BYTES: usize = 1 << 20;

/// Entries of a directory looked at: twice what a recording may have.
const DIRECTORY_ENTRIES_MAX: usize = 2 * PARTS_MAX;

/// A file, or a directory that `perf record` wrote, ready to be sent.
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
            broken: self.outline.broken,
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
                Arc::new(NoSettings),
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
    let mut files = Vec::new();
    for path in files_of(path).map_err(ImportError::unreadable(path))? {
        let file = File::open(&path).map_err(ImportError::unreadable(&path))?;
        files.push(BufReader::new(file));
    }
    let main = files.remove(0);
    PerfFile::open_parts(main, files).map_err(ImportError::malformed(path))
}

/// The file itself; of a directory that `perf record` wrote `data` and `data.N`, by number. Never empty.
fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut parts = BTreeMap::new();
    for entry in std::fs::read_dir(path)?.take(DIRECTORY_ENTRIES_MAX) {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(part_number)
            && entry.file_type()?.is_file()
        {
            parts.insert(number, entry.path());
        }
    }
    let mut files = vec![path.join("data")];
    files.extend(parts.into_values());
    Ok(files)
}

/// Of the whole content.
fn hash(path: &Path) -> Result<[u8; 16], ImportError> {
    let mut hash = Xxh3::new();
    let mut chunk = vec![0; HASH_BYTES];
    let files = files_of(path).map_err(ImportError::unreadable(path))?;
    let are_several = files.len() > 1;
    for path in files {
        let mut file = File::open(&path).map_err(ImportError::unreadable(&path))?;
        let mut size = 0;
        loop {
            let len = file
                .read(&mut chunk)
                .map_err(ImportError::unreadable(&path))?;
            if len == 0 {
                break;
            }
            size += len as u64;
            hash.update(chunk.get(..len).unwrap_or_default());
        }
        if are_several {
            // Where one ends and the next begins counts, too.
            hash.update(&size.to_le_bytes());
        }
    }
    Ok(hash.digest128().to_be_bytes())
}

#[cfg(test)]
mod tests;

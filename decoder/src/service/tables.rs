//! Symbol tables that were received, for all sessions: in memory while used, on disk so that each is shipped once.

use crate::identity::Kind;
use crate::table::Loaded;
use memwide_model::MappingId;
use memwide_objects::{Limits, SymbolTable};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Indexed tables kept in memory though no session uses them now.
const IDLE_MAX: usize = 64;

/// Both caches. All calls block: they are made off the async threads.
#[derive(Debug)]
pub(super) struct Tables {
    memory: Mutex<HashMap<MappingId, Arc<Loaded>>>,
    folder: Option<PathBuf>,
    bytes_max: u64,
    limits: Limits,
}

/// Where a table was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Memory,
    Disk,
}

impl Tables {
    /// `folder` empty: nothing on disk.
    pub(super) fn new(folder: &Path, bytes_max: u64) -> std::io::Result<Self> {
        let folder = (!folder.as_os_str().is_empty()).then(|| folder.to_owned());
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self {
            memory: Mutex::default(),
            folder,
            bytes_max,
            limits: Limits::default(),
        })
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<MappingId, Arc<Loaded>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, mapping: MappingId) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{mapping}.symbols")))
    }

    /// The table of a mapping, if it was ever received.
    pub(super) fn find(&self, mapping: MappingId, kind: Kind) -> Option<(Arc<Loaded>, Found)> {
        if let Some(loaded) = self.memory().get(&mapping) {
            return Some((Arc::clone(loaded), Found::Memory));
        }
        let path = self.path(mapping)?;
        let bytes = std::fs::read(&path).ok()?;
        match SymbolTable::decode(&bytes, &self.limits) {
            Ok(table) => {
                touch(&path);
                let loaded = Arc::new(Loaded::new(table, mapping, kind));
                self.remember(mapping, &loaded);
                Some((loaded, Found::Disk))
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cached symbol table is damaged; it is removed");
                remove(&path);
                None
            }
        }
    }

    /// Reads what a collector shipped.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<SymbolTable, memwide_objects::WireError> {
        SymbolTable::decode(bytes, &self.limits)
    }

    /// Keeps a table for others: `bytes` as received.
    pub(super) fn keep(&self, mapping: MappingId, loaded: &Arc<Loaded>, bytes: &[u8]) {
        self.remember(mapping, loaded);
        let Some(path) = self.path(mapping) else {
            return;
        };
        if let Err(error) = write(&path, bytes) {
            tracing::warn!(path = %path.display(), %error, "cannot keep a symbol table on disk; it will be shipped again");
        }
        if let Some(folder) = &self.folder {
            shrink(folder, self.bytes_max);
        }
    }

    fn remember(&self, mapping: MappingId, loaded: &Arc<Loaded>) {
        let mut memory = self.memory();
        memory.insert(mapping, Arc::clone(loaded));
        let idle: Vec<_> = memory
            .iter()
            .filter(|(_, loaded)| Arc::strong_count(loaded) == 1)
            .map(|(mapping, _)| *mapping)
            .collect();
        for mapping in idle.iter().skip(IDLE_MAX) {
            memory.remove(mapping);
        }
    }
}

fn touch(path: &Path) {
    let now = std::fs::FileTimes::new().set_modified(memwide_service::clock::system_time());
    let file = std::fs::File::options().append(true).open(path);
    if let Err(error) = file.and_then(|file| file.set_times(now)) {
        tracing::debug!(path = %path.display(), %error, "use of a symbol table is not noted");
    }
}

/// Whole or not at all, also when the process dies meanwhile.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Several streams may bring the same table at once: each writes a file of its own, the last rename wins.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("part{}-{number}", std::process::id()));
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, path)
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a symbol table");
    }
}

/// Removes the least recently used files until the rest fits.
fn shrink(folder: &Path, bytes_max: u64) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total <= bytes_max {
            break;
        }
        remove(&path);
        total -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_objects::{Flags, Segments, Source, Symbol, Symbols, SymbolsBuilder};

    fn table(name: &str) -> SymbolTable {
        let mut builder = SymbolsBuilder::default();
        builder.push(Symbol {
            start: 0x100,
            size: 0x10,
            name,
            source: Source::SymTab,
            flags: Flags::NONE,
        });
        SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
    }

    fn keep(tables: &Tables, mapping: u64, name: &str) {
        let mapping = MappingId(mapping);
        let loaded = Arc::new(Loaded::new(table(name), mapping, Kind::BuildId));
        tables.keep(mapping, &loaded, &table(name).encode());
    }

    #[test]
    fn a_table_outlives_the_process_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let tables = Tables::new(folder.path(), 1 << 20).unwrap();
        keep(&tables, 7, "work");
        let again = Tables::new(folder.path(), 1 << 20).unwrap();
        let (loaded, found) = again.find(MappingId(7), Kind::BuildId).unwrap();
        assert_eq!(found, Found::Disk);
        assert_eq!(loaded.table(), &table("work"));
        assert_eq!(
            again.find(MappingId(7), Kind::BuildId).unwrap().1,
            Found::Memory
        );
        std::fs::write(again.path(MappingId(8)).unwrap(), b"no table").unwrap();
        assert!(again.find(MappingId(8), Kind::BuildId).is_none());
        assert!(!again.path(MappingId(8)).unwrap().exists());
    }

    #[test]
    fn the_folder_stays_within_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let one = table("work").encode().len() as u64;
        let tables = Tables::new(folder.path(), 2 * one + one / 2).unwrap();
        for mapping in 0..5 {
            keep(&tables, mapping, "work");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

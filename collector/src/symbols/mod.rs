//! Symbols of what runs on this machine, for decoders that ask.

mod files;
pub(crate) mod jit;
mod kernel;
mod same_file;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memwide_objects::{Limits, ObjectId, SymbolTable};
use memwide_proto::v1::mapping_identity::Kind;
use memwide_proto::v1::{Capability, MappingIdentity, SymbolRequest};

use crate::events::machine::Machine;
use crate::metrics;
use crate::uplink::{SymbolAnswer, SymbolProvider};
pub(crate) use files::{Mapped, read_bounded};
use kernel::KernelTables;

/// Bytes of answers kept, so that a second decoder does not cost a second extraction.
const CACHE_BYTES: usize = 8 << 20;

/// Extracts symbols from the files of running processes, from kallsyms and the vdso.
#[derive(Debug)]
pub(crate) struct LiveSymbols {
    machine: Machine,
    file_bytes_max: u64,
    kernel: Mutex<Option<KernelTables>>,
    cache: Mutex<VecDeque<(MappingIdentity, SymbolAnswer)>>,
}

impl LiveSymbols {
    pub(crate) fn new(machine: Machine, file_bytes_max: u64) -> Self {
        Self {
            machine,
            file_bytes_max,
            kernel: Mutex::default(),
            cache: Mutex::default(),
        }
    }

    /// Reads the kernel's symbols before anybody asks: it takes longer than a decoder waits.
    pub(crate) fn warm(&self) {
        let mut kept = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            match KernelTables::read(&self.machine) {
                Ok(tables) => *kept = Some(tables),
                Err(error) => tracing::debug!(error, "no kernel symbols"),
            }
        }
    }

    fn find(
        &self,
        request: &SymbolRequest,
        asked: &MappingIdentity,
    ) -> Result<SymbolAnswer, String> {
        match asked.kind() {
            Kind::BuildId | Kind::Content | Kind::Path => {
                let (file, turn) = files::find(&self.machine, request, asked, self.file_bytes_max)?;
                let identity = file.identity(&asked.path);
                let folder = self.machine.proc.join(request.pid.to_string());
                let table = file.table(Some(&folder), &identity, self.file_bytes_max);
                let table = table.map_err(|error| error.to_string())?;
                // The table has all that is wanted of it; both and the bytes to send would be half as much again.
                drop(file);
                let table = table.encode();
                drop(turn);
                Ok(SymbolAnswer { identity, table })
            }
            Kind::Kernel | Kind::Module => self.kernel(asked),
            Kind::Vdso => self.vdso(asked),
            Kind::Jit => jit::table(&self.machine, request),
            Kind::Bpf | Kind::Unknown => Err("generated code has no file with symbols".to_owned()),
        }
    }

    fn kernel(&self, asked: &MappingIdentity) -> Result<SymbolAnswer, String> {
        let mut kept = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        // Modules come and go: one that is not known may be new.
        if kept
            .as_ref()
            .is_none_or(|tables| tables.find(asked).is_none())
        {
            *kept = Some(KernelTables::read(&self.machine)?);
        }
        let found = kept.as_ref().and_then(|tables| tables.find(asked));
        found.ok_or_else(|| "this kernel has no such module, or is another kernel".to_owned())
    }

    /// Every process has the same one; ours can be read without anybody's leave.
    fn vdso(&self, asked: &MappingIdentity) -> Result<SymbolAnswer, String> {
        let failed = |_| "the vdso cannot be read".to_owned();
        let maps = fs::read(self.machine.proc.join("self/maps")).map_err(failed)?;
        let map = crate::snapshot::maps::parse(&maps)
            .find(|map| map.name() == b"[vdso]")
            .ok_or_else(|| "this process has no vdso".to_owned())?;
        let memory = fs::File::open(self.machine.proc.join("self/mem")).map_err(failed)?;
        let mut image = vec![0; usize::try_from(map.end - map.start).unwrap_or(0)];
        memory
            .read_exact_at(&mut image, map.start)
            .map_err(failed)?;
        let id = ObjectId::of_elf(&image);
        if !asked.id.is_empty() && id.is_none_or(|id| id.as_bytes() != asked.id) {
            return Err("this host has another vdso".to_owned());
        }
        let table = SymbolTable::from_elf(&image, &Limits::default());
        Ok(SymbolAnswer {
            identity: MappingIdentity {
                kind: Kind::Vdso.into(),
                id: id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
                path: asked.path.clone(),
            },
            table: table.map_err(|error| error.to_string())?.encode(),
        })
    }
}

impl SymbolProvider for LiveSymbols {
    fn table(&self, request: &SymbolRequest) -> Result<SymbolAnswer, String> {
        let asked = request.identity.clone().unwrap_or_default();
        // Generated code grows.
        let cacheable = !asked.id.is_empty() && asked.kind() != Kind::Jit;
        if cacheable {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, answer)) = cache.iter().find(|(identity, _)| *identity == asked) {
                return Ok(answer.clone());
            }
        }
        let found = self.find(request, &asked);
        match &found {
            Ok(answer) if cacheable && answer.table.len() <= CACHE_BYTES => {
                let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
                cache.push_back((asked, answer.clone()));
                while cache
                    .iter()
                    .map(|(_, answer)| answer.table.len())
                    .sum::<usize>()
                    > CACHE_BYTES
                {
                    cache.pop_front();
                }
            }
            Ok(_) => {}
            Err(why) => {
                metrics::SYMBOL_FAILURES.add(1);
                tracing::debug!(path = asked.path, why, "no symbols");
            }
        }
        found
    }
}

/// Whether this process may read what symbols need.
pub(crate) fn capabilities(machine: &Machine) -> Vec<Capability> {
    let say = |name: &str, works: Result<(), String>, remedy: &str| Capability {
        name: name.to_owned(),
        tier: String::new(),
        available: works.is_ok(),
        remedy: if works.is_ok() { "" } else { remedy }.to_owned(),
        reason: works.err().unwrap_or_default(),
    };
    let kallsyms = kernel::visible(machine);
    vec![
        say("kernel-symbols", kallsyms, &kernel::remedy(machine)),
        say(
            "mapped-files",
            open_mapped(machine).map_err(|error| format!("files of other processes: {error}")),
            "give the process CAP_CHECKPOINT_RESTORE, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        ),
    ]
}

/// Looks at a mapped file of a process that is not ours: following such a link takes more rights than listing it.
fn open_mapped(machine: &Machine) -> io::Result<()> {
    /// Some processes let nobody look.
    const TRIED_MAX: usize = 64;
    let owner = |folder: &Path| fs::metadata(folder).map(|folder| folder.uid());
    let own = owner(&machine.proc.join("self"))?;
    let own_id = std::process::id().to_string();
    let mut others: Vec<PathBuf> = fs::read_dir(&machine.proc)?
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name != own_id.as_str() && name.as_encoded_bytes()[0].is_ascii_digit()
        })
        .map(|entry| entry.path())
        .collect();
    // Root may look at everybody's; others are asked for what is not theirs.
    others.retain(|folder| own == 0 || owner(folder).is_ok_and(|uid| uid != own));
    if others.is_empty() {
        others.push(machine.proc.join("self"));
    }
    let mut refused = None;
    let mut tried = 0;
    for folder in others {
        match first_mapped(&folder.join("map_files")) {
            Ok(true) => return Ok(()),
            // Of the kernel's own threads.
            Ok(false) => continue,
            // It ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => refused = refused.or(Some(error)),
        }
        tried += 1;
        if tried == TRIED_MAX {
            break;
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other("no process to try it on")))
}

/// Whether there is a mapped file and it can be followed to.
fn first_mapped(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder)?.next() {
        Some(entry) => fs::metadata(entry?.path()).map(|_| true),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests;

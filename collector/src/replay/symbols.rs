//! Symbols for a file, from where perf would look: the build id cache, the paths, kallsyms. Never from another file than
//! the one that was mapped, as far as ids tell.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memwide_objects::{Kallsyms, Limits, LinkedKernel, read_image};
use memwide_proto::v1::mapping_identity::Kind;
use memwide_proto::v1::{MappingIdentity, SymbolRequest};

use super::{ImportOptions, open};
use crate::events::machine::Machine;
use crate::snapshot::open_regular;
use crate::symbols::{LiveSymbols, Mapped, jit, read_bounded};
use crate::uplink::{SymbolAnswer, SymbolProvider};

/// Largest file read.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Where to look.
#[derive(Debug)]
pub(super) struct FileSymbols {
    symfs: Option<PathBuf>,
    kallsyms: Option<PathBuf>,
    vmlinux: Option<PathBuf>,
    /// The file was recorded on this machine, or the caller says where its files are: paths alone are believed.
    paths_are_ours: bool,
    live: LiveSymbols,
}

impl FileSymbols {
    pub(super) fn new(options: &ImportOptions, path: &Path, machine: Machine) -> Self {
        let here = machine.proc_text("sys/kernel/hostname");
        let recorded = open(path).ok().and_then(|file| file.features().hostname());
        Self {
            symfs: options.symfs.clone(),
            kallsyms: options.kallsyms.clone(),
            vmlinux: options.vmlinux.clone(),
            paths_are_ours: options.symfs.is_some() || here.is_some() && here == recorded,
            live: LiveSymbols::new(machine, FILE_BYTES_MAX),
        }
    }

    fn cache(id: &[u8]) -> Vec<PathBuf> {
        let hex = hex(id);
        let Some((head, tail)) = hex.split_at_checked(2) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let Some(home) = std::env::var_os("HOME") {
            let entry = Path::new(&home)
                .join(".debug/.build-id")
                .join(head)
                .join(tail);
            found.extend([entry.join("elf"), entry]);
        }
        found
    }

    /// A recorded path, where the caller says that such lie.
    fn below_root(&self, path: &str) -> PathBuf {
        match &self.symfs {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }

    fn file(&self, asked: &MappingIdentity) -> Result<SymbolAnswer, String> {
        let by_id = asked.kind() == Kind::BuildId && !asked.id.is_empty();
        let mut paths = if by_id {
            Self::cache(&asked.id)
        } else {
            Vec::new()
        };
        paths.push(self.below_root(&asked.path));
        let mut why = format!("{} is not here", asked.path);
        for file in paths.iter().filter_map(|path| open_regular(path)) {
            let mapped = match Mapped::read(file, FILE_BYTES_MAX) {
                Ok(mapped) => mapped,
                Err(error) => {
                    why = error;
                    continue;
                }
            };
            let identity = mapped.identity(&asked.path);
            if by_id && identity.id != asked.id {
                "another file lies at the path now".clone_into(&mut why);
                continue;
            }
            if !by_id && !self.paths_are_ours {
                return Err(
                    "recorded on another machine, and without a build id to check".to_owned(),
                );
            }
            let table = mapped.table(None, &identity, FILE_BYTES_MAX);
            let table = table.map_err(|error| error.to_string())?;
            return Ok(SymbolAnswer {
                identity,
                table: table.encode(),
            });
        }
        Err(why)
    }

    /// From the kernel's ELF file, if its build id is the one that was recorded.
    fn linked_kernel(asked: &MappingIdentity, path: &Path) -> Result<SymbolAnswer, String> {
        let named = |why: &str| format!("{}: {why}", path.display());
        let read = || {
            let mut file = File::open(path)?;
            let len = file.metadata()?.len().min(FILE_BYTES_MAX);
            read_image(&mut file, usize::try_from(len).unwrap_or(0))
        };
        let image = read().map_err(|error| named(&error.to_string()))?;
        let kernel = LinkedKernel::of(&image, Some(&asked.id));
        let table = kernel.and_then(|kernel| kernel.table(&image, &Limits::default()));
        let table = table.map_err(|error| named(&error.to_string()))?;
        Ok(SymbolAnswer {
            identity: asked.clone(),
            table: table.encode(),
        })
    }

    /// From a kallsyms text: the one given, the one in perf's cache, this machine's when it is the same kernel.
    fn kernel(
        &self,
        request: &SymbolRequest,
        asked: &MappingIdentity,
    ) -> Result<SymbolAnswer, String> {
        if let (Kind::Kernel, Some(path), None) = (asked.kind(), &self.vmlinux, &self.kallsyms) {
            return Self::linked_kernel(asked, path);
        }
        let text = self.kallsyms.as_deref().map(fs::read).transpose();
        let text = text.map_err(|error| format!("the kallsyms file cannot be read: {error}"))?;
        let text = text.or_else(|| {
            let home = std::env::var_os("HOME")?;
            let hex = hex(&asked.id);
            let folder = Path::new(&home).join(".debug/[kernel.kallsyms]").join(hex);
            let file = File::open(folder.join("kallsyms")).ok()?;
            read_bounded(&file, FILE_BYTES_MAX).ok()
        });
        let Some(text) = text else {
            if asked.id.is_empty() && !self.paths_are_ours {
                return Err(
                    "recorded on another machine: give its kallsyms with --kallsyms".to_owned(),
                );
            }
            return self.live.table(request);
        };
        let all = Kallsyms::parse(&text, &Limits::default()).map_err(|error| error.to_string())?;
        let table = if asked.kind() == Kind::Kernel {
            let base = all.text().map(|text| text.start);
            base.map(|base| all.kernel().relative_to(base))
        } else {
            let name = asked.path.trim_start_matches('[').trim_end_matches(']');
            all.module(name)
                .map(|module| module.table.relative_to(request.start))
        };
        let table = table.ok_or_else(|| "the kallsyms text does not have it".to_owned())?;
        Ok(SymbolAnswer {
            identity: asked.clone(),
            table: table.encode(),
        })
    }
}

/// As folders of the cache are called.
fn hex(id: &[u8]) -> String {
    let mut text = String::new();
    for byte in id {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl SymbolProvider for FileSymbols {
    fn table(&self, request: &SymbolRequest) -> Result<SymbolAnswer, String> {
        let asked = request.identity.clone().unwrap_or_default();
        match asked.kind() {
            Kind::BuildId | Kind::Content | Kind::Path => self.file(&asked),
            Kind::Kernel | Kind::Module => self.kernel(request, &asked),
            Kind::Vdso if !asked.id.is_empty() || self.paths_are_ours => self.live.table(request),
            Kind::Vdso => Err("recorded on another machine: its vdso is not here".to_owned()),
            Kind::Jit if self.paths_are_ours => {
                jit::left_behind(&asked, &request.jit_dump, |path| self.below_root(path))
            }
            Kind::Jit => Err(
                "recorded on another machine: what named its generated code is not here".to_owned(),
            ),
            Kind::Bpf | Kind::Unknown => Err("generated code has no file with symbols".to_owned()),
        }
    }
}

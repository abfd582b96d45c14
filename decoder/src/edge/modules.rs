//! Files of kernel modules, as the kernel installs them: `/lib/modules/RELEASE`, and below `/usr/lib/debug` with lines. A file
//! is believed with the build id that was recorded; what kallsyms says of a module goes before what its file says.

use super::debuginfod::Artifact;
use super::places::{DEBUG_ROOT, Places, usable};
use super::refusals::Refusals;
use super::{has_build_id, split_hex};
use crate::identity::Identity;
use memwide_objects::{
    DebugInfo, DebugSections, Limits, ModuleCode, SymbolTable, module_name, unpack_module,
};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Largest file of a module read, in bytes.
const FILE_MAX: u64 = 1 << 30;

/// Most entries of folders looked at: distributions install some 5,000 modules.
const ENTRIES_MAX: usize = 1 << 17;

/// Where modules are installed, by release; those without lines first.
const INSTALLED: [&str; 3] = [
    "/lib/modules",
    "/usr/lib/modules",
    "/usr/lib/debug/lib/modules",
];

/// What helps where the file of a module is not here.
pub(super) const REMEDY: &str = "install the recorded kernel's modules or their debug information, or name a folder that has them \
                                 (--symfs, with lib/modules/RELEASE in it)";

/// Files of modules by name, looked for when the first is wanted.
#[derive(Debug, Default)]
pub(super) struct ModuleFiles {
    installed: OnceLock<BTreeMap<String, Vec<PathBuf>>>,
}

/// A module's file, unpacked.
#[derive(Debug)]
pub(super) struct ModuleFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl ModuleFiles {
    /// The file of a module: one for which `fits` holds if there is any, else the first that is of the recorded build.
    fn file(
        &self,
        places: &Places,
        identity: &Identity,
        what: Artifact,
        fits: impl Fn(&[u8]) -> bool,
        refused: &mut Refusals,
    ) -> Result<ModuleFile, String> {
        let name = module_name(&identity.path);
        let id = identity.build_id();
        if id.is_none() && places.symfs.is_none() {
            return Err(format!(
                "the recording does not say which build of {name} ran, so no file is believed"
            ));
        }
        let mut first = None;
        for path in self.candidates(places, identity, &name) {
            let Ok(found) = ModuleFile::read(&path) else {
                continue;
            };
            if id.is_some_and(|id| !has_build_id(&found.bytes, id)) {
                let why = "it is not the recorded build of the module";
                refused.note(path.display(), why, REMEDY);
            } else if fits(&found.bytes) {
                return Ok(found);
            } else {
                first = first.or(Some(found));
            }
        }
        if let Some(asked) = id.and_then(|id| places.ask(id, what, refused).ok())
            && let Ok(found) = ModuleFile::read(&asked)
            && fits(&found.bytes)
        {
            return Ok(found);
        }
        first.ok_or_else(|| format!("the file of {name} is not here"))
    }

    fn candidates(&self, places: &Places, identity: &Identity, name: &str) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        if let Some((head, tail)) = identity.build_id().and_then(split_hex) {
            if let Some(dir) = places.build_id_dir() {
                let entry = dir.join(".build-id").join(&head).join(&tail);
                paths.extend([entry.join("elf"), entry.join("debug")]);
            }
            let system = Path::new(DEBUG_ROOT).join(".build-id").join(&head);
            paths.push(places.below_root(&system.join(format!("{tail}.debug"))));
        }
        if identity.path.starts_with('/') {
            paths.push(places.below_root(Path::new(&*identity.path)));
        }
        let installed = self.installed.get_or_init(|| installed(places));
        paths.extend(installed.get(name).into_iter().flatten().cloned());
        paths.retain(|path| usable(path).is_ok());
        paths
    }

    /// Names of its code, as distances from where it is loaded.
    pub(super) fn table(
        &self,
        places: &Places,
        identity: &Identity,
        limits: &Limits,
        refused: &mut Refusals,
    ) -> Result<SymbolTable, String> {
        let table = |bytes: &[u8]| SymbolTable::from_elf(bytes, limits);
        let fits = |bytes: &[u8]| table(bytes).is_ok_and(|table| !table.functions().is_empty());
        let found = self.file(places, identity, Artifact::DebugInfo, fits, refused)?;
        table(&found.bytes).map_err(|error| found.named(&error.to_string()))
    }

    /// Its lines. `loaded` is what kallsyms says of it, if anything: where the two do not agree, the file's places are wrong.
    pub(super) fn lines(
        &self,
        places: &Places,
        identity: &Identity,
        loaded: Option<&SymbolTable>,
        refused: &mut Refusals,
    ) -> Result<DebugInfo, String> {
        let sections = |bytes: &[u8]| {
            let len = bytes.len() as u64;
            DebugSections::read(&mut Cursor::new(bytes), len)
        };
        let fits = |bytes: &[u8]| sections(bytes).is_ok_and(|found| found.has_units());
        let found = self.file(places, identity, Artifact::DebugInfo, fits, refused)?;
        found.check(loaded)?;
        let info = sections(&found.bytes).and_then(|sections| DebugInfo::new(sections, None));
        info.map_err(|error| found.named(&error.to_string()))
    }

    /// Code at a distance from where it is loaded, and what machine it is for.
    pub(super) fn code(
        &self,
        places: &Places,
        identity: &Identity,
        loaded: Option<&SymbolTable>,
        (start, len): (u64, usize),
    ) -> Result<(Vec<u8>, Option<u16>), String> {
        let read = |bytes: &[u8]| ModuleCode::read(bytes, start, len).ok().flatten();
        let fits = |bytes: &[u8]| read(bytes).is_some();
        let refused = &mut Refusals::default();
        let found = self.file(places, identity, Artifact::Executable, fits, refused)?;
        found.check(loaded)?;
        let code = read(&found.bytes);
        let code = code.ok_or_else(|| found.named(&format!("it has no code at {start:#x}")))?;
        Ok((code.bytes, Some(code.machine)))
    }
}

impl ModuleFile {
    fn read(path: &Path) -> Result<Self, String> {
        let named = |why: &str| format!("{}: {why}", path.display());
        usable(path).map_err(|why| named(&why))?;
        let len = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
        if len > FILE_MAX {
            return Err(named("it is larger than any module"));
        }
        let packed = std::fs::read(path).map_err(|error| named(&error.to_string()))?;
        let bytes = unpack_module(&packed).ok_or_else(|| named("it does not unpack"))?;
        Ok(Self {
            path: path.to_owned(),
            bytes: bytes.into_owned(),
        })
    }

    fn named(&self, why: &str) -> String {
        format!("{}: {why}", self.path.display())
    }

    fn check(&self, loaded: Option<&SymbolTable>) -> Result<(), String> {
        let Some(loaded) = loaded else { return Ok(()) };
        let own = SymbolTable::from_elf(&self.bytes, &Limits::default());
        let own = own.map_err(|error| self.named(&error.to_string()))?;
        if own.is_laid_out_as(loaded) {
            Ok(())
        } else {
            Err(self.named("the kernel laid its code out otherwise than the file says"))
        }
    }
}

/// Files of the modules of the recorded release.
fn installed(places: &Places) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let Some(release) = places.release.as_deref().filter(|name| is_plain(name)) else {
        return found;
    };
    let roots = INSTALLED.map(|root| places.below_root(&Path::new(root).join(release)));
    let mut known = Vec::new();
    let mut left = ENTRIES_MAX;
    for root in roots {
        // `/lib` leads to `/usr/lib` on most machines.
        let real = std::fs::canonicalize(&root).ok();
        if real.is_none() || known.contains(&real) {
            continue;
        }
        known.push(real);
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Some(rest) = left.checked_sub(1) else {
                    return found;
                };
                left = rest;
                let path = entry.path();
                // Links (`build`, `source`) lead to whole other trees.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(kind) if kind.is_file() => {
                        let name = entry.file_name().to_string_lossy().into_owned();
                        if name.contains(".ko") {
                            found.entry(module_name(&name)).or_default().push(path);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

/// A release names a folder, and never one elsewhere.
fn is_plain(release: &str) -> bool {
    !release.is_empty() && !release.starts_with('.') && !release.contains('/')
}

//! Symbols of the kernel and its modules, from kallsyms of the kernel that was recorded.

use super::{Places, hex};
use crate::identity::hashed;
use crate::local::ObjectRequest;
use crate::symbols::What;
use crate::table::relative;
use memwide_objects::{Kallsyms, Limits, ObjectId, SymbolTable, module_name, parse_modules};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// What helps where the kernel has no names.
const KALLSYMS: &str = "name a copy of the recorded machine's /proc/kallsyms (--kallsyms)";

/// kallsyms, read when the first kernel symbol is wanted.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    read: Option<Result<Read, Refused>>,
    /// Id of the kernel that was recorded.
    id: Option<Box<[u8]>>,
}

/// Why there are no symbols of the kernel.
#[derive(Debug, Clone)]
struct Refused {
    file: String,
    why: String,
    remedy: &'static str,
}

#[derive(Debug)]
struct Read {
    text_start: u64,
    kernel: SymbolTable,
    modules: BTreeMap<String, SymbolTable>,
    /// First addresses of loaded modules, where this is the running kernel.
    bases: BTreeMap<String, u64>,
}

impl Kernel {
    /// File, reason and remedy, if it was asked for and refused.
    pub(super) fn refused(&self) -> Option<(&str, &str, &'static str)> {
        let refused = self.read.as_ref()?.as_ref().err()?;
        Some((&refused.file, &refused.why, refused.remedy))
    }

    /// Whether the recorded kernel is known to be the one that runs here.
    pub(super) fn is_running(&self) -> bool {
        self.id.as_deref().is_some_and(is_running)
    }

    pub(super) fn table(
        &mut self,
        request: &ObjectRequest<'_>,
        places: &Places,
        build_id_dir: Option<&Path>,
        limits: &Limits,
    ) -> Result<SymbolTable, String> {
        if self.read.is_none() {
            self.id = request
                .kernel
                .as_ref()
                .map(|kernel| kernel.identity.id.clone());
            self.read = Some(open(request, places, build_id_dir, limits));
        }
        let read = match &self.read {
            Some(Ok(read)) => read,
            Some(Err(refused)) => return Err(refused.why.clone()),
            None => return Err("no kallsyms".into()),
        };
        if request.what == What::Kernel {
            return Ok(relative(read.kernel.clone(), read.text_start));
        }
        let name = module_name(&request.identity.path);
        let table = self.module(&name, request.base);
        table.ok_or_else(|| format!("no module {} in kallsyms", plain(&name)))
    }

    /// A module's table, if kallsyms was read and has it.
    pub(super) fn module(&self, path: &str, base: u64) -> Option<SymbolTable> {
        let read = self.read.as_ref()?.as_ref().ok()?;
        let name = module_name(path);
        let name = plain(&name);
        let table = read.modules.get(name)?;
        Some(relative(table.clone(), read.base(name, table, base)))
    }
}

impl Read {
    /// Where a module was loaded when this kallsyms was written: that may be another start than the recorded one.
    fn base(&self, name: &str, table: &SymbolTable, recorded: u64) -> u64 {
        let first = table.functions().iter().next();
        let first = first.map_or(recorded, |symbol| symbol.start & !0xfff);
        self.bases.get(name).copied().unwrap_or(first)
    }
}

/// A module's name without its brackets.
fn plain(name: &str) -> &str {
    name.trim_matches(['[', ']'])
}

fn open(
    request: &ObjectRequest<'_>,
    places: &Places,
    build_id_dir: Option<&Path>,
    limits: &Limits,
) -> Result<Read, Refused> {
    let (text, live) = text(request, places, build_id_dir)?;
    let own = places.kallsyms.as_deref();
    let refused = |why: String| Refused {
        file: own.map_or_else(|| "kallsyms".to_owned(), |path| path.display().to_string()),
        why,
        remedy: KALLSYMS,
    };
    let all = Kallsyms::parse(&text, limits).map_err(|error| refused(error.to_string()))?;
    let text_start = all.text().map(|text| text.start);
    let (kernel, modules) = all.into_tables();
    let modules = modules
        .into_iter()
        .map(|module| (module.name, module.table));
    let loaded = std::fs::read("/proc/modules").ok().filter(|_| live);
    let loaded = loaded
        .and_then(|text| parse_modules(&text).ok())
        .unwrap_or_default();
    Ok(Read {
        text_start: text_start.ok_or_else(|| refused("it has no _text and no _stext".into()))?,
        kernel,
        modules: modules.collect(),
        bases: loaded
            .into_iter()
            .map(|module| (module.name, module.base))
            .collect(),
    })
}

/// The text of kallsyms, and whether it is the running kernel's.
fn text(
    request: &ObjectRequest<'_>,
    places: &Places,
    build_id_dir: Option<&Path>,
) -> Result<(Vec<u8>, bool), Refused> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| Refused {
            file: path.display().to_string(),
            why: error.to_string(),
            remedy: KALLSYMS,
        })
    };
    let kernel = |why: &str| Refused {
        file: "the kernel's symbols".to_owned(),
        why: why.to_owned(),
        remedy: KALLSYMS,
    };
    if let Some(path) = &places.kallsyms {
        return Ok((read(path)?, false));
    }
    let recorded = request.kernel.as_ref();
    let recorded = recorded.ok_or_else(|| kernel("the kernel that ran is not known"))?;
    let id = &recorded.identity.id;
    let running = || read(Path::new("/proc/kallsyms"));
    if is_running(id) {
        return Ok((running()?, true));
    }
    if id.is_empty() {
        // As where the recorder was killed before it wrote the header.
        let unknown = kernel("the file says neither build id nor release of the recorded kernel");
        return match running() {
            Ok(text) if lies_there(&text, &recorded.code) => Ok((text, true)),
            _ => Err(unknown),
        };
    }
    let hex = hex(id);
    let cached = build_id_dir.map(|dir| dir.join("[kernel.kallsyms]").join(hex).join("kallsyms"));
    match cached {
        Some(path) if path.is_file() => Ok((read(&path)?, false)),
        _ => Err(kernel(
            "another kernel was recorded, and its kallsyms is not in the build id cache",
        )),
    }
}

/// Whether the running kernel's code lies where the recorded one's did, to the byte. Its size differs from build to build.
fn lies_there(kallsyms: &[u8], code: &Range<u64>) -> bool {
    let has = |address: u64, name: &str| {
        let line = format!("{address:016x} T {name}\n");
        kallsyms.windows(line.len()).any(|at| at == line.as_bytes())
    };
    has(code.start, "_text") && has(code.end, "_etext")
}

/// By build id, or by the release where the file has none.
fn is_running(id: &[u8]) -> bool {
    if id.len() >= 16 {
        let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
        return ObjectId::of_notes(&notes).is_some_and(|running| running.as_bytes() == id);
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    id == hashed("release", &[release.trim().as_bytes()])
}

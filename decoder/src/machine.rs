//! One host as its records tell it: tasks, mappings, kernel; and what an address in it means.

use crate::context::{Mode, Task, context};
use crate::edge::jit::is_dump;
use crate::identity::{FileKey, Identity, Kind, hashed};
use crate::names::NameIx;
use crate::space::{Area, Fork, Policy, Space, Spaces};
use crate::symbols::{Object, ObjectIx, Objects, TableState, What};
use memwide_model::{Context, MappingId};
use memwide_objects::{Access, SymbolRef, module_name};
use memwide_perf_abi::{BuildId, FileId, Mmap, Mmap2, Record, misc};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// `PROT_READ | PROT_EXEC` and `PROT_READ | PROT_WRITE`: what old records mean by code and data.
const PROT_CODE: u32 = 5;
const PROT_DATA: u32 = 3;
/// Mappings of a file that lie between its code and its last data at most.
const SEGMENTS_BEFORE: usize = 8;
/// How kernel code may be used.
const CODE: Access = Access {
    executable: true,
    writable: false,
};
/// Name under which perf records the kernel's own mapping, without its last bracket.
const KERNEL_NAME: &str = "[kernel.kallsyms";
/// Name under which perf shows the kernel.
const KERNEL_DSO: &str = "[kernel.kallsyms]";
/// Most dumps remembered.
const JIT_DUMPS_MAX: usize = 1 << 16;
/// Most processes that generate code whose ends are counted.
const JIT_PROCESSES_MAX: usize = 1 << 16;
/// Name under which the collector and every other part of memwide runs.
const OWN_COMM: &str = "memwide";
/// The process that starts kernel threads.
const KTHREADD: u32 = 2;

/// What an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// What is mapped there.
    pub object: Option<ObjectIx>,
    /// ELF virtual address; kernel and modules: relative to their start; without a file: the address itself.
    pub address: u64,
    /// The address as perf shows it where no symbol covers it: an offset in the file, or the address itself.
    pub shown: u64,
    /// The symbol that covers it: a function for code, a variable for data.
    pub symbol: Option<SymbolRef>,
    /// `symbol` is a variable.
    pub variable: bool,
}

/// Tasks, mappings and symbols of one source.
#[derive(Debug)]
pub struct Machine {
    spaces: Spaces,
    kernel: Space,
    objects: Objects,
    /// Build ids of files by path, from a file's header.
    build_ids: FxHashMap<Box<str>, BuildId>,
    /// Names of kernel and modules where the header gives others than records do.
    kernel_names: FxHashMap<Box<str>, Box<str>>,
    /// Stands for the kernel or vdso where no build id is known; from the kernel's release.
    kernel_id: Box<[u8]>,
    /// Distinguishes generated code of equal process numbers on different boots.
    boot: Box<[u8]>,
    /// The kernel, and where its code ends.
    kernel_object: Option<(ObjectIx, u64)>,
    /// Dumps that processes mapped, by the mapping of the code they generate.
    jit_dumps: FxHashMap<MappingId, Box<str>>,
    /// How many processes of a number that generated code have ended: the next one of it is another.
    ended: FxHashMap<u32, u32>,
    /// Place of memwide's own name.
    own: NameIx,
}

impl Machine {
    /// Knows nothing yet.
    pub fn new(policy: Policy) -> Self {
        let mut spaces = Spaces::new(policy);
        Self {
            own: spaces.intern(OWN_COMM),
            spaces,
            kernel: Space::default(),
            objects: Objects::default(),
            build_ids: FxHashMap::default(),
            kernel_names: FxHashMap::default(),
            kernel_id: Box::default(),
            boot: Box::default(),
            kernel_object: None,
            jit_dumps: FxHashMap::default(),
            ended: FxHashMap::default(),
        }
    }

    /// Sets the kernel's release (as `uname -r`), which names the kernel where no build id does.
    pub fn set_kernel_release(&mut self, release: &str) {
        if !release.is_empty() {
            self.kernel_id = Box::new(hashed("release", &[release.as_bytes()]));
        }
    }

    /// Sets what distinguishes this boot from others.
    pub fn set_boot(&mut self, boot: &[u8]) {
        self.boot = boot.into();
    }

    /// Says which build id a path has, for mappings whose records do not. `entry_misc` tells files of the kernel from others:
    /// perf shows kernel and modules by the path of their entry.
    pub fn set_build_id(&mut self, path: &str, id: BuildId, entry_misc: u16) {
        if Mode::of(entry_misc) == Mode::Kernel {
            let module = path.starts_with('[') || path.contains(".ko");
            let is_module = module && !path.starts_with(KERNEL_NAME);
            let key = if is_module {
                module_name(path)
            } else {
                KERNEL_DSO.to_owned()
            };
            let names = self.kernel_names.entry(key.into());
            names.or_insert_with(|| path.into());
        }
        self.build_ids.insert(path.into(), id);
    }

    /// The name perf shows for the kernel or a module.
    fn kernel_name(&self, name: &str) -> Box<str> {
        self.kernel_names
            .get(name)
            .map_or_else(|| name.into(), Clone::clone)
    }

    /// What is mapped, and its tables.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The same, to change.
    pub fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }

    /// Tasks and their mappings.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The same, to change.
    pub fn spaces_mut(&mut self) -> &mut Spaces {
        &mut self.spaces
    }

    /// Applies a record at a time (nanoseconds, or a number that counts records). Samples and what is unknown are passed over.
    pub fn apply(&mut self, record: &Record<'_>, record_misc: u16, time: u64) {
        match record {
            Record::Comm(comm) => {
                self.spaces
                    .comm(comm.pid, comm.tid, comm.comm, comm.exec, time);
            }
            Record::Fork(task) => {
                let fork = Fork {
                    pid: task.pid,
                    tid: task.tid,
                    ppid: task.ppid,
                    ptid: task.ptid,
                };
                self.spaces
                    .fork(fork, record_misc & misc::FORK_EXEC != 0, time);
            }
            Record::Exit(task) => {
                if task.pid == task.tid
                    && let Some(ended) = self.ended.get_mut(&task.pid)
                {
                    *ended = ended.wrapping_add(1);
                }
                self.spaces.exit(task.pid, task.tid, time);
            }
            Record::Mmap(mmap) => self.mmap(&widen(mmap), record_misc, time),
            Record::Mmap2(mmap) => self.mmap(mmap, record_misc, time),
            Record::Ksymbol(symbol) => {
                let end = symbol.addr.saturating_add(u64::from(symbol.len));
                if symbol.unregisters() {
                    self.kernel.remove(symbol.addr, end, time);
                    return;
                }
                let name = String::from_utf8_lossy(symbol.name);
                let identity = Identity::new(Kind::Bpf, &[], &name);
                if let Some(object) = self.objects.intern(identity, What::KernelSymbol, 0) {
                    let area = Area {
                        start: symbol.addr,
                        end,
                        offset: 0,
                        object,
                        access: CODE,
                    };
                    self.kernel.insert(area, time);
                }
            }
            _ => {}
        }
    }

    fn mmap(&mut self, mmap: &Mmap2<'_>, record_misc: u16, time: u64) {
        let name = String::from_utf8_lossy(mmap.filename);
        match Mode::of(record_misc) {
            Mode::Guest => {}
            Mode::Kernel => self.kernel_mmap(mmap, &name, time),
            _ if mmap.pid == u32::MAX => self.kernel_mmap(mmap, &name, time),
            _ => self.user_mmap(mmap, &name, time),
        }
    }

    fn kernel_mmap(&mut self, mmap: &Mmap2<'_>, name: &str, time: u64) {
        let id = self.build_id_of(mmap, name);
        let mut end = mmap.addr.saturating_add(mmap.len);
        let (identity, what, base) = if let Some(symbol) = name.strip_prefix(KERNEL_NAME) {
            if mmap.addr == 0 && mmap.len == 0 {
                end = u64::MAX;
            }
            // `[kernel.kallsyms]_text`: the offset is the address of that symbol, 0 if it was hidden.
            let symbol = symbol.trim_start_matches(']');
            let hidden = mmap.pgoff == 0 || symbol.is_empty();
            let base = if hidden { mmap.addr } else { mmap.pgoff };
            let id = id.unwrap_or_else(|| self.kernel_id.clone());
            let kernel = Identity::new(Kind::Kernel, &id, &self.kernel_name(KERNEL_DSO));
            (kernel, What::Kernel, base)
        } else {
            let module = self.kernel_name(&module_name(name));
            let module = Identity::new(Kind::Module, &id.unwrap_or_default(), &module);
            (module, What::Module, mmap.addr)
        };
        let Some(object) = self.objects.intern(identity, what, base) else {
            return;
        };
        if what == What::Kernel {
            self.kernel_object = Some((object, end));
        }
        let area = Area {
            start: mmap.addr,
            end,
            offset: mmap.addr.wrapping_sub(base),
            object,
            access: CODE,
        };
        self.kernel.insert(area, time);
    }

    fn user_mmap(&mut self, mmap: &Mmap2<'_>, name: &str, time: u64) {
        let access = Access::from_prot(mmap.prot);
        let mut what = What::of_mapping(name, mmap.flags);
        if access.executable && is_dump(name) && self.jit_dumps.len() < JIT_DUMPS_MAX {
            let code = self.jit_identity(mmap.pid).mapping_id();
            self.jit_dumps.insert(code, name.into());
        }
        let is_nameless = what.is_identity_mapped();
        let generated = is_nameless || name.starts_with("/SYSV");
        let identity = if generated && access.executable {
            what = What::Jit;
            if self.ended.len() < JIT_PROCESSES_MAX {
                self.ended.entry(mmap.pid).or_default();
            }
            self.jit_identity(mmap.pid)
        } else {
            match (self.build_id_of(mmap, name), name) {
                (Some(id), "[vdso]") => Identity::new(Kind::Vdso, &id, name),
                (None, "[vdso]") => Identity::new(Kind::Vdso, &self.kernel_id, name),
                (Some(id), _) => Identity::new(Kind::BuildId, &id, name),
                (None, _) => Identity::of_path(name, file_key(mmap).filter(|_| what == What::File)),
            }
        };
        let Some(object) = self.objects.intern(identity, what, 0) else {
            return;
        };
        let offset = match what {
            What::Vdso => 0,
            what if what.is_identity_mapped() => mmap.addr,
            _ => mmap.pgoff,
        };
        let area = Area {
            start: mmap.addr,
            end: mmap.addr.saturating_add(mmap.len),
            offset,
            object,
            access,
        };
        self.spaces.map(mmap.pid, area, time);
    }

    fn jit_identity(&self, pid: u32) -> Identity {
        let ended = self.ended.get(&pid).copied().unwrap_or_default();
        let mut parts: Vec<&[u8]> = vec![&self.boot];
        let (pid_bytes, ended) = (pid.to_le_bytes(), ended.to_le_bytes());
        parts.push(&pid_bytes);
        if ended != [0; 4] {
            parts.push(&ended);
        }
        let id = hashed("jit", &parts);
        Identity::new(Kind::Jit, &id, &format!("/tmp/perf-{pid}.map"))
    }

    /// The dump of a process's generated code, if it mapped one: runtimes do that to say where it is.
    pub fn jit_dump(&self, mapping: MappingId) -> Option<&str> {
        self.jit_dumps.get(&mapping).map(|path| &**path)
    }

    /// The dump that the process of this number mapped.
    pub(crate) fn jit_dump_of(&self, pid: u32) -> Option<&str> {
        self.jit_dump(self.jit_identity(pid).mapping_id())
    }

    fn build_id_of(&self, mmap: &Mmap2<'_>, name: &str) -> Option<Box<[u8]>> {
        let own = mmap.build_id();
        let by_path = || {
            let kernel;
            let key = if name.starts_with(KERNEL_NAME) {
                kernel = self.kernel_name(KERNEL_DSO);
                &*kernel
            } else {
                name
            };
            self.build_ids.get(key).copied()
        };
        let id = own.or_else(by_path)?;
        let is_set = id.as_bytes().iter().any(|byte| *byte != 0);
        is_set.then(|| id.as_bytes().into())
    }

    /// The mapping at an address, as the mode sees it.
    pub(crate) fn area(&mut self, mode: Mode, pid: u32, address: u64, time: u64) -> Option<Area> {
        match mode {
            Mode::Kernel => self.kernel.lookup(address, time),
            Mode::User => self.spaces.lookup(pid, address, time),
            Mode::Guest | Mode::Other => None,
        }
    }

    /// Stands for what is mapped now where code of a mode runs: equal numbers, equal answers. 0 where nothing is known.
    #[inline]
    pub(crate) fn stamp(&self, mode: Mode, pid: u32) -> u64 {
        match mode {
            Mode::Kernel => self.kernel.stamp(),
            Mode::User => self.spaces.stamp(pid),
            Mode::Guest | Mode::Other => 0,
        }
    }

    /// What a code address means.
    pub fn code(&mut self, mode: Mode, pid: u32, ip: u64, time: u64) -> Place {
        let Some(area) = self.area(mode, pid, ip, time) else {
            return Place::nowhere(ip);
        };
        let mut place = self.place(&area, ip);
        if let Some(table) = self.objects.table(area.object) {
            place.symbol = table.function_at(place.address);
        }
        place
    }

    /// The place of an address in an area, without a symbol.
    fn place(&self, area: &Area, address: u64) -> Place {
        let offset = area.offset_of(address);
        let what = self.objects.get(area.object).map(|object| object.what);
        let mut place = Place {
            object: Some(area.object),
            address: offset,
            shown: if what == Some(What::Kernel) {
                address
            } else {
                offset
            },
            ..Place::default()
        };
        if let Some(table) = self.objects.table(area.object) {
            let into = address.wrapping_sub(area.start);
            place.address = table.address_of(area.offset, into, area.access);
        }
        place
    }

    /// What a data address means, as perf finds it: in the mappings of the mode the code ran in.
    pub fn data(&mut self, mode: Mode, pid: u32, address: u64, time: u64) -> Place {
        let Some(area) = self.area(mode, pid, address, time) else {
            return Place::nowhere(address);
        };
        let mut place = self.place(&area, address);
        let bias = self.bias_by_code(pid, &area);
        if let Some(table) = self.objects.table(area.object) {
            let vaddr = bias.map(|bias| address.wrapping_sub(bias));
            let is_held = |vaddr: &u64| table.table().segments().holds_vaddr(*vaddr);
            place.address = vaddr.filter(is_held).unwrap_or(place.address);
            place.symbol = table.object_at(place.address);
            place.variable = place.symbol.is_some();
            if place.symbol.is_none() {
                place.symbol = table.function_at(place.address);
            }
        }
        place
    }

    /// What to subtract from addresses of a mapping that does not tell its segment by itself: the code that is mapped before it
    /// tells.
    fn bias_by_code(&self, pid: u32, area: &Area) -> Option<u64> {
        let segments = self.objects.table(area.object)?.table().segments();
        if !segments.is_doubtful(area.offset, area.access) {
            return None;
        }
        let mut before = self.spaces.ending_at(pid, area.start)?;
        for _ in 0..SEGMENTS_BEFORE {
            if before.object != area.object {
                break;
            }
            if before.access.executable {
                return segments.bias(before.start, before.offset, before.access);
            }
            before = self.spaces.ending_at(pid, before.start)?;
        }
        None
    }

    /// The file whose mapping ends where the one with the address begins: that may be its `.bss`.
    pub(crate) fn file_before(&mut self, pid: u32, address: u64, time: u64) -> Option<Area> {
        let area = self.spaces.lookup(pid, address, time)?;
        self.spaces.ending_at(pid, area.start)
    }

    /// The variable at an address of anonymous memory right behind a file's mapping: its `.bss`.
    pub(crate) fn bss(&mut self, pid: u32, address: u64, time: u64) -> Option<Place> {
        let file = self.file_before(pid, address, time)?;
        let table = self.objects.table(file.object)?;
        let segments = table.table().segments();
        let by_code = self.bias_by_code(pid, &file);
        let bias = by_code.or_else(|| segments.bias(file.start, file.offset, file.access))?;
        let vaddr = address.wrapping_sub(bias);
        if !segments.holds_vaddr(vaddr) {
            return None;
        }
        Some(Place {
            object: Some(file.object),
            address: vaddr,
            shown: address,
            symbol: Some(table.object_at(vaddr)?),
            variable: true,
        })
    }

    /// Whether a process is memwide itself.
    pub(crate) fn is_own(&self, pid: u32, time: u64) -> bool {
        self.spaces.is_named(pid, self.own, time)
    }

    /// The mapped thing's kind.
    pub(crate) fn what(&self, place: &Place) -> Option<What> {
        Some(self.objects.get(place.object?)?.what)
    }

    /// What a kernel frame says of the context.
    pub(crate) fn entry(&self, place: &Place) -> Option<Context> {
        let table = self.objects.table(place.object?)?;
        table.entry_context(place.symbol?)
    }

    /// The context of a sample.
    pub(crate) fn context(
        &self,
        mode: Mode,
        pid: u32,
        own: bool,
        entry: Option<Context>,
    ) -> Context {
        let task = Task {
            idle: pid == 0,
            kthread: pid == KTHREADD || self.spaces.parent(pid) == KTHREADD,
            profiler: own,
        };
        context(mode, task, entry)
    }

    /// Sets where the table of an identity stands.
    pub fn set_table(&mut self, mapping: MappingId, state: TableState) {
        self.objects.set_state(mapping, state);
    }

    /// The kernel proper, once its mapping is known.
    pub fn kernel(&self) -> Option<&Object> {
        self.objects.get(self.kernel_object?.0)
    }

    /// Where the code of the kernel that ran lies.
    pub(crate) fn kernel_code(&self) -> Option<Range<u64>> {
        Some(self.kernel()?.base..self.kernel_object?.1)
    }

    /// Lets go of the tables of programs that no process has mapped any more; one that maps them again finds them where tables are
    /// kept. True: of some.
    pub(crate) fn let_go(&mut self) -> bool {
        let mapped = self.spaces.objects().collect();
        self.objects.let_go(&mapped)
    }

    /// Forgets what ended before a time.
    pub fn prune(&mut self, horizon: u64) {
        self.spaces.prune(horizon);
        self.kernel.prune(horizon);
    }
}

impl Place {
    pub(crate) fn nowhere(address: u64) -> Self {
        Self {
            address,
            shown: address,
            ..Self::default()
        }
    }
}

/// Which file is mapped, where the record says so.
fn file_key(mmap: &Mmap2<'_>) -> Option<FileKey> {
    match mmap.file {
        FileId::Inode {
            maj,
            min,
            ino,
            generation,
        } if ino != 0 => Some(FileKey {
            major: maj,
            minor: min,
            inode: ino,
            generation,
        }),
        _ => None,
    }
}

fn widen<'a>(mmap: &Mmap<'a>) -> Mmap2<'a> {
    Mmap2 {
        pid: mmap.pid,
        tid: mmap.tid,
        addr: mmap.addr,
        len: mmap.len,
        pgoff: mmap.pgoff,
        file: memwide_perf_abi::FileId::Inode {
            maj: 0,
            min: 0,
            ino: 0,
            generation: 0,
        },
        prot: if mmap.data { PROT_DATA } else { PROT_CODE },
        flags: 0,
        filename: mmap.filename,
        data: mmap.data,
    }
}

#[cfg(test)]
mod tests;

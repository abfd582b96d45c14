//! Who allocates, who keeps, who only churns?
//!
//! Allocations are put down to the code that made them and matched with what frees them: what is still there when the recording
//! ends is *growth*, what was freed is *churn*. Matching needs every event; where only some were recorded, growth is not told.
//! What was freed without its allocation having been seen is counted apart.

mod ranges;

use crate::site::{Site, SiteKey};
use memwide_decoder::local::Wanted;
use memwide_decoder::{NameIx, Names};
use ranges::Ranges;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most rows.
const ROWS_MAX: usize = 1 << 20;
/// Most allocations alive at once; further ones are not matched. Some 200 MB.
const LIVE_MAX: usize = 1 << 22;

/// Kernel functions that every allocation goes through.
pub const SKIP: [&str; 18] = [
    "trace_",
    "__traceiter_",
    "perf_",
    "__bpf_trace",
    "__alloc_pages",
    "alloc_pages",
    "__alloc_frozen_pages",
    "alloc_frozen_pages",
    "__folio_alloc",
    "folio_alloc",
    "vma_alloc_folio",
    "kmem_cache_alloc",
    "__kmem_cache_alloc",
    "__kmalloc",
    "kmalloc",
    "___slab_alloc",
    "__slab_alloc",
    "syscall_trace_enter",
];

/// Functions of programs that get memory for whoever asked: of the C library, of C++ and Rust, of jemalloc and
/// mimalloc. Whole names, or beginnings that end in `*`.
pub const ALLOCATORS: [&str; 51] = [
    "mmap",
    "mmap64",
    "__mmap",
    "__mmap64",
    "__GI___mmap*",
    "mremap",
    "__mremap",
    "__GI___mremap",
    "brk",
    "__brk",
    "sbrk",
    "__sbrk",
    "__GI___sbrk",
    "__default_morecore",
    "__glibc_morecore",
    "sysmalloc*",
    "new_heap",
    "alloc_new_heap",
    "arena_get2*",
    "tcache_init*",
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "malloc_consolidate",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign*",
    "__libc_malloc*",
    "__libc_calloc*",
    "__libc_realloc*",
    "__libc_memalign*",
    "__GI___libc_malloc*",
    "__posix_memalign",
    "mremap_chunk",
    "operator new*",
    "__rust_*",
    "__rdl_*",
    "__rustc::__r*",
    "alloc::alloc::*",
    "alloc::raw_vec::*",
    "<alloc::raw_vec::*",
    "<alloc::alloc::Global as*",
    "std::allocator<*",
    "_rjem_*",
    "je_*",
    "mi_*",
];

/// Most processes whose memory is followed.
const PROCESSES_MAX: usize = 1 << 20;

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::COMM | Wanted::CODE | Wanted::FRAMES
}

/// What was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The kernel's small objects (kmalloc, kmem_cache).
    Slab,
    /// Pages.
    Pages,
    /// Address space by `mmap`.
    Map,
    /// The heap's end, moved by `brk`.
    Break,
    /// A thread's stack.
    Stack,
    /// Address space set aside without access; what of it is used later, only `mprotect` tells.
    Reserved,
    /// A file, mapped.
    File,
    /// What the dynamic loader maps to start a program.
    Loader,
}

/// `MAP_ANONYMOUS`, on all machines but Alpha, MIPS, PA-RISC and Xtensa.
const ANONYMOUS: u64 = 0x20;
/// `MAP_STACK` and `MAP_GROWSDOWN` of the same.
const STACK: u64 = 0x2_0000 | 0x100;

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Slab,
        Self::Pages,
        Self::Map,
        Self::Break,
        Self::Stack,
        Self::Reserved,
        Self::File,
        Self::Loader,
    ];

    /// What `mmap` with these arguments makes, asked for by code of this object.
    pub fn of_map(prot: u64, flags: u64, dso: &str) -> Self {
        // musl's loader is its C library too.
        let is_loader = ["ld-linux", "ld-2.", "ld64.", "ld.so"]
            .iter()
            .any(|start| dso.starts_with(start));
        match () {
            () if is_loader => Self::Loader,
            () if flags & ANONYMOUS == 0 => Self::File,
            () if flags & STACK != 0 => Self::Stack,
            () if prot == 0 => Self::Reserved,
            () => Self::Map,
        }
    }

    /// Memory that programs and the kernel ask for to keep something in; the rest is what running takes.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Slab | Self::Pages | Self::Map | Self::Break)
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slab => "slab",
            Self::Pages => "pages",
            Self::Map => "mmap",
            Self::Break => "brk",
            Self::Stack => "stack",
            Self::Reserved => "reserved",
            Self::File => "file",
            Self::Loader => "loader",
        }
    }
}

/// Who allocates.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// Name of the task.
    pub comm: &'a str,
    /// Its code.
    pub site: Site<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    comm: NameIx,
    site: SiteKey,
}

/// Sums of some allocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Allocations.
    pub n: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of those, freed again.
    pub freed_n: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// When the first and the last one was made, in nanoseconds of the file's clock.
    pub window_ns: Option<(u64, u64)>,
}

impl Sums {
    /// Bytes still there at the end.
    pub fn live_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.freed_bytes)
    }

    /// What allocations of a kind do, in a word.
    pub fn pattern(&self, kind: Kind) -> &'static str {
        // A few large ones that come and go must not hide many small ones that stay. A break is one thing that moves.
        let nearly = |part: u64, whole: u64| part.saturating_mul(10) >= whole.saturating_mul(9);
        let go = kind == Kind::Break || nearly(self.freed_n, self.n);
        if self.bytes == 0 {
            "–"
        } else if nearly(self.freed_bytes, self.bytes) && go {
            "churn"
        } else if self.freed_bytes.saturating_mul(2) <= self.bytes {
            if kind.is_memory() { "growth" } else { "kept" }
        } else {
            "both"
        }
    }

    /// Puts others to these.
    pub fn add(&mut self, other: &Self) {
        let both = self.window_ns.zip(other.window_ns);
        self.window_ns = both
            .map(|(own, other)| (own.0.min(other.0), own.1.max(other.1)))
            .or(self.window_ns)
            .or(other.window_ns);
        self.n += other.n;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.freed_n += other.freed_n;
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
    }
}

/// What a thread asked the kernel for, until it hears the answer.
#[derive(Debug, Clone, Copy)]
enum Call {
    Map {
        len: u64,
        row: Option<u32>,
    },
    Break {
        row: Option<u32>,
    },
    Remap {
        addr: u64,
        old_len: u64,
        new_len: u64,
        row: Option<u32>,
    },
}

/// Allocations by code.
#[derive(Debug, Default)]
pub struct Allocs {
    names: Names,
    rows: Vec<(Key, Sums)>,
    index: FxHashMap<Key, u32>,
    /// By address or page frame: bytes and row.
    live: FxHashMap<(Kind, u64), (u64, u32)>,
    spaces: FxHashMap<u32, Space>,
    calls: FxHashMap<u32, Call>,
    unmatched: FxHashMap<Kind, (u64, u64)>,
    now_ns: u64,
}

/// What is mapped in one process.
#[derive(Debug, Default)]
struct Space {
    maps: Ranges,
    heap: Ranges,
    heap_end: Option<u64>,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// What was allocated.
    pub kind: Kind,
    /// Name of the task.
    pub comm: &'a str,
    /// Its code.
    pub site: Site<'a>,
    /// Sums.
    pub sums: Sums,
}

/// What a process still has of what one row allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<'a> {
    /// The row, with the sums of all processes.
    pub row: Row<'a>,
    /// Bytes of this process.
    pub bytes: u64,
    /// In so many pieces.
    pub n: u64,
}

impl Allocs {
    /// What comes next happens at this time, in nanoseconds of the file's clock.
    pub fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn row(&mut self, kind: Kind, by: &By<'_>) -> Option<u32> {
        let key = Key {
            kind,
            comm: self.names.intern(by.comm),
            site: SiteKey::of(&mut self.names, &by.site),
        };
        if let Some(row) = self.index.get(&key) {
            return Some(*row);
        }
        if self.rows.len() >= ROWS_MAX {
            return None;
        }
        let row = u32::try_from(self.rows.len()).ok()?;
        self.rows.push((key, Sums::default()));
        self.index.insert(key, row);
        Some(row)
    }

    fn allocated(&mut self, row: Option<u32>, bytes: u64) {
        let found = row.and_then(|row| self.rows.get_mut(row as usize));
        if let Some((_, sums)) = found {
            let now = self.now_ns;
            let first = sums.window_ns.map_or(now, |(first, _)| first);
            sums.window_ns = Some((first, now));
            sums.n += 1;
            sums.bytes = sums.bytes.saturating_add(bytes);
        }
    }

    fn freed(&mut self, row: u32, bytes: u64, whole: bool) {
        if let Some((_, sums)) = self.rows.get_mut(row as usize) {
            sums.freed_n += u64::from(whole);
            sums.freed_bytes = sums.freed_bytes.saturating_add(bytes);
        }
    }

    fn not_matched(&mut self, kind: Kind, bytes: u64) {
        let unmatched = self.unmatched.entry(kind).or_default();
        unmatched.0 += 1;
        unmatched.1 = unmatched.1.saturating_add(bytes);
    }

    /// Slab objects (by address) or pages (by frame) were allocated; `place` is `None` where the kernel does not say.
    pub fn alloc(&mut self, kind: Kind, place: Option<u64>, bytes: u64, by: &By<'_>) {
        let row = self.row(kind, by);
        self.allocated(row, bytes);
        if let (Some(place), Some(row)) = (place, row)
            && self.live.len() < LIVE_MAX
        {
            self.live.insert((kind, place), (bytes, row));
        }
    }

    /// … or freed; `bytes` as far as the freeing event knows. `counts`: it is asked for, so it counts also if its allocation was
    /// not seen.
    pub fn free(&mut self, kind: Kind, place: Option<u64>, bytes: u64, counts: bool) {
        match place.and_then(|place| self.live.remove(&(kind, place))) {
            Some((bytes, row)) => self.freed(row, bytes, true),
            None if counts => self.not_matched(kind, bytes),
            None => {}
        }
    }

    /// A thread asks for a mapping of a kind.
    pub fn ask_map(&mut self, kind: Kind, tid: u32, len: u64, by: &By<'_>) {
        let row = self.row(kind, by);
        self.call(tid, Call::Map { len, row });
    }

    /// A thread asks for a mapping to be grown, shrunk or moved.
    pub fn ask_remap(&mut self, tid: u32, addr: u64, old_len: u64, new_len: u64, by: &By<'_>) {
        let row = self.row(Kind::Map, by);
        let call = Call::Remap {
            addr,
            old_len,
            new_len,
            row,
        };
        self.call(tid, call);
    }

    /// A thread asks for its heap to end elsewhere.
    pub fn ask_break(&mut self, tid: u32, by: &By<'_>) {
        let row = self.row(Kind::Break, by);
        self.call(tid, Call::Break { row });
    }

    fn call(&mut self, tid: u32, call: Call) {
        if self.calls.len() < LIVE_MAX || self.calls.contains_key(&tid) {
            self.calls.insert(tid, call);
        }
    }

    /// The kernel answers the thread's call: an address, or a negative error.
    pub fn answered(&mut self, pid: u32, tid: u32, result: i64) {
        let Some(call) = self.calls.remove(&tid) else {
            return;
        };
        let Ok(place) = u64::try_from(result) else {
            return; // it was refused
        };
        match call {
            Call::Map { len, row } => {
                self.allocated(row, len);
                if let Some(row) = row {
                    self.unmap(pid, place, len, false);
                    self.space(pid).maps.insert(place, len, row);
                }
            }
            Call::Remap {
                addr,
                old_len,
                new_len,
                row,
            } => {
                self.unmap(pid, addr, old_len, true);
                self.allocated(row, new_len);
                if let Some(row) = row {
                    self.space(pid).maps.insert(place, new_len, row);
                }
            }
            Call::Break { row } => self.moved_break(pid, place, row),
        }
    }

    fn space(&mut self, pid: u32) -> &mut Space {
        self.spaces.entry(pid).or_default()
    }

    /// A process becomes another program: what it had mapped is gone.
    pub fn exec(&mut self, pid: u32) {
        let Some(mut space) = self.spaces.remove(&pid) else {
            return;
        };
        for ranges in [&mut space.maps, &mut space.heap] {
            for piece in ranges.remove(0, u64::MAX) {
                // Nobody gave it back: that is no churn.
                self.freed(piece.row, piece.bytes, false);
            }
        }
    }

    /// A process starts as a copy of another: its heap ends where that one's does, and what it has it did not ask for.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let heap_end = self.spaces.get(&parent).and_then(|space| space.heap_end);
        let space = Space {
            heap_end,
            ..Space::default()
        };
        if self.spaces.len() < PROCESSES_MAX {
            self.spaces.insert(child, space);
        }
    }

    /// What each process still has of address space, by row.
    pub fn kept(&self) -> impl Iterator<Item = (u32, Vec<Kept<'_>>)> {
        self.spaces.iter().map(|(pid, space)| {
            let mut by_row: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for (row, bytes) in space.maps.iter().chain(space.heap.iter()) {
                let kept = by_row.entry(row).or_default();
                *kept = (kept.0 + bytes, kept.1 + 1);
            }
            let kept = by_row.into_iter().filter_map(|(row, (bytes, n))| {
                let (key, sums) = self.rows.get(row as usize)?;
                Some(Kept {
                    row: self.row_of(key, *sums),
                    bytes,
                    n,
                })
            });
            (*pid, kept.collect())
        })
    }

    /// A thread unmaps a range, or parts of several mappings.
    pub fn unmap(&mut self, pid: u32, addr: u64, len: u64, count_unknown: bool) {
        let freed = self.space(pid).maps.remove(addr, len);
        let known: u64 = freed.iter().map(|piece| piece.bytes).sum();
        for piece in freed {
            self.freed(piece.row, piece.bytes, piece.whole);
        }
        if count_unknown && known < len {
            self.not_matched(Kind::Map, len - known);
        }
    }

    fn moved_break(&mut self, pid: u32, end: u64, row: Option<u32>) {
        let space = self.space(pid);
        let before = space.heap_end.replace(end);
        let Some(before) = before else {
            return; // the first answer only says where the heap ends
        };
        if end > before {
            if let Some(row) = row {
                space.heap.insert(before, end - before, row);
            }
            self.allocated(row, end - before);
        } else if end < before {
            let freed = space.heap.remove(end, before - end);
            let known: u64 = freed.iter().map(|piece| piece.bytes).sum();
            for piece in freed {
                self.freed(piece.row, piece.bytes, piece.whole);
            }
            if known < before - end {
                self.not_matched(Kind::Break, before - end - known);
            }
        }
    }

    fn row_of(&self, key: &Key, sums: Sums) -> Row<'_> {
        Row {
            kind: key.kind,
            comm: self.names.get(key.comm),
            site: key.site.site(&self.names),
            sums,
        }
    }

    /// Sums of each kind.
    pub fn totals(&self) -> Vec<(Kind, Sums)> {
        let mut totals: FxHashMap<Kind, Sums> = FxHashMap::default();
        for (key, sums) in &self.rows {
            totals.entry(key.kind).or_default().add(sums);
        }
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter_map(|kind| Some((kind, *totals.get(&kind)?)))
            .collect()
    }

    /// Freed without its allocation having been seen: how often, bytes.
    pub fn unmatched(&self, kind: Kind) -> (u64, u64) {
        self.unmatched.get(&kind).copied().unwrap_or_default()
    }

    /// The rows, memory before what running takes, what grew most first, then what allocated most.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let used = self.rows.iter().filter(|(_, sums)| sums.n > 0);
        let mut rows: Vec<Row<'_>> = used.map(|(key, sums)| self.row_of(key, *sums)).collect();
        rows.sort_by(|one, other| {
            let size = |row: &Row<'_>| {
                let sums = row.sums;
                (row.kind.is_memory(), sums.live_bytes(), sums.bytes)
            };
            size(other).cmp(&size(one)).then_with(|| {
                (one.kind, one.comm, one.site).cmp(&(other.kind, other.comm, other.site))
            })
        });
        rows
    }
}

#[cfg(test)]
mod tests;

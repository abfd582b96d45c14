//! Memory: the kernel's allocations, pages, faults, access frequencies.

use super::event::Fields;
use super::{FieldReader, Symbols};

/// The kernel allocated memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alloc {
    /// Code that asked.
    pub call_site: u64,
    /// What it got; 0 if there was none.
    pub ptr: u64,
    /// Bytes asked for.
    pub bytes_requested: u64,
    /// Bytes the allocator gave.
    pub bytes_allocated: u64,
    /// `GFP` flags of the recorded kernel, whose numbers differ between versions.
    pub gfp_flags: u64,
    /// Memory node asked for; `None` for any, or where the kernel does not say.
    pub node: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct AllocFields {
    call_site: FieldReader,
    ptr: FieldReader,
    requested: FieldReader,
    allocated: FieldReader,
    gfp: Option<FieldReader>,
    node: Option<FieldReader>,
}

impl AllocFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            call_site: fields.get("call_site")?,
            ptr: fields.get("ptr")?,
            requested: fields.get("bytes_req")?,
            allocated: fields.get("bytes_alloc")?,
            gfp: fields.get("gfp_flags"),
            node: fields.get("node"),
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<Alloc> {
        let node = self.node.and_then(|node| node.signed(raw));
        Some(Alloc {
            call_site: self.call_site.unsigned(raw)?,
            ptr: self.ptr.unsigned(raw)?,
            bytes_requested: self.requested.unsigned(raw)?,
            bytes_allocated: self.allocated.unsigned(raw)?,
            gfp_flags: optional(self.gfp, raw).unwrap_or_default(),
            node: node.and_then(|node| u32::try_from(node).ok()), // -1: any
        })
    }
}

/// The kernel freed memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Free<'a> {
    /// Code that freed it.
    pub call_site: u64,
    /// What it gave back; `kfree(NULL)` is 0.
    pub ptr: u64,
    /// Cache it belongs to, in kernels that say so.
    pub cache: Option<&'a [u8]>,
}

#[derive(Debug, Clone)]
pub(super) struct FreeFields {
    call_site: FieldReader,
    ptr: FieldReader,
    cache: Option<FieldReader>,
}

impl FreeFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            call_site: fields.get("call_site")?,
            ptr: fields.get("ptr")?,
            cache: fields.get("name"),
        })
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Free<'a>> {
        Some(Free {
            call_site: self.call_site.unsigned(raw)?,
            ptr: self.ptr.unsigned(raw)?,
            cache: self.cache.and_then(|cache| cache.text(raw)),
        })
    }
}

/// Pages were allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageAlloc {
    /// Number of the first page frame; `None` if there was no memory, or in kernels before 4.2, which give a pointer.
    pub pfn: Option<u64>,
    /// 2 to the power of this many pages.
    pub order: u32,
    /// `GFP` flags of the recorded kernel.
    pub gfp_flags: u64,
    /// Kind of the free list they came from, numbered as the recorded kernel does.
    pub migrate_type: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) struct PageAllocFields {
    pfn: Option<FieldReader>,
    order: FieldReader,
    gfp: Option<FieldReader>,
    migrate_type: Option<FieldReader>,
}

impl PageAllocFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            pfn: fields.get("pfn"),
            order: fields.get("order")?,
            gfp: fields.get("gfp_flags"),
            migrate_type: fields.get("migratetype"),
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<PageAlloc> {
        Some(PageAlloc {
            pfn: frame(self.pfn, raw),
            order: order(&self.order, raw)?,
            gfp_flags: optional(self.gfp, raw).unwrap_or_default(),
            migrate_type: self.migrate_type.and_then(|kind| kind.signed(raw)),
        })
    }
}

/// Pages were freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageFree {
    /// Number of the first page frame; `None` in kernels before 4.2.
    pub pfn: Option<u64>,
    /// 2 to the power of this many pages.
    pub order: u32,
}

#[derive(Debug, Clone)]
pub(super) struct PageFreeFields {
    pfn: Option<FieldReader>,
    order: FieldReader,
}

impl PageFreeFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            pfn: fields.get("pfn"),
            order: fields.get("order")?,
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<PageFree> {
        Some(PageFree {
            pfn: frame(self.pfn, raw),
            order: order(&self.order, raw)?,
        })
    }
}

/// A memory counter of a process changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RssStat {
    /// Identifies the address space, in kernels since 5.6.
    pub mm_id: Option<u64>,
    /// The task that caused it owns the memory, in kernels since 5.6.
    pub current: Option<bool>,
    /// Which counter.
    pub member: RssMember,
    /// The counter's new value, in bytes; swap entries are counted as pages are.
    pub bytes: i64,
}

/// Which memory of a process is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RssMember {
    /// Pages of files.
    File,
    /// Anonymous pages.
    Anonymous,
    /// Swap entries.
    Swap,
    /// Shared memory.
    Shared,
    /// A counter without a name, by its number.
    Other(i64),
}

#[derive(Debug, Clone)]
pub(super) struct RssStatFields {
    mm_id: Option<FieldReader>,
    current: Option<FieldReader>,
    member: FieldReader,
    size: FieldReader,
    names: Symbols,
}

impl RssStatFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            mm_id: fields.get("mm_id"),
            current: fields.get("curr"),
            member: fields.get("member")?,
            size: fields.get("size")?,
            names: fields.symbols("member"),
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<RssStat> {
        Some(RssStat {
            mm_id: optional(self.mm_id, raw),
            current: optional(self.current, raw).map(|current| current != 0),
            member: self.member(self.member.signed(raw)?),
            bytes: self.size.signed(raw)?,
        })
    }

    /// By the name the recorded kernel gives the number, else as kernels since 4.5 number them.
    fn member(&self, number: i64) -> RssMember {
        let name = self.names.name(number.cast_unsigned());
        match (name.as_deref(), number) {
            (Some("MM_FILEPAGES"), _) | (None, 0) => RssMember::File,
            (Some("MM_ANONPAGES"), _) | (None, 1) => RssMember::Anonymous,
            (Some("MM_SWAPENTS"), _) | (None, 2) => RssMember::Swap,
            (Some("MM_SHMEMPAGES"), _) | (None, 3) => RssMember::Shared,
            _ => RssMember::Other(number),
        }
    }
}

/// A page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageFault {
    /// User code ran into it, not the kernel.
    pub user: bool,
    /// Data address.
    pub address: u64,
    /// Code address.
    pub ip: u64,
    /// The architecture's error code; on x86 bit 0 page present, 1 write, 2 user, 4 instruction fetch.
    pub error_code: u64,
}

#[derive(Debug, Clone)]
pub(super) struct PageFaultFields {
    user: bool,
    address: FieldReader,
    ip: FieldReader,
    error_code: FieldReader,
}

impl PageFaultFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            user: fields.name() == "page_fault_user",
            address: fields.get("address")?,
            ip: fields.get("ip")?,
            error_code: fields.get("error_code")?,
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<PageFault> {
        Some(PageFault {
            user: self.user,
            address: self.address.unsigned(raw)?,
            ip: self.ip.unsigned(raw)?,
            error_code: self.error_code.unsigned(raw)?,
        })
    }
}

/// How often a region was accessed, as the kernel's access monitor found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DamonRegion {
    /// The monitored target: an address space or physical memory.
    pub target: u64,
    /// Regions of that target now.
    pub regions: u64,
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Sampling intervals of this aggregation interval in which it was accessed.
    pub accesses: u64,
    /// Aggregation intervals since its access frequency changed, in kernels since 5.18.
    pub age: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct DamonFields {
    target: FieldReader,
    regions: FieldReader,
    start: FieldReader,
    end: FieldReader,
    accesses: FieldReader,
    age: Option<FieldReader>,
}

impl DamonFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            target: fields.get("target_id")?,
            regions: fields.get("nr_regions")?,
            start: fields.get("start")?,
            end: fields.get("end")?,
            accesses: fields.get("nr_accesses")?,
            age: fields.get("age"),
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<DamonRegion> {
        Some(DamonRegion {
            target: self.target.unsigned(raw)?,
            regions: self.regions.unsigned(raw)?,
            start: self.start.unsigned(raw)?,
            end: self.end.unsigned(raw)?,
            accesses: self.accesses.unsigned(raw)?,
            age: optional(self.age, raw),
        })
    }
}

fn optional(field: Option<FieldReader>, raw: &[u8]) -> Option<u64> {
    field?.unsigned(raw)
}

fn order(field: &FieldReader, raw: &[u8]) -> Option<u32> {
    u32::try_from(field.unsigned(raw)?).ok()
}

/// All ones of a `long` of either size: no page.
fn frame(field: Option<FieldReader>, raw: &[u8]) -> Option<u64> {
    let field = field?;
    let none = field.signed(raw)? == -1;
    field.unsigned(raw).filter(|_| !none)
}

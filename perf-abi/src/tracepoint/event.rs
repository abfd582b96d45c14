//! Tracepoints with a meaning of their own, found by name.

use super::memory::{self, Alloc, DamonRegion, Free, PageAlloc, PageFault, PageFree, RssStat};
use super::sched::{self, Exec, Exit, Fork, Switch, Wakeup};
use super::syscall::{self, SyscallEnter, SyscallExit};
use super::{FieldReader, Symbols};
use crate::file::Tracepoint;

/// What a sample of a known tracepoint says. Addresses and sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TracepointEvent<'a> {
    /// The kernel allocated memory: `kmem:kmalloc`, `kmalloc_node`, `kmem_cache_alloc`, `kmem_cache_alloc_node`.
    Alloc(Alloc),
    /// The kernel freed memory: `kmem:kfree`, `kmem_cache_free`.
    Free(Free<'a>),
    /// Pages were allocated: `kmem:mm_page_alloc`.
    PageAlloc(PageAlloc),
    /// Pages were freed: `kmem:mm_page_free`.
    PageFree(PageFree),
    /// A process's memory counter changed: `kmem:rss_stat`.
    RssStat(RssStat),
    /// Another task runs: `sched:sched_switch`.
    Switch(Switch<'a>),
    /// A task became runnable: `sched:sched_wakeup`, `sched_wakeup_new`, `sched_waking`.
    Wakeup(Wakeup<'a>),
    /// A task was started: `sched:sched_process_fork`.
    Fork(Fork<'a>),
    /// A program was started: `sched:sched_process_exec`.
    Exec(Exec<'a>),
    /// A task ended: `sched:sched_process_exit`, `sched_process_free`, `sched_process_wait`.
    Exit(Exit<'a>),
    /// A system call begins: `syscalls:sys_enter_*`, `raw_syscalls:sys_enter`.
    SyscallEnter(SyscallEnter),
    /// A system call ends: `syscalls:sys_exit_*`, `raw_syscalls:sys_exit`.
    SyscallExit(SyscallExit),
    /// A page fault: `exceptions:page_fault_user`, `page_fault_kernel`.
    PageFault(PageFault),
    /// How often a region was accessed: `damon:damon_aggregated`.
    DamonRegion(DamonRegion),
}

/// Reads the samples of one tracepoint. Make one for each and keep it.
#[derive(Debug, Clone)]
pub struct EventReader(Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Alloc(memory::AllocFields),
    Free(memory::FreeFields),
    PageAlloc(memory::PageAllocFields),
    PageFree(memory::PageFreeFields),
    RssStat(memory::RssStatFields),
    Switch(sched::SwitchFields),
    Wakeup(sched::WakeupFields),
    Fork(sched::ForkFields),
    Exec(sched::ExecFields),
    Exit(sched::ExitFields),
    SyscallEnter(syscall::EnterFields),
    SyscallExit(syscall::ExitFields),
    PageFault(memory::PageFaultFields),
    Damon(memory::DamonFields),
}

impl EventReader {
    /// For a tracepoint with a meaning; `None` for any other, or if it lacks what it is known by.
    pub fn new(tracepoint: &Tracepoint) -> Option<Self> {
        let fields = Fields(tracepoint);
        let kind = match (tracepoint.system.as_str(), tracepoint.name.as_str()) {
            ("kmem", "kmalloc" | "kmalloc_node" | "kmem_cache_alloc" | "kmem_cache_alloc_node") => {
                Kind::Alloc(memory::AllocFields::new(&fields)?)
            }
            ("kmem", "kfree" | "kmem_cache_free") => Kind::Free(memory::FreeFields::new(&fields)?),
            ("kmem", "mm_page_alloc") => Kind::PageAlloc(memory::PageAllocFields::new(&fields)?),
            ("kmem", "mm_page_free" | "mm_page_free_direct") => {
                Kind::PageFree(memory::PageFreeFields::new(&fields)?)
            }
            ("kmem", "rss_stat") => Kind::RssStat(memory::RssStatFields::new(&fields)?),
            ("sched", "sched_switch") => Kind::Switch(sched::SwitchFields::new(&fields)?),
            ("sched", "sched_wakeup" | "sched_wakeup_new" | "sched_waking") => {
                Kind::Wakeup(sched::WakeupFields::new(&fields)?)
            }
            ("sched", "sched_process_fork") => Kind::Fork(sched::ForkFields::new(&fields)?),
            ("sched", "sched_process_exec") => Kind::Exec(sched::ExecFields::new(&fields)?),
            ("sched", "sched_process_exit" | "sched_process_free" | "sched_process_wait") => {
                Kind::Exit(sched::ExitFields::new(&fields)?)
            }
            ("syscalls" | "raw_syscalls", name) if name.starts_with("sys_enter") => {
                Kind::SyscallEnter(syscall::EnterFields::new(&fields)?)
            }
            ("syscalls" | "raw_syscalls", name) if name.starts_with("sys_exit") => {
                Kind::SyscallExit(syscall::ExitFields::new(&fields)?)
            }
            ("exceptions", "page_fault_user" | "page_fault_kernel") => {
                Kind::PageFault(memory::PageFaultFields::new(&fields)?)
            }
            ("damon", "damon_aggregated") => Kind::Damon(memory::DamonFields::new(&fields)?),
            _ => return None,
        };
        Some(Self(kind))
    }

    /// What a sample says; `None` if its raw data ends before the fields do.
    pub fn read<'a>(&self, raw: &'a [u8]) -> Option<TracepointEvent<'a>> {
        Some(match &self.0 {
            Kind::Alloc(fields) => TracepointEvent::Alloc(fields.read(raw)?),
            Kind::Free(fields) => TracepointEvent::Free(fields.read(raw)?),
            Kind::PageAlloc(fields) => TracepointEvent::PageAlloc(fields.read(raw)?),
            Kind::PageFree(fields) => TracepointEvent::PageFree(fields.read(raw)?),
            Kind::RssStat(fields) => TracepointEvent::RssStat(fields.read(raw)?),
            Kind::Switch(fields) => TracepointEvent::Switch(fields.read(raw)?),
            Kind::Wakeup(fields) => TracepointEvent::Wakeup(fields.read(raw)?),
            Kind::Fork(fields) => TracepointEvent::Fork(fields.read(raw)?),
            Kind::Exec(fields) => TracepointEvent::Exec(fields.read(raw)?),
            Kind::Exit(fields) => TracepointEvent::Exit(fields.read(raw)?),
            Kind::SyscallEnter(fields) => TracepointEvent::SyscallEnter(fields.read(raw)?),
            Kind::SyscallExit(fields) => TracepointEvent::SyscallExit(fields.read(raw)?),
            Kind::PageFault(fields) => TracepointEvent::PageFault(fields.read(raw)?),
            Kind::Damon(fields) => TracepointEvent::DamonRegion(fields.read(raw)?),
        })
    }
}

/// The fields of a tracepoint by name.
pub(super) struct Fields<'t>(pub(super) &'t Tracepoint);

impl Fields<'_> {
    /// The field with one of `names`: kernels renamed some.
    pub(super) fn any(&self, names: &[&str]) -> Option<FieldReader> {
        let found = names.iter().find_map(|name| self.0.field(name));
        found.map(FieldReader::new)
    }

    pub(super) fn get(&self, name: &str) -> Option<FieldReader> {
        self.any(&[name])
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn symbols(&self, field: &str) -> Symbols {
        Symbols::of(self.0, field).unwrap_or_default()
    }
}

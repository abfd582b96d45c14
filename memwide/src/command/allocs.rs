//! `memwide allocs`: churn against growth.

use super::on_file::{Answer, OnFile};
use crate::cli::AllocsArgs;
use crate::failure::Failure;
use crate::output::{Listing, grouped};
use crate::recording::Recording;
use memwide_analysis::allocs::{ALLOCATORS, Allocs, By, Kind, SKIP, wanted};
use memwide_analysis::site::{Site, Wanted};
use memwide_analysis::tracepoints::{Tracepoints, is_whole};
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::tracepoint::{MemoryCall, TracepointEvent};
use serde_json::{Value, json};

/// Bytes of a page of the recorded kernel; x86 has no other.
const PAGE: u64 = 4096;

/// What a file tells of allocations.
pub(super) struct Reader {
    pub(super) allocs: Allocs,
    /// Not every event was recorded.
    pub(super) partial: bool,
    /// Events of allocations.
    pub(super) seen: u64,
    tracepoints: Tracepoints,
    callers: usize,
    buffer: String,
}

impl Reader {
    pub(super) fn new(recording: &Recording, callers: usize) -> Self {
        let tracing = recording.tracing_data().map(AsRef::as_ref);
        Self {
            allocs: Allocs::default(),
            partial: false,
            seen: 0,
            tracepoints: Tracepoints::new(recording.events(), tracing),
            callers,
            buffer: String::new(),
        }
    }

    /// Takes a sample. What is freed is matched whoever frees it: a filter chooses who allocates.
    pub(super) fn add(&mut self, sample: &LocalSample<'_>, counts: bool) {
        let Some(event) = self.tracepoints.read(sample) else {
            return;
        };
        let sites = Wanted {
            skip: &SKIP,
            over: &ALLOCATORS,
            callers: self.callers,
        };
        let site = Site::of(sample, sites, &mut self.buffer);
        if take(&mut self.allocs, sample, &event, site, counts) {
            self.seen += 1;
            self.partial |= !is_whole(sample.event);
        }
    }
}

pub(crate) fn run(args: &AllocsArgs) -> Result<(), Failure> {
    let file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let names = file.recording().events().clone();
    let records = |call: &str| {
        let ends = |name: &str| name.ends_with(call);
        names.events().iter().any(|event| ends(&event.name))
    };
    let mut reader = Reader::new(file.recording(), args.sites.callers);
    let left = file.each_with(|_, _| {}, |sample, counts| reader.add(sample, counts))?;
    let Reader {
        allocs,
        partial,
        seen,
        ..
    } = reader;
    let mut listing = Listing::default()
        .column("live_bytes", "growth", "bytes")
        .column("bytes", "allocated", "bytes")
        .wide("freed_bytes", "freed", "bytes")
        .column("allocations", "allocs", "n")
        .wide("frees", "frees", "n")
        .column("kind", "kind", "")
        .column("pattern", "pattern", "")
        .column("comm", "comm", "")
        .column("function", "function", "")
        .column("callers", "called by", "")
        .wide("dso", "object", "")
        .wide("kernel", "in the kernel", "");
    for row in allocs.rows() {
        let told = !partial;
        let only = |value: Value| if told { value } else { Value::Null };
        listing.push(vec![
            only(row.sums.live_bytes().into()),
            row.sums.bytes.into(),
            only(row.sums.freed_bytes.into()),
            row.sums.n.into(),
            only(row.sums.freed_n.into()),
            row.kind.name().into(),
            only(row.sums.pattern(row.kind).into()),
            row.comm.into(),
            row.site.function.into(),
            row.site.callers.into(),
            row.site.dso.into(),
            row.site.kernel.into(),
        ]);
    }
    let totals = allocs.totals();
    let mut notes = Vec::new();
    for (kind, sums) in &totals {
        notes.push(format!(
            "{}: {} allocations of {} bytes, {} bytes freed again, {} still there",
            kind.name(),
            grouped(sums.n),
            grouped(sums.bytes),
            grouped(sums.freed_bytes),
            grouped(sums.live_bytes())
        ));
    }
    for kind in Kind::ALL {
        let (n, bytes) = allocs.unmatched(kind);
        if n > 0 {
            notes.push(format!(
                "{}: {} frees ({} bytes as far as known) of what was allocated before, or by events that are not recorded",
                kind.name(),
                grouped(n),
                grouped(bytes)
            ));
        }
    }
    if records("sys_enter_mmap") && !records("sys_enter_mremap") {
        notes.push("mremap was not recorded: what grew by it (large `realloc`s) is not in growth; add -e syscalls:sys_enter_mremap,syscalls:sys_exit_mremap".to_owned());
    }
    if partial {
        notes.push("not every event was recorded (period above 1): frees cannot be matched, so growth is not told".to_owned());
    }
    if seen == 0 {
        notes.push("this file has no event of allocations; `memwide allocs --help` says how to record some".to_owned());
    }
    let total = totals.iter().map(|(kind, sums)| {
        let (unmatched, unmatched_bytes) = allocs.unmatched(*kind);
        json!({
            "kind": kind.name(), "allocations": sums.n, "bytes": sums.bytes, "frees": sums.freed_n,
            "freed_bytes": sums.freed_bytes, "live_bytes": sums.live_bytes(),
            "unmatched_frees": unmatched, "unmatched_bytes": unmatched_bytes,
        })
    });
    Answer {
        listing,
        json: json!({"total": total.collect::<Vec<_>>(), "matched": !partial}),
        notes,
        ..Answer::default()
    }
    .finish(left, &args.file.rows)
}

/// Whether the event has to do with allocations.
fn take(
    allocs: &mut Allocs,
    sample: &LocalSample<'_>,
    event: &TracepointEvent<'_>,
    site: Site<'_>,
    counts: bool,
) -> bool {
    let by = By {
        comm: sample.comm,
        site,
    };
    let (pid, tid) = (sample.pid().unwrap_or(0), sample.tid().unwrap_or(0));
    match event {
        TracepointEvent::Alloc(alloc) if counts => {
            let place = Some(alloc.ptr).filter(|ptr| *ptr != 0);
            allocs.alloc(Kind::Slab, place, alloc.bytes_allocated, &by);
        }
        TracepointEvent::Free(free) if free.ptr != 0 => {
            allocs.free(Kind::Slab, Some(free.ptr), 0, counts);
        }
        TracepointEvent::PageAlloc(pages) if counts => {
            allocs.alloc(Kind::Pages, pages.pfn, bytes(pages.order), &by);
        }
        TracepointEvent::PageFree(pages) => {
            allocs.free(Kind::Pages, pages.pfn, bytes(pages.order), counts);
        }
        TracepointEvent::SyscallExit(exit) => allocs.answered(pid, tid, exit.result),
        TracepointEvent::SyscallEnter(enter) => match enter.memory {
            Some(_) if !counts => return false,
            Some(MemoryCall::Map { len, .. }) => allocs.ask_map(tid, len, &by),
            Some(MemoryCall::Unmap { addr, len }) => allocs.unmap(pid, addr, len, true),
            Some(MemoryCall::Break { .. }) => allocs.ask_break(tid, &by),
            Some(MemoryCall::Remap {
                addr,
                old_len,
                new_len,
                ..
            }) => allocs.ask_remap(tid, addr, old_len, new_len, &by),
            _ => return false,
        },
        _ => return false,
    }
    true
}

fn bytes(order: u32) -> u64 {
    PAGE.checked_shl(order).unwrap_or(u64::MAX)
}

//! `memwide allocs`: churn against growth.

use super::of_server;
use super::on_file::{Answer, OnFile};
use crate::cli::AllocsArgs;
use crate::failure::Failure;
use crate::output::{Listing, grouped};
use crate::recording::Recording;
use memwide_analysis::allocs::{ALLOCATORS, Allocs, By, Kind, Row, SKIP, wanted};
use memwide_analysis::site::{Asker, Site, SiteFilter, Wanted};
use memwide_analysis::tracepoints::{Tracepoints, is_whole};
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::tracepoint::{MemoryCall, TracepointEvent};
use memwide_perf_abi::{RawRecord, Record, kind};
use serde_json::{Value, json};
use std::cell::RefCell;

/// Bytes of a page of the recorded kernel; x86 has no other.
const PAGE: u64 = 4096;

/// What tells who asked for memory.
const STACKS_REMEDY: &str =
    "record with `memwide record --call-graph dwarf`, which copies the stack";

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
    /// Which sites count.
    sites: SiteFilter,
}

impl Reader {
    pub(super) fn new(recording: &Recording, callers: usize, sites: SiteFilter) -> Self {
        let tracing = recording.tracing_data().map(AsRef::as_ref);
        Self {
            allocs: Allocs::default(),
            partial: false,
            seen: 0,
            tracepoints: Tracepoints::new(recording.events(), tracing),
            callers,
            buffer: String::new(),
            sites,
        }
    }

    /// Takes a record, before the sample if it is one.
    pub(super) fn record(&mut self, record: &RawRecord<'_>) {
        if !matches!(record.kind, kind::COMM | kind::FORK) {
            return;
        }
        match Record::parse(*record) {
            Ok(Record::Comm(comm)) if comm.exec => self.allocs.exec(comm.pid),
            Ok(Record::Fork(task)) if task.pid != task.ppid => {
                self.allocs.fork(task.ppid, task.pid);
            }
            _ => {}
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
        let counts = counts && self.sites.takes(&site);
        if take(&mut self.allocs, sample, &event, site, counts) {
            self.seen += 1;
            self.partial |= !is_whole(sample.event);
        }
    }
}

pub(crate) fn run(args: &AllocsArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("allocs", &args.file) {
        return answered;
    }
    let mut file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let sites = file.take_sites();
    let names = file.recording().events().clone();
    let records = |call: &str| {
        let ends = |name: &str| name.ends_with(call);
        names.events().iter().any(|event| ends(&event.name))
    };
    let reader = RefCell::new(Reader::new(file.recording(), args.sites.callers, sites));
    let mut left = file.each_with(
        |record, _| reader.borrow_mut().record(record),
        |sample, counts| reader.borrow_mut().add(sample, counts),
    )?;
    left.unfit |= reader.borrow().sites.unfit();
    let lost = left.lost_records();
    let Reader {
        allocs,
        partial,
        seen,
        ..
    } = reader.into_inner();
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
        .wide("asker", "asker", "")
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
            only(pattern(&row, lost).into()),
            row.comm.into(),
            row.site.function.into(),
            called_by(&row.site).into(),
            row.site.asker.name().into(),
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
    if lost > 0 && seen > 0 {
        notes.push(format!(
            "{} records were lost: calls that free may be missing, so patterns with ? are not certain; record fewer events, or only one process",
            grouped(lost)
        ));
    }
    notes.extend(not_known(&allocs));
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
        json: json!({"total": total.collect::<Vec<_>>(), "matched": !partial && lost == 0}),
        notes,
        ..Answer::default()
    }
    .finish(left, &args.file.rows)
}

/// The pattern, with a question mark where frees may be missing.
fn pattern(row: &Row<'_>, lost: u64) -> String {
    let pattern = row.sums.pattern(row.kind);
    let doubt = if lost > 0 { "?" } else { "" };
    format!("{pattern}{doubt}")
}

fn called_by(site: &Site<'_>) -> String {
    match site.asker {
        Asker::Unknown => "[unknown: the chain ends here]".to_owned(),
        Asker::Known | Asker::Doubtful => site.callers.to_owned(),
    }
}

/// How often it is not known who asked, and what would tell.
fn not_known(allocs: &Allocs) -> Vec<String> {
    let rows = allocs.rows();
    let of = |asker| -> u64 {
        let such = rows.iter().filter(|row| row.site.asker == asker);
        such.map(|row| row.sums.n).sum()
    };
    let mut notes = Vec::new();
    let (unknown, doubtful) = (of(Asker::Unknown), of(Asker::Doubtful));
    if unknown > 0 {
        notes.push(format!(
            "of {} allocations nobody knows who asked: their callchains end within the C library; {STACKS_REMEDY}",
            grouped(unknown)
        ));
    }
    if doubtful > 0 {
        notes.push(format!(
            "of {} allocations the function that called the C library may be left out: their callchains were made by frame pointers, which it mostly does not keep; {STACKS_REMEDY}",
            grouped(doubtful)
        ));
    }
    notes
}

/// Whether the event has to do with allocations.
fn take(
    allocs: &mut Allocs,
    sample: &LocalSample<'_>,
    event: &TracepointEvent<'_>,
    site: Site<'_>,
    counts: bool,
) -> bool {
    allocs.at(sample.time_ns().unwrap_or(0));
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
            Some(MemoryCall::Map {
                len, prot, flags, ..
            }) => {
                let kind = Kind::of_map(prot, flags, by.site.dso);
                allocs.ask_map(kind, tid, len, &by);
            }
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

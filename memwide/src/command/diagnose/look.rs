//! One pass over the recording: precise accesses, lines, faults, allocations, time off the CPU.

use super::{FAULTS, Kind, PRECISE, Step, TRACEPOINTS, Taken};
use crate::cli::SampleArgs;
use crate::command::on_file::OnFile;
use crate::command::{allocs, offcpu};
use crate::failure::Failure;
use crate::recording::Leftovers;
use memwide_analysis::diagnosis::{Looked, Memory};
use memwide_analysis::faults::{Fault, Faults};
use memwide_analysis::offcpu::OffCpu;
use memwide_analysis::sharing::{Access, LineSize, Lines};
use memwide_analysis::site::SiteFilter;
use memwide_analysis::{diagnosis, faults, sharing};
use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::{RawRecord, attr_kind};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// Callers that tell places apart.
const CALLERS: usize = 2;

/// What a file holds.
pub(super) struct Seen {
    memory: Memory,
    lines: Lines,
    faults: Faults,
    allocs: allocs::Reader,
    off: OffCpu,
    /// When the first and the last sample were taken, in nanoseconds.
    window_ns: Option<(u64, u64)>,
    events: Arc<EventTable>,
    /// Samples by event.
    samples: Vec<u64>,
    pub(super) left: Leftovers,
}

pub(super) fn look(path: &Path, samples: &SampleArgs) -> Result<Seen, Failure> {
    let accesses = diagnosis::wanted() | sharing::wanted() | faults::wanted();
    let calls = memwide_analysis::allocs::wanted() | memwide_analysis::offcpu::wanted();
    let file = OnFile::open(path, samples, accesses | calls)?;
    let events = file.recording().events().clone();
    let mut taken = vec![0_u64; events.events().len()];
    let (mut memory, mut lines) = (Memory::default(), Lines::new(LineSize::Single));
    let (mut found, mut buffer) = (Faults::default(), String::new());
    let (mut first, mut last) = (u64::MAX, 0);
    let allocs = RefCell::new(allocs::Reader::new(
        file.recording(),
        CALLERS,
        SiteFilter::default(),
    ));
    let off = RefCell::new(offcpu::Reader::new(&file, CALLERS, SiteFilter::default()));
    let note = |record: &RawRecord<'_>, event| {
        allocs.borrow_mut().record(record);
        off.borrow_mut().record(record, event);
    };
    let left = file.each_with(note, |sample, counts| {
        allocs.borrow_mut().add(sample, counts);
        off.borrow_mut().add(sample, counts);
        if !counts {
            return;
        }
        if let Some(n) = taken.get_mut(sample.event_index) {
            *n += 1;
        }
        if let Some(time) = sample.time_ns() {
            first = first.min(time);
            last = last.max(time);
        }
        memory.add(sample);
        let is_access =
            sample.data_src().is_some() || sample.event.attr.kind == attr_kind::BREAKPOINT;
        if is_access {
            lines.add(&Access::of(sample));
        }
        if let Some(fault) = Fault::of(sample, CALLERS, &mut buffer) {
            found.add(&fault);
        }
    })?;
    Ok(Seen {
        memory,
        lines,
        faults: found,
        allocs: allocs.into_inner(),
        off: off.into_inner().finish().off,
        window_ns: (first < last).then_some((first, last)),
        events,
        samples: taken,
        left,
    })
}

impl Seen {
    /// From the first to the last sample.
    pub(super) fn seconds(&self) -> Option<f64> {
        let (first, last) = self.window_ns?;
        Some((last - first) as f64 / 1e9)
    }

    /// For the judge.
    pub(super) fn looked<'a>(&'a self, seconds: f64, taken: &'a Taken) -> Looked<'a> {
        Looked {
            seconds,
            window_ns: self.window_ns,
            lost: self.left.lost_records(),
            memory: self.has_accesses().then_some(&self.memory),
            lines: (self.lines.count() > 0).then_some(&self.lines),
            faults: (!self.faults.totals().is_empty()).then_some(&self.faults),
            allocs: (self.allocs.seen > 0 && !self.allocs.partial).then_some(&self.allocs.allocs),
            off: (self.off.total().n > 0).then_some(&self.off),
            counts: &taken.counts,
            pressure: taken.pressure,
        }
    }

    pub(super) fn has_accesses(&self) -> bool {
        self.memory.total().accesses > 0
    }

    /// Samples by event name.
    pub(super) fn samples(&self) -> impl Iterator<Item = (&str, u64)> {
        let names = self.events.events().iter().map(|event| event.name.as_str());
        names
            .zip(self.samples.iter().copied())
            .filter(|(_, n)| *n > 0)
    }

    /// What kinds of events a file has; why it has no others, it does not say.
    pub(super) fn steps(&self) -> Vec<Step> {
        let named = |is: &dyn Fn(&str, u32) -> bool| {
            let events = self.events.events().iter();
            let of = events.filter(|event| is(&event.name, event.attr.kind));
            of.map(|event| event.name.clone()).collect::<Vec<_>>()
        };
        let is_fault = |name: &str, _| name.contains("faults");
        let is_trace = |_: &str, kind| kind == attr_kind::TRACEPOINT;
        let total = self.memory.total();
        let (mut precise, mut why) = (Vec::new(), "not in this file".to_owned());
        if total.levelled.n + total.located + total.translated > 0 {
            precise.push(format!("{} accesses", total.accesses));
        } else if self.has_accesses() {
            // As of breakpoints.
            why = format!(
                "its {} accesses tell addresses, but no level, latency or node",
                total.accesses
            );
        }
        let step = |kind: Kind, taken: Vec<String>, remedy: &str| {
            let missing = taken.is_empty().then(|| {
                let reason = if kind == PRECISE {
                    why.clone()
                } else {
                    "not in this file".to_owned()
                };
                (kind.0.to_owned(), reason, remedy.to_owned())
            });
            Step::new(kind, taken, missing.into_iter().collect())
        };
        vec![
            step(
                PRECISE,
                precise,
                "record with `perf mem record` or `memwide record` on a machine that has them",
            ),
            step(
                FAULTS,
                named(&is_fault),
                "record with -e minor-faults,major-faults",
            ),
            step(
                TRACEPOINTS,
                named(&is_trace),
                "record with -e sched:sched_switch and the calls that `memwide allocs --help` names",
            ),
        ]
    }
}

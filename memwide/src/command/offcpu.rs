//! `memwide offcpu`: where threads wait.

use super::of_server;
use super::on_file::{Answer, OnFile};
use crate::cli::OffcpuArgs;
use crate::failure::Failure;
use crate::output::{Listing, grouped};
use memwide_analysis::offcpu::{OffCpu, Out, Reason, SKIP, wanted};
use memwide_analysis::report::Filter;
use memwide_analysis::site::{Asker, Site, SiteFilter, UNKNOWN, Wanted};
use memwide_analysis::stacks::{Frame, frames};
use memwide_analysis::tracepoints::{Tracepoints, is_whole};
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::tracepoint::TracepointEvent;
use memwide_perf_abi::{RawRecord, Record, kind};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::cell::RefCell;
use std::io::{self, Write as _};
use std::sync::Arc;

/// Most threads whose last place is remembered.
const THREADS_MAX: usize = 1 << 20;

/// Where a thread was seen last, for records that do not say.
#[derive(Debug, Clone)]
struct Seen {
    comm: String,
    function: String,
    dso: String,
    callers: String,
    kernel: Option<String>,
    counts: bool,
}

/// Who tells of switches in a file.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// A tracepoint says when threads leave, and also where.
    by_tracepoint: bool,
    /// SWITCH records say when recorded threads come back.
    by_records: bool,
    /// The recorder was asked for all CPUs.
    everywhere: bool,
}

/// What a file tells of time off the CPU.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Spells, as far as they are whole.
    pub(super) off: OffCpu,
    seen: FxHashMap<u32, Seen>,
    /// Names of threads, as records tell them.
    comms: FxHashMap<u32, String>,
    /// Who is asked for, and where.
    filter: Filter,
    sites: SiteFilter,
    told: Told,
    stack: Vec<Frame>,
    partial: bool,
}

/// Follows the threads of a file from record to record.
pub(super) struct Reader {
    state: State,
    events: Arc<EventTable>,
    tracepoints: Tracepoints,
    callers: usize,
    buffer: String,
}

impl Reader {
    pub(super) fn new(file: &OnFile, callers: usize, sites: SiteFilter) -> Self {
        let recording = file.recording();
        let events = recording.events().clone();
        let tracing = recording.tracing_data().map(AsRef::as_ref);
        let mut all = events.events().iter();
        Self {
            state: State {
                filter: file.filter().clone(),
                sites,
                told: Told {
                    by_tracepoint: all
                        .clone()
                        .any(|event| event.name.ends_with("sched_switch")),
                    by_records: all.any(|event| event.attr.flags.context_switch()),
                    everywhere: is_of_all_cpus(&recording.features().cmdline().unwrap_or_default()),
                },
                ..State::default()
            },
            tracepoints: Tracepoints::new(&events, tracing),
            events,
            callers,
            buffer: String::new(),
        }
    }

    /// Takes a record, before the sample if it is one.
    pub(super) fn record(&mut self, record: &RawRecord<'_>, event: Option<usize>) {
        match record.kind {
            kind::SWITCH | kind::SWITCH_CPU_WIDE => {
                self.state.switch(&self.events, record, event);
            }
            kind::COMM | kind::FORK => self.state.name(record),
            kind::EXIT => {
                if let Ok(Record::Exit(task)) = Record::parse(*record) {
                    self.state.off.ended(task.tid, task.time);
                }
            }
            _ => {}
        }
    }

    /// Takes a sample.
    pub(super) fn add(&mut self, sample: &LocalSample<'_>, counts: bool) {
        let by_tracepoint = self.state.told.by_tracepoint;
        let sites = Wanted {
            skip: if by_tracepoint { &SKIP } else { &[] },
            over: &[],
            callers: self.callers,
        };
        let site = Site::of(sample, sites, &mut self.buffer);
        let counts = counts && self.state.sites.takes(&site);
        if by_tracepoint {
            self.state
                .tracepoint(&self.tracepoints, sample, site, counts);
        } else {
            self.state.note(sample, site, counts);
        }
    }

    /// After the last record.
    pub(super) fn finish(mut self) -> State {
        self.state.off.finish();
        self.state
    }
}

/// Whether a recorder's command line asks for all CPUs.
fn is_of_all_cpus(command_line: &[String]) -> bool {
    let mut own = command_line.iter().take_while(|word| *word != "--");
    own.any(|word| matches!(word.as_str(), "-a" | "--all-cpus"))
}

pub(crate) fn run(args: &OffcpuArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("offcpu", &args.file) {
        return answered;
    }
    let mut file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let sites = file.take_sites();
    // Records and samples come one after the other.
    let reader = RefCell::new(Reader::new(&file, args.sites.callers, sites));
    let mut left = file.each_with(
        |record, event| reader.borrow_mut().record(record, event),
        |sample, counts| reader.borrow_mut().add(sample, counts),
    )?;
    let state = reader.into_inner().finish();
    left.unfit |= state.sites.unfit();
    if args.folded {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let lines = state.off.stacks().folded();
        let written = lines
            .iter()
            .try_for_each(|(path, micros)| writeln!(out, "{path} {micros}"));
        match written.and_then(|()| out.flush()) {
            Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        left.say();
        return left.into_result();
    }
    let estimator = if state.told.by_tracepoint {
        "time between sched_switch out and in of each thread"
    } else {
        "time between SWITCH records out and in of each thread; places are those of the thread's last sample"
    };
    answer(&state, estimator).finish(left, &args.file.rows)
}

fn answer(state: &State, estimator: &str) -> Answer {
    let off = &state.off;
    let millis = |ns: u64| ns as f64 / 1e6;
    let total = off.total();
    let mut listing = Listing::default()
        .column("off_ms", "off CPU", "ms")
        .column("share", "share", "ratio")
        .column("spells", "spells", "n")
        .wide("mean_ms", "mean", "ms")
        .wide("max_ms", "longest", "ms")
        .wide("waiting_ms", "for a CPU", "ms")
        .wide("open", "open", "n")
        .column("reason", "reason", "")
        .column("comm", "comm", "")
        .column("function", "function", "")
        .wide("callers", "called by", "")
        .wide("dso", "object", "")
        .column("kernel", "in the kernel", "");
    for row in off.rows() {
        let sums = row.sums;
        let told = off.has_wakeups() || row.reason == Reason::Preempted;
        listing.push(vec![
            millis(sums.total_ns).into(),
            (sums.total_ns as f64 / total.total_ns.max(1) as f64).into(),
            sums.n.into(),
            (millis(sums.total_ns) / sums.n.max(1) as f64).into(),
            millis(sums.max_ns).into(),
            told.then(|| millis(sums.waiting_ns)).into(),
            sums.open.into(),
            row.reason.name().into(),
            row.comm.into(),
            row.site.function.into(),
            row.site.callers.into(),
            row.site.dso.into(),
            row.site.kernel.into(),
        ]);
    }
    let mut notes = vec![format!(
        "{} spells, {:.1} ms; estimator: {estimator}",
        grouped(total.n),
        millis(total.total_ns)
    )];
    if total.n == 0 {
        notes.push(
            "this file has no switches; `memwide offcpu --help` says how to record some".to_owned(),
        );
    }
    if total.open > 0 {
        notes.push(format!(
            "{} spells are still open at the end: counted up to the last switch, a lower bound",
            grouped(total.open)
        ));
    }
    if off.endless() > 0 {
        let remedy = match (state.told.everywhere, state.told.by_records) {
            (false, _) => "; record all CPUs (-a), or add --switch-events",
            (true, false) => "; add --switch-events",
            (true, true) => "",
        };
        notes.push(format!(
            "{} spells have no end, as nobody saw the thread come back: not counted{remedy}",
            grouped(off.endless())
        ));
    }
    if off.unmatched() > 0 && state.filter.is_empty() && state.sites.is_empty() {
        notes.push(format!(
            "{} threads came back that nobody saw leave: not counted",
            grouped(off.unmatched())
        ));
    }
    if state.partial {
        notes.push("not every switch was recorded (period above 1): times are too long, and some spells are missing".to_owned());
    }
    Answer {
        listing,
        json: json!({
            "total": {
                "spells": total.n, "off_ms": millis(total.total_ns), "open": total.open,
                "unmatched": off.unmatched(), "without_end": off.endless(),
                "waiting_ms": off.has_wakeups().then(|| millis(total.waiting_ns)),
            },
            "estimator": estimator,
            "whole": !state.partial,
        }),
        notes,
        ..Answer::default()
    }
}

impl State {
    fn tracepoint(
        &mut self,
        tracepoints: &Tracepoints,
        sample: &LocalSample<'_>,
        site: Site<'_>,
        counts: bool,
    ) {
        let Some(time_ns) = sample.time_ns() else {
            return;
        };
        let tid = |number: i32| u32::try_from(number).ok().filter(|tid| *tid != 0);
        match tracepoints.read(sample) {
            Some(TracepointEvent::Switch(switch)) => {
                self.partial |= !is_whole(sample.event);
                if let Some(prev) = tid(switch.prev_tid) {
                    let prev_comm = String::from_utf8_lossy(switch.prev_comm);
                    // A task that ends has no number any more, and so the sample has no name of it.
                    let is_gone = sample.tid() == Some(u32::MAX);
                    let is_asked = is_gone && self.filter.takes_thread(&prev_comm, prev);
                    let counts = counts || is_asked && self.sites.takes(&site);
                    frames(sample, &mut self.stack);
                    match Reason::of_state(switch.prev_state) {
                        Some(reason) => self.off.out(&Out {
                            time_ns,
                            tid: prev,
                            comm: &prev_comm,
                            reason,
                            site,
                            stack: &self.stack,
                            counts,
                        }),
                        None => self.off.ended(prev, time_ns),
                    }
                }
                if let Some(next) = tid(switch.next_tid) {
                    if self.told.by_records {
                        // Only some threads are recorded: whoever else comes back was never seen to leave.
                        self.off.back_if_out(next, time_ns);
                    } else {
                        self.off.back(next, time_ns);
                    }
                }
            }
            Some(TracepointEvent::Wakeup(wakeup)) => {
                if let Some(woken) = tid(wakeup.tid) {
                    self.off.woken(woken, time_ns);
                }
            }
            _ => {}
        }
    }

    /// Remembers where a thread is.
    fn note(&mut self, sample: &LocalSample<'_>, site: Site<'_>, counts: bool) {
        let Some(tid) = sample.tid() else { return };
        if self.seen.len() >= THREADS_MAX && !self.seen.contains_key(&tid) {
            return;
        }
        let seen = Seen {
            comm: sample.comm.to_owned(),
            function: site.function.to_owned(),
            dso: site.dso.to_owned(),
            callers: site.callers.to_owned(),
            counts,
            kernel: site.kernel.map(str::to_owned),
        };
        self.seen.insert(tid, seen);
    }

    /// Remembers how a thread is called.
    fn name(&mut self, record: &RawRecord<'_>) {
        let (tid, comm) = match Record::parse(*record) {
            Ok(Record::Comm(comm)) => (comm.tid, String::from_utf8_lossy(comm.comm).into_owned()),
            Ok(Record::Fork(task)) => match self.comms.get(&task.ptid) {
                Some(comm) => (task.tid, comm.clone()),
                None => return,
            },
            _ => return,
        };
        if self.comms.len() < THREADS_MAX || self.comms.contains_key(&tid) {
            self.comms.insert(tid, comm);
        }
    }

    fn switch(&mut self, events: &EventTable, record: &RawRecord<'_>, event: Option<usize>) {
        let layout = event.and_then(|at| events.get(at)?.layout.as_ref().ok());
        let id = layout.and_then(|layout| layout.trailer().parse(record).ok());
        let Some((tid, time_ns)) = id.and_then(|id| id.tid.zip(id.time)) else {
            return;
        };
        let switch = match Record::parse(*record) {
            Ok(Record::Switch(switch)) => switch,
            Ok(Record::SwitchCpuWide(wide)) => wide.switch,
            _ => return,
        };
        if tid == 0 {
            return;
        }
        match (switch.out, self.told.by_tracepoint) {
            (true, true) => return,
            (true, false) => {}
            (false, true) => return self.off.back_if_out(tid, time_ns),
            (false, false) => return self.off.back(tid, time_ns),
        }
        let comm = self.comms.get(&tid).cloned();
        let comm = comm.unwrap_or_else(|| format!(":{tid}"));
        let unknown = Seen {
            function: UNKNOWN.to_owned(),
            dso: String::new(),
            callers: String::new(),
            kernel: None,
            counts: self.filter.takes_thread(&comm, tid) && self.sites.is_empty(),
            comm,
        };
        let seen = self.seen.get(&tid).unwrap_or(&unknown);
        let out = Out {
            time_ns,
            tid,
            comm: &seen.comm,
            reason: if switch.preempted {
                Reason::Preempted
            } else {
                Reason::Voluntary
            },
            site: Site {
                function: &seen.function,
                dso: &seen.dso,
                callers: &seen.callers,
                kernel: seen.kernel.as_deref(),
                asker: Asker::Known,
            },
            stack: &[Frame::label(&seen.comm), Frame::label(&seen.function)],
            counts: seen.counts,
        };
        self.off.out(&out);
    }
}

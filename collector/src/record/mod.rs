//! Records into a perf.data file: what `memwide record` does.
//!
//! ```text
//! each CPU: side-band leader ── ring ──┐
//!           events ─────────────┘      ├─ rounds ─ FILE.part ─ moved to FILE when whole
//! /proc, as records ───────────────────┘
//! ```

mod clock;
mod error;
mod features;
mod open;
mod output;
mod wanted;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use memwide_perf_abi::file::{EventSpec, Features, feature};
use memwide_perf_abi::{LostSamples, Record, SampleId, SampleLayout, encode};
use memwide_service::CancellationToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::claim::Claim;
use crate::count::CounterAbsent;
use crate::events::is_counted;
use crate::events::machine::Machine;
use crate::snapshot::{self, BuildIds, Stamp};
pub use error::RecordError;
use open::EventSet;
pub(crate) use open::tasks;
use output::{Output, Place};

/// Name of the event that carries mappings, names and tasks; perf calls its own the same.
const SIDE_BAND_NAME: &str = "dummy";
/// How long to wait for a ring to fill to a quarter before looking anyway.
const POLL_NS: i64 = 100_000_000;
/// How long a stopped event may still be writing: the rest of an interrupted fault.
const SETTLE: Duration = Duration::from_millis(5);

/// What to record, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// Names as the collector's configuration has them, single or in lists with commas; none: every fault, and the
    /// precise memory events of this machine.
    pub events: Vec<String>,
    /// Further events, taken where this machine has them; [`Recorder::absent`] says which are not.
    pub optional: Vec<String>,
    /// Likewise, where none of [`RecordOptions::PRECISE`] is there.
    pub unless_precise: Vec<String>,
    /// Record when tasks are switched out and in.
    pub switches: bool,
    /// A sample every how many events, of all events.
    pub period: Option<u64>,
    /// Take callchains.
    pub callchain: bool,
    /// Take copies of the user stack.
    pub stacks: Option<StackCopies>,
    /// Whose events.
    pub target: RecordTarget,
    /// The file; one that exists is replaced when the recording is whole.
    pub output: PathBuf,
    /// Words of the command line, told in the file.
    pub command_line: Vec<String>,
}

/// Copies of the user stack: readers unwind callers from them, also where programs keep no frame pointers. The events that
/// have them take callchains of the kernel's frames alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackCopies {
    /// Bytes from the stack's end, a multiple of 8 below 64 KiB.
    pub bytes: u16,
    /// Names of the events; none: all of them.
    pub events: Vec<String>,
}

/// Whose events are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTarget {
    /// All processes on all CPUs.
    All,
    /// A process, its threads, and what they start from now on.
    Process(u32),
    /// A process that is about to exec, and what it starts: recording begins with the exec.
    Exec(u32),
}

impl RecordOptions {
    /// Faults: every machine has these events.
    pub const FAULTS: [&str; 2] = ["minor-faults", "major-faults"];
    /// Precise memory events of Intel's and of AMD's CPUs.
    pub const PRECISE: [&str; 3] = [wanted::LOADS, wanted::STORES, wanted::IBS];
}

impl RecordTarget {
    pub(crate) fn pid(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Process(pid) | Self::Exec(pid) => Some(pid),
        }
    }
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSummary {
    /// Each event.
    pub events: Vec<RecordedEvent>,
    /// Mappings, names and tasks the kernel had no room for: symbols may be missing.
    pub side_band_lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What was recorded of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Its name.
    pub name: String,
    /// Samples in the file.
    pub samples: u64,
    /// Samples the kernel had no room for.
    pub lost: u64,
}

/// What is missing, and what could be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordNote {
    /// An event that is not recorded; [`Recorder::absent`] has optional ones too.
    Without(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for RecordNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Without(text) | Self::Other(text)) = self;
        f.write_str(text)
    }
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    set: EventSet,
    output: Output,
    features: Features,
    layout: SampleLayout,
    /// Ids of the events that are not counted in software.
    others: HashSet<u64>,
    notes: Vec<RecordNote>,
    /// Side-band events whose tasks ended, in the order of the lanes.
    hung: Vec<bool>,
    /// Records of one ring on their way.
    buffer: Vec<u8>,
}

impl Recorder {
    /// Opens the events and starts them; those of [`RecordTarget::Exec`] wait for the exec. What runs already is written
    /// to the file.
    pub fn start(options: &RecordOptions) -> Result<Self, RecordError> {
        let machine = Machine::default();
        let mut notes = Vec::new();
        let (place, file) = Place::take(&options.output, &mut notes)?;
        let mut absent = Vec::new();
        let wanted = wanted::wanted(options, &machine, &mut notes, &mut absent)?;
        let (anchor, user_only) = clock::anchor().map_err(|source| {
            let (reason, remedy) = crate::events::explain(&source, &machine);
            RecordError::Refused {
                what: "anything".to_owned(),
                reason,
                remedy,
                source,
            }
        })?;
        if user_only {
            let remedy = "as root, with CAP_PERFMON or with kernel.perf_event_paranoid at 1 both are recorded";
            notes.push(RecordNote::Other(format!(
                "only user mode is recorded, not the kernel; {remedy}"
            )));
        }
        let mut set = EventSet::open_rings(options, user_only, &machine, &mut notes)?;
        set.absent = absent;
        for event in wanted {
            set.open_event(event, user_only, &machine, &mut notes)?;
        }
        if !set.has_any(&RecordOptions::PRECISE) {
            for event in
                wanted::optional(&options.unless_precise, options, &machine, &mut set.absent)
            {
                set.open_event(event, user_only, &machine, &mut notes)?;
            }
        }
        let specs = specs(&set);
        let layout = layout(&set)?;
        let mut features = features::of_machine(&machine, &anchor, &options.command_line);
        if let Some(tracing) = features::tracing(&set.events, &machine) {
            features.set_raw(feature::TRACING_DATA, tracing);
        }
        let mut recorder = Self {
            hung: vec![false; set.side_band_ids().len()],
            output: Output::new(place, file, &specs)?,
            others: others(&set),
            set,
            features,
            layout,
            notes,
            buffer: Vec::new(),
        };
        let cannot_start = |source| RecordError::System {
            what: "start the events",
            source,
        };
        recorder.set.enable_side_band().map_err(cannot_start)?;
        recorder.write_snapshot(options.target, &machine, anchor)?;
        recorder.set.enable_events().map_err(cannot_start)?;
        Ok(recorder)
    }

    /// What is missing.
    pub fn notes(&self) -> &[RecordNote] {
        &self.notes
    }

    /// Optional events that are not recorded, with the reason.
    pub fn absent(&self) -> &[(String, CounterAbsent)] {
        &self.set.absent
    }

    /// Records until `stop` is cancelled or all recorded processes ended.
    pub fn run(&mut self, stop: &CancellationToken) -> Result<(), RecordError> {
        while !stop.is_cancelled() && !self.hung.iter().all(|hung| *hung) {
            self.wait()?;
            self.round()?;
        }
        Ok(())
    }

    /// Stops the events, takes what is left and completes the file. A recorder that is dropped instead leaves nothing.
    pub fn finish(mut self) -> Result<RecordSummary, RecordError> {
        self.set.disable().map_err(|source| RecordError::System {
            what: "stop the events",
            source,
        })?;
        std::thread::sleep(SETTLE);
        while self.round()? {}
        self.close()
    }

    /// What runs already, before the first round ends: records of the rings may be older.
    fn write_snapshot(
        &mut self,
        target: RecordTarget,
        machine: &Machine,
        anchor: crate::clock::Anchor,
    ) -> Result<(), RecordError> {
        let id = self.set.side_band_ids().first().copied().unwrap_or(0);
        let stamp = Stamp::new(&self.layout, id, anchor, true);
        let mut build_ids = BuildIds::default();
        let mut early = Vec::new();
        let taken = match target.pid() {
            Some(pid) => {
                let execs = matches!(target, RecordTarget::Exec(_));
                snapshot::take_process(machine, &stamp, &mut build_ids, pid, execs)
            }
            None => snapshot::take(machine, &stamp, &mut build_ids, || {
                let rings = self.set.lanes.iter_mut().flat_map(|lane| &mut lane.rings);
                for it in rings {
                    it.ring.copy_new(&mut early);
                    it.ring.commit();
                }
            }),
        };
        if taken.cut {
            let note = "more runs on this machine than fits: some mappings are missing";
            self.notes.push(RecordNote::Other(note.to_owned()));
        }
        self.output.write(&taken.records)?;
        self.output.write(&early)
    }

    fn wait(&mut self) -> Result<(), RecordError> {
        let side_band = self.set.lanes.iter().flat_map(|lane| &lane.side_band);
        let live: Vec<(usize, BorrowedFd<'_>)> = side_band
            .map(AsFd::as_fd)
            .enumerate()
            .filter(|(at, _)| self.hung.get(*at) == Some(&false))
            .collect();
        let polled = live
            .iter()
            .map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = polled.collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: POLL_NS,
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(RecordError::System {
                    what: "wait for the rings",
                    source: io::Error::from(error),
                });
            }
        }
        for ((at, _), fd) in live.iter().zip(&polled) {
            if let Some(hung) = self.hung.get_mut(*at) {
                *hung = fd.revents().contains(PollFlags::HUP);
            }
        }
        Ok(())
    }

    /// Takes what all rings hold; `false` if that was nothing.
    fn round(&mut self) -> Result<bool, RecordError> {
        let mut any = false;
        let rings = self.set.lanes.iter_mut().flat_map(|lane| &mut lane.rings);
        for it in rings {
            self.buffer.clear();
            if it.ring.copy_new(&mut self.buffer) > 0 {
                if let Some(own) = it.counted {
                    let others = &self.others;
                    Claim { own, others }.all(&mut self.buffer);
                }
                self.output.write(&self.buffer)?;
                it.ring.commit();
                any = true;
            }
        }
        if any {
            self.output.finish_round()?;
        }
        Ok(any)
    }

    fn close(mut self) -> Result<RecordSummary, RecordError> {
        let tallies = self.output.tallies.iter();
        let events: Vec<RecordedEvent> = self
            .set
            .events
            .iter()
            .zip(tallies.skip(1)) // the side-band's own
            .map(|(event, tally)| RecordedEvent {
                name: event.name.clone(),
                samples: tally.samples,
                lost: event.lost(),
            })
            .collect();
        let side_band_lost = self.set.side_band_lost();
        let lost: u64 = events.iter().map(|event| event.lost).sum();
        // The kernel tells of a loss with the next record that has room: of the last one there is none.
        let untold = (lost + side_band_lost).saturating_sub(self.output.lost_told);
        if untold > 0 {
            self.write_lost(untold)?;
        }
        let bytes = self.output.finish(self.features)?;
        Ok(RecordSummary {
            events,
            side_band_lost,
            bytes,
        })
    }

    fn write_lost(&mut self, lost: u64) -> Result<(), RecordError> {
        let most = self.set.events.iter().max_by_key(|event| event.lost());
        let first = most.and_then(|event| event.descriptors.first());
        let id = SampleId {
            pid: Some(0),
            tid: Some(0),
            time: Some(self.output.last_time()),
            id: Some(first.map_or(0, |event| event.id)),
            stream_id: None,
            cpu: Some(0),
        };
        let record = Record::LostSamples(LostSamples { lost });
        let mut out = Vec::new();
        // It is far from too long: nothing is left out.
        if encode::record(&mut out, &record, 0, Some((self.layout.trailer(), &id))).is_ok() {
            self.output.write(&out)?;
        }
        Ok(())
    }
}

/// Side-band first: readers take its attr for records without an event.
fn specs(set: &EventSet) -> Vec<EventSpec> {
    let side_band = EventSpec {
        attr: set.side_band_attr.clone(),
        name: SIDE_BAND_NAME.to_owned(),
        ids: set.side_band_ids(),
    };
    let events = set.events.iter().map(|event| EventSpec {
        attr: event.attr.clone(),
        name: event.name.clone(),
        ids: event.descriptors.iter().map(|one| one.id).collect(),
    });
    std::iter::once(side_band).chain(events).collect()
}

fn others(set: &EventSet) -> HashSet<u64> {
    let events = set.events.iter().filter(|event| !is_counted(&event.attr));
    let ids = events.flat_map(|event| event.descriptors.iter().map(|one| one.id));
    ids.collect()
}

fn layout(set: &EventSet) -> Result<SampleLayout, RecordError> {
    SampleLayout::new(&set.side_band_attr).map_err(|error| RecordError::System {
        what: "lay out records",
        source: io::Error::other(error),
    })
}

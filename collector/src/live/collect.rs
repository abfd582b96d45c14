//! The thread that drains the rings.
//!
//! A *round* copies all sample rings, then all side-band rings: what a sample needs to be decoded was written before it, so
//! it is in the same round or an earlier one. A batch is one or more whole rounds. It goes to the spool, and only then do
//! the rings get their room back.

mod boost;
mod cpus;
mod govern;
mod handler;
mod rounds;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use memwide_perf_abi::{SampleLayout, TrailerLayout};
use memwide_proto::limits;
use memwide_proto::v1::{Batch, ClockAnchor, EventDesc, HostFacts, Readings};
use memwide_service::CancellationToken;
use memwide_service::clock::{instant, unix_ns};
use rustix::process::setpriority_process;

use self::boost::Boost;
use self::cpus::Cpus;
use self::govern::Govern;
use self::rounds::drain_side_band;
use super::counts::Counts;
use super::waits::Unwritten;
use super::{Ended, Locks, Told, blind_since};
use crate::batch::{Collected, Ids};
use crate::clock::{Anchor, Marker, Namer};
use crate::config::Config;
use crate::events::EventSet;
use crate::events::machine::Machine;
use crate::facts;
use crate::identity::Identity;
use crate::metrics;
use crate::readings::{Look, Reader};
use crate::section::SectionPacker;
use crate::select::Selection;
use crate::snapshot::{self, BuildIds, Snapshot, Stamp};
use crate::spool::{Epoch, Spool};

/// Between two readings of the events' own counts: one system call an event and CPU.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Priority of the thread that empties the rings, as `nice` has it: it needs little time, which the budget bounds, and that
/// soon. On a machine where many wait for a CPU rings would run over.
const NICE: i32 = -10;
/// Between two clock anchors: a wall clock that is slewed by 500 ppm is then off by 2.5 ms at most.
const ANCHOR_EVERY: Duration = Duration::from_secs(5);
/// Renames looked for before giving up at the start.
const ANCHOR_TRIES: u32 = 10;
/// Between two snapshots: bounds the side-band history a new decoder has to read.
const SNAPSHOT_EVERY: Duration = Duration::from_mins(10);
const SNAPSHOT_SIDE_BYTES: u64 = 16 << 20;
/// After lost side-band the processes are read again, but not more often than this.
const RESNAPSHOT_AFTER: Duration = Duration::from_secs(10);
/// What a sample costs where it cannot be measured: what faults with callchains took on a virtual machine.
const SAMPLE_NS: u32 = 1_000;
/// How long a stopped event may still be writing: the rest of an interrupted fault.
const SETTLE: Duration = Duration::from_millis(5);
/// So often it is waited for what is counted and not written yet.
const SETTLES_MAX: u32 = 20;

/// Everything the thread works on.
pub(super) struct Collect {
    pub(super) config: Config,
    pub(super) machine: Machine,
    pub(super) set: EventSet,
    pub(super) epoch: Arc<Epoch>,
    pub(super) spool: Arc<Spool>,
    pub(super) facts: HostFacts,
    pub(super) told: Told,
    /// When an earlier run last wrote a batch in this boot, in nanoseconds since 1970.
    pub(super) last_seen: Option<u64>,
    pub(super) boot: [u8; 16],
    pub(super) _locks: Arc<Locks>,
    /// CPUs that were online when the events were opened.
    pub(super) online: Vec<u32>,
    /// `None`: all samples are kept.
    pub(super) selection: Option<Selection>,
}

impl Collect {
    /// Collects until `stop` is cancelled or CPUs come or go, then once more what is left in the rings.
    pub(super) fn run(self, stop: &CancellationToken) -> anyhow::Result<Ended> {
        let mut work = Work::start(self)?;
        work.it.told.central.opened();
        if let Err(error) = set_nice(NICE) {
            tracing::info!(%error, "the collecting thread has no priority; CAP_SYS_NICE gives it");
        }
        let ended = loop {
            if stop.is_cancelled() {
                break Ended::Stopped;
            } else if work.cpus.have_changed {
                break Ended::OtherCpus;
            } else if work.it.told.settings_changed() {
                break Ended::OtherSettings;
            }
            work.wait()?;
            work.look()?;
        };
        work.end()?;
        Ok(ended)
    }
}

struct Work {
    it: Collect,
    /// Nanoseconds before this run in which nobody looked.
    blind_ns: u64,
    layout: SampleLayout,
    trailer: TrailerLayout,
    namer: Namer,
    anchor: Anchor,
    /// Anchors that place this batch's records.
    anchors: Vec<ClockAnchor>,
    marker: Option<Marker>,
    anchored_at: Instant,
    ids: Ids,
    packer: SectionPacker,
    collected: Collected,
    counts: Counts,
    identity: Identity,
    reader: Option<Reader>,
    govern: Govern,
    boost: Option<Boost>,
    /// Other halves of the events, once there was a boost; and those of them that no batch has told yet.
    twins: Vec<EventDesc>,
    new_events: Vec<EventDesc>,
    cpus: Cpus,
    read_at: Instant,
    closed_at: Instant,
    /// The batch being built is a snapshot.
    snapshot: bool,
    /// The batch being built says the host's facts.
    facts_changed: bool,
    /// Central news that the facts hold.
    news: u64,
    snapshot_at: Instant,
    /// A ring lost side-band since the last snapshot began.
    side_band_lost: bool,
    snapshots: Option<Receiver<(Snapshot, BuildIds)>>,
    build_ids: Option<BuildIds>,
    /// First CPU of the next round: where the last one had to stop.
    first_cpu: usize,
    /// A batch the disk did not take.
    unwritten: Option<Batch>,
    waits: Unwritten,
    /// Descriptors to wait for; those of CPUs that went offline are left out.
    hung: Vec<bool>,
}

impl Work {
    /// Side-band first, then what runs already, then the events: so every sample's process is known.
    fn start(it: Collect) -> anyhow::Result<Self> {
        let layout = SampleLayout::new(&it.set.side_band_attr)?;
        let trailer = layout.trailer();
        let now = instant();
        let mut collected = Collected::new(it.set.events.len() + 1);
        let namer = Namer::start().context("cannot start the clock's thread")?;
        let mut set_events = vec![it.set.side_band.clone()];
        set_events.extend(it.set.events.iter().map(|event| event.desc.clone()));
        let ids = Ids::new(&set_events);
        let counts = Counts::new(&it.set.events);
        let rings = it.set.cpus.iter().map(|cpu| cpu.samples.len() + 1);
        let hung = vec![false; rings.sum()];
        it.set
            .enable_side_band()
            .context("cannot start recording")?;
        let mut it = it;
        let anchor = first_anchor(&mut it.set, &namer, trailer, &mut collected)?;
        let mut build_ids = BuildIds::default();
        let id = it.set.side_band.ids.first().copied().unwrap_or(0);
        let stamp = Stamp::new(&layout, id, anchor, it.config.mmap_data);
        let machine = it.machine.clone();
        let taken = snapshot::take(&machine, &stamp, &mut build_ids, || {
            // No sample refers to these yet, so the rings get their room back at once.
            drain_side_band(&mut it.set, &mut collected);
            it.set
                .cpus
                .iter_mut()
                .for_each(|cpu| cpu.side_ring.commit());
        });
        if it.config.budget.sample_ns == 0 {
            it.config.budget.sample_ns = handler::measure(&it.set).unwrap_or(SAMPLE_NS);
        }
        metrics::SAMPLE_COST.set_f64(f64::from(it.config.budget.sample_ns) / 1e9);
        let mut govern = Govern::start(&mut it).context("cannot set the periods")?;
        it.start_events(&mut govern)
            .context("cannot start the events")?;
        // All that was done until now belongs to the time in which nobody looked.
        let blind_ns = blind_since(it.last_seen);
        let identity = Identity::new(it.config.pod_names.clone());
        let reader = reader(&it);
        let cpus = Cpus::new(it.online.clone());
        if let Some(selection) = &mut it.selection {
            for desc in &set_events {
                selection.know_event(desc);
            }
            selection.follow(&collected.side_band);
        }
        let mut work = Self {
            anchors: vec![(&anchor).into()],
            it,
            blind_ns,
            layout,
            trailer,
            namer,
            anchor,
            marker: None,
            anchored_at: now,
            ids,
            packer: SectionPacker::new().context("no memory to pack records")?,
            collected,
            counts,
            identity,
            reader,
            govern,
            boost: None,
            twins: Vec::new(),
            new_events: Vec::new(),
            cpus,
            read_at: now,
            closed_at: now,
            snapshot: false,
            facts_changed: false,
            news: 0,
            snapshot_at: now,
            side_band_lost: false,
            snapshots: None,
            build_ids: Some(build_ids),
            first_cpu: 0,
            unwritten: None,
            waits: Unwritten::default(),
            hung,
        };
        work.add_snapshot(taken);
        work.round();
        work.close()?;
        Ok(work)
    }

    /// One round, and whatever is due.
    fn look(&mut self) -> anyhow::Result<()> {
        if let Some(batch) = self.unwritten.take() {
            return self.write(batch);
        }
        let now = instant();
        if now.duration_since(self.read_at) >= READ_EVERY {
            self.counts.read(&self.it.set.events);
            self.read_at = now;
            self.cpus.look(&self.it.machine.online_cpus());
            self.govern(now)?;
        }
        self.boost(now)?;
        if now.duration_since(self.anchored_at) >= ANCHOR_EVERY {
            self.marker = self.namer.mark();
            self.anchored_at = now;
        }
        self.start_snapshot(now);
        let taken = self
            .snapshots
            .as_ref()
            .and_then(|ready| ready.try_recv().ok());
        // The round after the snapshot was taken holds all that happened meanwhile.
        self.round();
        if self.collected.partial && !self.side_band_lost {
            self.side_band_lost = true;
            tracing::warn!(
                "a side-band ring was full: mappings and names of new processes were lost, their samples are counted as \
                 `partial` until /proc is read again; a larger `rings.side_band_bytes` loses fewer"
            );
        }
        if let Some((taken, build_ids)) = taken {
            self.snapshots = None;
            self.build_ids = Some(build_ids);
            self.add_snapshot(taken);
            self.boost_knows()?;
        }
        let age = now.duration_since(self.closed_at);
        let old = age >= Duration::from_millis(limits::BATCH_AGE_MS);
        if old || self.snapshot || self.is_full() {
            self.close()?;
        }
        Ok(())
    }

    fn start_snapshot(&mut self, now: Instant) {
        let since = now.duration_since(self.snapshot_at);
        let due = since >= SNAPSHOT_EVERY
            || self.it.epoch.side_since_snapshot() >= SNAPSHOT_SIDE_BYTES
            || self.side_band_lost;
        // A person asks seldom, and waits for it.
        let due = due && since >= RESNAPSHOT_AFTER;
        if !due && !self.boost_waits() {
            return;
        }
        let Some(mut build_ids) = self.build_ids.take() else {
            return; // one is under way
        };
        self.boost_reads();
        self.snapshot_at = now;
        self.side_band_lost = false;
        let (send, ready) = sync_channel(1);
        let machine = self.it.machine.clone();
        let id = self.it.set.side_band.ids.first().copied().unwrap_or(0);
        let stamp = Stamp::new(&self.layout, id, self.anchor, self.it.config.mmap_data);
        let thread = std::thread::Builder::new().name("mw-snapshot".to_owned());
        let started = thread.spawn(move || {
            // Reading /proc is not urgent; to want less is always allowed.
            let _ = set_nice(0);
            let taken = snapshot::take(&machine, &stamp, &mut build_ids, || ());
            // Nobody waits any more when the collector stops meanwhile.
            drop(send.send((taken, build_ids)));
        });
        match started {
            Ok(_) => self.snapshots = Some(ready),
            Err(error) => {
                tracing::warn!(%error, "no thread for a snapshot");
                self.build_ids = Some(BuildIds::default());
            }
        }
    }

    fn add_snapshot(&mut self, taken: Snapshot) {
        self.collected.side_band.extend_from_slice(&taken.records);
        self.collected.side_band_records += taken.count;
        self.collected.partial |= taken.cut;
        self.collected.cgroups.extend(taken.cgroups);
        self.enter_cgroups();
        for selection in watchers(&mut self.it.selection, &mut self.boost) {
            selection.meet(&taken.records);
        }
        self.snapshot = true;
        metrics::SNAPSHOTS.add(1);
        tracing::debug!(
            processes = taken.processes,
            bytes = taken.records.len(),
            "snapshot taken"
        );
    }

    /// Makes a batch of what was collected and writes it.
    fn close(&mut self) -> anyhow::Result<()> {
        let number = self.it.epoch.next();
        let samples = self.packer.finish(
            &mut self.collected.packed,
            &self.collected.samples,
            self.collected.sample_records,
        )?;
        let collected = &self.collected;
        let stopped_ns = self.stopped_ns(instant());
        let mut counts = self.counts.close(&self.it.set.events, &collected.tallies);
        for (count, event) in counts.iter_mut().zip(&self.it.set.events) {
            // As the time of a throttled event: summed over CPUs.
            count.throttled_ns += stopped_ns * event.descriptors.len() as u64;
        }
        if let Some(boost) = self.boost.as_ref().filter(|boost| boost.is_running()) {
            boost.count(&mut counts, collected);
        }
        let throttled = collected.tallies.iter().map(|tally| tally.throttled_ns);
        self.govern.throttled_ns += throttled.sum::<u64>();
        let excluded = collected.tallies.iter().map(|tally| tally.excluded);
        metrics::EXCLUDED.add(excluded.sum());
        let taken = collected
            .tallies
            .iter()
            .map(|tally| tally.produced + tally.excluded);
        let taken_ns = taken.sum::<u64>() * u64::from(self.it.config.budget.sample_ns);
        metrics::HANDLER.add_duration(Duration::from_nanos(taken_ns));
        for count in &counts {
            metrics::SAMPLES.add(count.produced);
            metrics::LOST.add(count.lost);
            metrics::RESIDUE.add(count.residue);
        }
        metrics::SIDE_BAND.add(u64::from(collected.side_band_records));
        metrics::RAW_BYTES.add(collected.len() as u64);
        if let Some(strange) = collected.strange.told() {
            tracing::warn!(
                strange,
                "rings held records of unknown events or form; samples of unknown events become no rows, counted as undecodable"
            );
        }
        let side_band = self
            .packer
            .pack(&collected.side_band, collected.side_band_records)?;
        let mut batch = Batch {
            number,
            closed_wall_ns: unix_ns(),
            anchors: std::mem::take(&mut self.anchors),
            side_band: Some(side_band),
            samples: Some(samples),
            counts,
            blind_ns: if number == 1 { self.blind_ns } else { 0 },
            snapshot: self.snapshot,
            side_band_partial: collected.partial,
            ..Batch::default()
        };
        let now = instant();
        let mut readings = self.reader.as_ref().map(Reader::take).unwrap_or_default();
        let workloads = self.identity.take(now);
        for selection in watchers(&mut self.it.selection, &mut self.boost) {
            // Names of pods come later than their cgroups.
            for workload in &workloads {
                selection.know_cgroup(workload);
            }
        }
        readings.workloads.extend(workloads);
        batch.readings = (readings != Readings::default()).then_some(readings);
        for section in [&batch.side_band, &batch.samples].into_iter().flatten() {
            metrics::PACKED_BYTES.add(section.data.len() as u64);
        }
        batch.events.append(&mut self.new_events);
        if self.snapshot {
            batch.events.clear();
            batch.events.push(self.it.set.side_band.clone());
            batch
                .events
                .extend(self.it.set.events.iter().map(|event| event.desc.clone()));
            batch.events.extend(self.twins.clone());
        }
        if self.snapshot || self.facts_changed {
            // CPUs, nodes and memory come and go.
            let capabilities = std::mem::take(&mut self.it.facts.capabilities);
            self.it.facts = facts::read(&self.it.config, &self.it.machine, capabilities);
            batch.facts = Some(self.it.facts.clone());
        }
        self.anchors.push((&self.anchor).into());
        (self.snapshot, self.facts_changed) = (false, false);
        self.collected.clear();
        self.closed_at = instant();
        self.write(batch)
    }

    /// Writes a batch; only then do the rings get their room back. A full disk is waited for: meanwhile the kernel drops
    /// and counts.
    fn write(&mut self, batch: Batch) -> anyhow::Result<()> {
        if let Err(error) = self.it.epoch.append(&batch) {
            let reporter = &self.it.told.reporter;
            self.waits.failed(&error, reporter);
            self.unwritten = Some(batch);
            return Ok(());
        }
        for cpu in &mut self.it.set.cpus {
            cpu.samples.iter_mut().for_each(|one| one.ring.commit());
            cpu.side_ring.commit();
        }
        self.waits.written();
        metrics::BATCHES.add(1);
        self.it.spool.seen(&self.it.boot, batch.closed_wall_ns);
        self.it.spool.bound()?;
        let (bytes, earlier) = (
            self.it.spool.bytes(),
            self.it.spool.earlier_unacked(&self.it.epoch),
        );
        self.it.told.reporter.update(|status| {
            status.batches = batch.number;
            status.unwritten.clear();
            status.spool_bytes = bytes;
            status.earlier_batches = earlier;
            for (event, (samples, lost)) in status.events.iter_mut().zip(self.counts.so_far()) {
                (event.samples, event.lost) = (samples, lost);
            }
        });
        Ok(())
    }

    /// Stops the events and takes what is left.
    fn end(mut self) -> anyhow::Result<()> {
        self.it
            .set
            .disable_events()
            .context("cannot stop the events")?;
        // A sample that was being written when its event was stopped.
        std::thread::sleep(SETTLE);
        self.counts.read(&self.it.set.events);
        if let Some(batch) = self.unwritten.take() {
            self.write(batch)?;
        }
        self.drain();
        // The CPU that was writing may itself be waiting for a processor, in a virtual machine.
        for _ in 0..SETTLES_MAX {
            let owes = self
                .counts
                .owes(&self.it.set.events, &self.collected.tallies);
            if !owes {
                break;
            }
            std::thread::sleep(SETTLE);
            self.drain();
        }
        // Twice: nothing is written any more.
        self.counts.emptied();
        self.counts.emptied();
        self.close()?;
        self.it.epoch.finish();
        match self.unwritten {
            Some(batch) => anyhow::bail!("the disk did not take the last batch, {}", batch.number),
            None => Ok(()),
        }
    }
}

/// Of this thread, and of those it starts from now on.
fn set_nice(nice: i32) -> rustix::io::Result<()> {
    setpriority_process(Some(rustix::thread::gettid()), nice)
}

/// Those who follow whose samples are whose.
fn watchers<'a>(
    selection: &'a mut Option<Selection>,
    boost: &'a mut Option<Boost>,
) -> impl Iterator<Item = &'a mut Selection> {
    let of_boost = boost.iter_mut().map(|boost| &mut boost.target);
    selection.iter_mut().chain(of_boost)
}

/// `None`: not wanted, or there is no thread for it.
fn reader(it: &Collect) -> Option<Reader> {
    if it.config.readings_ms == 0 {
        return None;
    }
    let started = Reader::start(Look::new(&it.config, &it.machine));
    if let Err(error) = &started {
        tracing::warn!(%error, "no thread for pressure and memory: they are not read");
    }
    started.ok()
}

fn first_anchor(
    set: &mut EventSet,
    namer: &Namer,
    trailer: TrailerLayout,
    collected: &mut Collected,
) -> anyhow::Result<Anchor> {
    for _ in 0..ANCHOR_TRIES {
        let marker = namer
            .mark()
            .context("the clock's thread cannot rename itself")?;
        let from = collected.side_band.len();
        drain_side_band(set, collected);
        let new = collected.side_band.get(from..).unwrap_or_default();
        if let Some(anchor) = marker.find(new, trailer) {
            return Ok(anchor);
        }
    }
    anyhow::bail!("the kernel records no names: clocks cannot be tied together")
}

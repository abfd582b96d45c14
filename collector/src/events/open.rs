//! Opens everything on every CPU: side-band, the events, their rings.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;

use memwide_model::Tier;
use memwide_perf_abi::{Attr, sample};
use memwide_proto::v1::{Capability, EventDesc};

use super::capability::{absent, refused, works};
use super::ladder::open_with_less;
use super::limits::{
    Need, SPARE, all_processes_events, files_allowed, fitting, limits, more_files,
};
use super::machine::Machine;
use super::plan::{Plan, plan};
use super::rights::Rights;
use super::rings::{
    APART_BYTES, CpuRings, SIDE_BAND_NAME, in_shared_ring, open_rings, ring_sizes, side_band_attr,
};
use super::spec::{Absent, EventSpec, is_counted, resolve};
use crate::config::{Config, RingConfig};
use crate::ring::ring_size;
use crate::select::restrict;
use crate::sys::{ATTR_BYTES, Descriptor};

/// The side-band leader's place in the source's events.
pub(crate) const SIDE_BAND: u32 = 0;

/// Why nothing can be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not even mappings and names can be recorded.
    #[error("cannot record on CPU {cpu}: {reason}; {remedy}")]
    SideBand {
        /// Where it failed.
        cpu: u32,
        /// Why.
        reason: String,
        /// What to do.
        remedy: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not one event is there.
    #[error("none of the {} events can be collected: {first}", .asked)]
    NoEvent {
        /// Events configured.
        asked: usize,
        /// Why not, of the first.
        first: String,
    },
}

/// Who counts an event up to its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedBy {
    /// The kernel, hit by hit.
    Kernel,
    /// The kernel, those hits that pass a filter.
    Filtered,
    /// A timer or the hardware.
    Other,
}

/// An event open on all CPUs.
#[derive(Debug)]
pub(crate) struct OpenEvent {
    pub(crate) desc: EventDesc,
    pub(crate) tier: Tier,
    pub(crate) period: u64,
    /// Its count divided by the period is its number of samples.
    pub(crate) countable: bool,
    /// See [`SampleRing::counted`](super::rings::SampleRing::counted).
    pub(crate) counted: bool,
    by: CountedBy,
    /// Its reads end in the number of lost samples.
    pub(crate) counts_lost: bool,
    pub(crate) descriptors: Vec<Descriptor>,
    /// Leaders of groups; held open, never read.
    leaders: Vec<Descriptor>,
}

/// Everything open, not started.
#[derive(Debug)]
pub(crate) struct EventSet {
    pub(crate) cpus: Vec<CpuRings>,
    pub(crate) side_band: EventDesc,
    /// Its attr, for the trailers of synthesized records.
    pub(crate) side_band_attr: Attr,
    pub(crate) events: Vec<OpenEvent>,
    /// Ids of the events that are not counted in software: they are always the kernel's word.
    pub(crate) others: HashSet<u64>,
    pub(crate) capabilities: Vec<Capability>,
}

impl OpenEvent {
    /// Gives it another period, which must be stopped.
    pub(crate) fn set_period(&mut self, period: u64) -> io::Result<()> {
        for one in &self.descriptors {
            match one.set_period(period) {
                // Its CPU went offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                other => other?,
            }
        }
        self.period = period;
        Ok(())
    }

    /// What it says needs every hit that it is of: it begins with its own period.
    pub(crate) fn is_whole(&self) -> bool {
        self.by == CountedBy::Filtered
    }

    /// Time or the hardware counts it, not the kernel hit by hit.
    pub(crate) fn is_timed(&self) -> bool {
        self.by == CountedBy::Other
    }
}

impl EventSet {
    /// Opens what `config` asks for, as far as the machine has it.
    pub(crate) fn open(config: &Config, machine: &Machine) -> Result<Self, OpenError> {
        let (specs, mut capabilities) = choose(config, machine);
        raise_limits(need(config, &specs, machine).descriptors + SPARE);
        let sizes = fitting_rings(config, &specs, machine);
        let (rings, side_band_attr) = open_rings(config, &sizes, machine, &mut capabilities)?;
        capabilities.insert(0, all_processes_events(Ok(()), machine));
        let mut set = Self {
            side_band: describe_side_band(&side_band_attr, &rings),
            side_band_attr,
            cpus: rings,
            events: Vec::new(),
            others: HashSet::new(),
            capabilities,
        };
        let shared = in_shared_ring(&specs);
        for spec in &specs {
            let apart =
                is_counted(&spec.attr) && !shared.is_some_and(|one| std::ptr::eq(one, spec));
            set.open_event(spec, apart, machine);
        }
        let all = set.events.iter().filter(|event| !event.counted);
        set.others = all.flat_map(|event| event.desc.ids.clone()).collect();
        if set.events.is_empty() {
            // Rows of events come last.
            let first = set.capabilities.iter().rfind(|one| !one.available);
            return Err(OpenError::NoEvent {
                asked: specs.len(),
                first: first.map_or_else(
                    || "the list of events is empty".to_owned(),
                    |one| format!("{}: {}; {}", one.name, one.reason, one.remedy),
                ),
            });
        }
        Ok(set)
    }

    fn open_event(&mut self, spec: &EventSpec, apart: bool, machine: &Machine) {
        let ordinal = u32::try_from(self.events.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let mut attr = spec.attr.clone();
        if attr.flags.precise_ip() == 0 {
            // In precise records it would make each of them an interrupt.
            attr.sample_type |= sample::CGROUP;
        }
        if spec.counts_hits() || attr.is_clock() {
            // With this field the kernel samples every hit, whatever the period is, and clocks go on telling the period
            // they were opened with. The one in force stands in each batch's counts.
            attr.sample_type &= !sample::PERIOD;
        }
        let (mut descriptors, mut leaders) = (Vec::new(), Vec::new());
        let mut said = None;
        let mut failed_on = 0_usize;
        let has_it = |cpu: u32| spec.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        for rings in self.cpus.iter_mut().filter(|rings| has_it(rings.cpu)) {
            let (cpu, rings_before) = (rings.cpu, rings.samples.len());
            let opened = rings.place_for(apart).and_then(|ring| {
                let leader = &ring.leader;
                let opened = open_with_less(&attr, |attr| open_one(attr, spec, cpu, leader))?;
                if is_counted(&attr) {
                    ring.counted = Some(opened.0.0.id);
                }
                Ok(opened)
            });
            match opened {
                Ok(((descriptor, leader), used, sheds)) => {
                    if descriptors.is_empty() {
                        said = Some(works(&spec.name, Some(spec.tier), &sheds));
                        attr = used; // what one CPU refuses no other takes
                    }
                    descriptors.push(descriptor);
                    leaders.extend(leader);
                }
                Err(error) => {
                    rings.samples.truncate(rings_before); // nobody writes into a ring made for it
                    failed_on += 1;
                    if said.is_none() {
                        said = Some(refused(&spec.name, Some(spec.tier), &error, machine));
                    }
                    if descriptors.is_empty() && failed_on == 2 {
                        break; // not there at all; no need to ask hundreds of CPUs
                    }
                }
            }
        }
        if let Some(mut capability) = said {
            if !descriptors.is_empty() && failed_on > 0 {
                capability.available = true;
                capability.reason = format!("open on {} CPUs only", descriptors.len());
            }
            self.capabilities.push(capability);
        }
        if descriptors.is_empty() {
            return;
        }
        let desc = EventDesc {
            ordinal,
            name: spec.name.clone(),
            pmu: spec.pmu.clone(),
            attr: attr.encode(ATTR_BYTES),
            ids: descriptors.iter().map(|one| one.id).collect(),
            format: spec.format.clone(),
            tier: spec.tier.name().to_owned(),
            population: spec.population.clone(),
            latency_kind: u32::from(spec.latency_kind.code()),
            threshold_cycles: spec.threshold_cycles,
            side_band: false,
        };
        self.events.push(OpenEvent {
            desc,
            tier: spec.tier,
            period: attr.sample_period,
            countable: spec.countable,
            counted: is_counted(&attr),
            by: if !spec.filter.is_empty() {
                CountedBy::Filtered
            } else if spec.counts_hits() {
                CountedBy::Kernel
            } else {
                CountedBy::Other
            },
            counts_lost: attr.read_format & memwide_perf_abi::read_format::LOST != 0,
            descriptors,
            leaders,
        });
    }

    /// Starts recording of mappings, names and tasks.
    pub(crate) fn enable_side_band(&self) -> io::Result<()> {
        self.cpus
            .iter()
            .try_for_each(|cpu| cpu.side_leader.enable())
    }

    /// Starts the events.
    pub(crate) fn enable_events(&self) -> io::Result<()> {
        let leaders = self.events.iter().flat_map(|event| &event.leaders);
        let events = self.events.iter().flat_map(|event| &event.descriptors);
        leaders.chain(events).try_for_each(Descriptor::enable)
    }

    /// Stops the events; what is in the rings stays.
    pub(crate) fn disable_events(&self) -> io::Result<()> {
        let mut all = self.events.iter().flat_map(|event| &event.descriptors);
        all.try_for_each(Descriptor::disable)
    }
}

fn open_one(
    attr: &Attr,
    spec: &EventSpec,
    cpu: u32,
    ring: &Descriptor,
) -> io::Result<(Descriptor, Option<Descriptor>)> {
    let group = spec.leader.as_ref();
    let leader = group.map(|attr| Descriptor::open(attr, cpu)).transpose()?;
    let event = match &leader {
        Some(leader) => Descriptor::open_in_group(attr, cpu, leader)?,
        None => Descriptor::open(attr, cpu)?,
    };
    if !spec.filter.is_empty() {
        event.set_filter(&CString::new(spec.filter.as_str())?)?;
    }
    event.share_ring_of(ring)?;
    Ok((event, leader))
}

fn describe_side_band(attr: &Attr, rings: &[CpuRings]) -> EventDesc {
    EventDesc {
        ordinal: SIDE_BAND,
        name: SIDE_BAND_NAME.to_owned(),
        pmu: "software".to_owned(),
        attr: attr.encode(ATTR_BYTES),
        ids: rings.iter().map(|cpu| cpu.side_leader.id).collect(),
        tier: Tier::Software.name().to_owned(),
        side_band: true,
        ..EventDesc::default()
    }
}

/// Descriptors are events × CPUs, and the soft limit is often 1,024: as many as the hard one allows, and `files` where this
/// process may raise that one. Locked memory likewise.
pub(crate) fn raise_limits(files: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, least) in [(Resource::Nofile, files), (Resource::Memlock, 0)] {
        let hard = getrlimit(resource).maximum;
        let to = |most: Option<u64>| Rlimit {
            current: most,
            maximum: most,
        };
        let more = hard.filter(|hard| *hard < least).map(|_| to(Some(least)));
        let raised = more.is_some_and(|more| setrlimit(resource, more).is_ok());
        if !raised && let Err(error) = setrlimit(resource, to(hard)) {
            tracing::debug!(?resource, %error, "a limit stays");
        }
    }
}

/// The events that fit the machine, and what is said of it before anything is opened.
fn choose(config: &Config, machine: &Machine) -> (Vec<EventSpec>, Vec<Capability>) {
    let Plan { events, mut said } = plan(&config.events, machine);
    let mut specs = Vec::new();
    let mut missing = Vec::new();
    for event in &events {
        match resolve(event, config.callchain_frames_max, machine) {
            Ok(mut spec) => {
                restrict(&mut spec.attr, &config.select.modes);
                specs.push(spec);
            }
            Err(why) => missing.push(absent(&event.name, &why)),
        }
    }
    let mut all = limits(need(config, &specs, machine), machine);
    leave_out(config, &mut specs, &mut missing, machine);
    all.append(&mut said);
    all.append(&mut missing);
    (specs, all)
}

/// Leaves out events from the end until there are descriptors for the others on all CPUs: on some of them only, an event would
/// estimate too little.
fn leave_out(
    config: &Config,
    specs: &mut Vec<EventSpec>,
    missing: &mut Vec<Capability>,
    machine: &Machine,
) {
    let Some(allowed) = files_allowed(&Rights::read(machine), machine) else {
        return;
    };
    let needed = |specs: &[EventSpec]| need(config, specs, machine).descriptors + SPARE;
    let wanted = needed(specs);
    while specs.len() > 1 && needed(specs) > allowed {
        let Some(spec) = specs.pop() else {
            return;
        };
        let reason = format!(
            "left out: all events on all CPUs need {wanted} descriptors, and {allowed} are allowed"
        );
        let why = Absent::new(spec.tier, reason, more_files(wanted));
        missing.push(absent(&spec.name, &why));
    }
}

/// On each CPU a ring of side-band, one of samples, one for each further event counted in software; a descriptor each, and
/// for each event and leader.
fn need(config: &Config, specs: &[EventSpec], machine: &Machine) -> Need {
    let cpus = machine.online_cpus();
    let of_events = specs.iter().map(|spec| {
        let on = spec.cpus.as_ref().map_or(cpus.len(), Vec::len) as u64;
        on * (1 + u64::from(spec.leader.is_some()))
    });
    let cpus = cpus.len() as u64;
    Need {
        descriptors: cpus * (2 + rings_apart(specs)) + of_events.sum::<u64>(),
        ring_bytes: ring_bytes(&ring_sizes(&config.rings, machine), specs, machine),
        sample_ring_bytes: fitting_rings(config, specs, machine).sample_bytes,
    }
}

/// Sizes of the rings, as large as may be locked.
fn fitting_rings(config: &Config, specs: &[EventSpec], machine: &Machine) -> RingConfig {
    let sizes = ring_sizes(&config.rings, machine);
    fitting(sizes, |sizes| ring_bytes(sizes, specs, machine), machine)
}

/// Rings of a CPU for further events counted in software.
fn rings_apart(specs: &[EventSpec]) -> u64 {
    let counted = specs.iter().filter(|spec| is_counted(&spec.attr)).count();
    counted.saturating_sub(1) as u64
}

/// Bytes of the rings of all CPUs, with their control pages.
fn ring_bytes(sizes: &RingConfig, specs: &[EventSpec], machine: &Machine) -> u64 {
    let page = Machine::page_size();
    let ring = |bytes: u64| (ring_size(bytes, page) + page) as u64;
    let apart = rings_apart(specs) * ring(APART_BYTES);
    let on_each = ring(sizes.side_band_bytes) + ring(sizes.sample_bytes) + apart;
    machine.online_cpus().len() as u64 * on_each
}

/// What this machine can collect with this configuration, in which tier, and why not better. Starts nothing.
pub(crate) fn probe(config: &Config, machine: &Machine) -> Vec<Capability> {
    match open_small(config, machine) {
        Ok(set) => with_limits_of(config, set.capabilities, machine),
        Err(_) => survey(config, machine, |attr, leader, cpu| {
            let leader = leader.map(|attr| Descriptor::open(attr, cpu)).transpose()?;
            match &leader {
                Some(leader) => Descriptor::open_in_group(attr, cpu, leader),
                None => Descriptor::open(attr, cpu),
            }
            .map(drop)
        }),
    }
}

/// Small rings: only whether they can be had is asked, and a running collector holds its own.
fn open_small(config: &Config, machine: &Machine) -> Result<EventSet, OpenError> {
    let mut small = config.clone();
    let page = Machine::page_size() as u64;
    small.rings.sample_bytes = page;
    small.rings.side_band_bytes = page;
    EventSet::open(&small, machine)
}

/// Whether a run could start with this configuration. Starts nothing.
pub(crate) fn try_open(config: &Config, machine: &Machine) -> Result<(), OpenError> {
    open_small(config, machine).map(drop)
}

/// What `open` says of the leader of all, and of every event on the first CPU that has it.
pub(super) fn survey(
    config: &Config,
    machine: &Machine,
    mut open: impl FnMut(&Attr, Option<&Attr>, u32) -> io::Result<()>,
) -> Vec<Capability> {
    let (specs, mut all) = choose(config, machine);
    let online = machine.online_cpus();
    let first = online.first().copied().unwrap_or(0);
    let side_band = side_band_attr(config, Machine::page_size());
    let opened = open_with_less(&side_band, |attr| open(attr, None, first));
    all.insert(
        0,
        all_processes_events(opened.as_ref().map(|_| ()), machine),
    );
    all.push(match opened {
        Ok(((), _, sheds)) => works(SIDE_BAND_NAME, None, &sheds),
        Err(error) => refused(SIDE_BAND_NAME, None, &error, machine),
    });
    for spec in &specs {
        let own = spec.cpus.as_ref().and_then(|cpus| cpus.first());
        let cpu = own.copied().unwrap_or(first);
        let opened = open_with_less(&spec.attr, |attr| open(attr, spec.leader.as_ref(), cpu));
        all.push(match opened {
            Ok(((), _, sheds)) => works(&spec.name, Some(spec.tier), &sheds),
            Err(error) => refused(&spec.name, Some(spec.tier), &error, machine),
        });
    }
    all
}

/// Limits are those of the rings a collector would have, not of the small ones of a probe.
fn with_limits_of(config: &Config, found: Vec<Capability>, machine: &Machine) -> Vec<Capability> {
    let (_, mut all) = choose(config, machine);
    all.insert(0, all_processes_events(Ok(()), machine));
    let known: HashSet<String> = all.iter().map(|one| one.name.clone()).collect();
    all.extend(found.into_iter().filter(|one| !known.contains(&one.name)));
    all
}

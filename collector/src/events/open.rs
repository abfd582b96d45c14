//! Opens everything on every CPU: side-band, the events, their rings.

use std::io;

use memwide_model::Tier;
use memwide_perf_abi::{Attr, attr_kind};
use memwide_proto::v1::{Capability, EventDesc};

use super::capability::{absent, explain, refused, works};
use super::ladder::open_with_less;
use super::machine::Machine;
use super::spec::{BASE, EventSpec, base_attr, resolve};
use crate::config::Config;
use crate::ring::{Ring, ring_size};
use crate::sys::{ATTR_BYTES, Descriptor};

/// `perf_event_attr.config` of the event that counts nothing.
pub(crate) const DUMMY: u64 = 9;
/// The side-band leader's place in the source's events.
pub(crate) const SIDE_BAND: u32 = 0;
/// Name of the side-band leader.
const SIDE_BAND_NAME: &str = "side-band";

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

/// The rings of one CPU and their leaders.
#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) side_leader: Descriptor,
    pub(crate) side_ring: Ring,
    pub(crate) sample_leader: Descriptor,
    pub(crate) sample_ring: Ring,
}

/// An event open on all CPUs.
#[derive(Debug)]
pub(crate) struct OpenEvent {
    pub(crate) desc: EventDesc,
    pub(crate) tier: Tier,
    pub(crate) period: u64,
    /// Its count divided by the period is its number of samples.
    pub(crate) countable: bool,
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
    pub(crate) capabilities: Vec<Capability>,
}

impl EventSet {
    /// Opens what `config` asks for, as far as the machine has it.
    pub(crate) fn open(config: &Config, machine: &Machine) -> Result<Self, OpenError> {
        raise_file_limit();
        let mut capabilities = Vec::new();
        let cpus = machine.online_cpus();
        let (rings, side_band_attr) = open_rings(config, machine, &cpus, &mut capabilities)?;
        let mut set = Self {
            side_band: describe_side_band(&side_band_attr, &rings),
            side_band_attr,
            cpus: rings,
            events: Vec::new(),
            capabilities,
        };
        for event in &config.events {
            match resolve(event, config.callchain_frames_max, machine) {
                Ok(spec) => set.open_event(&spec, machine, &cpus),
                Err(why) => set.capabilities.push(absent(&event.name, &why)),
            }
        }
        if set.events.is_empty() {
            let first = set.capabilities.iter().find(|one| !one.available);
            return Err(OpenError::NoEvent {
                asked: config.events.len(),
                first: first.map_or_else(
                    || "the list of events is empty".to_owned(),
                    |one| format!("{}: {}; {}", one.name, one.reason, one.remedy),
                ),
            });
        }
        Ok(set)
    }

    fn open_event(&mut self, spec: &EventSpec, machine: &Machine, cpus: &[u32]) {
        let ordinal = u32::try_from(self.events.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let mut attr = spec.attr.clone();
        let (mut descriptors, mut leaders) = (Vec::new(), Vec::new());
        let mut said = None;
        let mut failed_on = 0_usize;
        for (rings, cpu) in self.cpus.iter().zip(cpus) {
            let opened = open_with_less(&attr, |attr| {
                open_one(attr, spec.leader.as_ref(), *cpu, &rings.sample_leader)
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
    group: Option<&Attr>,
    cpu: u32,
    ring: &Descriptor,
) -> io::Result<(Descriptor, Option<Descriptor>)> {
    let leader = group.map(|attr| Descriptor::open(attr, cpu)).transpose()?;
    let event = match &leader {
        Some(leader) => Descriptor::open_in_group(attr, cpu, leader)?,
        None => Descriptor::open(attr, cpu)?,
    };
    event.share_ring_of(ring)?;
    Ok((event, leader))
}

/// Two leaders a CPU, each with its own ring: side-band (small, never starved by samples) and samples.
fn open_rings(
    config: &Config,
    machine: &Machine,
    cpus: &[u32],
    capabilities: &mut Vec<Capability>,
) -> Result<(Vec<CpuRings>, Attr), OpenError> {
    let page = Machine::page_size();
    let mut side_attr = side_band_attr(config, ring_size(config.rings.side_band_bytes, page));
    let mut sample_bytes = config.rings.sample_bytes;
    let mut all: Vec<CpuRings> = Vec::new();
    for &cpu in cpus {
        let failed = |source: io::Error| {
            let (reason, remedy) = explain(&source, machine);
            OpenError::SideBand {
                cpu,
                reason,
                remedy,
                source,
            }
        };
        let opened = open_with_less(&side_attr, |attr| Descriptor::open(attr, cpu));
        let (side_leader, used, sheds) = match opened {
            Ok(opened) => opened,
            // A CPU that went offline since the list was read.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) && !all.is_empty() => continue,
            Err(error) => return Err(failed(error)),
        };
        if all.is_empty() {
            capabilities.push(works(SIDE_BAND_NAME, None, &sheds));
            side_attr = used;
        }
        let side_ring =
            Ring::map(&side_leader, config.rings.side_band_bytes, page).map_err(failed)?;
        let (sample_leader, sample_ring) = loop {
            let attr = leader_attr(ring_size(sample_bytes, page));
            let leader = Descriptor::open(&attr, cpu).map_err(failed)?;
            match Ring::map(&leader, sample_bytes, page) {
                Ok(ring) => break (leader, ring),
                // Locked memory is short: a smaller ring is better than none.
                Err(_) if sample_bytes > page as u64 => sample_bytes /= 2,
                Err(error) => return Err(failed(error)),
            }
        };
        all.push(CpuRings {
            side_leader,
            side_ring,
            sample_leader,
            sample_ring,
        });
    }
    if sample_bytes < config.rings.sample_bytes {
        let mut said = works("sample-ring", None, &[]);
        said.reason = format!(
            "only {sample_bytes} of {} bytes could be locked",
            config.rings.sample_bytes
        );
        "raise ulimit -l or kernel.perf_event_mlock_kb, or give the process CAP_IPC_LOCK"
            .clone_into(&mut said.remedy);
        capabilities.push(said);
    }
    Ok((all, side_attr))
}

/// A quarter of the ring wakes the reader: fewer wakeups cost less, and three quarters are left for its delay.
fn watermark(ring_bytes: usize) -> u32 {
    u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX)
}

fn leader_attr(ring_bytes: usize) -> Attr {
    let mut attr = base_attr(attr_kind::SOFTWARE, DUMMY, BASE);
    attr.sample_period = 1;
    attr.wakeup = watermark(ring_bytes);
    attr
}

/// Attr of the leader that records mappings, names and tasks.
pub(crate) fn side_band_attr(config: &Config, ring_bytes: usize) -> Attr {
    let mut attr = leader_attr(ring_bytes);
    attr.flags = attr
        .flags
        .with_mmap(true)
        .with_mmap2(true)
        .with_mmap_data(config.mmap_data)
        .with_build_id(true)
        .with_comm(true)
        .with_comm_exec(true)
        .with_task(true)
        .with_cgroup(true)
        .with_ksymbol(true)
        .with_bpf_event(true);
    attr
}

/// Layout of the side-band leader's records as this build asks for them.
#[cfg(test)]
pub(crate) fn side_band_layout() -> memwide_perf_abi::SampleLayout {
    memwide_perf_abi::SampleLayout::new(&side_band_attr(&Config::default(), 4096)).unwrap()
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

/// Descriptors are events × CPUs; the soft limit is often 1,024.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::debug!(%error, "limit of open files stays");
    }
}

/// What this machine can collect with this configuration, in which tier, and why not better. Starts nothing.
pub(crate) fn probe(config: &Config, machine: &Machine) -> Vec<Capability> {
    // Small rings: only whether they can be had is asked, and a running collector holds its own.
    let mut config = config.clone();
    let page = Machine::page_size() as u64;
    config.rings.sample_bytes = page;
    config.rings.side_band_bytes = page;
    match EventSet::open(&config, machine) {
        Ok(set) => set.capabilities,
        Err(error) => {
            let mut all: Vec<Capability> = Vec::new();
            if let OpenError::SideBand { source, .. } = &error {
                all.push(refused(SIDE_BAND_NAME, None, source, machine));
            }
            for event in &config.events {
                all.push(match resolve(event, config.callchain_frames_max, machine) {
                    Err(why) => absent(&event.name, &why),
                    Ok(spec) => {
                        let cpu = machine.online_cpus().first().copied().unwrap_or(0);
                        match open_with_less(&spec.attr, |attr| Descriptor::open(attr, cpu)) {
                            Ok((_, _, sheds)) => works(&spec.name, Some(spec.tier), &sheds),
                            Err(error) => refused(&spec.name, Some(spec.tier), &error, machine),
                        }
                    }
                });
            }
            all
        }
    }
}

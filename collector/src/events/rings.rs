//! The rings of each CPU, and which event may write into which.

use std::io;

use memwide_perf_abi::{Attr, attr_kind};
use memwide_proto::v1::Capability;

use super::capability::{explain, works};
use super::ladder::open_with_less;
use super::machine::Machine;
use super::open::OpenError;
use super::spec::{BASE, EventSpec, base_attr, is_counted};
use crate::config::{Config, RingConfig};
use crate::facts::meminfo;
use crate::ring::{Ring, ring_size};
use crate::sys::Descriptor;

/// `perf_event_attr.config` of the event that counts nothing.
pub(crate) const DUMMY: u64 = 9;
/// Name of the side-band leader.
pub(super) const SIDE_BAND_NAME: &str = "side-band";
/// The event counted in software that comes most often.
const MOST: &str = "minor-faults";
/// Bytes of the ring of a further event counted in software: some 300 samples with callchains between two looks. Of the
/// default events that is `major-faults`, each of which waited for a disk.
pub(super) const APART_BYTES: u64 = 64 << 10;

/// The rings of one CPU and their leaders.
#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(super) cpu: u32,
    pub(crate) side_leader: Descriptor,
    pub(crate) side_ring: Ring,
    /// The first one is shared by all events but further ones counted in software.
    pub(crate) samples: Vec<SampleRing>,
}

/// A ring of samples.
///
/// The kernel hands one and the same sample to all events that count a hit in software, and writes the id of the first of
/// them everywhere (`do_perf_sw_event` keeps what the first one filled in; seen on 6.18). The first may be of another
/// recorder that looks at the same faults. So at most one such event writes into a ring: then whose sample it is stays known.
#[derive(Debug)]
pub(crate) struct SampleRing {
    pub(crate) leader: Descriptor,
    pub(crate) ring: Ring,
    /// Id of the one event counted in software.
    pub(crate) counted: Option<u64>,
}

impl CpuRings {
    /// The ring an event writes into: the shared one, or a new one for it alone.
    pub(super) fn place_for(&mut self, apart: bool) -> io::Result<&mut SampleRing> {
        if apart {
            let mut bytes = APART_BYTES;
            self.samples.push(SampleRing::open(self.cpu, &mut bytes)?);
        }
        let ring = if apart {
            self.samples.last_mut()
        } else {
            self.samples.first_mut()
        };
        ring.ok_or_else(|| io::Error::other("this CPU has no ring"))
    }
}

impl SampleRing {
    /// A ring of at most so many bytes, which are set to what could be had: locked memory is short, and a smaller ring is
    /// better than none.
    fn open(cpu: u32, bytes: &mut u64) -> io::Result<Self> {
        let page = Machine::page_size();
        loop {
            let leader = Descriptor::open(&leader_attr(ring_size(*bytes, page)), cpu)?;
            match Ring::map(&leader, *bytes, page) {
                Ok(ring) => {
                    return Ok(Self {
                        leader,
                        ring,
                        counted: None,
                    });
                }
                Err(_) if *bytes > page as u64 => *bytes /= 2,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Which of the events counted in software writes into the large ring that all others share: the one that comes most often,
/// else the first.
pub(super) fn in_shared_ring(specs: &[EventSpec]) -> Option<&EventSpec> {
    let counted = || specs.iter().filter(|spec| is_counted(&spec.attr));
    counted()
        .find(|spec| spec.name == MOST)
        .or_else(|| counted().next())
}

/// The sizes of the rings on this machine.
pub(crate) fn ring_sizes(rings: &RingConfig, machine: &Machine) -> RingConfig {
    let memory = meminfo(&machine.proc_text("meminfo").unwrap_or_default());
    rings.sized(machine.online_cpus().len(), memory)
}

/// Two leaders a CPU, each with its own ring of `sizes`: side-band (small, never starved by samples) and samples.
pub(super) fn open_rings(
    config: &Config,
    sizes: &RingConfig,
    machine: &Machine,
    capabilities: &mut Vec<Capability>,
) -> Result<(Vec<CpuRings>, Attr), OpenError> {
    let page = Machine::page_size();
    let wanted = ring_sizes(&config.rings, machine);
    let mut side_attr = side_band_attr(config, ring_size(sizes.side_band_bytes, page));
    let mut sample_bytes = sizes.sample_bytes;
    let mut all: Vec<CpuRings> = Vec::new();
    for cpu in machine.online_cpus() {
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
        let side_ring = Ring::map(&side_leader, sizes.side_band_bytes, page).map_err(failed)?;
        let shared = SampleRing::open(cpu, &mut sample_bytes).map_err(failed)?;
        all.push(CpuRings {
            cpu,
            side_leader,
            side_ring,
            samples: vec![shared],
        });
    }
    if sample_bytes < wanted.sample_bytes {
        let mut said = works("sample-ring", None, &[]);
        said.reason = format!(
            "only {sample_bytes} of {} bytes could be locked",
            wanted.sample_bytes
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
        .with_build_id(config.build_ids)
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

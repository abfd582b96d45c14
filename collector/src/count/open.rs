//! One counter on all its places.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use memwide_model::Tier;
use memwide_perf_abi::{Attr, read_format};

use super::names::{self, Named};
use super::{CounterAbsent, CounterInfo, CounterReading};
use crate::events::machine::Machine;
use crate::record::RecordTarget;
use crate::sys::{Descriptor, Place};

/// An event, and its descriptors if it is counted.
#[derive(Debug)]
pub(super) struct OpenCounter {
    pub(super) info: CounterInfo,
    descriptors: Vec<Descriptor>,
    /// Of each descriptor its place.
    at: Vec<Place>,
}

impl OpenCounter {
    /// Opens it wherever it is there, in the group of `leader` if there is one; why not stands in the info. `alone`: where the
    /// kernel does not let its own mode be counted, user mode alone is an answer.
    pub(super) fn open(
        name: &str,
        target: RecordTarget,
        places: &[Place],
        leader: Option<&Self>,
        alone: bool,
        machine: &Machine,
    ) -> Self {
        let mut info = CounterInfo {
            name: name.to_owned(),
            tier: Tier::Software,
            is_time: false,
            group: None,
            absent: None,
        };
        let (mut descriptors, mut at) = (Vec::new(), Vec::new());
        match names::find(name, machine) {
            Ok(found) => {
                info.tier = found.tier;
                info.is_time = found.attr.is_clock();
                match open_all(&found, target, places, leader, alone) {
                    Ok((opened, user_only)) => {
                        (descriptors, at) = opened.into_iter().unzip();
                        if user_only {
                            info.name.push_str(":u");
                        }
                    }
                    Err(error) => {
                        info.absent = Some(CounterAbsent::of(&error, &found.attr, machine));
                    }
                }
            }
            Err(absent) => {
                info.tier = absent.tier;
                info.absent = Some(absent.into());
            }
        }
        Self {
            info,
            descriptors,
            at,
        }
    }

    /// Whether it is counted somewhere.
    pub(super) fn is_open(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Descriptors it has.
    pub(super) fn size(&self) -> usize {
        self.descriptors.len()
    }

    fn on(&self, place: Place) -> Option<&Descriptor> {
        let at = self.at.iter().position(|known| *known == place)?;
        self.descriptors.get(at)
    }

    pub(super) fn start(&self) -> io::Result<()> {
        self.descriptors.iter().try_for_each(Descriptor::enable)
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        self.descriptors.iter().try_for_each(Descriptor::disable)
    }

    pub(super) fn read(&self) -> Option<CounterReading> {
        (!self.descriptors.is_empty()).then(|| sum_of(&self.descriptors))
    }
}

/// What all together counted.
fn sum_of(descriptors: &[Descriptor]) -> CounterReading {
    let mut sum = CounterReading::default();
    for descriptor in descriptors {
        let mut bytes = [0; 24];
        // A CPU that went offline has no counts any more.
        let Ok(len) = rustix::io::read(descriptor.as_fd(), &mut bytes) else {
            continue;
        };
        if let Some([value, enabled, running]) =
            bytes.get(..len).map(|read| read.as_chunks::<8>().0)
        {
            sum.value = sum.value.wrapping_add(u64::from_le_bytes(*value));
            sum.enabled_ns = sum.enabled_ns.saturating_add(u64::from_le_bytes(*enabled));
            sum.running_ns = sum.running_ns.saturating_add(u64::from_le_bytes(*running));
        }
    }
    sum
}

/// The same events, of the tasks of one cgroup.
#[derive(Debug)]
pub(crate) struct CgroupCounters {
    /// Of each counter its descriptors, in the order of [`Counters::infos`](super::Counters::infos).
    events: Vec<Vec<Descriptor>>,
}

impl CgroupCounters {
    /// Opens and starts those of `counters` that are counted on the whole machine, wherever they are.
    pub(super) fn open(
        counters: &[OpenCounter],
        folder: &File,
        machine: &Machine,
    ) -> io::Result<Self> {
        let mut events = Vec::new();
        for counter in counters {
            let mut all = Vec::new();
            if counter.is_open()
                && let Ok(found) = names::find(&counter.info.name, machine)
            {
                let mut attr = counting(&found.attr);
                attr.flags = attr.flags.with_disabled(false);
                for cpu in counter.at.iter().filter_map(|place| place.cpu) {
                    all.push(Descriptor::open_in_cgroup(&attr, folder, cpu)?);
                }
            }
            events.push(all);
        }
        Ok(Self { events })
    }

    /// What each has counted so far; `None` for those not counted.
    pub(crate) fn read(&self) -> Vec<Option<CounterReading>> {
        let read = |all: &Vec<Descriptor>| (!all.is_empty()).then(|| sum_of(all));
        self.events.iter().map(read).collect()
    }
}

/// The descriptors, and whether the kernel's mode had to be left out.
fn open_all(
    found: &Named,
    target: RecordTarget,
    places: &[Place],
    leader: Option<&OpenCounter>,
    alone: bool,
) -> io::Result<(Opened, bool)> {
    let mut attr = counting(&found.attr);
    // Members of a group start and stop with their leader.
    let leads = leader.is_none();
    attr.flags = attr
        .flags
        .with_disabled(leads)
        .with_inherit(target.pid().is_some())
        .with_enable_on_exec(leads && matches!(target, RecordTarget::Exec(_)));
    match open_places(&attr, places, leader) {
        Err(error)
            if is_denied(&error)
                && alone
                && !attr.flags.exclude_kernel()
                && !attr.flags.exclude_user() =>
        {
            attr.flags = attr.flags.with_exclude_kernel(true).with_exclude_hv(true);
            open_places(&attr, places, leader)
                .map(|all| (all, true))
                .map_err(|_| error)
        }
        opened => opened.map(|all| (all, false)),
    }
}

/// Descriptors and where they count.
type Opened = Vec<(Descriptor, Place)>;

fn open_places(attr: &Attr, places: &[Place], leader: Option<&OpenCounter>) -> io::Result<Opened> {
    let (mut all, mut why) = (Vec::new(), None);
    for place in places {
        let leads = match leader {
            Some(leader) => match leader.on(*place) {
                Some(leads) => Some(leads),
                None => continue,
            },
            None => None,
        };
        match Descriptor::open_at(attr, *place, leads) {
            Ok(opened) => all.push((opened, *place)),
            // A thread ended, a CPU went offline, or only other CPUs have the event.
            Err(error) if why.is_none() => why = Some(error),
            Err(_) => {}
        }
        if all.is_empty() && why.as_ref().is_some_and(is_denied) {
            break;
        }
    }
    match why {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The same event without samples.
fn counting(attr: &Attr) -> Attr {
    Attr {
        sample_period: 0,
        sample_type: 0,
        wakeup: 0,
        sample_max_stack: 0,
        read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING,
        flags: attr
            .flags
            .with_disabled(true)
            .with_watermark(false)
            .with_sample_id_all(false)
            .with_precise_ip(0),
        ..attr.clone()
    }
}

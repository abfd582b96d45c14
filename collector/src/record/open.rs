//! Opens the events: on each CPU one ring, led by an event that records mappings, names and tasks.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use memwide_perf_abi::{Attr, read_format};

use super::wanted::Wanted;
use super::{RecordError, RecordNote, RecordOptions, RecordTarget};
use crate::config::{Config, RingConfig};
use crate::count::CounterAbsent;
use crate::events::machine::Machine;
use crate::events::{
    EventSpec, explain, is_counted, open_with_less, raise_limits, ring_sizes, side_band_attr,
};
use crate::ring::{Ring, ring_size};
use crate::sys::{Descriptor, Place};

/// Bytes of the ring of an event that does not share the CPU's own; major faults are few.
const ALONE_BYTES: u64 = 256 << 10;

/// A ring, and who writes the samples of unknown ids in it.
///
/// At most one event counted in software writes into a ring: see the live collector's `SampleRing`.
#[derive(Debug)]
pub(super) struct EventRing {
    pub(super) ring: Ring,
    /// Id of the one event counted in software.
    pub(super) counted: Option<u64>,
}

/// A CPU's rings and whose events they take.
#[derive(Debug)]
pub(super) struct Lane {
    /// The first one is shared by all events but further ones counted in software.
    pub(super) rings: Vec<EventRing>,
    cpu: u32,
    /// The first one owns the ring, the others (further threads) write into it.
    pub(super) side_band: Vec<Descriptor>,
    places: Vec<Place>,
}

/// An event, open wherever it is recorded.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) attr: Attr,
    /// A tracepoint's format file.
    pub(super) format: String,
    pub(super) descriptors: Vec<Descriptor>,
    /// Leaders of groups; held open, never read.
    leaders: Vec<Descriptor>,
}

/// Everything open.
#[derive(Debug)]
pub(super) struct EventSet {
    pub(super) lanes: Vec<Lane>,
    pub(super) side_band_attr: Attr,
    pub(super) events: Vec<Event>,
    /// Optional events that are not there.
    pub(super) absent: Vec<(String, CounterAbsent)>,
    target: RecordTarget,
}

impl EventSet {
    /// Opens rings and side-band, not yet the events.
    pub(super) fn open_rings(
        options: &RecordOptions,
        user_only: bool,
        machine: &Machine,
        notes: &mut Vec<RecordNote>,
    ) -> Result<Self, RecordError> {
        raise_limits(0);
        let target = options.target;
        let page = Machine::page_size();
        let rings = ring_sizes(&RingConfig::default(), machine);
        let mut bytes = rings.sample_bytes;
        let mut attr = side_band_attr(&Config::default(), ring_size(bytes, page));
        attr.flags = attr.flags.with_context_switch(options.switches);
        adapt(&mut attr, target, user_only);
        let mut lanes: Vec<Lane> = Vec::new();
        let refused = |source: io::Error| match target {
            // Events on a thread of our own could be opened before.
            RecordTarget::Process(pid) if source.raw_os_error() == Some(libc::EACCES) => {
                RecordError::Refused {
                    what: format!("process {pid}"),
                    reason: "it belongs to another user".to_owned(),
                    remedy: "record as its user or as root, or with CAP_PERFMON and CAP_SYS_PTRACE",
                    source,
                }
            }
            _ => refused("mappings and names", source, machine),
        };
        for place in places(target, machine)? {
            let opened = open_with_less(&attr, |attr| Descriptor::open_at(attr, place, None));
            let (event, used, sheds) = match opened {
                Ok(opened) => opened,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(refused(error)),
            };
            if lanes.is_empty() {
                notes.extend(
                    sheds
                        .iter()
                        .map(|shed| without("side-band", shed.what, shed.remedy)),
                );
                attr = used;
            }
            let cpu = place.cpu.unwrap_or(0);
            if let Some(lane) = lanes.last_mut().filter(|lane| lane.cpu == cpu)
                && let Some(owner) = lane.side_band.first()
            {
                event.share_ring_of(owner).map_err(refused)?;
                lane.side_band.push(event);
                lane.places.push(place);
                continue;
            }
            let ring = loop {
                match Ring::map(&event, bytes, page) {
                    Ok(ring) => break ring,
                    // Locked memory is short: a smaller ring is better than none.
                    Err(_) if bytes > page as u64 => bytes /= 2,
                    Err(error) => return Err(refused(error)),
                }
            };
            lanes.push(Lane {
                rings: vec![EventRing {
                    ring,
                    counted: None,
                }],
                cpu,
                side_band: vec![event],
                places: vec![place],
            });
        }
        if bytes < rings.sample_bytes {
            notes.push(RecordNote::Other(format!(
                "rings of {bytes} bytes instead of {}: raise ulimit -l or kernel.perf_event_mlock_kb to lose less",
                rings.sample_bytes
            )));
        }
        match target {
            RecordTarget::Process(pid) | RecordTarget::Exec(pid) if lanes.is_empty() => {
                Err(RecordError::NoProcess { pid })
            }
            _ => Ok(Self {
                lanes,
                side_band_attr: attr,
                events: Vec::new(),
                absent: Vec::new(),
                target,
            }),
        }
    }

    /// Opens an event on every place.
    pub(super) fn open_event(
        &mut self,
        wanted: Wanted,
        user_only: bool,
        machine: &Machine,
        notes: &mut Vec<RecordNote>,
    ) -> Result<(), RecordError> {
        let Wanted { spec, optional } = wanted;
        let mut attr = spec.attr.clone();
        // What runs in the kernel only cannot be told apart by a tracepoint or breakpoint that is allowed at all.
        adapt(&mut attr, self.target, user_only);
        let group = spec.leader.clone().map(|mut attr| {
            adapt(&mut attr, self.target, user_only);
            attr
        });
        let (mut descriptors, mut leaders) = (Vec::new(), Vec::new());
        let mut not_there = None;
        for lane in &mut self.lanes {
            // Where in `descriptors` the owner of the event's own ring is.
            let mut own: Option<usize> = None;
            let alone = is_counted(&attr) && lane.rings.iter().any(|ring| ring.counted.is_some());
            for place in &lane.places {
                let shared = lane.side_band.first();
                let ring = if alone {
                    own.and_then(|at| descriptors.get(at))
                } else {
                    shared
                };
                let opened =
                    open_with_less(&attr, |attr| open_one(attr, group.as_ref(), *place, ring));
                let (event, leader) = match opened {
                    Ok((opened, used, sheds)) => {
                        if descriptors.is_empty() {
                            let all = sheds.iter();
                            notes.extend(
                                all.map(|shed| without(&spec.name, shed.what, shed.remedy)),
                            );
                            attr = used; // what one CPU refuses no other takes
                        }
                        opened
                    }
                    Err(error) if is_gone(&error) => continue,
                    Err(error) if is_elsewhere(&error) => {
                        not_there = Some(error);
                        continue;
                    }
                    Err(error) if optional => {
                        not_there = Some(error);
                        break;
                    }
                    Err(error) => return Err(refused(&spec.name, error, machine)),
                };
                if alone && own.is_none() {
                    match (Ring::map(&event, ALONE_BYTES, Machine::page_size()), shared) {
                        (Ok(ring), _) => {
                            lane.rings.push(EventRing {
                                ring,
                                counted: Some(event.id),
                            });
                            own = Some(descriptors.len());
                        }
                        // Locked memory is short.
                        (Err(_), Some(shared)) => event
                            .share_ring_of(shared)
                            .map_err(|error| refused(&spec.name, error, machine))?,
                        (Err(error), None) => return Err(refused(&spec.name, error, machine)),
                    }
                } else if let Some(main) = lane.rings.first_mut()
                    && is_counted(&attr)
                    && main.counted.is_none()
                {
                    main.counted = Some(event.id);
                }
                descriptors.push(event);
                leaders.extend(leader);
            }
        }
        match not_there {
            Some(error) if descriptors.is_empty() && !optional => {
                return Err(refused(&spec.name, error, machine));
            }
            Some(error) => {
                let (reason, _) = explain(&error, machine);
                if descriptors.is_empty() {
                    let absent = CounterAbsent::of(&error, &attr, machine);
                    self.absent.push((spec.name.clone(), absent));
                }
                let name = &spec.name;
                notes.push(if descriptors.is_empty() {
                    RecordNote::Without(format!("without {name}: {reason}"))
                } else {
                    RecordNote::Other(format!("without {name} on some CPUs: {reason}"))
                });
            }
            None => {}
        }
        if !descriptors.is_empty() {
            self.add(spec, attr, descriptors, leaders);
        } else if let (false, Some(pid)) = (optional, self.target.pid()) {
            return Err(RecordError::NoProcess { pid });
        }
        Ok(())
    }

    /// Whether one of these is open.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        let mut events = self.events.iter();
        events.any(|event| names.contains(&&*event.name))
    }

    fn add(
        &mut self,
        spec: EventSpec,
        attr: Attr,
        descriptors: Vec<Descriptor>,
        leaders: Vec<Descriptor>,
    ) {
        self.events.push(Event {
            name: spec.name,
            attr,
            format: spec.format,
            descriptors,
            leaders,
        });
    }

    /// Starts mappings, names and tasks; of a command they start with its exec.
    pub(super) fn enable_side_band(&self) -> io::Result<()> {
        if matches!(self.target, RecordTarget::Exec(_)) {
            return Ok(());
        }
        let mut all = self.lanes.iter().flat_map(|lane| &lane.side_band);
        all.try_for_each(Descriptor::enable)
    }

    /// Starts the events; those of a command start with its exec.
    pub(super) fn enable_events(&self) -> io::Result<()> {
        if matches!(self.target, RecordTarget::Exec(_)) {
            return Ok(());
        }
        let leaders = self.events.iter().flat_map(|event| &event.leaders);
        let events = self.events.iter().flat_map(|event| &event.descriptors);
        leaders.chain(events).try_for_each(Descriptor::enable)
    }

    /// Stops everything; what is in the rings stays.
    pub(super) fn disable(&self) -> io::Result<()> {
        let events = self.events.iter().flat_map(|event| &event.descriptors);
        let side_band = self.lanes.iter().flat_map(|lane| &lane.side_band);
        events.chain(side_band).try_for_each(Descriptor::disable)
    }

    /// Ids of the side-band events.
    pub(super) fn side_band_ids(&self) -> Vec<u64> {
        let all = self.lanes.iter().flat_map(|lane| &lane.side_band);
        all.map(|event| event.id).collect()
    }

    /// Side-band records the kernel had no room for.
    pub(super) fn side_band_lost(&self) -> u64 {
        let all = self.lanes.iter().flat_map(|lane| &lane.side_band);
        all.filter_map(|event| lost(event, &self.side_band_attr))
            .sum()
    }
}

impl Event {
    /// Samples the kernel had no room for.
    pub(super) fn lost(&self) -> u64 {
        let all = self.descriptors.iter();
        all.filter_map(|event| lost(event, &self.attr)).sum()
    }
}

/// `value, enabled, running, id, lost`, as the read format asks.
fn lost(event: &Descriptor, attr: &Attr) -> Option<u64> {
    if attr.read_format & read_format::LOST == 0 {
        return None;
    }
    let mut bytes = [0; 40];
    let len = rustix::io::read(event.as_fd(), &mut bytes).ok()?;
    let words = bytes.get(..len)?.as_chunks::<8>().0;
    words.get(4).copied().map(u64::from_le_bytes)
}

/// The threads of a process; of all, `None` once.
pub(crate) fn tasks(
    target: RecordTarget,
    machine: &Machine,
) -> Result<Vec<Option<u32>>, RecordError> {
    let Some(pid) = target.pid() else {
        return Ok(vec![None]);
    };
    let folder = machine.proc.join(format!("{pid}/task"));
    let entries = std::fs::read_dir(folder).map_err(|_| RecordError::NoProcess { pid })?;
    let tids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let sorted: BTreeSet<u32> = tids.collect();
    Ok(sorted.into_iter().map(Some).collect())
}

/// Every CPU; of a process each of its threads on every CPU, so that a ring belongs to one CPU and children inherit.
fn places(target: RecordTarget, machine: &Machine) -> Result<Vec<Place>, RecordError> {
    let tasks = tasks(target, machine)?;
    let on = |cpu| {
        tasks.iter().map(move |pid| Place {
            pid: *pid,
            cpu: Some(cpu),
        })
    };
    Ok(machine.online_cpus().into_iter().flat_map(on).collect())
}

fn adapt(attr: &mut Attr, target: RecordTarget, user_only: bool) {
    attr.flags = attr
        .flags
        .with_inherit(target.pid().is_some())
        .with_enable_on_exec(matches!(target, RecordTarget::Exec(_)));
    if user_only {
        attr.flags = attr.flags.with_exclude_kernel(true).with_exclude_hv(true);
    }
}

fn open_one(
    attr: &Attr,
    group: Option<&Attr>,
    place: Place,
    ring: Option<&Descriptor>,
) -> io::Result<(Descriptor, Option<Descriptor>)> {
    let leader = group
        .map(|attr| Descriptor::open_at(attr, place, None))
        .transpose()?;
    let event = Descriptor::open_at(attr, place, leader.as_ref())?;
    if let Some(ring) = ring {
        event.share_ring_of(ring)?;
    }
    Ok((event, leader))
}

/// The thread ended, or the CPU went offline.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// Other CPUs may have it.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENOENT | libc::ENXIO | libc::EOPNOTSUPP)
    )
}

fn refused(what: &str, source: io::Error, machine: &Machine) -> RecordError {
    let (reason, remedy) = explain(&source, machine);
    RecordError::Refused {
        what: what.to_owned(),
        reason,
        remedy,
        source,
    }
}

fn without(name: &str, what: &str, remedy: &str) -> RecordNote {
    let remedy = if remedy.is_empty() {
        String::new()
    } else {
        format!(" ({remedy})")
    };
    RecordNote::Other(format!("{name}: without {what}{remedy}"))
}

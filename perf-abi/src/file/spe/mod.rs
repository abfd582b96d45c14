//! SPE in a file: its AUX data becomes samples of an event of their own, in perf's order among the records.
//!
//! perf does so too (`perf script --itrace=M`): the event is called `memory`, its attr is derived from the SPE event's, and
//! each load or store becomes one sample. Streams are read piece by piece while the records go by, so memory is bounded by
//! the number of rings, not by the length of the trace.

mod merge;
mod ring;

pub(crate) use merge::Merge;

use std::io::{Read, Seek};

use super::{AuxPiece, Event, FileRecords, UserRecord};
use crate::spe::{Clock, Encoding, Info};
use crate::{Attr, SampleLayout, kind, sample};

/// Name of the event whose samples are made, as perf has it.
pub const MADE_EVENT: &str = "memory";
/// Id of the made event: the SPE event's first one and this.
const ID_OFFSET: u64 = 1_000_000_000;
/// Records among which the description of the trace must be: perf writes it before anything a kernel says.
const HEAD_RECORDS: u32 = 1 << 16;
/// Most pieces taken: 4 TiB of trace in pieces of 1 MiB.
const PIECES_MAX: usize = 1 << 22;

/// What was made of a file's SPE data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpeCounts {
    /// Pieces of trace.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sampled operations.
    pub records: u64,
    /// Loads and stores among them: samples of the made event.
    pub accesses: u64,
    /// Operations lost to damaged bytes or gaps, at least: nobody knows how many a run of damaged bytes held.
    pub broken: u64,
    /// Bytes that belong to no packet.
    pub bad_bytes: u64,
    /// `AUX` records: times the kernel handed on new trace.
    pub handed: u64,
    /// Those with samples lost to collisions (a sampled operation was in flight when the next was due).
    pub collided: u64,
    /// Those cut because the buffer was full.
    pub truncated: u64,
}

impl SpeCounts {
    /// Share of hand-overs with samples lost to collisions, 0 to 1: how many samples each lost, no hardware says.
    pub fn collision_share(&self) -> f64 {
        if self.handed == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = self.collided as f64 / self.handed as f64;
        share
    }
}

/// All that must be known before the first sample can be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    info: Info,
    clock: Option<Clock>,
    pieces: Vec<AuxPiece>,
    /// Main id register of cores that [`Info`] does not list.
    midr: u64,
    /// Index, id and layout of the made event.
    event: usize,
    id: u64,
    layout: SampleLayout,
}

impl Trace {
    /// Passes over the records once; `None` if the trace is no SPE's.
    pub(crate) fn find<R: Read + Seek>(
        mut records: FileRecords<'_, R>,
        cpuid: &str,
        events: &[Event],
    ) -> Option<(Self, Event)> {
        let (mut info, mut clock, mut pieces) = (None, None, Vec::new());
        let mut head = HEAD_RECORDS;
        while let Ok(Some(item)) = records.next() {
            if info.is_none() {
                head = head.checked_sub(1)?;
            }
            match item.record.kind {
                kind::AUXTRACE_INFO => match Info::parse(item.record.body()) {
                    Some(found) => info = Some(found),
                    None => return None,
                },
                kind::TIME_CONV => clock = Clock::parse(item.record.body()),
                kind::AUXTRACE if info.is_none() => return None,
                kind::AUXTRACE => {
                    let at = item.offset + crate::bytes::len64(item.record.size());
                    if let Some(UserRecord::Auxtrace(piece)) = UserRecord::parse(item.record)
                        && pieces.len() < PIECES_MAX
                    {
                        pieces.push(AuxPiece { at, ..piece });
                    }
                }
                _ => {}
            }
        }
        let info = info?;
        let made = made_event(&info, events);
        let layout = made.layout.ok()?;
        let hex = cpuid.trim().trim_start_matches("0x");
        let trace = Self {
            info,
            clock,
            pieces,
            midr: u64::from_str_radix(hex, 16).unwrap_or_default(),
            event: events.len(),
            id: made.ids.first().copied().unwrap_or_default(),
            layout,
        };
        Some((trace, made))
    }

    /// How a core's data sources are numbered, and whether it has an event for snooped data.
    fn core(&self, cpu: Option<u32>) -> (Encoding, bool) {
        let listed = self.info.cpu(cpu);
        let midr = listed.map_or(self.midr, |cpu| cpu.midr);
        let filter = listed.and_then(|cpu| cpu.event_filter).unwrap_or_default();
        let tells_snoops = filter & crate::spe::event::SNOOPED != 0;
        (Encoding::of_midr(midr), tells_snoops)
    }
}

/// The event perf makes up: what the SPE event records, and what its data says.
fn made_event(info: &Info, events: &[Event]) -> Event {
    let of_pmu = events.iter().find(|event| event.attr.kind == info.pmu_type);
    let named = || {
        events
            .iter()
            .find(|event| event.name.starts_with("arm_spe"))
    };
    let base = of_pmu.or_else(named).or(events.first());
    let (attr, first_id) = base.map_or((Attr::default(), 0), |event| {
        (event.attr.clone(), event.ids.first().copied().unwrap_or(0))
    });
    let kept = sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::ID
        | sample::STREAM_ID
        | sample::CPU
        | sample::PERIOD
        | sample::IDENTIFIER;
    let attr = Attr {
        kind: attr.kind,
        config: attr.config,
        flags: attr.flags,
        sample_period: 1,
        sample_type: attr.sample_type & kept
            // Whoever gets records and attrs apart must be able to tell them from the SPE event's own.
            | sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::PERIOD
            | sample::DATA_SRC
            | sample::WEIGHT
            | sample::ADDR
            | sample::PHYS_ADDR,
        ..Attr::default()
    };
    let id = first_id.wrapping_add(ID_OFFSET);
    Event::new(attr, vec![id], MADE_EVENT.to_owned())
}

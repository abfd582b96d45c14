//! perf's own records in a file: type 64 and above.

use super::AuxPiece;
use super::build_ids::{self, BuildIdEntry};
use crate::bytes::{Cursor, Order, Words, until_nul};
use crate::{Attr, RawRecord, kind};

/// A record of perf's own, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum UserRecord<'a> {
    /// An event (pipe mode).
    HeaderAttr {
        /// What it was asked for.
        attr: Attr,
        /// Its ids.
        ids: Words<'a>,
    },
    /// Tracing data of `size` bytes follows the record (pipe mode).
    TracingData {
        /// Bytes.
        size: u32,
    },
    /// Build id of a file (pipe mode).
    BuildId(BuildIdEntry),
    /// Earlier rounds are complete.
    FinishedRound,
    /// Synthesized records end here.
    FinishedInit,
    /// Ids with their CPU and thread.
    IdIndex(Vec<IdIndexEntry>),
    /// Threads recorded: pid and name.
    ThreadMap(Vec<(u64, &'a [u8])>),
    /// CPUs recorded, undecoded.
    CpuMap(&'a [u8]),
    /// Describes the AUX data: the kind of tracer and words it alone knows.
    AuxtraceInfo {
        /// 1 Intel PT, 2 Intel BTS, 3 CoreSight, 4 Arm SPE, 5 s390, 6 `HiSilicon` PTT, 7 POWER VPA.
        tracer: u32,
        /// Its words.
        words: Words<'a>,
    },
    /// AUX data follows the record; [`AuxPiece::at`] is 0 here, as a record does not know its place.
    Auxtrace(AuxPiece),
    /// An error in AUX data.
    AuxtraceError(AuxtraceError<'a>),
    /// How to turn the time stamp counter into perf time.
    TimeConv(TimeConv),
    /// Something about an event (pipe mode and units).
    EventUpdate(EventUpdate<'a>),
    /// A header feature (pipe mode).
    HeaderFeature {
        /// Its number, see [`super::feature`].
        number: u64,
        /// Its bytes.
        data: &'a [u8],
    },
    /// `perf stat` configuration: pairs of tag and value.
    StatConfig(Words<'a>),
    /// A `perf stat` count.
    Stat {
        /// The event's id.
        id: u64,
        /// CPU.
        cpu: u32,
        /// Index of the thread.
        thread: u32,
        /// Value, nanoseconds enabled, nanoseconds running.
        values: [u64; 3],
    },
    /// Start of a `perf stat` interval.
    StatRound {
        /// 0 interval, 1 final.
        round: u64,
        /// Nanoseconds.
        time: u64,
    },
    /// Metadata of a BPF program.
    BpfMetadata(BpfMetadata<'a>),
    /// Any other, undecoded.
    Raw(RawRecord<'a>),
}

/// Bytes of a BPF program's name in a `BPF_METADATA` record.
pub(crate) const BPF_NAME_LEN: usize = 256;
const BPF_KEY_LEN: usize = 64;
const BPF_ENTRY_LEN: usize = BPF_KEY_LEN + 256;

/// What a BPF program says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfMetadata<'a> {
    /// Name of the program.
    pub program: &'a [u8],
    /// Names and values.
    pub entries: Vec<(&'a [u8], &'a [u8])>,
}

/// A part of a trace that could not be decoded or was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuxtraceError<'a> {
    /// 1: an error of the instruction trace.
    pub what: u32,
    /// The tracer's code.
    pub code: u32,
    /// CPU, −1 for none.
    pub cpu: i32,
    /// Process, −1 for none.
    pub pid: i32,
    /// Thread, −1 for none.
    pub tid: i32,
    /// Code address.
    pub ip: u64,
    /// Nanoseconds, if recorded.
    pub time: Option<u64>,
    /// What went wrong.
    pub message: &'a [u8],
}

/// Where an id counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdIndexEntry {
    /// Event id.
    pub id: u64,
    /// Index of the ring.
    pub index: u64,
    /// CPU; `u64::MAX` for any.
    pub cpu: u64,
    /// Thread; `u64::MAX` for any.
    pub tid: u64,
}

/// Conversion of the time stamp counter: `time_zero + (tsc * mult >> shift)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeConv {
    /// Shift.
    pub shift: u64,
    /// Multiplier.
    pub mult: u64,
    /// Perf time at counter 0, in nanoseconds.
    pub zero: u64,
}

/// Something about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventUpdate<'a> {
    /// 0 unit, 1 scale, 2 name, 3 CPUs.
    pub what: u64,
    /// One of the event's ids.
    pub id: u64,
    /// The value.
    pub data: &'a [u8],
}

impl<'a> EventUpdate<'a> {
    /// The name, if that is what is updated.
    pub fn name(&self) -> Option<&'a [u8]> {
        (self.what == 2).then(|| until_nul(self.data))
    }
}

impl<'a> UserRecord<'a> {
    /// Reads a record of perf's own; `None` if it is the kernel's, or too short for its fields.
    pub fn parse(raw: RawRecord<'a>) -> Option<Self> {
        if raw.kind < kind::USER_TYPE_START {
            return None;
        }
        let mut cursor = Cursor::new(raw.body());
        Some(match raw.kind {
            kind::HEADER_ATTR => header_attr(raw.body())?,
            kind::HEADER_TRACING_DATA => Self::TracingData {
                size: cursor.u32().ok()?,
            },
            kind::HEADER_BUILD_ID => {
                Self::BuildId(build_ids::parse_body(raw.body(), raw.misc, Order::Little)?)
            }
            kind::FINISHED_ROUND => Self::FinishedRound,
            kind::FINISHED_INIT => Self::FinishedInit,
            kind::ID_INDEX => Self::IdIndex(id_index(&mut cursor)?),
            kind::THREAD_MAP => Self::ThreadMap(thread_map(&mut cursor)?),
            kind::CPU_MAP => Self::CpuMap(raw.body()),
            kind::AUXTRACE_INFO => {
                let tracer = cursor.u32().ok()?;
                cursor.u32().ok()?; // reserved
                let words = Words::new(cursor.rest());
                Self::AuxtraceInfo { tracer, words }
            }
            kind::AUXTRACE => Self::Auxtrace(AuxPiece {
                at: 0,
                size: cursor.u64().ok()?,
                offset: cursor.u64().ok()?,
                reference: cursor.u64().ok()?,
                index: cursor.u32().ok()?,
                tid: cursor.u32().ok()?.cast_signed(),
                cpu: cursor.u32().ok()?.cast_signed(),
            }),
            kind::AUXTRACE_ERROR => Self::AuxtraceError(auxtrace_error(&mut cursor)?),
            kind::STAT_CONFIG => {
                let count = cursor.u64().ok()?;
                Self::StatConfig(Words::new(cursor.entries("terms", count, 16).ok()?))
            }
            kind::STAT => Self::Stat {
                id: cursor.u64().ok()?,
                cpu: cursor.u32().ok()?,
                thread: cursor.u32().ok()?,
                values: [cursor.u64().ok()?, cursor.u64().ok()?, cursor.u64().ok()?],
            },
            kind::STAT_ROUND => Self::StatRound {
                round: cursor.u64().ok()?,
                time: cursor.u64().ok()?,
            },
            kind::BPF_METADATA => Self::BpfMetadata(bpf_metadata(&mut cursor)?),
            kind::TIME_CONV => Self::TimeConv(TimeConv {
                shift: cursor.u64().ok()?,
                mult: cursor.u64().ok()?,
                zero: cursor.u64().ok()?,
            }),
            kind::EVENT_UPDATE => Self::EventUpdate(EventUpdate {
                what: cursor.u64().ok()?,
                id: cursor.u64().ok()?,
                data: cursor.rest(),
            }),
            kind::HEADER_FEATURE => Self::HeaderFeature {
                number: cursor.u64().ok()?,
                data: cursor.rest(),
            },
            _ => Self::Raw(raw),
        })
    }
}

/// `{ struct perf_event_attr attr; u64 id[]; }`, the attr as long as it says itself.
fn header_attr(body: &[u8]) -> Option<UserRecord<'_>> {
    let size = match crate::bytes::u32_at(body, 4)? {
        0 => crate::ATTR_SIZE_VER0,
        size => usize::try_from(size).ok()?,
    };
    let (attr, ids) = body.split_at_checked(size)?;
    Some(UserRecord::HeaderAttr {
        attr: Attr::parse(attr).ok()?,
        ids: Words::new(ids),
    })
}

fn auxtrace_error<'a>(cursor: &mut Cursor<'a>) -> Option<AuxtraceError<'a>> {
    let mut signed = || Some(cursor.u32().ok()?.cast_signed());
    let [what, code, cpu, pid, tid, format] = [
        signed()?,
        signed()?,
        signed()?,
        signed()?,
        signed()?,
        signed()?,
    ];
    let ip = cursor.u64().ok()?;
    let time = (format > 0).then(|| cursor.u64().ok());
    Some(AuxtraceError {
        what: what.cast_unsigned(),
        code: code.cast_unsigned(),
        cpu,
        pid,
        tid,
        ip,
        time: time.flatten(),
        message: until_nul(cursor.bytes(cursor.left().min(64)).ok()?),
    })
}

fn bpf_metadata<'a>(cursor: &mut Cursor<'a>) -> Option<BpfMetadata<'a>> {
    let program = until_nul(cursor.bytes(BPF_NAME_LEN).ok()?);
    let count = cursor.u64().ok()?;
    let mut entries = Cursor::new(cursor.entries("metadata", count, BPF_ENTRY_LEN).ok()?);
    let mut metadata = BpfMetadata {
        program,
        entries: Vec::new(),
    };
    while entries.left() > 0 {
        let key = until_nul(entries.bytes(BPF_KEY_LEN).ok()?);
        let value = until_nul(entries.bytes(BPF_ENTRY_LEN - BPF_KEY_LEN).ok()?);
        metadata.entries.push((key, value));
    }
    Some(metadata)
}

fn id_index(cursor: &mut Cursor<'_>) -> Option<Vec<IdIndexEntry>> {
    let count = cursor.u64().ok()?;
    let words = Words::new(cursor.entries("ids", count, 32).ok()?);
    let entry = |index: usize| {
        let word = |add| words.get(4 * index + add);
        Some(IdIndexEntry {
            id: word(0)?,
            index: word(1)?,
            cpu: word(2)?,
            tid: word(3)?,
        })
    };
    (0..words.len() / 4).map(entry).collect()
}

fn thread_map<'a>(cursor: &mut Cursor<'a>) -> Option<Vec<(u64, &'a [u8])>> {
    let count = cursor.u64().ok()?;
    let mut entries = Cursor::new(cursor.entries("threads", count, 24).ok()?);
    let mut threads = Vec::new();
    while entries.left() > 0 {
        threads.push((entries.u64().ok()?, until_nul(entries.bytes(16).ok()?)));
    }
    Some(threads)
}

//! Records other than samples, one file each, borrowed from their bytes.

mod aux;
mod bpf_event;
mod callchain_deferred;
mod cgroup;
mod comm;
mod ksymbol;
mod lost;
mod mmap;
mod mmap2;
mod namespaces;
mod read;
mod switch;
mod task;
mod text_poke;
mod throttle;

pub use aux::{Aux, AuxOutputHwId, ItraceStart};
pub use bpf_event::BpfEvent;
pub use callchain_deferred::CallchainDeferred;
pub use cgroup::Cgroup;
pub use comm::Comm;
pub use ksymbol::Ksymbol;
pub use lost::{Lost, LostSamples};
pub use mmap::Mmap;
pub use mmap2::{BuildId, FileId, Mmap2};
pub(crate) use mmap2::{FILE_ID_LEN, holds_build_id};
pub use namespaces::{Namespace, Namespaces};
pub use read::Read;
pub use switch::{Switch, SwitchCpuWide};
pub use task::Task;
pub use text_poke::TextPoke;
pub use throttle::Throttle;

use crate::bytes::Cursor;
use crate::{RawRecord, RecordError, kind};

/// How one record type is read and written.
pub(crate) trait Body<'a>: Sized {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError>;
    fn put(&self, out: &mut Vec<u8>);
}

/// A record the kernel (or perf in its place) writes. Names and paths are bytes: nobody promises
/// that they are UTF-8.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A file or memory mapped (old form).
    Mmap(Mmap<'a>),
    /// Records lost because the ring was full.
    Lost(Lost),
    /// A task's name.
    Comm(Comm<'a>),
    /// A task's end.
    Exit(Task),
    /// An event is throttled.
    Throttle(Throttle),
    /// An event is no longer throttled.
    Unthrottle(Throttle),
    /// A task's start.
    Fork(Task),
    /// Counter values; see [`Read::values`].
    Read(Read<'a>),
    /// A sample: parse it with [`crate::SampleView`] and its event's layout.
    Sample(RawRecord<'a>),
    /// A file or memory mapped.
    Mmap2(Mmap2<'a>),
    /// New data in the AUX area.
    Aux(Aux),
    /// Instruction trace starts.
    ItraceStart(ItraceStart),
    /// Samples the hardware dropped.
    LostSamples(LostSamples),
    /// The monitored task is switched.
    Switch(Switch),
    /// A task is switched on a monitored CPU.
    SwitchCpuWide(SwitchCpuWide),
    /// A task's namespaces.
    Namespaces(Namespaces<'a>),
    /// Kernel symbol added or removed.
    Ksymbol(Ksymbol<'a>),
    /// BPF program loaded or unloaded.
    BpfEvent(BpfEvent),
    /// A cgroup's id and path.
    Cgroup(Cgroup<'a>),
    /// Kernel text changed.
    TextPoke(TextPoke<'a>),
    /// Hardware id of AUX output.
    AuxOutputHwId(AuxOutputHwId),
    /// User part of earlier callchains.
    CallchainDeferred(CallchainDeferred<'a>),
    /// Any other type, undecoded.
    Raw(RawRecord<'a>),
}

impl<'a> Record<'a> {
    /// Decodes a record. Unknown types are kept as [`Record::Raw`]; a known type that is too short
    /// for its fields is an error.
    pub fn parse(raw: RawRecord<'a>) -> Result<Self, RecordError> {
        fn body<'a, B: Body<'a>>(raw: &RawRecord<'a>) -> Result<B, RecordError> {
            B::parse(raw.misc, &mut Cursor::new(raw.body()))
        }
        Ok(match raw.kind {
            kind::MMAP => Self::Mmap(body(&raw)?),
            kind::LOST => Self::Lost(body(&raw)?),
            kind::COMM => Self::Comm(body(&raw)?),
            kind::EXIT => Self::Exit(body(&raw)?),
            kind::THROTTLE => Self::Throttle(body(&raw)?),
            kind::UNTHROTTLE => Self::Unthrottle(body(&raw)?),
            kind::FORK => Self::Fork(body(&raw)?),
            kind::READ => Self::Read(body(&raw)?),
            kind::SAMPLE => Self::Sample(raw),
            kind::MMAP2 => Self::Mmap2(body(&raw)?),
            kind::AUX => Self::Aux(body(&raw)?),
            kind::ITRACE_START => Self::ItraceStart(body(&raw)?),
            kind::LOST_SAMPLES => Self::LostSamples(body(&raw)?),
            kind::SWITCH => Self::Switch(body(&raw)?),
            kind::SWITCH_CPU_WIDE => Self::SwitchCpuWide(body(&raw)?),
            kind::NAMESPACES => Self::Namespaces(body(&raw)?),
            kind::KSYMBOL => Self::Ksymbol(body(&raw)?),
            kind::BPF_EVENT => Self::BpfEvent(body(&raw)?),
            kind::CGROUP => Self::Cgroup(body(&raw)?),
            kind::TEXT_POKE => Self::TextPoke(body(&raw)?),
            kind::AUX_OUTPUT_HW_ID => Self::AuxOutputHwId(body(&raw)?),
            kind::CALLCHAIN_DEFERRED => Self::CallchainDeferred(body(&raw)?),
            _ => Self::Raw(raw),
        })
    }

    /// The record type.
    pub fn kind(&self) -> u32 {
        match self {
            Self::Mmap(_) => kind::MMAP,
            Self::Lost(_) => kind::LOST,
            Self::Comm(_) => kind::COMM,
            Self::Exit(_) => kind::EXIT,
            Self::Throttle(_) => kind::THROTTLE,
            Self::Unthrottle(_) => kind::UNTHROTTLE,
            Self::Fork(_) => kind::FORK,
            Self::Read(_) => kind::READ,
            Self::Mmap2(_) => kind::MMAP2,
            Self::Aux(_) => kind::AUX,
            Self::ItraceStart(_) => kind::ITRACE_START,
            Self::LostSamples(_) => kind::LOST_SAMPLES,
            Self::Switch(_) => kind::SWITCH,
            Self::SwitchCpuWide(_) => kind::SWITCH_CPU_WIDE,
            Self::Namespaces(_) => kind::NAMESPACES,
            Self::Ksymbol(_) => kind::KSYMBOL,
            Self::BpfEvent(_) => kind::BPF_EVENT,
            Self::Cgroup(_) => kind::CGROUP,
            Self::TextPoke(_) => kind::TEXT_POKE,
            Self::AuxOutputHwId(_) => kind::AUX_OUTPUT_HW_ID,
            Self::CallchainDeferred(_) => kind::CALLCHAIN_DEFERRED,
            Self::Sample(raw) | Self::Raw(raw) => raw.kind,
        }
    }

    /// The bits of `misc` that say something about the record's own fields.
    pub(crate) fn own_misc(&self) -> u16 {
        match self {
            Self::Mmap(mmap) => mmap.own_misc(),
            Self::Comm(comm) => comm.own_misc(),
            Self::Mmap2(mmap) => mmap.own_misc(),
            Self::Switch(switch) => switch.own_misc(),
            Self::SwitchCpuWide(switch) => switch.switch.own_misc(),
            Self::Sample(raw) | Self::Raw(raw) => raw.misc,
            _ => 0,
        }
    }

    /// Appends the body, without sample id.
    pub(crate) fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Mmap(body) => body.put(out),
            Self::Lost(body) => body.put(out),
            Self::Comm(body) => body.put(out),
            Self::Exit(body) | Self::Fork(body) => body.put(out),
            Self::Throttle(body) | Self::Unthrottle(body) => body.put(out),
            Self::Read(body) => body.put(out),
            Self::Mmap2(body) => body.put(out),
            Self::Aux(body) => body.put(out),
            Self::ItraceStart(body) => body.put(out),
            Self::LostSamples(body) => body.put(out),
            Self::Switch(body) => body.put(out),
            Self::SwitchCpuWide(body) => body.put(out),
            Self::Namespaces(body) => body.put(out),
            Self::Ksymbol(body) => body.put(out),
            Self::BpfEvent(body) => body.put(out),
            Self::Cgroup(body) => body.put(out),
            Self::TextPoke(body) => body.put(out),
            Self::AuxOutputHwId(body) => body.put(out),
            Self::CallchainDeferred(body) => body.put(out),
            Self::Sample(raw) | Self::Raw(raw) => out.extend_from_slice(raw.body()),
        }
    }
}

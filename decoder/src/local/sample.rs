//! One decoded sample of a file, its names borrowed from the session.

use super::chains::ChainIx;
use super::members::Member;
use super::source::Chain;
use super::unwind::{ChainBy, ChainEnd};
use crate::classified::Derived;
use crate::context::Mode;
use crate::machine::Place;
use crate::memory::Memory;
use crate::symbols::Objects;
use memwide_model::DataSrc;
use memwide_objects::SourceFrame;
use memwide_perf_abi::file::Event;
use memwide_perf_abi::{SampleView, Weight};

/// A sample as perf would print it, with what memwide derives from it.
#[derive(Debug)]
pub struct LocalSample<'a> {
    /// Its event.
    pub event: &'a Event,
    /// Place of the event in the file.
    pub event_index: usize,
    /// The fields as recorded.
    pub view: &'a SampleView<'a>,
    /// Whose code ran.
    pub mode: Mode,
    /// `misc` of the record.
    pub misc: u16,
    /// Events since the sample before: recorded, the event's fixed period, or the counter's difference for counter reads.
    pub period: u64,
    /// The task's name, `:tid` if none is known.
    pub comm: &'a str,
    /// Classes, localities, region, context.
    pub derived: &'a Derived,
    /// The access, where more than the fields were looked at.
    pub(super) memory: Option<&'a Memory>,
    pub(super) code_place: Option<&'a Place>,
    pub(super) more: &'a More<'a>,
    pub(super) objects: &'a Objects,
}

/// What only some commands ask for: apart, so that a sample of which no more than its code is asked is made in few steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct More<'a> {
    pub(super) data_place: Option<Place>,
    pub(super) leaf: Option<(u64, Place)>,
    pub(super) callers: &'a [(u64, Place)],
    pub(super) chain: Option<ChainIx>,
    pub(super) chain_by: ChainBy,
    pub(super) chain_end: ChainEnd,
    pub(super) lines: &'a [SourceFrame],
    pub(super) frame_lines: &'a [Chain],
    pub(super) member: Option<&'a Member>,
}

impl More<'_> {
    const NOTHING: Self = Self {
        data_place: None,
        leaf: None,
        callers: &[],
        chain: None,
        chain_by: ChainBy::Kernel,
        chain_end: ChainEnd::Unknown,
        lines: &[],
        frame_lines: &[],
        member: None,
    };
}

/// A sample as it is taken from the file: what its record says, and of which event it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken<'a> {
    pub(super) misc: u16,
    pub(super) event: &'a Event,
    /// Place of the event in the file.
    pub(super) at: usize,
    pub(super) period: u64,
    pub(super) view: &'a SampleView<'a>,
}

/// An address with the names found for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<'a> {
    /// Symbol, demangled; `None` if none covers the address.
    pub symbol: Option<&'a str>,
    /// Bytes from the symbol's start; 0 without a symbol.
    pub symbol_offset: u64,
    /// Mapped object as perf names it, `[unknown]` if there is none.
    pub dso: &'a str,
    /// Its build id.
    pub build_id: Option<&'a [u8]>,
    /// The address as perf shows it in reports where no symbol covers it: an offset in the file, or the address.
    pub shown_address: u64,
}

/// One frame of a callchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Code address.
    pub ip: u64,
    /// Its names.
    pub named: Named<'a>,
}

/// One function of a callchain: one that was called, or one that was inlined into the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlinedFrame<'a> {
    /// Code address; those of inlined functions are the address of the function they are in.
    pub ip: u64,
    /// Name, demangled.
    pub symbol: Option<&'a str>,
    /// Mapped object as perf names it.
    pub dso: &'a str,
    /// Its line: where the sample was taken, or the call made.
    pub line: Option<&'a SourceFrame>,
    /// It was inlined into the next frame.
    pub inlined: bool,
}

const UNKNOWN: Named<'static> = Named {
    symbol: None,
    symbol_offset: 0,
    dso: "[unknown]",
    build_id: None,
    shown_address: 0,
};

impl<'a> LocalSample<'a> {
    /// Of which nothing is known beyond its fields.
    #[inline]
    pub(super) fn of_fields(taken: Taken<'a>, objects: &'a Objects) -> Self {
        Self {
            event: taken.event,
            event_index: taken.at,
            view: taken.view,
            mode: Mode::of(taken.misc),
            misc: taken.misc,
            period: taken.period,
            comm: "",
            derived: &Derived::UNASKED,
            memory: None,
            code_place: None,
            more: &More::NOTHING,
            objects,
        }
    }

    /// Process id, if the event records it; `u32::MAX` if the task was gone.
    #[inline]
    pub fn pid(&self) -> Option<u32> {
        self.view.pid()
    }

    /// Thread id.
    pub fn tid(&self) -> Option<u32> {
        self.view.tid()
    }

    /// Nanoseconds of the file's clock.
    pub fn time_ns(&self) -> Option<u64> {
        self.view.time()
    }

    /// CPU number.
    pub fn cpu(&self) -> Option<u32> {
        self.view.cpu()
    }

    /// Instruction pointer.
    #[inline]
    pub fn ip(&self) -> Option<u64> {
        self.view.ip()
    }

    /// Data address: recorded, or told by the hardware's registers.
    #[inline]
    pub fn addr(&self) -> Option<u64> {
        self.access(|memory| memory.addr, SampleView::addr)
    }

    /// Physical data address, likewise.
    #[inline]
    pub fn phys_addr(&self) -> Option<u64> {
        self.access(|memory| memory.phys_addr, SampleView::phys_addr)
    }

    /// Bytes of the data's page, likewise.
    #[inline]
    pub fn page_size(&self) -> Option<u64> {
        self.access(|memory| memory.page_size, SampleView::data_page_size)
    }

    /// Weight in the unit of the PMU, likewise.
    #[inline]
    pub fn weight(&self) -> Option<Weight> {
        self.access(|memory| memory.weight, SampleView::weight)
    }

    /// Data source, likewise.
    #[inline]
    pub fn data_src(&self) -> Option<DataSrc> {
        let field = |view: &SampleView<'_>| view.data_src().map(DataSrc);
        self.access(|memory| memory.data_src, field)
    }

    #[inline]
    fn access<T>(
        &self,
        known: impl FnOnce(&Memory) -> Option<T>,
        field: impl FnOnce(&SampleView<'a>) -> Option<T>,
    ) -> Option<T> {
        self.memory.map_or_else(|| field(self.view), known)
    }

    /// Names of the code address.
    pub fn code(&self) -> Named<'a> {
        self.code_place.map_or(UNKNOWN, |place| self.named(place))
    }

    /// Place of the code address: equal places have equal names, so a caller need look them up once only.
    #[inline]
    pub fn code_place(&self) -> Option<&'a Place> {
        self.code_place
    }

    /// Names of the data address, found as perf finds them: in the mappings of the mode the code ran in.
    pub fn data(&self) -> Named<'a> {
        let place = self.more.data_place.as_ref();
        place.map_or(UNKNOWN, |place| self.named(place))
    }

    /// The member of a variable at the data address, also where perf finds no variable (`.bss` behind a file's mapping); `None`
    /// where nothing is known or [`Wanted::MEMBERS`](super::Wanted::MEMBERS) was not asked for.
    pub fn member(&self) -> Option<&Member> {
        self.more.member
    }

    /// The callchain, innermost first, without context markers.
    pub fn callchain(&self) -> impl Iterator<Item = Frame<'a>> {
        let objects = self.objects;
        let callers = self.callers().iter().copied();
        let frames = self.more.leaf.into_iter().chain(callers);
        frames.map(move |(ip, place)| Frame {
            ip,
            named: named(objects, &place),
        })
    }

    /// The number of the callchain, where [`Wanted::CHAINS`](super::Wanted::CHAINS) was asked for and there are not too many:
    /// chains with one number have the same callers, which are given with the first sample that has it.
    pub fn chain(&self) -> Option<ChainIx> {
        self.more.chain
    }

    /// How the user part of the callchain was made.
    pub fn chain_by(&self) -> ChainBy {
        self.more.chain_by
    }

    /// Why the callchain has no further frames.
    pub fn chain_end(&self) -> ChainEnd {
        self.more.chain_end
    }

    /// Address and place of the callchain's innermost frame: equal places have equal names. `None` without frames.
    pub fn leaf(&self) -> Option<&(u64, Place)> {
        self.more.leaf.as_ref()
    }

    /// The same of the frames behind it, innermost first.
    pub fn callers(&self) -> &'a [(u64, Place)] {
        self.more.callers
    }

    /// Names of a frame's place.
    pub fn named_frame(&self, place: &Place) -> Named<'a> {
        self.named(place)
    }

    /// The line of the source that the code address comes from, with the functions inlined there, innermost first; empty
    /// where nothing is known or [`Wanted::LINES`](super::Wanted::LINES) was not asked for.
    pub fn source(&self) -> &[SourceFrame] {
        self.more.lines
    }

    /// The callchain with the functions that were inlined, innermost first. Without
    /// [`Wanted::INLINES`](super::Wanted::INLINES) it is [`LocalSample::callchain`].
    pub fn inlined_callchain(&self) -> impl Iterator<Item = InlinedFrame<'_>> {
        self.callchain().enumerate().flat_map(|(at, frame)| {
            let (own, inlined) = self.lines_at(at);
            let (ip, dso) = (frame.ip, frame.named.dso);
            let inlined = inlined.iter().map(move |line| InlinedFrame {
                ip,
                symbol: line.function.as_deref(),
                dso,
                line: Some(line),
                inlined: true,
            });
            let own = InlinedFrame {
                ip,
                symbol: frame.named.symbol,
                dso,
                line: own,
                inlined: false,
            };
            inlined.chain(std::iter::once(own))
        })
    }

    /// The functions inlined at a frame of the callchain, innermost first; none without
    /// [`Wanted::INLINES`](super::Wanted::INLINES).
    pub fn inlined_at(&self, at: usize) -> &[SourceFrame] {
        self.lines_at(at).1
    }

    /// The line of a frame's own function, and the functions inlined there.
    fn lines_at(&self, at: usize) -> (Option<&SourceFrame>, &[SourceFrame]) {
        let lines = self.more.frame_lines.get(at).map_or(&[][..], |lines| lines);
        match lines.split_last() {
            Some((own, inlined)) => (Some(own), inlined),
            None => (None, lines),
        }
    }

    fn named(&self, place: &Place) -> Named<'a> {
        named(self.objects, place)
    }
}

fn named<'a>(objects: &'a Objects, place: &Place) -> Named<'a> {
    let Some((at, object)) = place.object.and_then(|at| Some((at, objects.get(at)?))) else {
        return Named {
            shown_address: place.shown,
            ..UNKNOWN
        };
    };
    let table = objects.table(at);
    let symbol = table.zip(place.symbol).and_then(|(table, symbol)| {
        let found = if place.variable {
            table.object(symbol)
        } else {
            table.function(symbol)
        };
        Some((table.shown_name(symbol, place.variable), found?.start))
    });
    // A generated kernel symbol is its own mapping.
    let is_symbol = object.what == crate::symbols::What::KernelSymbol;
    let symbol = symbol.or_else(|| is_symbol.then(|| (object.dso(), 0)));
    Named {
        symbol_offset: symbol.map_or(0, |(_, start)| place.address.wrapping_sub(start)),
        symbol: symbol.map(|(name, _)| name),
        dso: object.dso(),
        build_id: object.build_id(),
        shown_address: place.shown,
    }
}

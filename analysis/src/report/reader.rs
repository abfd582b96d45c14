//! Each key turns a sample into a number, and the number back into a text.
//!
//! Two samples are of one row where `perf report` compares them equal. That is coarser than what is shown in three places: `mem`,
//! `snoop`, `tlb`, `locked` and `blocked` compare one field of `data_src` (the old level bits, the old snoop bits …) and show
//! the whole word of the first sample; `symbol_daddr` compares addresses and shows the first sample's variable; addresses
//! without a symbol are equal whatever file they are of.

use super::keys::Key;
use super::names::{Names, Place};
use super::nodes::{Nodes, UNKNOWN};
use super::symbol_numbers::SymbolNumbers;
use crate::sharing::is_of_process;
use crate::source::{line_or_place, name_of};
use crate::stacks::inlined_name;
use memwide_decoder::local::{LocalSample, Named};
use memwide_decoder::{Mode, ObjectIx, Place as CodePlace};
use memwide_model::{Context, DataSrc, Level, Locality, Op, Outcome, Region, perf_text};
use memwide_perf_abi::file::Features;
use memwide_perf_abi::misc;
use rustc_hash::{FxHashMap, FxHasher};
use std::borrow::Cow;
use std::hash::{Hash as _, Hasher as _};

/// `data_src` of samples that have none: every field not available, as perf fills it in.
const NOT_AVAILABLE: DataSrc = DataSrc(0x508_0021);

/// Bytes of a cache line, as bits to shift.
const LINE_SHIFT: u32 = 6;

/// Bits that the number of a file takes in what tells lines apart.
pub(super) const FILE_BITS: u32 = 24;

/// Place of a symbol that is an address only; no file has this number.
pub(super) const NO_FILE: u64 = u64::MAX;

/// Last word of the places of functions that were inlined; others have 0.
const INLINED: u64 = 1;

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;
/// What a number means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown<'a> {
    /// The text or number.
    pub value: Value<'a>,
    /// perf's letter: `k` kernel, `.` user, `g` and `u` of guests, `H` hypervisor.
    pub mode: char,
}

/// A text or a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value<'a> {
    /// Nobody knows.
    Unknown,
    /// A number that is a name, as of a process.
    Number(u64),
    /// A text.
    Text(Cow<'a, str>),
}

impl<'a> Shown<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            value: Value::Text(text.into()),
            mode: ' ',
        }
    }
}

/// What rows show of their first sample, as samples that `perf report` compares equal differ in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct First {
    /// Its `data_src`.
    word: DataSrc,
    /// Number of its data symbol.
    pub(super) data: u64,
}

/// Numbers of a callchain's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Frame {
    /// As of [`Key::Symbol`].
    pub(super) symbol: u64,
    /// As of [`Key::Dso`].
    pub(super) dso: u64,
}

/// Turns samples into numbers and back.
#[derive(Debug)]
pub(super) struct Reader {
    nodes: Nodes,
    pub(super) texts: Names,
    pub(super) symbols: Names,
    /// Numbers of the symbols of places seen before.
    places: SymbolNumbers,
    /// Numbers of the names of objects.
    dsos: FxHashMap<ObjectIx, u64>,
    pub(super) data: Names,
    pub(super) lines: Names,
    /// Numbers of the source lines and files of places seen before.
    source: FxHashMap<(ObjectIx, u64, Key), u64>,
}

impl Reader {
    /// For a file with these features.
    pub(super) fn new(features: &Features) -> Self {
        Self {
            nodes: Nodes::of(features),
            texts: Names::default(),
            symbols: Names::default(),
            places: SymbolNumbers::default(),
            dsos: FxHashMap::default(),
            data: Names::default(),
            lines: Names::default(),
            source: FxHashMap::default(),
        }
    }

    /// The number of a sample; `word` is its `data_src`.
    #[inline]
    pub(super) fn read(&mut self, key: Key, sample: &LocalSample<'_>, word: DataSrc) -> u64 {
        match key {
            Key::Symbol => self.symbol(sample),
            Key::Mem => word.lvl(),
            Key::Dso => self.texts.text(short_name(sample.code().dso)),
            Key::Comm => self.texts.text(sample.comm),
            Key::Pid => number(sample.pid()),
            Key::Tid => number(sample.tid()),
            Key::Cpu => number(sample.cpu()),
            Key::Node => self.nodes.of_cpu(sample.cpu()),
            Key::SymbolDaddr => sample.addr().unwrap_or(0),
            Key::DsoDaddr => self.texts.text(short_name(sample.data().dso)),
            Key::Member => self.member(sample),
            Key::Snoop => word.snoop(),
            Key::Tlb => word.dtlb(),
            Key::Locked => word.lock(),
            Key::Blocked => word.blk(),
            Key::Dcacheline => self.line(sample),
            Key::LocalWeight => sample.weight().map_or(0, |weight| weight.weight),
            Key::Event => 0,
            Key::Context => sample.derived.context.code().into(),
            Key::Op => sample.derived.class.op.code().into(),
            Key::Level => sample.derived.class.level.code().into(),
            Key::Outcome => sample.derived.class.outcome.code().into(),
            Key::Locality => sample.derived.locality.code().into(),
            Key::Region => sample.derived.region.code().into(),
            Key::Srcline | Key::Srcfile => self.source(key, sample),
        }
    }

    /// What a number means; `first` is of the row's first sample.
    pub(super) fn show<'a>(
        &'a self,
        key: Key,
        number: u64,
        First { word: first, data }: First,
        event: &'a str,
    ) -> Shown<'a> {
        match key {
            Key::Symbol => addressed(self.symbols.get(number)),
            Key::SymbolDaddr => addressed(self.data.get(data)),
            Key::Dcacheline => addressed(self.lines.get(number)),
            Key::Dso | Key::Comm | Key::DsoDaddr | Key::Member | Key::Srcline | Key::Srcfile => {
                Shown::text(self.texts.get(number).0)
            }
            Key::Pid | Key::Tid | Key::Cpu | Key::Node | Key::LocalWeight => Shown {
                value: if number == UNKNOWN {
                    Value::Unknown
                } else {
                    Value::Number(number)
                },
                mode: ' ',
            },
            Key::Mem => Shown::text(perf_text::level(first)),
            Key::Snoop => Shown::text(perf_text::snoop(first)),
            Key::Tlb => Shown::text(perf_text::tlb(first)),
            Key::Locked => Shown::text(perf_text::locked(first)),
            Key::Blocked => Shown::text(perf_text::blocked(first).trim_start().to_owned()),
            Key::Event => Shown::text(event),
            Key::Context => coded(number, |code| Context::from_code(code).map(Context::name)),
            Key::Op => coded(number, |code| Op::from_code(code).map(Op::name)),
            Key::Level => coded(number, |code| Level::from_code(code).map(Level::name)),
            Key::Outcome => coded(number, |code| Outcome::from_code(code).map(Outcome::name)),
            Key::Locality => coded(number, |code| Locality::from_code(code).map(Locality::name)),
            Key::Region => coded(number, |code| Region::from_code(code).map(Region::name)),
        }
    }

    /// A number that stands for what [`Reader::show`] says.
    pub(super) fn stands_for(key: Key, number: u64, first: First, event: u32) -> u64 {
        match key {
            Key::Mem | Key::Snoop | Key::Tlb | Key::Locked | Key::Blocked => first.word.0,
            Key::SymbolDaddr => first.data,
            Key::Event => event.into(),
            _ => number,
        }
    }

    /// A line or file of the source; perf shows `.` for a file that is not known.
    fn source(&mut self, key: Key, sample: &LocalSample<'_>) -> u64 {
        let place = sample.code_place();
        let place = place.and_then(|place| Some((place.object?, place.address, key)));
        if let Some(number) = place.and_then(|place| self.source.get(&place)) {
            return *number;
        }
        let number = if key == Key::Srcline {
            self.texts.text(&line_or_place(sample))
        } else {
            let file = sample
                .source()
                .first()
                .and_then(|line| line.file.as_deref());
            self.texts.text(file.map_or(".", name_of))
        };
        if let Some(place) = place {
            self.source.insert(place, number);
        }
        number
    }

    #[inline]
    fn symbol(&mut self, sample: &LocalSample<'_>) -> u64 {
        match sample.code_place() {
            Some(place) => self.symbol_at(sample, place, level(sample)),
            None => self.named_symbol(&sample.code(), level(sample)),
        }
    }

    /// Numbers of symbol and file of a callchain's frame.
    fn frame(&mut self, sample: &LocalSample<'_>, ip: u64, place: &CodePlace) -> Frame {
        let level = if ip & KERNEL_BIT == 0 { '.' } else { 'k' };
        let symbol = self.symbol_at(sample, place, level);
        let known = place.object.and_then(|object| self.dsos.get(&object));
        let dso = if let Some(dso) = known {
            *dso
        } else {
            let dso = self.texts.text(short_name(sample.named_frame(place).dso));
            if let Some(object) = place.object {
                self.dsos.insert(object, dso);
            }
            dso
        };
        Frame { symbol, dso }
    }

    /// The same with what was inlined there, which comes before; `at` is the frame's place in the chain.
    #[inline]
    pub(super) fn frames(
        &mut self,
        sample: &LocalSample<'_>,
        at: usize,
        ip: u64,
        place: &CodePlace,
        into: &mut Vec<Frame>,
    ) {
        let own = self.frame(sample, ip, place);
        for line in sample.inlined_at(at) {
            into.push(self.inlined(line.function.as_deref(), own));
        }
        into.push(own);
    }

    /// Numbers of a function that was inlined into that of a frame.
    fn inlined(&mut self, function: Option<&str>, into: Frame) -> Frame {
        let name = inlined_name(function.unwrap_or("[unknown]"));
        // The same function is the same wherever it was inlined.
        let symbol = self.symbols.placed(&name, [0, into.dso, INLINED], '.');
        Frame {
            symbol,
            dso: into.dso,
        }
    }

    /// Whether a frame is of a function that was inlined into the next one.
    pub(super) fn is_inlined(&self, frame: Frame) -> bool {
        let (_, [.., last], _) = self.symbols.get(frame.symbol);
        last == INLINED
    }

    #[inline]
    fn symbol_at(&mut self, sample: &LocalSample<'_>, place: &CodePlace, level: char) -> u64 {
        let Some((object, symbol)) = place.object.zip(place.symbol) else {
            return self.named_symbol(&sample.named_frame(place), level);
        };
        if let Some(number) = self.places.get(object, symbol) {
            return number;
        }
        let number = self.named_symbol(&sample.named_frame(place), level);
        self.places.set(object, symbol, number);
        number
    }

    fn named_symbol(&mut self, code: &Named<'_>, level: char) -> u64 {
        match &code.symbol {
            Some(symbol) => {
                let file = self.texts.text(short_name(code.dso));
                let start = code.shown_address.wrapping_sub(code.symbol_offset);
                self.symbols.placed(symbol, [start, file, 0], level)
            }
            None => self
                .symbols
                .placed("", [code.shown_address, NO_FILE, 0], level),
        }
    }

    /// What is to be shown of a row of which this is the first sample. `with_data`: its data symbol is.
    #[inline]
    pub(super) fn first(
        &mut self,
        sample: &LocalSample<'_>,
        word: DataSrc,
        with_data: bool,
    ) -> First {
        First {
            word,
            data: if with_data {
                self.data_symbol(sample)
            } else {
                0
            },
        }
    }

    /// Samples of one address may have several: programs have different variables there, and memory that the kernel touches has
    /// a name in the program only.
    fn data_symbol(&mut self, sample: &LocalSample<'_>) -> u64 {
        let (data, mode) = (sample.data(), level(sample));
        let variable = data.symbol.map_or(0, |name| {
            let mut hasher = FxHasher::default();
            (name, data.symbol_offset).hash(&mut hasher);
            hasher.finish()
        });
        let place = [sample.addr().unwrap_or(0), variable, u64::from(mode)];
        self.data.first(place, mode, || data_text(&data))
    }

    fn member(&mut self, sample: &LocalSample<'_>) -> u64 {
        super::filter::with_member(sample, |member| self.texts.text(member))
    }

    /// perf's identity of a line: mode, file and address in it, for private anonymous memory also the process. perf's letter is
    /// `X` where nothing is mapped and `s` for shared memory.
    fn line(&mut self, sample: &LocalSample<'_>) -> u64 {
        let data = sample.data();
        let line = data.shown_address >> LINE_SHIFT << LINE_SHIFT;
        let mode = match (data.dso, sample.derived.region) {
            ("[unknown]", _) => 'X',
            (_, Region::Shared) => 's',
            _ => level(sample),
        };
        let of_process = mode != 'X' && is_of_process(sample.derived.region, Some(data.dso));
        let process = if of_process { number(sample.pid()) } else { 0 };
        let owner =
            (u64::from(level(sample)) << 56) ^ (process << FILE_BITS) ^ self.texts.text(data.dso);
        self.lines.first([line, owner, event(sample)], mode, || {
            line_text(&data, line)
        })
    }
}

/// The word of a sample, with every field not available where it has none.
pub(super) fn data_src(sample: &LocalSample<'_>) -> DataSrc {
    sample.data_src().unwrap_or(NOT_AVAILABLE)
}

/// Rows of different events are apart, and each shows its own first sample.
fn event(sample: &LocalSample<'_>) -> u64 {
    sample.event_index as u64
}

fn number(value: Option<u32>) -> u64 {
    match value {
        Some(u32::MAX) | None => UNKNOWN,
        Some(value) => value.into(),
    }
}

fn data_text(data: &Named<'_>) -> Box<str> {
    match &data.symbol {
        Some(symbol) => format!("{symbol}+{:#x}", data.symbol_offset).into(),
        None => "".into(),
    }
}

/// The variable on a line, with the line's distance from its start.
fn line_text(data: &Named<'_>, line: u64) -> Box<str> {
    let Some(symbol) = &data.symbol else {
        return "".into();
    };
    let start = data.shown_address.wrapping_sub(data.symbol_offset);
    match line.checked_sub(start) {
        Some(into) => format!("{symbol}+{into:#x}").into(),
        None => format!("{symbol}-{:#x}", start - line).into(),
    }
}

/// A name, or where there is none the address as perf shows it: 16 digits, `0x` unless it is 0.
fn addressed((text, [address, ..], mode): (&str, Place, char)) -> Shown<'_> {
    let text = match (text, address) {
        ("", 0) => format!("{address:016x}").into(),
        ("", _) => format!("{address:#018x}").into(),
        (text, _) => text.into(),
    };
    Shown {
        value: Value::Text(text),
        mode,
    }
}

fn coded<E>(number: u64, name: impl Fn(u8) -> Result<&'static str, E>) -> Shown<'static> {
    let name = u8::try_from(number).ok().and_then(|code| name(code).ok());
    Shown::text(name.unwrap_or("unknown"))
}

fn level(sample: &LocalSample<'_>) -> char {
    match (sample.mode, sample.misc & misc::CPUMODE_MASK) {
        (Mode::Kernel, _) => 'k',
        (Mode::User, _) => '.',
        (Mode::Guest, misc::GUEST_KERNEL) => 'g',
        (Mode::Guest, _) => 'u',
        (Mode::Other, _) => 'H',
    }
}

/// The file's name without its folders, as perf shows it in reports.
pub(super) fn short_name(dso: &str) -> &str {
    dso.rsplit('/').next().unwrap_or(dso)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_symbol_are_shown_as_perf_shows_them() {
        for (address, text) in [
            (0x4f1a0, "0x000000000004f1a0"),
            (0, "0000000000000000"),
            (u64::MAX, "0xffffffffffffffff"),
        ] {
            assert_eq!(
                addressed(("", [address, 0, 0], 'k')).value,
                Value::Text(text.into())
            );
        }
        assert_eq!(
            addressed(("main", [1, 2, 0], '.')).value,
            Value::Text("main".into())
        );
    }

    #[test]
    fn files_are_shown_without_their_folders() {
        for (dso, short) in [
            ("/usr/lib/libc.so.6", "libc.so.6"),
            ("[kernel.kallsyms]", "[kernel.kallsyms]"),
            ("//anon", "anon"),
            ("[unknown]", "[unknown]"),
        ] {
            assert_eq!(short_name(dso), short);
        }
    }
}

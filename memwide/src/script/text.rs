//! A sample as a line of columns, in the order and widths of `perf script`.

use super::Line;
use super::fields::Fields;
use memwide_analysis::source::line_or_address;
use memwide_decoder::local::LocalSample;
use memwide_model::{DataSrc, perf_text};
use memwide_perf_abi::file::{EventTable, TracingData};
use rustc_hash::FxHashMap;

/// Different `data_src` words whose texts are kept; real files have some dozens, hostile ones must not fill memory.
const TEXTS_MAX: usize = 1 << 12;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Writes samples as text.
#[derive(Debug)]
pub(crate) struct Text {
    /// Names of the events, each padded to the longest and with its colon.
    events: Vec<String>,
    fields: Vec<Option<Fields>>,
    /// Texts of `data_src` words.
    texts: FxHashMap<u64, Box<str>>,
    /// Below each sample stands its line of the source.
    with_lines: bool,
}

impl Text {
    /// For the events of a file.
    pub(crate) fn new(events: &EventTable, tracing: Option<&TracingData>) -> Self {
        let names = || events.events().iter().map(|event| event.name.as_str());
        let width = names().map(str::len).max().unwrap_or(0);
        let padded = |name| {
            let mut line = Line::default();
            line.raw(" ");
            line.shown_right(name, width);
            line.raw(":");
            String::from_utf8_lossy(line.bytes()).into_owned()
        };
        Self {
            events: names().map(padded).collect(),
            fields: super::fields_of(events, tracing),
            texts: FxHashMap::default(),
            with_lines: false,
        }
    }

    /// With the line of the source below each sample, or without.
    pub(crate) fn with_lines(self, with_lines: bool) -> Self {
        Self { with_lines, ..self }
    }

    /// Appends a sample and the end of its line.
    pub(crate) fn write(&mut self, line: &mut Line, sample: &LocalSample<'_>) {
        if let Some((pid, tid)) = sample.pid().zip(sample.tid()) {
            line.shown_right(sample.comm, 16);
            line.raw(" ");
            write_id_right(line, pid, 5);
            line.raw("/");
            write_id_left(line, tid, 5);
        }
        if let Some(cpu) = sample.cpu() {
            line.raw(" [");
            line.decimal_zeros(cpu.into(), 3);
            line.raw("]");
        }
        if let Some(time) = sample.time_ns() {
            line.raw(" ");
            line.decimal_right(time / SECOND_NS, 5);
            line.raw(".");
            line.decimal_zeros(time % SECOND_NS, 9);
            line.raw(":");
        }
        line.raw(" ");
        line.decimal_right(sample.period, 10);
        line.raw(
            self.events
                .get(sample.event_index)
                .map_or("", String::as_str),
        );
        self.write_access(line, sample);
        let fields = self.fields.get_mut(sample.event_index);
        let fields = fields.and_then(Option::as_mut);
        if let Some((fields, raw)) = fields.zip(sample.view.raw()) {
            fields.write_text(line, raw);
        }
        write_code(line, sample);
        line.raw("\n");
        if self.with_lines && sample.ip().is_some() {
            line.raw("  ");
            line.shown(&line_or_address(sample));
            line.raw("\n");
        }
    }

    fn write_access(&mut self, line: &mut Line, sample: &LocalSample<'_>) {
        // As recorded, like perf: what registers say beyond that is in the other format.
        if let Some(addr) = sample.view.addr() {
            line.raw(" ");
            line.hex_right(addr, 16);
        }
        if let Some(word) = sample.view.data_src() {
            line.raw(" ");
            line.hex_right(word, 16);
            line.raw(" ");
            if self.texts.len() >= TEXTS_MAX {
                self.texts.clear();
            }
            let text = self.texts.entry(word);
            line.raw(text.or_insert_with(|| perf_text::script(DataSrc(word)).into()));
        }
        if let Some(weight) = sample.view.weight() {
            line.raw(" ");
            line.decimal_right(weight.weight, 16);
        }
    }
}

fn write_code(line: &mut Line, sample: &LocalSample<'_>) {
    let Some(ip) = sample.ip() else {
        return;
    };
    line.raw(" ");
    line.hex_right(ip, 16);
    let code = sample.code();
    match &code.symbol {
        Some(symbol) => {
            line.raw(" ");
            line.shown(symbol);
            line.raw("+");
            line.hex(code.symbol_offset);
        }
        None => line.raw(" [unknown]"),
    }
    line.raw(" (");
    line.shown(code.dso);
    line.raw(")");
}

/// Ids of a task that was gone are -1.
fn write_id_right(line: &mut Line, id: u32, width: usize) {
    if id == u32::MAX {
        line.pad(2, width);
        line.raw("-1");
    } else {
        line.decimal_right(id.into(), width);
    }
}

fn write_id_left(line: &mut Line, id: u32, width: usize) {
    let before = line.bytes().len();
    line.signed(id.cast_signed().into());
    let used = line.bytes().len() - before;
    line.pad(used, width);
}

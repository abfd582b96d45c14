//! A sample as one JSON object on a line: the fields in a fixed order, each only where the sample has it.

use super::Line;
use super::fields::Fields;
use super::texts::Texts;
use memwide_analysis::source::file_and_line;
use memwide_decoder::ObjectIx;
use memwide_decoder::local::{ChainBy, ChainEnd, ChainIx, InlinedFrame, LocalSample};
use memwide_model::data_src::lock;
use memwide_model::{DataSrc, MemRegion, Suspect};
use memwide_objects::{SourceFrame, SymbolRef};
use memwide_perf_abi::file::{EventTable, TracingData};
use memwide_perf_abi::sample;

/// Where nothing is mapped.
const UNKNOWN: &str = "[unknown]";

/// Writes samples as JSON.
#[derive(Debug)]
pub(crate) struct Json {
    /// `"event":"name",` of each event.
    events: Vec<String>,
    fields: Vec<Option<Fields>>,
    /// The callers of callchains as they were written first.
    callers: Texts<ChainIx>,
    /// Code symbols likewise.
    symbols: Texts<(ObjectIx, SymbolRef)>,
}

impl Json {
    /// For the events of a file.
    pub(crate) fn new(events: &EventTable, tracing: Option<&TracingData>) -> Self {
        let event = |name: &str| {
            let mut line = Line::default();
            line.raw("\"event\":");
            line.json(name);
            line.raw(",");
            String::from_utf8_lossy(line.bytes()).into_owned()
        };
        Self {
            events: events.events().iter().map(|one| event(&one.name)).collect(),
            fields: super::fields_of(events, tracing),
            callers: Texts::default(),
            symbols: Texts::default(),
        }
    }

    /// Appends a sample and the end of its line.
    pub(crate) fn write(&mut self, line: &mut Line, sample: &LocalSample<'_>) {
        line.raw("{");
        self.write_who(line, sample);
        self.write_code(line, sample);
        write_source(line, sample.source());
        write_data(line, sample);
        write_measures(line, sample);
        write_class(line, sample);
        line.raw("\"context\":\"");
        line.raw(sample.derived.context.name());
        line.raw("\",");
        self.write_chain(line, sample);
        let fields = self.fields.get_mut(sample.event_index);
        let fields = fields.and_then(Option::as_mut);
        if let Some((fields, raw)) = fields.zip(sample.view.raw()) {
            fields.write_json(line, raw);
        }
        line.replace_last("}\n");
    }

    fn write_who(&self, line: &mut Line, sample: &LocalSample<'_>) {
        decimal(line, "\"time_ns\":", sample.time_ns());
        line.raw(
            self.events
                .get(sample.event_index)
                .map_or("", String::as_str),
        );
        decimal(line, "\"cpu\":", sample.cpu().map(u64::from));
        // Of a task that was gone both are -1.
        for (key, id) in [("\"pid\":", sample.pid()), ("\"tid\":", sample.tid())] {
            if let Some(id) = id {
                line.raw(key);
                line.signed(id.cast_signed().into());
                line.raw(",");
            }
        }
        if sample.tid().is_some() {
            text(line, "\"comm\":", sample.comm);
        }
    }

    fn write_code(&mut self, line: &mut Line, sample: &LocalSample<'_>) {
        let Some(ip) = sample.ip() else {
            return;
        };
        hex(line, "\"ip\":", Some(ip));
        let place = sample.code_place();
        let key = place.and_then(|place| place.object.zip(place.symbol));
        let code = sample.code();
        self.symbols.write(line, key, |line| {
            if let Some(symbol) = &code.symbol {
                text(line, "\"symbol\":", symbol);
            }
        });
        if code.symbol.is_some() {
            decimal(line, "\"symbol_offset\":", Some(code.symbol_offset));
        }
        if code.dso != UNKNOWN {
            text(line, "\"dso\":", code.dso);
        }
        if let Some(id) = code.build_id {
            line.raw("\"build_id\":\"");
            line.hex_bytes(id);
            line.raw("\",");
        }
    }

    fn write_chain(&mut self, line: &mut Line, sample: &LocalSample<'_>) {
        if sample.view.callchain().is_none() {
            return;
        }
        line.raw("\"callchain\":[");
        let mut frames = sample.inlined_callchain();
        let mut before = "";
        for frame in frames.by_ref() {
            line.raw(before);
            write_frame(line, &frame);
            before = ",";
            if !frame.inlined {
                break; // what follows are its callers
            }
        }
        self.callers.write(line, sample.chain(), |line| {
            for frame in frames {
                line.raw(",");
                write_frame(line, &frame);
            }
        });
        line.raw("],");
        let (by, end) = (sample.chain_by(), sample.chain_end());
        if by != ChainBy::Kernel {
            name(line, "\"callchain_by\":\"", by.name());
        }
        if end != ChainEnd::Unknown {
            name(line, "\"callchain_end\":\"", end.name());
        }
    }
}

fn decimal(line: &mut Line, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        line.raw(key);
        line.decimal(number);
        line.raw(",");
    }
}

fn hex(line: &mut Line, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        line.raw(key);
        line.raw("\"");
        line.hex(number);
        line.raw("\",");
    }
}

fn text(line: &mut Line, key: &str, value: &str) {
    line.raw(key);
    line.json(value);
    line.raw(",");
}

/// `srcline` as perf shows it, the whole place in `source`, the functions inlined there in `inlined`.
fn write_source(line: &mut Line, frames: &[SourceFrame]) {
    let Some(first) = frames.first() else {
        return;
    };
    if let Some(shown) = file_and_line(first) {
        text(line, "\"srcline\":", &shown);
    }
    line.raw("\"source\":[");
    for (at, frame) in frames.iter().enumerate() {
        line.raw(if at == 0 { "{" } else { ",{" });
        if let Some(function) = &frame.function {
            text(line, "\"function\":", function);
        }
        if let Some(file) = &frame.file {
            text(line, "\"file\":", file);
        }
        decimal(line, "\"line\":", Some(frame.line.into()));
        decimal(line, "\"column\":", Some(frame.column.into()));
        line.replace_last("}");
    }
    line.raw("],");
}

fn write_data(line: &mut Line, sample: &LocalSample<'_>) {
    let Some(addr) = sample.addr() else {
        return;
    };
    hex(line, "\"addr\":", Some(addr));
    if addr == 0 {
        return; // the event had none
    }
    let data = sample.data();
    if let Some(symbol) = &data.symbol {
        text(line, "\"data_symbol\":", symbol);
        decimal(line, "\"data_symbol_offset\":", Some(data.symbol_offset));
    }
    if let Some(member) = sample.member() {
        text(line, "\"member\":", &member.name);
        decimal(line, "\"member_offset\":", Some(member.offset));
    }
    if data.dso != UNKNOWN {
        text(line, "\"data_dso\":", data.dso);
    }
    // Of a file, or of shared memory, the offset in it.
    if data.symbol.is_none() && data.shown_address != addr {
        decimal(line, "\"data_offset\":", Some(data.shown_address));
    }
    name(line, "\"region\":\"", sample.derived.region.name());
}

fn write_measures(line: &mut Line, sample: &LocalSample<'_>) {
    hex(line, "\"phys_addr\":", sample.phys_addr());
    decimal(line, "\"page_size\":", sample.page_size());
    if let Some(weight) = sample.weight() {
        decimal(line, "\"weight\":", Some(weight.weight));
        // Registers tell both latencies.
        let has_parts = sample.event.attr.samples(sample::WEIGHT_STRUCT);
        if has_parts || sample.view.weight().is_none() {
            decimal(line, "\"ins_lat\":", Some(weight.ins_lat.into()));
            decimal(line, "\"retire_lat\":", Some(weight.retire_lat.into()));
        }
    }
    decimal(line, "\"period\":", Some(sample.period));
}

fn name(line: &mut Line, key: &str, name: &str) {
    line.raw(key);
    line.raw(name);
    line.raw("\",");
}

fn write_class(line: &mut Line, sample: &LocalSample<'_>) {
    let word = sample.data_src();
    let class = &sample.derived.class;
    if let Some(DataSrc(word)) = word {
        hex(line, "\"data_src\":", Some(word));
        name(line, "\"op\":\"", class.op.name());
        name(line, "\"level\":\"", class.level.name());
        name(line, "\"outcome\":\"", class.outcome.name());
        name(line, "\"hw_locality\":\"", class.hw_locality.name());
    }
    if sample.phys_addr().is_some() {
        name(
            line,
            "\"page_locality\":\"",
            sample.derived.page_locality.name(),
        );
    }
    if let Some(word) = word {
        name(line, "\"snoop\":\"", class.snoop.name());
        name(line, "\"tlb\":\"", class.tlb.name());
        name(line, "\"lock\":\"", locked(word));
        name(line, "\"blocked\":\"", class.blocked.name());
        if class.region != MemRegion::Unknown {
            name(line, "\"mem_region\":\"", class.region.name());
        }
    }
    if class.suspect != Suspect::None {
        name(line, "\"suspect\":\"", class.suspect.name());
    }
}

fn locked(word: DataSrc) -> &'static str {
    match word.lock() {
        bits if bits & lock::LOCKED != 0 => "yes",
        bits if bits & lock::NA != 0 => "unknown",
        _ => "no",
    }
}

fn write_frame(line: &mut Line, frame: &InlinedFrame<'_>) {
    line.raw("{\"ip\":\"");
    line.hex(frame.ip);
    line.raw("\"");
    if let Some(symbol) = frame.symbol {
        line.raw(",\"symbol\":");
        line.json(symbol);
    }
    if frame.dso != UNKNOWN {
        line.raw(",\"dso\":");
        line.json(frame.dso);
    }
    if let Some(shown) = frame.line.and_then(file_and_line) {
        line.raw(",\"srcline\":");
        line.json(&shown);
    }
    if frame.inlined {
        line.raw(",\"inlined\":true");
    }
    line.raw("}");
}

//! Recordings of little-endian machines written again as a big-endian machine would have: both programs must say the same of
//! them.

use crate::collection::{folder, readable_by_perf};
use crate::perf::{self, NO_SYMBOLS, memwide};
use crate::script::first_difference;
use memwide_perf_abi::file::{Event, Features, feature};
use memwide_perf_abi::{
    Attr, Order, PerfFile, RawRecord, ReadValues, SampleView, Words, kind, misc, read_format,
    sample,
};
use std::path::Path;

/// Bytes of a big-endian file.
#[derive(Debug, Default)]
struct Big(Vec<u8>);

impl Big {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    fn u64s(&mut self, values: impl IntoIterator<Item = u64>) {
        values.into_iter().for_each(|value| self.u64(value));
    }

    fn len64(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap()
    }

    /// `count` little-endian numbers of `SIZE` bytes from `from`, turned; gives what is left.
    fn turned<'b, const SIZE: usize>(&mut self, from: &'b [u8], count: usize) -> &'b [u8] {
        let (numbers, rest) = from.split_at((count * SIZE).min(from.len() / SIZE * SIZE));
        for number in numbers.chunks_exact(SIZE) {
            self.0.extend(number.iter().rev());
        }
        rest
    }

    fn kept<'b>(&mut self, from: &'b [u8], len: usize) -> &'b [u8] {
        let (kept, rest) = from.split_at(len.min(from.len()));
        self.0.extend_from_slice(kept);
        rest
    }

    /// Fields of a first-bit-on-top machine: each keeps its value.
    fn bit_fields(&mut self, little: u64, widths: &[u32]) {
        let mut below = 0;
        let mut big = 0;
        for width in widths {
            big |= ((little >> below) & (u64::MAX >> (64 - width))) << (64 - below - width);
            below += width;
        }
        self.u64(big);
    }

    fn string(&mut self, text: &str) {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(u32::try_from(len).unwrap());
        self.0.extend_from_slice(text.as_bytes());
        self.0.resize(self.0.len() + len - text.len(), 0);
    }

    fn attr(&mut self, attr: &Attr) {
        let bytes = attr.encode(128);
        let rest = self.turned::<4>(&bytes, 2);
        let rest = self.turned::<8>(rest, 4);
        let mut widths = vec![1; 63];
        widths[15] = 2;
        self.bit_fields(attr.flags.0, &widths);
        let rest = self.turned::<4>(&rest[8..], 2);
        let rest = self.turned::<8>(rest, 4);
        let rest = self.turned::<4>(rest, 2);
        let rest = self.turned::<8>(rest, 1);
        let rest = self.turned::<4>(rest, 1);
        let rest = self.turned::<2>(rest, 2);
        let rest = self.turned::<4>(rest, 2);
        self.turned::<8>(rest, 1);
    }

    fn record(&mut self, record: &RawRecord<'_>, event: Option<&Event>) {
        let start = self.0.len();
        self.u32(record.kind);
        self.u16(record.misc);
        self.u16(0);
        if record.is_sample() {
            let layout = event.unwrap().layout.as_ref().unwrap();
            self.sample(&SampleView::parse(record.body(), layout).unwrap());
        } else {
            self.side_band(record, event);
        }
        let size = u16::try_from(self.0.len() - start).unwrap();
        self.0[start + 6..start + 8].copy_from_slice(&size.to_be_bytes());
    }

    fn side_band(&mut self, record: &RawRecord<'_>, event: Option<&Event>) {
        let trailer = event.map_or(0, |event| event.layout.as_ref().unwrap().trailer().len());
        let (body, id) = record.body().split_at(record.body().len() - trailer);
        let rest = match record.kind {
            kind::MMAP => {
                let rest = self.turned::<4>(body, 2);
                self.turned::<8>(rest, 3)
            }
            kind::MMAP2 => {
                let rest = self.turned::<4>(body, 2);
                let rest = self.turned::<8>(rest, 3);
                let rest = if record.has_misc(misc::MMAP_BUILD_ID) {
                    self.kept(rest, 24)
                } else {
                    let rest = self.turned::<4>(rest, 2);
                    self.turned::<8>(rest, 2)
                };
                self.turned::<4>(rest, 2)
            }
            kind::COMM | kind::ITRACE_START | kind::SWITCH_CPU_WIDE => self.turned::<4>(body, 2),
            kind::FORK | kind::EXIT => {
                let rest = self.turned::<4>(body, 4);
                self.turned::<8>(rest, 1)
            }
            kind::READ | kind::NAMESPACES => {
                let rest = self.turned::<4>(body, 2);
                self.turned::<8>(rest, usize::MAX / 8)
            }
            kind::CGROUP => self.turned::<8>(body, 1),
            kind::KSYMBOL => {
                let rest = self.turned::<8>(body, 1);
                let rest = self.turned::<4>(rest, 1);
                self.turned::<2>(rest, 2)
            }
            kind::BPF_EVENT => {
                let rest = self.turned::<2>(body, 2);
                self.turned::<4>(rest, 1)
            }
            kind::TEXT_POKE => {
                let rest = self.turned::<8>(body, 1);
                self.turned::<2>(rest, 2)
            }
            _ => self.turned::<8>(body, usize::MAX / 8),
        };
        self.kept(rest, rest.len()); // texts
        let Some(event) = event else { return };
        let mut rest = id;
        for (bit, pair) in [
            (sample::TID, true),
            (sample::TIME, false),
            (sample::ID, false),
            (sample::STREAM_ID, false),
            (sample::CPU, true),
            (sample::IDENTIFIER, false),
        ] {
            if event.attr.samples(bit) && !rest.is_empty() {
                rest = if pair {
                    self.turned::<4>(rest, 2)
                } else {
                    self.turned::<8>(rest, 1)
                };
            }
        }
    }

    fn sample(&mut self, view: &SampleView<'_>) {
        let sample_type = view.layout().sample_type();
        let has = |bit: u64| sample_type & bit != 0;
        let pair = |low: Option<u32>, high: Option<u32>| {
            u64::from(high.unwrap_or_default()) | u64::from(low.unwrap_or_default()) << 32
        };
        for (bit, value) in [
            (sample::IDENTIFIER, view.id()),
            (sample::IP, view.ip()),
            (sample::TID, Some(pair(view.pid(), view.tid()))),
            (sample::TIME, view.time()),
            (sample::ADDR, view.addr()),
            (sample::ID, view.id()),
            (sample::STREAM_ID, view.stream_id()),
            (sample::CPU, Some(pair(view.cpu(), None))),
            (sample::PERIOD, view.period()),
        ] {
            if has(bit) {
                self.u64(value.unwrap());
            }
        }
        if let Some(values) = view.read() {
            self.read(&values, view.layout().read_format());
        }
        if let Some(chain) = view.callchain() {
            self.words(chain);
        }
        if let Some(raw) = view.raw() {
            self.u32(u32::try_from(raw.len()).unwrap());
            self.kept(raw, raw.len());
        }
        if let Some(stack) = view.branch_stack() {
            self.u64(u64::try_from(stack.len()).unwrap());
            self.u64s(stack.hw_index);
            for branch in stack.iter() {
                self.u64s([branch.from, branch.to]);
                self.bit_fields(branch.flags, &[1, 1, 1, 1, 16, 4, 2, 4, 3, 31]);
            }
            self.u64s(stack.counters().iter());
        }
        if let Some(regs) = view.regs_user() {
            self.u64(regs.abi);
            self.u64s(regs.values.iter());
        }
        if let Some(stack) = view.stack_user() {
            self.u64(u64::try_from(stack.data.len()).unwrap());
            self.u64s(Words::new(stack.data).iter());
            if !stack.data.is_empty() {
                self.u64(stack.dyn_size);
            }
        }
        if let Some(weight) = view.weight() {
            let parts = u64::from(weight.ins_lat) << 32 | u64::from(weight.retire_lat) << 48;
            self.u64(weight.weight | parts);
        }
        self.u64s(view.data_src());
        self.u64s(view.transaction());
        if let Some(regs) = view.regs_intr() {
            self.u64(regs.abi);
            self.u64s(regs.values.iter());
        }
        self.u64s(view.phys_addr());
        self.u64s(view.cgroup());
        self.u64s(view.data_page_size());
        self.u64s(view.code_page_size());
        if let Some(aux) = view.aux() {
            self.u64(u64::try_from(aux.len()).unwrap());
            self.kept(aux, aux.len());
        }
    }

    fn words(&mut self, words: Words<'_>) {
        self.u64(u64::try_from(words.len()).unwrap());
        self.u64s(words.iter());
    }

    fn read(&mut self, values: &ReadValues<'_>, format: u64) {
        let group = format & read_format::GROUP != 0;
        let times = values.time_enabled.into_iter().chain(values.time_running);
        if group {
            self.u64(u64::try_from(values.len()).unwrap());
            self.u64s(times.clone());
        }
        for value in values.iter() {
            self.u64(value.value);
            if !group {
                self.u64s(times.clone());
            }
            self.u64s(value.id);
            self.u64s(value.lost);
        }
    }
}

/// Features that matter to what is compared.
fn features(events: &[Event], recorded: &Features) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    if let Some(tracing) = recorded.raw(feature::TRACING_DATA) {
        out.push((feature::TRACING_DATA, tracing.to_vec())); // it says its own byte order
    }
    let mut ids = Big::default();
    for entry in recorded.build_ids() {
        let name = entry.filename.len() / 8 * 8 + 8;
        ids.u32(0);
        ids.u16(entry.misc | misc::BUILD_ID_SIZE);
        ids.u16(u16::try_from(36 + name).unwrap());
        ids.u32(entry.pid.cast_unsigned());
        ids.0.extend_from_slice(&entry.build_id.padded());
        let len = u8::try_from(entry.build_id.as_bytes().len()).unwrap();
        ids.0.extend_from_slice(&[len, 0, 0, 0]);
        ids.0.extend_from_slice(&entry.filename);
        ids.0.resize(ids.0.len() + name - entry.filename.len(), 0);
    }
    out.push((feature::BUILD_ID, ids.0));
    for (number, unknown) in [
        (feature::HOSTNAME, "unknown"),
        (feature::OSRELEASE, "unknown"),
        // What a recording without it is taken to be of.
        (feature::ARCH, std::env::consts::ARCH),
    ] {
        let mut big = Big::default();
        big.string(recorded.text(number).as_deref().unwrap_or(unknown));
        out.push((number, big.0));
    }
    let mut desc = Big::default();
    desc.u32(u32::try_from(events.len()).unwrap());
    desc.u32(128);
    for event in events {
        desc.attr(&event.attr);
        desc.u32(u32::try_from(event.ids.len()).unwrap());
        desc.string(&event.name);
        desc.u64s(event.ids.iter().copied());
    }
    out.push((feature::EVENT_DESC, desc.0));
    out
}

/// The file as a big-endian machine would have written it; `None` if it cannot be said so.
fn turned(path: &Path) -> Option<Vec<u8>> {
    let mut file = PerfFile::open(std::fs::File::open(path).unwrap()).unwrap();
    let events = std::sync::Arc::clone(file.events());
    let readable = |event: &Event| event.layout.is_ok() && event.attr.config3 == 0;
    if file.header().order == Order::Big || !events.events().iter().all(readable) {
        return None;
    }
    let features = features(events.events(), file.features());
    let mut data = Big::default();
    let mut records = file.records().unwrap();
    while let Some(item) = records.next().unwrap() {
        let event = item.event.and_then(|event| events.get(event));
        // Of perf's own records only the ends of rounds bear on samples.
        if item.record.kind < kind::USER_TYPE_START {
            data.record(&item.record, event.or(events.get(0)));
        } else if item.record.kind == kind::FINISHED_ROUND {
            data.record(&item.record, None);
        }
    }
    let count = u64::try_from(events.events().len()).unwrap();
    let ids: u64 = events
        .events()
        .iter()
        .map(|event| 8 * u64::try_from(event.ids.len()).unwrap())
        .sum();
    let (attrs_at, attr_size) = (104 + ids, 144);
    let data_at = attrs_at + count * attr_size;
    let mut out = Big::default();
    out.0.extend(b"2ELIFREP");
    out.u64s([
        104,
        attr_size,
        attrs_at,
        count * attr_size,
        data_at,
        data.len64(),
        0,
        0,
    ]);
    let bits = features
        .iter()
        .fold(0, |bits, (number, _)| bits | 1u64 << number);
    out.u64s([bits, 0, 0, 0]);
    for event in events.events() {
        out.u64s(event.ids.iter().copied());
    }
    let mut ids_at = 104;
    for event in events.events() {
        out.attr(&event.attr);
        let len = 8 * u64::try_from(event.ids.len()).unwrap();
        out.u64s([ids_at, len]);
        ids_at += len;
    }
    out.0.extend_from_slice(&data.0);
    let mut at = out.len64() + 16 * u64::try_from(features.len()).unwrap();
    for (_, bytes) in &features {
        let len = u64::try_from(bytes.len()).unwrap();
        out.u64s([at, len]);
        at += len;
    }
    for (_, bytes) in &features {
        out.0.extend_from_slice(bytes);
    }
    Some(out.0)
}

#[test]
fn recordings_of_the_other_byte_order_say_the_same() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let copy = temporary.path().join("big.data");
    let script = [&["script", "--format", "ndjson"][..], &NO_SYMBOLS].concat();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in readable_by_perf(&folder) {
        let path = folder.join(&name);
        let Some(bytes) = turned(&path) else { continue };
        std::fs::write(&copy, bytes).unwrap();
        if let Some(difference) = first_difference(&copy) {
            wrong.push(format!("{name}, turned: {difference}"));
        }
        let lines = |file: &Path| -> Vec<String> {
            let text = memwide(&script, file);
            text.lines().map(without_host).collect()
        };
        let (original, turned) = (lines(&path), lines(&copy));
        if let Some(difference) = perf::difference(&turned, &original) {
            wrong.push(format!("{name}: turned and original: {difference}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 30, "{compared}");
}

/// The copies say nothing of CPU and memory in their header.
fn without_host(line: &str) -> String {
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    let fields = line.as_object_mut().unwrap();
    for field in ["page_locality", "suspect"] {
        fields.remove(field);
    }
    line.to_string()
}

//! Samples of one host as a perf.data file that perf reads.
//!
//! Instruction and data addresses are those that were sampled. Where each file was mapped follows from them: the address of
//! a sample less its place in the file. So every process has mappings of the files its samples lie in, as far as they
//! reach, from the first sample there on; a program that another one replaces in its process has its own. Callers of files no sample lies in have addresses of their own above everything.
//! Times are wall time. What was not stored (registers, raw data, other mappings) is not there.

pub(crate) mod ask;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

use memwide_perf_abi::file::{ClockData, EventSpec, Features, SampleTime, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, FileError, FileId, FileWriter, Mmap2, Order, Record,
    SampleFields, SampleId, SampleLayout, Weight, attr_kind, encode, misc, sample,
};

use crate::answer::Value;
use crate::ask::Filter;
use crate::problem::{Class, Problem};

/// What was asked of the store, in the order of its columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) samples: Vec<Vec<Value>>,
    pub(crate) events: Vec<Vec<Value>>,
    pub(crate) stacks: Vec<Vec<Value>>,
    pub(crate) places: Vec<Vec<Value>>,
    pub(crate) mappings: Vec<Vec<Value>>,
    pub(crate) host: Vec<Vec<Value>>,
    pub(crate) name: String,
}

/// The one host of a selection, from its [`ask::size`]; a selection that is empty, too large or of several hosts is no
/// recording.
pub(crate) fn of_one_host(filter: &Filter, size: &[Vec<Value>]) -> Result<String, Problem> {
    let size = size.first().map(Vec::as_slice).unwrap_or_default();
    let (samples, hosts) = (number(size, 0), text(size, 1));
    let (class, detail, remedy) = match (samples, number(size, 2)) {
        (0, _) => (
            Class::NotFound,
            format!("no sample of {} passes the filters", filter.range),
            "`samples` keeps 3 days; `breakdown` with the same filters says what is there"
                .to_owned(),
        ),
        (_, 2..) => (
            Class::Question,
            "a perf.data file is of one machine, and the selection is of several".to_owned(),
            format!("choose one with `host`: {hosts}"),
        ),
        (ask::SAMPLES_MAX.., _) => (
            Class::Limit,
            format!(
                "{samples} samples are selected, a recording has less than {}",
                ask::SAMPLES_MAX
            ),
            "narrow the range, or choose an event, pod or comm".to_owned(),
        ),
        _ => return Ok(hosts.to_owned()),
    };
    Err(Problem {
        class,
        title: "this is no recording",
        detail,
        remedy,
    })
}

/// Fields of every sample.
const FIELDS: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::ADDR
    | sample::CPU
    | sample::PERIOD
    | sample::CALLCHAIN
    | sample::WEIGHT_STRUCT
    | sample::DATA_SRC
    | sample::PHYS_ADDR
    | sample::DATA_PAGE_SIZE;

/// Marks in callchains (`PERF_CONTEXT_KERNEL`, `PERF_CONTEXT_USER`).
const IN_KERNEL: u64 = 0_u64.wrapping_sub(128);
const IN_USER: u64 = 0_u64.wrapping_sub(512);
/// Dummy event of the kernel: what an event without a stored attr is written as.
const DUMMY: u64 = 9;
const CLOCK_REALTIME: u32 = 0;
const PAGE: u64 = 4096;
/// Where files lie that no sample tells the place of; each has as much room.
const UNPLACED: u64 = 0x7000_0000_0000;
const UNPLACED_ROOM: u64 = 1 << 36;

fn number(row: &[Value], at: usize) -> u64 {
    match row.get(at) {
        Some(Value::Number(number)) => *number,
        _ => 0,
    }
}

fn text(row: &[Value], at: usize) -> &str {
    match row.get(at) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

fn small<T: TryFrom<u64> + Default>(number: u64) -> T {
    T::try_from(number).unwrap_or_default()
}

const fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// One file, as samples know it.
#[derive(Debug)]
struct Mapped<'a> {
    kind: &'a str,
    build_id: &'a str,
    path: &'a str,
}

/// A place in a file.
#[derive(Debug, Clone, Copy)]
struct Place {
    mapping: u64,
    address: u64,
    /// Address less offset.
    shift: i64,
}

/// Process and mapping; the kernel is one for all.
type Home = (u32, u64);

/// Process, mapping, address in memory less address in the file, address less offset.
type PieceKey = (u32, u64, u64, i64);

/// A piece of a file in a process.
#[derive(Debug, Clone, Copy)]
struct Piece {
    low: u64,
    high: u64,
    since: u64,
}

#[derive(Debug)]
struct Recording<'a> {
    rows: &'a Rows,
    mapped: HashMap<u64, Mapped<'a>>,
    places: HashMap<u64, Place>,
    stacks: HashMap<u64, Vec<u64>>,
    /// Address in memory less address in the file, each from a moment on.
    biases: HashMap<Home, Vec<(u64, u64)>>,
    pieces: BTreeMap<PieceKey, Piece>,
}

impl<'a> Recording<'a> {
    fn new(rows: &'a Rows) -> Self {
        let mapped = rows.mappings.iter();
        let mapped = mapped.map(|row| {
            let file = Mapped {
                kind: text(row, 1),
                build_id: text(row, 2),
                path: text(row, 3),
            };
            (number(row, 0), file)
        });
        let mut shifts: HashMap<u64, i64> = HashMap::new();
        for row in &rows.places {
            if let Ok(shift) = text(row, 3).parse() {
                shifts.entry(number(row, 1)).or_insert(shift);
            }
        }
        let places = rows.places.iter().map(|row| {
            let mapping = number(row, 1);
            let shift = text(row, 3).parse().ok();
            let place = Place {
                mapping,
                address: number(row, 2),
                // Without a word of its own: as other places of the file.
                shift: shift.unwrap_or_else(|| shifts.get(&mapping).copied().unwrap_or(0)),
            };
            (number(row, 0), place)
        });
        let stacks = rows.stacks.iter().map(|row| {
            let ids = text(row, 1).split(' ').filter_map(|id| id.parse().ok());
            (number(row, 0), ids.collect())
        });
        let mut recording = Self {
            rows,
            mapped: mapped.collect(),
            places: places.collect(),
            stacks: stacks.collect(),
            biases: HashMap::new(),
            pieces: BTreeMap::new(),
        };
        recording.place();
        recording
    }

    fn home(&self, pid: u32, place: Place) -> Home {
        let of_kernel = self.mapped.get(&place.mapping);
        let of_kernel = of_kernel.is_some_and(|file| file.kind == "kernel");
        (if of_kernel { u32::MAX } else { pid }, place.mapping)
    }

    /// Where files are, from the samples in them; then how far they reach.
    fn place(&mut self) {
        let rows = self.rows;
        for row in &rows.samples {
            let (time, pid, ip) = (number(row, 0), small(number(row, 2)), number(row, 5));
            if let Some(place) = self.places.get(&number(row, 14)).copied() {
                let home = self.home(pid, place);
                let bias = ip.wrapping_sub(place.address);
                let known = self.biases.entry(home).or_default();
                if known.last().is_none_or(|(_, last)| *last != bias) {
                    known.push((time, bias));
                }
            }
        }
        for row in &rows.samples {
            let (time, pid) = (number(row, 0), small(number(row, 2)));
            let leaf = self.places.get(&number(row, 14)).copied();
            if let Some(place) = leaf {
                self.reach(pid, place, number(row, 5), time);
            }
            let stack = self.stacks.get(&number(row, 15)).cloned();
            for id in stack.unwrap_or_default() {
                if let Some(place) = self.places.get(&id).copied() {
                    let address = self.address(pid, place, time);
                    self.reach(pid, place, address, time);
                }
            }
        }
    }

    /// Address of a place in a process at a time.
    fn address(&mut self, pid: u32, place: Place, time: u64) -> u64 {
        let home = self.home(pid, place);
        let next = UNPLACED + UNPLACED_ROOM * (self.biases.len() as u64 % 256);
        let known = self
            .biases
            .entry(home)
            .or_insert_with(|| vec![(time, next)]);
        let behind = known.partition_point(|(since, _)| *since <= time);
        let (_, bias) = known
            .get(behind.saturating_sub(1))
            .copied()
            .unwrap_or((0, next));
        bias.wrapping_add(place.address)
    }

    fn reach(&mut self, pid: u32, place: Place, address: u64, time: u64) {
        let home = self.home(pid, place);
        let bias = address.wrapping_sub(place.address);
        let piece = self
            .pieces
            .entry((home.0, home.1, bias, place.shift))
            .or_insert(Piece {
                low: address,
                high: address,
                since: time,
            });
        piece.low = piece.low.min(address);
        piece.high = piece.high.max(address);
        piece.since = piece.since.min(time);
    }

    /// The mapping of a piece.
    fn mmap(&self, (pid, mapping, bias, shift): PieceKey, piece: Piece) -> Option<Mmap2<'a>> {
        let file = self.mapped.get(&mapping)?;
        let addr = piece.low & !(PAGE - 1);
        let len = (piece.high | (PAGE - 1))
            .wrapping_sub(addr)
            .saturating_add(1);
        let offset = addr.wrapping_sub(bias).wrapping_sub(shift.cast_unsigned());
        let build_id = (file.kind == "build-id")
            .then(|| bytes(file.build_id))
            .flatten()
            .and_then(|bytes| BuildId::from_slice(&bytes));
        let (pgoff, filename) = match file.kind {
            "kernel" => (0, file.path),
            "jit" => (addr, "//anon"),
            "unknown" => return None,
            _ => (offset, file.path),
        };
        Some(Mmap2 {
            pid,
            tid: if pid == u32::MAX { 0 } else { pid },
            addr,
            len,
            pgoff,
            file: build_id.map_or(
                FileId::Inode {
                    maj: 0,
                    min: 0,
                    ino: 0,
                    generation: 0,
                },
                FileId::BuildId,
            ),
            prot: 5,
            flags: 2,
            filename: filename.as_bytes(),
            data: false,
        })
    }
}

/// Bytes of a hexadecimal text.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}

/// What the event was asked for, with the fields and flags of this file. Tracepoints are written as an event without a meaning,
/// under their name: the formats of their fields are not stored, and perf refuses a file with tracepoints and without formats.
fn attr(hex: &str) -> Attr {
    let stored = bytes(hex).and_then(|bytes| Attr::parse(&bytes).ok());
    let stored = stored.filter(|attr| attr.kind != attr_kind::TRACEPOINT);
    let stored = stored.unwrap_or(Attr {
        kind: attr_kind::SOFTWARE,
        config: DUMMY,
        ..Attr::default()
    });
    Attr {
        sample_type: FIELDS,
        read_format: 0,
        branch_sample_type: 0,
        sample_regs_user: 0,
        sample_regs_intr: 0,
        sample_stack_user: 0,
        aux_sample_size: 0,
        clockid: i32::try_from(CLOCK_REALTIME).unwrap_or(0),
        flags: AttrFlags::default()
            .with_precise_ip(stored.flags.precise_ip())
            .with_exclude_kernel(stored.flags.exclude_kernel())
            .with_exclude_user(stored.flags.exclude_user())
            .with_sample_id_all(true)
            .with_comm(true)
            .with_mmap(true)
            .with_mmap2(true)
            .with_build_id(true)
            .with_use_clockid(true),
        // A frequency would say nothing: samples have their periods.
        sample_period: stored.sample_period.max(1),
        ..stored
    }
}

/// The file.
pub(crate) fn write(rows: &Rows) -> Result<Vec<u8>, FileError> {
    let events: Vec<EventSpec> = rows
        .events
        .iter()
        .zip(1..)
        .map(|(row, id)| EventSpec {
            attr: attr(text(row, 2)),
            name: text(row, 1).to_owned(),
            ids: vec![id],
        })
        .collect();
    let ids: HashMap<u64, u64> = rows
        .events
        .iter()
        .map(|row| number(row, 0))
        .zip(1..)
        .collect();
    let layout = SampleLayout::new(&attr("")).map_err(|_| FileError::TooMany {
        what: "fields of a sample",
        count: 0,
        limit: 0,
    })?;
    let mut recording = Recording::new(rows);
    let mut out = FileWriter::new(Cursor::new(Vec::new()), &events)?;
    let trailer = |time: u64, pid: u32, tid: u32| SampleId {
        pid: Some(pid),
        tid: Some(tid),
        time: Some(time),
        id: Some(1),
        stream_id: None,
        cpu: Some(0),
    };
    let mut record = Vec::new();
    let mut maps: Vec<(u64, Mmap2<'_>)> = recording
        .pieces
        .iter()
        .filter_map(|(key, piece)| Some((piece.since, recording.mmap(*key, *piece)?)))
        .collect();
    maps.sort_by_key(|(since, map)| (*since, map.pid, map.addr));
    let mut maps = maps.into_iter().peekable();
    let mut named: HashMap<(u32, u32), &str> = HashMap::new();
    let mut chain = Vec::new();
    for row in &rows.samples {
        let (time, pid, tid) = (number(row, 0), small(number(row, 2)), small(number(row, 3)));
        record.clear();
        while let Some((since, map)) = maps.next_if(|(since, _)| *since <= time) {
            let mode = if map.pid == u32::MAX {
                misc::KERNEL
            } else {
                misc::USER
            };
            let id = trailer(since, map.pid, map.tid);
            let trailer = Some((layout.trailer(), &id));
            encode::record(&mut record, &Record::Mmap2(map), mode, trailer)?;
        }
        let comm = text(row, 16);
        if named.insert((pid, tid), comm) != Some(comm) {
            let id = trailer(time, pid, tid);
            let comm = Record::Comm(Comm {
                pid,
                tid,
                comm: comm.as_bytes(),
                exec: false,
            });
            encode::record(&mut record, &comm, 0, Some((layout.trailer(), &id)))?;
        }
        let ip = number(row, 5);
        chain.clear();
        let stack = recording.stacks.get(&number(row, 15)).cloned();
        let mut mode = None;
        for id in stack.unwrap_or_default() {
            let Some(place) = recording.places.get(&id).copied() else {
                continue;
            };
            let address = recording.address(pid, place, time);
            let of = if is_kernel(address) {
                IN_KERNEL
            } else {
                IN_USER
            };
            if mode.replace(of) != Some(of) {
                chain.push(of);
            }
            chain.push(address);
        }
        let shift = number(row, 13);
        let fields = SampleFields {
            id: ids.get(&number(row, 1)).copied().unwrap_or(1),
            ip,
            pid,
            tid,
            time,
            addr: number(row, 6),
            cpu: small(number(row, 4)),
            period: number(row, 9),
            callchain: &chain,
            weight: Weight {
                weight: number(row, 10),
                ins_lat: small(number(row, 11)),
                retire_lat: small(number(row, 12)),
            },
            data_src: number(row, 8),
            phys_addr: number(row, 7),
            data_page_size: if shift == 0 { 0 } else { 1 << shift.min(63) },
            ..SampleFields::default()
        };
        let mode = if is_kernel(ip) {
            misc::KERNEL
        } else {
            misc::USER
        };
        encode::sample(&mut record, &fields, mode, &layout)?;
        out.write_records(&record)?;
    }
    Ok(out.finish(&features(rows))?.into_inner())
}

fn features(rows: &Rows) -> Features {
    let mut features = Features::new(Order::Little);
    features.set_text(feature::HOSTNAME, &rows.name);
    let facts = rows.host.first().map(Vec::as_slice).unwrap_or_default();
    let texts = [
        (feature::OSRELEASE, 0),
        (feature::ARCH, 1),
        (feature::CPUDESC, 2),
        (feature::CPUID, 3),
    ];
    for (number, at) in texts {
        if !text(facts, at).is_empty() {
            features.set_text(number, text(facts, at));
        }
    }
    let cpus = small(number(facts, 4));
    if cpus > 0 {
        features.set_nr_cpus(cpus, cpus);
    }
    let times = (rows.samples.first(), rows.samples.last());
    if let (Some(first), Some(last)) = times {
        let [first, last] = [first, last].map(|row| number(row, 0));
        features.set_sample_time(SampleTime { first, last });
        features.set_clock_data(ClockData {
            clockid: CLOCK_REALTIME,
            wall_clock_ns: first,
            clockid_time_ns: first,
        });
    }
    features
}

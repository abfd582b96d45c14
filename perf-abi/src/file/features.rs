//! The header features: read on demand from their bytes, and written.

use std::collections::BTreeMap;

use super::build_ids::{self, BuildIdEntry};
use super::event_desc::{self, EventDesc};
use super::feature;
use super::machine::{self, CpuDomains, PmuCaps};
use super::topology::{self, CacheLevel, CpuTopology, MemoryTopology, NumaNode};
use super::tracing::TracingData;
use crate::bytes::{Cursor, Order, Put, until_nul};

/// The features of a file by number, as bytes; unknown ones are kept. What does not parse reads as
/// `None`: a damaged description must not keep anybody from the samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    order: Order,
    sections: BTreeMap<u32, Vec<u8>>,
    /// Build ids that came as records.
    recorded_build_ids: Vec<BuildIdEntry>,
}

/// Times of the first and last sample, in nanoseconds of the events' clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleTime {
    /// First.
    pub first: u64,
    /// Last.
    pub last: u64,
}

/// The wall clock and the events' clock read at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockData {
    /// The events' clock, a `CLOCK_*` number.
    pub clockid: u32,
    /// Wall clock, nanoseconds since 1970.
    pub wall_clock_ns: u64,
    /// The events' clock, nanoseconds.
    pub clockid_time_ns: u64,
}

/// How records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Compression {
    /// 1 = zstd.
    pub algorithm: u32,
    /// Level.
    pub level: u32,
    /// Ratio reached.
    pub ratio: u32,
    /// Bytes of the ring they come from.
    pub mmap_len: u32,
}

/// A group of events.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupDesc {
    /// Name, mostly empty.
    pub name: String,
    /// Index of the leader.
    pub leader: u32,
    /// Number of members, with the leader.
    pub members: u32,
}

impl Features {
    /// No features yet, of a machine with `order`.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            sections: BTreeMap::new(),
            recorded_build_ids: Vec::new(),
        }
    }

    /// Byte order of the recording machine.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The bytes of a feature.
    pub fn raw(&self, number: u32) -> Option<&[u8]> {
        self.sections.get(&number).map(Vec::as_slice)
    }

    /// Sets the bytes of a feature.
    pub fn set_raw(&mut self, number: u32, bytes: Vec<u8>) {
        self.sections.insert(number, bytes);
    }

    /// All features with their bytes, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.sections
            .iter()
            .map(|(number, bytes)| (*number, bytes.as_slice()))
    }

    fn cursor(&self, number: u32) -> Option<Cursor<'_>> {
        Some(Cursor::with_order(self.raw(number)?, self.order))
    }

    /// A feature that is one string, as [`feature::HOSTNAME`].
    pub fn text(&self, number: u32) -> Option<String> {
        string(&mut self.cursor(number)?)
    }

    /// Sets a feature that is one string. Little-endian, as all setters.
    pub fn set_text(&mut self, number: u32, text: &str) {
        let mut out = Vec::new();
        put_string(&mut out, text);
        self.set_raw(number, out);
    }

    /// Host name.
    pub fn hostname(&self) -> Option<String> {
        self.text(feature::HOSTNAME)
    }

    /// Kernel release.
    pub fn os_release(&self) -> Option<String> {
        self.text(feature::OSRELEASE)
    }

    /// Version of perf.
    pub fn perf_version(&self) -> Option<String> {
        self.text(feature::VERSION)
    }

    /// Machine, as `uname -m` says.
    pub fn arch(&self) -> Option<String> {
        self.text(feature::ARCH)
    }

    /// CPU model.
    pub fn cpu_desc(&self) -> Option<String> {
        self.text(feature::CPUDESC)
    }

    /// CPU vendor, family, model and stepping.
    pub fn cpuid(&self) -> Option<String> {
        self.text(feature::CPUID)
    }

    /// CPUs configured and online.
    pub fn nr_cpus(&self) -> Option<(u32, u32)> {
        let mut cursor = self.cursor(feature::NRCPUS)?;
        Some((cursor.u32().ok()?, cursor.u32().ok()?))
    }

    /// Sets the CPUs configured and online.
    pub fn set_nr_cpus(&mut self, configured: u32, online: u32) {
        let mut out = Vec::new();
        out.put_u32(configured);
        out.put_u32(online);
        self.set_raw(feature::NRCPUS, out);
    }

    /// Memory of the host, in KiB.
    pub fn total_mem_kib(&self) -> Option<u64> {
        self.cursor(feature::TOTAL_MEM)?.u64().ok()
    }

    /// Sets the memory of the host, in KiB.
    pub fn set_total_mem_kib(&mut self, kib: u64) {
        self.set_raw(feature::TOTAL_MEM, kib.to_le_bytes().to_vec());
    }

    /// Command line of the recording program.
    pub fn cmdline(&self) -> Option<Vec<String>> {
        let mut cursor = self.cursor(feature::CMDLINE)?;
        strings(&mut cursor)
    }

    /// Sets the command line.
    pub fn set_cmdline<S: AsRef<str>>(&mut self, words: &[S]) {
        let mut out = Vec::new();
        put_strings(&mut out, words);
        self.set_raw(feature::CMDLINE, out);
    }

    /// Attrs, names and ids of the events.
    pub fn event_desc(&self) -> Option<Vec<EventDesc>> {
        event_desc::parse(self.cursor(feature::EVENT_DESC)?, self.order)
    }

    /// Sets names and ids of the events.
    pub fn set_event_desc(&mut self, events: &[EventDesc]) {
        self.set_raw(feature::EVENT_DESC, event_desc::encode(events));
    }

    /// Build ids of files; what does not parse ends the list.
    pub fn build_ids(&self) -> Vec<BuildIdEntry> {
        let section = self.raw(feature::BUILD_ID).unwrap_or_default();
        let mut entries = build_ids::parse(section, self.order);
        entries.extend_from_slice(&self.recorded_build_ids);
        entries
    }

    /// Adds the build id of a file that came as a record.
    pub(super) fn add_build_id(&mut self, entry: BuildIdEntry) {
        self.recorded_build_ids.push(entry);
    }

    /// Sets the build ids of files. Entries whose path is too long for a record are left out.
    pub fn set_build_ids(&mut self, entries: &[BuildIdEntry]) {
        self.set_raw(feature::BUILD_ID, build_ids::encode(entries));
    }

    /// Sockets, dies and cores.
    pub fn cpu_topology(&self) -> Option<CpuTopology> {
        let cpus = self.nr_cpus()?.0;
        topology::cpu_topology(self.cursor(feature::CPU_TOPOLOGY)?, cpus)
    }

    /// Memory nodes and their CPUs.
    pub fn numa_topology(&self) -> Option<Vec<NumaNode>> {
        topology::numa_nodes(self.cursor(feature::NUMA_TOPOLOGY)?)
    }

    /// Sets the memory nodes and their CPUs.
    pub fn set_numa_topology(&mut self, nodes: &[NumaNode]) {
        self.set_raw(feature::NUMA_TOPOLOGY, topology::put_numa_nodes(nodes));
    }

    /// Memory blocks of the nodes.
    pub fn memory_topology(&self) -> Option<MemoryTopology> {
        topology::memory_topology(self.cursor(feature::MEM_TOPOLOGY)?)
    }

    /// CPU caches.
    pub fn caches(&self) -> Option<Vec<CacheLevel>> {
        topology::caches(self.cursor(feature::CACHE)?)
    }

    /// Names of PMUs with the attr type that selects them.
    pub fn pmu_mappings(&self) -> Option<Vec<(u32, String)>> {
        let mut cursor = self.cursor(feature::PMU_MAPPINGS)?;
        counted(&mut cursor, 8, |cursor| {
            Some((cursor.u32().ok()?, string(cursor)?))
        })
    }

    /// Sets the names of PMUs.
    pub fn set_pmu_mappings<S: AsRef<str>>(&mut self, pmus: &[(u32, S)]) {
        let mut out = Vec::new();
        out.put_u32(len32(pmus.len()));
        for (kind, name) in pmus {
            out.put_u32(*kind);
            put_string(&mut out, name.as_ref());
        }
        self.set_raw(feature::PMU_MAPPINGS, out);
    }

    /// Groups of events.
    pub fn group_desc(&self) -> Option<Vec<GroupDesc>> {
        let mut cursor = self.cursor(feature::GROUP_DESC)?;
        counted(&mut cursor, 12, |cursor| {
            Some(GroupDesc {
                name: string(cursor)?,
                leader: cursor.u32().ok()?,
                members: cursor.u32().ok()?,
            })
        })
    }

    /// CPUs of each core PMU, as lists such as `0-7`.
    pub fn hybrid_topology(&self) -> Option<Vec<(String, String)>> {
        let mut cursor = self.cursor(feature::HYBRID_TOPOLOGY)?;
        counted(&mut cursor, 8, |cursor| {
            Some((string(cursor)?, string(cursor)?))
        })
    }

    /// Capabilities of the cpu PMU: name and value.
    pub fn cpu_pmu_caps(&self) -> Option<Vec<(String, String)>> {
        machine::caps(&mut self.cursor(feature::CPU_PMU_CAPS)?)
    }

    /// Capabilities of PMUs.
    pub fn pmu_caps(&self) -> Option<Vec<PmuCaps>> {
        machine::pmu_caps(self.cursor(feature::PMU_CAPS)?)
    }

    /// Scheduler domains of each CPU.
    pub fn cpu_domains(&self) -> Option<Vec<CpuDomains>> {
        machine::cpu_domains(self.cursor(feature::CPU_DOMAIN_INFO)?)
    }

    /// ELF machine and flags of the recorded programs.
    pub fn elf_machine(&self) -> Option<(u32, u32)> {
        let mut cursor = self.cursor(feature::E_MACHINE)?;
        Some((cursor.u32().ok()?, cursor.u32().ok()?))
    }

    /// Bytes of a cache line.
    pub fn cache_line_bytes(&self) -> Option<u32> {
        self.cursor(feature::CLN_SIZE)?.u32().ok()
    }

    /// Times of the first and last sample.
    pub fn sample_time(&self) -> Option<SampleTime> {
        let mut cursor = self.cursor(feature::SAMPLE_TIME)?;
        Some(SampleTime {
            first: cursor.u64().ok()?,
            last: cursor.u64().ok()?,
        })
    }

    /// Sets the times of the first and last sample.
    pub fn set_sample_time(&mut self, time: SampleTime) {
        let mut out = Vec::new();
        out.put_u64(time.first);
        out.put_u64(time.last);
        self.set_raw(feature::SAMPLE_TIME, out);
    }

    /// Resolution of the events' clock, in nanoseconds.
    pub fn clock_resolution_ns(&self) -> Option<u64> {
        self.cursor(feature::CLOCKID)?.u64().ok()
    }

    /// Wall clock beside the events' clock.
    pub fn clock_data(&self) -> Option<ClockData> {
        let mut cursor = self.cursor(feature::CLOCK_DATA)?;
        if cursor.u32().ok()? != 1 {
            return None; // a version whose fields are unknown
        }
        Some(ClockData {
            clockid: cursor.u32().ok()?,
            wall_clock_ns: cursor.u64().ok()?,
            clockid_time_ns: cursor.u64().ok()?,
        })
    }

    /// Sets the wall clock beside the events' clock.
    pub fn set_clock_data(&mut self, clock: ClockData) {
        let mut out = Vec::new();
        out.put_u32(1);
        out.put_u32(clock.clockid);
        out.put_u64(clock.wall_clock_ns);
        out.put_u64(clock.clockid_time_ns);
        self.set_raw(feature::CLOCK_DATA, out);
    }

    /// How records are compressed.
    pub fn compression(&self) -> Option<Compression> {
        let mut cursor = self.cursor(feature::COMPRESSED)?;
        cursor.u32().ok()?; // version
        Some(Compression {
            algorithm: cursor.u32().ok()?,
            level: cursor.u32().ok()?,
            ratio: cursor.u32().ok()?,
            mmap_len: cursor.u32().ok()?,
        })
    }

    /// Formats of the tracepoints.
    pub fn tracing_data(&self) -> Option<TracingData> {
        TracingData::parse(self.raw(feature::TRACING_DATA)?)
    }
}

/// A list with a count before it; `min_len` bytes are the least an entry takes, so that a count
/// that cannot be true ends the reading before it starts.
pub(super) fn counted<'a, T>(
    cursor: &mut Cursor<'a>,
    min_len: usize,
    mut entry: impl FnMut(&mut Cursor<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(cursor.u32().ok()?).ok()?;
    if count.checked_mul(min_len)? > cursor.left() {
        return None;
    }
    (0..count).map(|_| entry(cursor)).collect()
}

/// `{ u32 len; char text[len]; }`, padded with NULs.
pub(super) fn string(cursor: &mut Cursor<'_>) -> Option<String> {
    let len = usize::try_from(cursor.u32().ok()?).ok()?;
    let text = until_nul(cursor.bytes(len).ok()?);
    Some(String::from_utf8_lossy(text).into_owned())
}

pub(super) fn strings(cursor: &mut Cursor<'_>) -> Option<Vec<String>> {
    counted(cursor, 4, string)
}

/// perf pads strings to 64 bytes.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = until_nul(text.as_bytes());
    let len = (text.len() + 1).next_multiple_of(64);
    out.put_u32(len32(len));
    let end = out.len() + len;
    out.extend_from_slice(text);
    out.resize(end, 0);
}

pub(super) fn put_strings<S: AsRef<str>>(out: &mut Vec<u8>, words: &[S]) {
    out.put_u32(len32(words.len()));
    for word in words {
        put_string(out, word.as_ref());
    }
}

pub(super) fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

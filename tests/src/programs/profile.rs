//! Memory profiles made up on programs: their real mappings and addresses, accesses as a PMU would have written them.

use memwide_objects::{Limits, SymbolTable};
use memwide_perf_abi::file::{EventSpec, Features, NumaNode, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileId, FileWriter, Mmap2, Record, SampleFields, SampleId, SampleLayout,
    Weight, attr_kind, encode, misc, sample,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where programs are mapped that do not run.
const BASE: u64 = 0x5555_0000_0000;
/// Marker in callchains: `PERF_CONTEXT_USER`.
const USER_FOLLOWS: u64 = (-512_i64).cast_unsigned();

/// A program that need not run, with its symbols.
#[derive(Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    table: SymbolTable,
}

impl Program {
    /// The program in a file.
    pub fn new(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let table = SymbolTable::from_elf(&bytes, &Limits::default()).unwrap();
        Self {
            path: path.to_owned(),
            table,
        }
    }

    /// Where a function or variable is mapped.
    #[track_caller]
    pub fn address(&self, name: &str) -> u64 {
        BASE + self.linked(name)
    }

    /// Where a function or variable is linked to be.
    #[track_caller]
    pub fn linked(&self, name: &str) -> u64 {
        let functions = self.table.functions().iter();
        let mut all = functions.chain(self.table.objects().iter());
        let found = all.find(|symbol| symbol.name == name);
        found.unwrap_or_else(|| panic!("no symbol {name}")).start
    }

    /// A process that runs it.
    pub fn profile(&self) -> Profile {
        let segments = self.table.segments().as_slice().iter();
        let mapping = |segment: &memwide_objects::Segment| {
            let into_page = segment.vaddr % 4096;
            let bit = |flag: u32, prot: u32| if segment.flags & flag != 0 { prot } else { 0 };
            Mapping {
                start: BASE + segment.vaddr - into_page,
                len: (into_page + segment.mem_size).next_multiple_of(4096),
                offset: segment.offset - into_page,
                prot: bit(4, 1) | bit(2, 2) | bit(1, 4),
                shared: false,
                device: (8, 1),
                inode: 42,
                path: self.path.to_string_lossy().into_owned(),
            }
        };
        Profile {
            comm: "program".to_owned(),
            pid: 100,
            maps: segments.map(mapping).collect(),
        }
    }
}

/// A mapping of a process.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Of its first byte in the file, in bytes.
    pub offset: u64,
    /// `PROT_*` bits.
    pub prot: u32,
    /// Whether writes reach the file.
    pub shared: bool,
    /// Device of the file, major and minor.
    pub device: (u32, u32),
    /// Inode of the file; 0 for none.
    pub inode: u64,
    /// The file, or what the kernel calls it.
    pub path: String,
}

impl Mapping {
    /// By a line of `/proc/PID/maps`.
    pub fn of_line(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let flags = words.next()?;
        let offset = words.next()?;
        let (major, minor) = words.next()?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let hex32 = |text: &str| u32::from_str_radix(text, 16).ok();
        let bit = |letter: char, prot: u32| if flags.contains(letter) { prot } else { 0 };
        let path: Vec<&str> = words.collect();
        let path = path.join(" ");
        Some(Self {
            start: hex(start)?,
            len: hex(end)? - hex(start)?,
            offset: hex(offset)?,
            prot: bit('r', 1) | bit('w', 2) | bit('x', 4),
            shared: flags.contains('s'),
            device: (hex32(major)?, hex32(minor)?),
            inode,
            path: if path.is_empty() {
                "//anon".to_owned()
            } else {
                path
            },
        })
    }
}

/// One made-up access.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Of the instruction.
    pub ip: u64,
    /// Of the datum.
    pub addr: u64,
    /// Thread.
    pub tid: u32,
    /// `data_src`.
    pub word: u64,
    /// Latency, in cycles; 0 is written as 200.
    pub weight: u64,
    /// Return addresses, innermost first.
    pub callers: Vec<u64>,
}

/// A process and what is mapped in it.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its name.
    pub comm: String,
    /// Its number.
    pub pid: u32,
    /// All that is mapped.
    pub maps: Vec<Mapping>,
}

impl Profile {
    /// Writes a memory profile of it: four CPUs of one node, one event.
    pub fn write(&self, to: &Path, accesses: &[Access]) {
        let has_callers = accesses.iter().any(|access| !access.callers.is_empty());
        let event = event(has_callers);
        let layout = SampleLayout::new(&event.attr).unwrap();
        let mut batch = self.side_band(&layout, accesses);
        let mut chain = Vec::new();
        for (at, access) in (0_u64..).zip(accesses) {
            chain.clear();
            chain.extend([USER_FOLLOWS, access.ip]);
            chain.extend(&access.callers);
            let weight = Weight {
                weight: if access.weight == 0 {
                    200
                } else {
                    access.weight
                },
                ..Weight::default()
            };
            let fields = SampleFields {
                id: 1,
                pid: self.pid,
                tid: access.tid,
                time: 1000 + at,
                cpu: access.tid % 4,
                ip: access.ip,
                addr: access.addr,
                data_src: access.word,
                callchain: &chain,
                weight,
                ..SampleFields::default()
            };
            encode::sample(&mut batch, &fields, misc::USER, &layout).unwrap();
        }
        let mut writer = FileWriter::new(File::create(to).unwrap(), &[event]).unwrap();
        writer.write_records(&batch).unwrap();
        writer.finish_round().unwrap();
        let mut features = Features::default();
        features.set_text(feature::ARCH, std::env::consts::ARCH);
        features.set_nr_cpus(4, 4);
        features.set_numa_topology(&[NumaNode {
            node: 0,
            total_kib: 0,
            free_kib: 0,
            cpus: "0-3".to_owned(),
        }]);
        writer.finish(&features).unwrap();
    }

    fn side_band(&self, layout: &SampleLayout, accesses: &[Access]) -> Vec<u8> {
        let mut batch = Vec::new();
        let id = SampleId {
            pid: Some(self.pid),
            tid: Some(self.pid),
            time: Some(1),
            id: Some(1),
            cpu: Some(0),
            ..SampleId::default()
        };
        let mut put = |record: &Record<'_>| {
            encode::record(
                &mut batch,
                record,
                misc::USER,
                Some((layout.trailer(), &id)),
            )
            .unwrap();
        };
        let threads = accesses.iter().map(|access| access.tid);
        let threads: std::collections::BTreeSet<u32> = threads.chain([self.pid]).collect();
        for tid in threads {
            put(&Record::Comm(Comm {
                pid: self.pid,
                tid,
                comm: self.comm.as_bytes(),
                exec: tid == self.pid,
            }));
        }
        for mapping in &self.maps {
            put(&Record::Mmap2(Mmap2 {
                pid: self.pid,
                tid: self.pid,
                addr: mapping.start,
                len: mapping.len,
                pgoff: mapping.offset,
                file: FileId::Inode {
                    maj: mapping.device.0,
                    min: mapping.device.1,
                    ino: mapping.inode,
                    generation: 0,
                },
                prot: mapping.prot,
                flags: if mapping.shared { 1 } else { 2 },
                filename: mapping.path.as_bytes(),
                data: false,
            }));
        }
        batch
    }
}

fn event(has_callers: bool) -> EventSpec {
    let callchain = if has_callers { sample::CALLCHAIN } else { 0 };
    EventSpec {
        attr: Attr {
            kind: attr_kind::RAW,
            config: 0x1cd,
            sample_type: sample::IDENTIFIER
                | sample::IP
                | sample::TID
                | sample::TIME
                | sample::ADDR
                | sample::CPU
                | sample::WEIGHT
                | sample::DATA_SRC
                | callchain,
            sample_period: 1000,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        },
        name: "cpu/mem-loads,ldlat=30/P".to_owned(),
        ids: vec![1],
    }
}

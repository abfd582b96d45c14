//! A memory profile of a program and of the running kernel: real symbols, made-up accesses. For tests and benches that run
//! perf on the same file.

use memwide_objects::{Flags, Limits, Segment, SymbolTable, Symbols};
use memwide_perf_abi::file::{EventSpec, Features, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileId, FileWriter, Mmap, Mmap2, Record, SampleFields, SampleId,
    SampleLayout, Weight, attr_kind, encode, misc, sample,
};
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) const BASE: u64 = 0x5555_0000_0000;
pub(crate) const ANON: u64 = 0x7f00_0000_0000;
/// Markers in callchains: `PERF_CONTEXT_KERNEL` and `PERF_CONTEXT_USER`.
const KERNEL_FOLLOWS: u64 = (-128_i64).cast_unsigned();
const USER_FOLLOWS: u64 = (-512_i64).cast_unsigned();
/// Samples of a round; times of the CPUs overlap within it.
const ROUND: u64 = 1_000;

/// Words as PMUs write them: old and new encodings, nothing available, blocked and locked accesses.
const WORDS: [u64; 11] = [
    0x6_8810_0842,
    0x2_6810_0142,
    0x1_8868_1084,
    0x0508_0144,
    0x1a_a210_2042 | 1 << 13,
    0x18_6810_0242,
    0x3b_a810_8042,
    0x0508_0021,
    0x0808_6810_0042,
    0x0256_6910_0142,
    0x4_6a10_0c42,
];

/// Numbers without a clock.
#[derive(Debug)]
pub struct Random(pub(crate) u64);

impl Random {
    /// The same seed, the same numbers.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 8) % bound
    }

    pub(crate) fn pick(&mut self, from: &[u64]) -> u64 {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank of at least 1, bounded by the length"
    )]
    /// The first ones more often: the n-th has about 1/n^1.3 of the picks.
    fn pick_skewed(&mut self, from: &[u64]) -> u64 {
        let even = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let last = from.len() as f64;
        // The inverse of the integral of x^-1.3 from 1 to `last`.
        let rank = (1.0 - even * (1.0 - last.powf(-0.3))).powf(-1.0 / 0.3);
        from[(rank as usize - 1).min(from.len() - 1)]
    }
}

fn events(frames: usize) -> [EventSpec; 2] {
    let callchain = if frames > 0 { sample::CALLCHAIN } else { 0 };
    let common = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::CPU
        | sample::PERIOD
        | sample::DATA_SRC
        | callchain;
    let event = |config, more, name: &str, id| EventSpec {
        attr: Attr {
            kind: attr_kind::RAW,
            config,
            sample_type: common | more,
            sample_period: 1000,
            flags: AttrFlags::default()
                .with_sample_id_all(true)
                .with_exclude_guest(true)
                .with_precise_ip(2),
            ..Attr::default()
        },
        name: name.to_owned(),
        ids: vec![id],
    };
    [
        event(0x1cd, sample::WEIGHT, "cpu/mem-loads,ldlat=30/P", 1),
        event(0x82d0, sample::WEIGHT, "cpu/mem-stores/P", 2),
    ]
}

/// What to write.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Samples.
    pub samples: u64,
    /// The program whose symbols they fall on.
    pub program: PathBuf,
    /// Processes that run it.
    pub processes: u32,
    /// Most functions and most variables.
    pub symbols: usize,
    /// Callers of each sample, made of the same functions; 0 = samples have no callchain.
    pub frames: usize,
    /// The n-th function gets about 1/n^1.3 of the samples; else all get the same.
    pub skewed: bool,
}

impl Generated {
    /// A small file of the running program.
    pub fn of_this_program(samples: u64) -> Self {
        Self {
            samples,
            program: std::env::current_exe().unwrap(),
            processes: 4,
            symbols: 3_000,
            frames: 0,
            skewed: false,
        }
    }
}

/// Code and data addresses that samples fall on.
pub(crate) struct Places {
    program: String,
    segments: Vec<Segment>,
    /// Starts of functions and variables, as mapped.
    pub(crate) functions: Vec<u64>,
    pub(crate) variables: Vec<u64>,
    kernel_start: u64,
    pub(crate) kernel: Vec<u64>,
}

impl Places {
    pub(crate) fn of(wanted: &Generated) -> Self {
        let program = &wanted.program;
        let table =
            SymbolTable::from_elf(&std::fs::read(program).unwrap(), &Limits::default()).unwrap();
        let segments = table.segments().as_slice().to_vec();
        let starts = |symbols: &Symbols| {
            let in_file = |at: &u64| {
                let inside = |segment: &Segment| {
                    at.checked_sub(segment.vaddr)
                        .is_some_and(|into| into < segment.file_size)
                };
                segments.iter().any(inside)
            };
            // perf 6.1 names some stubs of the linkage table after their neighbours.
            let sized = symbols
                .iter()
                .filter(|symbol| symbol.size >= 8 && !symbol.flags.has(Flags::PLT));
            let starts = sized.map(|symbol| symbol.start).filter(in_file);
            starts
                .step_by(3)
                .take(wanted.symbols)
                .map(|start| BASE + start)
                .collect::<Vec<u64>>()
        };
        let (functions, variables) = (starts(table.functions()), starts(table.objects()));
        let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let address = |line: &str| u64::from_str_radix(line.split(' ').next()?, 16).ok();
        let start = kallsyms
            .lines()
            .find(|line| line.ends_with(" T _text"))
            .and_then(address);
        let kernel_start = start.unwrap_or(0);
        let text = kallsyms
            .lines()
            .filter(|line| line.contains(" T ") && !line.contains('['));
        let kernel = text
            .filter_map(address)
            .filter(|at| kernel_start != 0 && *at >= kernel_start);
        let kernel: Vec<u64> = kernel.step_by(97).take(300).collect();
        if kernel.is_empty() {
            eprintln!("skipped: kernel symbols, as /proc/kallsyms hides their addresses");
        }
        Self {
            program: program.to_string_lossy().into_owned(),
            segments,
            functions,
            variables,
            kernel_start,
            kernel,
        }
    }
}

/// Writes a file.
pub fn write(to: &Path, wanted: &Generated) {
    let events = events(wanted.frames);
    let layouts = events
        .each_ref()
        .map(|event| SampleLayout::new(&event.attr).unwrap());
    let places = Places::of(wanted);
    let mut writer = FileWriter::new(File::create(to).unwrap(), &events).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut batch = side_band(&places, wanted.processes, &layouts[0]);
    let mut chain = Vec::new();
    for at in 0..wanted.samples {
        let event = usize::from(random.below(3) == 0);
        let (mode, fields) = one(&places, wanted, &mut random, at);
        if wanted.frames > 0 {
            callers(
                &places,
                wanted.frames,
                &mut random,
                (mode, fields.ip),
                &mut chain,
            );
        }
        let fields = SampleFields {
            id: events[event].ids[0],
            callchain: &chain,
            ..fields
        };
        encode::sample(&mut batch, &fields, mode, &layouts[event]).unwrap();
        if (at + 1).is_multiple_of(ROUND) {
            writer.write_records(&batch).unwrap();
            writer.finish_round().unwrap();
            batch.clear();
        }
    }
    writer.write_records(&batch).unwrap();
    let mut features = Features::default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    features.set_text(feature::OSRELEASE, release.trim());
    features.set_text(feature::ARCH, std::env::consts::ARCH);
    writer.finish(&features).unwrap();
}

/// One sample: who, where, what.
fn one(
    places: &Places,
    wanted: &Generated,
    random: &mut Random,
    at: u64,
) -> (u16, SampleFields<'static>) {
    let pid = 100 + u32::try_from(random.below(wanted.processes.into())).unwrap();
    let kernel = !places.kernel.is_empty() && random.below(4) == 0;
    let ip = match (kernel, random.below(20)) {
        (true, _) => random.pick(&places.kernel) + random.below(8),
        (false, 0) => 0x1000 + random.below(4), // where nothing is mapped
        (false, _) if wanted.skewed => random.pick_skewed(&places.functions) + random.below(8),
        (false, _) => random.pick(&places.functions) + random.below(8),
    };
    let addr = match random.below(4) {
        0 => 0,
        1 => random.pick(&places.variables) + random.below(8),
        _ => ANON + random.below(200) * 32,
    };
    // A third of the weights is 0, which perf counts as 1.
    let weight = random.below(3) * random.below(400);
    let word = random.pick(&WORDS);
    let fields = SampleFields {
        pid,
        tid: pid,
        // Two CPUs, each in order, overlapping within a round.
        time: 1_000_000_000 + at * 100 - random.below(50),
        cpu: u32::try_from(at % 2).unwrap(),
        period: 1 + random.below(1000),
        ip,
        addr,
        weight: Weight {
            weight,
            ..Weight::default()
        },
        data_src: word,
        ..SampleFields::default()
    };
    (if kernel { misc::KERNEL } else { misc::USER }, fields)
}

/// A chain as the kernel writes it: markers, the place itself, its callers. Chains are few for each function, as they are in
/// programs.
fn callers(
    places: &Places,
    frames: usize,
    random: &mut Random,
    (mode, ip): (u16, u64),
    chain: &mut Vec<u64>,
) {
    chain.clear();
    let mut ways = Random((ip >> 3 | 1) ^ (random.below(4) << 40));
    if mode == misc::KERNEL {
        chain.extend([KERNEL_FOLLOWS, ip, USER_FOLLOWS]);
    } else {
        chain.extend([USER_FOLLOWS, ip]);
    }
    while chain.len() < frames + 1 {
        chain.push(ways.pick(&places.functions) + 1);
    }
}

pub(crate) fn side_band(places: &Places, processes: u32, layout: &SampleLayout) -> Vec<u8> {
    let mut batch = Vec::new();
    let mut put = |mode, record: &Record<'_>| {
        let id = SampleId {
            pid: Some(0),
            tid: Some(0),
            time: Some(1),
            id: Some(1),
            cpu: Some(0),
            ..SampleId::default()
        };
        encode::record(&mut batch, record, mode, Some((layout.trailer(), &id))).unwrap();
    };
    if places.kernel_start != 0 {
        let kernel = Mmap {
            pid: u32::MAX,
            tid: 0,
            addr: places.kernel_start,
            len: 0x200_0000,
            pgoff: places.kernel_start,
            data: false,
            filename: b"[kernel.kallsyms]_text",
        };
        put(misc::KERNEL, &Record::Mmap(kernel));
    }
    for pid in 100..100 + processes {
        let comm = format!("worker{}", pid % 3);
        let comm = Comm {
            pid,
            tid: pid,
            comm: comm.as_bytes(),
            exec: true,
        };
        put(misc::USER, &Record::Comm(comm));
        for segment in &places.segments {
            put(
                misc::USER,
                &Record::Mmap2(mapping(pid, segment, &places.program)),
            );
        }
        let anon = Segment {
            vaddr: ANON - BASE,
            offset: 0,
            file_size: 0x100_0000,
            mem_size: 0x100_0000,
            flags: 6,
        };
        put(misc::USER, &Record::Mmap2(mapping(pid, &anon, "//anon")));
    }
    batch
}

/// The whole pages that the loader maps for a segment.
fn mapping<'a>(pid: u32, segment: &Segment, filename: &'a str) -> Mmap2<'a> {
    let into_page = segment.vaddr % 4096;
    let bit = |flag: u32, prot: u32| if segment.flags & flag != 0 { prot } else { 0 };
    let in_file = u32::from(!filename.starts_with("//"));
    Mmap2 {
        pid,
        tid: pid,
        addr: BASE + segment.vaddr - into_page,
        len: (into_page + segment.file_size).next_multiple_of(4096),
        pgoff: segment.offset - into_page,
        file: FileId::Inode {
            maj: 8 * in_file,
            min: in_file,
            ino: 42 * u64::from(in_file),
            generation: 0,
        },
        prot: bit(4, 1) | bit(2, 2) | bit(1, 4),
        flags: 2,
        filename: filename.as_bytes(),
        data: false,
    }
}

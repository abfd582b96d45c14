//! A memory profile in which threads of several processes use the same lines: real symbols, made-up accesses, words of every
//! kind. For tests that run perf on the same file.

use crate::generated::{ANON, Generated, Places, Random, side_band};
use crate::programs::{Builder, C};
use memwide_perf_abi::file::{EventSpec, Features, NumaNode, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, FileWriter, SampleFields, SampleLayout, Weight, attr_kind, encode, misc,
    sample,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// CPUs, two nodes of four.
const CPUS: u32 = 8;

/// Which words samples carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// As PMUs write them: loads from all levels, HitM near and far, peer snoops, stores.
    Plausible,
    /// Any bits that have a name.
    Random,
}

fn events() -> [EventSpec; 2] {
    let kind = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::CPU
        | sample::PERIOD
        | sample::WEIGHT
        | sample::DATA_SRC
        | sample::PHYS_ADDR;
    let event = |config, name: &str, id| EventSpec {
        attr: Attr {
            kind: attr_kind::RAW,
            config,
            sample_type: kind,
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
        event(0x1cd, "cpu/mem-loads,ldlat=30/P", 1),
        event(0x82d0, "cpu/mem-stores/P", 2),
    ]
}

/// op, level mask, snoop, snoopx: as Intel, AMD and Arm write them.
const PLAUSIBLE: [(u64, u64, u64, u64); 14] = [
    (2, 0x2 | 0x8, 2, 0),    // L1
    (2, 0x2 | 0x10, 2, 0),   // LFB
    (2, 0x2 | 0x20, 2, 0),   // L2
    (2, 0x2 | 0x40, 2, 0),   // L3
    (2, 0x2 | 0x40, 16, 0),  // L3 HitM
    (2, 0x2 | 0x40, 16, 0),  // L3 HitM
    (2, 0x2 | 0x400, 16, 0), // remote HitM
    (2, 0x2 | 0x400, 4, 0),  // remote hit
    (2, 0x2 | 0x80, 10, 0),  // local memory
    (2, 0x2 | 0x100, 4, 0),  // remote memory
    (2, 0x2 | 0x40, 0, 2),   // peer
    (4, 0x2 | 0x8, 1, 0),    // store L1 hit
    (4, 0x4 | 0x8, 1, 0),    // store L1 miss
    (4, 0x1, 1, 0),          // store, level not available
];

fn word(random: &mut Random, words: Words) -> u64 {
    let at = usize::try_from(random.below(PLAUSIBLE.len() as u64)).unwrap();
    match words {
        Words::Plausible => {
            let (op, level, snoop, more) = PLAUSIBLE[at];
            let locked = if random.below(9) == 0 { 2 } else { 0 };
            op | level << 5 | snoop << 19 | locked << 24 | more << 38
        }
        // Bits 46 and up have no name in perf 6.1; every other word is a load with its address known to be one.
        Words::Random => {
            let any = random.next() & ((1 << 46) - 1);
            if random.below(2) == 0 { any | 2 } else { any }
        }
    }
}

/// Builds a small program of many functions and variables, whose symbols perf reads in no time; without a compiler the running
/// program stands in.
fn program(folder: &Path) -> PathBuf {
    let mut source = String::new();
    for at in 0..60 {
        source.push_str(&format!(
            "long variable{at}[3] = {{1}}; __attribute__((noinline)) long function{at}(void) {{ return variable{at}[0]++; }}\n"
        ));
    }
    source.push_str("int main(void) { return 0; }\n");
    let builder = Builder::within(folder, &[("many.c", &source)]);
    let built = builder.compile(C, "many.c", "many", &["-O1"]);
    built.unwrap_or_else(|| std::env::current_exe().unwrap())
}

/// Writes a file of that many samples; the program they fall on is built beside it.
pub fn write(to: &Path, samples: u64, words: Words) {
    let events = events();
    let layouts = events
        .each_ref()
        .map(|event| SampleLayout::new(&event.attr).unwrap());
    let wanted = Generated {
        processes: 2,
        program: program(to.parent().unwrap()),
        ..Generated::of_this_program(samples)
    };
    let places = Places::of(&wanted);
    let mut writer = FileWriter::new(File::create(to).unwrap(), &events).unwrap();
    let mut random = Random(0x51ab_9e37_79b9_7f4a);
    let mut batch = side_band(&places, wanted.processes, &layouts[0]);
    for at in 0..samples {
        let event = usize::from(random.below(3) == 0);
        let (mode, fields) = one(&places, &mut random, at, words);
        let fields = SampleFields {
            id: events[event].ids[0],
            ..fields
        };
        encode::sample(&mut batch, &fields, mode, &layouts[event]).unwrap();
    }
    writer.write_records(&batch).unwrap();
    writer.finish_round().unwrap();
    writer.finish(&features()).unwrap();
}

fn features() -> Features {
    let mut features = Features::default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    features.set_text(feature::OSRELEASE, release.trim());
    features.set_text(feature::ARCH, std::env::consts::ARCH);
    features.set_nr_cpus(CPUS, CPUS);
    let node = |node, cpus: &str| NumaNode {
        node,
        total_kib: 1 << 20,
        free_kib: 0,
        cpus: cpus.to_owned(),
    };
    features.set_numa_topology(&[node(0, "0-3"), node(1, "4-7")]);
    features
}

fn one(
    places: &Places,
    random: &mut Random,
    at: u64,
    words: Words,
) -> (u16, SampleFields<'static>) {
    let pid = 100 + u32::try_from(random.below(2)).unwrap();
    let thread = u32::try_from(random.below(4)).unwrap();
    let kernel = !places.kernel.is_empty() && random.below(10) == 0;
    let few = &places.functions[..places.functions.len().min(12)];
    let ip = if kernel {
        random.pick(&places.kernel[..places.kernel.len().min(5)])
    } else if random.below(20) == 0 {
        0x1000 // where nothing is mapped
    } else {
        random.pick(few) + random.below(3)
    };
    let offset = random.below(5) * 12;
    let variables = &places.variables[..places.variables.len().min(20)];
    let addr = match random.below(12) {
        0 => 0,
        1..=3 => random.pick(variables) + random.below(8),
        4 => 0x2000 + offset,
        5 if kernel => random.pick(&places.kernel) + offset,
        _ => ANON + random.below(20) * 64 + offset,
    };
    let fields = SampleFields {
        pid,
        tid: pid + 10 * thread,
        time: 1_000_000_000 + at * 100,
        cpu: u32::try_from(random.below(CPUS.into())).unwrap(),
        period: 1000,
        ip,
        addr,
        phys_addr: if addr == 0 {
            0
        } else {
            addr ^ (u64::from(pid) << 30)
        },
        weight: Weight {
            weight: random.below(400),
            ..Weight::default()
        },
        data_src: word(random, words),
        ..SampleFields::default()
    };
    (if kernel { misc::KERNEL } else { misc::USER }, fields)
}

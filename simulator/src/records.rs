//! Records as PEBS of a Sapphire Rapids host makes them, 104 bytes a sample.

use crate::program;
use crate::random::Random;
use memwide_model::data_src::{DataSrc, lock, lvl, lvl_num, op, snoop, tlb};
use memwide_model::{LatencyKind, Locality, Tier};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, Comm, EncodeError, FileId, Mmap2, Record, SampleFields, SampleId,
    SampleLayout, Weight, attr_kind, encode, misc, sample,
};
use memwide_proto::v1::EventDesc;

/// CPUs of a host: the lower half is node 0, the upper half node 1.
pub(crate) const CPUS: u32 = 16;
/// Physical memory of a node, in bytes; node n starts at n times this.
pub(crate) const NODE_BYTES: u64 = 64 << 30;
/// Kernel id of the side-band leader.
const SIDE_BAND_ID: u64 = 1;
/// Kernel ids of event e are this plus e × [`CPUS`] plus the CPU.
const FIRST_ID: u64 = 100;

/// `MEM_TRANS_RETIRED.LOAD_LATENCY_GT_x`, `MEM_INST_RETIRED.ALL_STORES`, `MEM_LOAD_L3_MISS_RETIRED.{LOCAL,REMOTE}_DRAM`.
const EVENTS: [Event; 4] = [
    Event {
        name: "cpu/mem-loads,ldlat=30/P",
        config: 0x1cd,
        period: 1_009,
        population: "",
        threshold: 30,
    },
    Event {
        name: "cpu/mem-stores/P",
        config: 0x82d0,
        period: 10_007,
        population: "retired stores",
        threshold: 0,
    },
    Event {
        name: "mem_load_l3_miss_retired.local_dram",
        config: 0x1d3,
        period: 2_003,
        population: "retired loads served by local memory",
        threshold: 0,
    },
    Event {
        name: "mem_load_l3_miss_retired.remote_dram",
        config: 0x2d3,
        period: 2_003,
        population: "retired loads served by remote memory",
        threshold: 0,
    },
];

pub(crate) const STORES: usize = 1;
pub(crate) const LOCAL_DRAM: usize = 2;
pub(crate) const REMOTE_DRAM: usize = 3;

#[derive(Debug, Clone, Copy)]
struct Event {
    name: &'static str,
    config: u64,
    period: u64,
    population: &'static str,
    threshold: u32,
}

/// Name of an event by its position.
pub(crate) fn event_name(event: usize) -> &'static str {
    EVENTS.get(event).map_or("", |event| event.name)
}

/// Number of events with samples.
pub(crate) const EVENT_COUNT: usize = EVENTS.len();

fn attr(event: &Event) -> Attr {
    Attr {
        kind: attr_kind::RAW,
        config: event.config,
        config1: u64::from(event.threshold),
        sample_period: event.period,
        sample_type: sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::ADDR
            | sample::CPU
            | sample::PERIOD
            | sample::WEIGHT_STRUCT
            | sample::DATA_SRC
            | sample::PHYS_ADDR
            | sample::DATA_PAGE_SIZE
            | sample::CODE_PAGE_SIZE,
        flags: AttrFlags::default()
            .with_precise_ip(3)
            .with_sample_id_all(true),
        ..Attr::default()
    }
}

fn side_band_attr() -> Attr {
    Attr {
        kind: attr_kind::SOFTWARE,
        config: 9, // PERF_COUNT_SW_DUMMY
        sample_period: 1,
        sample_type: sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::CPU
            | sample::PERIOD,
        flags: AttrFlags::default()
            .with_sample_id_all(true)
            .with_mmap2(true)
            .with_comm(true)
            .with_build_id(true),
        ..Attr::default()
    }
}

/// Descriptions of all events, the side-band leader last.
pub(crate) fn descriptions() -> Vec<EventDesc> {
    let mut all: Vec<EventDesc> = EVENTS
        .iter()
        .zip(0_u32..)
        .map(|(event, ordinal)| EventDesc {
            ordinal,
            name: event.name.to_owned(),
            pmu: "cpu".to_owned(),
            attr: attr(event).encode(memwide_perf_abi::ATTR_SIZE_KNOWN),
            ids: (0..u64::from(CPUS))
                .map(|cpu| FIRST_ID + u64::from(ordinal) * u64::from(CPUS) + cpu)
                .collect(),
            tier: Tier::Precise.name().to_owned(),
            population: event.population.to_owned(),
            latency_kind: u32::from(LatencyKind::Cache.code()),
            threshold_cycles: event.threshold,
            ..EventDesc::default()
        })
        .collect();
    all.push(EventDesc {
        ordinal: u32::try_from(EVENT_COUNT).unwrap_or(u32::MAX),
        name: "dummy:HG".to_owned(),
        pmu: "software".to_owned(),
        attr: side_band_attr().encode(memwide_perf_abi::ATTR_SIZE_KNOWN),
        ids: vec![SIDE_BAND_ID],
        tier: Tier::Software.name().to_owned(),
        side_band: true,
        ..EventDesc::default()
    });
    all
}

/// COMM and MMAP2 of one process; gives the number of records.
pub(crate) fn process(
    layouts: &Layouts,
    out: &mut Vec<u8>,
    pid: u32,
    time_ns: u64,
) -> Result<u32, EncodeError> {
    let trailer = layouts.side_band.trailer();
    let id = SampleId {
        pid: Some(pid),
        tid: Some(pid),
        time: Some(time_ns),
        id: Some(SIDE_BAND_ID),
        stream_id: None,
        cpu: Some(0),
    };
    let comm = Record::Comm(Comm {
        pid,
        tid: pid,
        comm: program::COMM.as_bytes(),
        exec: true,
    });
    let build_id = FileId::BuildId(BuildId::new(program::BUILD_ID, 20));
    let inode = FileId::Inode {
        maj: 0,
        min: 0,
        ino: 0,
        generation: 0,
    };
    let map = |addr, len, pgoff, prot, file, filename: &'static str, data| {
        Record::Mmap2(Mmap2 {
            pid,
            tid: pid,
            addr,
            len,
            pgoff,
            file,
            prot,
            flags: 2,
            filename: filename.as_bytes(),
            data,
        })
    };
    let records = [
        comm,
        map(
            program::TEXT_MAP,
            program::TEXT_MAP_BYTES,
            program::TEXT_OFFSET,
            5,
            build_id,
            program::PATH,
            false,
        ),
        map(
            program::DATA_MAP,
            program::DATA_BYTES,
            program::DATA_OFFSET,
            3,
            build_id,
            program::PATH,
            true,
        ),
        map(
            program::HEAP_MAP,
            program::HEAP_BYTES,
            0,
            3,
            inode,
            "[heap]",
            true,
        ),
    ];
    for record in &records {
        encode::record(out, record, misc::USER, Some((trailer, &id)))?;
    }
    Ok(4)
}

/// One access to make a sample of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) event: usize,
    pub(crate) function: usize,
    pub(crate) level: u64,
    pub(crate) remote: bool,
    pub(crate) pid: u32,
    pub(crate) time_ns: u64,
}

impl Access {
    /// What the hardware says of it.
    pub(crate) fn locality(&self) -> Locality {
        match (self.remote, self.level) {
            (true, _) => Locality::Remote,
            // A pending miss, a store that missed the L1: the hardware does not say where the data came from.
            (false, lvl_num::LFB | lvl_num::NA) => Locality::Unknown,
            (false, _) => Locality::Local,
        }
    }
}

/// Layouts of all events, worked out once.
#[derive(Debug)]
pub(crate) struct Layouts {
    events: [SampleLayout; EVENT_COUNT],
    side_band: SampleLayout,
}

impl Layouts {
    pub(crate) fn new() -> Result<Self, memwide_perf_abi::LayoutError> {
        let [loads, stores, local, remote] = EVENTS;
        let layout = |event| SampleLayout::new(&attr(&event));
        Ok(Self {
            events: [
                layout(loads)?,
                layout(stores)?,
                layout(local)?,
                layout(remote)?,
            ],
            side_band: SampleLayout::new(&side_band_attr())?,
        })
    }

    /// Appends the sample of one access.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        access: Access,
        random: &mut Random,
    ) -> Result<(), EncodeError> {
        let Some((layout, event)) = self.events.get(access.event).zip(EVENTS.get(access.event))
        else {
            return Ok(());
        };
        let cpu = u32::try_from(random.below(u64::from(CPUS))).unwrap_or(0);
        let own_node = u64::from(cpu / (CPUS / 2));
        let node = if access.remote {
            1 - own_node
        } else {
            own_node
        };
        let fields = SampleFields {
            id: FIRST_ID + access.event as u64 * u64::from(CPUS) + u64::from(cpu),
            ip: program::ip(access.function, random.next() & !3),
            pid: access.pid,
            tid: access.pid,
            time: access.time_ns,
            addr: data_address(random),
            cpu,
            period: event.period,
            weight: latency(access, random),
            data_src: data_src(access, random).0,
            phys_addr: node * NODE_BYTES + (random.below(NODE_BYTES) & !7),
            data_page_size: 4096,
            code_page_size: 4096,
            ..SampleFields::default()
        };
        encode::sample(out, &fields, misc::USER | misc::EXACT_IP, layout)
    }
}

/// Three quarters on the heap, the rest in variables.
fn data_address(random: &mut Random) -> u64 {
    if random.permille(750) {
        program::HEAP_MAP + (random.below(program::HEAP_BYTES) & !7)
    } else {
        program::DATA_MAP + (random.below(program::DATA_BYTES) & !7)
    }
}

/// Cycles, plausible for the level; stores have none.
fn latency(access: Access, random: &mut Random) -> Weight {
    if access.event == STORES {
        return Weight::default();
    }
    let (least, spread) = match (access.level, access.remote) {
        (lvl_num::L1, _) => (30, 10),
        (lvl_num::LFB, _) => (60, 80),
        (lvl_num::L2, _) => (32, 20),
        (lvl_num::L3, _) => (70, 60),
        (_, false) => (250, 120),
        (_, true) => (420, 260),
    };
    let cycles = least + random.below(spread);
    Weight {
        weight: cycles,
        ins_lat: u16::try_from(cycles + 4 + random.below(20)).unwrap_or(u16::MAX),
        retire_lat: u16::try_from(random.below(least / 4 + 1)).unwrap_or(0),
    }
}

/// As the kernel's table for Skylake and later writes it: no old level bits for remote hits, hops not given.
fn data_src(access: Access, random: &mut Random) -> DataSrc {
    let base = DataSrc(0)
        .with_lock(lock::NA)
        .with_dtlb(tlb::HIT | tlb::L1 | tlb::L2)
        .with_lvl_num(access.level);
    if access.event == STORES {
        let level = lvl::L1
            | if access.level == lvl_num::L1 {
                lvl::HIT
            } else {
                lvl::MISS
            };
        return base
            .with_op(op::STORE)
            .with_lvl(level)
            .with_lvl_num(lvl_num::NA)
            .with_snoop(snoop::NA);
    }
    let load = base.with_op(op::LOAD);
    match (access.level, access.remote) {
        (lvl_num::RAM, true) => load.with_remote(1).with_snoop(snoop::NONE | snoop::MISS),
        (lvl_num::RAM, false) => load
            .with_lvl(lvl::LOC_RAM | lvl::HIT)
            .with_snoop(snoop::NONE | snoop::MISS),
        (lvl_num::L3, _) => {
            let answer = if random.permille(40) {
                snoop::HITM
            } else {
                snoop::NONE
            };
            load.with_lvl(lvl::L3 | lvl::HIT).with_snoop(answer)
        }
        (lvl_num::L2, _) => load.with_lvl(lvl::L2 | lvl::HIT).with_snoop(snoop::NONE),
        (lvl_num::LFB, _) => load.with_lvl(lvl::LFB | lvl::HIT).with_snoop(snoop::NONE),
        _ => load.with_lvl(lvl::L1 | lvl::HIT).with_snoop(snoop::NONE),
    }
}

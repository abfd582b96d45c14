use super::*;
use memwide_model::{Level, Locality, Outcome, Snoop, Tlb};
use memwide_perf_abi::{SampleFields, SampleLayout, encode, misc, sample};

const ZEN4: Cpu = Cpu::Amd {
    family: 0x19,
    model: 0x11,
};
/// `PERF_MEM_NA`, as kernels before 6.1 write it for every IBS sample.
const NOT_AVAILABLE: u64 = 0x1e_0508_0021;

/// Raw data of `ibs_op`: data, data2, data3 beside fixed addresses.
fn raw(data: u64, data2: u64, data3: u64) -> Vec<u8> {
    let mut raw = 0xbff_u32.to_le_bytes().to_vec();
    for word in [
        0,
        0x40_1000,
        data,
        data2,
        data3,
        0x7fff_1000,
        0x1_2345_6000,
        0x40_2000,
    ] {
        raw.extend_from_slice(&u64::to_le_bytes(word));
    }
    raw
}

fn of(sample_type: u64, pmu: &str, fields: &SampleFields<'_>) -> (Memory, Classified) {
    let attr = Attr {
        kind: 10,
        sample_type,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr).unwrap();
    let mut record = Vec::new();
    encode::sample(&mut record, fields, misc::USER, &layout).unwrap();
    let view = SampleView::parse(&record[8..], &layout).unwrap();
    let event = EventFacts::new(&attr, Some(pmu), "");
    let memory = Memory::new(&view, event, ZEN4);
    (memory, memory.classify(event, ZEN4, Pmu::AmdIbs, true))
}

/// A load that missed both levels, with valid addresses, latency 0x123, a 2 MiB page in the first TLB.
const LOAD: u64 = 1 | 1 << 4 | 1 << 7 | 1 << 17 | 1 << 18 | 1 << 20 | 0x123 << 32;

#[test]
fn registers_stand_in_where_the_kernel_wrote_nothing() {
    let raw = raw(0x45 << 16, 3 | 1 << 4, LOAD);
    let fields = SampleFields {
        raw: &raw,
        ..SampleFields::default()
    };
    let (memory, class) = of(sample::IP | sample::RAW, "ibs_op", &fields);
    assert_eq!(memory.addr, Some(0x7fff_1000));
    assert_eq!(memory.phys_addr, Some(0x1_2345_6000));
    assert_eq!(memory.page_size, Some(1 << 21));
    let weight = memory.weight.unwrap();
    assert_eq!((weight.weight, weight.ins_lat), (0x123, 0x45));
    assert_eq!(
        (class.op, class.level, class.outcome),
        (Op::Load, Level::Ram, Outcome::Hit)
    );
    assert_eq!(
        (class.hw_locality, class.tlb),
        (Locality::Remote, Tlb::L1Hit)
    );
    assert_eq!(class.snoop, Snoop::Unknown);
    assert_eq!(class.suspect, Suspect::None);
}

#[test]
fn the_kernels_word_comes_first_unless_it_says_nothing() {
    let raw = raw(0, 3 | 1 << 4, LOAD);
    let level = |data_src| {
        let fields = SampleFields {
            raw: &raw,
            data_src,
            addr: 0x9000,
            ..SampleFields::default()
        };
        let types = sample::ADDR | sample::RAW | sample::DATA_SRC;
        let (memory, class) = of(types, "ibs_op", &fields);
        (memory.addr, class.level)
    };
    // Load, L1 hit.
    assert_eq!(level(0x2_0000_0142), (Some(0x9000), Level::L1));
    assert_eq!(level(NOT_AVAILABLE), (Some(0x9000), Level::Ram));
    assert_eq!(level(0), (Some(0x9000), Level::Ram));
}

#[test]
fn what_is_no_load_or_store_is_told_apart() {
    let op = |pmu: &str, data3| {
        let raw = raw(0, 0, data3);
        let fields = SampleFields {
            raw: &raw,
            ..SampleFields::default()
        };
        let (memory, class) = of(sample::RAW, pmu, &fields);
        (class.op, memory.addr.is_some())
    };
    assert_eq!(op("ibs_op", 1 << 17), (Op::None, false));
    assert_eq!(op("ibs_op", 1 | 1 << 21), (Op::Prefetch, false));
    assert_eq!(op("ibs_op", 3), (Op::LoadStore, false));
    assert_eq!(op("ibs_op", 2 | 1 << 17), (Op::Store, true));
    assert_eq!(op("ibs_fetch", 1), (Op::Exec, false));
    assert_eq!(op("cpu", 1), (Op::Unknown, false));
}

#[test]
fn doubtful_samples_say_why() {
    let suspect = |data: u64, data3: u64| {
        let raw = raw(data, 3, data3);
        let fields = SampleFields {
            raw: &raw,
            ..SampleFields::default()
        };
        of(sample::RAW, "ibs_op", &fields).1.suspect
    };
    assert_eq!(suspect(1 << 38, 1), Suspect::RipInvalid);
    assert_eq!(suspect(0, LOAD | 0xffff << 32), Suspect::Saturated);
    assert_eq!(suspect(0, LOAD), Suspect::None);
}

#[test]
fn short_raw_data_says_nothing() {
    let fields = SampleFields {
        raw: &[0; 20],
        ..SampleFields::default()
    };
    let (memory, class) = of(sample::RAW, "ibs_op", &fields);
    assert_eq!((memory, class), (Memory::default(), Classified::NONE));
}

#[test]
fn a_breakpoint_says_what_it_waits_for() {
    for (bp_type, op) in [
        (1, Op::Load),
        (2, Op::Store),
        (3, Op::LoadStore),
        (4, Op::Exec),
    ] {
        let attr = Attr {
            kind: attr_kind::BREAKPOINT,
            bp_type,
            ..Attr::default()
        };
        let facts = EventFacts::new(&attr, None, "mem:0x1000/8:w");
        assert_eq!(facts.watches, Some(op), "{bp_type}");
        let memory = Memory {
            refined: facts.watches,
            ..Memory::default()
        };
        let class = memory.classify(facts, ZEN4, Pmu::Other, false);
        assert_eq!(class.op, op);
    }
    let plain = EventFacts::new(&Attr::default(), None, "cycles");
    assert_eq!(plain.watches, None);
}

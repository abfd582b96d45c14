//! Constructed registers against expectations written from the kernel's header and driver, and all combinations of the
//! bits that matter against a second way to say the driver's rules: a list of rows, first match wins.

use super::*;

const ZEN3: u32 = 0xff; // no extended sources
const ZEN4: u32 = 0xbff;
const ZEN6: u32 = 0x9_1fff;

fn raw(caps: u32, words: &[u64]) -> Vec<u8> {
    let mut raw = caps.to_le_bytes().to_vec();
    for word in words {
        raw.extend_from_slice(&word.to_le_bytes());
    }
    raw
}

fn sample(caps: u32, data: u64, data2: u64, data3: u64) -> OpSample {
    let words = [
        0x6_0000,
        0x40_1000,
        data,
        data2,
        data3,
        0x7fff_1000,
        0x1_2345_6000,
        0x40_2000,
        9,
    ];
    OpSample::parse(&raw(caps, &words)).unwrap()
}

/// `LVL.L3 LVL.HIT …` as a word, names and numbers as in `include/uapi/linux/perf_event.h`.
fn word(names: &str) -> u64 {
    let value = |name: &str| -> u64 {
        let (field, value) = name.split_once('.').unwrap();
        let (shift, values): (u32, &[(&str, u64)]) = match field {
            "OP" => (0, &[("NA", 1), ("LOAD", 2), ("STORE", 4)]),
            "LVL" => (
                5,
                &[
                    ("NA", 1),
                    ("HIT", 2),
                    ("MISS", 4),
                    ("L1", 8),
                    ("LFB", 0x10),
                    ("L2", 0x20),
                    ("L3", 0x40),
                    ("LOC_RAM", 0x80),
                    ("REM_RAM1", 0x100),
                    ("REM_CCE1", 0x400),
                    ("REM_CCE2", 0x800),
                    ("IO", 0x1000),
                    ("UNC", 0x2000),
                ],
            ),
            "SNOOP" => (19, &[("NA", 1), ("HITM", 16)]),
            "LOCK" => (24, &[("NA", 1), ("LOCKED", 2)]),
            "TLB" => (
                26,
                &[("NA", 1), ("HIT", 2), ("MISS", 4), ("L1", 8), ("L2", 16)],
            ),
            "NUM" => (
                33,
                &[
                    ("L1", 1),
                    ("L2", 2),
                    ("L3", 3),
                    ("UNC", 8),
                    ("CXL", 9),
                    ("IO", 10),
                    ("ANY", 11),
                    ("LFB", 12),
                    ("RAM", 13),
                    ("PMEM", 14),
                    ("NA", 15),
                ],
            ),
            "REMOTE" => (37, &[("YES", 1)]),
            "HOPS" => (43, &[("0", 1), ("1", 2)]),
            other => panic!("{other}"),
        };
        let found = values.iter().find(|(name, _)| *name == value);
        found.unwrap_or_else(|| panic!("{name}")).1 << shift
    };
    names.split_whitespace().map(value).fold(0, |a, b| a | b)
}

#[test]
fn registers_come_in_the_order_of_the_driver() {
    let words = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let of = |caps, count| OpSample::parse(&raw(caps, &words[..count]));
    let all = of(1 << 5 | 1 << 10, 9).unwrap();
    assert_eq!(
        (all.ctl, all.rip, all.data, all.data2, all.data3),
        (1, 2, 3, 4, 5)
    );
    assert_eq!((all.dc_lin_ad, all.dc_phys_ad), (6, 7));
    assert_eq!((all.branch_target, all.data4), (Some(8), Some(9)));
    // Without a branch target the next register moves up.
    let some = of(1 << 10, 8).unwrap();
    assert_eq!((some.branch_target, some.data4), (None, Some(8)));
    // An older kernel does not write what the CPU could.
    let old = of(1 << 5 | 1 << 10, 8).unwrap();
    assert_eq!((old.branch_target, old.data4), (Some(8), None));
    assert_eq!(of(0, 6), Err(IbsError::Short { have: 52, need: 60 }));
    assert_eq!(
        OpSample::parse(&[]),
        Err(IbsError::Short { have: 0, need: 60 })
    );
}

#[test]
fn kinds_of_operations_are_told_apart() {
    for (data3, kind) in [
        (0, OpKind::Other),
        (1, OpKind::Load),
        (2, OpKind::Store),
        (3, OpKind::LoadStore),
        (1 | 1 << 21, OpKind::Prefetch),
        (1 << 21, OpKind::Other),
    ] {
        assert_eq!(sample(ZEN4, 0, 0, data3).kind(), kind, "{data3:#x}");
    }
}

#[test]
fn fields_are_given_only_where_the_manual_calls_them_valid() {
    let miss = 0x123_u64 << 32 | 0x77 << 48;
    let load_miss = sample(
        ZEN4,
        0x0045_0067,
        0,
        miss | 1 | 1 << 7 | 1 << 2 | 5 << 26 | 4 << 22,
    );
    assert_eq!(load_miss.miss_latency_cycles(), Some(0x123));
    assert_eq!(load_miss.tlb_refill_cycles(), Some(0x77));
    assert_eq!(load_miss.tag_to_retire_cycles(), 0x45);
    assert_eq!(load_miss.completion_to_retire_cycles(), 0x67);
    assert_eq!(load_miss.pending_misses(), 5);
    assert_eq!(load_miss.width_bytes(), Some(8));
    assert_eq!((load_miss.linear(), load_miss.physical()), (None, None));
    assert_eq!(load_miss.tlb(), None);

    let hit = sample(ZEN4, 0, 0, miss | 1);
    assert_eq!(
        (hit.miss_latency_cycles(), hit.tlb_refill_cycles()),
        (None, None)
    );
    assert_eq!(
        sample(ZEN4, 0, 0, miss | 2 | 1 << 7).miss_latency_cycles(),
        None
    );

    let valid = sample(ZEN4, 0, 0, 1 | 1 << 17 | 1 << 18);
    assert_eq!(valid.linear(), Some(0x7fff_1000));
    assert_eq!(valid.physical(), Some(0x1_2345_6000));

    let invalid_rip = 1 << 38;
    assert_eq!(sample(ZEN4, invalid_rip, 0, 1).ip(), None);
    assert_eq!(
        sample(ZEN4 & !(1 << 7), invalid_rip, 0, 1).ip(),
        Some(0x40_1000)
    );
    assert!(sample(ZEN4, 1 << 37, 0, 0).is_retired_branch());
    assert!(sample(ZEN4, 0, 0, 1 | 1 << 8).is_misaligned());
    assert!(sample(ZEN4, 0, 0, 1 | 1 << 13).is_write_combining());
    assert_eq!(sample(ZEN6, 0, 1 << 9, 1).is_remote_socket(), Some(true));
    assert_eq!(sample(ZEN4, 0, 1 << 9, 1).is_remote_socket(), None);
}

#[test]
fn page_sizes_come_with_the_tlb_level() {
    const VALID: u64 = 1 | 1 << 17;
    for (bits, answer) in [
        (0, TlbAnswer::L1 { page: 4096 }),
        (1 << 4, TlbAnswer::L1 { page: 1 << 21 }),
        (1 << 5, TlbAnswer::L1 { page: 1 << 30 }),
        (1 << 2, TlbAnswer::L2 { page: 4096 }),
        (1 << 2 | 1 << 6, TlbAnswer::L2 { page: 1 << 21 }),
        (1 << 2 | 1 << 19, TlbAnswer::L2 { page: 1 << 30 }),
        (1 << 2 | 1 << 3, TlbAnswer::Miss),
    ] {
        assert_eq!(
            sample(ZEN4, 0, 0, VALID | bits).tlb(),
            Some(answer),
            "{bits:#x}"
        );
    }
    // Where the page size is told separately, the answer needs a physical address.
    assert_eq!(sample(ZEN6, 0, 0, VALID).tlb(), None);
    let both = sample(ZEN6, 0, 0, VALID | 1 << 18);
    assert_eq!(both.tlb(), Some(TlbAnswer::L1 { page: 4096 }));
}

#[test]
fn golden_registers_give_the_words_of_the_driver() {
    const MISS: u64 = 1 | 1 << 7 | 1 << 20; // a load that missed both levels
    const ZEN2_CPU: (u32, u32) = (0x17, 0x31);
    const ZEN3_CPU: (u32, u32) = (0x19, 0x01);
    const ZEN4_CPU: (u32, u32) = (0x19, 0x11);
    const ZEN5_CPU: (u32, u32) = (0x1a, 0x02);
    const REST: &str = " TLB.NA LOCK.NA";
    let modified = " SNOOP.HITM";
    let silent = " SNOOP.NA";
    for (name, caps, cpu, data2, data3, level, snoop) in [
        (
            "hit",
            ZEN4,
            ZEN4_CPU,
            0,
            1,
            "OP.LOAD LVL.L1 LVL.HIT NUM.L1",
            silent,
        ),
        (
            "store hit",
            ZEN3,
            ZEN2_CPU,
            0,
            2,
            "OP.STORE LVL.L1 LVL.HIT NUM.L1",
            silent,
        ),
        (
            "L2",
            ZEN4,
            ZEN5_CPU,
            3,
            1 | 1 << 7,
            "OP.LOAD LVL.L2 LVL.HIT NUM.L2",
            silent,
        ),
        (
            "uncached",
            ZEN4,
            ZEN4_CPU,
            0,
            MISS | 1 << 14,
            "OP.LOAD LVL.UNC LVL.HIT NUM.UNC",
            silent,
        ),
        (
            "io",
            ZEN4,
            ZEN4_CPU,
            7,
            MISS | 1 << 14,
            "OP.LOAD LVL.IO LVL.HIT NUM.IO",
            silent,
        ),
        (
            "zen2 local cache, modified",
            ZEN3,
            ZEN2_CPU,
            2,
            MISS,
            "OP.LOAD LVL.L3 LVL.REM_CCE1 LVL.HIT NUM.ANY HOPS.0",
            modified,
        ),
        (
            "zen2 local cache, owned",
            ZEN3,
            ZEN2_CPU,
            2 | 1 << 5,
            MISS,
            "OP.LOAD LVL.L3 LVL.REM_CCE1 LVL.HIT NUM.ANY HOPS.0",
            silent,
        ),
        (
            "zen3 local cache",
            ZEN3,
            ZEN3_CPU,
            2,
            MISS,
            "OP.LOAD LVL.L3 LVL.REM_CCE1 LVL.HIT NUM.ANY HOPS.0",
            silent,
        ),
        (
            "zen2 far cache",
            ZEN3,
            ZEN2_CPU,
            4,
            MISS,
            "OP.LOAD LVL.REM_CCE2 LVL.HIT NUM.ANY REMOTE.YES HOPS.1",
            silent,
        ),
        (
            "zen2 memory",
            ZEN3,
            ZEN2_CPU,
            3,
            MISS,
            "OP.LOAD LVL.LOC_RAM LVL.HIT NUM.RAM",
            silent,
        ),
        (
            "zen2 far memory",
            ZEN3,
            ZEN2_CPU,
            3 | 1 << 4,
            MISS,
            "OP.LOAD LVL.REM_RAM1 LVL.HIT NUM.RAM REMOTE.YES HOPS.1",
            silent,
        ),
        (
            "zen2 ignores the high bits",
            ZEN3,
            ZEN2_CPU,
            3 | 1 << 6,
            MISS,
            "OP.LOAD LVL.LOC_RAM LVL.HIT NUM.RAM",
            silent,
        ),
        (
            "zen4 L3",
            ZEN4,
            ZEN4_CPU,
            1 | 1 << 5,
            MISS,
            "OP.LOAD LVL.L3 LVL.HIT NUM.L3",
            silent,
        ),
        (
            "zen4 L3, modified",
            ZEN4,
            ZEN5_CPU,
            1,
            MISS,
            "OP.LOAD LVL.L3 LVL.HIT NUM.L3",
            modified,
        ),
        (
            "zen4 near ccx",
            ZEN4,
            ZEN5_CPU,
            2,
            MISS,
            "OP.LOAD LVL.REM_CCE1 LVL.HIT NUM.ANY REMOTE.YES HOPS.0",
            modified,
        ),
        (
            "zen4 far ccx",
            ZEN4,
            ZEN4_CPU,
            5,
            MISS,
            "OP.LOAD LVL.REM_CCE2 LVL.HIT NUM.ANY REMOTE.YES HOPS.1",
            modified,
        ),
        (
            "zen4 pmem",
            ZEN4,
            ZEN5_CPU,
            6,
            MISS,
            "OP.LOAD NUM.PMEM",
            silent,
        ),
        (
            "zen4 far pmem",
            ZEN4,
            ZEN5_CPU,
            6 | 1 << 4,
            MISS,
            "OP.LOAD NUM.PMEM REMOTE.YES HOPS.1",
            silent,
        ),
        (
            "zen4 cxl",
            ZEN4,
            ZEN5_CPU,
            1 << 6,
            MISS,
            "OP.LOAD NUM.CXL",
            silent,
        ),
        (
            "zen4 far cxl",
            ZEN4,
            ZEN5_CPU,
            1 << 6 | 1 << 4,
            MISS,
            "OP.LOAD NUM.CXL REMOTE.YES HOPS.1",
            silent,
        ),
        (
            "zen4 peer agent",
            ZEN4,
            ZEN5_CPU,
            4 | 1 << 6,
            MISS,
            "OP.LOAD LVL.NA NUM.NA",
            silent,
        ),
        (
            "pending miss",
            ZEN4,
            ZEN5_CPU,
            0,
            MISS | 1 << 16,
            "OP.LOAD LVL.LFB LVL.HIT NUM.LFB",
            silent,
        ),
        (
            "source before pending miss",
            ZEN4,
            ZEN5_CPU,
            3,
            MISS | 1 << 16,
            "OP.LOAD LVL.LOC_RAM LVL.HIT NUM.RAM",
            silent,
        ),
        (
            "erratum 1293",
            ZEN3,
            ZEN3_CPU,
            3,
            MISS | 1 << 16,
            "OP.LOAD LVL.LFB LVL.HIT NUM.LFB",
            silent,
        ),
        (
            "erratum 1293, prefetch",
            ZEN3,
            ZEN3_CPU,
            3,
            1 | 1 << 7 | 1 << 21,
            "OP.LOAD LVL.NA NUM.NA",
            silent,
        ),
        (
            "store that missed",
            ZEN4,
            ZEN5_CPU,
            3,
            2 | 1 << 7 | 1 << 20,
            "OP.STORE LVL.NA NUM.NA",
            silent,
        ),
    ] {
        let got = sample(caps, 0, data2, data3).data_src(cpu.0, cpu.1);
        assert_eq!(
            got,
            word(&format!("{level}{snoop}{REST}")),
            "{name}: {got:#x}"
        );
    }
    let locked = sample(ZEN4, 0, 0, 1 | 1 << 15 | 1 << 17 | 1 << 2);
    let expected = "OP.LOAD LVL.L1 LVL.HIT NUM.L1 SNOOP.NA TLB.L2 TLB.HIT LOCK.LOCKED";
    assert_eq!(locked.data_src(0x1a, 2), word(expected));
    let none = word("OP.NA LVL.NA SNOOP.NA LOCK.NA TLB.NA NUM.NA");
    assert_eq!(sample(ZEN4, 0, 3, 1 << 7).data_src(0x1a, 2), none);
}

/// The driver's rules as rows: level by the first row whose condition holds.
fn oracle(caps: u32, (family, model): (u32, u32), data2: u64, data3: u64) -> u64 {
    let bit = |word: u64, bit: u32| word >> bit & 1 == 1;
    let (load, store) = (bit(data3, 0), bit(data3, 1));
    if !load && !store {
        return word("OP.NA LVL.NA SNOOP.NA LOCK.NA TLB.NA NUM.NA");
    }
    let zen4 = bit(caps.into(), 11);
    let early_zen3 = family == 0x19 && model <= 0xf;
    let no_source = early_zen3 && (bit(data3, 21) || bit(data3, 16));
    let data2 = if no_source { 0 } else { data2 };
    let code = if zen4 {
        data2 & 7 | data2 >> 3 & 0x18
    } else {
        data2 & 7
    };
    let far = bit(data2, 4);
    let sources: &[(bool, u64, &str, &str)] = &[
        (false, 2, "LVL.L3 LVL.HIT LVL.REM_CCE1 NUM.ANY HOPS.0", ""),
        (
            false,
            3,
            "LVL.LOC_RAM LVL.HIT NUM.RAM",
            "LVL.REM_RAM1 LVL.HIT NUM.RAM REMOTE.YES HOPS.1",
        ),
        (
            false,
            4,
            "LVL.REM_CCE2 LVL.HIT NUM.ANY REMOTE.YES HOPS.1",
            "",
        ),
        (false, 7, "LVL.IO LVL.HIT NUM.IO", ""),
        (true, 1, "LVL.L3 LVL.HIT NUM.L3", ""),
        (
            true,
            2,
            "LVL.REM_CCE1 LVL.HIT NUM.ANY REMOTE.YES HOPS.0",
            "",
        ),
        (
            true,
            3,
            "LVL.LOC_RAM LVL.HIT NUM.RAM",
            "LVL.REM_RAM1 LVL.HIT NUM.RAM REMOTE.YES HOPS.1",
        ),
        (
            true,
            5,
            "LVL.REM_CCE2 LVL.HIT NUM.ANY REMOTE.YES HOPS.1",
            "",
        ),
        (true, 6, "NUM.PMEM", "NUM.PMEM REMOTE.YES HOPS.1"),
        (true, 7, "LVL.IO LVL.HIT NUM.IO", ""),
        (true, 8, "NUM.CXL", "NUM.CXL REMOTE.YES HOPS.1"),
    ];
    let source = sources.iter().find(|row| row.0 == zen4 && row.1 == code);
    let source = source.map(|row| {
        if far && !row.3.is_empty() {
            row.3
        } else {
            row.2
        }
    });
    let rows = [
        (bit(data3, 14) && code != 7, "LVL.UNC LVL.HIT NUM.UNC"),
        (!bit(data3, 7), "LVL.L1 LVL.HIT NUM.L1"),
        (!bit(data3, 20) && !no_source, "LVL.L2 LVL.HIT NUM.L2"),
        (load && source.is_some(), source.unwrap_or_default()),
        (bit(data3, 16), "LVL.LFB LVL.HIT NUM.LFB"),
        (true, "LVL.NA NUM.NA"),
    ];
    let level = rows.iter().find(|row| row.0).unwrap().1;
    let tells_state = !(early_zen3 || family == 0x19 && (0x20..=0x5f).contains(&model));
    let caches: &[u64] = if zen4 { &[1, 2, 5] } else { &[2] };
    let modified = tells_state
        && load
        && !level.contains("LVL.L1")
        && !level.contains("LVL.L2")
        && !bit(data2, 5)
        && caches.contains(&code);
    let answers = bit(data3, 17) && (!bit(caps.into(), 19) || bit(data3, 18));
    let tlb = match (answers, bit(data3, 2), bit(data3, 3)) {
        (false, ..) => "TLB.NA",
        (true, false, _) => "TLB.L1 TLB.HIT",
        (true, true, false) => "TLB.L2 TLB.HIT",
        (true, true, true) => "TLB.L2 TLB.MISS",
    };
    let parts = [
        if load { "OP.LOAD" } else { "OP.STORE" },
        level,
        if modified { "SNOOP.HITM" } else { "SNOOP.NA" },
        tlb,
        if bit(data3, 15) {
            "LOCK.LOCKED"
        } else {
            "LOCK.NA"
        },
    ];
    word(&parts.join(" "))
}

#[test]
fn all_combinations_of_the_deciding_bits_follow_the_driver() {
    // Bits of OpData3 that decide anything; the sources with their neighbours in OpData2.
    const BITS: [u32; 11] = [0, 1, 2, 3, 7, 14, 15, 16, 17, 20, 21];
    let cpus = [
        (ZEN3, (0x17, 0x31)),
        (ZEN3, (0x19, 0x01)),
        (ZEN3, (0x19, 0x21)),
        (ZEN4, (0x19, 0x11)),
        (ZEN6, (0x1a, 0x50)),
    ];
    for (caps, cpu) in cpus {
        for combination in 0..1_u64 << BITS.len() {
            let data3 = (0..)
                .zip(BITS)
                .fold(0, |word, (at, bit)| word | (combination >> at & 1) << bit);
            // Every source with every state for loads that missed; elsewhere one is as good as another.
            let decides = data3 & 1 != 0 && data3 & (1 << 7) != 0;
            let sources = if decides { 0..256 } else { 3..5 };
            for data2 in sources {
                let got = sample(caps, 0, data2, data3).data_src(cpu.0, cpu.1);
                let ok = got == oracle(caps, cpu, data2, data3);
                assert!(ok, "{caps:#x} {cpu:?} {data2:#x} {data3:#x}: {got:#x}");
                if decides && combination & 0b1100 != 0 {
                    break; // the TLB does not depend on the source
                }
            }
        }
    }
}

//! Precise events of Intel whose samples are all of one kind: loads that left the socket's last cache.
//!
//! They count every such load, so their periods add up to a number of loads, which those of load latency do not. The kernel
//! writes no level into their words (`precise_datala_hsw` in `arch/x86/events/intel/ds.c`: a load, nothing else): what
//! served it is said by the event alone. Encodings are those of perf's event lists (`tools/perf/pmu-events/arch/x86`, events
//! 0xd1 and 0xd3), words those that load latency gives the same loads on Skylake servers.

use crate::Cpu;
use crate::data_src::{DataSrc, lvl, lvl_num, op, snoop, snoopx};

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadMiss {
    /// As `perf list` names it.
    pub name: &'static str,
    /// `perf_event_attr.config`: event in the first byte, umask in the second.
    pub config: u64,
    /// What its periods count.
    pub population: &'static str,
    /// What each of its samples is.
    pub word: DataSrc,
    /// Only machines with several sockets have such loads.
    pub is_remote: bool,
}

const LOAD: DataSrc = DataSrc(0).with_op(op::LOAD);
const LOCAL_DRAM: DataSrc = LOAD
    .with_lvl(lvl::HIT | lvl::LOC_RAM)
    .with_lvl_num(lvl_num::RAM);
const REMOTE_DRAM: DataSrc = LOAD
    .with_lvl(lvl::HIT | lvl::REM_RAM1)
    .with_lvl_num(lvl_num::RAM)
    .with_remote(1);
const REMOTE_CACHE: DataSrc = LOAD
    .with_lvl(lvl::HIT | lvl::REM_CCE1)
    .with_lvl_num(lvl_num::ANY_CACHE)
    .with_remote(1);
const REMOTE_HITM: DataSrc = REMOTE_CACHE.with_snoop(snoop::HITM);
const REMOTE_FWD: DataSrc = REMOTE_CACHE.with_snoopx(snoopx::FWD);
const L3_MISS: DataSrc = LOAD.with_lvl(lvl::MISS | lvl::L3).with_lvl_num(lvl_num::L3);

const fn event(
    name: &'static str,
    config: u64,
    population: &'static str,
    word: DataSrc,
) -> LoadMiss {
    LoadMiss {
        name,
        config,
        population,
        word,
        is_remote: word.remote() != 0,
    }
}

/// All misses, wherever they were served: Skylake and later, and one event more on servers below.
const ANY: LoadMiss = event(
    "mem_load_retired.l3_miss",
    0x20d1,
    "retired loads that missed the last cache",
    L3_MISS,
);

const LOCAL: &str = "retired loads served by local memory";
const REMOTE: &str = "retired loads served by another socket's memory";
const HITM: &str = "retired loads served by a modified line of another socket's cache";
const FWD: &str = "retired loads served by a clean line of another socket's cache";

const SINCE_SKYLAKE_SERVER: [LoadMiss; 5] = [
    event(
        "mem_load_l3_miss_retired.local_dram",
        0x01d3,
        LOCAL,
        LOCAL_DRAM,
    ),
    event(
        "mem_load_l3_miss_retired.remote_dram",
        0x02d3,
        REMOTE,
        REMOTE_DRAM,
    ),
    event(
        "mem_load_l3_miss_retired.remote_hitm",
        0x04d3,
        HITM,
        REMOTE_HITM,
    ),
    event(
        "mem_load_l3_miss_retired.remote_fwd",
        0x08d3,
        FWD,
        REMOTE_FWD,
    ),
    ANY,
];

const HASWELL_BROADWELL_SERVER: [LoadMiss; 4] = [
    event(
        "mem_load_uops_l3_miss_retired.local_dram",
        0x01d3,
        LOCAL,
        LOCAL_DRAM,
    ),
    event(
        "mem_load_uops_l3_miss_retired.remote_dram",
        0x04d3,
        REMOTE,
        REMOTE_DRAM,
    ),
    event(
        "mem_load_uops_l3_miss_retired.remote_hitm",
        0x10d3,
        HITM,
        REMOTE_HITM,
    ),
    event(
        "mem_load_uops_l3_miss_retired.remote_fwd",
        0x20d3,
        FWD,
        REMOTE_FWD,
    ),
];

/// The events of a CPU, fast cores of hybrid ones; empty where none are known.
///
/// Models of family 6: Skylake, Cascade Lake and Cooper Lake servers (0x55), Ice Lake servers (0x6a, 0x6c), Sapphire,
/// Emerald and Granite Rapids (0x8f, 0xcf, 0xad, 0xae); Haswell and Broadwell servers (0x3f, 0x4f); clients from Skylake to
/// Raptor Lake.
pub fn load_misses(cpu: Cpu) -> &'static [LoadMiss] {
    let Cpu::Intel { family: 6, model } = cpu else {
        return &[];
    };
    match model {
        0x55 | 0x6a | 0x6c | 0x8f | 0xcf | 0xad | 0xae => &SINCE_SKYLAKE_SERVER,
        0x3f | 0x4f => &HASWELL_BROADWELL_SERVER,
        0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6 | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 | 0x97
        | 0x9a | 0xb7 | 0xba | 0xbf => std::slice::from_ref(&ANY),
        _ => &[],
    }
}

/// What the event says of a sample whose own word names no level; `None`: nothing more than the word.
pub fn implied(cpu: Cpu, config: u64, word: DataSrc) -> Option<DataSrc> {
    let says_level = !matches!(word.lvl_num(), 0 | lvl_num::NA) || word.lvl() & !lvl::NA != 0;
    if says_level {
        return None;
    }
    let found = load_misses(cpu).iter().find(|one| one.config == config)?;
    Some(found.word.with_lock(word.lock()).with_dtlb(word.dtlb()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level, Locality, Op, Outcome, Pmu, Snoop, classify};

    const SAPPHIRE_RAPIDS: Cpu = Cpu::Intel {
        family: 6,
        model: 0x8f,
    };

    #[test]
    fn each_event_is_classified_as_what_it_counts() {
        let rows = [
            (
                0x01d3,
                Level::Ram,
                Outcome::Hit,
                Locality::Local,
                Snoop::Unknown,
            ),
            (
                0x02d3,
                Level::Ram,
                Outcome::Hit,
                Locality::Remote,
                Snoop::Unknown,
            ),
            (
                0x04d3,
                Level::AnyCache,
                Outcome::Hit,
                Locality::Remote,
                Snoop::HitM,
            ),
            (
                0x08d3,
                Level::AnyCache,
                Outcome::Hit,
                Locality::Remote,
                Snoop::Fwd,
            ),
            (
                0x20d1,
                Level::L3,
                Outcome::Miss,
                Locality::Unknown,
                Snoop::Unknown,
            ),
        ];
        let silent = DataSrc(0).with_op(op::LOAD).with_lvl(lvl::NA);
        for (config, level, outcome, locality, snoop) in rows {
            let word = implied(SAPPHIRE_RAPIDS, config, silent).unwrap();
            let class = classify(word, Pmu::Intel);
            assert_eq!(
                (
                    class.op,
                    class.level,
                    class.outcome,
                    class.hw_locality,
                    class.snoop
                ),
                (Op::Load, level, outcome, locality, snoop),
                "{config:#x}"
            );
        }
    }

    #[test]
    fn a_word_that_names_a_level_is_believed() {
        let said = DataSrc(0).with_op(op::LOAD).with_lvl_num(lvl_num::L1);
        assert_eq!(implied(SAPPHIRE_RAPIDS, 0x02d3, said), None);
    }

    #[test]
    fn other_events_and_cpus_imply_nothing() {
        let silent = DataSrc(0).with_op(op::LOAD).with_lvl(lvl::NA);
        assert_eq!(implied(SAPPHIRE_RAPIDS, 0x01cd, silent), None);
        let zen = Cpu::Amd {
            family: 0x19,
            model: 1,
        };
        assert_eq!(implied(zen, 0x02d3, silent), None);
    }

    #[test]
    fn umasks_of_two_generations_are_kept_apart() {
        let broadwell = Cpu::Intel {
            family: 6,
            model: 0x4f,
        };
        let silent = DataSrc(0).with_op(op::LOAD).with_lvl(lvl::NA);
        let word = implied(broadwell, 0x04d3, silent).unwrap();
        assert_eq!((word.lvl_num(), word.snoop()), (lvl_num::RAM, 0));
        assert_eq!(implied(broadwell, 0x02d3, silent), None);
    }
}

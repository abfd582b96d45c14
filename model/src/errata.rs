//! Published errata that make a sampled access doubtful. What every kernel works around is not listed.
//!
//! The list rests on the field `Errata` of perf's event lists (`tools/perf/pmu-events/arch/x86`, events 0xcd, 0xd0 to 0xd3
//! of Haswell and Broadwell); for BJ122 (Sandy Bridge) and BV98 (Ivy Bridge), which those lists do not name, on the kernel:
//! its message "PMU erratum BJ122, BV98, HSD29 worked around" and the events it then counts on one thread at a time
//! (`INTEL_EXCLEVT_CONSTRAINT` in `arch/x86/events/intel/core.c`: 0xd0 to 0xd3 of Sandy Bridge, Ivy Bridge and Haswell, not
//! of Broadwell). The vendor's specification updates themselves were not read.

use crate::Cpu;
use crate::data_src::{DataSrc, lvl_num, op, snoop};

/// One published erratum, or a limit the kernel states in a comment.
#[derive(Debug, Clone, Copy)]
pub struct Erratum {
    /// Names the vendor gave it.
    pub id: &'static str,
    /// What is wrong, in one sentence.
    pub what: &'static str,
    cpu: fn(Cpu) -> bool,
    /// Event select (`config & 0xff`) of the events concerned; empty: any.
    events: &'static [u64],
    word: fn(DataSrc) -> bool,
}

const LIST: [Erratum; 5] = [
    Erratum {
        id: "BJ122, BV98, HSD29, HSM30",
        what: "with hyper-threading the counters of both threads leak into each other for memory events; kernels before 4.1 do not keep them apart",
        cpu: |cpu| is_intel(cpu, &[42, 45, 58, 60, 62, 63, 69, 70]),
        events: &[0xd0, 0xd1, 0xd2, 0xd3],
        word: |_| true,
    },
    Erratum {
        id: "HSD76, HSD25, HSM26",
        what: "the load latency event counts loads and reports latencies wrongly in some cases",
        cpu: |cpu| is_intel(cpu, &[60, 63, 69, 70]),
        events: &[0xcd],
        word: |_| true,
    },
    Erratum {
        id: "BDM100, BDM35",
        what: "the load latency event counts loads wrongly in some cases",
        cpu: |cpu| is_intel(cpu, &[61, 71, 79, 86]),
        events: &[0xcd],
        word: |_| true,
    },
    Erratum {
        id: "BDM100, BDE70, HSD74, HSD25, HSM30",
        what: "loads that miss the third level are undercounted",
        cpu: |cpu| is_intel(cpu, &[61, 71, 79, 86, 60, 63, 69, 70]),
        events: &[0xd3],
        word: |_| true,
    },
    Erratum {
        id: "IbsOpData2[CacheHitSt] on Zen 3",
        what: "the state of the line in the other cache is not valid: a modified line cannot be told",
        cpu: |cpu| {
            matches!(
                cpu,
                Cpu::Amd {
                    family: 0x19,
                    model: 0..=0x0f | 0x20..=0x5f
                }
            )
        },
        events: &[],
        word: |word| {
            let served_by_cache = matches!(word.lvl_num(), lvl_num::ANY_CACHE | lvl_num::L3);
            word.op() == op::LOAD && served_by_cache && word.snoop() & snoop::HITM == 0
        },
    },
];

fn is_intel(cpu: Cpu, models: &[u32]) -> bool {
    matches!(cpu, Cpu::Intel { family: 6, model } if models.contains(&model))
}

/// Whether any erratum concerns a CPU: asked once, so that the others need not be looked at sample by sample.
pub fn has_errata(cpu: Cpu) -> bool {
    LIST.iter().any(|erratum| (erratum.cpu)(cpu))
}

/// The errata that concern a word written by an event (`config`, where it is a CPU event of Intel's; else `None`).
pub fn errata(
    cpu: Cpu,
    config: Option<u64>,
    word: DataSrc,
) -> impl Iterator<Item = &'static Erratum> {
    LIST.iter().filter(move |erratum| {
        let event = erratum.events.is_empty()
            || config.is_some_and(|config| erratum.events.contains(&(config & 0xff)));
        event && (erratum.cpu)(cpu) && (erratum.word)(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errata_follow_cpu_event_and_word() {
        let count = |cpu, config, word| errata(cpu, config, word).count();
        let haswell = Cpu::Intel {
            family: 6,
            model: 63,
        };
        let skylake = Cpu::Intel {
            family: 6,
            model: 85,
        };
        let any = DataSrc::default();
        assert_eq!(count(haswell, Some(0x1cd), any), 1);
        assert_eq!(count(haswell, Some(0x1d3), any), 2);
        assert_eq!(count(haswell, Some(0x3c), any), 0);
        assert_eq!(count(haswell, None, any), 0);
        assert_eq!(count(skylake, Some(0x1cd), any), 0);
        assert!(has_errata(haswell) && !has_errata(skylake));

        let zen = |model| Cpu::Amd {
            family: 0x19,
            model,
        };
        let far = any.with_op(op::LOAD).with_lvl_num(lvl_num::ANY_CACHE);
        assert_eq!(count(zen(1), None, far), 1);
        assert_eq!(count(zen(1), None, far.with_op(op::STORE)), 0);
        assert_eq!(count(zen(0x11), None, far), 0, "Zen 4 tells");
    }
}

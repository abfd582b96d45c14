//! Which CPU recorded, and what its latencies mean.

use crate::{LatencyKind, Pmu};

/// A CPU as perf's header names it (`perf_header` feature `CPUID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cpu {
    /// Intel: `GenuineIntel,6,85,7`.
    Intel {
        /// Family, the extended one added.
        family: u32,
        /// Model, the extended one included.
        model: u32,
    },
    /// AMD and Hygon: `AuthenticAMD,25,17,1`.
    Amd {
        /// Family, the extended one added: 0x17 Zen 1 and 2, 0x19 Zen 3 and 4, 0x1a Zen 5.
        family: u32,
        /// Model, the extended one included.
        model: u32,
    },
    /// Arm: the main id register, `0x00000000410fd0c0`.
    Arm {
        /// Implementer, variant, architecture, part, revision.
        midr: u64,
    },
    /// POWER: `78,514`: version and revision of the processor.
    Power {
        /// 0x4b to 0x4d POWER8, 0x4e POWER9, 0x80 POWER10, 0x82 POWER11.
        version: u32,
    },
    /// Any other, or not told.
    #[default]
    Other,
}

/// Models of Intel's family 6 whose weight is the cache's latency, the instruction's standing beside it: Alder Lake,
/// Raptor Lake, Bartlett Lake, Meteor Lake, Arrow Lake, Lunar Lake, Panther Lake, Wildcat Lake, Sapphire Rapids, Emerald Rapids, Granite Rapids, Alder
/// Lake-N, Sierra Forest, Grand Ridge, Clearwater Forest (`PMU_FL_INSTR_LATENCY` in `arch/x86/events/intel/core.c`).
const CACHE_LATENCY_MODELS: [u32; 22] = [
    0x8f, 0x97, 0x9a, 0xaa, 0xac, 0xad, 0xae, 0xaf, 0xb5, 0xb6, 0xb7, 0xba, 0xbd, 0xbe, 0xbf, 0xc5,
    0xc6, 0xcc, 0xcf, 0xd5, 0xd7, 0xdd,
];

impl Cpu {
    /// From the header's text and the architecture as `uname` gives it.
    pub fn parse(cpuid: &str, arch: &str) -> Self {
        let mut parts = cpuid.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        match Pmu::of(first, arch) {
            Pmu::Intel => match (number(), number()) {
                (Some(family), Some(model)) => Self::Intel { family, model },
                _ => Self::Other,
            },
            Pmu::AmdIbs => match (number(), number()) {
                (Some(family), Some(model)) => Self::Amd { family, model },
                _ => Self::Other,
            },
            Pmu::ArmSpe => first
                .strip_prefix("0x")
                .and_then(|hex| u64::from_str_radix(hex, 16).ok())
                .map_or(Self::Other, |midr| Self::Arm { midr }),
            Pmu::Power => first
                .parse()
                .map_or(Self::Other, |version| Self::Power { version }),
            Pmu::Other => Self::Other,
        }
    }

    /// What the weight of a sampled load measures.
    pub fn load_latency(self) -> LatencyKind {
        match self {
            Self::Intel { .. } if self.has_cache_latency() => LatencyKind::Cache,
            Self::Intel { .. } => LatencyKind::Use,
            Self::Amd { .. } => LatencyKind::IbsMiss,
            Self::Arm { .. } => LatencyKind::SpeTotal,
            Self::Power { .. } | Self::Other => LatencyKind::Unknown,
        }
    }

    /// What the weight of a sampled store measures: stores have none before Sapphire Rapids and Alder Lake, and none on
    /// AMD.
    pub fn store_latency(self) -> LatencyKind {
        match self {
            Self::Intel { .. } if self.has_cache_latency() => LatencyKind::Cache,
            Self::Intel { .. } | Self::Amd { .. } => LatencyKind::None,
            Self::Arm { .. } => LatencyKind::SpeTotal,
            Self::Power { .. } | Self::Other => LatencyKind::Unknown,
        }
    }

    fn has_cache_latency(self) -> bool {
        match self {
            Self::Intel { family: 6, model } => CACHE_LATENCY_MODELS.contains(&model),
            // Nova Lake (18), Diamond Rapids (19).
            Self::Intel { family, .. } => family > 15,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_texts_are_read() {
        for (text, arch, cpu) in [
            (
                "GenuineIntel,6,85,7",
                "x86_64",
                Cpu::Intel {
                    family: 6,
                    model: 85,
                },
            ),
            (
                "AuthenticAMD,25,17,1",
                "x86_64",
                Cpu::Amd {
                    family: 25,
                    model: 17,
                },
            ),
            (
                "0x00000000410fd0c0",
                "aarch64",
                Cpu::Arm { midr: 0x410f_d0c0 },
            ),
            ("78,514", "ppc64le", Cpu::Power { version: 78 }),
            ("GenuineIntel,six", "x86_64", Cpu::Other),
            ("", "", Cpu::Other),
        ] {
            assert_eq!(Cpu::parse(text, arch), cpu, "{text}");
        }
    }

    #[test]
    fn the_weight_moved_its_meaning_with_alder_lake() {
        let intel = |family, model| Cpu::Intel { family, model };
        for (cpu, load, store) in [
            (intel(6, 26), LatencyKind::Use, LatencyKind::None),
            (intel(6, 106), LatencyKind::Use, LatencyKind::None),
            (intel(6, 143), LatencyKind::Cache, LatencyKind::Cache),
            (intel(19, 1), LatencyKind::Cache, LatencyKind::Cache),
            (
                Cpu::Amd {
                    family: 0x19,
                    model: 1,
                },
                LatencyKind::IbsMiss,
                LatencyKind::None,
            ),
            (
                Cpu::Arm { midr: 0 },
                LatencyKind::SpeTotal,
                LatencyKind::SpeTotal,
            ),
        ] {
            assert_eq!((cpu.load_latency(), cpu.store_latency()), (load, store));
        }
    }
}

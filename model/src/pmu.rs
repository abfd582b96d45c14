//! Whose word it is: the families of hardware that fill `data_src`.

use crate::Locality;
use crate::data_src::{hops, lvl};

/// Whose encoding a `data_src` word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pmu {
    /// Intel PEBS: gives no hops; `remote` means another package.
    Intel,
    /// AMD IBS: every hop count above `HOPS_0` means another node, distance unknown.
    AmdIbs,
    /// Arm SPE: `remote` means another chip.
    ArmSpe,
    /// POWER: hop counts mean what their names say.
    Power,
    /// Not known.
    #[default]
    Other,
}

impl Pmu {
    /// By the CPU's vendor as in `cpuid` strings (`GenuineIntel`, `AuthenticAMD` …) and the architecture as `uname` gives it.
    pub fn of(vendor: &str, arch: &str) -> Self {
        match (vendor, arch) {
            ("GenuineIntel", _) => Self::Intel,
            ("AuthenticAMD" | "HygonGenuine", _) => Self::AmdIbs,
            (_, "aarch64" | "arm64") => Self::ArmSpe,
            (_, arch) if arch.starts_with("ppc") => Self::Power,
            _ => Self::Other,
        }
    }

    /// What a hop count says; `None` where it was not given.
    pub(crate) fn hops_locality(self, count: u64) -> Option<Locality> {
        match (self, count) {
            (_, hops::NOT_GIVEN) => None,
            (_, hops::HOPS_0) => Some(Locality::Local),
            (Self::AmdIbs, _) | (_, hops::HOPS_1 | hops::HOPS_2 | hops::HOPS_3) => {
                Some(Locality::Remote)
            }
            _ => Some(Locality::Unknown),
        }
    }

    /// The old mask's levels that lie on another node. AMD writes `REM_CCE1` for caches of the own node: another core of
    /// the CCX up to Zen 3 (beside `L3`), another CCX from Zen 4 on.
    pub(crate) const fn far_levels(self) -> u64 {
        let far = lvl::REM_RAM1 | lvl::REM_RAM2 | lvl::REM_CCE2;
        match self {
            Self::AmdIbs => far,
            _ => far | lvl::REM_CCE1,
        }
    }
}

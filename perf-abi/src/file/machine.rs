//! What the header says about PMUs, scheduler domains and the programs' machine.

use super::features::{counted, string};
use crate::bytes::Cursor;

/// Capabilities of one PMU.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PmuCaps {
    /// Name of the PMU.
    pub pmu: String,
    /// Name and value of each capability.
    pub caps: Vec<(String, String)>,
}

/// The scheduler domains of one CPU, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CpuDomains {
    /// CPU number.
    pub cpu: u32,
    /// The domains.
    pub domains: Vec<CpuDomain>,
}

/// One scheduler domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CpuDomain {
    /// Number, innermost 0.
    pub number: u32,
    /// Name, as `MC`; not in old versions.
    pub name: Option<String>,
    /// Its CPUs as a mask.
    pub mask: String,
    /// Its CPUs as `0-15,32-47`.
    pub cpus: String,
}

/// First version of the scheduler's statistics that names the domains.
const NAMED_DOMAINS: u32 = 17;

/// `u32 nr; { string name; string value; } [nr];`
pub(super) fn caps(cursor: &mut Cursor<'_>) -> Option<Vec<(String, String)>> {
    counted(cursor, 8, |cursor| Some((string(cursor)?, string(cursor)?)))
}

/// `u32 nr; { u32 nr_caps; { string name, value; } [nr_caps]; string pmu; } [nr];`
pub(super) fn pmu_caps(mut cursor: Cursor<'_>) -> Option<Vec<PmuCaps>> {
    counted(&mut cursor, 8, |cursor| {
        let caps = caps(cursor)?;
        let pmu = string(cursor)?;
        Some(PmuCaps { pmu, caps })
    })
}

/// `u32 version, max; { u32 cpu; u32 nr; { u32 domain; string name?; string mask, list; } [nr]; } …`
pub(super) fn cpu_domains(mut cursor: Cursor<'_>) -> Option<Vec<CpuDomains>> {
    let version = cursor.u32().ok()?;
    cursor.u32().ok()?; // greatest number of domains
    let mut cpus = Vec::new();
    while cursor.left() >= 8 {
        let cpu = cursor.u32().ok()?;
        let domains = counted(&mut cursor, 12, |cursor| {
            Some(CpuDomain {
                number: cursor.u32().ok()?,
                name: if version >= NAMED_DOMAINS {
                    Some(string(cursor)?)
                } else {
                    None
                },
                mask: string(cursor)?,
                cpus: string(cursor)?,
            })
        })?;
        cpus.push(CpuDomains { cpu, domains });
    }
    Some(cpus)
}

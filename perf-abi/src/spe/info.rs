//! `PERF_RECORD_AUXTRACE_INFO` of SPE: which cores recorded.

use crate::bytes::{u32_at, u64_at};

/// `PERF_AUXTRACE_ARM_SPE`.
const KIND: u32 = 4;
/// Words of a version 1 record: PMU type, mapped by CPU.
const VERSION_1_WORDS: usize = 2;

/// What perf wrote of the PMU before the data.
///
/// ```text
/// { u32 type = 4; u32 reserved; u64 priv[]; }
/// version 1: priv = { pmu_type, per_cpu_mmaps }
/// version 2: priv = { version = 2, header words, pmu_type, cpus }, for each CPU
///            { magic, cpu, words that follow, midr, pmu_type, min_interval, event_filter }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// Type number of the events whose AUX data it is.
    pub pmu_type: u32,
    /// Cores, where version 2 lists them.
    pub cpus: Vec<CpuInfo>,
}

/// One core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuInfo {
    /// Number.
    pub cpu: u64,
    /// Main id register.
    pub midr: u64,
    /// Events that can be filtered, so those the core has; `None` in older files.
    pub event_filter: Option<u64>,
}

impl Info {
    /// From the body of the record; `None` if it is of another kind of trace.
    pub fn parse(body: &[u8]) -> Option<Self> {
        if u32_at(body, 0)? != KIND {
            return None;
        }
        let word = |at: usize| u64_at(body, 8_usize.checked_add(at.checked_mul(8)?)?);
        let narrow = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
        let words = body.len().saturating_sub(8) / 8;
        if words <= VERSION_1_WORDS {
            return Some(Self {
                pmu_type: word(0).map(narrow)?,
                cpus: Vec::new(),
            });
        }
        let mut info = Self {
            pmu_type: word(2).map(narrow)?,
            cpus: Vec::new(),
        };
        let mut at = usize::try_from(word(1)?).ok()?;
        // As many as there are words, whatever the count says.
        while let (Some(cpu), Some(count)) =
            (word(at.saturating_add(1)), word(at.saturating_add(2)))
        {
            let Ok(count) = usize::try_from(count) else {
                break;
            };
            let (Some(midr), true) = (word(at + 3), count > 0) else {
                break;
            };
            info.cpus.push(CpuInfo {
                cpu,
                midr,
                event_filter: if count > 3 { word(at + 6) } else { None },
            });
            let Some(next) = count.checked_add(at + 3) else {
                break;
            };
            at = next;
        }
        Some(info)
    }

    /// What is known of a core; without a number, of all if they are alike.
    pub fn cpu(&self, cpu: Option<u32>) -> Option<&CpuInfo> {
        if let Some(cpu) = cpu {
            return self.cpus.iter().find(|info| info.cpu == u64::from(cpu));
        }
        let first = self.cpus.first()?;
        let alike = self.cpus.iter().all(|info| info.midr == first.midr);
        alike.then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut body = [kind.to_le_bytes(), [0; 4]].concat();
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body
    }

    #[test]
    fn both_versions_are_read() {
        let old = Info::parse(&body(4, &[9, 1])).unwrap();
        assert_eq!((old.pmu_type, old.cpus.len()), (9, 0));
        let magic = 0x1010_1010_1010_1010;
        let words = [
            2,
            4,
            9,
            2,
            magic,
            0,
            4,
            0x410f_d490,
            9,
            1024,
            0xff,
            magic,
            1,
            3,
            0x410f_d400,
            9,
            1024,
        ];
        let new = Info::parse(&body(4, &words)).unwrap();
        assert_eq!(new.pmu_type, 9);
        assert_eq!(new.cpus.len(), 2);
        assert_eq!(
            new.cpu(Some(0)),
            Some(&CpuInfo {
                cpu: 0,
                midr: 0x410f_d490,
                event_filter: Some(0xff)
            })
        );
        assert_eq!(new.cpu(Some(1)).unwrap().event_filter, None);
        assert_eq!(new.cpu(None), None, "two kinds of cores");
        assert_eq!(Info::parse(&body(3, &[9, 1])), None);
        assert_eq!(Info::parse(&[]), None);
        assert_eq!(Info::parse(&[4, 0, 0, 0]), None, "ends after the type");
    }

    #[test]
    fn counts_that_lie_end_the_list() {
        let words = [2, 4, 9, u64::MAX, 0, 0, u64::MAX, 0x410f_d490, 9];
        assert_eq!(Info::parse(&body(4, &words)).unwrap().cpus.len(), 1);
        let words = [2, u64::MAX, 9, 1, 0, 0, 4, 1, 1];
        assert_eq!(Info::parse(&body(4, &words)).unwrap().cpus.len(), 0);
        let words = [2, 4, 9, 1, 0, 0, 0, 1, 1];
        assert_eq!(Info::parse(&body(4, &words)).unwrap().cpus.len(), 0);
    }
}

//! What a sample says of its memory access: the fields the kernel wrote, else what the hardware's own registers say.

use memwide_model::data_src::op;
use memwide_model::{Classified, Cpu, DataSrc, Op, Pmu, Suspect, classify};
use memwide_perf_abi::ibs::{OpKind, OpSample, TlbAnswer};
use memwide_perf_abi::{Attr, SampleView, Weight, attr_kind};

/// 16-bit latencies that ran into their limit.
const SATURATED: u64 = 0xffff;
/// Counters of SPE have 12 bits on most cores.
const SPE_SATURATED: u64 = 0xfff;

/// What raw data of an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Registers {
    /// Nothing this module knows.
    #[default]
    None,
    /// Registers of `ibs_op`.
    IbsOp,
    /// Registers of `ibs_fetch`: no data access.
    IbsFetch,
}

/// What must be known of an event to understand its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EventFacts {
    registers: Registers,
    /// `config` of an event of the CPU proper.
    config: Option<u64>,
    /// What a breakpoint waits for.
    watches: Option<Op>,
}

impl EventFacts {
    /// Whether samples have their accesses in the kernel's fields alone.
    #[inline]
    pub(crate) fn says_no_more(&self) -> bool {
        self.registers == Registers::None
    }

    /// By the attribute, the name of its PMU if known, and its own name.
    pub(crate) fn new(attr: &Attr, pmu: Option<&str>, name: &str) -> Self {
        let starts = |with: &str| pmu.unwrap_or(name).starts_with(with);
        let registers = if starts("ibs_op") {
            Registers::IbsOp
        } else if starts("ibs_fetch") {
            Registers::IbsFetch
        } else {
            Registers::None
        };
        let is_core = attr.kind == attr_kind::RAW || pmu.is_some_and(|pmu| pmu.starts_with("cpu"));
        Self {
            registers,
            config: is_core.then_some(attr.config),
            watches: (attr.kind == attr_kind::BREAKPOINT)
                .then(|| watched(attr.bp_type))
                .flatten(),
        }
    }
}

/// `HW_BREAKPOINT_R`, `_W`, `_RW` and `_X` (`linux/hw_breakpoint.h`). x86 cannot watch reads alone: there `R` is not to be had.
fn watched(bp_type: u32) -> Option<Op> {
    match bp_type {
        1 => Some(Op::Load),
        2 => Some(Op::Store),
        3 => Some(Op::LoadStore),
        4 => Some(Op::Exec),
        _ => None,
    }
}

/// The access of one sample. Fields are `None` where neither kernel nor hardware says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// `data_src`: the kernel's, else put together from registers.
    pub data_src: Option<DataSrc>,
    /// Data address.
    pub addr: Option<u64>,
    /// Physical data address.
    pub phys_addr: Option<u64>,
    /// Weight; with registers only: miss latency, and tag to retire beside it, of loads that missed.
    pub weight: Option<Weight>,
    /// Bytes of the page.
    pub page_size: Option<u64>,
    /// The registers say prefetch or fetch, where the word says load or nothing.
    refined: Option<Op>,
    rip_invalid: bool,
}

impl Memory {
    /// Of a sample of an event on a CPU.
    #[inline]
    pub(crate) fn new(view: &SampleView<'_>, event: EventFacts, cpu: Cpu) -> Self {
        let mut memory = Self {
            data_src: view.data_src().map(DataSrc),
            addr: view.addr(),
            phys_addr: view.phys_addr(),
            weight: view.weight(),
            page_size: view.data_page_size(),
            refined: event.watches,
            ..Self::default()
        };
        match event.registers {
            Registers::None => {}
            Registers::IbsOp => {
                let sample = view.raw().and_then(|raw| OpSample::parse(raw).ok());
                if let Some(sample) = sample {
                    memory.fill(&sample, cpu);
                }
            }
            Registers::IbsFetch => memory.refined = Some(Op::Exec),
        }
        memory
    }

    fn fill(&mut self, sample: &OpSample, cpu: Cpu) {
        // Kernels before 6.1 write "not available" for every operation.
        let silent = self
            .data_src
            .is_none_or(|word| matches!(word.op(), 0 | op::NA));
        if silent {
            let (family, model) = match cpu {
                Cpu::Amd { family, model } => (family, model),
                _ => (0, 0),
            };
            self.data_src = Some(DataSrc(sample.data_src(family, model)));
            if sample.kind() == OpKind::Prefetch {
                self.refined = Some(Op::Prefetch);
            }
            if sample.kind() == OpKind::LoadStore {
                self.refined = Some(Op::LoadStore);
            }
        }
        let accesses = sample.kind() != OpKind::Other;
        if accesses {
            self.addr = self.addr.filter(|addr| *addr != 0).or(sample.linear());
            self.phys_addr = self
                .phys_addr
                .filter(|addr| *addr != 0)
                .or(sample.physical());
        }
        if self.weight.is_none() {
            self.weight = sample.miss_latency_cycles().map(|cycles| Weight {
                weight: cycles.into(),
                ins_lat: sample.tag_to_retire_cycles(),
                retire_lat: 0,
            });
        }
        if self.page_size.is_none_or(|size| size == 0) {
            self.page_size = match sample.tlb() {
                Some(TlbAnswer::L1 { page } | TlbAnswer::L2 { page }) => Some(page),
                _ => self.page_size,
            };
        }
        self.rip_invalid = sample.ip().is_none();
    }

    /// Displayed values. `may_err`: the CPU has errata at all.
    #[inline]
    pub(crate) fn classify(
        &self,
        event: EventFacts,
        cpu: Cpu,
        pmu: Pmu,
        may_err: bool,
    ) -> Classified {
        let mut class = match self.data_src {
            Some(word) => {
                let by_event = event
                    .config
                    .and_then(|config| memwide_model::implied(cpu, config, word));
                classify(by_event.unwrap_or(word), pmu)
            }
            None => Classified::NONE,
        };
        if let Some(op) = self.refined {
            class.op = op;
        }
        if class.suspect == Suspect::None {
            class.suspect = self.suspect(event, cpu, pmu, may_err);
        }
        class
    }

    fn suspect(&self, event: EventFacts, cpu: Cpu, pmu: Pmu, may_err: bool) -> Suspect {
        let has_erratum = |word| {
            memwide_model::errata(cpu, event.config, word)
                .next()
                .is_some()
        };
        let cycles = self.weight.map_or(0, |weight| weight.weight);
        let limit = match pmu {
            Pmu::ArmSpe => SPE_SATURATED,
            _ => SATURATED,
        };
        if may_err && self.data_src.is_some_and(has_erratum) {
            Suspect::Erratum
        } else if self.data_src.is_some() && (cycles == limit || cycles == SATURATED) {
            Suspect::Saturated
        } else if self.rip_invalid {
            Suspect::RipInvalid
        } else {
            Suspect::None
        }
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

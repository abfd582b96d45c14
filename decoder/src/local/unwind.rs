//! Callers from a copy of the user stack: `PERF_SAMPLE_REGS_USER` and `PERF_SAMPLE_STACK_USER`, by what programs say of their
//! frames (`.eh_frame`, `.debug_frame`).

use super::{ObjectRequest, ObjectSource, SharedTables};
use crate::context::Mode;
use crate::machine::Machine;
use crate::symbols::{ObjectIx, What};
use framehop::aarch64::{UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use memwide_model::MappingId;
use memwide_objects::FrameSections;
use memwide_perf_abi::{Regs, UserStack};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most bytes of sections kept; programs beyond are not unwound.
const BYTES_MAX: usize = 1 << 30;

/// Most processes whose mappings are kept ready; then all are made anew.
const PROCESSES_MAX: usize = 256;

/// Modules entered after which the caches of rules start anew: the library counts them with 16 bits.
const MODULES_MAX: u32 = 60_000;

/// Registers by perf's numbers (`asm/perf_regs.h`).
mod x86 {
    pub(super) const BP: u32 = 6;
    pub(super) const SP: u32 = 7;
    pub(super) const IP: u32 = 8;
}
mod arm64 {
    pub(super) const FP: u32 = 29;
    pub(super) const LR: u32 = 30;
    pub(super) const SP: u32 = 31;
    pub(super) const PC: u32 = 32;
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// How a callchain's user part was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainBy {
    /// By the kernel, which follows frame pointers.
    #[default]
    Kernel,
    /// Unwound here from a copy of the stack, by what programs say of their frames.
    Dwarf,
    /// From the branches that the CPU records of calls (LBR call stack).
    Lbr,
}

impl ChainBy {
    /// One word, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Dwarf => "dwarf",
            Self::Lbr => "lbr",
        }
    }
}

/// Why a callchain has no further frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainEnd {
    /// Nobody knows: the kernel and the CPU do not say.
    #[default]
    Unknown,
    /// The outermost function is reached.
    Root,
    /// The copy of the stack does not reach further.
    StackCut,
    /// The next function's program is not here, or says nothing of its frames.
    NoFrames,
    /// What a program says of its frames leads nowhere.
    Broken,
    /// As many frames as are shown.
    Depth,
    /// The registers of this machine or process are not understood.
    NoRegisters,
}

impl ChainEnd {
    /// One word, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Root => "root",
            Self::StackCut => "stack-cut",
            Self::NoFrames => "no-frames",
            Self::Broken => "broken",
            Self::Depth => "depth",
            Self::NoRegisters => "no-registers",
        }
    }
}

type Bytes = Arc<[u8]>;

/// What unwinds code of one machine.
#[derive(Default)]
struct Arch<U: Unwinder> {
    /// By process, as long as its mappings are the ones of the stamp.
    processes: FxHashMap<u32, (u64, Process<U>)>,
    cache: U::Cache,
    entered: u32,
}

struct Process<U> {
    unwinder: U,
    /// Ranges of addresses that can be unwound.
    ranges: Vec<(u64, u64)>,
}

impl<U> Process<U> {
    fn holds(&self, address: u64) -> bool {
        let holds = |(start, end): &(u64, u64)| (*start..*end).contains(&address);
        self.ranges.iter().any(holds)
    }
}

/// Which machine's registers samples have.
enum Kind {
    X86(Box<Arch<UnwinderX86_64<Bytes>>>),
    Arm(Box<Arch<UnwinderAarch64<Bytes>>>),
    Other,
}

/// Unwinds the stacks of all processes of a file.
pub(super) struct Unwinding {
    kind: Kind,
    sections: FxHashMap<MappingId, Option<FrameSections>>,
    bytes: usize,
}

impl std::fmt::Debug for Unwinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            sections, bytes, ..
        } = self;
        f.debug_struct("Unwinding")
            .field("programs", &sections.len())
            .field("bytes", bytes)
            .finish_non_exhaustive()
    }
}

/// A sample's registers and stack.
#[derive(Clone, Copy)]
pub(super) struct Copied<'a> {
    pub(super) regs: Regs<'a>,
    pub(super) stack: UserStack<'a>,
}

impl Unwinding {
    /// For samples of a machine as `uname -m` names it; without a name it is taken to be this one.
    pub(super) fn new(arch: Option<&str>) -> Self {
        let kind = match arch.unwrap_or(std::env::consts::ARCH) {
            "x86_64" => Kind::X86(Box::default()),
            "aarch64" => Kind::Arm(Box::default()),
            _ => Kind::Other,
        };
        Self {
            kind,
            sections: FxHashMap::default(),
            bytes: 0,
        }
    }

    /// Appends the user frames to `into`, at most `most` of them, innermost first. Callers are given by the last byte of their
    /// call, as perf gives them.
    pub(super) fn unwind<S: ObjectSource>(
        &mut self,
        (machine, source, tables): (&mut Machine, &mut S, &SharedTables),
        (pid, now): (u32, u64),
        copied: Copied<'_>,
        most: usize,
        into: &mut Vec<u64>,
    ) -> ChainEnd {
        if copied.regs.abi != ABI_64 {
            return ChainEnd::NoRegisters;
        }
        let (sections, bytes) = (&mut self.sections, &mut self.bytes);
        let reg = |number| copied.regs.get(number);
        let mut find = |machine: &mut Machine, object| {
            super::load(machine, source, tables, object);
            let mapping = machine.objects().get(object)?.mapping;
            let known = sections.entry(mapping).or_insert_with(|| {
                let found = load(machine, source, object).ok()?;
                *bytes += found.len();
                (*bytes <= BYTES_MAX && !found.is_empty()).then_some(found)
            });
            known.clone()
        };
        match &mut self.kind {
            Kind::X86(arch) => {
                let (Some(ip), Some(sp), Some(bp)) = (reg(x86::IP), reg(x86::SP), reg(x86::BP))
                else {
                    return ChainEnd::NoRegisters;
                };
                let regs = UnwindRegsX86_64::new(ip, sp, bp);
                arch.ready(machine, &mut find, pid, now);
                arch.walk(pid, (ip, sp), regs, copied.stack, most, into)
            }
            Kind::Arm(arch) => {
                let (Some(pc), Some(sp)) = (reg(arm64::PC), reg(arm64::SP)) else {
                    return ChainEnd::NoRegisters;
                };
                let (Some(lr), Some(fp)) = (reg(arm64::LR), reg(arm64::FP)) else {
                    return ChainEnd::NoRegisters;
                };
                let regs = UnwindRegsAarch64::new(lr, sp, fp);
                arch.ready(machine, &mut find, pid, now);
                arch.walk(pid, (pc, sp), regs, copied.stack, most, into)
            }
            Kind::Other => ChainEnd::NoRegisters,
        }
    }
}

impl<U> Arch<U>
where
    U: Unwinder<Module = Module<Bytes>> + Default,
    U::Cache: Default,
{
    /// Enters what a process has mapped, if that is not done.
    fn ready(
        &mut self,
        machine: &mut Machine,
        find: &mut impl FnMut(&mut Machine, ObjectIx) -> Option<FrameSections>,
        pid: u32,
        now: u64,
    ) {
        let stamp = machine.stamp(Mode::User, pid);
        if self
            .processes
            .get(&pid)
            .is_some_and(|(known, _)| *known == stamp)
        {
            return;
        }
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        let mut process = Process {
            unwinder: U::default(),
            ranges: Vec::new(),
        };
        let areas: Vec<_> = machine.spaces().areas(pid, now).collect();
        for area in areas.into_iter().filter(|area| area.access.executable) {
            let Some(found) = find(machine, area.object) else {
                continue;
            };
            let Some(table) = machine.objects().table(area.object) else {
                continue;
            };
            let segments = table.table().segments();
            let bias = match machine.objects().get(area.object).map(|object| object.what) {
                Some(What::Vdso) => Some(area.start),
                _ => segments.bias(area.start, area.offset, area.access),
            };
            let Some(bias) = bias else {
                continue;
            };
            let info = ExplicitModuleSectionInfo {
                text_svma: found.text,
                got_svma: found.got,
                eh_frame_svma: found.eh_frame.as_ref().map(|(range, _)| range.clone()),
                eh_frame: found.eh_frame.map(|(_, bytes)| bytes),
                eh_frame_hdr_svma: found.eh_frame_hdr.as_ref().map(|(range, _)| range.clone()),
                eh_frame_hdr: found.eh_frame_hdr.map(|(_, bytes)| bytes),
                debug_frame: found.debug_frame,
                ..ExplicitModuleSectionInfo::default()
            };
            let range = area.start..area.end;
            process.ranges.push((range.start, range.end));
            let module = Module::new(String::new(), range, bias, info);
            process.unwinder.add_module(module);
            self.entered += 1;
        }
        if self.entered > MODULES_MAX {
            (self.entered, self.cache) = (0, U::Cache::default());
            self.processes.clear();
        }
        self.processes.insert(pid, (stamp, process));
    }

    fn walk(
        &mut self,
        pid: u32,
        (pc, sp): (u64, u64),
        regs: U::UnwindRegs,
        stack: UserStack<'_>,
        most: usize,
        into: &mut Vec<u64>,
    ) -> ChainEnd {
        let Some((_, process)) = self.processes.get(&pid) else {
            return ChainEnd::NoFrames;
        };
        if !process.holds(pc) {
            return ChainEnd::NoFrames;
        }
        let len = usize::try_from(stack.dyn_size).unwrap_or(usize::MAX);
        let stack = stack.data.get(..len).unwrap_or(stack.data);
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(sp)).map_err(|_| ())?;
            let word = stack.get(at..).and_then(|rest| rest.first_chunk());
            word.map(|word| u64::from_le_bytes(*word)).ok_or(())
        };
        let mut frames = process
            .unwinder
            .iter_frames(pc, regs, &mut self.cache, &mut read);
        let mut given = 0;
        loop {
            match frames.next() {
                Ok(Some(_)) if given == most => return ChainEnd::Depth,
                Ok(Some(frame)) => {
                    let address = match frame {
                        FrameAddress::InstructionPointer(address) => address,
                        FrameAddress::ReturnAddress(address) => u64::from(address) - 1,
                    };
                    given += 1;
                    into.push(address);
                    if !process.holds(address) {
                        return ChainEnd::NoFrames;
                    }
                }
                Ok(None) | Err(Error::ReturnAddressIsNull) => return ChainEnd::Root,
                Err(Error::CouldNotReadStack(_)) => return ChainEnd::StackCut,
                Err(_) => return ChainEnd::Broken,
            }
        }
    }
}

fn load<S: ObjectSource>(
    machine: &Machine,
    source: &mut S,
    object: ObjectIx,
) -> Result<FrameSections, String> {
    let object = machine.objects().get(object).ok_or("no such thing")?;
    source.frames(&ObjectRequest {
        identity: &object.identity,
        what: object.what,
        base: object.base,
        jit_dump: None,
        kernel: None,
    })
}

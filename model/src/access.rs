//! The access taxonomy: displayed values, each with an explicit unknown, so that every distribution sums to n.
//!
//! The raw `data_src` word is kept beside them, so history can be classified again.

use crate::code::coded;

coded! {
    /// What the instruction did.
    Op {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// Load.
        Load = 1, "load";
        /// Store.
        Store = 2, "store";
        /// Both, as locked read-modify-write instructions.
        LoadStore = 3, "load+store";
        /// Prefetch.
        Prefetch = 4, "prefetch";
        /// Instruction fetch.
        Exec = 5, "exec";
        /// The hardware says: no memory operation (`PERF_MEM_OP_NA`).
        None = 6, "none";
    }
}

coded! {
    /// Where the data was looked for; with [`Outcome`]: an `L3` with outcome miss was *not* served by the L3.
    Level {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// Level 0 data cache.
        L0 = 1, "L0";
        /// Level 1 data cache.
        L1 = 2, "L1";
        /// Line fill buffer (Intel), miss address buffer (AMD): another miss was pending, origin unknown.
        Lfb = 3, "LFB";
        /// Level 2 cache.
        L2 = 4, "L2";
        /// Miss handling buffer of the level 2 cache.
        L2Mhb = 5, "L2-MHB";
        /// Level 3 cache.
        L3 = 6, "L3";
        /// Level 4 cache.
        L4 = 7, "L4";
        /// Some cache, level not told (`ANY_CACHE`).
        AnyCache = 8, "any-cache";
        /// Memory-side cache.
        Msc = 9, "MSC";
        /// Main memory.
        Ram = 10, "RAM";
        /// Memory behind CXL.
        Cxl = 11, "CXL";
        /// Persistent memory.
        Pmem = 12, "PMEM";
        /// I/O memory.
        Io = 13, "IO";
        /// Uncached memory.
        Uncached = 14, "uncached";
        /// The event carries no level (software tier).
        None = 15, "none";
    }
}

coded! {
    /// Whether the level served the access.
    Outcome {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// Served there.
        Hit = 1, "hit";
        /// Looked for there and not found.
        Miss = 2, "miss";
    }
}

coded! {
    /// What other caches answered; the highest of the mask.
    Snoop {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// No snoop.
        None = 1, "none";
        /// Snooped, not found.
        Miss = 2, "miss";
        /// Found clean.
        Hit = 3, "hit";
        /// Served by a peer cache.
        Peer = 4, "peer";
        /// Forwarded.
        Fwd = 5, "fwd";
        /// Found modified: contention.
        HitM = 6, "hitm";
    }
}

coded! {
    /// Address translation.
    Tlb {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// First-level TLB.
        L1Hit = 1, "l1-hit";
        /// Second-level TLB.
        L2Hit = 2, "l2-hit";
        /// One of both; every Intel hit, not separable.
        L1OrL2Hit = 3, "l1-or-l2-hit";
        /// Page walk by hardware.
        Walk = 4, "walk";
        /// Fault, handled by the OS.
        Fault = 5, "fault";
        /// Missed, served we know not how.
        Miss = 6, "miss";
    }
}

coded! {
    /// Why a load had to wait before it could issue.
    Blocked {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// Not blocked.
        No = 1, "no";
        /// Store data not ready.
        Data = 2, "data";
        /// Store address not known.
        Address = 3, "address";
        /// Both.
        DataAddress = 4, "data+address";
    }
}

coded! {
    /// Which part of the memory system answered (`mem_region`, Intel from Diamond Rapids on).
    MemRegion {
        /// The source does not say.
        Unknown = 0, "unknown";
        /// A number without a name.
        Reserved = 1, "reserved";
        /// Shared cache of the own caching agent.
        LocalShared = 2, "local-shared-cache";
        /// Other cache of the own caching agent.
        LocalCache = 3, "local-cache";
        /// I/O agent of another caching agent.
        OtherIo = 4, "other-io";
        /// Shared cache of another caching agent.
        OtherShared = 5, "other-shared-cache";
        /// Other cache of another caching agent.
        OtherCache = 6, "other-cache";
        /// Memory-mapped I/O.
        Mmio = 7, "mmio";
        /// Memory region 0.
        Mem0 = 8, "mem0";
        /// Memory region 1.
        Mem1 = 9, "mem1";
        /// Memory region 2.
        Mem2 = 10, "mem2";
        /// Memory region 3.
        Mem3 = 11, "mem3";
        /// Memory region 4.
        Mem4 = 12, "mem4";
        /// Memory region 5.
        Mem5 = 13, "mem5";
        /// Memory region 6.
        Mem6 = 14, "mem6";
        /// Memory region 7.
        Mem7 = 15, "mem7";
    }
}

coded! {
    /// Why a row is to be taken with a grain of salt; the first that applies. The raw word is kept.
    Suspect {
        /// Nothing is known against it.
        None = 0, "none";
        /// Bits are set that this build has no name for.
        UnnamedBits = 1, "unnamed-bits";
        /// It says hit and miss at once.
        HitAndMiss = 2, "hit-and-miss";
        /// The number says cache, the old mask says memory (Intel up to Broadwell, code 0x0b): shared data of remote
        /// memory, filed under the number's level.
        LevelsDisagree = 3, "levels-disagree";
        /// Memory-mapped I/O that the kernel files under RAM (`mem_region`).
        MmioAsRam = 4, "mmio-as-ram";
        /// A published erratum of the CPU concerns the event, see [`errata`](fn@crate::errata).
        Erratum = 5, "erratum";
        /// The weight stands at its 16-bit limit: the true latency is larger.
        Saturated = 6, "saturated";
        /// The instruction pointer is the interrupt's, not the sampled operation's (IBS `RIP invalid`).
        RipInvalid = 7, "rip-invalid";
    }
}

coded! {
    /// Near or far. Used for `hw_locality`, `page_locality` and `locality`.
    Locality {
        /// Nothing says.
        Unknown = 0, "unknown";
        /// Same node (what "node" means to the hardware stands in `hosts.remote_means`).
        Local = 1, "local";
        /// Another one.
        Remote = 2, "remote";
    }
}

coded! {
    /// What `locality` rests on.
    LocalityBasis {
        /// Nothing.
        None = 0, "none";
        /// The hardware's word.
        Hw = 1, "hw";
        /// Node of the page against node of the CPU.
        Page = 2, "page";
    }
}

coded! {
    /// How much a row can say. Tiers are never summed silently.
    Tier {
        /// Faults, breakpoints, tracepoints, clock.
        Software = 1, "software";
        /// Hardware events without data source.
        Event = 2, "event";
        /// PEBS, IBS, SPE: address, level, latency.
        Precise = 3, "precise";
    }
}

coded! {
    /// In which context the CPU was.
    Context {
        /// Not known.
        Unknown = 0, "unknown";
        /// User mode.
        User = 1, "user";
        /// Kernel, in a system call.
        Syscall = 2, "syscall";
        /// Kernel, handling a fault.
        Fault = 3, "fault";
        /// Hardware interrupt.
        Irq = 4, "irq";
        /// Software interrupt.
        Softirq = 5, "softirq";
        /// Timer interrupt.
        Timer = 6, "timer";
        /// Non-maskable interrupt.
        Nmi = 7, "nmi";
        /// Idle task.
        Idle = 8, "idle";
        /// Kernel thread.
        Kthread = 9, "kthread";
        /// This profiler.
        Profiler = 10, "profiler";
        /// Kernel mode, no chain to tell more.
        Kernel = 11, "kernel";
        /// A guest of this host.
        Guest = 12, "guest";
    }
}

coded! {
    /// What the data address belongs to.
    Region {
        /// Not known.
        Unknown = 0, "unknown";
        /// A named variable of a binary.
        Global = 1, "global";
        /// The brk heap.
        Heap = 2, "heap";
        /// A thread's stack.
        Stack = 3, "stack";
        /// A file mapping (no symbol covers the address).
        File = 4, "file";
        /// Anonymous memory.
        Anonymous = 5, "anonymous";
        /// Shared memory.
        Shared = 6, "shared";
        /// Kernel memory.
        Kernel = 7, "kernel";
        /// vdso, vvar, vsyscall.
        Vdso = 8, "vdso";
    }
}

coded! {
    /// What a weight measures. Kinds are never added to each other.
    LatencyKind {
        /// The event has none.
        None = 0, "none";
        /// Intel up to Ice Lake: dispatch to use, cycles.
        Use = 1, "use";
        /// Alder Lake, Sapphire Rapids on: cache latency, cycles (instruction latency in `ins_lat`).
        Cache = 2, "cache";
        /// Retire latency, cycles.
        Retire = 3, "retire";
        /// AMD IBS: load miss latency, cycles.
        IbsMiss = 4, "ibs-miss";
        /// AMD IBS: tag to retire, cycles.
        IbsTagToRetire = 5, "ibs-tag-to-retire";
        /// Arm SPE: total latency, cycles.
        SpeTotal = 6, "spe-total";
        /// A weight whose meaning is not known.
        Unknown = 7, "unknown";
    }
}

//! Facts: what happened, each row with its time.

use memwide_model::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Reason,
    Region, Snoop, Suspect, Tier, Tlb,
};

use super::{SumsColumns, TierOrNone, day_of_ns, day_of_seconds, tables};
use crate::native::{ArrayOfStrings, ArrayOfU64, Code, Named, Seconds, Strings, TimeNs};

tables! {
    {
        /// Gathers rows of `samples`.
        Samples of
        /// One sample.
        SampleRow in "samples", day = |row| day_of_ns(row.time);
        /// When, in nanoseconds since 1970 UTC.
        time: TimeNs,
        /// Name of the host.
        host: Named,
        /// Source the sample came in with.
        source_id: Vec<u64>,
        /// Batch of the source.
        batch: Vec<u64>,
        /// CPU.
        cpu: Vec<u16>,
        /// Process.
        pid: Vec<u32>,
        /// Thread.
        tid: Vec<u32>,
        /// Name of the thread.
        comm: Named,
        /// Workload; 0: none.
        workload_id: Vec<u64>,
        /// Event.
        event_id: Vec<u64>,
        /// Name of the event.
        event: Named,
        /// How much the event can say.
        tier: Code<Tier>,
        /// In which context the CPU was.
        context: Code<Context>,
        /// Instruction address.
        ip: Vec<u64>,
        /// Function of the instruction.
        function_id: Vec<u64>,
        /// Place of the instruction in its mapping.
        location_id: Vec<u64>,
        /// Callchain; 0: none.
        stack_id: Vec<u64>,
        /// Data address; 0: none.
        addr: Vec<u64>,
        /// Physical data address; 0: none.
        phys_addr: Vec<u64>,
        /// What the data address belongs to; 0: not known.
        data_id: Vec<u64>,
        /// Kind of that.
        region: Code<Region>,
        /// The raw `perf_mem_data_src`.
        data_src: Vec<u64>,
        /// Events this sample stands for; 0: not given.
        period: Vec<u64>,
        /// Latency in cycles, of the kind in `latency_kind`; 0: none.
        weight: Vec<u32>,
        /// Instruction latency in cycles; 0: none.
        ins_lat: Vec<u16>,
        /// Retire latency in cycles; 0: none.
        retire_lat: Vec<u16>,
        /// What `weight` measures.
        latency_kind: Code<LatencyKind>,
        /// Base-2 logarithm of the page's size in bytes; 0: not known.
        page_shift: Vec<u8>,
        /// NUMA node of the page; 255: not known.
        page_node: Vec<u8>,
        /// Operation.
        op: Code<Op>,
        /// Where the data was looked for.
        level: Code<Level>,
        /// Whether it was there.
        outcome: Code<Outcome>,
        /// What other caches answered.
        snoop: Code<Snoop>,
        /// Address translation.
        tlb: Code<Tlb>,
        /// 1: a locked instruction.
        locked: Vec<u8>,
        /// Why the load had to wait.
        blocked: Code<Blocked>,
        /// Near or far by the hardware's word.
        hw_locality: Code<Locality>,
        /// Near or far by the page's node.
        page_locality: Code<Locality>,
        /// Near or far.
        locality: Code<Locality>,
        /// What that rests on.
        locality_basis: Code<LocalityBasis>,
        /// Which part of the memory system answered.
        mem_region: Code<MemRegion>,
        /// What is known against the row.
        suspect: Code<Suspect>,
        /// Version of the decoder that made the row, with the revision of its taxonomy; empty: not told.
        decoder_version: Named,
    }
    {
        /// Gathers rows of `mix_1m`.
        Mix1m of
        /// One minute of one host's mix.
        MixRow in "mix_1m", day = |row| day_of_seconds(row.time.into());
        /// Begin of the minute, in seconds since 1970 UTC.
        time: Seconds,
        /// Name of the host.
        host: Named,
        /// Workload; 0: none.
        workload_id: Vec<u64>,
        /// Event.
        event_id: Vec<u64>,
        /// Name of the event.
        event: Named,
        /// How much the event can say.
        tier: Code<Tier>,
        /// Operation.
        op: Code<Op>,
        /// Where the data was looked for.
        level: Code<Level>,
        /// Whether it was there.
        outcome: Code<Outcome>,
        /// Near or far.
        locality: Code<Locality>,
        /// What that rests on.
        locality_basis: Code<LocalityBasis>,
        /// In which context the CPU was.
        context: Code<Context>,
        /// The sums.
        sums: SumsColumns,
    }
    {
        /// Gathers rows of `fleet_1h`.
        Fleet1h of
        /// One hour of one function on all hosts.
        FleetRow in "fleet_1h", day = |row| day_of_seconds(row.time.into());
        /// Begin of the hour, in seconds since 1970 UTC.
        time: Seconds,
        /// Function.
        function_id: Vec<u64>,
        /// Event.
        event_id: Vec<u64>,
        /// Name of the event.
        event: Named,
        /// How much the event can say.
        tier: Code<Tier>,
        /// What weights measure.
        latency_kind: Code<LatencyKind>,
        /// Operation.
        op: Code<Op>,
        /// Where the data was looked for.
        level: Code<Level>,
        /// Whether it was there.
        outcome: Code<Outcome>,
        /// Near or far.
        locality: Code<Locality>,
        /// What that rests on.
        locality_basis: Code<LocalityBasis>,
        /// Model of the CPU.
        cpu_model: Named,
        /// The sums.
        sums: SumsColumns,
        /// Host, counted in the `hosts` state; not stored itself.
        host_id: Vec<u64>,
    }
    {
        /// Gathers rows of `ledger_1m`.
        Ledger1m of
        /// One line of the ledger.
        LedgerRow in "ledger_1m", day = |row| day_of_seconds(row.time.into());
        /// Minute in which the batch was closed, in seconds since 1970 UTC.
        time: Seconds,
        /// Name of the host.
        host: Named,
        /// Source.
        source_id: Vec<u64>,
        /// Event; 0: none.
        event_id: Vec<u64>,
        /// Name of the event; empty: none.
        event: Named,
        /// Tier of the event.
        tier: Code<TierOrNone>,
        /// What is counted.
        reason: Code<Reason>,
        /// Records.
        records: Vec<u64>,
        /// Seconds, or a share where the reason is one.
        seconds: Vec<f64>,
        /// Last batch that added to the row.
        last_batch: Vec<u64>,
    }
    {
        /// Gathers rows of `hosts`.
        Hosts of
        /// Facts of a host.
        HostRow in "hosts", day = |row| day_of_seconds(row.time.into());
        /// When the facts were read, in seconds since 1970 UTC.
        time: Seconds,
        /// Name of the host.
        host: Named,
        /// Host.
        host_id: Vec<u64>,
        /// `live`, `import` or `simulated`.
        kind: Named,
        /// Architecture.
        arch: Named,
        /// Release of the kernel.
        os_release: Named,
        /// Vendor of the CPU.
        cpu_vendor: Named,
        /// Model of the CPU.
        cpu_model: Named,
        /// Identification of the CPU as perf writes it.
        cpuid: Named,
        /// CPUs.
        cpus: Vec<u32>,
        /// NUMA nodes.
        nodes: Vec<u16>,
        /// Node of each CPU, by its number; [`CPU_NODE_UNKNOWN`]: not known.
        cpu_nodes: ArrayOfU64,
        /// What "remote" means to its hardware.
        remote_means: Named,
        /// Hypervisor; empty: none.
        virtualization: Named,
        /// Tiers its events can reach.
        tiers: ArrayOfStrings,
        /// Capabilities and what is missing, as JSON.
        capabilities: Strings,
        /// Hash of all of these.
        facts_id: Vec<u64>,
        /// Version of its collector.
        version: Named,
    }
    {
        /// Gathers rows of `closes`.
        Closes of
        /// How far `functions_1h` is closed for a partition.
        CloseRow in "closes", day = |_| 0;
        /// Partition.
        part: Vec<u16>,
        /// Ingest time up to which it is closed, in seconds since 1970 UTC.
        closed_through: Seconds,
    }
    {
        /// Gathers rows of `closes_of_details`.
        ClosesOfDetails of
        /// How far the other tables that are summed from samples are closed for a partition.
        ClosesOfDetailsRow in "closes_of_details", day = |_| 0;
        /// Partition.
        part: Vec<u16>,
        /// Ingest time up to which they are closed, in seconds since 1970 UTC.
        closed_through: Seconds,
    }
    {
        /// Gathers rows of `closes_of_calls`.
        ClosesOfCalls of
        /// How far `allocs_1m` and `offcpu_1m` are closed for a partition.
        ClosesOfCallsRow in "closes_of_calls", day = |_| 0;
        /// Partition.
        part: Vec<u16>,
        /// Ingest time up to which they are closed, in seconds since 1970 UTC.
        closed_through: Seconds,
    }
}

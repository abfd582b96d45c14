//! Definitions: what ids mean. A definition sent again replaces its older self.

use memwide_model::{LatencyKind, Region, Tier};

use super::tables;
use crate::native::{ArrayOfU64, Code, Named, Seconds, Strings};

tables! {
    {
        /// Gathers rows of `events`.
        Events of
        /// What an event is.
        EventRow in "events", day = |_| 0;
        /// Event.
        event_id: Vec<u64>,
        /// Its name.
        name: Strings,
        /// Its PMU.
        pmu: Named,
        /// How much it can say.
        tier: Code<Tier>,
        /// `fixed`, `frequency` or `every`.
        period_mode: Named,
        /// Period in events, or frequency in samples a second.
        period: Vec<u64>,
        /// Latency threshold in cycles; 0: none.
        threshold_cycles: Vec<u32>,
        /// What its weight measures.
        latency_kind: Code<LatencyKind>,
        /// What Σ period counts; empty: nothing.
        population: Named,
        /// Model of the CPU it was opened on.
        cpu_model: Named,
        /// Identification of that CPU as perf writes it; empty: not known.
        cpuid: Named,
        /// `perf_event_attr`, as hex.
        attr: Strings,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `functions_def`.
        FunctionsDef of
        /// A function's name.
        FunctionRow in "functions_def", day = |_| 0;
        /// Function.
        function_id: Vec<u64>,
        /// Mapping it lies in.
        mapping_id: Vec<u64>,
        /// Its start, as an address of the mapping's file.
        start: Vec<u64>,
        /// Name for people.
        name: Strings,
        /// Name in the symbol table.
        linkage_name: Strings,
        /// How good the name's source is; the highest wins.
        rank: Vec<u8>,
        /// Bytes from the start on; 0: not known.
        size: Vec<u64>,
        /// File of the source; empty: not known.
        source_file: Strings,
        /// Line in it; 0: not known.
        source_line: Vec<u32>,
        /// Place of its start in the mapping's file, plus 1; 0: not known.
        file_offset: Vec<u64>,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `symbols`.
        SymbolTables of
        /// What is known of the symbols of a mapping on a host.
        SymbolTableRow in "symbols", day = |_| 0;
        /// Mapping.
        mapping_id: Vec<u64>,
        /// Host.
        host: Named,
        /// Rank of the best name; 0: none.
        rank: Vec<u8>,
        /// Functions in the table.
        functions: Vec<u64>,
        /// Why there are no better names; empty: nothing is missing.
        reason: Strings,
        /// What to do about it.
        remedy: Strings,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `mappings`.
        Mappings of
        /// A file, or what stands for one.
        MappingRow in "mappings", day = |_| 0;
        /// Mapping.
        mapping_id: Vec<u64>,
        /// What it is.
        kind: Named,
        /// Build id as hex; empty: none.
        build_id: Strings,
        /// Path.
        path: Strings,
        /// Last part of the path.
        module: Named,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `locations`.
        Locations of
        /// A place in a mapping.
        LocationRow in "locations", day = |_| 0;
        /// Location.
        location_id: Vec<u64>,
        /// Mapping it lies in.
        mapping_id: Vec<u64>,
        /// Address within the mapping's file.
        address: Vec<u64>,
        /// Function it belongs to.
        function_id: Vec<u64>,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `nameless`.
        Nameless of
        /// A place whose function is not known.
        NamelessRow in "nameless", day = |_| 0;
        /// Location.
        location_id: Vec<u64>,
        /// What stands for its function meanwhile.
        stored_as: Vec<u64>,
        /// Mapping it lies in.
        mapping_id: Vec<u64>,
        /// Address within the mapping's file.
        address: Vec<u64>,
        /// 1: the address is an offset in the file, whose segments were not known.
        is_offset: Vec<u8>,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `stacks`.
        Stacks of
        /// A callchain.
        StackRow in "stacks", day = |_| 0;
        /// Stack.
        stack_id: Vec<u64>,
        /// Locations, innermost first.
        locations: ArrayOfU64,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `data_def`.
        DataDef of
        /// What a data address belongs to.
        DataRow in "data_def", day = |_| 0;
        /// Data.
        data_id: Vec<u64>,
        /// Kind.
        region: Code<Region>,
        /// Mapping it lies in; 0: none.
        mapping_id: Vec<u64>,
        /// Name of the variable, or of the region.
        name: Strings,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
    {
        /// Gathers rows of `workloads`.
        Workloads of
        /// What a process runs for.
        WorkloadRow in "workloads", day = |_| 0;
        /// Workload.
        workload_id: Vec<u64>,
        /// Namespace of the pod.
        namespace: Named,
        /// Pod.
        pod: Named,
        /// Container.
        container: Named,
        /// Service.
        service: Named,
        /// Path of the cgroup.
        cgroup_path: Strings,
        /// Number of the cgroup.
        cgroup_id: Vec<u64>,
        /// When it was last sent, in seconds since 1970 UTC.
        last_seen: Seconds,
    }
}

//! Known rows: the same samples in every table that is filled from outside.

use memwide_model::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Reason,
    Region, Snoop, Suspect, Tier, Tlb,
};
use memwide_store::Store;
use memwide_store::native::{Constant, append_constants, walk};
use memwide_store::rows::{
    DataDef, DataRow, EventRow, Events, FACTS, Fleet1h, FleetRow, FunctionRow, FunctionsDef,
    HostRow, Hosts, Ledger1m, LedgerRow, LocationRow, Locations, MappingRow, Mappings, Mix1m,
    MixRow, NativeBlock, SampleRow, Samples, StackRow, Stacks, Sums, TableRows, TierOrNone,
    WorkloadRow, Workloads,
};

/// 2026-11-20T10:00:00Z in seconds since 1970: the samples lie in the two hours from here on.
pub(crate) const BEGIN: u32 = 1_795_168_800;
/// Parameters that cover all samples, in whole hours.
pub(crate) const ALL: &str = "since=2026-11-20T10:00:00Z&until=2026-11-20T12:00:00Z";
/// A part of an hour, not in whole minutes.
pub(crate) const PART: &str = "since=2026-11-20T10:05:00.5Z&until=2026-11-20T10:45:00.25Z";

/// Samples.
pub(crate) const SAMPLES: u64 = 3_000;

/// Names that no answer may interpret.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"alert('x')\">\\'; DROP TABLE samples --";

/// Functions: id, name; the last one has no definition.
pub(crate) const FUNCTIONS: &[(u64, &str)] = &[
    (1, "lookup"),
    (2, "void fill<int>(char*, int)"),
    (3, HOSTILE),
    (4, "[unknown]"),
];

/// Hosts.
pub(crate) const HOSTS: &[&str] = &["alpha", "beta", "gamma"];

/// Events: id, name, tier, kind of latency, population.
pub(crate) const EVENTS: &[(u64, &str, Tier, LatencyKind, &str)] = &[
    (1, "mem-loads,ldlat=30", Tier::Precise, LatencyKind::Use, ""),
    (
        2,
        "mem-stores",
        Tier::Precise,
        LatencyKind::None,
        "retired stores",
    ),
    (
        3,
        "minor-faults",
        Tier::Software,
        LatencyKind::None,
        "minor faults",
    ),
];

/// A piece of data; 0 is none.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) region: Region,
    /// Where it begins; the last one begins in the last line of a page.
    pub(crate) address: u64,
}

/// Data that samples touch.
pub(crate) const DATA: &[Data] = &[
    Data {
        id: 0,
        name: "",
        region: Region::Unknown,
        address: 0x10_0000,
    },
    Data {
        id: 21,
        name: "counters",
        region: Region::Global,
        address: 0x5555_0000_4040,
    },
    Data {
        id: 22,
        name: "[heap]",
        region: Region::Heap,
        address: 0x5555_1000_0000,
    },
    Data {
        id: 23,
        name: HOSTILE,
        region: Region::Global,
        address: 0x5555_0000_8fc0,
    },
];

/// Callchains: id, and the places in them, innermost first.
pub(crate) const STACKS: &[(u64, &[u64])] = &[(1, &[16, 32]), (2, &[49, 16, 32]), (3, &[64, 33])];

/// Workloads: id, pod.
pub(crate) const WORKLOADS: &[(u64, &str)] = &[(1, "cart-1"), (2, "cart-2")];

/// One sample; what it holds follows from `i`.
pub(crate) fn sample(i: u64) -> SampleRow<'static> {
    let pick = |salt: u64, n: usize| {
        // Steele, Lea, Flood: what is picked of one sample tells nothing of what else is.
        let mut mixed = (i + (salt << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % n
    };
    let (event_id, event, tier, latency_kind, _) = EVENTS[pick(1, 3)];
    let software = tier == Tier::Software;
    let data = &DATA[pick(23, 4)];
    let weight = if latency_kind == LatencyKind::Use {
        30 + u32::try_from(pick(2, 500)).unwrap()
    } else {
        0
    };
    let locality = if software {
        Locality::Unknown
    } else {
        Locality::ALL[pick(3, 3)]
    };
    SampleRow {
        time: i64::from(BEGIN) * 1_000_000_000 + i64::try_from(i).unwrap() * 2_400_000_003,
        host: HOSTS[pick(4, 3)],
        source_id: 77,
        batch: 1,
        cpu: u16::try_from(pick(16, 8)).unwrap(),
        pid: [10, 11][pick(17, 2)],
        tid: 100 + u32::try_from(pick(18, 3)).unwrap(),
        comm: ["main", HOSTILE][pick(5, 2)],
        workload_id: [0, 1, 2][pick(6, 3)],
        event_id,
        event,
        tier,
        context: [Context::User, Context::Syscall][pick(7, 2)],
        ip: u64::MAX - i,
        function_id: FUNCTIONS[pick(8, 4)].0,
        location_id: FUNCTIONS[pick(8, 4)].0 * 16 + pick(19, 3) as u64,
        stack_id: [0, 1, 2, 3][pick(20, 4)],
        addr: data.address + 8 * pick(21, 24) as u64,
        phys_addr: 0,
        data_id: data.id,
        region: data.region,
        data_src: 0,
        // A budget changes periods within the range.
        period: match event_id {
            3 => 1,
            1 => 1_009,
            _ => [4_001, 1_009][usize::from(i > SAMPLES / 3)],
        },
        weight,
        ins_lat: 0,
        retire_lat: 0,
        latency_kind,
        page_shift: 12,
        page_node: [0, 1, 255][pick(22, 3)],
        op: if event_id == 2 { Op::Store } else { Op::Load },
        level: if software {
            Level::None
        } else {
            [Level::L1, Level::L3, Level::Ram][pick(9, 3)]
        },
        outcome: if software {
            Outcome::Unknown
        } else {
            [Outcome::Hit, Outcome::Miss][pick(10, 2)]
        },
        snoop: if software {
            Snoop::Unknown
        } else {
            Snoop::ALL[pick(11, 7)]
        },
        tlb: Tlb::ALL[pick(12, 7)],
        locked: u8::from(pick(13, 9) == 0),
        blocked: Blocked::ALL[pick(14, 5)],
        hw_locality: locality,
        page_locality: Locality::ALL[pick(15, 3)],
        locality,
        locality_basis: if locality == Locality::Unknown {
            LocalityBasis::None
        } else {
            LocalityBasis::Hw
        },
        mem_region: MemRegion::Unknown,
        suspect: Suspect::None,
        decoder_version: "0.1.0+taxonomy.1",
    }
}

/// All samples.
pub(crate) fn rows() -> impl Iterator<Item = SampleRow<'static>> {
    (0..SAMPLES).map(sample)
}

/// Name of a sample's function.
pub(crate) fn function(row: &SampleRow<'_>) -> &'static str {
    FUNCTIONS
        .iter()
        .find(|(id, _)| *id == row.function_id)
        .unwrap()
        .1
}

/// Fills every table.
pub(crate) async fn insert(store: &Store) {
    insert_samples(store, rows(), "all").await;
    for block in definitions().into_iter().chain(ledger()) {
        put(store, &block, "all").await;
    }
}

/// Fills the tables of samples and sums; `token` names the rows.
pub(crate) async fn insert_samples(
    store: &Store,
    rows: impl Iterator<Item = SampleRow<'static>>,
    token: &str,
) {
    let (mut samples, mut mix, mut fleet) =
        (Samples::default(), Mix1m::default(), Fleet1h::default());
    for row in rows {
        let mut sums = Sums::default();
        sums.add(&row);
        let seconds = u32::try_from(row.time / 1_000_000_000).unwrap();
        samples.push(&row);
        mix.push(&MixRow {
            time: seconds / 60 * 60,
            host: row.host,
            workload_id: row.workload_id,
            event_id: row.event_id,
            event: row.event,
            tier: row.tier,
            op: row.op,
            level: row.level,
            outcome: row.outcome,
            locality: row.locality,
            locality_basis: row.locality_basis,
            context: row.context,
            sums,
        });
        fleet.push(&FleetRow {
            time: seconds / 3_600 * 3_600,
            function_id: row.function_id,
            event_id: row.event_id,
            event: row.event,
            tier: row.tier,
            latency_kind: row.latency_kind,
            op: row.op,
            level: row.level,
            outcome: row.outcome,
            locality: row.locality,
            locality_basis: row.locality_basis,
            cpu_model: "model",
            sums,
            host_id: u64::try_from(HOSTS.iter().position(|host| *host == row.host).unwrap())
                .unwrap()
                + 1,
        });
    }
    let mut blocks = samples.finish();
    blocks.extend(mix.finish());
    blocks.extend(fleet.finish());
    for block in blocks {
        put(store, &block, token).await;
    }
}

fn definitions() -> Vec<NativeBlock> {
    let (mut functions, mut mappings) = (FunctionsDef::default(), Mappings::default());
    for (id, name) in &FUNCTIONS[..3] {
        // A worse name of the same function must not win.
        for (rank, name) in [(2, *name), (1, "worse")] {
            let (function_id, start, linkage_name) = (*id, *id * 16, "");
            functions.push(&FunctionRow {
                function_id,
                mapping_id: 5,
                start,
                name,
                linkage_name,
                rank,
                size: 0,
                source_file: "",
                source_line: 0,
                file_offset: 0,
                last_seen: BEGIN,
            });
        }
    }
    mappings.push(&MappingRow {
        mapping_id: 5,
        kind: "file",
        build_id: "00ff10",
        path: "/opt/shop/cart",
        module: "cart",
        last_seen: BEGIN,
    });
    let mut events = Events::default();
    for (event_id, name, tier, latency_kind, population) in EVENTS {
        events.push(&EventRow {
            event_id: *event_id,
            name,
            pmu: "cpu",
            tier: *tier,
            period_mode: "fixed",
            period: 1_009,
            threshold_cycles: 30,
            latency_kind: *latency_kind,
            population,
            cpu_model: "model",
            cpuid: "GenuineIntel,6,85,7",
            attr: "",
            last_seen: BEGIN,
        });
    }
    let mut workloads = Workloads::default();
    for (workload_id, pod) in WORKLOADS {
        workloads.push(&WorkloadRow {
            workload_id: *workload_id,
            namespace: "shop",
            pod,
            container: "app",
            service: "cart",
            cgroup_path: "/",
            cgroup_id: 1,
            last_seen: BEGIN,
        });
    }
    let mut data = DataDef::default();
    for known in DATA.iter().filter(|known| known.id != 0) {
        data.push(&DataRow {
            data_id: known.id,
            region: known.region,
            mapping_id: 5,
            name: known.name,
            last_seen: BEGIN,
        });
    }
    let (mut locations, mut stacks) = (Locations::default(), Stacks::default());
    for (function_id, _) in FUNCTIONS {
        for address in function_id * 16..function_id * 16 + 3 {
            locations.push(&LocationRow {
                location_id: address,
                mapping_id: 5,
                address,
                function_id: *function_id,
                last_seen: BEGIN,
            });
        }
    }
    for (stack_id, locations) in STACKS {
        stacks.push(&StackRow {
            stack_id: *stack_id,
            locations,
            last_seen: BEGIN,
        });
    }
    let mut blocks = functions.finish();
    blocks.extend(locations.finish());
    blocks.extend(stacks.finish());
    blocks.extend(data.finish());
    blocks.extend(mappings.finish());
    blocks.extend(events.finish());
    blocks.extend(workloads.finish());
    blocks
}

/// The ledger says of alpha: 100 more produced, 90 in a gap and 10 undecodable; of beta: 1.5 s blind. The host `idle`
/// sent batches two hours before the samples, `old` two days before.
fn ledger() -> Vec<NativeBlock> {
    let mut ledger = Ledger1m::default();
    let mut line = |time: u32,
                    host: &'static str,
                    event: usize,
                    reason: Reason,
                    records: u64,
                    seconds: f64| {
        let (event_id, event, tier, ..) = EVENTS[event];
        ledger.push(&LedgerRow {
            time,
            host,
            source_id: 77,
            event_id,
            event,
            tier: TierOrNone(Some(tier)),
            reason,
            records,
            seconds,
            last_batch: 1,
        });
    };
    for row in rows() {
        let time = u32::try_from(row.time / 1_000_000_000).unwrap() / 60 * 60;
        let event = usize::try_from(row.event_id).unwrap() - 1;
        line(time, row.host, event, Reason::Produced, 1, 0.0);
        line(time, row.host, event, Reason::Stored, 1, 0.0);
    }
    line(BEGIN, "alpha", 0, Reason::Produced, 100, 0.0);
    line(BEGIN, "alpha", 0, Reason::Gap, 90, 0.0);
    line(BEGIN, "alpha", 0, Reason::Undecodable, 10, 0.0);
    line(BEGIN, "alpha", 0, Reason::Lost, 7, 0.0);
    line(BEGIN, "alpha", 0, Reason::Residue, 9, 0.0);
    line(BEGIN, "alpha", 0, Reason::Refused, 5, 0.0);
    line(BEGIN, "alpha", 0, Reason::Unresolved, 3, 0.0);
    line(BEGIN, "alpha", 0, Reason::Nameless, 4, 0.0);
    line(BEGIN, "beta", 0, Reason::BlindSeconds, 0, 1.5);
    line(BEGIN - 7_200, "idle", 0, Reason::Batches, 5, 0.0);
    line(BEGIN - 2 * 86_400, "old", 0, Reason::Batches, 5, 0.0);
    let mut hosts = Hosts::default();
    for (age, host) in [
        (30 * 86_400, "alpha"),
        (3_600, "alpha"),
        (3_600, "facts-only"),
        (30 * 86_400, "long-gone"),
        // A file of it was imported: nobody waits for more.
        (3_601, "imported"),
    ] {
        hosts.push(&HostRow {
            time: BEGIN - age,
            host,
            host_id: 1,
            kind: if host == "imported" { "import" } else { "live" },
            arch: "x86_64",
            os_release: if age == 3_600 { "6.18" } else { "5.10" },
            cpu_vendor: "GenuineIntel",
            cpu_model: "model",
            cpuid: "",
            cpus: 8,
            nodes: 2,
            cpu_nodes: &[0, 0, 0, 0, 1, 1, 1, 1],
            remote_means: "package",
            virtualization: "",
            tiers: &["precise", "software"],
            capabilities: "{\"precise\":true}",
            facts_id: u64::from(age),
            version: "0.1.0",
        });
    }
    let mut blocks = ledger.finish();
    blocks.extend(hosts.finish());
    blocks
}

/// Inserts a block as a sink does; ingested now, so that nothing expires during the test.
pub(crate) async fn put(store: &Store, block: &NativeBlock, token: &str) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = u32::try_from(now.as_secs()).unwrap();
    let mut bytes = block.bytes.clone();
    if FACTS.contains(&block.table) {
        let added = [Constant::U16("part", 0), Constant::Seconds("ingested", now)];
        bytes = append_constants(&bytes, &added).unwrap();
    }
    let names: Vec<String> = walk(&bytes)
        .unwrap()
        .names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let token = format!("{token}/{}/{}", block.table, block.day);
    store
        .insert_native(block.table, &names, &token, bytes.into())
        .await
        .unwrap();
}

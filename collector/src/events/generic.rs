//! perf's generic names: software events, counters of every CPU, caches, raw numbers; with modifiers.

use memwide_model::{LatencyKind, Tier};
use memwide_perf_abi::{Attr, attr_kind, sample};

use super::kinds;
use super::spec::{Absent, BASE, EventSpec, base_attr};

/// Events between two samples of a hardware counter: some hundreds a second on a busy core. Prime.
const HARDWARE_PERIOD: u64 = 100_003;
/// Cycles and instructions come some billions a second.
const CYCLES_PERIOD: u64 = 10_000_019;

/// `perf_sw_ids`, with perf's names and their short forms.
const SOFTWARE: &[(&str, u64)] = &[
    ("cpu-clock", 0),
    ("task-clock", 1),
    ("page-faults", 2),
    ("faults", 2),
    ("context-switches", 3),
    ("cs", 3),
    ("cpu-migrations", 4),
    ("migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
    ("dummy", 9),
    ("bpf-output", 10),
    ("cgroup-switches", 11),
];

/// Those of them that come with a data address: faults. They fire before the fault is handled, so there is no page yet.
const ADDRESSED: [u64; 2] = [2, 7];

/// `perf_hw_id`.
const HARDWARE: &[(&str, u64)] = &[
    ("cycles", 0),
    ("cpu-cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branches", 4),
    ("branch-instructions", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("idle-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("idle-cycles-backend", 8),
    ("ref-cycles", 9),
];

/// `perf_hw_cache_id`.
const CACHES: &[(&str, u64)] = &[
    ("l1-dcache", 0),
    ("l1d", 0),
    ("l1-icache", 1),
    ("l1i", 1),
    ("llc", 2),
    ("dtlb", 3),
    ("itlb", 4),
    ("branch", 5),
    ("node", 6),
];

/// Behind the cache's name: `perf_hw_cache_op_id` in the second byte, `perf_hw_cache_op_result_id` in the third.
const CACHE_OPS: &[(&str, u64)] = &[
    ("loads", 0),
    ("load-misses", 0x1_0000),
    ("stores", 0x100),
    ("store-misses", 0x1_0100),
    ("prefetches", 0x200),
    ("prefetch-misses", 0x1_0200),
];

/// The event of this name, with perf's modifiers behind a colon; `None`: it is no generic name.
pub(crate) fn generic(name: &str) -> Option<Result<EventSpec, Absent>> {
    let (bare, modifiers) = match find(name) {
        Some(_) => (name, ""),
        None => name.rsplit_once(':')?,
    };
    let (kind, config) = find(bare)?;
    let tier = if kind == attr_kind::SOFTWARE {
        Tier::Software
    } else {
        Tier::Event
    };
    if let Some(letter) = modifiers
        .chars()
        .find(|letter| !"ukhHGpPIDW".contains(*letter))
    {
        let reason = format!("`{letter}` is no modifier");
        let remedy = "u counts user mode, k the kernel, h a hypervisor";
        return Some(Err(Absent::misread(tier, reason, remedy)));
    }
    let has_address = kind == attr_kind::SOFTWARE && ADDRESSED.contains(&config);
    let address = if has_address { sample::ADDR } else { 0 };
    let mut attr = base_attr(kind, config, BASE | address);
    exclude(&mut attr, modifiers);
    attr.sample_period = match (kind, config) {
        _ if attr.is_clock() => kinds::clock_period(kinds::CLOCK_FREQ),
        (attr_kind::SOFTWARE, _) => 1,
        (attr_kind::HARDWARE, 0 | 1 | 9) => CYCLES_PERIOD,
        _ => HARDWARE_PERIOD,
    };
    Some(Ok(EventSpec {
        name: name.to_owned(),
        pmu: if tier == Tier::Software {
            "software"
        } else {
            "cpu"
        }
        .to_owned(),
        tier,
        attr,
        population: bare.to_owned(),
        latency_kind: LatencyKind::None,
        threshold_cycles: 0,
        format: String::new(),
        filter: String::new(),
        countable: false,
        leader: None,
        cpus: None,
    }))
}

fn find(name: &str) -> Option<(u32, u64)> {
    let lower = name.to_ascii_lowercase();
    let number = |table: &[(&str, u64)]| {
        let found = table.iter().find(|(known, _)| *known == lower);
        found.map(|(_, config)| *config)
    };
    number(SOFTWARE)
        .map(|config| (attr_kind::SOFTWARE, config))
        .or_else(|| Some((attr_kind::HARDWARE, number(HARDWARE)?)))
        .or_else(|| Some((attr_kind::HW_CACHE, cache(&lower)?)))
        .or_else(|| Some((attr_kind::RAW, raw(&lower)?)))
}

/// All names without numbers in them, as perf writes them.
pub(super) fn known_names() -> impl Iterator<Item = String> {
    let plain = SOFTWARE.iter().chain(HARDWARE);
    let caches = CACHES.iter().flat_map(|(cache, _)| {
        let shown = match *cache {
            "l1-dcache" => "L1-dcache",
            "l1-icache" => "L1-icache",
            "llc" => "LLC",
            "dtlb" => "dTLB",
            "itlb" => "iTLB",
            other => other,
        };
        CACHE_OPS.iter().map(move |(op, _)| format!("{shown}-{op}"))
    });
    plain.map(|(name, _)| (*name).to_owned()).chain(caches)
}

/// `L1-dcache-load-misses`: the cache and what is done to it.
fn cache(name: &str) -> Option<u64> {
    let of = |(cache, number): &(&str, u64)| {
        let op = name.strip_prefix(cache)?.strip_prefix('-')?;
        let (_, bits) = CACHE_OPS.iter().find(|(known, _)| *known == op)?;
        Some(number | bits)
    };
    CACHES.iter().find_map(of)
}

/// `r1cd`: the PMU's own number.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    u64::from_str_radix(digits, 16).ok()
}

/// Modes named are counted, the others not; none named: all.
pub(crate) fn exclude(attr: &mut Attr, modifiers: &str) {
    if !modifiers.contains(['u', 'k', 'h']) {
        return;
    }
    attr.flags = attr
        .flags
        .with_exclude_user(!modifiers.contains('u'))
        .with_exclude_kernel(!modifiers.contains('k'))
        .with_exclude_hv(!modifiers.contains('h'));
}

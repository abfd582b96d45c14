//! From the name of an event to what counts it: perf's generic names, raw events, and whatever can be recorded.

use memwide_model::Tier;
use memwide_perf_abi::{Attr, attr_kind};

use crate::config::EventConfig;
use crate::events::machine::Machine;
use crate::events::{Absent, base_attr, resolve};

/// What counts an event.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) attr: Attr,
    pub(super) tier: Tier,
    pub(super) is_time: bool,
}

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

/// Software events up to this one count nanoseconds.
const LAST_CLOCK: u64 = 1;

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

/// The names of a list: commas between slashes belong to a name.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let mut slashes = 0;
    let parts = list.split(|letter| {
        slashes += usize::from(letter == '/');
        // A breakpoint has one slash only.
        letter == ',' && (slashes % 2 == 0 || list.starts_with("mem:"))
    });
    parts.filter(|name| !name.is_empty()).collect()
}

/// Finds the event on this machine.
pub(super) fn find(name: &str, machine: &Machine) -> Result<Named, Absent> {
    if name.contains(['{', '}']) {
        let remedy = "name the events without braces; multiplexing is shown beside each";
        let reason = "groups of events are not counted as groups";
        return Err(Absent::new(Tier::Event, reason, remedy));
    }
    if let Some(found) = generic(name, "") {
        return Ok(found);
    }
    if let Some((bare, modifiers)) = name.rsplit_once(':')
        && let Some(found) = generic(bare, modifiers)
    {
        return match modifiers
            .chars()
            .find(|letter| !"ukhHGpPIDW".contains(*letter))
        {
            None => Ok(found),
            Some(letter) => Err(Absent::new(
                found.tier,
                format!("`{letter}` is no modifier"),
                "u counts user mode, k the kernel, h a hypervisor",
            )),
        };
    }
    let mut spec = resolve(&EventConfig::named(name), 0, machine)?;
    // Events of a PMU may have modifiers behind their second slash.
    if let Some((_, modifiers)) = name.rsplit_once('/')
        && !name.starts_with("mem:")
    {
        exclude(&mut spec.attr, modifiers);
    }
    Ok(Named {
        attr: spec.attr,
        tier: if spec.tier == Tier::Precise {
            Tier::Event
        } else {
            spec.tier
        },
        is_time: false,
    })
}

/// A generic or raw event with modifiers.
fn generic(name: &str, modifiers: &str) -> Option<Named> {
    let lower = name.to_ascii_lowercase();
    let number = |table: &[(&str, u64)]| {
        let found = table.iter().find(|(known, _)| *known == lower);
        found.map(|(_, config)| *config)
    };
    let (kind, config) = number(SOFTWARE)
        .map(|config| (attr_kind::SOFTWARE, config))
        .or_else(|| Some((attr_kind::HARDWARE, number(HARDWARE)?)))
        .or_else(|| Some((attr_kind::HW_CACHE, cache(&lower)?)))
        .or_else(|| Some((attr_kind::RAW, raw(&lower)?)))?;
    let mut attr = base_attr(kind, config, 0);
    exclude(&mut attr, modifiers);
    let is_software = kind == attr_kind::SOFTWARE;
    Some(Named {
        attr,
        tier: if is_software {
            Tier::Software
        } else {
            Tier::Event
        },
        is_time: is_software && config <= LAST_CLOCK,
    })
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
fn exclude(attr: &mut Attr, modifiers: &str) {
    if !modifiers.contains(['u', 'k', 'h']) {
        return;
    }
    attr.flags = attr
        .flags
        .with_exclude_user(!modifiers.contains('u'))
        .with_exclude_kernel(!modifiers.contains('k'))
        .with_exclude_hv(!modifiers.contains('h'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs() {
        let rows = [
            ("page-faults", 1, 2),
            ("faults", 1, 2),
            ("major-faults", 1, 6),
            ("cycles", 0, 0),
            ("cache-misses", 0, 3),
            ("L1-dcache-loads", 3, 0),
            ("L1-dcache-load-misses", 3, 0x1_0000),
            ("LLC-load-misses", 3, 0x1_0002),
            ("dTLB-store-misses", 3, 0x1_0103),
            ("node-loads", 3, 6),
            ("node-prefetch-misses", 3, 0x1_0206),
            ("r1cd", 4, 0x1cd),
        ];
        for (name, kind, config) in rows {
            let attr = find(name, &Machine::default()).unwrap().attr;
            assert_eq!((attr.kind, attr.config), (kind, config), "{name}");
        }
    }

    #[test]
    fn modifiers_say_which_modes_count() {
        let flags = |name: &str| find(name, &Machine::default()).unwrap().attr.flags;
        let user = flags("minor-faults:u");
        assert!(user.exclude_kernel() && user.exclude_hv() && !user.exclude_user());
        let kernel = flags("L1-dcache-loads:k");
        assert!(kernel.exclude_user() && !kernel.exclude_kernel());
        assert!(!flags("cycles").exclude_kernel());
        let wrong = find("cycles:x", &Machine::default()).unwrap_err();
        assert!(wrong.reason.contains("`x`"), "{}", wrong.reason);
    }

    #[test]
    fn lists_are_split_at_commas_between_names() {
        let rows: [(&str, &[&str]); 4] = [
            ("a,b", &["a", "b"]),
            (
                "cpu/mem-loads,ldlat=30/P,a",
                &["cpu/mem-loads,ldlat=30/P", "a"],
            ),
            ("mem:0x10/4:w,a", &["mem:0x10/4:w", "a"]),
            ("", &[]),
        ];
        for (list, names) in rows {
            assert_eq!(split(list), names, "{list}");
        }
    }
}

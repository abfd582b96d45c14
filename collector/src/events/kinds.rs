//! Software events, tracepoints, hardware breakpoints.

use std::fs;
use std::path::{Path, PathBuf};

use memwide_model::{LatencyKind, Tier};
use memwide_perf_abi::{attr_kind, sample};

use super::generic::exclude;
use super::machine::Machine;
use super::spec::{Absent, BASE, EventSpec, base_attr};
use crate::governor::is_prime;

/// `perf_event_attr.config` of software events.
const CPU_CLOCK: u64 = 0;
const MINOR_FAULTS: u64 = 5;
const MAJOR_FAULTS: u64 = 6;
/// Those that every fault in memory without a file is.
pub(super) const FAULTS: [u64; 2] = [2, MINOR_FAULTS];

/// Period of minor faults; see the default events in the configuration.
const MINOR_PERIOD: u64 = 19;
/// Samples a second of the clock, unless told otherwise: not a divisor of what timers beat at.
pub(super) const CLOCK_FREQ: u64 = 99;

/// Most tracepoints looked through for one like a misspelt name; kernels have some thousands.
const TRACEPOINTS_MAX: usize = 1 << 14;

/// Fields of a data address. `minor-faults` and `major-faults` fire after the fault is handled, so both are real
/// (those of `page-faults` are 0).
const ADDRESS: u64 = sample::ADDR | sample::PHYS_ADDR | sample::DATA_PAGE_SIZE;

fn spec(name: &str, pmu: &str, population: &str) -> EventSpec {
    EventSpec {
        name: name.to_owned(),
        pmu: pmu.to_owned(),
        tier: Tier::Software,
        attr: base_attr(attr_kind::SOFTWARE, 0, BASE),
        population: population.to_owned(),
        latency_kind: LatencyKind::None,
        threshold_cycles: 0,
        format: String::new(),
        filter: String::new(),
        countable: true,
        leader: None,
        cpus: None,
    }
}

/// The event of this name, with its default period; behind a colon the modes it is of (`minor-faults:u`).
pub(super) fn software(name: &str) -> Option<EventSpec> {
    let (bare, modes) = name.rsplit_once(':').unwrap_or((name, ""));
    if modes.chars().any(|letter| !"ukh".contains(letter)) {
        return None;
    }
    let (config, period, fields, population) = match bare {
        "minor-faults" => (MINOR_FAULTS, MINOR_PERIOD, ADDRESS, "minor page faults"),
        "major-faults" => (MAJOR_FAULTS, 1, ADDRESS, "major page faults"),
        "cpu-clock" => (CPU_CLOCK, clock_period(CLOCK_FREQ), 0, "ns of CPU time"),
        _ => return None,
    };
    let mut spec = spec(name, "software", population);
    spec.attr.config = config;
    spec.attr.sample_period = period;
    spec.attr.sample_type |= fields;
    exclude(&mut spec.attr, modes);
    if config == CPU_CLOCK {
        // Idle CPUs say nothing about memory; a timer may skip beats, so its count says nothing about samples.
        spec.attr.flags = spec.attr.flags.with_exclude_idle(true);
        spec.countable = false;
    }
    Some(spec)
}

/// Between two primes below 2^32 lies less than this.
const PRIME_GAP: u64 = 400;

/// The first prime number of nanoseconds from a second's share on: beats with nothing.
pub(super) fn clock_period(freq: u64) -> u64 {
    let share = 1_000_000_000 / freq.clamp(1, 100_000);
    (share..share + PRIME_GAP)
        .find(|&n| is_prime(n))
        .unwrap_or(share)
}

/// `SYSTEM:NAME`, each hit a sample.
pub(super) fn tracepoint(
    name: &str,
    system: &str,
    tracepoint: &str,
    machine: &Machine,
) -> Result<EventSpec, Absent> {
    let absent = |reason: String, remedy: &str| Absent::new(Tier::Software, reason, remedy);
    if [system, tracepoint]
        .iter()
        .any(|part| part.is_empty() || part.contains(['/', '.']))
    {
        let remedy = "write it as SYSTEM:NAME";
        return Err(absent("this is no name of a tracepoint".to_owned(), remedy));
    }
    let tracing = tracing(machine)?;
    let folder = tracing.join("events").join(system).join(tracepoint);
    let read = |file: &str| {
        fs::read_to_string(folder.join(file)).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => absent(
                format!("{} may not be read", tracing.display()),
                "run as root, or let your group read the tracing file system",
            ),
            _ => Absent::misspelt(
                Tier::Software,
                "this kernel has no such tracepoint",
                "list those of this kernel: ls /sys/kernel/tracing/events/*",
                name.split(':')
                    .take(2)
                    .collect::<Vec<_>>()
                    .join(":")
                    .as_str(),
                tracepoints(&tracing),
            ),
        })
    };
    let id = read("id")?
        .trim()
        .parse()
        .map_err(|_| absent("its id cannot be read".to_owned(), "mount tracefs again"))?;
    let mut spec = spec(name, "tracepoint", &format!("hits of {name}"));
    spec.attr.kind = attr_kind::TRACEPOINT;
    spec.attr.config = id;
    spec.attr.sample_period = 1;
    spec.attr.sample_type |= sample::RAW;
    spec.format = read("format")?;
    Ok(spec)
}

/// All tracepoints of the kernel, `SYSTEM:NAME`.
fn tracepoints(tracing: &Path) -> Vec<String> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.collect::<Vec<_>>()
    };
    let events = tracing.join("events");
    let systems = names(&events).into_iter();
    systems
        .flat_map(|system| {
            let inside = names(&events.join(&system)).into_iter();
            let full = inside.map(move |name| format!("{system}:{name}"));
            full.collect::<Vec<_>>()
        })
        .take(TRACEPOINTS_MAX)
        .collect()
}

/// Where tracepoints are described.
pub(super) fn tracing(machine: &Machine) -> Result<PathBuf, Absent> {
    machine.tracing().ok_or_else(|| {
        let folder = fs::read_dir(machine.sys.join("kernel/tracing"));
        let (reason, remedy) =
            if folder.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
                (
                    "the tracing file system may not be read",
                    "run as root, or let your group read the tracing file system",
                )
            } else {
                (
                    "the tracing file system is not mounted",
                    "mount it: mount -t tracefs none /sys/kernel/tracing",
                )
            };
        Absent::new(Tier::Software, reason, remedy)
    })
}

/// `mem:0xADDR[/LEN][:rwx]`, each access a sample. `rest` is what follows `mem:`.
pub(super) fn breakpoint(name: &str, rest: &str) -> Result<EventSpec, Absent> {
    let absent = |reason: &str| {
        Absent::misread(
            Tier::Software,
            reason,
            "write it as mem:0xADDR/LEN:rw with LEN 1, 2, 4 or 8",
        )
    };
    let (place, access) = rest.split_once(':').unwrap_or((rest, "rw"));
    let (address, len) = match place.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (place, None),
    };
    let address = address
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .or_else(|| address.parse().ok())
        .ok_or_else(|| absent("its address is no number"))?;
    let mut kind = 0;
    for letter in access.chars() {
        kind |= match letter {
            'r' => 1,
            'w' => 2,
            'x' => 4,
            _ => return Err(absent("its access is not made of r, w and x")),
        };
    }
    if kind == 0 || (kind & 4 != 0 && kind != 4) {
        return Err(absent("x does not go with r or w"));
    }
    let len = match len {
        Some(len) => len.parse().ok().filter(|len| matches!(len, 1 | 2 | 4 | 8)),
        None if kind == 4 => Some(8),
        None => Some(4),
    };
    let mut spec = spec(name, "breakpoint", "accesses");
    spec.attr.kind = attr_kind::BREAKPOINT;
    spec.attr.bp_type = kind;
    spec.attr.config1 = address;
    spec.attr.config2 = len.ok_or_else(|| absent("its length is not 1, 2, 4 or 8"))?;
    spec.attr.sample_period = 1;
    spec.attr.sample_type |= sample::ADDR;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_periods_are_primes_at_the_frequency() {
        let period = clock_period(99);
        assert!(
            is_prime(period) && (10_101_010..10_101_400).contains(&period),
            "{period}"
        );
        assert!(is_prime(19) && !is_prime(1) && !is_prime(21));
    }

    #[test]
    fn a_breakpoint_says_where_how_long_and_what() {
        let spec = breakpoint("mem:0x1000/8:w", "0x1000/8:w").unwrap();
        let attr = &spec.attr;
        assert_eq!(
            (attr.kind, attr.config1, attr.config2, attr.bp_type),
            (5, 0x1000, 8, 2)
        );
        let spec = breakpoint("mem:4096", "4096").unwrap();
        assert_eq!(
            (spec.attr.config1, spec.attr.config2, spec.attr.bp_type),
            (4096, 4, 3)
        );
        for wrong in ["zzz", "0x10/3", "0x10:q", "0x10:rx", "0x10:", "0xg/4:r"] {
            assert!(breakpoint("mem:", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tracepoint_is_read_where_tracing_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            sys: folder.path().to_owned(),
            proc: folder.path().to_owned(),
        };
        let open = || tracepoint("kmem:kmalloc", "kmem", "kmalloc", &machine);
        assert!(open().unwrap_err().remedy.contains("mount"));
        let events = folder.path().join("kernel/tracing/events/kmem/kmalloc");
        std::fs::create_dir_all(&events).unwrap();
        assert!(open().unwrap_err().reason.contains("no such tracepoint"));
        std::fs::write(events.join("id"), "512\n").unwrap();
        std::fs::write(events.join("format"), "name: kmalloc\n").unwrap();
        let spec = open().unwrap();
        assert_eq!((spec.attr.kind, spec.attr.config), (2, 512));
        assert_eq!(spec.format, "name: kmalloc\n");
        assert!(tracepoint("x:../y", "x", "../y", &machine).is_err());
    }
}

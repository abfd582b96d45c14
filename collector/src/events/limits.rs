//! What limits a collector here, found before anything is opened: rights, settings, memory, descriptors.
//!
//! Each row names one thing that a person can switch; nothing here stops the collector.

use std::io;

use memwide_proto::v1::Capability;

use super::capability::{explain, note};
use super::machine::Machine;
use super::rights::{Cap, Rights};
use crate::config::RingConfig;

/// Descriptors for files, the spool, connections.
pub(super) const SPARE: u64 = 64;
/// `fs.nr_open` where it cannot be read: the kernel's own value.
const FILES_OF_KERNEL: u64 = 1 << 20;

/// What a collector with its configuration takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) descriptors: u64,
    /// Bytes of rings on all CPUs.
    pub(crate) ring_bytes: u64,
    /// Bytes of a ring of samples that can be locked.
    pub(crate) sample_ring_bytes: u64,
}

/// All rows, those of what is fine included: a missing row would say nothing.
pub(crate) fn limits(need: Need, machine: &Machine) -> Vec<Capability> {
    let rights = Rights::read(machine);
    vec![
        all_processes(&rights, machine),
        descriptors(need, &rights, machine),
        locked_memory(need, &rights, machine),
        tracepoints(machine),
        counters(machine),
        sample_rate(machine),
        pressure(machine),
    ]
}

fn no(name: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Capability {
    Capability {
        available: false,
        remedy: remedy.into(),
        ..note(name, reason, "")
    }
}

/// Events of all processes on a CPU: what the kernel said when they were opened. Settings and rights only explain a refusal, for
/// they do not tell what a kernel, a filter or a mask over `/proc` makes of them.
pub(super) fn all_processes_events(
    opened: Result<(), &io::Error>,
    machine: &Machine,
) -> Capability {
    const NAME: &str = "all-processes-events";
    if let Err(error) = opened {
        let (reason, remedy) = explain(error, machine);
        return no(NAME, reason, remedy);
    }
    let rights = Rights::read(machine);
    if rights.paranoid == Some(0) && !rights.has(Cap::Perfmon) && !rights.has(Cap::SysAdmin) {
        return note(
            NAME,
            "kernel.perf_event_paranoid is 0: without tracepoints",
            "run as root, or give the process CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)",
        );
    }
    note(NAME, "", "")
}

/// Names and mappings of processes that run already.
fn all_processes(rights: &Rights, machine: &Machine) -> Capability {
    const NAME: &str = "all-processes-names";
    if !rights.in_first_pid {
        return no(
            NAME,
            "in a PID namespace /proc shows the container's own processes; the others' samples have numbers without names",
            "hostPID: true, or --pid=host",
        );
    }
    let mounts = machine.proc_text("self/mounts").unwrap_or_default();
    let hides = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/proc")
            && line.split([' ', ',']).any(|option| {
                let value = option.strip_prefix("hidepid=");
                value.is_some_and(|value| !matches!(value, "0" | "off"))
            })
    });
    if hides && !rights.has(Cap::SysPtrace) {
        return no(
            NAME,
            "/proc is mounted with hidepid",
            "give the process CAP_SYS_PTRACE, or mount /proc without hidepid",
        );
    }
    if rights.has(Cap::SysPtrace) && rights.has(Cap::DacReadSearch) {
        return note(NAME, "", "");
    }
    no(
        NAME,
        "mappings of other users' processes may not be read",
        "give the process CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
    )
}

fn descriptors(need: Need, rights: &Rights, machine: &Machine) -> Capability {
    const NAME: &str = "descriptors";
    let wanted = need.descriptors + SPARE;
    let allowed = files_allowed(rights, machine);
    if allowed.is_none_or(|allowed| allowed >= wanted) {
        return note(NAME, "", "");
    }
    let allowed = allowed.unwrap_or(0);
    no(
        NAME,
        format!("{wanted} are needed and {allowed} allowed: the last events are left out"),
        more_files(wanted),
    )
}

/// What gives so many descriptors.
pub(super) fn more_files(wanted: u64) -> String {
    format!("LimitNOFILE={wanted} (ulimit -n {wanted}), or give the process CAP_SYS_RESOURCE")
}

/// Descriptors this process may have, its limit raised as far as it may; `None`: not told.
pub(super) fn files_allowed(rights: &Rights, machine: &Machine) -> Option<u64> {
    let own = limit("Max open files", machine);
    if rights.has(Cap::SysResource) {
        let most = machine.proc_text("sys/fs/nr_open");
        let most = most.and_then(|text| text.parse().ok());
        return own.map(|own| own.max(most.unwrap_or(FILES_OF_KERNEL)));
    }
    own
}

/// Bytes of rings that may be locked on all CPUs together; `None`: any number.
fn locked_allowed(rights: &Rights, machine: &Machine) -> Option<u64> {
    if rights.has(Cap::IpcLock) || rights.paranoid.is_some_and(|level| level < 0) {
        return None;
    }
    let kib = machine.setting("perf_event_mlock_kb").unwrap_or(516);
    let cpus = machine.online_cpus().len() as u64;
    let perf = u64::try_from(kib).unwrap_or(0).saturating_mul(1024 * cpus);
    limit("Max locked memory", machine).map(|own| own.saturating_add(perf))
}

/// Rings that can be locked: those of all CPUs are halved alike until they fit. Else the first CPUs would have all there is, and
/// the last none.
pub(super) fn fitting(
    mut sizes: RingConfig,
    bytes_of: impl Fn(&RingConfig) -> u64,
    machine: &Machine,
) -> RingConfig {
    let Some(allowed) = locked_allowed(&Rights::read(machine), machine) else {
        return sizes;
    };
    let page = Machine::page_size() as u64;
    while bytes_of(&sizes) > allowed {
        let smaller = RingConfig {
            sample_bytes: (sizes.sample_bytes / 2).max(page),
            side_band_bytes: (sizes.side_band_bytes / 2).max(page),
            ..sizes.clone()
        };
        if smaller == sizes {
            break;
        }
        sizes = smaller;
    }
    sizes
}

fn locked_memory(need: Need, rights: &Rights, machine: &Machine) -> Capability {
    const NAME: &str = "locked-memory";
    let allowed = locked_allowed(rights, machine);
    if allowed.is_none_or(|allowed| allowed >= need.ring_bytes) {
        return note(NAME, "", "");
    }
    let cpus = machine.online_cpus().len() as u64;
    let kib = need.ring_bytes.div_ceil(1024 * cpus.max(1));
    no(
        NAME,
        format!(
            "rings want {} bytes and {} may be locked: each of samples has {} and loses more in bursts",
            need.ring_bytes,
            allowed.unwrap_or(0),
            need.sample_ring_bytes
        ),
        format!("give the process CAP_IPC_LOCK, or sysctl kernel.perf_event_mlock_kb={kib}"),
    )
}

/// The hard limit of this process; `None`: unlimited or not told.
fn limit(name: &str, machine: &Machine) -> Option<u64> {
    let limits = machine.proc_text("self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn tracepoints(machine: &Machine) -> Capability {
    const NAME: &str = "tracepoints";
    match super::kinds::tracing(machine) {
        Ok(_) => note(NAME, "", ""),
        Err(why) => no(NAME, why.reason, why.remedy),
    }
}

fn counters(machine: &Machine) -> Capability {
    const NAME: &str = "hardware-counters";
    let has_any = machine.pmu_names().iter().any(|name| {
        name.starts_with("cpu") || name.starts_with("armv8") || name.starts_with("armv9")
    });
    if has_any && machine.setting("nmi_watchdog") == Some(1) {
        return note(
            NAME,
            "the NMI watchdog holds one of them on each CPU: events take turns earlier",
            "sysctl kernel.nmi_watchdog=0",
        );
    }
    note(NAME, "", "")
}

fn sample_rate(machine: &Machine) -> Capability {
    /// The kernel's own value at boot.
    const AT_BOOT: i64 = 100_000;
    const NAME: &str = "sample-rate";
    match machine.setting("perf_event_max_sample_rate") {
        Some(rate) if rate < AT_BOOT => note(
            NAME,
            format!(
                "kernel.perf_event_max_sample_rate is {rate} a second and CPU: the kernel lowered it because interrupts took long, or somebody did"
            ),
            "sysctl kernel.perf_event_max_sample_rate=100000",
        ),
        _ => note(NAME, "", ""),
    }
}

fn pressure(machine: &Machine) -> Capability {
    const NAME: &str = "memory-pressure";
    if machine
        .proc_text("pressure/memory")
        .is_some_and(|text| !text.is_empty())
    {
        return note(NAME, "", "");
    }
    // A kernel without it has no such folder.
    if machine.proc.join("pressure").exists() {
        return no(
            NAME,
            "/proc/pressure is hidden from this process, as container engines do",
            "show it: procMount: Unmasked, --security-opt unmask=/proc/pressure (Podman) or systempaths=unconfined (Docker)",
        );
    }
    no(
        NAME,
        "the kernel measures no pressure stall information",
        "boot with psi=1 (CONFIG_PSI, Linux 4.20 or newer)",
    )
}

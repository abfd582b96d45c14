//! What a machine can and cannot collect, for people: the reason and the remedy.

use std::io;

use memwide_model::Tier;
use memwide_proto::v1::Capability;

use super::ladder::Shed;
use super::machine::Machine;
use super::rights::{Cap, Rights};
use super::spec::Absent;

/// It works; `missing` is what it has to do without.
pub(crate) fn works(name: &str, tier: Option<Tier>, missing: &[Shed]) -> Capability {
    let list = |part: fn(&Shed) -> &'static str| {
        let parts: Vec<_> = missing
            .iter()
            .map(part)
            .filter(|text| !text.is_empty())
            .collect();
        parts.join(", ")
    };
    let without = list(|shed| shed.what);
    Capability {
        name: name.to_owned(),
        tier: tier.map_or("", Tier::name).to_owned(),
        available: true,
        reason: if without.is_empty() {
            without
        } else {
            format!("without {without}")
        },
        remedy: list(|shed| shed.remedy),
    }
}

/// Something worth knowing that stops nothing.
pub(crate) fn note(name: &str, reason: impl Into<String>, remedy: &str) -> Capability {
    Capability {
        name: name.to_owned(),
        tier: String::new(),
        available: true,
        reason: reason.into(),
        remedy: remedy.to_owned(),
    }
}

/// The event is not there.
pub(crate) fn absent(name: &str, why: &Absent) -> Capability {
    Capability {
        name: name.to_owned(),
        tier: why.tier.name().to_owned(),
        available: false,
        reason: why.reason.clone(),
        remedy: why.remedy.clone(),
    }
}

/// The kernel refused to open it.
pub(crate) fn refused(
    name: &str,
    tier: Option<Tier>,
    error: &io::Error,
    machine: &Machine,
) -> Capability {
    let (reason, remedy) = explain(error, machine);
    Capability {
        name: name.to_owned(),
        tier: tier.map_or("", Tier::name).to_owned(),
        available: false,
        reason,
        remedy: remedy.to_owned(),
    }
}

/// What an error of `perf_event_open` or of mapping a ring means, and what to do.
pub(crate) fn explain(error: &io::Error, machine: &Machine) -> (String, &'static str) {
    match error.raw_os_error() {
        Some(code @ (libc::EACCES | libc::EPERM)) => not_permitted(code, machine),
        Some(libc::EMFILE | libc::ENFILE) => (
            "too many open files: an event needs a descriptor on each CPU".to_owned(),
            "raise the limit of open files (ulimit -n, LimitNOFILE=)",
        ),
        Some(libc::ENOMEM) => (
            "no memory for the ring".to_owned(),
            "lower rings.sample_bytes, raise ulimit -l, or give the process CAP_IPC_LOCK",
        ),
        Some(libc::ENOENT) => ("this CPU or kernel does not know the event".to_owned(), ""),
        Some(libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => (
            "this machine has no counter that can sample it".to_owned(),
            "",
        ),
        Some(libc::ENODATA) => (
            "load latency needs its auxiliary event, which this kernel does not offer".to_owned(),
            "Linux 5.12 or newer",
        ),
        Some(libc::EBUSY) => (
            "the counter is in use by somebody else".to_owned(),
            "stop other profilers, and sysctl kernel.nmi_watchdog=0",
        ),
        Some(libc::ENOSPC) => (
            "all hardware breakpoints are in use".to_owned(),
            "stop debuggers, or ask for fewer breakpoints",
        ),
        Some(libc::ENOSYS) if Rights::read(machine).filtered => seccomp(),
        Some(libc::ENOSYS) => (
            "this kernel is built without perf events".to_owned(),
            "boot a kernel with CONFIG_PERF_EVENTS",
        ),
        _ => (format!("the kernel refuses it: {error}"), ""),
    }
}

/// Refusals by level of paranoia are `EACCES`, those of filters and of lockdown `EPERM`.
fn not_permitted(code: i32, machine: &Machine) -> (String, &'static str) {
    let rights = Rights::read(machine);
    if code == libc::EPERM && rights.locked_down {
        return (
            "the kernel is locked down to confidentiality".to_owned(),
            "boot with lockdown=integrity",
        );
    }
    if code == libc::EPERM && rights.filtered {
        return seccomp();
    }
    let level = rights.paranoid;
    let level = level.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
    let reason = format!("not permitted (kernel.perf_event_paranoid is {level})");
    if rights.has(Cap::Perfmon) && rights.ignores_perfmon() {
        return (
            reason + ": kernels of distributions with such a level ignore CAP_PERFMON",
            "sysctl kernel.perf_event_paranoid=2, or give the process CAP_SYS_ADMIN",
        );
    }
    if !rights.in_first_user {
        return (
            reason + ": in a user namespace no capability counts for perf events",
            "run in the host's user namespace (no rootless container, hostUsers: true)",
        );
    }
    (
        reason,
        "run as root, give the process CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or lower",
    )
}

fn seccomp() -> (String, &'static str) {
    (
        "a seccomp filter refuses perf_event_open".to_owned(),
        "allow perf_event_open in the container's seccomp profile (seccompProfile: Unconfined, or a profile of your own)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_name_the_setting_and_the_capability() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sys/kernel")).unwrap();
        std::fs::write(folder.path().join("sys/kernel/perf_event_paranoid"), "2\n").unwrap();
        let machine = Machine {
            proc: folder.path().to_owned(),
            ..Machine::default()
        };
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let said = refused("minor-faults", Some(Tier::Software), &error, &machine);
        assert!(
            said.reason.contains("perf_event_paranoid is 2"),
            "{}",
            said.reason
        );
        assert!(said.remedy.contains("CAP_PERFMON"), "{}", said.remedy);
        assert!(!said.available);
    }

    #[test]
    fn what_is_done_without_is_named_with_its_remedy() {
        let missing: Vec<Shed> = super::super::ladder::SHEDS
            .iter()
            .copied()
            .filter(|shed| shed.what.contains("physical"))
            .collect();
        let said = works("minor-faults", Some(Tier::Software), &missing);
        assert!(said.available && said.reason.starts_with("without physical addresses"));
        assert!(said.remedy.contains("CAP_PERFMON"));
    }
}

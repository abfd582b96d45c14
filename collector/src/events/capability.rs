//! What a machine can and cannot collect, for people: the reason and the remedy.

use std::io;

use memwide_model::Tier;
use memwide_proto::v1::Capability;

use super::ladder::Shed;
use super::machine::Machine;
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
        Some(libc::EACCES | libc::EPERM) => {
            let level = machine.setting("perf_event_paranoid");
            let level = level.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
            (
                format!("not permitted (kernel.perf_event_paranoid is {level})"),
                "run as root, give the process CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or lower",
            )
        }
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
            "stop other profilers, or kernel.nmi_watchdog",
        ),
        Some(libc::ENOSPC) => (
            "all hardware breakpoints are in use".to_owned(),
            "stop debuggers, or ask for fewer breakpoints",
        ),
        Some(libc::ENOSYS) => (
            "this kernel is built without perf events".to_owned(),
            "boot a kernel with CONFIG_PERF_EVENTS",
        ),
        _ => (format!("the kernel refuses it: {error}"), ""),
    }
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

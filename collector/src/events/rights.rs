//! What this process may do, and what stands in its way.

use std::fs;

use super::machine::Machine;

/// Capabilities by their numbers (`linux/capability.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cap {
    DacReadSearch = 2,
    IpcLock = 14,
    SysPtrace = 19,
    SysAdmin = 21,
    SysResource = 24,
    Syslog = 34,
    Perfmon = 38,
}

/// Inode numbers of the first namespaces (`linux/proc_ns.h`).
const FIRST_USER: &str = "user:[4026531837]";
const FIRST_PID: &str = "pid:[4026531836]";

/// Read once, at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that do not depend on each other"
)]
pub(crate) struct Rights {
    /// Effective set; all when it cannot be read.
    caps: u64,
    /// A filter of system calls is in force.
    pub(crate) filtered: bool,
    /// `kernel.perf_event_paranoid`; `None`: the kernel has no perf events, or hides the setting.
    pub(crate) paranoid: Option<i64>,
    /// The kernel is locked down to confidentiality.
    pub(crate) locked_down: bool,
    /// In the first user namespace: capabilities count for the kernel.
    pub(crate) in_first_user: bool,
    /// In the first PID namespace: all processes are seen.
    pub(crate) in_first_pid: bool,
}

impl Rights {
    pub(crate) fn read(machine: &Machine) -> Self {
        let status = machine.proc_text("self/status").unwrap_or_default();
        let field = |name: &str| {
            let mut lines = status.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim())
        };
        let caps = field("CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let lockdown = machine.sys_text("kernel/security/lockdown");
        let first = |which: &str, name: &str| {
            let link = fs::read_link(machine.proc.join("self/ns").join(which));
            link.map_or(true, |link| link.to_str() == Some(name))
        };
        Self {
            caps: caps.unwrap_or(u64::MAX),
            filtered: field("Seccomp") == Some("2"),
            paranoid: machine.setting("perf_event_paranoid"),
            locked_down: lockdown.is_some_and(|text| text.contains("[confidentiality]")),
            in_first_user: first("user", FIRST_USER),
            in_first_pid: first("pid", FIRST_PID),
        }
    }

    /// Whether it is held and counts for the kernel itself.
    pub(crate) fn has(&self, cap: Cap) -> bool {
        self.in_first_user && self.caps & (1 << cap as u64) != 0
    }

    /// Levels above 2 are of distributions (Debian, Ubuntu, Android); kernels with them may ask for `CAP_SYS_ADMIN`.
    pub(crate) fn ignores_perfmon(&self) -> bool {
        self.paranoid.is_some_and(|level| level > 2)
    }
}

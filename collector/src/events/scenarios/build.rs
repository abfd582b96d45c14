//! Machines as their kernels show them: files below `/sys` and `/proc`, written from documentation.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::events::machine::Machine;

/// The files of one machine.
pub(super) struct Scenario {
    root: tempfile::TempDir,
    pub(super) machine: Machine,
}

/// `CapEff` of root on Linux 5.9 and newer.
pub(super) const ROOT: &str = "000001ffffffffff";
/// The set that `deploy/kubernetes` gives: DAC_READ_SEARCH, IPC_LOCK, SYS_PTRACE, SYS_RESOURCE, SYSLOG, PERFMON,
/// CHECKPOINT_RESTORE.
pub(super) const SEVEN: &str = "0000014401084004";
pub(super) const NOTHING: &str = "0000000000000000";

impl Scenario {
    /// A machine with root, tracefs, PSI and default settings, whose CPUs are these.
    pub(super) fn new(cpus: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine {
            sys: root.path().join("sys"),
            proc: root.path().join("proc"),
        };
        let it = Self { root, machine };
        it.sys("devices/system/cpu/online", cpus)
            .sys("kernel/tracing/events/kmem/kmalloc/id", "512")
            .sys(
                "kernel/tracing/events/kmem/kmalloc/format",
                "name: kmalloc\n",
            )
            .setting("perf_event_paranoid", 2)
            .setting("perf_event_mlock_kb", 516)
            .setting("perf_event_max_sample_rate", 100_000)
            .setting("nmi_watchdog", 0)
            .proc(
                "pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            )
            .proc(
                "self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         8388608              8388608              bytes     \n\
                 Max open files            1024                 524288               files     \n",
            )
            .proc(
                "self/mounts",
                "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n",
            )
            .namespaces(4_026_531_836, 4_026_531_837)
            .rights(ROOT, false)
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn sys(self, path: &str, text: &str) -> Self {
        Self::put(&self.machine.sys.join(path), text);
        self
    }

    pub(super) fn proc(self, path: &str, text: &str) -> Self {
        Self::put(&self.machine.proc.join(path), text);
        self
    }

    pub(super) fn without(self, path: &str) -> Self {
        let path = self.root.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    pub(super) fn setting(self, name: &str, value: i64) -> Self {
        self.proc(&format!("sys/kernel/{name}"), &format!("{value}\n"))
    }

    /// Effective capabilities, and whether system calls are filtered.
    pub(super) fn rights(self, caps: &str, filtered: bool) -> Self {
        let mode = if filtered { 2 } else { 0 };
        let status = format!("Name:\tmemwide\nCapEff:\t{caps}\nSeccomp:\t{mode}\n");
        self.proc("self/status", &status)
    }

    pub(super) fn namespaces(self, pid: u64, user: u64) -> Self {
        let folder = self.machine.proc.join("self/ns");
        fs::create_dir_all(&folder).unwrap();
        for (name, inode) in [("pid", pid), ("user", user)] {
            let link = folder.join(name);
            drop(fs::remove_file(&link));
            symlink(format!("{name}:[{inode}]"), link).unwrap();
        }
        self
    }

    pub(super) fn nodes(self, list: &str) -> Self {
        self.sys("devices/system/node/online", list)
    }

    /// An x86 CPU.
    pub(super) fn x86(self, vendor: &str, family: u32, model: u32, flags: &str) -> Self {
        let text = format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nflags\t\t: fpu msr {flags}\n\n"
        );
        self.proc("cpuinfo", &text)
    }

    /// A PMU's folder: `FILE=TEXT` below it.
    pub(super) fn pmu(mut self, name: &str, kind: u32, files: &[(&str, &str)]) -> Self {
        let folder = format!("bus/event_source/devices/{name}");
        self = self.sys(&format!("{folder}/type"), &format!("{kind}\n"));
        for (file, text) in files {
            self = self.sys(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
        self
    }
}

/// As every Intel kernel shows its core PMU.
const INTEL: &[(&str, &str)] = &[
    ("events/cache-misses", "event=0x2e,umask=0x41"),
    ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("events/mem-stores", "event=0xd0,umask=0x82"),
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/ldlat", "config1:0-15"),
];
/// Gracemont and its successors.
const INTEL_ATOM: &[(&str, &str)] = &[
    ("events/cache-misses", "event=0x2e,umask=0x41"),
    ("events/mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
    ("events/mem-stores", "event=0xd0,umask=0x6"),
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/ldlat", "config1:0-15"),
];
const AUX: &[(&str, &str)] = &[("events/mem-loads-aux", "event=0x03,umask=0x82")];
const AMD: &[(&str, &str)] = &[("events/cache-misses", "event=0x64,umask=0x9")];

pub(super) fn skylake_server() -> Scenario {
    Scenario::new("0-79")
        .nodes("0-1")
        .x86("GenuineIntel", 6, 85, "")
        .pmu("cpu", 4, INTEL)
}

pub(super) fn ice_lake_server() -> Scenario {
    Scenario::new("0-127")
        .nodes("0-1")
        .x86("GenuineIntel", 6, 106, "")
        .pmu("cpu", 4, INTEL)
}

/// With sub-NUMA clustering: four nodes in two packages.
pub(super) fn sapphire_rapids() -> Scenario {
    Scenario::new("0-223")
        .nodes("0-3")
        .x86("GenuineIntel", 6, 143, "")
        .pmu("cpu", 4, INTEL)
        .pmu("cpu", 4, AUX)
}

pub(super) fn broadwell_server() -> Scenario {
    Scenario::new("0-55")
        .nodes("0-1")
        .x86("GenuineIntel", 6, 79, "")
        .pmu("cpu", 4, INTEL)
}

pub(super) fn one_socket_skylake() -> Scenario {
    Scenario::new("0-27")
        .nodes("0")
        .x86("GenuineIntel", 6, 85, "")
        .pmu("cpu", 4, INTEL)
}

/// Fast cores 0 to 15, slow ones 16 to 23.
pub(super) fn alder_lake() -> Scenario {
    Scenario::new("0-23")
        .nodes("0")
        .x86("GenuineIntel", 6, 151, "")
        .pmu("cpu_core", 4, INTEL)
        .pmu("cpu_core", 4, AUX)
        .pmu("cpu_core", 4, &[("cpus", "0-15")])
        .pmu("cpu_atom", 10, INTEL_ATOM)
        .pmu("cpu_atom", 10, &[("cpus", "16-23")])
}

pub(super) fn zen(model: u32, family: u32, filters: &[(&str, &str)]) -> Scenario {
    Scenario::new("0-127")
        .nodes("0-1")
        .x86("AuthenticAMD", family, model, "ibs")
        .pmu("cpu", 4, AMD)
        .pmu("ibs_op", 11, &[("format/cnt_ctl", "config:19")])
        .pmu("ibs_op", 11, filters)
        .pmu("ibs_fetch", 10, &[("format/rand_en", "config:57")])
}

pub(super) const L3_MISS_ONLY: (&str, &str) = ("format/l3missonly", "config:16");
pub(super) const LOAD_LATENCY: (&str, &str) = ("format/ldlat", "config1:0-11");

/// Neoverse N1 or V1 on bare metal.
pub(super) fn arm_with_spe() -> Scenario {
    Scenario::new("0-63")
        .nodes("0")
        .proc(
            "cpuinfo",
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n",
        )
        .pmu(
            "armv8_pmuv3_0",
            8,
            &[("events/ll_cache_miss_rd", "event=0x0037")],
        )
        .pmu(
            "arm_spe_0",
            9,
            &[("format/load_filter", "config:33"), ("cpumask", "0-63")],
        )
}

pub(super) fn arm_without_spe() -> Scenario {
    Scenario::new("0-63")
        .nodes("0")
        .proc(
            "cpuinfo",
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n",
        )
        .pmu(
            "armv8_pmuv3_0",
            8,
            &[("events/ll_cache_miss_rd", "event=0x0037")],
        )
}

pub(super) fn power9() -> Scenario {
    Scenario::new("0-159")
        .nodes("0,8")
        .proc(
            "cpuinfo",
            "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n\n",
        )
        .pmu(
            "cpu",
            4,
            &[
                ("events/cache-misses", "event=0x3e054"),
                ("events/mem-loads", "event=0x34340401e0"),
                ("events/mem-stores", "event=0x343c0401e0"),
                ("format/event", "config:0-49"),
            ],
        )
}

pub(super) fn vm_without_pmu() -> Scenario {
    Scenario::new("0-1").x86("AuthenticAMD", 25, 1, "hypervisor")
}

/// A virtual PMU counts, and samples no addresses.
pub(super) fn vm_with_counters() -> Scenario {
    Scenario::new("0-7")
        .x86("GenuineIntel", 6, 106, "hypervisor")
        .pmu(
            "cpu",
            4,
            &[("events/cache-misses", "event=0x2e,umask=0x41")],
        )
}

//! What is collected on many machines, and what their people are told.

mod build;

use std::fmt::Write as _;
use std::io;

use memwide_perf_abi::{Attr, attr_kind, sample};
use memwide_proto::v1::Capability;

use self::build::{
    L3_MISS_ONLY, LOAD_LATENCY, NOTHING, ROOT, SEVEN, Scenario, alder_lake, arm_with_spe,
    arm_without_spe, broadwell_server, ice_lake_server, one_socket_skylake, power9,
    sapphire_rapids, skylake_server, vm_with_counters, vm_without_pmu, zen,
};
use super::open::survey;
use super::plan::plan;
use super::spec::{EventSpec, resolve};
use crate::config::{Config, EventConfig};

/// The events of the plan; every one of them can be resolved.
fn specs(scenario: &Scenario) -> Vec<EventSpec> {
    let planned = plan(&Config::default().events, &scenario.machine);
    let all = planned.events.iter();
    all.map(|event| resolve(event, 64, &scenario.machine).unwrap())
        .collect()
}

/// Faults and clock are everywhere; the others as `NAME every PERIOD [on CPUS] [behind a leader] [callchain] → POPULATION`.
#[track_caller]
fn plans(scenario: &Scenario, expected: &str) {
    let specs = specs(scenario);
    let (everywhere, others) = specs.split_at(3);
    let names: Vec<&str> = everywhere.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["minor-faults", "major-faults", "cpu-clock"]);
    let mut said = String::new();
    for spec in others {
        let attr = &spec.attr;
        write!(said, "{} every {}", spec.name, attr.sample_period).unwrap();
        if let Some(cpus) = &spec.cpus {
            write!(said, " on {}-{}", cpus[0], cpus[cpus.len() - 1]).unwrap();
        }
        if let Some(leader) = &spec.leader {
            write!(said, " behind {:#x}", leader.config).unwrap();
        }
        if attr.samples(sample::CALLCHAIN) {
            said.push_str(" callchain");
        }
        if !spec.population.is_empty() {
            write!(said, " → {}", spec.population).unwrap();
        }
        said.push('\n');
    }
    let expected: String = expected
        .trim()
        .lines()
        .map(|line| line.trim().to_owned() + "\n")
        .collect();
    assert_eq!(said, expected);
}

/// What doctor says where `refuse` is the kernel: an error number for what it does not open.
fn doctor(scenario: &Scenario, refuse: impl Fn(&Attr) -> Option<i32>) -> Vec<Capability> {
    survey(
        &Config::default(),
        &scenario.machine,
        |attr, _, _| match refuse(attr) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(()),
        },
    )
}

fn takes_all(_: &Attr) -> Option<i32> {
    None
}

/// The row of this name says this, and names this remedy.
#[track_caller]
fn says(rows: &[Capability], name: &str, available: bool, reason: &str, remedy: &str) {
    let row = rows.iter().find(|row| row.name == name);
    let row = row.unwrap_or_else(|| panic!("no row {name} in {rows:?}"));
    assert_eq!(row.available, available, "{row:?}");
    assert!(row.reason.contains(reason), "{row:?}");
    assert!(row.remedy.contains(remedy), "{row:?}");
    assert_eq!(row.reason.is_empty(), reason.is_empty(), "{row:?}");
}

const SERVER: &str = "
    cpu/mem-loads,ldlat=30/P every 20011
    cpu/mem-stores/P every 20011 → retired stores
    cpu/mem_load_l3_miss_retired.local_dram/P every 20011 → retired loads served by local memory
    cpu/mem_load_l3_miss_retired.remote_dram/P every 4999 → retired loads served by another socket's memory
    cpu/mem_load_l3_miss_retired.remote_hitm/P every 4999 → retired loads served by a modified line of another socket's cache
    cpu/mem_load_l3_miss_retired.remote_fwd/P every 4999 → retired loads served by a clean line of another socket's cache
    cpu/mem_load_retired.l3_miss/P every 200117 callchain → retired loads that missed the last cache";

#[test]
fn intel_servers_sample_loads_stores_and_what_left_the_socket() {
    plans(&skylake_server(), SERVER);
    plans(&ice_lake_server(), SERVER);
    let led = SERVER.replace(
        "ldlat=30/P every 20011",
        "ldlat=30/P every 20011 behind 0x8203",
    );
    plans(&sapphire_rapids(), &led);
    let older = SERVER.replace("mem_load_l3_miss", "mem_load_uops_l3_miss");
    let (older, _) = older.rsplit_once('\n').unwrap();
    plans(&broadwell_server(), older);
}

#[test]
fn umasks_follow_the_generation() {
    let config = |scenario: &Scenario, part: &str| {
        let specs = specs(scenario);
        let spec = specs.iter().find(|spec| spec.name.contains(part));
        spec.unwrap().attr.config
    };
    assert_eq!(config(&skylake_server(), "remote_hitm"), 0x04d3);
    assert_eq!(config(&broadwell_server(), "remote_hitm"), 0x10d3);
}

#[test]
fn a_machine_of_one_node_has_no_remote_loads() {
    plans(
        &one_socket_skylake(),
        "cpu/mem-loads,ldlat=30/P every 20011
         cpu/mem-stores/P every 20011 → retired stores
         cpu/mem_load_l3_miss_retired.local_dram/P every 20011 → retired loads served by local memory
         cpu/mem_load_retired.l3_miss/P every 200117 callchain → retired loads that missed the last cache",
    );
    let rows = doctor(&one_socket_skylake(), takes_all);
    says(&rows, "remote-loads", true, "one node of memory", "");
}

#[test]
fn hybrid_machines_have_each_event_on_its_own_cores() {
    plans(
        &alder_lake(),
        "cpu_core/mem-loads,ldlat=30/P every 20011 on 0-15 behind 0x8203
         cpu_core/mem-stores/P every 20011 on 0-15 → retired stores
         cpu_core/mem_load_retired.l3_miss/P every 200117 on 0-15 callchain → retired loads that missed the last cache
         cpu_atom/mem-loads,ldlat=30/P every 20011 on 16-23
         cpu_atom/mem-stores/P every 20011 on 16-23 → retired stores",
    );
}

#[test]
fn amd_counts_micro_ops_and_offers_its_filters() {
    let plain = "ibs_op// every 262576 → dispatched micro-ops";
    plans(&zen(1, 25, &[]), plain);
    plans(&zen(17, 25, &[L3_MISS_ONLY]), plain);
    let zen5 = zen(2, 26, &[L3_MISS_ONLY, LOAD_LATENCY]);
    plans(&zen5, plain);
    let rows = doctor(&zen5, takes_all);
    says(&rows, "ibs-filters", true, "ibs_op/ldlat=128/", "");
    let filtered = EventConfig::named("ibs_op/l3missonly=1,ldlat=256/");
    let spec = resolve(&filtered, 64, &zen5.machine).unwrap();
    assert_eq!(
        (spec.attr.config, spec.attr.config1),
        (1 << 19 | 1 << 16, 256)
    );
    assert_eq!((spec.population.as_str(), spec.threshold_cycles), ("", 256));
}

#[test]
fn other_cpus_give_what_they_have() {
    plans(
        &power9(),
        "cpu/mem-loads/ every 20011\ncpu/mem-stores/ every 20011",
    );
    assert_eq!(specs(&power9())[3].attr.config, 0x0034_3404_01e0);
    let misses = "
        LLC-load-misses every 100003 callchain → LLC-load-misses
        LLC-store-misses every 100003 callchain → LLC-store-misses
        cache-misses every 100003 callchain → cache-misses";
    plans(&arm_with_spe(), misses);
    plans(&arm_without_spe(), misses);
    plans(&vm_with_counters(), misses);
    plans(&vm_without_pmu(), "");
    let rows = doctor(&arm_with_spe(), takes_all);
    says(
        &rows,
        "precise-events",
        false,
        "Statistical Profiling",
        "perf record -e arm_spe_0/",
    );
    let rows = doctor(&arm_without_spe(), takes_all);
    says(&rows, "precise-events", false, "no Statistical", "kpti=off");
    let rows = doctor(&vm_without_pmu(), takes_all);
    says(
        &rows,
        "precise-events",
        false,
        "virtual machine",
        "bare-metal",
    );
    says(&rows, "hardware-events", false, "no PMU", "pmu=on");
    says(&rows, "minor-faults", true, "", "");
}

/// What keeps a large buffer of records away from the kernel: `LARGE_PEBS_FLAGS` in `arch/x86/events/perf_event.h`.
#[test]
fn precise_events_without_callchain_fill_large_buffers() {
    for scenario in [
        skylake_server(),
        sapphire_rapids(),
        alder_lake(),
        broadwell_server(),
    ] {
        let specs = specs(&scenario);
        let precise = specs.iter().filter(|spec| spec.attr.flags.precise_ip() > 0);
        let without = precise.filter(|spec| !spec.name.contains("retired.l3_miss"));
        let mut seen = 0;
        for spec in without {
            let attr = &spec.attr;
            let breaks = sample::CALLCHAIN | sample::CGROUP | sample::DATA_PAGE_SIZE | sample::RAW;
            assert_eq!(attr.sample_type & breaks, 0, "{}", spec.name);
            assert!(
                !attr.flags.freq() && !attr.flags.use_clockid(),
                "{}",
                spec.name
            );
            assert!(attr.flags.watermark(), "{}", spec.name);
            seen += 1;
        }
        assert!(seen >= 4);
    }
}

#[test]
fn settings_and_rights_are_explained_with_their_remedy() {
    const EVENTS: &str = "all-processes-events";
    let refused = |_: &Attr| Some(libc::EACCES);
    for level in [1, 2] {
        let user = skylake_server()
            .setting("perf_event_paranoid", level)
            .rights(NOTHING, false);
        let rows = doctor(&user, refused);
        let level = format!("perf_event_paranoid is {level}");
        says(&rows, EVENTS, false, &level, "CAP_PERFMON");
        says(&rows, "minor-faults", false, &level, "CAP_PERFMON");
    }
    for level in [3, 4] {
        let patched = skylake_server()
            .setting("perf_event_paranoid", level)
            .rights(SEVEN, false);
        let rows = doctor(&patched, refused);
        says(
            &rows,
            EVENTS,
            false,
            "ignore CAP_PERFMON",
            "perf_event_paranoid=2",
        );
        says(
            &rows,
            "minor-faults",
            false,
            "ignore CAP_PERFMON",
            "CAP_SYS_ADMIN",
        );
        // Kernels without that patch heed the capability at any level.
        says(&doctor(&patched, takes_all), EVENTS, true, "", "");
        let root = skylake_server().setting("perf_event_paranoid", level);
        says(&doctor(&root, takes_all), EVENTS, true, "", "");
    }
    let deployed = skylake_server().rights(SEVEN, false);
    let rows = doctor(&deployed, takes_all);
    for row in rows.iter().filter(|row| !row.name.contains('/')) {
        assert!(row.available && row.reason.is_empty(), "{row:?}");
    }
    let none = skylake_server().without("proc/sys/kernel/perf_event_paranoid");
    let rows = doctor(&none, |_| Some(libc::ENOSYS));
    says(
        &rows,
        EVENTS,
        false,
        "without perf events",
        "CONFIG_PERF_EVENTS",
    );
    says(
        &rows,
        "minor-faults",
        false,
        "without perf events",
        "CONFIG_PERF_EVENTS",
    );
}

#[test]
fn what_was_tried_counts_not_what_proc_shows() {
    const EVENTS: &str = "all-processes-events";
    let masked = skylake_server()
        .without("proc/sys")
        .without("proc/pressure/memory");
    let rows = doctor(&masked, takes_all);
    says(&rows, EVENTS, true, "", "");
    says(&rows, "memory-pressure", false, "hidden", "unmask");
    let filtered = skylake_server().rights(ROOT, true);
    let rows = doctor(&filtered, |_| Some(libc::EPERM));
    says(&rows, EVENTS, false, "seccomp filter", "seccompProfile");
}

#[test]
fn containers_are_told_from_missing_rights() {
    let docker = skylake_server()
        .rights("00000000a80425fb", true)
        .namespaces(4_026_532_208, 4_026_531_837);
    let rows = doctor(&docker, |_| Some(libc::EPERM));
    says(
        &rows,
        "minor-faults",
        false,
        "seccomp filter",
        "seccompProfile",
    );
    says(
        &rows,
        "all-processes-names",
        false,
        "PID namespace",
        "hostPID: true",
    );
    let rootless = skylake_server().namespaces(4_026_532_208, 4_026_532_207);
    let rows = doctor(&rootless, |_| Some(libc::EACCES));
    says(
        &rows,
        "all-processes-events",
        false,
        "user namespace",
        "hostUsers: true",
    );
    says(
        &rows,
        "minor-faults",
        false,
        "user namespace",
        "hostUsers: true",
    );
    let locked = skylake_server()
        .sys(
            "kernel/security/lockdown",
            "none integrity [confidentiality]\n",
        )
        .rights(SEVEN, false);
    let rows = doctor(&locked, |_| Some(libc::EPERM));
    says(
        &rows,
        "minor-faults",
        false,
        "locked down",
        "lockdown=integrity",
    );
    says(
        &rows,
        "all-processes-events",
        false,
        "locked down",
        "lockdown=integrity",
    );
    let hidden = skylake_server().rights(NOTHING, false).proc(
        "self/mounts",
        "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n",
    );
    let rows = doctor(&hidden, takes_all);
    says(
        &rows,
        "all-processes-names",
        false,
        "hidepid",
        "CAP_SYS_PTRACE",
    );
}

#[test]
fn scarce_memory_and_descriptors_are_counted_beforehand() {
    let few = skylake_server().rights("0000014400080004", false).proc(
        "self/limits",
        "Max locked memory 65536 65536 bytes\nMax open files 1024 1024 files\n",
    );
    let rows = doctor(&few, takes_all);
    // 80 CPUs: side-band, samples and major faults each have a ring, beside ten events.
    says(
        &rows,
        "descriptors",
        false,
        "1104 are needed and 1024 allowed",
        "LimitNOFILE=1104",
    );
    // The last of the plan, on all CPUs; the others are whole.
    let left_out: Vec<&str> = rows
        .iter()
        .filter(|row| {
            row.reason
                .contains("left out: all events on all CPUs need 1104")
        })
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(left_out, ["cpu/mem_load_retired.l3_miss/P"]);
    says(
        &rows,
        "locked-memory",
        false,
        "may be locked",
        "perf_event_mlock_kb=3148",
    );
    let raised = skylake_server()
        .rights("0000014400080004", false)
        .setting("perf_event_mlock_kb", 3148);
    says(&doctor(&raised, takes_all), "locked-memory", true, "", "");
    let rows = doctor(&few, |_| Some(libc::EMFILE));
    says(
        &rows,
        "minor-faults",
        false,
        "too many open files",
        "LimitNOFILE",
    );
}

#[test]
fn events_and_rings_fit_what_machines_of_any_size_allow() {
    // CPUs, GiB of memory, descriptors allowed, CAP_SYS_RESOURCE, events left out of three.
    #[rustfmt::skip]
    let rows = [
        (8, 32, 1_024, false, 0), (8, 32, 110, false, 1), (8, 32, 90, false, 2), (64, 256, 1_024, false, 0),
        (64, 256, 400, false, 1), (128, 512, 1_024, false, 0), (256, 1_024, 1_024, false, 2), (512, 2_048, 1_024, false, 2),
        (512, 2_048, 1_024, true, 0), (512, 2_048, 4_096, false, 0),
    ];
    for (cpus, gib, files, may_raise, left_out) in rows {
        let caps = if may_raise {
            "0000004001080004"
        } else {
            "0000004000080004"
        };
        let machine = Scenario::new(&format!("0-{}", cpus - 1))
            .rights(caps, false)
            .proc("meminfo", &format!("MemTotal: {} kB\n", gib << 20))
            .proc(
                "self/limits",
                &format!(
                    "Max locked memory 65536 65536 bytes\nMax open files {files} {files} files\n"
                ),
            );
        let rows = doctor(&machine, takes_all);
        let said = format!("{cpus} CPUs, {files} files: {rows:#?}");
        let is_left_out = |row: &&Capability| row.reason.starts_with("left out");
        assert_eq!(rows.iter().filter(is_left_out).count(), left_out, "{said}");
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row("descriptors").available, left_out == 0, "{said}");
        // 516 KiB a CPU may be locked: 256 of samples, 128 of side-band, 64 of major faults, the control pages.
        let part = "each of samples has 262144 ";
        assert!(row("locked-memory").reason.contains(part), "{said}");
        assert!(row("minor-faults").available, "{said}");
    }
}

#[test]
fn what_the_kernel_gives_to_others_is_said() {
    let watched = skylake_server()
        .setting("nmi_watchdog", 1)
        .setting("perf_event_max_sample_rate", 12_500);
    let is_hardware = |attr: &Attr| attr.flags.precise_ip() > 0;
    let rows = doctor(&watched, |attr| is_hardware(attr).then_some(libc::EBUSY));
    says(
        &rows,
        "hardware-counters",
        true,
        "NMI watchdog",
        "nmi_watchdog=0",
    );
    says(
        &rows,
        "sample-rate",
        true,
        "is 12500",
        "max_sample_rate=100000",
    );
    says(
        &rows,
        "cpu/mem-stores/P",
        false,
        "in use by somebody else",
        "nmi_watchdog=0",
    );
    says(&rows, "minor-faults", true, "", "");
    let bare = vm_without_pmu()
        .without("sys/kernel/tracing")
        .without("proc/pressure");
    let rows = doctor(&bare, takes_all);
    says(
        &rows,
        "tracepoints",
        false,
        "not mounted",
        "mount -t tracefs",
    );
    says(&rows, "memory-pressure", false, "no pressure", "psi=1");
}

#[test]
fn one_refused_attribute_costs_one_attribute() {
    let old = skylake_server().rights(ROOT, false);
    let rows = doctor(&old, |attr| {
        let refused = attr.samples(sample::WEIGHT_STRUCT) || attr.flags.build_id();
        refused.then_some(libc::EINVAL)
    });
    says(
        &rows,
        "cpu/mem-loads,ldlat=30/P",
        true,
        "without instruction and retire latency",
        "5.12",
    );
    says(
        &rows,
        "side-band",
        true,
        "without build ids in mappings",
        "5.12",
    );
    says(&rows, "minor-faults", true, "", "");
    let rows = doctor(&old, |attr| {
        (attr.kind != attr_kind::SOFTWARE && attr.flags.precise_ip() > 1)
            .then_some(libc::EOPNOTSUPP)
    });
    says(&rows, "cpu/mem-stores/P", true, "without zero skid", "");
}

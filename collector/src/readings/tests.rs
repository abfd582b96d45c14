use std::fs;
use std::path::Path;

use super::*;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn rounds(root: &Path) -> Rounds {
    Rounds::new(Look {
        machine: Machine {
            sys: root.join("sys"),
            proc: root.join("proc"),
        },
        pod_names: root.join("names"),
        every: Duration::from_secs(10),
        counters: Vec::new(),
        counters_cgroups: 0,
    })
}

fn value(readings: &[Reading], name: &str) -> Option<(f64, u64)> {
    let found = readings.iter().find(|one| one.name == name)?;
    Some((found.value, found.interval_ns))
}

const TEN: Duration = Duration::from_secs(10);

#[test]
fn counters_are_told_as_changes_and_levels_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    let proc = |stalled: u64, scans: u64| {
        let text = format!(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
        );
        put(root.path(), "proc/pressure/memory", &text);
        let text = format!(
            "pgscan_kswapd {scans}\nallocstall_normal 3\nallocstall_movable {scans}\nnr_free 9\n"
        );
        put(root.path(), "proc/vmstat", &text);
    };
    proc(1_000, 50);
    put(
        root.path(),
        "proc/meminfo",
        "MemTotal:  2048 kB\nMemAvailable:  1024 kB\n",
    );
    let mut rounds = rounds(root.path());
    let first = rounds.round(Duration::ZERO);
    assert!(first.pressure.is_empty(), "nothing to compare with");
    proc(1_500, 58);
    let second = rounds.round(TEN);
    let interval = 10_000_000_000;
    assert_eq!(
        value(&second.pressure, "psi.memory.some"),
        Some((500_000.0, interval))
    );
    assert_eq!(
        value(&second.pressure, "psi.memory.full"),
        Some((0.0, interval))
    );
    assert_eq!(
        value(&second.pressure, "pgscan_kswapd"),
        Some((8.0, interval))
    );
    assert_eq!(value(&second.pressure, "allocstall"), Some((8.0, interval)));
    assert_eq!(value(&second.pressure, "nr_free"), None);
    assert_eq!(value(&second.rss, "available"), Some((1024.0 * 1024.0, 0)));
    proc(100, 1);
    let third = rounds.round(TEN);
    assert_eq!(
        value(&third.pressure, "pgscan_kswapd"),
        None,
        "it began anew"
    );
}

#[test]
fn containers_and_units_have_their_own_rows_of_either_hierarchy() {
    const ID: &str = "5f0f8a7d3b1c4e6f9a2b5c8d7e0f1a3b4c6d8e9f0a1b2c3d4e5f6a7b8c9d0e1f";
    let rows = [
        (
            "cgroup2",
            "rw",
            "anon 100\nfile 50\npgfault 9\n",
            "memory.current",
        ),
        (
            "cgroup",
            "rw,memory",
            "rss 100\ncache 50\npgfault 9\n",
            "memory.usage_in_bytes",
        ),
    ];
    for (kind, options, stat, current) in rows {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("cgroup");
        let line = format!("cgroup {} {kind} {options} 0 0\n", mount.display());
        put(root.path(), "proc/self/mounts", &line);
        let container = format!("cgroup/system.slice/docker-{ID}.scope");
        let unit = "cgroup/system.slice/nginx.service".to_owned();
        for folder in [
            &container,
            &format!("{container}/inner"),
            &unit,
            &"cgroup/user.slice".to_owned(),
        ] {
            put(root.path(), &format!("{folder}/memory.stat"), stat);
            put(root.path(), &format!("{folder}/{current}"), "4096\n");
            put(
                root.path(),
                &format!("{folder}/memory.events"),
                "oom_kill 1\n",
            );
        }
        let mut rounds = rounds(root.path());
        rounds.round(Duration::ZERO);
        put(
            root.path(),
            &format!("{unit}/memory.events"),
            "oom_kill 3\n",
        );
        let read = rounds.round(TEN);
        let owners: std::collections::BTreeSet<u64> =
            read.rss.iter().map(|one| one.workload_id).collect();
        assert_eq!(owners.len(), 2, "{kind}: the container and the unit");
        let totals = read.rss.iter().filter(|one| one.name == "total").count();
        assert_eq!(totals, 2);
        assert_eq!(value(&read.rss, "anon"), Some((100.0, 0)));
        assert_eq!(value(&read.rss, "file"), Some((50.0, 0)));
        let killed: f64 = read
            .pressure
            .iter()
            .filter(|one| one.name == "events.oom_kill")
            .map(|one| one.value)
            .sum();
        assert!((killed - 2.0).abs() < 1e-9);
        let named: Vec<&str> = read
            .workloads
            .iter()
            .map(|one| one.service.as_str())
            .collect();
        assert!(
            named.is_empty() || named.contains(&"nginx.service"),
            "{named:?}"
        );
    }
}

#[test]
fn the_largest_processes_are_told_apart_and_the_rest_summed() {
    let root = tempfile::tempdir().unwrap();
    for pid in 1..=70_u32 {
        put(
            root.path(),
            &format!("proc/{pid}/statm"),
            &format!("900 {pid} 0 0 0 0 0\n"),
        );
        let text = format!("Name:\tp{pid}\nRssAnon:\t    {pid} kB\nVmSwap:\t   0 kB\n");
        put(root.path(), &format!("proc/{pid}/status"), &text);
    }
    let read = rounds(root.path()).round(Duration::ZERO);
    let named: Vec<&Reading> = read.rss.iter().filter(|one| one.pid > 0).collect();
    assert_eq!(named.len(), 64);
    assert_eq!((named[0].pid, named[0].comm.as_str()), (70, "p70"));
    let rest = (1..=6_u64).sum::<u64>() * Machine::page_size() as u64;
    assert_eq!(value(&read.rss, "other_processes"), Some((as_f64(rest), 0)));
}

#[test]
fn this_machine_tells_its_memory_and_our_cost() {
    let mut rounds = Rounds::new(Look {
        machine: Machine::default(),
        pod_names: PathBuf::new(),
        every: TEN,
        counters: Vec::new(),
        counters_cgroups: 0,
    });
    let first = rounds.round(Duration::ZERO);
    assert!(
        first
            .rss
            .iter()
            .any(|one| one.pid > 0 && !one.comm.is_empty())
    );
    let read = rounds.round(TEN);
    let total = value(&read.rss, "total").unwrap().0;
    assert!(total > 1e8, "{total} bytes of memory");
    let own = value(&read.own_cost, "resident").unwrap().0;
    assert!((1e6..1e9).contains(&own), "{own} bytes of this process");
    assert!(value(&read.pressure, "pgfault").is_some());
}

//! `faults`, `allocs`, `offcpu`, `rss` on a program that does a known amount of each, recorded here by `memwide record`.

use crate::program::build;
use crate::run::{self, check_width, json, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// It leaks 20 mappings of a MiB, churns 50, touches 32 MiB page by page, and sleeps four times 50 ms; by system calls of its
/// own, so that its functions are the innermost frames.
const SOURCE: &str = r#"
#include <stddef.h>
__attribute__((noinline)) long call(long n, long a, long b, long c, long d, long e, long f) {
  long r;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return r;
}
__attribute__((noinline)) char *map(size_t n) {
  char *p = (char *)call(9, 0, n, 3, 0x22, -1, 0);
  __asm__ volatile("" ::: "memory");
  return p;
}
__attribute__((noinline)) void leak(void) {
  for (int i = 0; i < 20; i++) { map(1 << 20); __asm__ volatile(""); }
}
__attribute__((noinline)) void churn(void) {
  for (int i = 0; i < 50; i++) { char *p = map(1 << 20); call(11, (long)p, 1 << 20, 0, 0, 0, 0); }
}
__attribute__((noinline)) void fill(void) {
  char *p = map(32 << 20);
  call(28, (long)p, 32 << 20, 15, 0, 0, 0); /* no huge pages */
  for (long i = 0; i < 32 << 20; i += 4096) p[i] = 1;
}
__attribute__((noinline)) void nap(void) {
  long t[2] = {0, 50000000};
  for (int i = 0; i < 4; i++) call(35, (long)t, 0, 0, 0, 0, 0);
}
int main(void) { leak(); churn(); fill(); nap(); return 0; }
"#;

const MIB: u64 = 1 << 20;

struct Recorded {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

/// Records the program; `None`, said loudly, where that cannot be.
fn recorded(args: &[&str]) -> Option<Recorded> {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the program makes system calls of x86-64");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), SOURCE)?;
    Some(Recorded {
        file: run::recorded(&program.path, args)?,
        _folder: folder,
    })
}

/// The first row that fits.
#[track_caller]
fn row<'a>(document: &'a Value, fits: &[(&str, &str)]) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| {
        let mut all = fits.iter();
        all.all(|(key, part)| row[key].as_str().is_some_and(|text| text.contains(part)))
    });
    found.unwrap_or_else(|| panic!("no row with {fits:?} in {rows:#?}"))
}

fn tables(command: &str, file: &Path, function: &str) {
    for columns in [80, 200] {
        let text = text(command, file, &[], columns);
        check_width(&text, columns);
        assert!(text.contains(function), "{text}");
    }
    let csv = text(command, file, &["--format", "csv", "--limit", "1"], 80);
    assert_eq!(csv.lines().count(), 2, "{csv}");
}

#[test]
fn faults_are_those_of_the_function_that_touches_memory_first() {
    let Some(live) = recorded(&["-e", "minor-faults"]) else {
        return;
    };
    let document = json("faults", &live.file, &[]);
    let fill = row(&document, &[("function", "fill")]);
    assert!(
        fill["callers"].as_str().unwrap().starts_with("main"),
        "{fill}"
    );
    assert_eq!(
        (&fill["kind"], &fill["region"]),
        (&Value::from("minor"), &Value::from("anonymous"))
    );
    assert_eq!(fill["faults"], 32 * MIB / 4096);
    assert_eq!(fill["pages"], 32 * MIB / 4096);
    assert!(fill["share"].as_f64().unwrap() > 0.9, "{fill}");
    tables("faults", &live.file, "fill");
}

#[test]
fn a_leak_grows_and_a_churn_goes() {
    let events = [
        "-e",
        "syscalls:sys_enter_mmap",
        "-e",
        "syscalls:sys_exit_mmap",
        "-e",
        "syscalls:sys_enter_munmap",
    ];
    let Some(live) = recorded(&events) else {
        return;
    };
    let document = json("allocs", &live.file, &[]);
    let leak = row(&document, &[("callers", "leak")]);
    assert_eq!(
        (&leak["allocations"], &leak["live_bytes"]),
        (&20.into(), &(20 * MIB).into())
    );
    assert_eq!(leak["pattern"], "growth");
    let churn = row(&document, &[("callers", "churn")]);
    assert_eq!(
        (&churn["allocations"], &churn["frees"]),
        (&50.into(), &50.into())
    );
    assert_eq!(
        (&churn["live_bytes"], &churn["bytes"]),
        (&0.into(), &(50 * MIB).into())
    );
    assert_eq!(churn["pattern"], "churn");
    let merged = json("allocs", &live.file, &["--callers", "0"]);
    assert_eq!(row(&merged, &[("function", "call")])["allocations"], 71);
    let asked = json(
        "allocs",
        &live.file,
        &["--callers", "0", "-F", "function=call"],
    );
    assert_eq!(row(&asked, &[("function", "call")])["allocations"], 71);
    tables("allocs", &live.file, "leak");
}

#[test]
fn sleep_is_time_off_the_cpu_where_it_was_called() {
    // Some kernels do not record what the idle task of a CPU does, perf sees it neither: then nobody sees threads come back
    // there. Where the program runs is chance.
    let mut seen = None;
    for _ in 0..8 {
        let Some(live) = recorded(&["-a", "-e", "sched:sched_switch"]) else {
            return;
        };
        let document = json("offcpu", &live.file, &["-F", "comm=program"]);
        if document["total"]["without_end"] == 0 && document["total"]["open"] == 0 {
            seen = Some((live, document));
            break;
        }
    }
    let Some((live, document)) = seen else {
        eprintln!("skipped: switches from the idle task are not recorded here");
        return;
    };
    let nap = row(&document, &[("callers", "nap"), ("reason", "sleep")]);
    assert_eq!(nap["spells"], 4);
    assert!(
        nap["off_ms"].as_f64().unwrap() >= 200.0,
        "the kernel never wakes early: {nap}"
    );
    assert!(
        nap["kernel"].as_str().unwrap().contains("nanosleep"),
        "{nap}"
    );
    let of_program = document["rows"].as_array().unwrap().iter();
    assert!(
        of_program.clone().all(|row| row["comm"] == "program"),
        "{document}"
    );
    let of_program = ["-F", "comm=program"];
    let folded = text(
        "offcpu",
        &live.file,
        &[&of_program[..], &["--folded"]].concat(),
        80,
    );
    assert!(folded.contains(";main;nap;call;"), "{folded}");
    // Rows are found again by what they show.
    let shown = |key: &str| format!("function={}", nap[key].as_str().unwrap());
    for filter in [shown("function"), shown("kernel")] {
        let same = json("offcpu", &live.file, &["-F", "comm=program", "-F", &filter]);
        let found = row(&same, &[("callers", "nap"), ("reason", "sleep")]);
        assert_eq!(found["spells"], 4, "{filter}");
    }
    let none = ["-F", "comm=program", "-F", "function=nobody"];
    let none = text("offcpu", &live.file, &none, 80);
    assert!(none.contains("fits the filter"), "{none}");
}

#[test]
fn spells_nobody_saw_the_end_of_are_said_to_have_none() {
    // Of one program only the switches out are recorded: those in are events of whoever leaves.
    let Some(live) = recorded(&["-e", "sched:sched_switch"]) else {
        return;
    };
    let document = json("offcpu", &live.file, &[]);
    assert!(
        document["total"]["without_end"].as_u64().unwrap() >= 3,
        "{document}"
    );
    assert!(
        document["notes"].to_string().contains("record all CPUs"),
        "{document}"
    );
}

#[test]
fn resident_memory_grows_where_pages_are_touched() {
    let Some(live) = recorded(&["-e", "kmem:rss_stat"]) else {
        return;
    };
    let document = json("rss", &live.file, &[]);
    let fill = row(&document, &[("function", "fill"), ("memory", "anonymous")]);
    let grown = fill["grown_bytes"].as_u64().unwrap();
    // Kernels since 6.2 keep a part of each counter on each CPU.
    assert!((28 * MIB..=33 * MIB).contains(&grown), "{fill}");
    let processes = document["processes"].as_array().unwrap();
    let anonymous = processes
        .iter()
        .find(|process| process["memory"] == "anonymous")
        .unwrap();
    assert!(
        anonymous["peak_bytes"].as_u64().unwrap() >= 28 * MIB,
        "{anonymous}"
    );
    tables("rss", &live.file, "fill");
}

#[test]
fn files_without_such_events_say_what_to_record() {
    let Some(live) = recorded(&["-e", "minor-faults"]) else {
        return;
    };
    for (command, wanted) in [
        ("allocs", "no event of allocations"),
        ("offcpu", "no switches"),
        ("rss", "kmem:rss_stat"),
    ] {
        let text = text(command, &live.file, &[], 200);
        assert!(text.contains(wanted), "{command}: {text}");
    }
}

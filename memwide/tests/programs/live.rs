//! Acts of known size, recorded here while they happen, without a PMU: faults, switches, breakpoints, system calls, the clock.

use crate::run::{json, rows, text};
use memwide_tests::programs::{Builder, C, CPP, Language, Program, RUST, acts};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The program, and how it is recorded.
struct Acts {
    builder: Builder,
    program: PathBuf,
    /// What the last act printed.
    printed: String,
}

impl Acts {
    /// `None`, said loudly, without a compiler.
    fn built() -> Option<Self> {
        let args = ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie"];
        Self::of(C, "acts.c", &args)
    }

    fn of(language: Language, source: &str, args: &[&str]) -> Option<Self> {
        let builder = Builder::new(&acts());
        let program = builder.compile(language, source, "acts", args)?;
        Some(Self {
            builder,
            program,
            printed: String::new(),
        })
    }

    /// A recording of one act by `memwide record`; `None`, said loudly, where the kernel lets nobody record that.
    fn recorded(&mut self, options: &[&str], act: &[&str]) -> Option<PathBuf> {
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_memwide"));
        recorder.arg("record");
        self.run(recorder, options, act)
    }

    fn run(&mut self, mut recorder: Command, options: &[&str], act: &[&str]) -> Option<PathBuf> {
        let file = self.builder.path("acts.data");
        let output = recorder
            .current_dir(self.builder.folder())
            .args(options)
            .arg("-o")
            .arg(&file)
            .arg("--")
            .arg(&self.program)
            .args(act)
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: {} is not there", recorder.get_program().display());
            return None;
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: cannot record {options:?}: {said}");
            return None;
        }
        self.printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(file)
    }
}

/// Samples of the rows that fit all of these.
fn samples(document: &Value, fits: &[(&str, &str)]) -> u64 {
    let fitting = rows(document)
        .iter()
        .filter(|row| fits.iter().all(|(key, text)| row[key] == *text));
    fitting.map(|row| row["samples"].as_u64().unwrap()).sum()
}

const FAULTS: [&str; 5] = ["-g", "-c", "1", "-e", "minor-faults"];

#[test]
fn threads_of_a_pool_are_told_apart_by_their_names() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let Some(file) = acts.recorded(&FAULTS, &["pool"]) else {
        return;
    };
    let document = json("report", &file, &["--sort", "comm,symbol,region"]);
    for number in 1..=4 {
        let thread = format!("pool-{number}");
        let fits = [
            ("comm", &*thread),
            ("symbol", "touch"),
            ("region", "anonymous"),
        ];
        assert_eq!(
            samples(&document, &fits),
            16 * number,
            "{thread}: {document:#}"
        );
        let faults = json(
            "faults",
            &file,
            &["-F", &format!("comm={thread}"), "-F", "function=touch"],
        );
        let row = &rows(&faults)[0];
        assert_eq!(
            (&row["faults"], &row["pages"]),
            (&(16 * number).into(), &(16 * number).into())
        );
        assert!(
            row["callers"]
                .as_str()
                .unwrap()
                .starts_with("work ← worker"),
            "{row}"
        );
    }
}

#[test]
fn forked_children_have_the_mappings_of_their_parent_until_they_run_something_else() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let Some(file) = acts.recorded(&FAULTS, &["forks"]) else {
        return;
    };
    let document = json(
        "report",
        &file,
        &["--sort", "comm,symbol,symbol_daddr,region"],
    );
    for comm in ["acts", "child-1", "child-2", "child-3", "child-4"] {
        let rows = rows(&document)
            .iter()
            .filter(|row| row["comm"] == comm && row["symbol"] == "touch");
        let copied: Vec<&Value> = rows
            .filter(|row| row["symbol_daddr"].as_str().unwrap().starts_with("copied+"))
            .collect();
        assert_eq!(
            copied.len(),
            64,
            "{comm}: each page of the variable once: {document:#}"
        );
        assert!(
            copied
                .iter()
                .all(|row| row["samples"] == 1 && row["region"] == "global"),
            "{copied:#?}"
        );
    }
    // What became another program has nothing left of the child.
    let fits = [
        ("comm", "acts"),
        ("symbol", "touch"),
        ("region", "anonymous"),
    ];
    assert_eq!(samples(&document, &fits), 100, "{document:#}");
    let callers = json(
        "faults",
        &file,
        &["-F", "comm=acts", "-F", "function=touch"],
    );
    let after = rows(&callers)
        .iter()
        .find(|row| row["faults"] == 100)
        .unwrap();
    assert!(
        after["callers"]
            .as_str()
            .unwrap()
            .starts_with("after_exec ← main"),
        "{after}"
    );
}

#[test]
fn pages_of_a_mapped_file_are_the_files() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let to = acts.builder.path("written");
    let Some(file) = acts.recorded(&FAULTS, &["files", to.to_str().unwrap()]) else {
        return;
    };
    let document = json("report", &file, &["--sort", "symbol,region,dso_daddr"]);
    let fits = [
        ("symbol", "touch"),
        ("region", "file"),
        ("dso_daddr", "written"),
    ];
    let found = samples(&document, &fits);
    // File systems with large folios map several pages at once.
    assert!((1..=64).contains(&found), "{document:#}");
    assert_eq!(
        samples(&document, &[("symbol", "touch")]),
        found,
        "{document:#}"
    );
    let options = ["-g", "-c", "1", "-e", "kmem:rss_stat"];
    let Some(file) = acts.recorded(&options, &["files", to.to_str().unwrap()]) else {
        return;
    };
    let document = json("rss", &file, &[]);
    let row = rows(&document)
        .iter()
        .find(|row| row["function"] == "touch")
        .unwrap();
    assert_eq!(row["memory"], "file", "{row}");
    assert!(
        row["callers"].as_str().unwrap().starts_with("write_file"),
        "{row}"
    );
}

#[test]
fn huge_pages_take_a_fault_for_two_mebibytes() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let Some(file) = acts.recorded(&FAULTS, &["pages"]) else {
        return;
    };
    let document = json("faults", &file, &["-F", "function=touch"]);
    let of = |caller: &str| {
        let mut rows = rows(&document).iter();
        rows.find(|row| row["callers"].as_str().unwrap().starts_with(caller))
            .unwrap()["faults"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(of("small"), 4096, "{document:#}");
    let huge_kib: u64 = acts
        .printed
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    if huge_kib < 16 << 10 {
        eprintln!("skipped: huge pages are not given here ({huge_kib} KiB of 16 MiB)");
        return;
    }
    assert_eq!(of("huge"), 8, "{document:#}");
}

#[test]
fn huge_pages_that_the_kernel_keeps_are_anonymous_memory_with_a_fault_each() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let Some(file) = acts.recorded(&FAULTS, &["hugetlb"]) else {
        return;
    };
    if acts.printed.trim() != "taken" {
        eprintln!("skipped: no huge pages are kept here (sysctl vm.nr_hugepages=8)");
        return;
    }
    let document = json("report", &file, &["--sort", "symbol,region,dso_daddr"]);
    let fits = [("symbol", "reserved"), ("region", "anonymous")];
    assert_eq!(samples(&document, &fits), 8, "{document:#}");
    let document = json("faults", &file, &["-F", "function=reserved"]);
    let row = &rows(&document)[0];
    assert_eq!(
        (&row["faults"], &row["region"]),
        (&8.into(), &"anonymous".into()),
        "{document:#}"
    );
}

/// The C library opens an arena piece by piece with `mprotect`, which the kernel records as a mapping each time.
#[test]
fn arenas_of_threads_that_grow_are_anonymous_memory() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    for event in ["minor-faults", "page-faults"] {
        let options = ["-e", event, "-c", "1"];
        let Some(file) = acts.recorded(&options, &["arenas"]) else {
            return;
        };
        let keys = ["--sort", "region", "-F", "context=user"];
        let document = json("report", &file, &keys);
        // 2 × 40 × 100,000 bytes; huge pages where the kernel gives them are fewer faults.
        let anonymous = samples(&document, &[("region", "anonymous")]);
        assert!(anonymous > 100, "{event}: {document:#}");
        let rows = rows(&document).iter();
        let unknown = rows.filter(|row| row["region"] == "unknown");
        assert_eq!(unknown.count(), 0, "{event}: {document:#}");
    }
}

#[test]
fn waiting_for_a_lock_is_told_by_who_wants_it() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    // Some kernels do not record what the idle task of a CPU does: nobody sees threads come back there. Where it is is chance.
    for _ in 0..4 {
        let Some(file) = acts.recorded(
            &["-a", "-g", "-c", "1", "-e", "sched:sched_switch"],
            &["locks"],
        ) else {
            return;
        };
        let document = json("offcpu", &file, &["-F", "comm=waiter", "--callers", "8"]);
        if document["total"]["without_end"] != 0 || document["total"]["open"] != 0 {
            continue;
        }
        let wanting = rows(&document).iter().filter(|row| {
            row["reason"] == "sleep" && row["callers"].as_str().unwrap().contains("contend")
        });
        let wanting: Vec<&Value> = wanting.collect();
        let spells: u64 = wanting
            .iter()
            .map(|row| row["spells"].as_u64().unwrap())
            .sum();
        let off: f64 = wanting
            .iter()
            .map(|row| row["off_ms"].as_f64().unwrap())
            .sum();
        assert_eq!(spells, 4, "{document:#}");
        assert!(
            off >= 100.0,
            "the holder sleeps four times 30 ms: {document:#}"
        );
        assert!(
            wanting[0]["kernel"].as_str().unwrap().contains("futex"),
            "{document:#}"
        );
        return;
    }
    eprintln!("skipped: switches from the idle task are not recorded here");
}

#[test]
fn breakpoints_tell_who_reads_and_who_writes_neighbours() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let pair = Program::new(&acts.program).linked("pair");
    let read = format!("mem:{pair:#x}/8:rw");
    let written = format!("mem:{:#x}/8:w", pair + 8);
    let Some(file) = acts.recorded(&["-c", "1", "-e", &read, "-e", &written], &["words"]) else {
        return;
    };
    let document = json("report", &file, &["--sort", "comm,symbol,symbol_daddr"]);
    let found: Vec<_> = rows(&document)
        .iter()
        .map(|row| {
            (
                row["comm"].as_str().unwrap(),
                row["symbol"].as_str().unwrap(),
                row["symbol_daddr"].as_str().unwrap(),
                row["samples"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("reader", "get", "pair+0x0", 30),
            ("writer", "put", "pair+0x8", 50)
        ],
        "{document:#}"
    );
}

#[test]
fn a_chase_and_a_stream_are_found_by_their_lines() {
    let Some(mut acts) = Acts::built() else {
        return;
    };
    let Some(file) = acts.recorded(&["-c", "500000", "-e", "cpu-clock"], &["walk"]) else {
        return;
    };
    for function in ["chase", "stream"] {
        let document = json("annotate", &file, &[function]);
        let found = &document["functions"][0];
        let loops = found["lines"].as_array().unwrap().iter().filter(|line| {
            let text = line["text"].as_str().unwrap_or("");
            text.contains("for (long i") || text.contains(&format!("the {function}"))
        });
        let share: f64 = loops.map(|line| line["share"].as_f64().unwrap()).sum();
        assert!(share > 0.9, "{document:#}");
        assert_eq!(found["symbol"], function);
    }
    let folded = text("flamegraph", &file, &["--folded", "-F", "function=chase"]);
    assert!(folded.contains("acts;chase "), "{folded}");
}

#[test]
fn memory_that_stays_is_told_from_memory_that_goes_behind_every_allocator() {
    const CALLS: &str = "syscalls:sys_enter_mmap,syscalls:sys_exit_mmap,syscalls:sys_enter_munmap,\
                         syscalls:sys_enter_mremap,syscalls:sys_exit_mremap";
    for (language, source, args, [keep, leak, churn]) in [
        (C, "acts.c", &["-O2"][..], ["keep", "leak", "churn"]),
        (
            CPP,
            "memory.cpp",
            &["-O2"],
            [
                "store::Kept<store::Block>::keep",
                "store::leak",
                "store::churn",
            ],
        ),
        (
            RUST,
            "memory.rs",
            &["-O"],
            ["memory::keep", "memory::leak", "memory::churn"],
        ),
    ] {
        let Some(mut acts) = Acts::of(language, source, args) else {
            continue;
        };
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "-q",
            "-c",
            "1",
            "-m",
            "1024",
            "--call-graph",
            "dwarf,4096",
            "-e",
            CALLS,
        ]);
        let Some(file) = acts.run(perf, &[], &["memory"]) else {
            return;
        };
        let document = json("allocs", &file, &["-F", "comm=acts"]);
        if document["completeness"]["lost"] != 0 {
            eprintln!("skipped: the machine was too busy to record every call");
            continue;
        }
        let row = |function: &str| {
            let found = rows(&document)
                .iter()
                .find(|row| row["function"] == function);
            found.unwrap_or_else(|| panic!("{source} {function}: {document:#}"))
        };
        let what = |row: &Value| {
            let number = |key: &str| row[key].as_u64().unwrap();
            (
                number("allocations"),
                number("frees"),
                number("live_bytes") >> 20,
                row["pattern"].as_str().unwrap().to_owned(),
            )
        };
        assert_eq!(
            what(row(keep)),
            (16, 0, 16, "growth".to_owned()),
            "{source}"
        );
        assert!(
            row(keep)["callers"].as_str().unwrap().starts_with(leak),
            "{document:#}"
        );
        assert_eq!(
            what(row(churn)),
            (20, 20, 0, "churn".to_owned()),
            "{source}"
        );
    }
}

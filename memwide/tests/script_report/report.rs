//! Sums of `memwide report` against the truth of the files.

use crate::files::{self, ANON, APP, KERNEL, L3, LOADS, One, REMOTE, STORE, STORES, weight};
use crate::run::{fine, memwide};
use memwide_perf_abi::file::{EventSpec, Features};
use memwide_perf_abi::{Attr, FileWriter, SampleFields, misc, sample};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Loads of two kernel functions and of the program, near and far, with and without weight; stores of the program.
fn samples() -> Vec<One<'static>> {
    let mut samples = Vec::new();
    let mut add = |count: usize, event, mode, ip, data_src, weight_of: &dyn Fn(u64) -> u64| {
        for at in 0..count as u64 {
            let base = One::default();
            samples.push(One {
                event,
                misc: mode,
                fields: SampleFields {
                    ip: ip + at % 16,
                    data_src,
                    weight: weight(weight_of(at)),
                    addr: ANON + at * 64,
                    cpu: u32::try_from(at % 4).unwrap(),
                    period: 7,
                    ..base.fields
                },
            });
        }
    };
    add(30, LOADS, misc::KERNEL, KERNEL + 0x1010, L3, &|_| 100);
    add(10, LOADS, misc::KERNEL, KERNEL + 0x1020, REMOTE, &|_| 500);
    add(20, LOADS, misc::KERNEL, KERNEL + 0x2000, L3, &|at| at % 2);
    add(16, LOADS, misc::USER, APP + 0x100, L3, &|_| 40);
    add(24, STORES, misc::USER, APP + 0x2000, STORE, &|_| 0);
    samples
}

struct Made {
    folder: tempfile::TempDir,
    file: PathBuf,
    kallsyms: PathBuf,
}

fn made() -> Made {
    let folder = tempfile::tempdir().unwrap();
    let (file, kallsyms) = (folder.path().join("a.data"), files::kallsyms(folder.path()));
    files::write(&file, &samples());
    Made {
        folder,
        file,
        kallsyms,
    }
}

impl Made {
    fn json(&self, args: &[&str]) -> Value {
        let kallsyms = self.kallsyms.to_str().unwrap();
        let args = [args, &["--format", "json", "--kallsyms", kallsyms]].concat();
        fine("report", &self.file, &args).json()
    }

    /// The columns named of every row.
    fn rows(&self, args: &[&str], columns: &[&str]) -> Vec<Value> {
        pick(&self.json(args), columns)
    }
}

fn pick(document: &Value, columns: &[&str]) -> Vec<Value> {
    let rows = document["rows"].as_array().unwrap();
    let cells = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect());
    cells.collect()
}

#[test]
fn rows_of_symbol_and_mem_have_the_sums_of_the_file() {
    let made = made();
    let document = made.json(&["--sort", "symbol,mem"]);
    let columns = [
        "event",
        "symbol_mode",
        "symbol",
        "mem",
        "samples",
        "weight",
        "perf_weight",
        "period",
    ];
    let rows = pick(&document, &columns);
    let (loads, stores) = ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P");
    let near = "L3 or L3 hit";
    let far = memwide_model::perf_text::level(memwide_model::DataSrc(REMOTE));
    assert_eq!(
        rows[0],
        json!([loads, "k", "clear_page", far, 10, 5000, 5000, 70])
    );
    assert_eq!(
        rows[1],
        json!([loads, "k", "clear_page", near, 30, 3000, 3000, 210])
    );
    // Half of the weights are 0: perf counts each as 1. Its row is smaller than each address's of the program.
    let user = |at: u64| {
        json!([
            loads,
            ".",
            format!("{:#018x}", 0x100 + at),
            near,
            1,
            40,
            40,
            7
        ])
    };
    let expected: Vec<Value> = (0..16).map(user).collect();
    assert_eq!(rows[2..18], expected);
    assert_eq!(
        rows[18],
        json!([loads, "k", "copy_user", near, 20, 10, 20, 140])
    );
    let store = |at: u64, samples: u64| {
        let ip = format!("{:#018x}", 0x2000 + at);
        json!([stores, ".", ip, "L1 hit", samples, 0, samples, 7 * samples])
    };
    let expected: Vec<Value> = (0..8)
        .map(|at| store(at, 2))
        .chain((8..16).map(|at| store(at, 1)))
        .collect();
    assert_eq!(rows[19..], expected);

    let total = &document["total"];
    assert_eq!(
        (&total["samples"], &total["weight"]),
        (&json!(100), &json!(8650))
    );
    assert_eq!(total["perf_weight"], 5000 + 3000 + 20 + 640 + 24);
    assert_eq!(total["events"][0]["perf_weight"], 8660);
    assert_eq!(total["events"][1]["weight"], 0);
    let overhead = document["rows"][0]["overhead"].as_f64().unwrap();
    assert!((overhead - 5000.0 / 8660.0).abs() < 1e-12, "{overhead}");
    assert_eq!(document["completeness"]["lost_samples"], 5);
    assert_eq!(document["completeness"]["samples"], 100);
}

#[test]
fn every_row_says_how_sure_it_is_and_what_that_rests_on() {
    let document = made().json(&["--sort", "symbol"]);
    for row in document["rows"].as_array().unwrap() {
        let (overhead, low, high) = (&row["overhead"], &row["ci95"][0], &row["ci95"][1]);
        let [overhead, low, high] = [overhead, low, high].map(|value| value.as_f64().unwrap());
        assert!(
            0.0 <= low && low <= overhead && overhead <= high && high <= 1.0,
            "{row}"
        );
        assert_eq!(row["ci_basis"], "sampling_only");
    }
}

#[test]
fn shares_of_an_event_add_up_to_one_by_every_estimator() {
    let made = made();
    for by in ["perf_weight", "weight", "samples", "period"] {
        let rows = made.rows(
            &["--sort", "symbol,cpu", "--by", by],
            &["event", "overhead"],
        );
        let share = |event: &str| -> f64 {
            let of_event = rows.iter().filter(|row| row[0] == event);
            of_event.map(|row| row[1].as_f64().unwrap_or(0.0)).sum()
        };
        assert!(
            (share("cpu/mem-loads,ldlat=30/P") - 1.0).abs() < 1e-9,
            "{by}"
        );
        // All weights of the stores are 0: nothing to share.
        let stores = if by == "weight" { 0.0 } else { 1.0 };
        assert!((share("cpu/mem-stores/P") - stores).abs() < 1e-9, "{by}");
    }
}

#[test]
fn every_key_spreads_all_samples() {
    let made = made();
    let keys = [
        "symbol",
        "mem",
        "dso",
        "comm",
        "pid",
        "tid",
        "cpu",
        "node",
        "symbol_daddr",
        "dso_daddr",
        "snoop",
        "tlb",
        "locked",
        "blocked",
        "dcacheline",
        "local_weight",
        "event",
        "context",
        "op",
        "level",
        "outcome",
        "locality",
        "region",
    ];
    for key in keys {
        let rows = made.rows(&["--sort", key], &["samples", key]);
        let sum: u64 = rows.iter().map(|row| row[0].as_u64().unwrap()).sum();
        assert_eq!(sum, 100, "{key}");
        assert!(
            rows.iter().all(|row| row[1] != "" && !row[1].is_null()),
            "{key}: {rows:?}"
        );
    }
    let all = keys.join(",");
    let rows = made.rows(&["--sort", &all], &["samples"]);
    assert_eq!(
        rows.iter().map(|row| row[0].as_u64().unwrap()).sum::<u64>(),
        100
    );
}

#[test]
fn keys_show_what_the_samples_say() {
    let made = made();
    for (key, expected) in [
        (
            "dso",
            json!(["[kernel.kallsyms]", 60, "app", 16, "app", 24]),
        ),
        ("comm", json!(["worker \"1\"", 76, "worker \"1\"", 24])),
        (
            "dso_daddr",
            json!(["[unknown]", 60, "anon", 16, "anon", 24]),
        ),
        ("op", json!(["load", 76, "store", 24])),
        ("locality", json!(["local", 66, "remote", 10, "local", 24])),
        ("region", json!(["anonymous", 76, "anonymous", 24])),
    ] {
        let rows = made.rows(&["--sort", key, "--by", "samples"], &[key, "samples"]);
        let flat: Vec<Value> = rows
            .iter()
            .flat_map(|row| row.as_array().unwrap().clone())
            .collect();
        assert_eq!(Value::from(flat), expected, "{key}");
    }
    let nodes = made.rows(
        &["--sort", "node", "-F", "event=cpu/mem-stores/P"],
        &["node", "samples"],
    );
    assert_eq!(
        nodes,
        [json!([0, 12]), json!([1, 12])],
        "CPUs 0 and 1 are node 0"
    );
}

#[test]
fn filters_choose_samples() {
    let made = made();
    for (filters, samples) in [
        (&["locality=remote"][..], 10),
        (&["function=copy_user", "function=clear_page"], 60),
        (&["dso=app", "op=load"], 16),
        (&["dso=/nowhere/app"], 40),
        (&["cpu=3", "event=cpu/mem-stores/P"], 6),
        (&["pid=1"], 0),
        (&["context=user"], 40),
    ] {
        let args: Vec<&str> = filters.iter().flat_map(|filter| ["-F", filter]).collect();
        assert_eq!(made.json(&args)["total"]["samples"], samples, "{filters:?}");
    }
}

#[test]
fn a_table_reads_like_perfs_and_csv_has_the_same_rows() {
    let made = made();
    let args = [
        "--kallsyms",
        made.kallsyms.to_str().unwrap(),
        "--limit",
        "2",
    ];
    let table = fine("report", &made.file, &args).out;
    assert!(
        table.contains("[k] clear_page") && table.contains("57.7 %"),
        "{table}"
    );
    assert!(table.contains("2 of 35 rows shown"), "{table}");
    assert!(
        table.contains("cpu/mem-loads,ldlat=30/P: 76 samples, total weight 8660"),
        "{table}"
    );
    assert!(table.contains("5 samples dropped"), "{table}");
    let csv = fine(
        "report",
        &made.file,
        &[&args[..], &["--format", "csv"]].concat(),
    )
    .out;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(
        lines[0].starts_with("event,symbol,symbol_mode,mem,samples,weight,perf_weight,period,"),
        "{csv}"
    );
    assert!(
        lines[2].starts_with(
            "\"cpu/mem-loads,ldlat=30/P\",clear_page,k,L3 or L3 hit,30,3000,3000,210,"
        ),
        "{csv}"
    );
}

#[test]
fn wrong_usage_names_what_works() {
    let file = Path::new("/nonexistent");
    for (args, part) in [
        (&["--sort", "cost"][..], "symbol_daddr"),
        (&["--by", "fun"], "perf_weight"),
        (&["-F", "host=a"], "build_id"),
        (&["-F", "locality"], "KEY=VALUE"),
        (&["--since", "-1h"], "a file is summed up whole"),
    ] {
        let ran = memwide("report", file, args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_server_is_asked_only_what_it_can_answer() {
    let ask = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_memwide"))
            .args(["report", "--server", "http://127.0.0.1:1"])
            .args(args)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = ask(&["--sort", "symbol,mem"]);
    assert!(
        code == Some(64) && text.contains("symbol,dso,event"),
        "{text}"
    );
    let (code, text) = ask(&[]);
    assert!(
        code == Some(1) && text.contains("no answer from http://127.0.0.1:1"),
        "{text}"
    );
}

#[test]
fn a_file_without_samples_gives_no_rows() {
    let made = made();
    let empty = made.folder.path().join("none.data");
    files::write(&empty, &[]);
    let document = fine("report", &empty, &["--format", "json"]).json();
    assert_eq!(document["rows"], json!([]));
    assert_eq!(document["total"]["samples"], 0);
}

/// Samples and names of the levels, each with its sum and that of the levels below.
fn check_levels(levels: &Value, whole: u64) {
    let levels = levels.as_array().unwrap();
    let samples = |level: &Value| level["samples"].as_u64().unwrap();
    assert_eq!(levels.iter().map(samples).sum::<u64>(), whole, "{levels:?}");
    for level in levels.iter().filter(|level| level.get("levels").is_some()) {
        check_levels(&level["levels"], samples(level));
    }
}

#[test]
fn levels_add_up_to_what_they_are_in() {
    let document = made().json(&["--hierarchy", "--sort", "dso,symbol,local_weight"]);
    let events = document["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    check_levels(&events[0]["levels"], 76);
    check_levels(&events[1]["levels"], 24);
    let kernel = &events[0]["levels"][0];
    assert_eq!(
        (&kernel["dso"], &kernel["samples"]),
        (&json!("[kernel.kallsyms]"), &json!(60))
    );
    // Two functions of the kernel, the first with two weights.
    let functions = kernel["levels"].as_array().unwrap();
    assert_eq!(functions.len(), 2);
    assert_eq!(functions[0]["samples"], 40);
    assert_eq!(functions[0]["levels"].as_array().unwrap().len(), 2);
    assert_eq!(functions[0]["levels"][0]["perf_weight"], 5000);
}

#[test]
fn what_cannot_be_summed_is_said_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain.data");
    let event = EventSpec {
        attr: Attr {
            sample_type: sample::IP | sample::TID,
            ..Attr::default()
        },
        name: "cycles".to_owned(),
        ids: vec![1],
    };
    let writer = FileWriter::new(File::create(&file).unwrap(), &[event]).unwrap();
    writer.finish(&Features::default()).unwrap();
    let ran = memwide("report", &file, &["--by", "weight"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
    assert!(ran.err.contains("--by samples"), "{}", ran.err);
}

#[test]
fn an_empty_answer_says_why() {
    let made = made();
    let ran = fine("report", &made.file, &["-F", "comm=nobody"]);
    let said = "none of the file's 100 samples fits the filter";
    assert!(ran.out.contains(said), "{}", ran.out);
}

#[test]
fn a_filter_that_can_never_fit_and_a_sort_without_a_key_are_wrong_usage() {
    let made = made();
    for (args, said) in [
        (["-F", "pid=abc"], "`pid` is a number, not `abc`"),
        (["-F", "tid="], "`tid` is a number"),
        (["-F", "build_id=xyz"], "`build_id` is hexadecimal digits"),
        (["--sort", ""], "--sort names no key"),
    ] {
        let ran = memwide("report", &made.file, &args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    let unknown = memwide("report", &made.file, &["-F", "cpu=N/A"]);
    assert_eq!(unknown.code, Some(0), "as tables print it: {}", unknown.err);
}

#[test]
fn a_row_names_the_variable_of_its_own_samples() {
    let made = made();
    // The program has nothing mapped there, the kernel has.
    let at = |mode| {
        let base = One::default();
        let fields = SampleFields {
            addr: KERNEL + 0x1010,
            ..base.fields
        };
        One {
            misc: mode,
            fields,
            ..base
        }
    };
    files::write(
        &made.file,
        &[at(misc::USER), at(misc::KERNEL), at(misc::KERNEL)],
    );
    // The address is the same in both rows.
    let rows = made.rows(
        &["--sort", "dso_daddr,symbol_daddr", "--by", "samples"],
        &["symbol_daddr", "symbol_daddr_mode", "samples"],
    );
    assert_eq!(
        rows,
        [
            json!(["clear_page+0x10", "k", 2]),
            json!(["0xffffffff81001010", ".", 1])
        ]
    );
    for (value, samples) in [("[k] clear_page+0x10", 2), ("[.] 0xffffffff81001010", 1)] {
        let filter = format!("symbol_daddr={value}");
        let rows = made.rows(&["--sort", "symbol_daddr", "-F", &filter], &["samples"]);
        assert_eq!(rows, [json!([samples])], "{value}");
    }
}

//! Made-up accesses at the places that programs name themselves: every command must find them by function, line and datum, in
//! every build, and name nothing that cannot be known.

use crate::builds::{
    Built, Names, OF_C, OF_CLANG, OF_CLANG_CPP, OF_CPP, OF_GO, OF_LLD, OF_RUST, Table, all,
};
use crate::run::{json, perf, rows, text};
use memwide_model::DataSrc;
use memwide_model::data_src::{lock, lvl, op, snoop};
use memwide_tests::programs::{Builder, C, Place, Told, sources};
use serde_json::Value;
use std::collections::BTreeMap;

const LOAD: DataSrc = DataSrc(0).with_op(op::LOAD);
const L1: DataSrc = LOAD.with_lvl(lvl::HIT | lvl::L1);
const FAR: DataSrc = LOAD.with_lvl(lvl::HIT | lvl::REM_RAM1);
const HITM: DataSrc = LOAD.with_lvl(lvl::HIT | lvl::L3).with_snoop(snoop::HITM);
const STORE: DataSrc = DataSrc(0).with_op(op::STORE).with_lvl(lvl::HIT | lvl::L1);

/// Role, accesses, thread, word, latency: a pointer chase in far memory, a stream from the first level, one thread that reads
/// what shares a line with what another writes, the same with padding between, a lock both take, and places of every kind.
const ACCESSES: [(&str, u64, u32, u64, u64); 14] = [
    ("chase", 40, 1, FAR.0, 400),
    ("stream", 100, 1, L1.0, 8),
    ("false-read", 30, 1, HITM.0, 300),
    ("false-write", 20, 2, STORE.0, 10),
    ("padded-read", 10, 1, L1.0, 10),
    ("padded-write", 10, 2, STORE.0, 10),
    ("lock", 5, 1, HITM.with_lock(lock::LOCKED).0, 100),
    ("lock", 5, 2, HITM.with_lock(lock::LOCKED).0, 100),
    ("local-static", 3, 1, L1.0, 5),
    ("stack", 3, 1, L1.0, 5),
    ("heap", 3, 1, L1.0, 5),
    ("thread-local", 3, 1, L1.0, 5),
    ("anonymous", 3, 1, L1.0, 5),
    ("file", 3, 1, L1.0, 5),
];

fn count(role: &str) -> u64 {
    let of_role = ACCESSES.iter().filter(|row| row.0 == role);
    of_role.map(|row| row.1).sum()
}

/// What clang puts before the local variable of C that lives for ever.
const CLANG_STATIC: &str = "places.";

/// A name with the same word for the first and second lambda of whatever compiler: `{lambda(long)#1}` and `$_0`.
fn lambdas(name: &str) -> String {
    let mut name = name.to_owned();
    for number in 1..3 {
        let word = format!("lambda-{number}");
        name = name.replace(&format!("$_{}", number - 1), &word);
        let end = format!(")#{number}}}");
        if let (Some(start), Some(at)) = (name.find("{lambda("), name.find(&end)) {
            name.replace_range(start..at + end.len(), &word);
        }
    }
    name
}

/// A name without what compilers put behind it: parts and clones of functions, numbers of local variables, type arguments,
/// and one word for closures.
fn plain(name: &str) -> String {
    let name = name.replace("{{closure}}", "CLOSURE");
    let name = name.replace("{closure#0}", "CLOSURE");
    let name = lambdas(name.strip_prefix(CLANG_STATIC).unwrap_or(&name));
    let (name, offset) = name.split_once('+').unwrap_or((&name, ""));
    let clones = [
        ".constprop.",
        ".isra.",
        ".part.",
        ".lto_priv.",
        ".cold",
        "::<",
        "[",
        ".0",
        ".1",
        ".2",
    ];
    let end = clones.iter().filter_map(|mark| name.find(mark)).min();
    let name = &name[..end.unwrap_or(name.len())];
    if offset.is_empty() || name == "fleet::operator" {
        name.to_owned()
    } else {
        format!("{name}+{offset}")
    }
}

impl Built {
    fn args(&self) -> Vec<&str> {
        let symfs = self
            .symfs
            .iter()
            .flat_map(|root| ["--symfs", root.to_str().unwrap()]);
        symfs.collect()
    }

    fn json(&self, command: &str, args: &[&str]) -> Value {
        json(command, &self.file, &[&self.args()[..], args].concat())
    }

    /// What a function is called in this build; `None` where it cannot be known.
    fn function(&self, place: &Place) -> Option<String> {
        (self.build.names != Names::None).then(|| plain(&place.outer))
    }

    /// What a datum is called in this build.
    fn datum(&self, place: &Place) -> Option<String> {
        let is_named = !["-", "[heap]", "[stack]"].contains(&&*place.datum);
        (is_named && self.build.names == Names::All).then(|| plain(&place.datum))
    }

    /// Each sample for itself: function, line, inlined functions, datum, kind of memory.
    fn check_samples(&self) {
        let text = text(
            "script",
            &self.file,
            &[
                &self.args()[..],
                &["--format", "ndjson", "-F", "+srcline,+inline"],
            ]
            .concat(),
        );
        let mut seen = BTreeMap::new();
        for line in text.lines() {
            let sample: Value = serde_json::from_str(line).unwrap();
            let ip = hex(&sample["ip"]);
            let places = self.told.places.iter();
            let place = places.clone().find(|place| place.ip == ip).unwrap();
            *seen.entry(place.role.clone()).or_insert(0_u64) += 1;
            let what = format!("{} {place:?}: {sample:#}", self.build.name);
            assert_eq!(
                sample["symbol"].as_str().map(plain),
                self.function(place),
                "{what}"
            );
            let datum = sample["data_symbol"].as_str().map(|symbol| {
                match sample["data_symbol_offset"].as_u64() {
                    None | Some(0) => plain(symbol),
                    Some(offset) => format!("{}+{offset:#x}", plain(symbol)),
                }
            });
            assert_eq!(datum, self.datum(place), "{what}");
            self.check_source(place, &sample, &what);
            let region = sample["region"].as_str().unwrap();
            let expected: &[&str] = match (&*place.role, &*place.datum) {
                (_, "[heap]") => &["heap"],
                (_, "[stack]") => &["stack"],
                ("file", _) => &["file"],
                (_, "-") => &["anonymous", "heap"],
                _ if self.build.names == Names::All => &["global"],
                _ => &["global", "file", "anonymous"],
            };
            assert!(expected.contains(&region), "{what}");
        }
        for place in &self.told.places {
            assert_eq!(
                seen.get(&place.role),
                Some(&count(&place.role)),
                "{}",
                self.build.name
            );
        }
    }

    fn check_source(&self, place: &Place, sample: &Value, what: &str) {
        if !self.build.lines {
            assert!(sample.get("source").is_none(), "{what}");
            return;
        }
        assert_eq!(sample["srcline"], *place.line, "{what}");
        let frames = sample["source"].as_array().unwrap();
        let function = |frame: &Value| plain(frame["function"].as_str().unwrap());
        // Of what is local to a file the debug information has no linked name, only its own.
        let is = |frame: &Value, name: &str| {
            let (told, name) = (function(frame), plain(name));
            assert!(
                name == told || name.ends_with(&format!("::{told}")),
                "{told} {what}"
            );
        };
        is(&frames[0], &place.function);
        is(frames.last().unwrap(), &place.outer);
        assert_eq!(frames.len() > 1, place.function != place.outer, "{what}");
    }

    /// Sums by function: counts, levels, latencies.
    fn check_report(&self) {
        let document = self.json("report", &["--sort", "symbol,level,locality"]);
        let mut ours = BTreeMap::new();
        for row in rows(&document) {
            let name = plain(row["symbol"].as_str().unwrap());
            let samples = row["samples"].as_u64().unwrap();
            *ours.entry(name.clone()).or_insert(0) += samples;
            if Some(&name) == self.function(self.told.place("chase")).as_ref() {
                let found = (
                    row["level"].as_str(),
                    row["locality"].as_str(),
                    row["weight"].as_u64(),
                );
                assert_eq!(found, (Some("RAM"), Some("remote"), Some(16_000)), "{row}");
            }
        }
        if self.build.names == Names::None {
            assert!(ours.keys().all(|name| name.starts_with("0x")), "{ours:?}");
            return;
        }
        let mut expected = BTreeMap::new();
        for place in &self.told.places {
            *expected.entry(plain(&place.outer)).or_insert(0) += count(&place.role);
        }
        assert_eq!(ours, expected, "{}", self.build.name);
    }

    /// One line is shared falsely, one truly, padding is neither.
    fn check_sharing(&self) {
        let document = self.json("c2c", &[]);
        let lines = document["lines"].as_array().unwrap();
        let line_of = |role: &str| self.told.place(role).addr & !63;
        let found: Vec<_> = lines
            .iter()
            .map(|line| {
                let verdict = line["verdict"]["kind"].as_str().unwrap();
                (
                    hex(&line["address"]),
                    line["hitm"].as_u64().unwrap(),
                    verdict,
                )
            })
            .collect();
        let expected = [
            (line_of("false-read"), 30, "false sharing"),
            (line_of("lock"), 10, "true sharing"),
        ];
        assert_eq!(found, expected, "{}: {document:#}", self.build.name);
        let verdict = &lines[0]["verdict"];
        for (part, role, thread) in [("victim", "false-read", 1), ("writer", "false-write", 2)] {
            let place = self.told.place(role);
            let part = &verdict[part];
            if let Some(function) = self.function(place) {
                assert_eq!(
                    plain(part["function"].as_str().unwrap()),
                    function,
                    "{part}"
                );
            }
            assert_eq!(part["thread"], self.told.process.pid + thread, "{part}");
            assert_eq!(part["offset"], place.addr % 64, "{part}");
        }
        if let Some(datum) = self.datum(self.told.place("false-read")) {
            let name = datum.split('+').next().unwrap();
            assert!(
                plain(lines[0]["data"].as_str().unwrap()).starts_with(name),
                "{}",
                lines[0]
            );
        }
    }

    /// The guilty line of the function that waits most.
    fn check_annotate(&self) {
        let place = self.told.place("chase");
        if self.build.names == Names::None {
            let document = self.json("annotate", &[]);
            assert_eq!(
                document["functions"].as_array().unwrap().len(),
                0,
                "{document:#}"
            );
            return;
        }
        let document = self.json("annotate", &["--limit", "1"]);
        let function = &document["functions"][0];
        assert_eq!(
            plain(function["symbol"].as_str().unwrap()),
            plain(&place.outer),
            "{document:#}"
        );
        let instruction = &function["instructions"][0];
        assert_eq!(instruction["samples"], 40, "{function:#}");
        assert_eq!(instruction["served"]["remote"], 40, "{function:#}");
        if cfg!(target_arch = "x86_64") {
            let text = instruction["instruction"].as_str().unwrap();
            assert!(
                text.starts_with("lea") || text.starts_with("mov") || text.starts_with("call"),
                "{text}"
            );
        }
        if self.build.lines {
            let line = &function["lines"][0];
            let at = format!(
                "{}:{}",
                line["file"].as_str().unwrap().rsplit('/').next().unwrap(),
                line["line"]
            );
            assert_eq!(at, place.line, "{function:#}");
            assert!(
                line["text"].as_str().unwrap().contains("\"chase\""),
                "{line}"
            );
        }
    }

    /// Callers, where the program could tell them.
    fn check_paths(&self) {
        let folded = text(
            "flamegraph",
            &self.file,
            &[&self.args()[..], &["--folded"]].concat(),
        );
        let comm = &self.told.process.comm;
        for place in self.told.places.iter().filter(|place| place.caller != 0) {
            if self.build.names != Names::All
                || place.outer == "main"
                || plain(&place.outer).contains("lambda")
            {
                continue;
            }
            let mut expected = vec![plain(comm), "main".to_owned(), plain(&place.outer)];
            if self.build.lines && place.function != place.outer {
                expected.push(format!("{} (inlined)", plain(&place.function)));
            }
            let found = folded.lines().filter(|line| {
                let frames: Vec<String> = line
                    .rsplit_once(' ')
                    .unwrap()
                    .0
                    .split(';')
                    .map(plain)
                    .collect();
                frames == expected
            });
            assert_eq!(
                found.count(),
                1,
                "{}: {place:?} in {folded}",
                self.build.name
            );
        }
    }

    /// Functions and data by perf, on the same file.
    fn check_perf(&self) {
        if self.symfs.is_some() || self.build.names == Names::Functions {
            return;
        }
        let args = [
            "report",
            "--stdio",
            "--mem-mode",
            "-g",
            "none",
            "-t",
            "\u{1}",
            "-s",
            "sym,symbol_daddr",
            "-F",
            "sample,sym,symbol_daddr",
        ];
        let Some(text) = perf(&args, &self.file) else {
            return;
        };
        let mut theirs = Counts::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let [samples, function, datum, ..] =
                *line.split('\u{1}').map(str::trim).collect::<Vec<_>>()
            {
                theirs.add(
                    function.to_owned(),
                    datum.to_owned(),
                    samples.parse().unwrap(),
                );
            }
        }
        let document = self.json("report", &["--sort", "symbol,symbol_daddr"]);
        let mut ours = Counts::default();
        for row in rows(&document) {
            let text = |key: &str, mode: &str| {
                format!(
                    "[{}] {}",
                    row[mode].as_str().unwrap(),
                    row[key].as_str().unwrap()
                )
            };
            let (function, datum) = (
                text("symbol", "symbol_mode"),
                text("symbol_daddr", "symbol_daddr_mode"),
            );
            ours.add(function, datum, row["samples"].as_u64().unwrap());
        }
        assert_eq!(ours.functions, theirs.functions, "{}", self.build.name);
        for (datum, samples) in &theirs.data {
            // perf names nothing in memory that no file backs, as most of `.bss` is.
            let is_address = datum.starts_with("[.] 0x");
            assert!(
                is_address || ours.data.get(datum) == Some(samples),
                "{} {datum}: {ours:?}",
                self.build.name
            );
        }
    }
}

/// Samples by function and by datum, as a report names them.
#[derive(Debug, Default)]
struct Counts {
    functions: BTreeMap<String, u64>,
    data: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, function: String, datum: String, samples: u64) {
        *self.functions.entry(function).or_default() += samples;
        *self.data.entry(datum).or_default() += samples;
    }
}

fn hex(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn check(table: &Table) {
    let (_builder, built) = all(table);
    for one in &built {
        one.told.write(&one.file, &ACCESSES);
        one.check_samples();
        one.check_report();
        one.check_sharing();
        one.check_annotate();
        one.check_paths();
        one.check_perf();
    }
}

#[test]
fn c_programs_are_told_right_in_every_build() {
    check(&OF_C);
}

#[test]
fn what_was_built_again_after_the_recording_is_not_named_by_its_new_symbols() {
    let builder = Builder::new(&sources());
    let build = |args: &[&str]| builder.compile(C, "truth.c", "program", args);
    let Some(program) = build(&["-O2", "-Wl,--build-id=none"]) else {
        return;
    };
    let told = Told::by(&program, &[builder.path("mapped").to_str().unwrap()]);
    let file = builder.path("program.data");
    told.write(&file, &ACCESSES);
    let document = || json("report", &file, &["--sort", "symbol"]);
    let names = |document: &Value| -> Vec<String> {
        let rows = rows(document).iter();
        rows.map(|row| row["symbol"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(names(&document()).contains(&"chase".to_owned()));
    build(&["-O0", "-Wl,--build-id=none"]).unwrap();
    let now = names(&document());
    assert!(now.iter().all(|name| name.starts_with("0x")), "{now:?}");
}

#[test]
fn cpp_programs_are_told_right_in_every_build() {
    check(&OF_CPP);
}

#[test]
fn programs_linked_by_lld_are_told_right_in_every_build() {
    check(&OF_LLD);
}

#[test]
fn c_programs_of_clang_are_told_right_in_every_build() {
    check(&OF_CLANG);
}

#[test]
fn cpp_programs_of_clang_are_told_right_in_every_build() {
    check(&OF_CLANG_CPP);
}

#[test]
fn rust_programs_are_told_right_in_every_build() {
    check(&OF_RUST);
}

#[test]
fn go_programs_are_told_right_in_every_build() {
    check(&OF_GO);
}

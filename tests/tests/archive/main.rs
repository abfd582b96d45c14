//! Raw batches kept in files, and whole days decoded again: names and classes change, totals do not (`docs/archive.md`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

#[cfg(test)]
mod bucket;

use memwide_aggregator::{NatsConfig, Sinks};
use memwide_service::config::Secret;
use memwide_service::{CancellationToken, clock};
use memwide_simulator::Fleet;
use memwide_store::engine;
use memwide_tests::{Deployment, Up, UpOptions, memwide, tools_missing, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Something that takes services seconds; slow machines under load included.
const SOON: Duration = Duration::from_mins(2);

const DAY_NS: u64 = 86_400_000_000_000;

/// Tables with all samples, and what counts them.
const TABLES: [(&str, &str); 6] = [
    ("samples", "count()"),
    ("mix_1m", "sum(n)"),
    ("fleet_1h", "sum(n)"),
    ("functions_1h", "sum(n)"),
    ("data_1h", "sum(n)"),
    ("fleet_1d", "sum(n)"),
];

fn skip() -> bool {
    let missing = tools_missing();
    if let Some(missing) = &missing {
        eprintln!("skipped: {missing}");
    }
    missing.is_some()
}

/// A deployment whose decoders archive.
struct Archived {
    deployment: Deployment,
    key: Option<PathBuf>,
    /// Where the archive goes up, and how that is reached.
    url: Option<(String, [(&'static str, String); 5])>,
    /// Samples sent so far.
    sent: std::cell::Cell<u64>,
}

impl Archived {
    fn start(key: Option<&str>) -> Self {
        let mut deployment = Deployment::start();
        let folder = deployment.folder().to_owned();
        let mut keys = format!("archive_dir = '{}'\n", folder.join("archive").display());
        let key = key.map(|digits| {
            let file = folder.join("archive.key");
            std::fs::write(&file, format!("{digits}\n")).unwrap();
            keys += &format!("archive_key_file = '{}'\n", file.display());
            file
        });
        // The first one never waits for symbols, and so never asks for them.
        deployment.configure("decoder-1", &format!("{keys}symbol_wait_ms = 0\n"));
        deployment.configure("decoder-2", &keys);
        Self {
            deployment,
            key,
            url: None,
            sent: std::cell::Cell::new(0),
        }
    }

    fn archive(&self) -> PathBuf {
        self.deployment.folder().join("archive")
    }

    /// Sends batches that end at a moment and waits until they are rows of every table.
    fn send(&self, decoder: &str, fleet: &Fleet, until_ns: u64) {
        let endpoint = self.deployment.endpoint(decoder);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let sent = runtime.block_on(async {
            let sending = fleet.send_until(&endpoint, 6, until_ns, CancellationToken::new());
            tokio::time::timeout(SOON, sending).await
        });
        sent.unwrap().unwrap();
        let made = fleet.truth().samples(|_| true);
        self.sent.set(self.sent.get() + made);
        self.closed();
    }

    /// Waits until everything sent is stored and its hours are closed.
    fn closed(&self) {
        let open = "SELECT count() FROM samples AS s LEFT JOIN (SELECT part, max(closed_through) AS through \
                    FROM closes_of_calls GROUP BY part) AS c ON c.part = s.part WHERE s.ingested > c.through";
        let stored = "SELECT sum(records) FROM ledger_1m WHERE reason = 'stored'";
        until("all is stored and closed", SOON, || {
            self.number(stored) == self.sent.get() && self.number(open) == 0
        });
    }

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let rows = self.deployment.sql(sql);
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn number(&self, sql: &str) -> u64 {
        let rows = self.rows(sql);
        rows[0][0]
            .parse()
            .unwrap_or_else(|_| panic!("{sql}: {rows:?}"))
    }

    /// Totals by host and minute, hour or day, and all of the ledger that does not depend on names.
    fn totals(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for (table, n) in TABLES {
            let (host, time) = match table {
                "fleet_1h" | "fleet_1d" => ("''", "time"),
                "samples" => ("host", "toStartOfMinute(time)"),
                _ => ("host", "time"),
            };
            all.extend(self.rows(&format!(
                "SELECT '{table}', {host} AS h, {time} AS t, {n} FROM {table} GROUP BY h, t ORDER BY h, t"
            )));
        }
        all.extend(self.rows(
            "SELECT host, source_id, time, event, reason, sum(records), sum(seconds) FROM ledger_1m \
             WHERE reason NOT IN ('unresolved', 'nameless', 'partial') GROUP BY ALL ORDER BY ALL",
        ));
        all.extend(self.rows(
            "SELECT 'functions', host, time, sum(samples), sum(weight) FROM functions GROUP BY ALL ORDER BY ALL",
        ));
        all
    }

    /// How samples are classified, in every table that says so.
    fn classes(&self) -> Vec<Vec<String>> {
        let each = [
            ("samples", "count()"),
            ("mix_1m", "sum(n)"),
            ("functions_1h", "sum(n)"),
        ];
        let of = |(table, n): (&str, &str)| {
            self.rows(&format!(
                "SELECT '{table}', level, outcome, locality, {n} FROM {table} GROUP BY ALL ORDER BY ALL"
            ))
        };
        each.into_iter().flat_map(of).collect()
    }

    /// Makes rows of a day what a decoder of an older taxonomy would have made of them.
    fn make_old(&self, day: &str) {
        for table in ["samples", "mix_1m", "functions_1h"] {
            let version = if table == "samples" {
                ", '0.0.1+taxonomy.0' AS decoder_version"
            } else {
                ""
            };
            self.rows(&format!("CREATE TABLE old AS {table}"));
            self.rows(&format!(
                "INSERT INTO old SELECT * REPLACE(CAST('unknown', toTypeName(level)) AS level{version}) FROM {table} \
                 WHERE toDate(time) = '{day}'"
            ));
            self.rows(&format!(
                "ALTER TABLE {table} REPLACE PARTITION '{day}' FROM old"
            ));
            self.rows("DROP TABLE old SYNC");
        }
    }

    fn command(&self, days: &[&str], more: &[&str]) -> Command {
        let folder = self.deployment.folder();
        let (nats, token) = self.deployment.nats();
        let mut text = format!(
            "store = '{}'\nsymbol_dir = '{}'\narchive_dir = '{}'\n",
            self.deployment.store_url(engine::WRITER),
            folder.join("symbols").display(),
            self.archive().display()
        );
        if let Some(key) = &self.key {
            text += &format!("archive_key_file = '{}'\n", key.display());
        }
        let mut command = Command::new(memwide());
        if let Some((url, variables)) = &self.url {
            text += &format!("archive_url = '{url}'\n");
            command.envs(variables.clone());
        }
        text += &format!("[nats]\nurl = '{nats}'\ntoken = '{token}'\n");
        let config = folder.join("redecode.toml");
        std::fs::write(&config, text).unwrap();
        command
            .args(["redecode", "--format", "json", "--config"])
            .arg(config)
            .args(days.iter().flat_map(|day| ["--day", day]))
            .args(more);
        command
    }

    fn redecode(&self, days: &[&str], more: &[&str]) -> (Option<i32>, serde_json::Value, String) {
        let output = self.command(days, more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), json, said)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.archive()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        files.sort();
        files
    }
}

fn day_of(ns: u64) -> String {
    memwide_decoder::archive::Day::of(ns).to_string()
}

/// Noon of the day before today, so that no test meets midnight.
fn yesterday_ns() -> u64 {
    clock::unix_ns() / DAY_NS * DAY_NS - DAY_NS / 2
}

fn verify(archive: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(memwide());
    command
        .args(["archive", "verify", "--format", "json"])
        .arg(archive);
    command.args(more).output().unwrap()
}

#[test]
fn a_day_decoded_again_has_the_names_and_classes_of_now_and_its_totals() {
    if skip() {
        return;
    }
    let archived = Archived::start(None);
    let (at, day) = (yesterday_ns(), day_of(yesterday_ns()));
    let without = Fleet::new("without", 2, &[0], 300, 1);
    archived.send("decoder-1", &without, at);
    let unresolved =
        "SELECT sum(records) FROM ledger_1m WHERE reason IN ('unresolved', 'nameless')";
    let made = without.truth().samples(|_| true);
    assert_eq!(
        archived.number(unresolved),
        made,
        "no symbols are there yet"
    );
    // Symbols come with another host, later.
    let with = Fleet::new("with", 1, &[], 300, 2);
    archived.send("decoder-2", &with, at);
    let (totals, classes) = (archived.totals(), archived.classes());
    archived.make_old(&day);
    one_run_at_a_time(&archived, &day);
    assert_ne!(archived.classes(), classes);
    assert_eq!(archived.totals(), totals);

    let begin = Instant::now();
    let (code, answer, said) = archived.redecode(&[&day], &["--dry-run"]);
    let took = begin.elapsed();
    assert_eq!(
        (code, &answer[0]["outcome"]),
        (Some(0), &"would be replaced".into()),
        "{said}"
    );
    assert_ne!(archived.classes(), classes, "nothing has changed yet");

    // Killed at any moment, nothing is counted twice or lost, and it can be run again.
    for tenths in [2, 6, 9, 10, 11, 12, 13, 14] {
        let mut running = archived
            .command(&[&day], &[])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(took * tenths / 10);
        running.kill().unwrap();
        running.wait().unwrap();
        let killed = format!("killed after {tenths} tenths of the time without replacing");
        assert_eq!(archived.totals(), totals, "{killed}");
    }
    let (code, answer, said) = archived.redecode(&[&day], &[]);
    assert_eq!(code, Some(0), "{said}");
    let all = made + with.truth().samples(|_| true);
    let [row] = answer.as_array().unwrap().as_slice() else {
        panic!("{answer}");
    };
    assert_eq!(row["outcome"], "replaced");
    assert_eq!((&row["sources"], &row["samples"]), (&3.into(), &all.into()));
    assert_eq!(row["nameless_after"], 0);

    assert_eq!(archived.totals(), totals);
    assert_eq!(archived.classes(), classes);
    assert_eq!(archived.number(unresolved), 0);
    let old = "SELECT count() FROM samples WHERE decoder_version LIKE '0.0.1%'";
    assert_eq!(archived.number(old), 0);
    for (key, samples) in without.truth().rows() {
        let (function, event) = (key.function, key.event);
        let host = &without.names()[key.host];
        let of = format!(
            "FROM samples AS s LEFT JOIN function_names AS f ON f.function_id = s.function_id \
             WHERE s.host = '{host}' AND f.function = '{function}' AND s.event = '{event}'"
        );
        let counted = without.truth().samples(|other| {
            (other.host, other.function, other.event) == (key.host, function, event)
        });
        assert!(samples <= counted);
        assert_eq!(
            archived.number(&format!("SELECT count() {of}")),
            counted,
            "{key:?}"
        );
    }
    assert_eq!(
        archived.rows("SHOW DATABASES LIKE '%redecode%'"),
        Vec::<Vec<String>>::new()
    );

    // Sinks go on, and nothing of the replaced day is counted again.
    let more = Fleet::new("more", 1, &[], 300, 3);
    archived.send("decoder-2", &more, at);
    assert_eq!(
        archived.number("SELECT count() FROM samples"),
        all + more.truth().samples(|_| true)
    );
    let functions = "SELECT sum(samples) FROM functions";
    assert_eq!(
        archived.number(functions),
        all + more.truth().samples(|_| true)
    );
}

/// While one run has the store, another ends at once and says who has it.
fn one_run_at_a_time(archived: &Archived, day: &str) {
    let (url, token) = archived.deployment.nats();
    let config = NatsConfig {
        url,
        token: Secret::new(token),
        ..NatsConfig::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (sinks, lease) = runtime.block_on(async {
        let sinks = Sinks::find(&config).await.unwrap();
        let lease = sinks.lease("host web-1, process 7").await.unwrap();
        (sinks, lease)
    });
    let (code, _, said) = archived.redecode(&[day], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("another `memwide redecode` works on this store: host web-1, process 7"),
        "{said}"
    );
    runtime.block_on(lease.release());
    drop(sinks);
}

/// What was committed is in the archive, whichever decoder died when: its totals are those of the store.
#[test]
fn an_archive_of_decoders_that_were_killed_is_whole() {
    if skip() {
        return;
    }
    let mut archived = Archived::start(None);
    let fleet = Fleet::new("killed", 2, &[], 300, 1);
    let endpoint = archived.deployment.endpoint("decoder-2");
    let sender = fleet.clone();
    let sending = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let sending = sender.run_for(&endpoint, 12, CancellationToken::new());
            tokio::time::timeout(2 * SOON, sending).await
        })
    });
    for pause_ms in [1_500, 2_200, 3_100] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        archived.deployment.kill("decoder-2");
        archived.deployment.run("decoder-2");
    }
    sending.join().unwrap().unwrap().unwrap();
    archived.sent.set(fleet.truth().samples(|_| true));
    archived.closed();
    let totals = archived.totals();
    let days =
        archived.rows("SELECT DISTINCT toString(toDate(time)) AS day FROM samples ORDER BY day");
    let days: Vec<&str> = days.iter().map(|row| row[0].as_str()).collect();
    let (code, answer, said) = archived.redecode(&days, &[]);
    assert_eq!(code, Some(0), "{said}");
    let rows = answer.as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["outcome"] == "replaced"),
        "{answer}"
    );
    assert_eq!(archived.totals(), totals);
}

#[test]
fn a_damaged_file_is_named_with_its_place_and_the_other_days_are_done() {
    if skip() {
        return;
    }
    let archived = Archived::start(None);
    let (good, bad) = (yesterday_ns(), yesterday_ns() - 4 * DAY_NS);
    let (good_day, bad_day) = (day_of(good), day_of(bad));
    archived.send("decoder-2", &Fleet::new("good", 1, &[], 200, 1), good);
    archived.send("decoder-2", &Fleet::new("bad", 2, &[], 200, 2), bad);
    let totals = archived.totals();
    let whole = verify(&archived.archive(), &[]);
    assert!(whole.status.success(), "{whole:?}");
    let listed: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(listed[0]["day"], bad_day.as_str());
    assert_eq!(
        (&listed[0]["samples"], &listed[1]["samples"]),
        (&2_400.into(), &1_200.into())
    );

    let files = archived.files();
    let file = files
        .iter()
        .find(|file| file.to_string_lossy().contains(&bad_day))
        .unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, &bytes).unwrap();
    let damaged = verify(&archived.archive(), &[]);
    let said = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert_eq!(damaged.status.code(), Some(65), "{said}");
    assert!(said.contains(&file.display().to_string()), "{said}");
    assert!(
        said.contains("damaged at byte") && said.contains("bring it back"),
        "{said}"
    );
    let (code, answer, said) = archived.redecode(&[&bad_day, &good_day], &[]);
    assert_eq!(code, Some(65), "{said}");
    assert!(
        said.contains(&file.display().to_string()) && said.contains("damaged at byte"),
        "{said}"
    );
    assert_eq!(answer[0]["outcome"], "stays as it is");
    assert_eq!(answer[1]["outcome"], "replaced", "{said}");
    assert_eq!(archived.totals(), totals);

    // Without the file the batches are missing, which the ledger tells.
    std::fs::remove_file(file).unwrap();
    let (code, _, said) = archived.redecode(&[&bad_day], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("would not be what is stored") && said.contains("ledger: stored"),
        "{said}"
    );
    // A day that nobody archived.
    let (code, _, said) = archived.redecode(&["2020-02-29"], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("the archive has nothing of the day"),
        "{said}"
    );
    assert_eq!(archived.totals(), totals);
}

#[test]
fn an_encrypted_archive_opens_with_its_key_alone() {
    if skip() {
        return;
    }
    let archived = Archived::start(Some(&"c0ffee42".repeat(8)));
    let (at, day) = (yesterday_ns(), day_of(yesterday_ns()));
    archived.send("decoder-2", &Fleet::new("secret", 1, &[], 200, 1), at);
    for file in archived.files() {
        let bytes = std::fs::read(&file).unwrap();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        assert!(has(b"secret-1"), "the host's name is in the head");
        assert!(
            !has(b"orders") && !has(b"/usr/bin"),
            "{} is readable",
            file.display()
        );
    }
    let wrong = archived.deployment.folder().join("wrong.key");
    std::fs::write(&wrong, "0".repeat(64)).unwrap();
    let wrong = wrong.to_str().unwrap();
    let checked = verify(&archived.archive(), &[]);
    assert!(checked.status.success(), "sums need no key: {checked:?}");
    let checked = verify(&archived.archive(), &["--key", wrong]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(64), "{said}");
    assert!(
        said.contains("is encrypted with the key") && said.contains("--key FILE"),
        "{said}"
    );
    let listed: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(listed[0]["damaged"], 0, "{listed}");
    assert_eq!(listed[0]["other_key"], listed[0]["files"], "{listed}");
    let (code, _, said) = archived.redecode(&[&day], &["--key", wrong]);
    assert_eq!(code, Some(64), "{said}");
    assert!(
        said.contains("is encrypted with the key") && said.contains("--key FILE"),
        "{said}"
    );
    let key = archived.key.clone().unwrap();
    let checked = verify(&archived.archive(), &["--key", key.to_str().unwrap()]);
    let listed: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(listed[0]["samples"], 1_200, "{checked:?}");
    let (code, answer, said) = archived.redecode(&[&day], &[]);
    assert_eq!(
        (code, &answer[0]["outcome"]),
        (Some(0), &"replaced".into()),
        "{said}"
    );
}

/// `memwide up` archives too; what its last close has not taken in stays as it is.
#[test]
fn a_day_of_a_data_folder_is_left_as_long_as_its_hours_are_open() {
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&UpOptions {
        data: Some(data.clone()),
        args: ["--no-collect", "--archive"].map(str::to_owned).to_vec(),
        ..UpOptions::default()
    });
    let fleet = Fleet::new("up", 1, &[], 200, 1);
    up.send(&fleet, 3);
    up.wait_for(600);
    let redecode = |day: &str| {
        let mut command = Command::new(memwide());
        let ended = command
            .args(["redecode", "--day", day, "--data"])
            .arg(&data);
        let ended = ended.output().unwrap();
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stderr).into_owned(),
        )
    };
    let (code, said) = redecode("2020-02-29");
    assert_eq!(code, Some(1));
    assert!(said.contains("memwide up"), "it runs: {said}");
    let day = up.sql("select toString(toDate(max(time))) from samples")[0][0].clone();
    assert!(up.interrupt().0.success());
    let (code, said) = redecode(day.as_str().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("are not closed into tables of hours yet"),
        "{said}"
    );
}

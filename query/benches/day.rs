//! The main questions over a day of a fleet: how long each takes, over rows made by the engine itself. Nothing crosses the
//! pipeline; what is measured are the tables, their keys and the statements.
//!
//! ```text
//! MEMWIDE_DAY_HOSTS=1000 cargo bench -p memwide-query --bench day
//! ```
//!
//! With `MEMWIDE_DAY_FOLDER` rows are kept there and filled once; with `MEMWIDE_DAY_ANSWERS` rows and parts of the answers go into
//! that file, to be compared.
//!
//! A host-hour has 2,000 rows of `functions_1h`, a host-minute 12 of `mix_1m` and 9 of `ledger_1m`; there are 9,000 functions, each
//! on a fifth of the hosts. The rows of a host-hour are a deterministic hash, and differ from host to host.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use memwide_query::ask::{Name, Question};
use memwide_query::{Answer, Limits, Service, StatusDetail};
use memwide_service::clock::unix_ns;
use memwide_store::engine::{Child, ChildOptions, EngineOptions, run_child};
use memwide_store::{Request, Store, tools};
use tokio::sync::watch;

const HOUR_S: u64 = 3_600;
/// Rows of a host-hour and functions of the fleet.
const ROWS: u64 = 2_000;
const FUNCTIONS: u64 = 9_000;
/// Askings of each question, unless `MEMWIDE_DAY_TIMES` says otherwise.
const TIMES: u64 = 20;

/// What is filled, and whether its hours are closed.
const TABLES: &[(&str, bool)] = &[
    ("functions_1h", true),
    ("fleet_1h", false),
    ("latency_1h", true),
    ("mix_1m", false),
    ("ledger_1m", false),
];

/// The questions, and what they are asked with besides the day.
const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    ("numa", &[]),
    ("functions", &[]),
    ("functions", &[("locality", "remote"), ("level", "RAM")]),
    ("functions", &[("host", "host-7")]),
    ("functions", &[("pod", "pod-7")]),
    ("breakdown", &[("by", "level,locality")]),
    ("breakdown", &[("by", "host,locality")]),
    ("diff", &[("host", "host-7"), ("before_host", "host-8")]),
    ("diff", &[("locality", "remote")]),
    ("kernel", &[]),
    ("hosts", &[]),
    ("ledger", &[]),
];

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).unwrap_or_default();
    text.parse().unwrap_or(usual)
}

/// Keys and sums that several tables have, from a hash `x` of the row, a function `f` and an hour `t`.
const KEYS: &str = "toUInt64(1 + x % 2) AS event_id, if(event_id = 1, 'mem-loads,ldlat=30', 'mem-stores') AS event, \
     'precise' AS tier, if(event_id = 1, 'use', 'none') AS latency_kind, if(event_id = 1, 'load', 'store') AS op, \
     ['L1', 'L2', 'L3', 'RAM'][1 + bitShiftRight(x, 8) % 4] AS level, 'hit' AS outcome, \
     if(level IN ('L3', 'RAM'), ['local', 'remote'][1 + (bitShiftRight(x, 16) % 5 = 0)], 'unknown') AS locality, \
     if(locality = 'unknown', 'none', 'hw') AS locality_basis";
const SUMS: &str = "1 + bitShiftRight(x, 24) % 20 AS n, n * 1000. AS sum_p, n * 1e6 AS sum_pp, n * 80. AS sum_w, n * 8e4 AS sum_wp, \
     n * 64e8 AS sum_wpwp";
const NAMES: &str =
    "event_id, event, tier, latency_kind, op, level, outcome, locality, locality_basis";
const SUM_NAMES: &str = "n, sum_p, sum_pp, sum_w, sum_wp, sum_wpwp";

async fn fill(store: &Store, begin: u64, hosts: u64) {
    let execute = async |sql: String| store.execute(&sql).await.unwrap();
    execute(format!(
        "INSERT INTO functions_def (function_id, mapping_id, start, name, linkage_name, rank, size, last_seen) \
         SELECT number + 1, number % 200 + 1, number * 64, concat('namespace::function_', toString(number + 1)), '', 2, 64, now() \
         FROM numbers({FUNCTIONS})"
    ))
    .await;
    execute(
        "INSERT INTO mappings (mapping_id, kind, build_id, path, module, last_seen) \
         SELECT number + 1, 'file', lower(hex(cityHash64(number))), concat('/usr/bin/prog', toString(number)), \
         concat('prog', toString(number)), now() FROM numbers(200)"
            .to_owned(),
    )
    .await;
    execute(format!(
        "INSERT INTO workloads (workload_id, namespace, pod, container, service, last_seen) \
         SELECT number + 1, concat('ns-', toString(number % 20)), concat('pod-', toString(number)), 'main', \
         concat('service-', toString(number % 100)), now() FROM numbers({hosts} * 4)"
    ))
    .await;
    execute(
        "INSERT INTO events (event_id, name, pmu, tier, period_mode, period, latency_kind, population, cpu_model, last_seen) \
         VALUES (1, 'mem-loads,ldlat=30', 'cpu', 'precise', 'fixed', 1000, 'use', '', 'cpu', now()), \
         (2, 'mem-stores', 'cpu', 'precise', 'fixed', 1000, 'none', 'retired stores', 'cpu', now())"
            .to_owned(),
    )
    .await;
    execute(format!(
        "INSERT INTO hosts (time, host, host_id, kind, arch, cpu_model, cpus, nodes, tiers, facts_id, part, ingested) \
         SELECT toDateTime({begin}), concat('host-', toString(number)), number, 'simulated', 'x86_64', 'cpu', 64, 2, ['precise'], \
         number, number % 64, toDateTime({begin}) FROM numbers({hosts})"
    ))
    .await;
    // Functions of a host are a fifth of all; workloads are four a host.
    execute(format!(
        "INSERT INTO functions_1h (time, function_id, host, workload_id, {NAMES}, context, comm, part, close, {SUM_NAMES}, ingested) \
         WITH intDiv(number, {ROWS}) AS h, number % {ROWS} AS j, cityHash64(h, j) AS x \
         SELECT toDateTime({begin}), 1 + (h % 5 + 5 * (x % {each})) AS function_id, concat('host-', toString(h)), \
         1 + h * 4 + function_id % 4, {KEYS}, if(x % 50 = 0, 'syscall', 'user'), concat('prog', toString(function_id % 200)), h % 64, \
         toDateTime({closed}), {SUMS}, toDateTime({closed}) FROM numbers_mt({hosts} * {ROWS})",
        each = FUNCTIONS / 5,
        closed = begin + HOUR_S,
    ))
    .await;
    // Whatever a function is on one host, it is in the fleet.
    execute(format!(
        "INSERT INTO fleet_1h (time, function_id, {NAMES}, cpu_model, {SUM_NAMES}, host_id, ingested) \
         WITH intDiv(number, 8) AS f, cityHash64(f, number % 8) AS x \
         SELECT toDateTime({begin}), 1 + f, {KEYS}, 'cpu', {SUMS}, x % {hosts}, toDateTime({begin}) FROM numbers({FUNCTIONS} * 8)"
    ))
    .await;
    execute(format!(
        "INSERT INTO latency_1h (time, function_id, {NAMES}, bucket, n, sum_p, sum_w, part, close, ingested) \
         SELECT time, function_id, {NAMES}, bucket, n, sum_p, sum_w, part, close, ingested FROM ( \
         WITH intDiv(number, 40) AS f, cityHash64(f, number % 40, 1) AS x \
         SELECT toDateTime({begin}) AS time, 1 + f AS function_id, {KEYS}, toInt16(if(event_id = 1, 16 + x % 24, -1)) AS bucket, {SUMS}, \
         toUInt16(x % 64) AS part, toDateTime({closed}) AS close, close AS ingested FROM numbers({FUNCTIONS} * 40))",
        closed = begin + HOUR_S,
    ))
    .await;
    execute(format!(
        "INSERT INTO mix_1m (time, host, workload_id, event_id, event, tier, op, level, outcome, locality, locality_basis, \
         context, {SUM_NAMES}, part, ingested) \
         SELECT time, host, workload_id, event_id, event, tier, op, level, outcome, locality, locality_basis, \
         'user', {SUM_NAMES}, part, time FROM ( \
         WITH number % 12 AS k, intDiv(number, 12) % 60 AS m, intDiv(number, 720) AS h, cityHash64(h, k) AS x \
         SELECT toDateTime({begin} + m * 60) AS time, concat('host-', toString(h)) AS host, 1 + h * 4 + k % 4 AS workload_id, {KEYS}, \
         {SUMS}, h % 64 AS part FROM numbers_mt({hosts} * 720))"
    ))
    .await;
    execute(format!(
        "INSERT INTO ledger_1m (time, host, source_id, event_id, event, tier, reason, records, last_batch, part, ingested) \
         WITH number % 9 AS k, intDiv(number, 9) % 60 AS m, intDiv(number, 540) AS h \
         SELECT toDateTime({begin} + m * 60) AS time, concat('host-', toString(h)), h, if(k = 8, 0, 1 + k % 2) AS event_id, \
         ['', 'mem-loads,ldlat=30', 'mem-stores'][1 + event_id], if(k = 8, 'none', 'precise'), \
         ['produced', 'stored', 'unresolved', 'nameless', 'batches'][1 + intDiv(k, 2)], 3000, m, h % 64, time \
         FROM numbers_mt({hosts} * 540)"
    ))
    .await;
    // The other hours are alike.
    for hour in 1..24 {
        for (table, is_closed) in TABLES {
            let shift = hour * HOUR_S;
            let close = if *is_closed {
                format!("close + {shift} AS close, ")
            } else {
                String::new()
            };
            execute(format!(
                "INSERT INTO {table} SELECT * REPLACE (time + {shift} AS time, {close}ingested + {shift} AS ingested) \
                 FROM (SELECT * FROM {table} WHERE time >= toDateTime({begin}) AND time < toDateTime({}))",
                begin + HOUR_S
            ))
            .await;
        }
        eprintln!("hour {hour} of 24");
    }
    for table in ["closes", "closes_of_details", "closes_of_calls"] {
        execute(format!(
            "INSERT INTO {table} (part, closed_through) SELECT number, toDateTime({}) FROM numbers(64)",
            begin + 25 * HOUR_S
        ))
        .await;
    }
}

/// When the rows that were kept begin, in seconds since 1970; 0: there are none.
async fn begun(store: &Store) -> u64 {
    let sql = "SELECT toUnixTimestamp(min(time)) FROM functions_1h";
    let answer = store.query(Request::new(sql, "TabSeparated"));
    let answer = answer.await.unwrap();
    String::from_utf8_lossy(&answer).trim().parse().unwrap()
}

/// Rows and bytes of a table.
async fn at_rest(store: &Store, table: &str) -> String {
    let sql = format!(
        "SELECT sum(rows), count(), sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = '{table}'"
    );
    let answer = store
        .query(Request::new(sql, "TabSeparated"))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).trim().replace('\t', ", ")
}

fn main() {
    let last = std::env::args().next_back().unwrap_or_default();
    if last.starts_with('{') {
        return EngineOptions::from_json(&last).and_then(run_child).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let Ok(library) = tools::engine_library().inspect_err(|error| eprintln!("skipped: {error}"))
    else {
        return;
    };
    let hosts = number("MEMWIDE_DAY_HOSTS", 200);
    let folder = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("MEMWIDE_DAY_FOLDER").map(PathBuf::from);
    let child = Child::spawn(ChildOptions {
        program: std::env::current_exe().unwrap(),
        args: Vec::new(),
        engine: EngineOptions {
            library,
            data: kept.unwrap_or_else(|| folder.path().join("engine")),
            ..EngineOptions::default()
        },
    });
    let child = child.await.unwrap();
    let store = child.store("memwide").unwrap();
    store.migrate().await.unwrap();
    let filling = Instant::now();
    let begin = match begun(&store).await {
        0 => {
            let begin = unix_ns() / 1_000_000_000 / HOUR_S * HOUR_S - 25 * HOUR_S;
            // Not a calendar day: those have a table of their own, which is not filled.
            let begin = begin - u64::from(begin.is_multiple_of(24 * HOUR_S)) * HOUR_S;
            fill(&store, begin, hosts).await;
            begin
        }
        begin => begin,
    };
    println!(
        "{hosts} hosts, 24 h, filled in {:.0} s; rows, parts, bytes on disk:",
        filling.elapsed().as_secs_f64()
    );
    for table in [
        "functions_1h",
        "fleet_1h",
        "mix_1m",
        "latency_1h",
        "ledger_1m",
    ] {
        println!("  {table}: {}", at_rest(&store, table).await);
    }
    let (_stores, watched) = watch::channel(Some(child.reader("memwide").unwrap()));
    let (_status, detail) = watch::channel(StatusDetail::default());
    let service = Service::new(Limits::default(), watched, detail);
    println!(
        "{:<54} {:<13} first ms; median, p95 ms (n = askings but the first); CPU ms of the engine, mean",
        "question", "source"
    );
    for (name, further) in QUESTIONS {
        ask(&service, child.pid(), name, further, begin).await;
    }
    child.stop(Duration::from_secs(20)).await.unwrap();
}

/// CPU time of a process so far, merges in the background included.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    ticks as f64 / 100.0
}

/// Adds an answer's rows to the file of answers, if there is one.
fn keep(name: &str, further: &[(&str, &str)], answer: &Answer) {
    let Some(path) = std::env::var_os("MEMWIDE_DAY_ANSWERS") else {
        return;
    };
    let file = File::options().create(true).append(true).open(path);
    let mut file = file.unwrap();
    let parts = answer.parts.iter().map(|part| (part.name, &part.rows));
    for (part, rows) in std::iter::once(("rows", &answer.rows)).chain(parts) {
        for row in rows {
            let row: Vec<String> = row.iter().map(ToString::to_string).collect();
            writeln!(file, "{name} {further:?} {part}\t{}", row.join("\t")).unwrap();
        }
    }
}

async fn ask(service: &Service, engine: u32, name: &str, further: &[(&str, &str)], begin: u64) {
    let at = |hour: u64| ((begin + hour * HOUR_S) * 1_000_000_000).to_string();
    let mut pairs = vec![("since".to_owned(), at(0)), ("until".to_owned(), at(24))];
    if name == "diff" && further.iter().all(|(name, _)| *name != "before_host") {
        // The second half of the day against the first.
        pairs[0].1 = at(12);
    }
    let owned = further
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    pairs.extend(owned);
    let known = Name::ALL.iter().find(|known| known.name() == name).unwrap();
    let question = Question::parse(*known, &pairs, unix_ns()).unwrap();
    let (mut times, mut source, mut cpu) = (Vec::new(), "", 0.0);
    let asked = usize::try_from(number("MEMWIDE_DAY_TIMES", TIMES)).unwrap();
    for time in 0..=asked {
        if time == 1 {
            cpu = cpu_seconds(engine);
        }
        let begun = Instant::now();
        match service.answer(&question).await {
            Ok(answer) => {
                assert!(!answer.rows.is_empty(), "{name} {further:?}");
                source = answer.source_table;
                if time == 0 {
                    keep(name, further, &answer);
                }
            }
            Err(problem) => return println!("{name} {further:?}: {problem}"),
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = (cpu_seconds(engine) - cpu) * 1e3 / asked as f64;
    let first = times.remove(0);
    times.sort_by(f64::total_cmp);
    let further: Vec<String> = further
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    println!(
        "{:<54} {source:<13} {first:.0}; {:.0}, {:.0}; {cpu:.0}",
        format!("{name} {}", further.join(" ")),
        times[asked / 2],
        times[(asked * 95).div_ceil(100) - 1],
    );
}

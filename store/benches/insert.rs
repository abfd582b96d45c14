//! Rows a second into `samples` through the client and the engine's HTTP interface, as a sink inserts: Native blocks,
//! one insert one block, a token each. Prints one line a block size. Then what tables of hours cost: rows, time and bytes
//! at rest of one close, beside the rows that flushes of 5 s would bring.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use memwide_model::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Region,
    Snoop, Suspect, Tier, Tlb,
};
use memwide_store::engine::{Child, ChildOptions, EngineOptions};
use memwide_store::native::{Constant, append_constants, walk};
use memwide_store::rows::{SampleRow, Samples, TableRows};
use memwide_store::schema::{close_details, close_functions_1h};
use memwide_store::{Request, Store, tools};

/// Rows inserted for each block size.
const ROWS: u64 = 2_000_000;

/// The next of a row of numbers that look random (splitmix64).
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A block of samples of 9,000 functions, unsorted.
fn block(rows: u64, hosts: u64, state: &mut u64, now: u32) -> Vec<u8> {
    let mut samples = Samples::default();
    let names: Vec<String> = (0..hosts).map(|i| format!("host-{i:03}")).collect();
    let begin = i64::from(now / 86_400 * 86_400) * 1_000_000_000;
    for i in 0..rows {
        let r = mix(state);
        let pick = |shift: u32, n: u64| (r >> shift) % n;
        let host = usize::try_from(pick(0, hosts)).unwrap();
        let function = pick(8, 9000) * pick(24, 9000) / 9000;
        samples.push(&SampleRow {
            time: begin + i64::try_from(i * 3_000 + pick(3, 3_000)).unwrap(),
            host: &names[host],
            source_id: (host as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            batch: i / 1000,
            cpu: u16::try_from(pick(5, 128)).unwrap(),
            pid: u32::try_from(1000 + pick(9, 50)).unwrap(),
            tid: u32::try_from(1000 + pick(9, 500)).unwrap(),
            comm: ["worker", "io", "main", "gc"][usize::try_from(pick(11, 4)).unwrap()],
            workload_id: (function % 20 + 1).wrapping_mul(0xc2b2_ae3d_27d4_eb4f),
            event_id: 77,
            event: "cpu/mem-loads,ldlat=30/P",
            tier: Tier::Precise,
            context: Context::User,
            ip: 0x55_5555_0000 + function * 512 + pick(40, 512),
            function_id: function.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            location_id: (function * 512 + pick(40, 512)).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stack_id: (function * 16 + pick(44, 16)).wrapping_mul(0xff51_afd7_ed55_8ccd),
            addr: 0x7f00_0000_0000 + pick(16, 1 << 30) * 8,
            phys_addr: pick(14, 1 << 34) & !7,
            data_id: pick(30, 300).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            region: Region::Heap,
            data_src: 0x6810_0842 + (pick(33, 6) << 5),
            period: 10_007,
            weight: u32::try_from(30 + pick(20, 600)).unwrap(),
            ins_lat: 0,
            retire_lat: 0,
            latency_kind: LatencyKind::Use,
            page_shift: 12,
            page_node: u8::try_from(pick(7, 2)).unwrap(),
            op: Op::Load,
            level: [Level::L1, Level::L2, Level::L3, Level::Ram]
                [usize::try_from(pick(50, 4)).unwrap()],
            outcome: Outcome::Hit,
            snoop: Snoop::None,
            tlb: Tlb::L1OrL2Hit,
            locked: 0,
            blocked: Blocked::No,
            hw_locality: Locality::ALL[usize::try_from(1 + pick(52, 2)).unwrap()],
            page_locality: Locality::ALL[usize::try_from(1 + pick(7, 2)).unwrap()],
            locality: Locality::ALL[usize::try_from(1 + pick(52, 2)).unwrap()],
            locality_basis: LocalityBasis::Hw,
            mem_region: MemRegion::Unknown,
            suspect: Suspect::None,
            decoder_version: "0.1.0+taxonomy.1",
        });
    }
    let block = samples.finish().swap_remove(0);
    append_constants(
        &block.bytes,
        &[Constant::U16("part", 0), Constant::Seconds("ingested", now)],
    )
    .unwrap()
}

#[tokio::main]
async fn main() {
    let Ok(library) = tools::engine_library().inspect_err(|error| eprintln!("skipped: {error}"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let child = Child::spawn(ChildOptions {
        program: env!("CARGO_BIN_EXE_memwide-store-engine").into(),
        args: Vec::new(),
        engine: EngineOptions {
            library,
            data: folder.path().join("engine"),
            ..EngineOptions::default()
        },
    });
    let child = child.await.unwrap();
    let store = child.store("memwide").unwrap();
    store.migrate().await.unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let (now, mut state) = (u32::try_from(now).unwrap(), 1);
    for rows in [50_000, 200_000, 500_000] {
        store.execute("TRUNCATE TABLE samples").await.unwrap();
        let encoding = Instant::now();
        let blocks: Vec<Vec<u8>> = (0..ROWS / rows)
            .map(|_| block(rows, 64, &mut state, now))
            .collect();
        let encoding = encoding.elapsed().as_secs_f64();
        let bytes: usize = blocks.iter().map(Vec::len).sum();
        let names: Vec<String> = walk(&blocks[0])
            .unwrap()
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let began = Instant::now();
        for (i, block) in blocks.into_iter().enumerate() {
            store
                .insert_native("samples", &names, &format!("{rows}/{i}"), block.into())
                .await
                .unwrap();
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{rows:>7} rows a block: {:.0} rows/s, {:.0} MB/s, {} bytes a row in Native; rows made and encoded at {:.0} rows/s",
            ROWS as f64 / seconds,
            bytes as f64 / seconds / 1e6,
            bytes as u64 / ROWS,
            ROWS as f64 / encoding,
        );
    }
    closes(&store, child.pid(), &mut state, now).await;
}

/// Hosts whose hour `ROWS` samples are: 100 a second each.
const HOSTS: u64 = 6;
/// Samples of a flush: 5 s of them.
const FLUSH_ROWS: u64 = 3_000;
/// Flushes whose rows are counted.
const FLUSHES: u32 = 20;

async fn number(store: &Store, sql: &str) -> u64 {
    let answer = store.query(Request::new(sql, "TabSeparated")).await;
    let text = String::from_utf8(answer.unwrap().to_vec()).unwrap();
    text.trim().parse().unwrap()
}

/// CPU seconds of a process so far, user and system.
fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // Fields 14 and 15; the state is field 3 and the first here. 100 ticks a second on every Linux.
    let ticks = |field: usize| fields[field - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / 100.0
}

/// Bytes at rest and rows of a table, merged.
async fn at_rest(store: &Store, table: &str) -> (u64, u64) {
    let merge = format!("OPTIMIZE TABLE {table} FINAL");
    store.execute(&merge).await.unwrap();
    let of =
        format!("FROM system.parts WHERE active AND database = 'memwide' AND table = '{table}'");
    let bytes = number(store, &format!("SELECT sum(bytes_on_disk) {of}")).await;
    (
        bytes,
        number(store, &format!("SELECT sum(rows) {of}")).await,
    )
}

/// What a close takes for each table, and what rows of each flush by itself would be instead.
async fn closes(store: &Store, engine: u32, state: &mut u64, now: u32) {
    store.execute("TRUNCATE TABLE samples").await.unwrap();
    let flushes = (0..FLUSHES).map(|flush| (FLUSH_ROWS, now + flush));
    let flushed = FLUSH_ROWS * u64::from(FLUSHES);
    let rest = (0..10).map(|_| ((ROWS - flushed) / 10, now + FLUSHES));
    for (i, (rows, ingested)) in flushes.chain(rest).enumerate() {
        let block = block(rows, HOSTS, state, ingested);
        let names: Vec<String> = walk(&block)
            .unwrap()
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let token = format!("hour/{i}");
        let insert = store.insert_native("samples", &names, &token, block.into());
        insert.await.unwrap();
    }
    let (bytes, rows) = at_rest(store, "samples").await;
    println!(
        "samples: {:.1} bytes a row at rest",
        bytes as f64 / rows as f64
    );
    let statements = |after: u32, through: u32| {
        let functions = ("functions_1h", close_functions_1h(0, after, through));
        std::iter::once(functions).chain(close_details(0, after, through))
    };
    let mut by_flush = std::collections::BTreeMap::new();
    for flush in 0..FLUSHES {
        // Rows of different closes stay apart, as rows of different flushes come apart.
        for (_, sql) in statements(now + flush - 1, now + flush) {
            let token = format!("flush/{flush}");
            store.insert_select(&sql, &token).await.unwrap();
        }
    }
    for (table, _) in statements(0, 0) {
        let count = format!("SELECT count() FROM {table}");
        by_flush.insert(table, number(store, &count).await);
        let empty = format!("TRUNCATE TABLE {table}");
        store.execute(&empty).await.unwrap();
    }
    for (table, sql) in statements(0, now + FLUSHES) {
        let (began, before) = (Instant::now(), cpu_seconds(engine));
        store.insert_select(&sql, "one close").await.unwrap();
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(engine) - before);
        let (bytes, rows) = at_rest(store, table).await;
        if rows == 0 {
            continue; // these samples are no faults
        }
        println!(
            "{table:>12}: {:.3} rows a sample from a close of an hour, {:.3} from flushes of 5 s; {:.2} s, {:.2} CPU µs a \
             sample; {:.1} bytes a row at rest",
            rows as f64 / ROWS as f64,
            by_flush[table] as f64 / flushed as f64,
            seconds,
            cpu * 1e6 / ROWS as f64,
            bytes as f64 / rows as f64,
        );
    }
}

//! `offcpu` follows threads through the switches of all CPUs, and `allocs` counts calls by site: equal to what was made here.

use memwide_model::{LatencyKind, Tier};
use memwide_store::rows::{
    FunctionRow, FunctionsDef, LocationRow, Locations, MappingRow, Mappings, SampleRow, StackRow,
    Stacks, TableRows as _,
};

use crate::count::close;
use crate::support::{Running, running};
use crate::truth::{BEGIN, insert_samples, put, sample};

/// Hours behind the samples that every test knows.
const HOUR: u32 = BEGIN + 20 * 3_600;
const MS: i64 = 1_000_000;

/// A callchain of the program (function 70) above the kernel (71 waits, 72 is the scheduler).
const WAITS: u64 = 700;

async fn define(running: &Running) {
    let (mut functions, mut mappings) = (FunctionsDef::default(), Mappings::default());
    let (mut locations, mut stacks) = (Locations::default(), Stacks::default());
    for (mapping_id, kind, module) in [(60, "path", "worker"), (61, "kernel", "[kernel.kallsyms]")]
    {
        mappings.push(&MappingRow {
            mapping_id,
            kind,
            build_id: "",
            path: module,
            module,
            last_seen: HOUR,
        });
    }
    for (function_id, mapping_id, name) in [
        (70, 60, "wait_for_work"),
        (71, 61, "futex_wait_queue"),
        (72, 61, "__schedule"),
    ] {
        functions.push(&FunctionRow {
            function_id,
            mapping_id,
            start: function_id * 16,
            name,
            linkage_name: "",
            rank: 2,
            size: 16,
            source_file: "",
            source_line: 0,
            file_offset: 0,
            last_seen: HOUR,
        });
        locations.push(&LocationRow {
            location_id: function_id * 16,
            mapping_id,
            address: function_id * 16,
            function_id,
            last_seen: HOUR,
        });
    }
    stacks.push(&StackRow {
        stack_id: WAITS,
        locations: &[72 * 16, 71 * 16, 70 * 16],
        last_seen: HOUR,
    });
    let mut blocks = functions.finish();
    blocks.extend(mappings.finish());
    blocks.extend(locations.finish());
    blocks.extend(stacks.finish());
    for block in blocks {
        put(&running.store, &block, "waits").await;
    }
}

fn event(name: &'static str, cpu: u16, tid: u32, ms: i64) -> SampleRow<'static> {
    SampleRow {
        time: i64::from(HOUR) * 1_000_000_000 + ms * MS,
        host: "alpha",
        cpu,
        pid: tid,
        tid,
        comm: if tid == 0 {
            "swapper"
        } else {
            ["even", "odd"][tid as usize % 2]
        },
        workload_id: 0,
        event_id: 90,
        event: name,
        tier: Tier::Software,
        latency_kind: LatencyKind::None,
        weight: 0,
        period: 1,
        function_id: 72,
        location_id: 72 * 16,
        stack_id: if tid == 0 { 0 } else { WAITS },
        ..sample(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_and_allocations_equal_what_was_made() {
    let Some(running) = running().await else {
        return;
    };
    define(&running).await;
    offcpu(&running).await;
    allocs(&running).await;
    running.stop().await;
}

async fn offcpu(running: &Running) {
    // Who leaves which CPU, and when. 5 comes back to CPU 0 when the idle thread leaves it at 30, and to CPU 1 at 60.
    let switches = [
        (0, 5, 10),
        (0, 0, 30),
        (0, 5, 35),
        (0, 7, 50),
        (1, 7, 12),
        (1, 6, 20),
        (1, 0, 60),
        (1, 5, 80),
        // Somebody ran on CPU 3 in between, and is not seen to leave it.
        (3, 8, 15),
        (3, 8, 45),
    ];
    let name = "sched:sched_switch";
    let rows = switches.map(|(cpu, tid, ms)| event(name, cpu, tid, ms));
    // Sampled switches tell nothing of the others.
    let sampled = SampleRow {
        period: 10,
        ..event(name, 2, 9, 40)
    };
    insert_samples(
        &running.store,
        rows.into_iter().chain([sampled]),
        "switches",
    )
    .await;
    let range = format!("since={HOUR}000000000&until={}000000000", HOUR + 1);
    let reply = running
        .get(&format!("/api/v1/offcpu?{range}&host=alpha"))
        .await;
    let found = reply.records();
    // 5: off 10 to 30, on CPU 0 until 35, off 35 to 60, on CPU 1 until 80, then open. 7: off 12 to 35. 6: open.
    let odd = found.iter().find(|row| row["comm"] == "odd").unwrap();
    close(
        &odd["off_seconds"],
        &serde_json::json!(0.020 + 0.025 + 0.023),
        "odd",
    );
    assert_eq!(
        (&odd["spells"], &odd["open"]),
        (&3.into(), &2.into()),
        "{odd}"
    );
    close(&odd["most"], &serde_json::json!(0.025), "odd");
    assert_eq!(
        [
            &odd["function"],
            &odd["module"],
            &odd["waits_in"],
            &odd["share_of"]
        ],
        ["wait_for_work", "worker", "futex_wait_queue", "off_seconds"]
    );
    let even = found.iter().find(|row| row["comm"] == "even").unwrap();
    assert_eq!(
        (&even["spells"], &even["open"]),
        (&0.into(), &3.into()),
        "{even}"
    );
    assert_eq!(
        found.len(),
        2,
        "neither idle nor sampled switches: {}",
        reply.text()
    );
    some_threads(running, &range, odd).await;
    // Of one command: the switches of the others still tell when it came back.
    let reply = running
        .get(&format!("/api/v1/offcpu?{range}&comm=odd&host=alpha"))
        .await;
    let found = reply.records();
    close(&found[0]["off_seconds"], &odd["off_seconds"], "by comm");
    assert_eq!(found.len(), 1);
    let before = running
        .get("/api/v1/offcpu?since=2026-11-20T10:00:00Z&until=2026-11-20T12:00:00Z")
        .await;
    assert!(before.records().is_empty());
    assert!(
        before.text().contains("sched:sched_switch with period 1"),
        "{}",
        before.text()
    );
}

/// Of another host the switches from and to every second thread, those with odd numbers: the same times, twice.
async fn some_threads(running: &Running, range: &str, all: &serde_json::Value) {
    let switches = [
        (0, 5, 10),
        (0, 0, 30),
        (0, 5, 35),
        (0, 7, 50),
        (1, 7, 12),
        (1, 0, 60),
        (1, 5, 80),
        // Another thread leaves for 9, which stays.
        (2, 8, 70),
    ];
    let rows = switches.map(|(cpu, tid, ms)| SampleRow {
        host: "beta",
        event_id: 91,
        ..event("sched:sched_switch/threads=2/", cpu, tid, ms)
    });
    insert_samples(&running.store, rows.into_iter(), "some switches").await;
    let path = format!("/api/v1/offcpu?{range}&host=beta");
    let reply = running.get(&path).await;
    let found = reply.records();
    assert_eq!(
        found.len(),
        1,
        "of the others nothing is known: {}",
        reply.text()
    );
    assert_eq!(found[0]["estimator"], "one thread of 2");
    assert_eq!(all["estimator"], "all threads");
    let twice = |name: &str| 2.0 * all[name].as_f64().unwrap();
    for name in ["off_seconds", "spells", "open", "threads"] {
        close(&found[0][name], &serde_json::json!(twice(name)), name);
    }
    for name in ["mean", "most", "samples"] {
        close(&found[0][name], &all[name], name);
    }
    assert!(
        reply.text().contains("times N estimate"),
        "{}",
        reply.text()
    );
}

async fn allocs(running: &Running) {
    let calls = [
        ("kmem:mm_page_alloc", 40, 1),
        ("kmem:mm_page_free", 15, 1),
        ("syscalls:sys_enter_mmap", 5, 1),
        ("kmem:kmalloc", 8, 100),
        ("sched:sched_wakeup", 9, 1),
    ];
    let rows = calls.iter().flat_map(|(name, n, period)| {
        (0..*n).map(move |i| SampleRow {
            period: *period,
            ..event(name, 0, 11, 3_000 + i64::from(i))
        })
    });
    insert_samples(&running.store, rows, "allocs").await;
    let range = format!("since={}000000000&until={}000000000", HOUR + 2, HOUR + 10);
    let reply = running.get(&format!("/api/v1/allocs?{range}")).await;
    let found = reply.records();
    let mut kinds: Vec<(String, f64)> = found
        .iter()
        .map(|row| {
            (
                row["kind"].as_str().unwrap().to_owned(),
                row["calls"].as_f64().unwrap(),
            )
        })
        .collect();
    kinds.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("kernel objects allocated", 800.0),
        ("mmap", 5.0),
        ("pages allocated", 40.0),
        ("pages freed", 15.0),
    ];
    assert_eq!(
        kinds,
        expected.map(|(kind, calls)| (kind.to_owned(), calls))
    );
    for row in &found {
        assert_eq!(row["function"], "wait_for_work", "{row}");
        assert_eq!(row["kernel"], "futex_wait_queue", "{row}");
        assert_eq!(row["share"], 1.0, "within the kind: {row}");
    }
    assert!(reply.text().contains("calls, not bytes"));
}

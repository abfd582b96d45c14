use std::time::Duration;

use memwide_model::{
    LatencyKind, Level, Locality, LocalityBasis, Moments, Op, Outcome, Reason, Region, Tier,
};
use memwide_store::native::{Constant, append_constants};
use memwide_store::rows::{
    CloseRow, Closes, DataDef, DataRow, EventRow, Events, Fleet1h, FleetRow, FunctionRow,
    FunctionsDef, HostRow, Hosts, Ledger1m, LedgerRow, LocationRow, Locations, MappingRow,
    Mappings, StackRow, Stacks, Sums, TableRows, TierOrNone, WorkloadRow, Workloads,
};
use memwide_store::{Advice, Request};

use crate::support::{ask, engine, options, until};
use crate::support_rows::{insert, now, sample, samples};

fn with_ingested(block: &[u8]) -> Vec<u8> {
    append_constants(block, &[Constant::Seconds("ingested", now())]).unwrap()
}

#[tokio::test]
async fn samples_come_back_as_they_were_sent() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let ingested = now();
    insert(&store, &samples(0..5000), 3, ingested, "t")
        .await
        .unwrap();
    let sql = "SELECT toUnixTimestamp64Nano(time), host, comm, event, toString(tier), hex(ip), period, weight, \
         toString(level), toString(locality), toString(snoop), page_node, part, toUnixTimestamp(ingested) \
         FROM samples ORDER BY time";
    let answer = store
        .query(Request::new(sql, "TabSeparated"))
        .await
        .unwrap();
    let answer = String::from_utf8(answer.to_vec()).unwrap();
    let mut lines = answer.lines();
    for i in 0..5000 {
        let s = sample(i);
        let expected = format!(
            "{}\t{}\t{}\t{}\t{}\t{:X}\t{}\t{}\t{}\t{}\t{}\t{}\t3\t{}",
            s.time,
            s.host,
            s.comm,
            s.event,
            s.tier,
            s.ip,
            s.period,
            s.weight,
            s.level,
            s.locality,
            s.snoop,
            s.page_node,
            ingested
        );
        assert_eq!(lines.next(), Some(expected.as_str()), "row {i}");
    }
    assert_eq!(lines.next(), None);
}

#[tokio::test]
async fn the_same_token_changes_nothing_and_another_one_adds() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let blocks = samples(0..1000);
    for _ in 0..2 {
        insert(&store, &blocks, 0, now(), "one").await.unwrap();
    }
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "1000");
    insert(&store, &blocks, 0, now(), "two").await.unwrap();
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "2000");
}

#[tokio::test]
async fn several_blocks_in_one_insert_are_one_part() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    store.execute("SYSTEM STOP MERGES samples").await.ok();
    let mut bytes = Vec::new();
    for from in 0..40_u64 {
        bytes.extend(with_ingested(
            &samples(from * 500..from * 500 + 500)[0].bytes,
        ));
    }
    let mut columns = memwide_store::rows::Samples::columns();
    columns.push("ingested");
    for _ in 0..2 {
        store
            .insert_native("samples", &columns, "all", bytes.clone().into())
            .await
            .unwrap();
    }
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "20000");
    assert_eq!(
        ask(
            &store,
            "SELECT count() FROM system.parts WHERE table = 'samples' AND active"
        )
        .await,
        "1"
    );
}

#[tokio::test]
async fn a_killed_engine_is_repaired_by_the_same_token() {
    let folder = tempfile::tempdir().unwrap();
    let Some(options) = options(&folder.path().join("engine")) else {
        return;
    };
    let mut acknowledged = 0;
    for round in 0..3_u64 {
        let mut child = memwide_store::engine::Child::spawn(options.clone())
            .await
            .unwrap();
        let store = child.store("memwide").unwrap();
        store.migrate().await.unwrap();
        let pid = rustix::process::Pid::from_raw(child.pid().cast_signed()).unwrap();
        // Some blocks on, anywhere within an insert.
        let (begun, begin) = tokio::sync::oneshot::channel::<()>();
        let killer = tokio::spawn(async move {
            begin.await.unwrap();
            tokio::time::sleep(Duration::from_micros(700 + 1900 * round)).await;
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        });
        let (first, mut begun) = (acknowledged, Some(begun));
        // From the last block that was acknowledged on, as a restarted sink does.
        for block in acknowledged.. {
            if block > first + 4
                && let Some(begun) = begun.take()
            {
                begun.send(()).unwrap();
            }
            let rows = samples(block * 300..block * 300 + 300);
            let sent = insert(&store, &rows, 0, now(), &format!("b{block}")).await;
            match sent {
                Ok(()) => acknowledged = block,
                Err(error) => {
                    assert_eq!(error.advice(), Advice::Retry, "{error:?}");
                    break;
                }
            }
        }
        killer.await.unwrap();
        assert!(child.exited().await.unwrap().contains("signal: 9"));
    }
    let child = memwide_store::engine::Child::spawn(options).await.unwrap();
    let store = child.store("memwide").unwrap();
    insert(
        &store,
        &samples(acknowledged * 300..acknowledged * 300 + 300),
        0,
        now(),
        &format!("b{acknowledged}"),
    )
    .await
    .unwrap();
    let wrong = format!(
        "SELECT count() FROM (SELECT intDiv(batch, 3) AS b, count() AS n FROM samples GROUP BY b HAVING n != 300 AND b <= {acknowledged})"
    );
    assert!(acknowledged > 0);
    assert_eq!(ask(&store, &wrong).await, "0");
    assert_eq!(
        ask(
            &store,
            &format!(
                "SELECT countIf(batch < 3 * {}) FROM samples",
                acknowledged + 1
            )
        )
        .await,
        ((acknowledged + 1) * 300).to_string()
    );
}

#[tokio::test]
async fn a_damaged_block_is_refused_and_leaves_nothing() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let block = with_ingested(&samples(0..1000)[0].bytes);
    let mut columns = memwide_store::rows::Samples::columns();
    columns.push("ingested");
    let cut = block[..block.len() - 100].to_vec();
    let error = store
        .insert_native("samples", &columns, "t", cut.into())
        .await
        .unwrap_err();
    assert_eq!(error.advice(), Advice::RefusedBlock, "{error:?}");
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "0");
    // The token is still free for the whole block.
    store
        .insert_native("samples", &columns, "t", block.into())
        .await
        .unwrap();
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "1000");
}

#[tokio::test]
async fn every_table_takes_its_rows() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let now = now();
    let mut blocks = Vec::new();
    let mut fleet = Fleet1h::default();
    for host_id in [7, 8, 7] {
        fleet.push(&FleetRow {
            time: now,
            function_id: 1,
            event_id: 1,
            event: "e",
            tier: Tier::Precise,
            latency_kind: LatencyKind::Use,
            op: Op::Load,
            level: Level::Ram,
            outcome: Outcome::Hit,
            locality: Locality::Remote,
            locality_basis: LocalityBasis::Hw,
            cpu_model: "cpu",
            sums: Sums {
                moments: Moments {
                    n: 2,
                    p: 3.5,
                    ..Moments::default()
                },
                n_hitm: 1,
                ..Sums::default()
            },
            host_id,
        });
    }
    blocks.extend(fleet.finish());
    let mut ledger = Ledger1m::default();
    ledger.push(&LedgerRow {
        time: now,
        host: "h",
        source_id: 1,
        event_id: 0,
        event: "",
        tier: TierOrNone(None),
        reason: Reason::Lost,
        records: 4,
        seconds: 0.5,
        last_batch: 9,
    });
    blocks.extend(ledger.finish());
    let mut hosts = Hosts::default();
    hosts.push(&HostRow {
        time: now,
        host: "h",
        host_id: 7,
        kind: "live",
        arch: "x86_64",
        os_release: "6",
        cpu_vendor: "v",
        cpu_model: "m",
        cpuid: "c",
        cpus: 2,
        nodes: 1,
        cpu_nodes: &[0, 65_535],
        remote_means: "node",
        virtualization: "",
        tiers: &["software", "precise"],
        capabilities: "{}",
        facts_id: 5,
        version: "1",
    });
    blocks.extend(hosts.finish());
    let mut closes = Closes::default();
    closes.push(&CloseRow {
        part: 1,
        closed_through: 1_767_225_600,
    });
    blocks.extend(closes.finish());
    let mut events = Events::default();
    events.push(&EventRow {
        event_id: 1,
        name: "e",
        pmu: "cpu",
        tier: Tier::Precise,
        period_mode: "fixed",
        period: 1000,
        threshold_cycles: 30,
        latency_kind: LatencyKind::Use,
        population: "",
        cpu_model: "m",
        cpuid: "GenuineIntel,6,85,7",
        attr: "00",
        last_seen: now,
    });
    blocks.extend(events.finish());
    let mut functions = FunctionsDef::default();
    functions.push(&FunctionRow {
        function_id: 1,
        mapping_id: 2,
        start: 3,
        name: "f(int)",
        linkage_name: "_Z1fi",
        rank: 2,
        size: 16,
        source_file: "/src/a.c",
        source_line: 7,
        file_offset: 4097,
        last_seen: now,
    });
    blocks.extend(functions.finish());
    let mut mappings = Mappings::default();
    mappings.push(&MappingRow {
        mapping_id: 2,
        kind: "file",
        build_id: "ab",
        path: "/a/b",
        module: "b",
        last_seen: now,
    });
    blocks.extend(mappings.finish());
    let mut locations = Locations::default();
    locations.push(&LocationRow {
        location_id: 1,
        mapping_id: 2,
        address: 3,
        function_id: 1,
        last_seen: now,
    });
    blocks.extend(locations.finish());
    let mut stacks = Stacks::default();
    stacks.push(&StackRow {
        stack_id: 1,
        locations: &[1, 2, 3],
        last_seen: now,
    });
    blocks.extend(stacks.finish());
    let mut data = DataDef::default();
    data.push(&DataRow {
        data_id: 1,
        region: Region::Global,
        mapping_id: 2,
        name: "table",
        last_seen: now,
    });
    blocks.extend(data.finish());
    let mut workloads = Workloads::default();
    workloads.push(&WorkloadRow {
        workload_id: 1,
        namespace: "n",
        pod: "p",
        container: "c",
        service: "s",
        cgroup_path: "/x",
        cgroup_id: 4,
        last_seen: now,
    });
    blocks.extend(workloads.finish());
    insert(&store, &blocks, 1, now, "t").await.unwrap();

    let answers = [
        (
            "SELECT sum(n), sum(sum_p), sum(n_hitm), uniqMerge(hosts), max(part) FROM fleet_1h",
            "6\t10.5\t3\t2\t1",
        ),
        (
            "SELECT reason, tier, records, seconds, last_batch FROM ledger_1m",
            "lost\tnone\t4\t0.5\t9",
        ),
        (
            "SELECT host, cpus, cpu_nodes, tiers, part FROM hosts",
            "h\t2\t[0,65535]\t['software','precise']\t1",
        ),
        (
            "SELECT part, toUnixTimestamp(closed_through) FROM closes",
            "1\t1767225600",
        ),
        (
            "SELECT name, threshold_cycles, population FROM events",
            "e\t30\t",
        ),
        (
            "SELECT function, module, build_id FROM function_names",
            "f(int)\tb\tab",
        ),
        ("SELECT address FROM locations", "3"),
        ("SELECT locations FROM stacks", "[1,2,3]"),
        ("SELECT name, region FROM data_def", "table\tglobal"),
        ("SELECT pod, service FROM workload_names", "p\ts"),
    ];
    for (sql, expected) in answers {
        assert_eq!(ask(&store, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn an_insert_whose_sender_leaves_commits_nothing() {
    let Some(engine) = engine().await else { return };
    let store = engine.migrated().await;
    let mut raw = crate::support::Raw::connect(&engine.child).await;
    let block = &samples(0..1000)[0];
    let names = memwide_store::rows::Samples::columns().join(",");
    let query = format!("INSERT%20INTO%20memwide.samples%20({names})%20FORMAT%20Native");
    raw.send(&raw.head(
        "POST",
        &format!("/?query={query}"),
        &format!("content-length: {}", block.bytes.len()),
    ))
    .await;
    raw.send(&block.bytes[..block.bytes.len() / 2]).await;
    drop(raw);
    until(Duration::from_secs(10), "the insert ends", || async {
        ask(
            &store,
            "SELECT count() FROM system.processes WHERE query_kind = 'Insert'",
        )
        .await
            == "0"
    })
    .await;
    assert_eq!(ask(&store, "SELECT count() FROM samples").await, "0");
}

#[tokio::test]
async fn a_token_whose_part_never_came_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("engine");
    let Some(options) = options(&data) else {
        return;
    };
    let block = async |store: &memwide_store::Store, block: u64| {
        let rows = samples(block * 300..block * 300 + 300);
        insert(store, &rows, 0, now(), &format!("b{block}")).await
    };
    let mut child = memwide_store::engine::Child::spawn(options.clone())
        .await
        .unwrap();
    let store = child.store("memwide").unwrap();
    store.migrate().await.unwrap();
    for number in 0..3 {
        block(&store, number).await.unwrap();
    }
    let parts = "SELECT path FROM system.parts WHERE table = 'samples' AND active ORDER BY min_block_number";
    let paths = ask(&store, parts).await;
    let pid = rustix::process::Pid::from_raw(child.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    child.exited().await.unwrap();
    // What a kill between the two steps of an insert leaves: the token is in the log, the part has no name yet. And the
    // beginning of one more line.
    let last = std::path::PathBuf::from(paths.lines().last().unwrap());
    let (table, name) = (last.parent().unwrap(), last.file_name().unwrap());
    let unnamed = format!("tmp_insert_{}", name.to_str().unwrap());
    std::fs::rename(&last, table.join(unnamed)).unwrap();
    let log = table.join("deduplication_logs/deduplication_log_1.txt");
    let mut text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    text.push_str("1\t20260101_4");
    std::fs::write(&log, text).unwrap();

    for _ in 0..2 {
        let child = memwide_store::engine::Child::spawn(options.clone())
            .await
            .unwrap();
        let store = child.store("memwide").unwrap();
        for number in 0..4 {
            block(&store, number).await.unwrap();
        }
        let each = "SELECT intDiv(batch, 3) AS b, count() FROM samples GROUP BY b ORDER BY b";
        assert_eq!(ask(&store, each).await, "0\t300\n1\t300\n2\t300\n3\t300");
        assert!(child.stop(Duration::from_secs(20)).await.unwrap());
    }
}

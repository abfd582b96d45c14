//! `pages`, `lines`, `flamegraph` and `annotate` equal counts made here from the same samples.

use std::collections::{BTreeMap, BTreeSet};

use memwide_model::{LatencyKind, Locality, Op, Region, Snoop, Tier};
use serde_json::{Value as Json, json};

use crate::count::{Key, Sample, close, grouped, key_of};
use crate::support::{Running, running};
use crate::truth::{ALL, DATA, FUNCTIONS, STACKS, function, rows};

#[tokio::test(flavor = "multi_thread")]
async fn pages_lines_paths_and_places_equal_counts_of_the_same_samples() {
    let Some(running) = running().await else {
        return;
    };
    let all: Vec<Sample> = rows().collect();
    pages(&running, &all).await;
    lines(&running, &all).await;
    paths(&running, &all).await;
    instructions(&running, &all).await;
    running.stop().await;
}

async fn records(running: &Running, question: &str, table: &str) -> Vec<Json> {
    let reply = running.get(&format!("/api/v1/{question}")).await;
    assert_eq!(reply.json()["source_table"], table, "{}", reply.text());
    assert_eq!(reply.json()["other"], Json::Null, "nothing is cut");
    reply.records()
}

async fn pages(running: &Running, all: &[Sample]) {
    let expected = grouped(all, |row| {
        let page = format!("0x{:x}", row.addr >> 12 << 12);
        [row.host, &row.pid.to_string(), &page, row.event]
            .map(str::to_owned)
            .to_vec()
    });
    let found = records(running, &format!("pages?{ALL}&limit=1000"), "samples").await;
    assert_eq!(found.len(), expected.len());
    let mut verdicts = BTreeSet::new();
    for record in &found {
        let rows = &expected[&key_of(record, &["host", "pid", "page", "event"])];
        let what = record.to_string();
        assert_eq!(record["samples"], rows.len(), "{what}");
        assert_eq!(record["page_bytes"], 4096, "{what}");
        let remote = rows.iter().filter(|row| row.locality == Locality::Remote);
        assert_eq!(record["remote_samples"], remote.count(), "{what}");
        let list = |nodes: BTreeSet<String>| nodes.into_iter().collect::<Vec<_>>().join(" ");
        let lies = rows.iter().filter(|row| row.page_node != 255);
        let lies = list(lies.map(|row| row.page_node.to_string()).collect());
        let used = if record["host"] == "alpha" {
            list(rows.iter().map(|row| (row.cpu / 4).to_string()).collect())
        } else {
            "?".to_owned()
        };
        assert_eq!(
            (&record["page_nodes"], &record["cpu_nodes"]),
            (&json!(lies), &json!(used)),
            "{what}"
        );
        verdicts.insert(record["verdict"].as_str().unwrap().to_owned());
    }
    assert!(
        verdicts.contains("cannot tell") && verdicts.contains("moved"),
        "{verdicts:?}"
    );
}

/// A line: of its variable on all hosts, or of its process.
fn line(row: &Sample) -> Key {
    let line = row.addr / 64;
    if row.region == Region::Global {
        return vec![row.data_id.to_string(), (line % 64).to_string()];
    }
    vec![row.host.to_owned(), row.pid.to_string(), line.to_string()]
}

fn own_line(row: &Sample) -> (&str, u32, u64) {
    (row.host, row.pid, row.addr / 64)
}

fn is_answered(row: &Sample) -> bool {
    matches!(row.snoop, Snoop::HitM | Snoop::Fwd | Snoop::Peer)
}

fn writes(row: &Sample) -> bool {
    row.op == Op::Store || row.locked != 0
}

async fn lines(running: &Running, all: &[Sample]) {
    let precise: Vec<Sample> = all
        .iter()
        .copied()
        .filter(|row| row.tier == Tier::Precise)
        .collect();
    let mut own: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    for row in &precise {
        own.entry(own_line(row)).or_default().push(row);
    }
    own.retain(|_, rows| {
        let cpus: BTreeSet<u16> = rows.iter().map(|row| row.cpu).collect();
        rows.iter().any(|row| is_answered(row))
            || (cpus.len() > 1 && rows.iter().any(|row| writes(row)))
    });
    let taken = precise
        .iter()
        .filter(|row| own.contains_key(&own_line(row)));
    let mut expected: Vec<Vec<Sample>> = grouped(taken, line).into_values().collect();
    let reply = running
        .get(&format!("/api/v1/lines?{ALL}&limit=1000"))
        .await;
    let found = reply.records();
    assert_eq!(found.len(), expected.len());
    let by_others = |row: &Sample, same: bool| {
        own[&own_line(row)]
            .iter()
            .any(|other| writes(other) && other.tid != row.tid && (other.addr == row.addr) == same)
    };
    let numbers = |rows: &[Sample]| -> Json {
        let count = |is: &dyn Fn(&Sample) -> bool| rows.iter().filter(|row| is(row)).count();
        let contended = |row: &Sample| row.op == Op::Load && is_answered(row);
        json!({
            "samples": rows.len(),
            "contended": count(&contended),
            "hitm": count(&|row| contended(row) && row.snoop == Snoop::HitM),
            "loads": count(&|row| row.op == Op::Load),
            "stores": count(&|row| row.op == Op::Store),
            "by_same_offset": count(&|row| contended(row) && by_others(row, true) && !by_others(row, false)),
            "by_other_offset": count(&|row| contended(row) && !by_others(row, true) && by_others(row, false)),
            "by_both": count(&|row| contended(row) && by_others(row, true) && by_others(row, false)),
            "writer_unseen": count(&|row| contended(row) && !by_others(row, true) && !by_others(row, false)),
            "offsets": rows.iter().map(|row| row.addr % 64).collect::<BTreeSet<_>>().len(),
            "threads": rows.iter().map(|row| (row.host, row.pid, row.tid)).collect::<BTreeSet<_>>().len(),
            "cpus": rows.iter().map(|row| (row.host, row.cpu)).collect::<BTreeSet<_>>().len(),
            "lines": rows.iter().map(own_line).collect::<BTreeSet<_>>().len(),
            "hosts": rows.iter().map(|row| row.host).collect::<BTreeSet<_>>().len(),
            "data_symbol": DATA.iter().find(|data| data.id == rows[0].data_id).unwrap().name,
        })
    };
    for record in &found {
        if record["verdict"] == "writer unseen" {
            assert_eq!(record["writers"], 0, "{record}");
        }
        if record["verdict"] == "writers elsewhere" {
            let (writers, own) = (&record["writers"], &record["own_writers"]);
            assert!(writers.as_u64() > own.as_u64(), "{record}");
        }
        let at = expected.iter().position(|rows| {
            let numbers = numbers(rows);
            numbers
                .as_object()
                .unwrap()
                .iter()
                .all(|(name, value)| record[name] == *value)
        });
        let at = at.unwrap_or_else(|| panic!("no line counted here is {record}"));
        expected.remove(at);
    }
    assert!(
        found
            .iter()
            .any(|record| record["address"].as_str().unwrap().starts_with("page + 0x"))
    );
    let first = &found[0];
    let accesses = reply.part("accesses");
    let of_first = accesses
        .iter()
        .filter(|access| access["line_id"] == first["line_id"]);
    let sum: u64 = of_first
        .map(|access| access["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(first["samples"], sum, "accesses of a line are all of it");
}

/// A sample's path, outermost first.
fn path(row: &Sample) -> String {
    let name = |id: u64| {
        FUNCTIONS
            .iter()
            .find(|(known, _)| *known == id)
            .unwrap()
            .1
            .replace(';', ":")
    };
    match STACKS.iter().find(|(id, _)| *id == row.stack_id) {
        None => name(row.function_id),
        Some((_, places)) => places
            .iter()
            .rev()
            .map(|place| name(place / 16))
            .collect::<Vec<_>>()
            .join(";"),
    }
}

async fn paths(running: &Running, all: &[Sample]) {
    let expected = grouped(all, |row| vec![path(row), row.event.to_owned()]);
    let found = records(running, &format!("flamegraph?{ALL}"), "samples").await;
    assert_eq!(found.len(), expected.len());
    for record in &found {
        let rows = &expected[&key_of(record, &["path", "event"])];
        assert_eq!(record["samples"], rows.len(), "{record}");
        let weight: f64 = rows.iter().map(|row| f64::from(row.weight)).sum();
        close(&record["weight"], &json!(weight), &record.to_string());
    }
}

async fn instructions(running: &Running, all: &[Sample]) {
    let of = |row: &&Sample| function(row) == "lookup";
    let expected = grouped(all.iter().filter(of), |row| {
        vec![format!("0x{:x}", row.location_id), row.event.to_owned()]
    });
    let found = records(
        running,
        &format!("annotate?{ALL}&function=lookup"),
        "sites_1h",
    )
    .await;
    assert_eq!(found.len(), expected.len());
    for record in &found {
        let rows = &expected[&key_of(record, &["address", "event"])];
        let what = record.to_string();
        assert_eq!(record["samples"], rows.len(), "{what}");
        assert_eq!(
            record["offset"],
            format!("0x{:x}", rows[0].location_id - 16),
            "{what}"
        );
        assert_eq!(
            record["stores"],
            rows.iter().filter(|row| row.op == Op::Store).count()
        );
        if rows[0].latency_kind == LatencyKind::Use {
            let mean =
                rows.iter().map(|row| f64::from(row.weight)).sum::<f64>() / rows.len() as f64;
            close(&record["mean_latency"], &json!(mean), &what);
        }
    }
    let shares: f64 = found
        .iter()
        .filter(|row| row["event"] == "mem-stores")
        .map(|row| row["share"].as_f64().unwrap())
        .sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

//! Lines and sites for programs.

use super::summary::{blocked, merged};
use super::{Answer, data_name, nodes};
use crate::output::{Column, Table};
use memwide_analysis::sharing::{
    Counter as C, Counts, Evidence, LineRow, Mean, Shared, SiteRow, Verdict,
};
use memwide_decoder::Mode;
use serde_json::{Map, Value, json};

fn counters(counts: &Counts) -> Map<String, Value> {
    let all = counts.iter();
    all.map(|(counter, n)| (counter.name().to_owned(), n.into()))
        .collect()
}

fn part(part: u64, whole: u64) -> Value {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}

/// perf's "Trace Event Information".
pub(super) fn summary(answer: &Answer<'_>) -> Value {
    let total = answer.lines.total();
    let mut all = counters(total);
    let misses = total.llc_misses();
    all.insert("llc_misses".to_owned(), misses.into());
    for (name, counter) in [
        ("llc_misses_to_lcl_dram", C::LocalDram),
        ("llc_misses_to_rmt_dram", C::RemoteDram),
        ("llc_misses_to_rmt_hit", C::RemoteHit),
        ("llc_misses_to_rmt_hitm", C::RemoteHitm),
    ] {
        all.insert(name.to_owned(), part(total.get(counter), misses));
    }
    Value::Object(all)
}

/// perf's "Global Shared Cache Line Event Information".
pub(super) fn shared(shared: &Shared<'_>) -> Value {
    let mut all = counters(&shared.counts);
    all.insert("lines".to_owned(), shared.lines.into());
    all.insert("blocked".to_owned(), blocked(&shared.counts).into());
    all.insert("merged".to_owned(), merged(&shared.counts).into());
    Value::Object(all)
}

/// One line with its sites.
pub(super) fn line(answer: &Answer<'_>, at: usize, line: &LineRow<'_>) -> Value {
    let n = &line.counts;
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("index", at.into());
    put("address", format!("{:#x}", line.address).into());
    put("share", line.share.into());
    put("samples", n.get(C::Entries).into());
    put("hitm", n.get(C::Hitm).into());
    put("lcl_hitm", n.get(C::LocalHitm).into());
    put("rmt_hitm", n.get(C::RemoteHitm).into());
    put("peer", n.get(C::Peer).into());
    put("lcl_peer", n.get(C::LocalPeer).into());
    put("rmt_peer", n.get(C::RemotePeer).into());
    put("records", n.total_records().into());
    put("loads", n.total_loads().into());
    put("stores", n.get(C::Store).into());
    put("counters", Value::Object(counters(n)));
    put("data", data_name(line).into());
    put("data_dso", line.data_dso.into());
    put("region", line.region.name().into());
    put("nodes", json!(line.nodes.members()));
    put("physical_lines", line.physical.len().into());
    put("verdict", verdict(&line.verdict));
    let sites = line.sites();
    let sites = sites
        .iter()
        .filter(|site| answer.all || site.is_listed(answer.display));
    let sites: Vec<Value> = sites.map(|found| site(answer, line, found)).collect();
    put("offsets", sites.into());
    Value::Object(all)
}

fn verdict(verdict: &Verdict) -> Value {
    let evidence = |evidence: &Option<Evidence>| match evidence {
        Some(found) => json!({
            "offset": found.offset, "function": found.function, "thread": found.thread, "n": found.n,
        }),
        None => Value::Null,
    };
    json!({
        "kind": verdict.kind.name(),
        "false_sharing": verdict.kind.is_false_sharing(),
        "contended": verdict.contended,
        "written_at_other_offsets": verdict.apart,
        "written_at_same_offset": verdict.together,
        "written_at_both": verdict.both,
        "writer_unseen": verdict.unseen,
        "writes": verdict.writes,
        "threads": verdict.threads,
        "writers": verdict.writers,
        "offsets": verdict.offsets,
        "victim": evidence(&verdict.victim),
        "writer": evidence(&verdict.writer),
    })
}

fn mean(mean: Mean) -> Value {
    mean.value().into()
}

fn site(answer: &Answer<'_>, line: &LineRow<'_>, site: &SiteRow<'_>) -> Value {
    let n = &site.counts;
    let share = |counter| part(n.get(counter), line.counts.get(counter));
    let latencies = &site.latencies;
    json!({
        "offset": site.offset,
        "code_address": format!("{:#x}", site.ip),
        "symbol": site.symbol,
        "dso": site.dso,
        "srcline": site.source,
        "member": site.member,
        "mode": letter(site.mode).to_string(),
        "pid": if answer.coalesce.pid { json!(site.pid) } else { Value::Null },
        "tid": if answer.coalesce.tid { json!(site.tid) } else { Value::Null },
        "samples": n.get(C::Entries),
        "records": n.total_records(),
        "loads": n.total_loads(),
        "stores": n.get(C::Store),
        "hitm": n.get(C::Hitm),
        "lcl_hitm": n.get(C::LocalHitm),
        "rmt_hitm": n.get(C::RemoteHitm),
        "peer": n.get(C::Peer),
        "contended": site.contended,
        "writes": site.writes,
        "share": {
            "rmt_hitm": share(C::RemoteHitm),
            "lcl_hitm": share(C::LocalHitm),
            "rmt_peer": share(C::RemotePeer),
            "lcl_peer": share(C::LocalPeer),
            "st_l1hit": share(C::StoreL1Hit),
            "st_l1miss": share(C::StoreL1Miss),
            "st_na": share(C::StoreNoLevel),
        },
        "mean_cycles": {
            "rmt_hitm": mean(latencies.remote_hitm),
            "lcl_hitm": mean(latencies.local_hitm),
            "rmt_peer": mean(latencies.remote_peer),
            "lcl_peer": mean(latencies.local_peer),
            "load": mean(latencies.load),
        },
        "counters": counters(n),
        "cpus": site.cpus.members(),
        "threads": site.threads.len(),
        "cpu_nodes": nodes::cpu_nodes(answer, site),
        "by_node": nodes::json(answer, site),
        "nodes": site.nodes.members(),
        "physical_lines": site.physical.len(),
    })
}

/// perf's letter of a mode.
pub(super) fn letter(mode: Mode) -> char {
    match mode {
        Mode::Kernel => 'k',
        Mode::User => '.',
        Mode::Guest => 'g',
        Mode::Other => 'H',
    }
}

/// One row a counter of the summary.
pub(super) fn csv_of_stats(answer: &Answer<'_>, found: &Shared<'_>) -> Table {
    let mut rows = Vec::new();
    for (part, document) in [("all", summary(answer)), ("shared", shared(found))] {
        for (name, value) in document.as_object().into_iter().flatten() {
            rows.push(vec![part.into(), name.as_str().into(), value.clone()]);
        }
    }
    Table {
        columns: ["part", "counter", "value"]
            .map(|name| Column::new(name, ""))
            .to_vec(),
        rows,
        ..Table::default()
    }
}

/// One row a site, with its line.
pub(super) fn csv(answer: &Answer<'_>, lines: &[(usize, &LineRow<'_>)]) -> Table {
    let of_line = [
        "index", "address", "data", "region", "share", "hitm", "lcl_hitm", "rmt_hitm", "peer",
        "records", "loads", "stores",
    ];
    let of_site = [
        "offset",
        "code_address",
        "symbol",
        "dso",
        "srcline",
        "pid",
        "tid",
        "samples",
        "hitm",
        "lcl_hitm",
        "rmt_hitm",
        "peer",
        "loads",
        "stores",
        "contended",
        "writes",
        "threads",
    ];
    let mut columns: Vec<Column> = of_line
        .iter()
        .map(|name| Column::new(format!("line_{name}"), ""))
        .collect();
    columns.push(Column::new("verdict", ""));
    columns.extend(of_site.iter().map(|name| Column::new(*name, "")));
    columns.push(Column::new("cpus", ""));
    let mut rows = Vec::new();
    for (at, found) in lines {
        let document = line(answer, *at, found);
        for site in document["offsets"].as_array().into_iter().flatten() {
            let mut row: Vec<Value> = of_line.iter().map(|name| document[*name].clone()).collect();
            row.push(document["verdict"]["kind"].clone());
            row.extend(of_site.iter().map(|name| site[*name].clone()));
            row.push(
                site["cpus"]
                    .as_array()
                    .map(Vec::len)
                    .filter(|n| *n > 0)
                    .into(),
            );
            rows.push(row);
        }
    }
    Table {
        columns,
        rows,
        ..Table::default()
    }
}

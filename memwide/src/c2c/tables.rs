//! Lines and sites as tables: few columns on a narrow terminal, all of perf's on a wide one.

use super::{Answer, NodeInfo, data_name, nodes, sentence, short};
use crate::output::{Column, Section, Table};
use memwide_analysis::sharing::{Counter as C, Display, LineRow, Mean, SiteRow};
use serde_json::Value;

/// Below this, tables have the columns only that one cannot do without.
const WIDE: usize = 170;
/// Below this, local and remote are not told apart in the table of lines.
const MIDDLE: usize = 100;

type Rows<'a> = [(usize, &'a LineRow<'a>)];

/// The value of a line, which has a number.
type ValueOf = dyn Fn(usize, &LineRow<'_>) -> Value;

/// A column: what it is called, its unit, its value in a line of a number.
struct Cell {
    column: Column,
    value: Box<ValueOf>,
}

fn cell(name: &str, unit: &str, value: impl Fn(usize, &LineRow<'_>) -> Value + 'static) -> Cell {
    Cell {
        column: Column::new(name, unit),
        value: Box::new(value),
    }
}

fn count(name: &str, unit: &str, counter: C) -> Cell {
    cell(name, unit, move |_, line| line.counts.get(counter).into())
}

fn table(cells: &[Cell], lines: &Rows<'_>) -> Table {
    let row = |(at, line): &(usize, &LineRow<'_>)| {
        let values = cells.iter().map(|cell| (cell.value)(*at, line));
        values.collect()
    };
    Table {
        columns: cells.iter().map(|cell| cell.column.clone()).collect(),
        rows: lines.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The table of lines.
pub(super) fn lines(answer: &Answer<'_>, lines: &Rows<'_>) -> Section {
    let is_wide = answer.width >= WIDE;
    let mut cells = vec![cell("line", "", |at, _| at.to_string().into()), address()];
    if is_wide {
        cells.push(cell("node", "", |_, line| page_nodes(&line.nodes).into()));
    }
    let of = match answer.display {
        Display::Total => "hitm",
        Display::Local => "lcl hitm",
        Display::Remote => "rmt hitm",
        Display::Peer => "peer",
    };
    cells.push(cell(of, "ratio", |_, line| line.share.into()));
    let counted = if answer.display == Display::Peer {
        [C::Peer, C::LocalPeer, C::RemotePeer]
    } else {
        [C::Hitm, C::LocalHitm, C::RemoteHitm]
    };
    let is_narrow = answer.width < MIDDLE;
    let shown = if is_narrow { 1 } else { counted.len() };
    for (name, counter) in ["all", "lcl", "rmt"].into_iter().zip(counted).take(shown) {
        cells.push(count(name, "loads", counter));
    }
    if is_wide {
        cells.push(cell("total", "records", |_, line| {
            line.counts.total_records().into()
        }));
        cells.push(cell("total", "loads", |_, line| {
            line.counts.total_loads().into()
        }));
    }
    cells.push(count("total", "stores", C::Store));
    if is_wide {
        for (name, unit, counter) in [
            ("L1", "st hit", C::StoreL1Hit),
            ("L1", "st miss", C::StoreL1Miss),
            ("N/A", "stores", C::StoreNoLevel),
            ("FB", "loads", C::LoadFillBuffer),
            ("L1", "loads", C::LoadL1),
            ("L2", "loads", C::LoadL2),
            ("LLC", "hit", C::LoadL3),
            ("rmt", "hit", C::RemoteHit),
            ("dram", "lcl", C::LocalDram),
            ("dram", "rmt", C::RemoteDram),
        ] {
            cells.push(count(name, unit, counter));
        }
    }
    cells.extend(data_and_verdict());
    Section {
        title: "Shared Data Cache Line Table".to_owned(),
        about: Vec::new(),
        table: table(&cells, lines),
    }
}

fn address() -> Cell {
    cell("address", "", |_, line| {
        format!("{:#x}", line.address).into()
    })
}

fn data_and_verdict() -> [Cell; 2] {
    [
        cell("data", "", |_, line| data_name(line).into()),
        cell("verdict", "", |_, line| line.verdict.kind.name().into()),
    ]
}

/// Lines that nobody was seen to fight over, but several threads use and somebody writes.
pub(super) fn written(lines: &Rows<'_>) -> Section {
    let mut cells = vec![
        address(),
        count("loads", "n", C::Load),
        count("stores", "n", C::Store),
        cell("threads", "n", |_, line| line.verdict.threads.into()),
        cell("writers", "n", |_, line| line.verdict.writers.into()),
    ];
    cells.extend(data_and_verdict());
    Section {
        title: "Other lines that several threads use and somebody writes".to_owned(),
        about: vec![
            "Hardly any load on them was answered by another cache; stores never say what they cost."
                .to_owned(),
        ],
        table: table(&cells, lines),
    }
}

fn page_nodes(nodes: &memwide_analysis::sharing::Set<u8>) -> String {
    if nodes.is_empty() {
        return "N/A".to_owned();
    }
    let nodes: Vec<String> = nodes.members().iter().map(u8::to_string).collect();
    nodes.join(",")
}

fn mean(mean: Mean) -> Value {
    mean.value().map(f64::round).into()
}

/// What happened at each offset of a line, `most` of them.
pub(super) fn sites(answer: &Answer<'_>, at: usize, line: &LineRow<'_>, most: usize) -> Section {
    let is_wide = answer.width >= WIDE;
    let is_peer = answer.display == Display::Peer;
    let (remote, local) = if is_peer {
        (C::RemotePeer, C::LocalPeer)
    } else {
        (C::RemoteHitm, C::LocalHitm)
    };
    let mut columns = vec![
        Column::new("offset", ""),
        Column::new(if is_peer { "rmt peer" } else { "rmt hitm" }, "ratio"),
        Column::new(if is_peer { "lcl peer" } else { "lcl hitm" }, "ratio"),
    ];
    if is_wide {
        columns.extend([
            Column::new("L1 hit", "st ratio"),
            Column::new("L1 miss", "st ratio"),
            Column::new("N/A", "st ratio"),
        ]);
        if answer.coalesce.pid {
            columns.push(Column::new("pid", ""));
        }
        if answer.coalesce.tid {
            columns.push(Column::new("tid", ""));
        }
        columns.extend([
            Column::new(columns[1].name.clone(), "cycles"),
            Column::new(columns[2].name.clone(), "cycles"),
            Column::new("load", "cycles"),
            Column::new("total", "records"),
        ]);
    } else {
        columns.push(Column::new("stores", "ratio"));
        if answer.coalesce.tid {
            columns.push(Column::new("tid", ""));
        }
        columns.push(Column::new("load", "cycles"));
    }
    let sites = line.sites();
    let has_members = sites.iter().any(|site| site.member.is_some());
    let has_sources = sites.iter().any(|site| site.source.is_some());
    // Where there is little room, names tell more than CPUs and addresses.
    let has_places = !has_members || answer.width >= MIDDLE;
    if has_places {
        columns.push(Column::new("cpus", "n"));
    }
    let has_nodes = is_wide || answer.node_info != NodeInfo::Ids;
    if has_nodes {
        columns.push(Column::new(answer.node_info.heading(answer.display), ""));
    }
    if has_places {
        columns.push(Column::new("code address", ""));
    }
    if has_members {
        columns.push(Column::new("member", ""));
    }
    columns.push(Column::new("symbol", ""));
    if is_wide {
        columns.push(Column::new("object", ""));
        if has_sources {
            columns.push(Column::new("source", ""));
        }
    }
    for column in &mut columns {
        if column.unit == "st ratio" {
            "ratio".clone_into(&mut column.unit);
        }
    }
    let share = |site: &SiteRow<'_>, counter| -> Value {
        let whole = line.counts.get(counter);
        let part = site.counts.get(counter);
        (whole > 0).then(|| part as f64 / whole as f64).into()
    };
    let listed = sites
        .iter()
        .filter(|site| answer.all || site.is_listed(answer.display));
    let all = listed.clone().count();
    let rows = listed.take(most).map(|site| {
        let latencies = &site.latencies;
        let (remote_mean, local_mean) = if is_peer {
            (latencies.remote_peer, latencies.local_peer)
        } else {
            (latencies.remote_hitm, latencies.local_hitm)
        };
        let mut cells: Vec<Value> = vec![
            format!("{:#x}", site.offset).into(),
            share(site, remote),
            share(site, local),
        ];
        if is_wide {
            cells.extend([
                share(site, C::StoreL1Hit),
                share(site, C::StoreL1Miss),
                share(site, C::StoreNoLevel),
            ]);
            if answer.coalesce.pid {
                cells.push(site.pid.to_string().into());
            }
            if answer.coalesce.tid {
                cells.push(site.tid.to_string().into());
            }
            cells.extend([
                mean(remote_mean),
                mean(local_mean),
                mean(latencies.load),
                site.counts.total_records().into(),
            ]);
        } else {
            cells.push(share(site, C::Store));
            if answer.coalesce.tid {
                cells.push(site.tid.to_string().into());
            }
            cells.push(mean(latencies.load));
        }
        if has_places {
            // None known: samples without a CPU.
            cells.push((!site.cpus.is_empty()).then(|| site.cpus.len()).into());
        }
        let symbol = format!("[{}] {}", super::json::letter(site.mode), symbol(site));
        if has_nodes {
            cells.push(nodes::cell(answer, site).into());
        }
        if has_places {
            cells.push(format!("{:#x}", site.ip).into());
        }
        if has_members {
            cells.push(site.member.into());
        }
        cells.push(symbol.into());
        if is_wide {
            cells.push(short(site.dso).into());
            if has_sources {
                cells.push(site.source.map(short).into());
            }
        }
        cells
    });
    let physical = match line.physical.len() {
        0 => String::new(),
        1 => ", one physical line".to_owned(),
        n => format!(", {n} physical lines"),
    };
    Section {
        title: format!(
            "Line {at}: {:#x}, {}, {}{physical}; {} samples",
            line.address,
            data_name(line),
            if line.data_dso.is_empty() {
                "not mapped"
            } else {
                short(line.data_dso)
            },
            line.counts.get(C::Entries),
        ),
        about: vec![sentence(&line.verdict)],
        table: Table {
            columns,
            rows: rows.collect(),
            notes: more(all, most),
            json: None,
        },
    }
}

/// Says that there are more than are shown.
fn more(all: usize, most: usize) -> Vec<String> {
    let hidden = all.saturating_sub(most);
    let text = || format!("… and {hidden} more; --limit N shows N, --format json all");
    (hidden > 0).then(text).into_iter().collect()
}

fn symbol(site: &SiteRow<'_>) -> String {
    site.symbol
        .map_or_else(|| format!("{:#018x}", site.ip), str::to_owned)
}

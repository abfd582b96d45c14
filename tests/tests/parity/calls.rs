//! Call trees below rows, and what functions and all they called add up to.

use crate::perf::{self, memwide};
use memwide_tests::generated::{self, Generated};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Samples by path, `function;function;…` from the row's function on; of paths whose functions all have names.
type Paths = BTreeMap<String, u64>;

fn with_frames(folder: &tempfile::TempDir) -> PathBuf {
    let file = folder.path().join("frames.data");
    let wanted = Generated {
        frames: 6,
        symbols: 40,
        ..Generated::of_this_program(4_000)
    };
    generated::write(&file, &wanted);
    file
}

fn is_named(path: &str) -> bool {
    !path
        .split(';')
        .any(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

fn their_paths(file: &Path, order: &str) -> Paths {
    let graph = format!("folded,0,{order},function,count");
    let args = [
        "report",
        "--no-children",
        "--stdio",
        "--sort",
        "symbol",
        "-g",
        &graph,
    ];
    let mut paths = Paths::new();
    for line in perf::perf(&args, file).lines() {
        // `COUNT frame;frame`; the lines of rows start with blanks.
        if let Some((count, path)) = line.split_once(' ')
            && let Ok(count) = count.parse::<u64>()
            && is_named(path)
        {
            *paths.entry(path.to_owned()).or_default() += count;
        }
    }
    paths
}

fn our_paths(file: &Path, order: &str) -> Paths {
    let args = [
        "report",
        "--sort",
        "symbol",
        "-g",
        order,
        "--no-inline",
        "--percent-limit",
        "0",
        "--format",
        "json",
    ];
    let document: Value = serde_json::from_str(&memwide(&args, file)).unwrap();
    let below = if order == "callee" {
        "callers"
    } else {
        "callees"
    };
    let mut paths = Paths::new();
    for row in document["rows"].as_array().unwrap() {
        let start = match order {
            "callee" => row["symbol"].as_str().unwrap(),
            _ => "",
        };
        collect(&mut paths, row, start, below);
    }
    paths.retain(|path, _| is_named(path));
    paths
}

/// Adds the samples that end at a node, then those of the nodes below.
fn collect(paths: &mut Paths, node: &Value, path: &str, below: &str) {
    let samples = |node: &Value| node["samples"].as_u64().unwrap();
    let children = node[below].as_array().unwrap();
    let beyond: u64 = children.iter().map(samples).sum();
    let without = node["without_callchain"]["samples"].as_u64().unwrap_or(0);
    let own = samples(node) - beyond - without;
    if own > 0 {
        *paths.entry(path.to_owned()).or_default() += own;
    }
    for child in children {
        let name = child["symbol"].as_str().unwrap();
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path};{name}")
        };
        collect(paths, child, &path, below);
    }
}

#[test]
fn call_trees_hold_the_paths_of_perf_report() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = with_frames(&folder);
    for order in ["callee", "caller"] {
        let (ours, theirs) = (our_paths(&file, order), their_paths(&file, order));
        assert!(theirs.len() > 50, "{order}: only {} paths", theirs.len());
        let differ = theirs
            .iter()
            .find(|(path, count)| ours.get(*path) != Some(count));
        let found = differ.map(|(path, _)| ours.get(path));
        assert_eq!(differ, None, "{order}: memwide has {found:?}");
        assert_eq!(ours.len(), theirs.len(), "{order}");
    }
}

#[test]
fn what_functions_and_all_they_called_add_up_to_is_as_in_perf_report() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = with_frames(&folder);
    let args = [
        "report",
        "--children",
        "--stdio",
        "-g",
        "none",
        "-t",
        "\u{1}",
        "--percent-limit",
        "0",
        "-F",
        "overhead_children,overhead,sample,sym",
    ];
    let text = perf::perf(&args, &file);
    let mut theirs: Vec<[String; 4]> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<String> = line
            .split('\u{1}')
            .map(|cell| cell.trim().to_owned())
            .collect();
        if let Ok(cells) = cells.try_into() {
            theirs.push(cells);
        }
    }
    let args = [
        "report",
        "--children",
        "--by",
        "period",
        "--sort",
        "symbol",
        "--format",
        "json",
    ];
    let document: Value = serde_json::from_str(&memwide(&args, &file)).unwrap();
    let percent = |value: &Value| format!("{:.2}%", 100.0 * value.as_f64().unwrap());
    let rows = document["rows"].as_array().unwrap().iter();
    let mut ours: Vec<[String; 4]> = rows
        .map(|row| {
            let (mode, symbol) = (&row["symbol_mode"], &row["symbol"]);
            let name = format!("[{}] {}", mode.as_str().unwrap(), symbol.as_str().unwrap());
            [
                percent(&row["children"]),
                percent(&row["overhead"]),
                row["samples"].to_string(),
                name,
            ]
        })
        .collect();
    for rows in [&mut ours, &mut theirs] {
        rows.sort_unstable_by(|one, other| one[3].cmp(&other[3]).then(one.cmp(other)));
    }
    assert!(theirs.len() > 40, "{text}");
    let differ = ours
        .iter()
        .zip(&theirs)
        .find(|(ours, theirs)| ours != theirs);
    assert_eq!(differ, None);
    assert_eq!(ours.len(), theirs.len());
}

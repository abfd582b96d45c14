//! `memwide diff` beside `perf diff`: shares before, and how they changed.

use crate::perf;
use memwide_tests::generated::{self, Generated};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn output(program: &Path, args: &[&str], files: [&Path; 2]) -> String {
    let output = Command::new(program)
        .args(args)
        .args(files)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `event object symbol baseline delta`, both in hundredths of a per cent.
type Row = (String, String, String, i64, i64);

#[expect(clippy::cast_possible_truncation, reason = "hundredths of a per cent")]
fn hundredths(share: f64) -> i64 {
    (share * 10_000.0).round() as i64
}

fn theirs(files: [&Path; 2]) -> Vec<Row> {
    let args = [
        "diff",
        "-f",
        "-c",
        "delta",
        "-s",
        "dso,symbol",
        "-t",
        "\u{1}",
    ];
    let text = output(Path::new("perf"), &args, files);
    let (mut rows, mut event) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# Event '") {
            name.trim_end_matches('\'').clone_into(&mut event);
        }
        let cells: Vec<&str> = line.split('\u{1}').map(str::trim).collect();
        if line.starts_with('#') || cells.len() < 4 {
            continue;
        }
        let number = |text: &str| {
            let share: f64 = text.trim_end_matches('%').parse().unwrap_or(0.0);
            hundredths(share / 100.0)
        };
        let symbol = cells[3].split_once(' ').map_or("", |(_, symbol)| symbol);
        let (dso, symbol) = (cells[2].to_owned(), symbol.trim().to_owned());
        // Addresses of nothing that is known are one row of ours.
        let symbol = if dso == "[unknown]" {
            "[no symbol]".to_owned()
        } else {
            symbol
        };
        rows.push((
            event.clone(),
            dso,
            symbol,
            number(cells[0]),
            number(cells[1]),
        ));
    }
    rows.sort_unstable();
    rows
}

fn ours(files: [&Path; 2]) -> Vec<Row> {
    let args = [
        "diff",
        "--by",
        "period",
        "-s",
        "dso,symbol",
        "--format",
        "json",
    ];
    let text = output(&memwide_tests::memwide(), &args, files);
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    for row in document["rows"].as_array().unwrap() {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let number = |name: &str| row[name].as_f64().unwrap();
        let before = hundredths(number("share_before"));
        // perf shows no change of what is gone.
        let gone = row["samples_after"] == 0;
        let delta = if gone { 0 } else { hundredths(number("delta")) };
        rows.push((text("event"), text("dso"), text("symbol"), before, delta));
    }
    rows.sort_unstable();
    rows
}

#[test]
fn shares_and_changes_are_those_of_perf_diff() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("a.data"), folder.path().join("b.data"));
    let even = Generated::of_this_program(5_000);
    generated::write(&before, &even);
    let skewed = Generated {
        samples: 6_000,
        skewed: true,
        ..even
    };
    generated::write(&after, &skewed);
    let files = [before.as_path(), after.as_path()];
    let (ours, theirs) = (ours(files), theirs(files));
    assert!(theirs.len() > 500, "only {} rows", theirs.len());
    let names = |rows: &[Row]| {
        let name = |row: &Row| (row.0.clone(), row.1.clone(), row.2.clone());
        rows.iter().map(name).collect::<Vec<_>>()
    };
    let (our_names, their_names) = (names(&ours), names(&theirs));
    let missing: Vec<_> = their_names
        .iter()
        .filter(|name| !our_names.contains(name))
        .collect();
    assert!(missing.is_empty(), "perf alone has {missing:?}");
    for (event, dso, symbol, before, delta) in theirs.iter().filter(|row| row.1 != "[unknown]") {
        let found = ours
            .iter()
            .find(|row| (&row.0, &row.1, &row.2) == (event, dso, symbol));
        let (_, _, _, our_before, our_delta) = found.unwrap();
        // Rounded once by them, once by us.
        assert!(
            (before - our_before).abs() <= 1,
            "{symbol}: {before} {our_before}"
        );
        assert!(
            (delta - our_delta).abs() <= 1,
            "{symbol}: {delta} {our_delta}"
        );
    }
}

//! What ARCHITECTURE.md and STYLE.md promise, checked.

use crate::support::{Package, packages, root, sources};
use std::collections::BTreeMap;

/// Packages each package of ours may depend on. A service is never in another service's row.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("memwide-model", &[]),
    ("memwide-perf-abi", &[]),
    ("memwide-objects", &["memwide-model"]),
    ("memwide-proto", &["memwide-model"]),
    ("memwide-service", &[]),
    ("memwide-store", &["memwide-model", "memwide-service"]),
    (
        "memwide-collector",
        &[
            "memwide-model",
            "memwide-objects",
            "memwide-perf-abi",
            "memwide-proto",
            "memwide-service",
        ],
    ),
    (
        "memwide-decoder",
        &[
            "memwide-model",
            "memwide-objects",
            "memwide-perf-abi",
            "memwide-proto",
            "memwide-service",
        ],
    ),
    (
        "memwide-aggregator",
        &[
            "memwide-model",
            "memwide-proto",
            "memwide-service",
            "memwide-store",
        ],
    ),
    (
        "memwide-query",
        &[
            "memwide-model",
            "memwide-perf-abi",
            "memwide-proto",
            "memwide-service",
            "memwide-store",
        ],
    ),
    (
        "memwide-simulator",
        &[
            "memwide-collector",
            "memwide-model",
            "memwide-objects",
            "memwide-perf-abi",
            "memwide-proto",
            "memwide-service",
        ],
    ),
    (
        "memwide-analysis",
        &[
            "memwide-decoder",
            "memwide-model",
            "memwide-objects",
            "memwide-perf-abi",
        ],
    ),
    ("memwide", &["*"]),
    ("memwide-tests", &["*"]),
];

/// Crates that bring I/O and a runtime: the pure packages know none of them.
const NOT_PURE: [&str; 8] = [
    "tokio",
    "tonic",
    "async-nats",
    "clickhouse",
    "axum",
    "hyper",
    "ureq",
    "tracing",
];

/// The pure packages.
const PURE: [&str; 3] = ["memwide-model", "memwide-perf-abi", "memwide-objects"];

/// Where `unsafe` may stand; each place is named in STYLE.md.
const MAY_BE_UNSAFE: [&str; 4] = [
    "collector/src/sys",
    "collector/src/ring",
    "store/src/engine/",
    "service/src/child",
];

/// Lines of a file, tests included. Generated code aside.
const LINES_MAX: usize = 600;

#[test]
fn packages_depend_only_downwards() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut wrong = Vec::new();
    for Package {
        name, dependencies, ..
    } in packages()
    {
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} has no row in MAY_USE"));
            continue;
        };
        for (used, kind) in dependencies
            .iter()
            .filter(|(used, _)| used.starts_with("memwide"))
        {
            let fine = may.contains(&"*") || may.contains(&used.as_str());
            if !fine && kind.is_empty() {
                wrong.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn pure_packages_know_no_runtime() {
    let pure = packages()
        .into_iter()
        .filter(|package| PURE.contains(&package.name.as_str()));
    let wrong: Vec<String> = pure
        .flat_map(|package| {
            let used = package.dependencies.into_iter();
            let used =
                used.filter(|(used, kind)| kind.is_empty() && NOT_PURE.contains(&used.as_str()));
            used.map(move |(used, _)| format!("{} uses {used}", package.name))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_package_inherits_the_lints_and_has_its_sentence() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut wrong = Vec::new();
    for package in packages() {
        let manifest = std::fs::read_to_string(&package.manifest).unwrap();
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(format!(
                "{} does not inherit the workspace lints",
                package.name
            ));
        }
        if !architecture.contains(&format!("| `{}` |", package.name)) {
            wrong.push(format!("{} has no row in ARCHITECTURE.md", package.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_stands_only_in_the_named_places() {
    let word = ["un", "safe"].concat();
    let code = |line: &str| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.contains(&format!("{word}_code"))
    };
    let opens = [
        format!("{word} {{"),
        format!("{word} fn"),
        format!("{word} impl"),
        format!("{word} extern"),
    ];
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|(path, _)| !MAY_BE_UNSAFE.iter().any(|place| path.starts_with(place)))
        .filter(|(_, text)| {
            text.lines()
                .any(|line| code(line) && opens.iter().any(|open| line.contains(open)))
        })
        .map(|(path, _)| path)
        .collect();
    assert!(
        wrong.is_empty(),
        "unsafe outside of {MAY_BE_UNSAFE:?}: {wrong:#?}"
    );
}

#[test]
fn files_stay_small() {
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|(path, _)| !path.contains("/gen/"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines} lines, {LINES_MAX} at most"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_left_open_and_no_test_is_switched_off() {
    let marks = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X"].concat(),
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
        ["#[ign", "ore"].concat(),
        ["cfg(te", "sts)"].concat(),
        ["allow(dead", "_code)"].concat(),
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (at, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(mark.as_str())) {
                wrong.push(format!("{path}:{}: {mark}", at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// In `code`, at least five underscores: a test's name.
#[test]
fn every_test_named_in_a_document_exists() {
    let sources: Vec<String> = sources().into_iter().map(|(_, text)| text).collect();
    let mut wrong = Vec::new();
    for (path, text) in crate::support::documents() {
        for word in text.split('`').skip(1).step_by(2) {
            let name = word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if name
                && word.matches('_').count() >= 5
                && !sources
                    .iter()
                    .any(|source| source.contains(&format!("fn {word}(")))
            {
                wrong.push(format!("{path}: {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that are not there: {wrong:#?}");
}

#[test]
fn documents_point_at_files_that_exist() {
    let mut wrong = Vec::new();
    for (path, text) in crate::support::documents() {
        let folder = root().join(&path);
        let folder = folder.parent().unwrap();
        for link in crate::support::links(&text) {
            let target = link.split('#').next().unwrap_or_default();
            let outside =
                target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            if !outside && !folder.join(target).exists() {
                wrong.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "dead links: {wrong:#?}");
}

#[test]
fn make_targets_of_the_documents_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let mut wrong = Vec::new();
    for (path, text) in crate::support::documents() {
        for piece in text.split('`').filter(|piece| piece.starts_with("make ")) {
            let target = piece.split_whitespace().nth(1).unwrap_or_default();
            let known = makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")));
            if !known {
                wrong.push(format!("{path}: `{piece}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such target: {wrong:#?}");
}

//! Functions of stripped Go programs, compiled here where there is a Go compiler.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

use memwide_objects::{Limits, SymbolTable, read_image};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "package main\n\n//go:noinline\nfunc hot(a []int) (s int) {\n\tfor _, x := range a {\n\t\ts += x * 3\n\t}\n\treturn\n}\n\n\
                       func main() {\n\ta := make([]int, 1<<16)\n\tprintln(hot(a))\n}\n";

fn built(dir: &Path, name: &str, args: &[&str]) -> Option<PathBuf> {
    std::fs::write(dir.join("main.go"), PROGRAM).unwrap();
    let path = dir.join(name);
    let output = Command::new("go")
        .env("GOCACHE", dir.join("cache"))
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "")
        .env("CGO_ENABLED", "0")
        .current_dir(dir)
        .args(["build", "-o"])
        .arg(&path)
        .args(args)
        .arg("main.go")
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no Go compiler `go`");
        return None;
    };
    if !output.status.success() {
        eprintln!(
            "skipped: go build {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return None;
    }
    Some(path)
}

/// Functions by start: name and size.
fn functions(path: &Path) -> BTreeMap<u64, (String, u64)> {
    let len = usize::try_from(path.metadata().unwrap().len()).unwrap();
    let image = read_image(&mut std::fs::File::open(path).unwrap(), len).unwrap();
    let table = SymbolTable::from_elf(&image, &Limits::default()).unwrap();
    let functions = table.functions().iter();
    functions
        .map(|f| (f.start, (f.name.to_owned(), f.size)))
        .collect()
}

/// The table shortens type arguments to `[...]` and leaves out which calling convention is meant.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix(".abi0").unwrap_or(name);
    name.split('[').next().unwrap_or(name)
}

#[test]
fn a_stripped_program_has_the_functions_of_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    for mode in ["exe", "pie"] {
        let mode = format!("-buildmode={mode}");
        let whole = built(dir.path(), "whole", &[&mode]);
        let stripped = built(dir.path(), "stripped", &[&mode, "-ldflags=-s -w"]);
        let (Some(whole), Some(stripped)) = (whole, stripped) else {
            continue;
        };
        let (whole, stripped) = (functions(&whole), functions(&stripped));
        let own: Vec<_> = stripped
            .values()
            .filter(|(name, _)| name.starts_with("main."))
            .collect();
        assert!(
            own.iter()
                .any(|(name, size)| name == "main.hot" && *size > 10),
            "{own:?}"
        );
        assert!(stripped.len() > 500, "{}", stripped.len());
        let same = stripped.iter().filter(|(start, (name, _))| {
            whole
                .get(start)
                .is_some_and(|(known, _)| plain(known) == plain(name))
        });
        let same = same.count();
        assert!(
            same * 100 > stripped.len() * 98,
            "{mode}: {same} of {}",
            stripped.len()
        );
    }
}

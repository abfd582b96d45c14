//! Source lines and inlined functions of real files, compared with what addr2line says of them; and hostile ones.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

use memwide_objects::{DebugError, DebugInfo, DebugSections, Index, SymbolTable, demangle};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = r"#include <stdlib.h>
static volatile long sink;
static inline __attribute__((always_inline)) long leaf(const long *p, int n) {
    long s = 0;
    for (int i = 0; i < n; i++)
        s += p[i] * 3;
    return s;
}
static inline __attribute__((always_inline)) long middle(const long *p, int n) {
    return leaf(p, n) + 1;
}
__attribute__((noinline)) long work(const long *p, int n) {
    return middle(p, n) ^ 5;
}
__attribute__((noinline)) long cold(const long *p, int n) {
    if (n > 1000)
        abort();
    return leaf(p, n / 2) + middle(p + 1, n / 3);
}
int main(void) {
    long *p = calloc(1 << 20, 8);
    sink += work(p, 1 << 20);
    sink += cold(p, 30);
    return 0;
}
";

/// The program compiled with these options, or `None` (said loudly) without a compiler.
fn compiled(dir: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = dir.join("lines.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let to = dir.join(name);
    let mut cc = Command::new("cc");
    cc.args(options).arg(&source).arg("-o").arg(&to);
    let Ok(out) = cc.output() else {
        eprintln!("skipped: no C compiler `cc`");
        return None;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        eprintln!("skipped: cc {options:?}: {said}");
        return None;
    }
    Some(to)
}

fn debug_info(path: &Path) -> Result<DebugInfo, DebugError> {
    let len = path.metadata().unwrap().len();
    DebugInfo::new(
        DebugSections::read(&mut File::open(path).unwrap(), len)?,
        None,
    )
}

fn functions(path: &Path) -> SymbolTable {
    SymbolTable::from_elf(
        &std::fs::read(path).unwrap(),
        &memwide_objects::Limits::default(),
    )
    .unwrap()
}

/// `function file:line` of each address. Compilers that keep only lines name functions only where some are inlined; then the
/// symbol is the name, as it is for addr2line.
fn ours(path: &Path, addresses: &[u64]) -> String {
    let mut info = debug_info(path).unwrap();
    let table = functions(path);
    let index = Index::build(table.functions());
    let mut text = String::new();
    for address in addresses {
        writeln!(text, "{address:#x}").unwrap();
        let frames = info.frames(*address).unwrap();
        for frame in frames {
            let symbol = || table.functions().get(index.lookup(*address)?.index());
            let linked = frame.function.as_deref();
            let linked = linked.or_else(|| symbol().map(|symbol| symbol.name));
            let name = linked.map_or("??".into(), demangle);
            let file = frame.file.as_deref().unwrap_or("??");
            let line = match frame.line {
                0 => "?".to_owned(),
                line => line.to_string(),
            };
            writeln!(text, " {name} {file}:{line}").unwrap();
        }
    }
    text
}

/// The same by `addr2line`; `None` (said loudly) if there is none.
fn theirs(path: &Path, addresses: &[u64]) -> Option<String> {
    let started = Command::new("addr2line")
        .args(["-fiaC", "-e"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        eprintln!("skipped: no `addr2line` to compare with");
        return None;
    };
    let mut asked = String::new();
    for address in addresses {
        writeln!(asked, "{address:#x}").unwrap();
    }
    let mut pipe = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || pipe.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut text = String::new();
    let mut lines = said.lines();
    let mut name = None;
    for line in &mut lines {
        if let Some(address) = line.strip_prefix("0x") {
            writeln!(text, "{:#x}", u64::from_str_radix(address, 16).unwrap()).unwrap();
        } else if let Some(name) = name.take() {
            let place = line.split(" (").next().unwrap();
            writeln!(text, " {name} {place}").unwrap();
        } else {
            name = Some(line);
        }
    }
    Some(text)
}

#[track_caller]
fn check_like_addr2line(path: &Path, addresses: &[u64]) {
    let Some(theirs) = theirs(path, addresses) else {
        return;
    };
    compare(path, &ours(path, addresses), &theirs);
}

#[track_caller]
fn compare(path: &Path, ours: &str, theirs: &str) {
    let differs = ours
        .lines()
        .zip(theirs.lines())
        .position(|(ours, theirs)| ours != theirs);
    if let Some(at) = differs {
        let around = |text: &str| {
            text.lines()
                .skip(at.saturating_sub(4))
                .take(8)
                .collect::<Vec<_>>()
                .join("\n")
        };
        panic!(
            "{}:\nours\n{}\naddr2line\n{}",
            path.display(),
            around(ours),
            around(theirs)
        );
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

/// Each byte of the program's own functions.
fn addresses_of(path: &Path, names: &[&str]) -> Vec<u64> {
    let table = functions(path);
    let found = names
        .iter()
        .filter_map(|name| table.functions().named(name));
    found
        .flat_map(|function| function.start..function.end())
        .collect()
}

const OWN: [&str; 4] = ["work", "cold", "cold.cold", "main"];

#[test]
fn lines_and_inlined_functions_are_those_of_addr2line() {
    let dir = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("dwarf5", &["-O1", "-g"][..]),
        ("dwarf4", &["-O2", "-gdwarf-4"]),
        ("dwarf3", &["-O1", "-gdwarf-3"]),
        ("dwarf2", &["-O2", "-gdwarf-2"]),
        ("types", &["-O1", "-g", "-fdebug-types-section"]),
        (
            "sections",
            &["-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"],
        ),
        ("zlib", &["-O2", "-g", "-gz=zlib"]),
        ("old-zlib", &["-O2", "-gdwarf-4", "-gz=zlib-gnu"]),
        ("zstd", &["-O2", "-g", "-gz=zstd"]),
        ("static", &["-O2", "-g", "-static", "-no-pie"]),
        ("few", &["-O2", "-g1"]),
    ] {
        let Some(path) = compiled(dir.path(), name, options) else {
            continue;
        };
        let addresses = addresses_of(&path, &OWN);
        assert!(addresses.len() > 50, "{name}");
        check_like_addr2line(&path, &addresses);
    }
}

#[test]
fn the_wide_format_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let narrow = compiled(dir.path(), "narrow", &["-O2", "-g", "-gdwarf32"]);
    let wide = compiled(dir.path(), "wide", &["-O2", "-g", "-gdwarf64"]);
    let (Some(narrow), Some(wide)) = (narrow, wide) else {
        return;
    };
    let addresses = addresses_of(&narrow, &OWN);
    let text = |path: &Path| ours(path, &addresses);
    assert_eq!(text(&narrow), text(&wide));
}

#[test]
fn asking_again_and_again_is_never_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = compiled(dir.path(), "often", &["-O1", "-g"]) else {
        return;
    };
    let mut info = debug_info(&path).unwrap();
    let addresses = addresses_of(&path, &OWN);
    for _ in 0..2_000 {
        for address in &addresses {
            assert!(!info.frames(*address).unwrap().is_empty());
        }
    }
}

#[test]
fn an_inlined_function_has_its_callers_with_the_lines_of_the_calls() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = compiled(dir.path(), "a", &["-O1", "-g"]) else {
        return;
    };
    let mut info = debug_info(&path).unwrap();
    let mut chains: Vec<Vec<(String, u32)>> = Vec::new();
    for address in addresses_of(&path, &["work"]) {
        let frames = info.frames(address).unwrap();
        for frame in &frames {
            assert!(frame.file.as_ref().unwrap().ends_with("/lines.c"));
        }
        let chain = frames
            .iter()
            .map(|f| (f.function.as_ref().unwrap().to_string(), f.line));
        chains.push(chain.collect());
    }
    let named = |chain: &[(&str, u32)]| -> Vec<(String, u32)> {
        chain
            .iter()
            .map(|(name, line)| ((*name).to_owned(), *line))
            .collect()
    };
    assert!(
        chains.contains(&named(&[("leaf", 6), ("middle", 10), ("work", 13)])),
        "{chains:?}"
    );
    assert!(chains.contains(&named(&[("work", 13)])), "{chains:?}");
}

#[test]
fn lines_of_rust_are_those_of_addr2line() {
    let path = std::env::current_exe().unwrap();
    let table = functions(&path);
    let own = table
        .functions()
        .iter()
        .filter(|function| function.name.contains("memwide_objects"));
    let addresses: Vec<u64> = own
        .flat_map(|function| (function.start..function.end()).step_by(7))
        .step_by(5)
        .take(2_000)
        .collect();
    assert!(addresses.len() > 100);
    let Some(theirs) = theirs(&path, &addresses) else {
        return;
    };
    // Where only lines are kept, addr2line names inlined functions after the symbol they are in.
    let places = |text: &str| -> String {
        let place = |line: &str| line.rsplit(' ').next().unwrap().to_owned() + "\n";
        text.lines().map(place).collect()
    };
    compare(&path, &places(&ours(&path, &addresses)), &places(&theirs));
}

#[test]
fn a_file_without_debug_information_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = compiled(dir.path(), "bare", &["-O1", "-s"]) else {
        return;
    };
    assert_eq!(debug_info(&path).unwrap_err(), DebugError::None);
    let text = b"#!/bin/sh\n";
    let refused = DebugSections::read(&mut Cursor::new(text), 10).unwrap_err();
    assert_eq!(refused, DebugError::Sections { len: 10 });
}

#[test]
fn damaged_debug_information_is_refused_or_read_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = compiled(dir.path(), "whole", &["-O1", "-g"]) else {
        return;
    };
    let whole = std::fs::read(&path).unwrap();
    let addresses = addresses_of(&path, &OWN);
    // A fixed sequence of pseudo-random places, each with another damage.
    let mut state = 7_u64;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(state >> 33).unwrap() % (bytes.len() - 0x3000) + 0x3000;
            bytes[at] = bytes[at].wrapping_add(u8::try_from(state >> 20 & 0xff).unwrap());
        }
        let len = bytes.len() as u64;
        let Ok(sections) = DebugSections::read(&mut Cursor::new(&bytes), len) else {
            continue;
        };
        if let Ok(mut info) = DebugInfo::new(sections, None) {
            for address in &addresses {
                let _ = info.frames(*address);
            }
        }
    }
}

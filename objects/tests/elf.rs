//! Real files: compiled here, read back, compared with what binutils and perf say of them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use memwide_objects::{
    Flags, Gap, IdKind, Index, Kallsyms, KallsymsError, Limits, ObjectError, ObjectId, Segments,
    Source, Symbol, SymbolTable, demangle,
};
use support::{Map, perf_is_here, perf_names};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int counter = 7;
static volatile char big[100000];
const char *const words[] = {"a", "b"};
__thread int mine = 3;
__attribute__((noinline)) int leaf(int x) { return x * counter + mine; }
static __attribute__((noinline)) int hidden(int x) { return leaf(x) + big[x & 0xff]; }
int strong(int x) { return hidden(x) ^ 5; }
int weak_alias(int x) __attribute__((weak, alias("strong")));
int __under(int x) __attribute__((alias("strong")));
__asm__(".text\n.globl label_in_code\nlabel_in_code:\n nop\n nop\n.previous");
int main(int argc, char **argv) {
    char *p = malloc(1 << 16);
    memset(p, argc, 1 << 16);
    int n = puts(words[argc & 1]) + strong(argc) + weak_alias(argc) + p[argc];
    free(p);
    return n == 12345;
}
"#;

/// The program compiled with these options, or `None` (said loudly) without a compiler.
fn compiled(dir: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = dir.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let to = dir.join(name);
    let mut cc = Command::new("cc");
    cc.arg("-O1").args(options).arg(&source).arg("-o").arg(&to);
    let Ok(out) = cc.output() else {
        eprintln!("skipped: no C compiler `cc`");
        return None;
    };
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Some(to)
}

fn table(file: &Path) -> SymbolTable {
    SymbolTable::from_elf(&std::fs::read(file).unwrap(), &Limits::default()).unwrap()
}

fn symbol<'a>(table: &'a SymbolTable, name: &str) -> Symbol<'a> {
    let named = table
        .functions()
        .named(name)
        .or_else(|| table.objects().named(name));
    named.unwrap_or_else(|| panic!("no `{name}`"))
}

#[test]
fn functions_and_objects_of_a_program_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = compiled(dir.path(), "whole", &[]) else {
        return;
    };
    let table = table(&file);
    assert_eq!(table.gaps().count(), 0);

    let leaf = symbol(&table, "leaf");
    assert!(leaf.size > 0 && leaf.flags.has(Flags::GLOBAL));
    assert_eq!(leaf.source, Source::SymTab);
    let index = Index::build(table.functions());
    let at = |address| {
        index
            .lookup(address)
            .and_then(|at| table.functions().get(at.index()))
    };
    assert_eq!(at(leaf.start), Some(leaf));
    assert_eq!(at(leaf.end() - 1), Some(leaf));
    assert_ne!(at(leaf.end()), Some(leaf));
    assert!(table.functions().named("hidden").is_some());
    assert!(symbol(&table, "label_in_code").flags.has(Flags::LABEL));

    assert_eq!(symbol(&table, "counter").size, 4);
    assert_eq!(symbol(&table, "big").size, 100_000);
    assert_eq!(symbol(&table, "words").size, 16);
    let mine = table.thread_locals().named("mine").unwrap();
    assert_eq!((mine.size, mine.flags.has(Flags::TLS)), (4, true));
    assert_eq!(table.objects().named("mine"), None);
}

#[test]
fn of_aliases_the_strong_one_with_few_underscores_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = compiled(dir.path(), "whole", &[]) else {
        return;
    };
    let table = table(&file);
    assert!(table.functions().named("strong").is_some());
    assert_eq!(table.functions().named("weak_alias"), None);
    assert_eq!(table.functions().named("__under"), None);
    let starts: Vec<_> = table.functions().iter().map(|s| s.start).collect();
    assert!(starts.is_sorted());
}

#[test]
fn calls_through_the_linkage_table_have_names_even_when_stripped() {
    let dir = tempfile::tempdir().unwrap();
    for options in [
        &["-s"][..],
        &["-s", "-no-pie"],
        &["-s", "-fcf-protection=full", "-z", "ibtplt"],
    ] {
        // Not every compiler and machine knows all of them.
        let Ok(Some(file)) = std::panic::catch_unwind(|| compiled(dir.path(), "bare", options))
        else {
            eprintln!("skipped: `cc` does not take {options:?}");
            continue;
        };
        let table = table(&file);
        assert_eq!(table.functions().named("leaf"), None);
        let puts = symbol(&table, "puts@plt");
        assert!(puts.flags.has(Flags::PLT) && puts.size > 0, "{options:?}");
        assert_eq!(puts.source, Source::DynSym);
    }
}

#[test]
fn a_debug_file_names_what_was_stripped() {
    let dir = tempfile::tempdir().unwrap();
    let Some(whole) = compiled(dir.path(), "whole", &[]) else {
        return;
    };
    let bare = dir.path().join("bare");
    let stripped = Command::new("strip")
        .arg("-o")
        .arg(&bare)
        .arg(&whole)
        .output();
    if !stripped.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: no `strip`");
        return;
    }
    let (bare, whole) = (std::fs::read(bare).unwrap(), std::fs::read(whole).unwrap());
    let table = SymbolTable::from_elf_with_debug(&bare, &whole, &Limits::default()).unwrap();
    assert_eq!(symbol(&table, "leaf").source, Source::DebugSymTab);
    assert_eq!(symbol(&table, "puts@plt").source, Source::DynSym);
    assert_eq!(ObjectId::of_file(&bare), ObjectId::of_file(&whole));
}

#[test]
fn addresses_and_sizes_are_those_of_nm() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = compiled(dir.path(), "whole", &[]) else {
        return;
    };
    let Ok(out) = Command::new("nm")
        .args(["-S", "--defined-only"])
        .arg(&file)
        .output()
    else {
        eprintln!("skipped: no `nm`");
        return;
    };
    let table = table(&file);
    let mut compared = 0;
    for line in String::from_utf8(out.stdout).unwrap().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        // Without a size there are three words, and the size is ours to guess.
        let [start, size, kind, name] = words[..] else {
            continue;
        };
        if !"tTdDbBrR".contains(kind) || name == "__under" {
            continue;
        }
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        if table.thread_locals().named(name).is_some() {
            continue;
        }
        let got = symbol(&table, name);
        assert_eq!((got.start, got.size), (hex(start), hex(size)), "{name}");
        compared += 1;
    }
    assert!(compared >= 8, "only {compared} symbols compared");
}

#[test]
fn the_build_id_is_that_of_readelf() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = compiled(dir.path(), "whole", &["-Wl,--build-id=sha1"]) else {
        return;
    };
    let id = ObjectId::of_file(&std::fs::read(&file).unwrap());
    assert_eq!((id.kind(), id.as_bytes().len()), (IdKind::Gnu, 20));
    let Ok(out) = Command::new("readelf").arg("-n").arg(&file).output() else {
        eprintln!("skipped: no `readelf`");
        return;
    };
    assert!(String::from_utf8_lossy(&out.stdout).contains(&id.to_string()));
}

#[test]
fn the_running_kernel_has_a_build_id() {
    let Ok(notes) = std::fs::read("/sys/kernel/notes") else {
        eprintln!("skipped: /sys/kernel/notes cannot be read");
        return;
    };
    assert_eq!(
        ObjectId::of_notes(&notes).map(|id| id.kind()),
        Some(IdKind::Gnu)
    );
}

/// Start, middle and last byte of every symbol in the file, as ELF virtual addresses.
fn addresses(table: &SymbolTable) -> Vec<u64> {
    let symbols = table.functions().iter().chain(table.objects().iter());
    let all = symbols.flat_map(|s| [s.start, s.start + s.size / 2, s.end().saturating_sub(1)]);
    let in_file = |segments: &Segments, address: u64| {
        segments
            .as_slice()
            .iter()
            .any(|s| (s.vaddr..s.vaddr + s.file_size).contains(&address))
    };
    // perf looks the stubs up in a tree whose shape decides where they overlap `_init`.
    let init = ["_init", "_fini"].map(|name| {
        table.functions().named(name).unwrap_or(Symbol {
            start: 0,
            size: 0,
            name: "",
            source: Source::None,
            flags: Flags::NONE,
        })
    });
    let overlaps = |address| init.iter().any(|s| (s.start..s.end()).contains(&address));
    all.filter(|address| in_file(table.segments(), *address) && !overlaps(*address))
        .collect()
}

fn names(table: &SymbolTable, addresses: &[u64]) -> Vec<String> {
    let (functions, objects) = (
        Index::build(table.functions()),
        Index::build(table.objects()),
    );
    let name = |address: &u64| {
        let function = functions
            .lookup(*address)
            .and_then(|at| table.functions().get(at.index()));
        let object = || {
            objects
                .lookup(*address)
                .and_then(|at| table.objects().get(at.index()))
        };
        function
            .or_else(object)
            .map_or("[unknown]".into(), |s| demangle(s.name).into_owned())
    };
    addresses.iter().map(name).collect()
}

#[test]
fn every_address_has_the_name_perf_gives_it() {
    if !perf_is_here() {
        eprintln!("skipped: no `perf`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for options in [&[][..], &["-no-pie"], &["-static"], &["-s", "-rdynamic"]] {
        let Some(file) = compiled(dir.path(), "asked", options) else {
            return;
        };
        let table = table(&file);
        let addresses = addresses(&table);
        let base = 0x7f00_0000_0000;
        let page = |address: u64| address & !0xfff;
        let maps: Vec<_> = table
            .segments()
            .as_slice()
            .iter()
            .map(|s| Map {
                start: base + page(s.vaddr),
                len: page(s.vaddr + s.mem_size + 0xfff) - page(s.vaddr),
                offset: page(s.offset),
                path: file.to_str().unwrap(),
                kernel: false,
            })
            .collect();
        let ips: Vec<_> = addresses.iter().map(|address| base + address).collect();
        let theirs = perf_names(dir.path(), &maps, &ips, &[]);
        let ours = names(&table, &addresses);
        let differ: Vec<_> = addresses
            .iter()
            .zip(ours.iter().zip(&theirs))
            .filter(|(_, (ours, theirs))| ours != theirs)
            .collect();
        // In some files two labels of the C library overlap, where the shape of perf's tree decides.
        assert!(
            differ.len() * 1_000 <= addresses.len(),
            "{options:?}: {differ:x?}"
        );
        assert!(addresses.len() > 20, "{options:?}: {}", addresses.len());
    }
}

#[test]
fn every_kernel_address_has_the_name_perf_gives_it() {
    let text = match std::fs::read("/proc/kallsyms") {
        Ok(text) if perf_is_here() => text,
        _ => {
            eprintln!("skipped: no `perf` or no /proc/kallsyms");
            return;
        }
    };
    let all = match Kallsyms::parse(&text, &Limits::default()) {
        Ok(all) => all,
        Err(hidden @ (KallsymsError::Restricted { .. } | KallsymsError::Empty { .. })) => {
            eprintln!("skipped: {hidden}");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let code = all.text().unwrap();
    let map = Map {
        start: code.start,
        len: code.end - code.start,
        offset: code.start,
        path: "[kernel.kallsyms]_text",
        kernel: true,
    };
    let functions = all.kernel().functions();
    let addresses: Vec<_> = functions
        .iter()
        .flat_map(|s| [s.start, s.end() - 1])
        .filter(|address| code.contains(address))
        .step_by(7)
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let theirs = perf_names(
        dir.path(),
        &[map],
        &addresses,
        &["--kallsyms", "/proc/kallsyms"],
    );
    let index = Index::build(functions);
    let ours = addresses.iter().map(|address| {
        let symbol = index
            .lookup(*address)
            .and_then(|at| functions.get(at.index()));
        symbol.map_or("[unknown]", |s| s.name)
    });
    let differ: Vec<_> = addresses
        .iter()
        .zip(ours.zip(&theirs))
        .filter(|(_, (a, b))| a != b)
        .collect();
    assert!(
        differ.is_empty(),
        "{} of {}: {:x?}",
        differ.len(),
        addresses.len(),
        differ.first()
    );
}

#[test]
fn what_is_no_program_is_said_so() {
    let read = |bytes: &[u8]| SymbolTable::from_elf(bytes, &Limits::default());
    assert_eq!(read(b""), Err(ObjectError::NotElf { len: 0 }));
    assert_eq!(read(&[0xaa; 4096]), Err(ObjectError::NotElf { len: 4096 }));
    let dir = tempfile::tempdir().unwrap();
    let Some(object) = compiled(dir.path(), "part.o", &["-c"]) else {
        return;
    };
    assert_eq!(
        read(&std::fs::read(object).unwrap()),
        Err(ObjectError::Relocatable)
    );
}

#[test]
fn limits_leave_out_and_say_so() {
    let file = std::fs::read("/proc/self/exe").unwrap();
    let read = |limits: &Limits| SymbolTable::from_elf(&file, limits).unwrap();
    let few = read(&Limits {
        symbols: 100,
        ..Limits::default()
    });
    assert!(few.functions().len() + few.objects().len() + few.thread_locals().len() <= 100);
    assert!(few.gaps().any(|gap| gap == Gap::TooManySymbols));
    let short = read(&Limits {
        name_len: 10,
        ..Limits::default()
    });
    assert!(
        short
            .functions()
            .iter()
            .all(|s| s.name.len() <= 10 || s.flags.has(Flags::PLT))
    );
    assert!(short.gaps().any(|gap| gap == Gap::NamesCut));
    let quiet = read(&Limits {
        name_bytes: 1_000,
        ..Limits::default()
    });
    assert!(quiet.functions().name_bytes() <= 1_000);
    assert!(quiet.gaps().any(|gap| gap == Gap::TooManyNames));
}

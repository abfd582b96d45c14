//! Kernel modules by their files: a module built here against the same linked by `ld` as the kernel would lay it out.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

mod support;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use memwide_objects::{
    DebugInfo, DebugSections, Limits, ModuleCode, ObjectError, ObjectId, SymbolTable, module_in,
    unpack_module,
};

use support::{Map, perf_is_here, perf_names};

const SOURCE: &str = r#"
#define IN(name) __attribute__((section(name), noinline, used))
__attribute__((section(".gnu.linkonce.this_module"))) char this_module[64] = {1};
__attribute__((section(".modinfo"))) const char magic[] = "vermagic=6.1.0 SMP preempt mod_unload ";
long counted[100];
extern void printed(long);
__attribute__((noinline, used)) long inner(long n) { return n * 3 + counted[n]; }
IN(".init.text") int init_module(void) { return (int)inner(1); }
IN(".text.unlikely") long rarely(long n) {
  printed(n);
  return inner(n) ^ 5;
}
IN(".exit.text") void cleanup_module(void) { printed(7); }
IN(".text.late") long late(long n) { return rarely(n) + 1; }
long outer(long n) {
  return inner(n) + rarely(n + 1);
}
"#;

/// As the kernel lays out what it keeps of the code, in the order of the file; the rest elsewhere.
const AS_LOADED: &str = "SECTIONS {
  /DISCARD/ : { *(.note.GNU-stack) *(.comment) *(.eh_frame) }
  .text 0x10000 : { MORE }
  .init.text 0x900000 : { *(.init.text) }
  .rest 0xa00000 : { *(.modinfo) *(.gnu.linkonce.this_module) *(.data*) *(.rodata*) *(.bss*) *(.note*) }
}";
const BASE: u64 = 0x10000;

fn run(folder: &Path, tool: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(tool).current_dir(folder).args(args).output();
    let output = output.ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {args:?}: {error}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// `module.ko` and `linked` in a folder; `None`, said loudly, where they cannot be built.
fn built() -> Option<tempfile::TempDir> {
    let is_here = cfg!(target_arch = "x86_64")
        && ["cc", "ld", "nm", "readelf", "addr2line", "objcopy"]
            .iter()
            .all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !is_here {
        eprintln!("skipped: no compiler, no binutils, or another machine than x86-64");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("module.c"), SOURCE).unwrap();
    let args = "-c -g -O1 -ffreestanding -fno-pic -mcmodel=kernel -fno-asynchronous-unwind-tables -fno-ipa-icf \
                -fno-stack-protector -fcf-protection=none module.c -o module.o";
    run(at, "cc", &args.split_whitespace().collect::<Vec<_>>())?;
    let args = ["-r", "--build-id", "-o", "module.ko", "module.o"];
    run(at, "ld", &args)?;
    let sections = run(at, "readelf", &["-SW", "module.ko"])?;
    let kept = sections.lines().filter_map(|line| {
        let name = line.split_once(']')?.1.split_whitespace().next()?;
        let is_code = line.split_whitespace().any(|word| word == "AX");
        (is_code && !name.starts_with(".init")).then(|| format!("*({name})"))
    });
    let kept: Vec<_> = kept.collect();
    assert!(kept.len() >= 4, "{sections}");
    std::fs::write(at.join("as.ld"), AS_LOADED.replace("MORE", &kept.join(" "))).unwrap();
    let args = [
        "-T",
        "as.ld",
        "--defsym=printed=0x12345678",
        "-o",
        "linked",
        "module.ko",
    ];
    run(at, "ld", &args)?;
    Some(folder)
}

/// Functions of the linked file by name.
fn truth(folder: &Path) -> BTreeMap<String, u64> {
    let named = run(folder, "nm", &["linked"]).unwrap();
    let lines = named.lines().filter_map(|line| {
        let (address, rest) = line.split_once(' ')?;
        let name = rest
            .strip_prefix("T ")
            .or_else(|| rest.strip_prefix("t "))?;
        Some((name.to_owned(), u64::from_str_radix(address, 16).ok()?))
    });
    lines.collect()
}

fn table(file: &[u8]) -> SymbolTable {
    SymbolTable::from_elf(file, &Limits::default()).unwrap()
}

fn starts(table: &SymbolTable) -> BTreeMap<String, u64> {
    let all = table.functions().iter();
    all.map(|one| (one.name.to_owned(), one.start)).collect()
}

fn named(file: &[u8]) -> bool {
    module_in(file, "/lib/modules/6.1/some-thing.ko.xz").as_deref() == Some("[some_thing]")
}

#[test]
fn code_of_a_module_lies_where_the_kernel_puts_it() {
    let Some(folder) = built() else { return };
    let file = std::fs::read(folder.path().join("module.ko")).unwrap();
    assert!(named(&file) && ObjectId::of_elf(&file).is_some());
    let truth = truth(folder.path());
    let found = starts(&table(&file));
    let kept = ["inner", "outer", "rarely", "late", "cleanup_module"];
    for name in kept {
        assert_eq!(found.get(name), Some(&(truth[name] - BASE)), "{name}");
    }
    // The kernel frees it, and puts it elsewhere before.
    assert!(!found.contains_key("init_module"), "{found:?}");
    assert!(
        table(&file).objects().is_empty(),
        "nobody knows where data lie"
    );
    assert!(!table(&file).holds_code(), "there are no segments");
    // A file of its debug information alone says the same.
    let args = ["--only-keep-debug", "module.ko", "module.ko.debug"];
    run(folder.path(), "objcopy", &args);
    let debug = std::fs::read(folder.path().join("module.ko.debug")).unwrap();
    assert!(named(&debug));
    assert_eq!(starts(&table(&debug)), found);
}

#[test]
fn lines_and_code_of_a_module_are_those_of_the_linked_one() {
    let Some(folder) = built() else { return };
    let at = folder.path();
    let file = std::fs::read(at.join("module.ko")).unwrap();
    let args = ["-O", "binary", "-j", ".text", "linked", "text"];
    run(at, "objcopy", &args);
    let text = std::fs::read(at.join("text")).unwrap();
    let sections = DebugSections::read(&mut Cursor::new(&file), file.len() as u64).unwrap();
    let mut info = DebugInfo::new(sections, None).unwrap();
    let table = table(&file);
    let mut compared = 0;
    for function in table.functions().iter() {
        for address in function.start..function.start + function.size {
            let asked = format!("{:#x}", address + BASE);
            let told = run(at, "addr2line", &["-e", "linked", &asked]).unwrap();
            let (path, line) = told.trim().rsplit_once(':').unwrap();
            let line = line.split(' ').next().unwrap();
            let frames = info.frames(address).unwrap();
            let frame = frames.first().unwrap();
            assert_eq!(
                frame.line.to_string(),
                line,
                "{} {address:#x}",
                function.name
            );
            assert_eq!(frame.file.as_deref(), Some(path));
            assert_eq!(frame.function.as_deref(), Some(function.name));
            compared += 1;
        }
        let len = usize::try_from(function.size).unwrap();
        let code = ModuleCode::read(&file, function.start, len)
            .unwrap()
            .unwrap();
        assert_eq!(code.machine, 62);
        let start = usize::try_from(function.start).unwrap();
        let linked = &text[start..start + len];
        // What names other code or data is not known before the kernel loads it.
        if function.name == "outer" || function.name == "late" {
            assert_eq!(code.bytes, linked, "{}", function.name);
        } else {
            let differ = code
                .bytes
                .iter()
                .zip(linked)
                .filter(|(one, other)| one != other);
            assert!(differ.count() <= 8, "{}", function.name);
        }
    }
    assert!(compared > 50, "{compared}");
    // Code that is gone has no lines here, and takes nobody's place.
    assert_eq!(info.frames(1 << 40).unwrap(), []);
    assert_eq!(ModuleCode::read(&file, 1 << 20, 4).unwrap(), None);
}

#[test]
fn perf_names_the_first_section_alike() {
    let Some(folder) = built() else { return };
    if !perf_is_here() {
        eprintln!("skipped: no perf");
        return;
    }
    let path = folder.path().join("module.ko");
    let table = table(&std::fs::read(&path).unwrap());
    let loaded = 0xffff_ffff_c0a4_2000;
    let map = Map {
        start: loaded,
        len: 0x4000,
        offset: 0,
        path: path.to_str().unwrap(),
        kernel: true,
    };
    let all: Vec<_> = table.functions().iter().collect();
    let asked: Vec<_> = all.iter().map(|one| loaded + one.start).collect();
    let names = perf_names(folder.path(), &[map], &asked, &[]);
    let told = all.iter().map(|one| one.name).zip(&names);
    // Of what lies behind `.text` it has no names.
    let known: Vec<_> = told.filter(|(_, perf)| *perf != "[unknown]").collect();
    assert!(known.len() >= 2, "{known:?}");
    for (name, perf) in known {
        assert_eq!(name, perf);
    }
}

#[test]
fn a_kernel_that_unloads_nothing_keeps_no_code_for_that() {
    let Some(folder) = built() else { return };
    let mut file = std::fs::read(folder.path().join("module.ko")).unwrap();
    let before = starts(&table(&file));
    let word = b"mod_unload";
    let at = file
        .windows(word.len())
        .position(|here| here == word)
        .unwrap();
    file[at] = b'M';
    let after = starts(&table(&file));
    assert!(!after.contains_key("cleanup_module"), "{after:?}");
    assert!(after["late"] < before["late"], "what follows moves up");
    assert_eq!(after["rarely"], before["rarely"]);
}

#[test]
fn files_that_are_no_modules_and_damaged_ones_are_refused() {
    let Some(folder) = built() else { return };
    let at = folder.path();
    std::fs::write(at.join("plain.c"), "int one(void) { return 1; }").unwrap();
    run(at, "cc", &["-c", "plain.c", "-o", "plain.o"]);
    let plain = std::fs::read(at.join("plain.o")).unwrap();
    assert!(module_in(&plain, "plain.ko").is_none());
    let refused = SymbolTable::from_elf(&plain, &Limits::default());
    assert_eq!(refused, Err(ObjectError::Relocatable));
    let whole = std::fs::read(at.join("module.ko")).unwrap();
    // Another machine, whose loader needs more than the file.
    let mut other = whole.clone();
    other[18..20].copy_from_slice(&22_u16.to_le_bytes());
    let refused = SymbolTable::from_elf(&other, &Limits::default());
    assert_eq!(refused, Err(ObjectError::ModuleLayout { machine: 22 }));
    // Damage anywhere ends in an answer or a refusal, at once.
    let read = |file: &[u8]| {
        let _ = SymbolTable::from_elf(file, &Limits::default());
        let _ = ModuleCode::read(file, 4, 64);
        if let Ok(sections) = DebugSections::read(&mut Cursor::new(file), file.len() as u64)
            && let Ok(mut info) = DebugInfo::new(sections, None)
        {
            let _ = info.frames(8);
        }
    };
    for cut in (0..whole.len()).step_by(97) {
        read(&whole[..cut]);
        let mut damaged = whole.clone();
        for (at, byte) in damaged.iter_mut().enumerate().skip(cut).step_by(389) {
            *byte ^= u8::try_from(at % 251).unwrap() | 0x80;
        }
        read(&damaged);
    }
}

#[test]
fn packed_modules_unpack() {
    let Some(folder) = built() else { return };
    let at = folder.path();
    let whole = std::fs::read(at.join("module.ko")).unwrap();
    let mut tried = 0;
    for (tool, ending) in [("xz", "xz"), ("zstd", "zst"), ("gzip", "gz")] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: no {tool}");
            continue;
        }
        let args: &[&str] = match tool {
            // As the kernel's build does: its unpacker knows no other checksums.
            "xz" => &[
                "-k",
                "--check=crc32",
                "--x86",
                "--lzma2=dict=1MiB",
                "module.ko",
            ],
            "zstd" => &["-q", "-19", "module.ko"],
            _ => &["-k", "module.ko"],
        };
        run(at, tool, args);
        let packed = std::fs::read(at.join(format!("module.ko.{ending}"))).unwrap();
        assert_eq!(unpack_module(&packed).as_deref(), Some(&*whole), "{tool}");
        assert_eq!(unpack_module(&packed[..packed.len() / 2]), None, "{tool}");
        tried += 1;
    }
    assert!(tried > 0, "no packer at all");
}

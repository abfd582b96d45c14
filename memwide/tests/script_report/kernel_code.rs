//! `memwide annotate` of kernel functions: from an ELF file linked elsewhere than it ran, from a copy of its memory.

use crate::files::{self, KERNEL, One};
use crate::run::fine;
use memwide_perf_abi::{SampleFields, misc};
use memwide_tests::programs::{Builder, C};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "volatile long page[64];\n\
    void clear_page(void) {\n\
    \x20 for (long i = 0; i < 64; i++)\n\
    \x20   page[i] = 7;\n\
    }\n\
    long copy_user(long n) { return n * 3 + page[n]; }\n";

/// Where the ELF file was linked: another place than [`KERNEL`], as at each start of a machine.
const LINKED: u64 = 0xffff_ffff_8200_0000;

/// A kernel, what ran of it, and its recording.
struct Made {
    builder: Builder,
    /// Bytes of its code.
    text: Vec<u8>,
    /// Distance of `copy_user` from the start.
    second: u64,
}

impl Made {
    /// `None`, said loudly, where it cannot be built.
    fn new() -> Option<Self> {
        if cfg!(not(target_arch = "x86_64")) {
            eprintln!("skipped: the kernel of this test is one for x86-64");
            return None;
        }
        let builder = Builder::new(&[("kernel.c", SOURCE)]);
        let at = format!("-Wl,-Ttext={LINKED:#x},--defsym=_text={LINKED:#x},-e,0,--build-id");
        let args = [
            "-g",
            "-O1",
            "-nostdlib",
            "-static",
            "-ffreestanding",
            "-fno-pie",
            "-no-pie",
            "-mcmodel=kernel",
            "-fno-asynchronous-unwind-tables",
            "-fno-tree-loop-distribute-patterns",
            "-fno-reorder-functions",
            "-fno-toplevel-reorder",
            "-Wl,-Tdata=0xffffffff82100000",
            "-Wl,--section-start=.bss=0xffffffff82200000",
            &at,
        ];
        let vmlinux = builder.compile(C, "kernel.c", "vmlinux", &args)?;
        builder.tool(
            "objcopy",
            &["-O", "binary", "-j", ".text", "vmlinux", "text"],
        );
        let text = std::fs::read(builder.path("text")).unwrap();
        let named = Command::new("nm").arg(&vmlinux).output().unwrap();
        let named = String::from_utf8(named.stdout).unwrap();
        let address = |name: &str| {
            let ending = format!(" T {name}");
            let line = named.lines().find(|line| line.ends_with(&ending)).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        assert_eq!(address("clear_page"), LINKED);
        let second = address("copy_user") - LINKED;
        Some(Self {
            builder,
            text,
            second,
        })
    }

    /// A directory as `perf record --kcore` makes it, with a core of these bytes if any, and with `text_end` as the end of
    /// the kernel's code.
    fn recorded(&self, core: Option<&[u8]>, text_end: u64) -> PathBuf {
        let folder = self.builder.path("recorded.data");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("kcore_dir")).unwrap();
        let one = |ip| One {
            misc: misc::KERNEL,
            fields: SampleFields {
                ip,
                ..One::default().fields
            },
            ..One::default()
        };
        let samples: Vec<_> = (0..10)
            .map(|_| one(KERNEL))
            .chain((0..4).map(|_| one(KERNEL + self.second)))
            .collect();
        files::write(&folder.join("data"), &samples);
        let second = KERNEL + self.second;
        let kallsyms = format!(
            "{KERNEL:x} T _text\n{KERNEL:x} T clear_page\n{second:x} T copy_user\n{text_end:x} T _etext\n"
        );
        std::fs::write(folder.join("kcore_dir/kallsyms"), kallsyms).unwrap();
        if let Some(core) = core {
            std::fs::write(folder.join("kcore_dir/kcore"), core).unwrap();
        }
        folder
    }

    fn whole(&self) -> u64 {
        KERNEL + self.text.len() as u64
    }
}

/// A core with the program headers of a kernel's: a note, memory that no disk could hold, its code.
fn core(text: &[u8], claimed: u64) -> Vec<u8> {
    const HEADERS: u64 = 64 + 3 * 56;
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([4, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0, 64, 0_u64] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [0, 0, 64, 56, 3, 0, 0, 0_u16] {
        bytes.extend(half.to_le_bytes());
    }
    for (kind, flags, offset, address, size) in [
        (4_u32, 0_u32, 0_u64, 0_u64, 0_u64),
        (1, 7, 1 << 45, 0xffff_8880_0000_0000, 1 << 46),
        (1, 7, HEADERS, KERNEL, claimed),
    ] {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        for word in [offset, address, 0, size, size, 0x1000] {
            bytes.extend(word.to_le_bytes());
        }
    }
    assert_eq!(bytes.len() as u64, HEADERS);
    bytes.extend(text);
    bytes
}

fn annotated(file: &Path, args: &[&str]) -> Value {
    fine(
        "annotate",
        file,
        &[&["--format", "json", "--full"], args].concat(),
    )
    .json()
}

fn function<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["functions"].as_array().unwrap();
    let found = all.iter().find(|function| function["symbol"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// Addresses and texts of instructions.
fn instructions(function: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = function["instructions"].as_array().unwrap().iter();
    rows.map(|row| (text(&row["address"]), text(&row["instruction"])))
        .collect()
}

/// What is said of the code of `clear_page`, which must have none.
#[track_caller]
fn without_code(file: &Path, args: &[&str], says: &[&str]) {
    let answer = annotated(file, args);
    let found = function(&answer, "clear_page");
    let shown = instructions(found);
    assert!(shown.iter().all(|(_, text)| text.is_empty()), "{shown:?}");
    let notes = found["notes"].to_string();
    for part in says {
        assert!(notes.contains(part), "no {part:?} in {notes}");
    }
}

#[test]
fn code_of_the_kernel_is_that_of_the_recorded_copy_of_its_memory() {
    let Some(made) = Made::new() else { return };
    let file = made.recorded(Some(&core(&made.text, 1 << 40)), made.whole());
    let answer = annotated(&file, &[]);
    let found = function(&answer, "clear_page");
    assert_eq!(found["start"], format!("{KERNEL:#x}"));
    let shown = instructions(found);
    assert!(shown.len() > 4, "{shown:?}");
    assert_eq!(shown[0].0, format!("{KERNEL:#x}"));
    assert!(
        shown.iter().any(|(_, text)| text.starts_with("ret")),
        "{shown:?}"
    );
    // The loop goes back within the function, where it ran.
    let back = format!("{KERNEL:x}").split_at(10).0.to_owned();
    let jump = shown.iter().find(|(_, text)| text.starts_with("jn"));
    assert!(
        jump.is_some_and(|(_, text)| text.contains(&back)),
        "{shown:?}"
    );
    assert_eq!(found["instructions"][0]["samples"], 10);
    assert_eq!(found["instructions"][0]["file"], Value::Null);
    assert_eq!(
        function(&answer, "copy_user")["instructions"][0]["samples"],
        4
    );
}

#[test]
fn a_kernel_linked_elsewhere_gives_the_same_code_and_its_lines() {
    let Some(made) = Made::new() else { return };
    let file = made.recorded(Some(&core(&made.text, 1 << 40)), made.whole());
    let copied = annotated(&file, &[]);
    let file = made.recorded(None, made.whole());
    let vmlinux = made.builder.path("vmlinux");
    let linked = annotated(&file, &["-k", vmlinux.to_str().unwrap()]);
    let first = |answer: &Value| instructions(function(answer, "copy_user"))[0].clone();
    assert_eq!(first(&linked), first(&copied));
    let found = function(&linked, "clear_page");
    let rows = found["instructions"].as_array().unwrap();
    let store = rows.iter().find(|row| row["line"] == 4).unwrap();
    assert!(store["file"].as_str().unwrap().ends_with("kernel.c"));
    let lines = function(&linked, "copy_user")["lines"].as_array().unwrap();
    assert_eq!(lines[0]["line"], 6);
    assert_eq!(
        lines[0]["text"],
        "long copy_user(long n) { return n * 3 + page[n]; }"
    );
}

#[test]
fn an_elf_file_of_the_kernel_gives_names_and_lines_in_every_command() {
    let Some(made) = Made::new() else { return };
    // Without the copy of kallsyms nothing else has names.
    let file = made.builder.path("alone.data");
    std::fs::copy(made.recorded(None, made.whole()).join("data"), &file).unwrap();
    let vmlinux = made.builder.path("vmlinux");
    let rows = |args: &[&str]| {
        let keys = ["--sort", "symbol,srcline", "--format", "json"];
        let answer = fine("report", &file, &[&keys, args].concat()).json();
        let rows = answer["rows"].as_array().unwrap().iter();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("?").to_owned();
        rows.map(|row| {
            let line = text(row, "srcline");
            let line = line.rsplit('/').next().unwrap_or_default().to_owned();
            (text(row, "symbol"), line, row["samples"].as_u64().unwrap())
        })
        .collect::<Vec<_>>()
    };
    let found = rows(&["-k", vmlinux.to_str().unwrap()]);
    assert!(
        found.contains(&("copy_user".to_owned(), "kernel.c:6".to_owned(), 4)),
        "{found:?}"
    );
    let first = found.iter().find(|row| row.0 == "clear_page").unwrap();
    assert!(
        first.1.starts_with("kernel.c:") && first.2 == 10,
        "{found:?}"
    );
    // What is no kernel names nothing, and that is said.
    let other = std::env::current_exe().unwrap();
    let refused = fine(
        "report",
        &file,
        &["--sort", "symbol", "-k", other.to_str().unwrap()],
    );
    assert!(
        refused.err.contains("no symbol _text") && refused.err.contains("--kallsyms"),
        "{}",
        refused.err
    );
}

#[test]
fn without_code_of_the_kernel_it_is_said_what_to_do() {
    let Some(made) = Made::new() else { return };
    let file = made.recorded(None, made.whole());
    without_code(
        &file,
        &[],
        &["perf record --kcore", "-k vmlinux", "/proc/kcore"],
    );
    let other = std::env::current_exe().unwrap();
    without_code(
        &file,
        &["-k", other.to_str().unwrap()],
        &["no symbol _text"],
    );
    without_code(
        &file,
        &["-k", "/dev/null"],
        &["/dev/null: what is there now is no file"],
    );
}

#[test]
fn cores_whose_headers_lie_are_not_believed() {
    let Some(made) = Made::new() else { return };
    let whole = core(&made.text, 1 << 40);
    let check = |core: &[u8], end: u64, says: &str| {
        let file = made.recorded(Some(core), end);
        without_code(&file, &[], &["kcore", says]);
    };
    let cut = whole.len() - made.text.len();
    check(&whole[..cut], made.whole(), "it ends before the code");
    check(&whole[..100], made.whole(), "program headers");
    check(&[], made.whole(), "not an ELF file");
    let zeros = vec![0; made.text.len()];
    check(&core(&zeros, 1 << 40), made.whole(), "nothing but zeros");
    check(&core(&made.text, 1), made.whole(), "it has no code at");
}

#[test]
fn functions_longer_than_any_are_not_read() {
    let Some(made) = Made::new() else { return };
    let file = made.recorded(Some(&core(&made.text, 1 << 40)), KERNEL + 0x20_0000);
    let answer = annotated(&file, &["copy_user"]);
    let notes = function(&answer, "copy_user")["notes"].to_string();
    assert!(notes.contains("at most 1048576 are read"), "{notes}");
}

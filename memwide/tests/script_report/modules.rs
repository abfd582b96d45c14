//! Names, lines and code of a kernel module from its file, as it is installed below `/lib/modules/RELEASE`.

use crate::files::{self, One};
use crate::run::{Ran, fine};
use memwide_objects::{Limits, SymbolTable};
use memwide_perf_abi::{SampleFields, misc};
use memwide_tests::programs::{Builder, C};
use serde_json::Value;
use std::path::PathBuf;

/// Where the module was loaded.
const LOADED: u64 = 0xffff_ffff_c0a4_2000;

const SOURCE: &str = r#"
__attribute__((section(".gnu.linkonce.this_module"))) char this_module[64] = {1};
__attribute__((section(".modinfo"))) const char magic[] = "vermagic=6.18.0-made-up SMP mod_unload ";
volatile long page[64];
__attribute__((noinline, used)) void fill_page(void) {
  for (long i = 0; i < 64; i++)
    page[i] = 7;
}
__attribute__((noinline, used, section(".init.text"))) int init_module(void) { fill_page(); return 0; }
__attribute__((noinline, used, section(".text.unlikely"))) long rarely(long n) { return n * 3 + page[n]; }
long read_page(long n) {
  fill_page();
  return rarely(n) + 1;
}
"#;

/// The module, installed below a root, and what is known of it.
struct Made {
    builder: Builder,
    id: Vec<u8>,
    table: SymbolTable,
}

impl Made {
    /// `None`, said loudly, where it cannot be built.
    fn new() -> Option<Self> {
        if cfg!(not(target_arch = "x86_64")) {
            eprintln!("skipped: the module of this test is one for x86-64");
            return None;
        }
        let builder = Builder::new(&[("module.c", SOURCE)]);
        let args = "-r -nostdlib -g -O1 -ffreestanding -fno-pic -fno-pie -mcmodel=kernel -fno-stack-protector \
                    -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -Wl,--build-id";
        let args: Vec<_> = args.split_whitespace().collect();
        let file = builder.compile(C, "module.c", "some-thing.ko", &args)?;
        let bytes = std::fs::read(file).unwrap();
        let id = memwide_objects::ObjectId::of_elf(&bytes).unwrap();
        let made = Self {
            id: id.as_bytes().to_vec(),
            table: SymbolTable::from_elf(&bytes, &Limits::default()).unwrap(),
            builder,
        };
        made.install("some-thing.ko");
        Some(made)
    }

    fn root(&self) -> PathBuf {
        self.builder.path("root")
    }

    /// Copies a file to where modules are, with the lines' folder as a trap: links must not be followed.
    fn install(&self, name: &str) {
        let modules = self.root().join("lib/modules/6.18.0-made-up");
        let folder = modules.join("kernel/fs");
        let _ = std::fs::remove_dir_all(self.root());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(self.builder.path(name), folder.join(name)).unwrap();
        std::os::unix::fs::symlink("/", modules.join("build")).unwrap();
    }

    fn start(&self, name: &str) -> u64 {
        let symbol = self.table.functions().named(name);
        symbol.unwrap_or_else(|| panic!("no {name}")).start
    }

    /// 10 samples of `read_page`, 4 of `rarely`.
    fn recorded(&self, id: Option<&[u8]>) -> PathBuf {
        let one = |name: &str| One {
            misc: misc::KERNEL,
            fields: SampleFields {
                ip: LOADED + self.start(name),
                ..One::default().fields
            },
            ..One::default()
        };
        let samples: Vec<_> = (0..10)
            .map(|_| one("read_page"))
            .chain((0..4).map(|_| one("rarely")))
            .collect();
        let name = "/lib/modules/6.18.0-made-up/kernel/fs/some-thing.ko";
        let bytes = files::with_module(&samples, (LOADED, 0x4000), name, id);
        let file = self.builder.path("recorded.data");
        std::fs::write(&file, bytes).unwrap();
        file
    }

    /// kallsyms with these functions of the module.
    fn kallsyms(&self, functions: &[(&str, u64)]) -> PathBuf {
        let path = self.builder.path("kallsyms");
        let mut text = format!(
            "{:x} T _text\n{:x} T _etext\n",
            files::KERNEL,
            files::KERNEL + 4096
        );
        for (name, start) in functions {
            text += &format!("{:x} t {name}\t[some_thing]\n", LOADED + start);
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, command: &str, id: Option<&[u8]>, args: &[&str]) -> Ran {
        let root = self.root();
        let places = ["--symfs", root.to_str().unwrap()];
        fine(command, &self.recorded(id), &[&places, args].concat())
    }

    /// Symbol, line, samples.
    fn rows(&self, id: Option<&[u8]>, args: &[&str]) -> Vec<(String, String, u64)> {
        let keys = ["--sort", "symbol,srcline", "--format", "json"];
        let answer = self.run("report", id, &[&keys, args].concat()).json();
        let text = |row: &Value, key: &str| {
            let text = row[key].as_str().unwrap_or("?").to_owned();
            text.rsplit('/').next().unwrap_or_default().to_owned()
        };
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            let samples = row["samples"].as_u64().unwrap();
            (text(row, "symbol"), text(row, "srcline"), samples)
        })
        .collect()
    }
}

fn row(symbol: &str, line: &str, samples: u64) -> (String, String, u64) {
    (symbol.to_owned(), line.to_owned(), samples)
}

#[test]
fn a_module_has_names_lines_and_code_from_its_file() {
    let Some(made) = Made::new() else { return };
    let id = Some(&*made.id);
    let whole = [
        row("read_page", "module.c:11", 10),
        row("rarely", "module.c:10", 4),
    ];
    assert_eq!(made.rows(id, &[]), whole);
    let answer = made.run("annotate", id, &["--format", "json", "--full"]);
    let answer = answer.json();
    let functions = answer["functions"].as_array().unwrap();
    let found = functions.iter().find(|one| one["symbol"] == "read_page");
    let found = found.unwrap();
    let rows = found["instructions"].as_array().unwrap();
    let texts = rows.iter().map(|row| row["instruction"].as_str().unwrap());
    let calls: Vec<_> = texts.filter(|text| text.starts_with("call")).collect();
    // Calls within the module lead where it was loaded.
    let leads = |name: &str| {
        let address = format!("{:x}", LOADED + made.start(name));
        calls.iter().any(|text| text.contains(&address))
    };
    assert!(leads("fill_page") && leads("rarely"), "{calls:?}");
    assert_eq!(rows[0]["samples"], 10);
    assert!(rows.iter().any(|row| row["line"] == 13), "{rows:?}");
    // Packed, as distributions do.
    made.builder
        .tool("xz", &["-k", "--check=crc32", "some-thing.ko"]);
    made.install("some-thing.ko.xz");
    assert_eq!(made.rows(id, &[]), whole);
    // Without lines names are left.
    made.builder.tool("strip", &["-g", "some-thing.ko"]);
    made.install("some-thing.ko");
    let left: Vec<_> = made
        .rows(id, &[])
        .into_iter()
        .map(|row| (row.0, row.2))
        .collect();
    assert_eq!(
        left,
        [("read_page".to_owned(), 10), ("rarely".to_owned(), 4)]
    );
}

#[test]
fn kallsyms_goes_before_the_file() {
    let Some(made) = Made::new() else { return };
    let id = Some(&*made.id);
    let (fill, read, rarely) = (
        made.start("fill_page"),
        made.start("read_page"),
        made.start("rarely"),
    );
    let kallsyms = made.kallsyms(&[
        ("fill_page", fill),
        ("read_page", read),
        ("renamed", rarely),
    ]);
    let kallsyms = ["--kallsyms", kallsyms.to_str().unwrap()];
    let found = made.rows(id, &kallsyms);
    assert_eq!(
        found,
        [
            row("read_page", "module.c:11", 10),
            row("renamed", "module.c:10", 4)
        ]
    );
    // Laid out otherwise than the file says: its lines are of other code.
    let moved = made.kallsyms(&[("fill_page", fill), ("rarely", read), ("read_page", rarely)]);
    let moved = ["--kallsyms", moved.to_str().unwrap()];
    let found = made.rows(id, &moved);
    let names: Vec<_> = found.iter().map(|row| (&*row.0, row.2)).collect();
    assert_eq!(names, [("rarely", 10), ("read_page", 4)]);
    assert!(found.iter().all(|row| !row.1.contains(".c:")), "{found:?}");
    let answer = made.run(
        "annotate",
        id,
        &[&["--format", "json"], &moved[..]].concat(),
    );
    let notes = answer.json()["functions"].to_string();
    assert!(notes.contains("laid its code out otherwise"), "{notes}");
}

#[test]
fn the_file_of_another_build_names_nothing_and_is_named() {
    let Some(made) = Made::new() else { return };
    let other = made.run("report", Some(&[7; 20]), &["--sort", "symbol"]);
    assert!(!other.out.contains("read_page"), "{}", other.out);
    assert!(
        other.err.contains("some-thing.ko") && other.err.contains("not the recorded build"),
        "{}",
        other.err
    );
    // Whoever names the folder answers for files whose build was not recorded.
    assert_eq!(made.rows(None, &[])[0].0, "read_page");
    let file = made.recorded(None);
    let nobody = fine("report", &file, &["--sort", "symbol"]);
    assert!(!nobody.out.contains("read_page"), "{}", nobody.out);
}

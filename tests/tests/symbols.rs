//! Names that come later than what they name, of real programs, through the whole pipeline; and of code that node generates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_perf_abi::file::{BuildIdEntry, EventSpec, Features, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, BuildId, FileWriter, Mmap, Record, SampleFields, SampleId, SampleLayout,
    attr_kind, encode, misc, sample,
};
use memwide_tests::programs::{Builder, C};
use memwide_tests::{Running, Up, UpOptions, memwide, tools_missing, until};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Symbols of a whole machine may be asked for before ours; slow machines under load included.
const NAMED_WITHIN: Duration = Duration::from_mins(4);

fn start(folder: &Path, program: &Path, arguments: &[&str]) -> Option<Running> {
    let child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.ok().map(Running)
}

fn collecting() -> Option<Up> {
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return None;
    }
    let up = Up::start(&UpOptions::default());
    let said = up.said();
    if said.contains("not collecting on this machine") {
        eprintln!("skipped: {said}");
        return None;
    }
    Some(up)
}

const PROGRAM: &str = r"
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) static void touch_pages(char *p, long n) { for (long i = 0; i < n; i += 4096) p[i] = 1; }
int main(void) {
  for (;;) {
    long n = 1 << 20;
    char *p = mmap(0, n, 3, 0x22, -1, 0);
    touch_pages(p, n);
    munmap(p, n);
    usleep(20000);
  }
}
";

#[test]
fn what_a_stripped_program_did_is_named_when_its_debug_file_is_brought() {
    let builder = Builder::new(&[("a.c", PROGRAM)]);
    let args = ["-g", "-O1", "-Wl,--build-id"];
    if builder.compile(C, "a.c", "whole", &args).is_none() {
        return;
    }
    builder.tool("objcopy", &["--only-keep-debug", "whole", "whole.debug"]);
    builder.tool("strip", &["-o", "late-names", "whole"]);
    let Some(up) = collecting() else { return };
    let program = start(builder.folder(), &builder.path("late-names"), &[]).unwrap();
    let stored = "select count() from accesses where module = 'late-names' and function = ''";
    until("samples without a name", NAMED_WITHIN, || {
        up.try_number(stored).is_ok_and(|rows| rows > 100)
    });
    drop(program); // nothing of it comes any more
    let query = "select function, count() from accesses where module = 'late-names' group by function order by 2 desc";
    let before = up.sql(query);
    assert!(before.iter().all(|row| row[0] == ""), "{before:?}");
    let added = Command::new(memwide())
        .args(["symbols", "add", "--server", &up.url, "whole.debug"])
        .current_dir(builder.folder())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&added.stdout).into_owned();
    assert!(added.status.success(), "{added:?}");
    assert!(said.contains("names of rank dwarf"), "{said}");
    until("what was stored has names", NAMED_WITHIN, || {
        up.try_sql(query)
            .is_ok_and(|rows| rows.first().is_some_and(|row| row[0] == "touch_pages"))
    });
    let lines = up.sql(
        "select source_file, source_line from accesses where function = 'touch_pages' limit 1",
    );
    let file = lines[0][0].as_str().unwrap();
    assert!(file.ends_with("a.c") && lines[0][1] == 4, "{lines:?}");
    let summed = "select sum(samples) from functions where function = 'touch_pages'";
    assert!(up.number(summed) > 100);
    // Once more is nothing new.
    let again = Command::new(memwide())
        .args(["symbols", "add", "--server", &up.url])
        .arg(builder.path("whole.debug"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(said.contains("nothing new"), "{said}");
    let listed = Command::new(memwide())
        .args(["symbols", "list", "--server", &up.url, "--format", "json"])
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("late-names"), "{listed}");
}

/// Where the recorded kernel was loaded, and where it is linked to.
const LOADED: u64 = 0xffff_ffff_a420_0000;
const LINKED: u64 = 0xffff_ffff_8100_0000;

/// What ran on another machine.
struct Elsewhere<'a> {
    /// As its record names it.
    mapped: &'a str,
    pgoff: u64,
    /// As the header names its build id.
    file: &'a str,
    build_id: [u8; 20],
    /// Distance from the start.
    at: u64,
}

/// A file of another machine: samples of its kernel or of a module.
fn recorded_elsewhere(to: &Path, ran: &Elsewhere<'_>) {
    let event = EventSpec {
        attr: Attr {
            kind: attr_kind::SOFTWARE,
            config: 0,
            sample_type: sample::IDENTIFIER
                | sample::IP
                | sample::TID
                | sample::TIME
                | sample::CPU
                | sample::PERIOD,
            sample_period: 100,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        },
        name: "cpu-clock".to_owned(),
        ids: vec![1],
    };
    let layout = SampleLayout::new(&event.attr).unwrap();
    let mut batch = Vec::new();
    let id = SampleId {
        pid: Some(0),
        tid: Some(0),
        time: Some(1),
        id: Some(1),
        cpu: Some(0),
        ..SampleId::default()
    };
    let kernel = Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: LOADED,
        len: 0x20_0000,
        pgoff: ran.pgoff,
        data: false,
        filename: ran.mapped.as_bytes(),
    };
    let trailer = Some((layout.trailer(), &id));
    encode::record(&mut batch, &Record::Mmap(kernel), misc::KERNEL, trailer).unwrap();
    for at in 0..500 {
        let fields = SampleFields {
            id: 1,
            pid: 7,
            tid: 7,
            time: 1_000_000_000 + at * 1_000,
            period: 100,
            ip: LOADED + ran.at,
            ..SampleFields::default()
        };
        encode::sample(&mut batch, &fields, misc::KERNEL, &layout).unwrap();
    }
    let mut writer = FileWriter::new(File::create(to).unwrap(), &[event]).unwrap();
    writer.write_records(&batch).unwrap();
    let mut features = Features::default();
    features.set_text(feature::HOSTNAME, "elsewhere");
    features.set_text(feature::OSRELEASE, "5.4.0-elsewhere");
    features.set_text(feature::ARCH, std::env::consts::ARCH);
    features.set_build_ids(&[BuildIdEntry {
        pid: -1,
        misc: misc::KERNEL,
        build_id: BuildId::new(ran.build_id, 20),
        filename: ran.file.as_bytes().to_vec(),
    }]);
    writer.finish(&features).unwrap();
}

const KERNEL: &str = "
 .text
 .globl _text
_text: nop
 .org 0x2000
 .globl read_pages
 .type read_pages,@function
read_pages: nop
 .org 0x2100
 .size read_pages, 0x100
";

#[test]
fn what_another_kernel_did_is_named_when_its_vmlinux_is_brought() {
    let builder = Builder::new(&[("kernel.s", KERNEL)]);
    let address = format!("-Wl,-Ttext={LINKED:#x}");
    let id = [0xab; 20];
    let build_id = format!("-Wl,--build-id=0x{}", "ab".repeat(20));
    let args = [
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,-e,_text",
        &address,
        &build_id,
    ];
    if builder.compile(C, "kernel.s", "vmlinux", &args).is_none() {
        return;
    }
    let ran = Elsewhere {
        mapped: "[kernel.kallsyms]_text",
        pgoff: LOADED,
        file: "[kernel.kallsyms]",
        build_id: id,
        at: 0x2040, // 64 bytes into `read_pages`
    };
    named_when_brought(&builder, &ran, "[kernel.kallsyms]", "vmlinux", "VMLINUX");
}

const MODULE: &str = "
 .section .gnu.linkonce.this_module,\"aw\"
 .space 64
 .section .init.text,\"ax\"
 .space 4096
 .text
 .space 0x40
 .section .text.late,\"ax\"
 .globl read_pages
 .type read_pages,@function
read_pages: nop
 .org 0x100
 .size read_pages, 0x100
";

#[test]
fn what_a_module_of_another_kernel_did_is_named_when_its_file_is_brought() {
    let builder = Builder::new(&[("module.s", MODULE)]);
    let build_id = format!("-Wl,--build-id=0x{}", "cd".repeat(20));
    let args = ["-nostdlib", "-r", &build_id];
    if builder
        .compile(C, "module.s", "some-thing.ko", &args)
        .is_none()
    {
        return;
    }
    builder.tool("xz", &["--check=crc32", "some-thing.ko"]);
    let ran = Elsewhere {
        mapped: "[some_thing]",
        pgoff: 0,
        file: "[some_thing]",
        build_id: [0xcd; 20],
        at: 0x60, // .init.text is not there: .text, then 32 bytes into `read_pages`
    };
    named_when_brought(
        &builder,
        &ran,
        "[some_thing]",
        "some-thing.ko.xz",
        "NAME.ko",
    );
}

/// Imports what ran elsewhere, and names it by bringing a file.
#[track_caller]
fn named_when_brought(
    builder: &Builder,
    ran: &Elsewhere<'_>,
    module: &str,
    brought: &str,
    remedy: &str,
) {
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    recorded_elsewhere(&builder.path("kernel.data"), ran);
    let up = Up::start(&UpOptions {
        args: vec!["--no-collect".to_owned()],
        ..UpOptions::default()
    });
    let run = |args: &[&str]| {
        let mut command = Command::new(memwide());
        let output = command.args(args).current_dir(builder.folder()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["import", "--server", &up.url, "kernel.data"]);
    let stored = format!(
        "select function, count() from accesses where module = '{module}' group by function"
    );
    until("samples without a name", NAMED_WITHIN, || {
        up.try_sql(&stored)
            .is_ok_and(|rows| rows.len() == 1 && rows[0][0] == "" && rows[0][1] == 500)
    });
    let listed = run(&[
        "symbols", "list", "--server", &up.url, "--since", "-2d", "--format", "json",
    ]);
    assert!(
        listed.contains(&format!("symbols add {remedy}")),
        "{listed}"
    );
    let said = run(&["symbols", "add", "--server", &up.url, brought]);
    assert!(said.contains("names of rank symtab"), "{said}");
    until("what was stored has names", NAMED_WITHIN, || {
        up.try_sql(&stored)
            .is_ok_and(|rows| rows.len() == 1 && rows[0][0] == "read_pages" && rows[0][1] == 500)
    });
}

const SCRIPT: &str = "
function fillBuffers() { const b = Buffer.alloc(4 << 20); for (let i = 0; i < b.length; i += 4096) b[i] = 1; return b; }
for (;;) fillBuffers();
";

#[test]
fn functions_that_node_generates_have_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fill.js"), SCRIPT).unwrap();
    let node = Command::new("node").args(["-e", "0"]).status();
    if !node.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no node");
        return;
    }
    let Some(up) = collecting() else { return };
    let _node = start(
        folder.path(),
        Path::new("node"),
        &["--perf-basic-prof", "fill.js"],
    )
    .unwrap();
    let named = "select count() from accesses where module like 'perf-%.map' and function like '%fillBuffers%'";
    until("generated functions with names", NAMED_WITHIN, || {
        up.try_number(named).is_ok_and(|rows| rows > 100)
    });
}

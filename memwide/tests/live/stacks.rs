//! `memwide record --call-graph dwarf`: callers from copies of the stack, here and in perf.

use crate::run::{build, can_count, memwide, perf, text};

/// Its functions ask for memory through the C library, which keeps no frame pointers.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) char *inner(void) { char *p = malloc(100000); memset(p, 1, 100000); __asm__ volatile("" ::: "memory"); return p; }
__attribute__((noinline)) void outer(void) { for (int i = 0; i < 40; i++) { inner(); __asm__ volatile(""); } }
int main(void) { outer(); return 0; }
"#;

#[test]
fn copies_of_the_stack_give_the_callers_that_perf_finds() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "asks", SOURCE) else {
        return;
    };
    if !can_count() {
        return;
    }
    let file = folder.path().join("asks.data");
    let (file, program) = (file.to_str().unwrap(), program.to_str().unwrap());
    let event = "syscalls:sys_enter_brk";
    let how = "dwarf,4096";
    let output = memwide(&[
        "record",
        "--call-graph",
        how,
        "-e",
        event,
        "-o",
        file,
        "--",
        program,
    ]);
    let said = text(&output.stderr);
    if said.contains("cannot record") {
        eprintln!("skipped: no tracepoints here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let own = memwide(&["script", "--format", "ndjson", "-i", file]);
    let own = text(&own.stdout);
    let last = own.lines().last().unwrap();
    let at = |name: &str| {
        last.find(&format!("\"symbol\":\"{name}\""))
            .unwrap_or_else(|| panic!("{name}: {last}"))
    };
    assert!(
        at("inner") < at("outer") && at("outer") < at("main"),
        "{last}"
    );
    assert!(last.contains("\"callchain_by\":\"dwarf\""), "{last}");
    let Some(output) = perf(&["script", "-i", file]) else {
        return;
    };
    // What the recorder had mapped before it became the program would mislead perf.
    let perf = text(&output.stdout);
    let last = perf.rsplit("asks ").next().unwrap();
    for function in [" inner+", " outer+", " main+"] {
        assert!(last.contains(function), "{function}: {last}");
    }
}

#[test]
fn sizes_of_copies_that_the_kernel_refuses_are_refused_with_what_fits() {
    for how in ["dwarf,7", "dwarf,65536", "dwarf,x", "lbr"] {
        let output = memwide(&["record", "--call-graph", how, "--", "true"]);
        assert_eq!(output.status.code(), Some(64), "{how}");
        let said = text(&output.stderr);
        assert!(
            said.contains("65528") || said.contains("`dwarf,BYTES`"),
            "{said}"
        );
    }
}

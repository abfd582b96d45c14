//! `memwide diagnose` on programs that do one thing wrong, and on one that does nothing.

use crate::run::{build, can_count, memwide, text};
use memwide_tests::programs::{Builder, C, Program};
use serde_json::Value;

/// It leaks 60 mappings of a MiB, churns 400, touches 256 MiB page by page, and ends with 5.
const WRONG: &str = r#"
#include <stdio.h>
#include <sys/mman.h>
__attribute__((noinline)) char *map(size_t n) {
  char *p = mmap(0, n, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __asm__ volatile("" ::: "memory");
  return p;
}
__attribute__((noinline)) void leak(void) { for (int i = 0; i < 60; i++) { map(1 << 20); __asm__ volatile(""); } }
__attribute__((noinline)) void churn(void) {
  for (int i = 0; i < 400; i++) { char *p = map(1 << 20); p[0] = 1; munmap(p, 1 << 20); }
}
__attribute__((noinline)) void fill(void) {
  for (int k = 0; k < 2; k++) {
    char *p = map(128 << 20);
    madvise(p, 128 << 20, MADV_NOHUGEPAGE);
    for (long i = 0; i < 128 << 20; i += 4096) p[i] = 1;
  }
}
int main(void) { leak(); churn(); fill(); puts("printed"); return 5; }
"#;
const NOTHING: &str = "#include <time.h>\nint main(void) { struct timespec t = {0, 300000000}; nanosleep(&t, 0); return 0; }";

fn topics(found: &Value, list: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let each = found[list].as_array().unwrap().iter();
    each.map(|finding| (text(&finding["topic"]), text(&finding["says"])))
        .collect()
}

#[test]
fn growth_churn_and_faults_are_found_with_the_functions_that_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "wrong", WRONG) else {
        return;
    };
    if !can_count() {
        return;
    }
    let kept = folder.path().join("kept.data");
    let args = [
        "diagnose",
        "--format",
        "json",
        "--keep",
        kept.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
    ];
    let mut found = Value::Null;
    // A busy machine loses some, and says so: then it is recorded once more.
    for _ in 0..8 {
        let output = memwide(&args);
        assert_eq!(
            output.status.code(),
            Some(5),
            "the command's exit code: {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains("printed"),
            "what the command prints"
        );
        found = serde_json::from_slice(&output.stdout).unwrap();
        let lost = |key: &str| found["completeness"][key].as_u64().unwrap();
        if lost("lost") == 0 && lost("lost_samples") == 0 {
            break;
        }
    }
    let all = [topics(&found, "findings"), topics(&found, "cannot_tell")].concat();
    let says = |topic: &str, part: &str| {
        all.iter()
            .any(|(is, says)| is == topic && says.contains(part))
    };
    // On a slow machine the rate of faults may be below the threshold; then the number is still there to be read.
    let faults = found["samples"].as_array().unwrap().iter();
    let faults: u64 = faults
        .filter(|row| row["event"] == "minor-faults")
        .filter_map(|row| row["samples"].as_u64())
        .sum();
    assert!(faults >= 65_536, "{found:#}");
    let steps = found["steps"].as_array().unwrap();
    let step = |name: &str| steps.iter().find(|step| step["step"] == name).unwrap();
    if step("tracepoints")["available"] == false {
        eprintln!("skipped: no tracepoints here: {}", step("tracepoints"));
        return;
    }
    assert!(
        says("memory growth", "map ← leak ← main keeps 60.0 MiB"),
        "{all:?}"
    );
    assert!(
        says(
            "allocation churn",
            "map ← churn ← main maps and gives back 400.0 MiB"
        ),
        "{all:?}"
    );
    for step in steps.iter().filter(|step| step["available"] == false) {
        let missing = step["missing"].as_array().unwrap();
        assert!(!missing.is_empty() && missing[0]["reason"] != "", "{step}");
    }
    // Cache misses are asked for where there is nothing better; what is not there is said in its step and nowhere else.
    let has_precise = step("precise memory events")["available"] == true;
    let hardware = steps
        .iter()
        .find(|step| step["step"] == "hardware cache events");
    assert_eq!(hardware.is_none(), has_precise, "{found:#}");
    if let Some(hardware) = hardware {
        let missing = hardware["missing"].as_array().unwrap();
        let is_taken = hardware["available"] == true;
        assert_eq!(
            (is_taken, missing.len()),
            (is_taken, usize::from(!is_taken)),
            "{hardware}"
        );
    }
    let notes = found["notes"].as_array().unwrap().iter();
    let mut notes = notes.map(|note| note.as_str().unwrap());
    assert!(notes.all(|note| !note.starts_with("without")), "{found:#}");
    // The same from the file, as text.
    let output = memwide(&["diagnose", "-i", kept.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("Verdict: "),
        "{said}"
    );
    assert!(
        said.contains("map ← leak ← main keeps 60.0 MiB") && said.contains("memwide allocs -i"),
        "{said}"
    );
}

#[test]
fn a_program_that_does_nothing_wrong_has_no_finding_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "nothing", NOTHING) else {
        return;
    };
    if !can_count() {
        return;
    }
    let output = memwide(&[
        "diagnose",
        "--format",
        "json",
        "--",
        program.to_str().unwrap(),
    ]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let memory = [
        "page faults",
        "memory growth",
        "allocation churn",
        "false sharing",
        "remote memory",
    ];
    for (topic, says) in topics(&found, "findings") {
        assert!(!memory.contains(&topic.as_str()), "{topic}: {says}");
    }
    assert!(!found["verdict"].as_str().unwrap().is_empty());
}

/// It keeps 12 MiB in small pieces, of which the C library asks the kernel for more now and then, for longer than a start takes.
const SMALL: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <time.h>
__attribute__((noinline)) char *take(void) { char *p = malloc(3000); memset(p, 1, 3000); __asm__ volatile("" ::: "memory"); return p; }
__attribute__((noinline)) void leak(void) {
  for (int i = 0; i < 4000; i++) { take(); struct timespec t = {0, 150000}; nanosleep(&t, 0); }
}
int main(void) { leak(); return 0; }
"#;

#[test]
fn a_leak_behind_malloc_is_put_down_to_who_asked_though_the_library_keeps_no_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "small", SMALL) else {
        return;
    };
    if !can_count() {
        return;
    }
    let command = program.to_str().unwrap();
    let output = memwide(&["diagnose", "--format", "json", "--", command]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    if found["steps"].to_string().contains("sys_enter_brk\",")
        || !found["steps"].to_string().contains("sys_enter_brk")
    {
        eprintln!("skipped: no tracepoints here");
        return;
    }
    let all = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .chain(found["cannot_tell"].as_array().unwrap());
    let growth = all
        .clone()
        .find(|finding| finding["topic"] == "memory growth");
    let growth = growth.unwrap_or_else(|| panic!("{found:#}"));
    assert!(
        growth["says"]
            .as_str()
            .unwrap()
            .starts_with("the heap of small keeps 1"),
        "{growth:#}"
    );
    let evidence = growth["evidence"].to_string();
    assert!(evidence.contains("by take ← leak ← main"), "{evidence}");
    // By frame pointers alone nobody knows, and it is said.
    let file = folder.path().join("fp.data");
    let events = "syscalls:sys_enter_brk,syscalls:sys_exit_brk";
    let recorded = memwide(&[
        "record",
        "-g",
        "-e",
        events,
        "-o",
        file.to_str().unwrap(),
        "--",
        command,
    ]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let output = memwide(&["allocs", "--format", "json", "-i", file.to_str().unwrap()]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &found["rows"][0];
    let known = row["function"] == "take" && row["asker"] == "known";
    assert!(
        known || row["asker"] == "unknown" || row["asker"] == "doubtful",
        "{found:#}"
    );
    assert!(
        known || found["notes"].to_string().contains("--call-graph dwarf"),
        "{found:#}"
    );
}

#[test]
fn programs_that_only_start_and_end_keep_nothing() {
    const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *say(void *x) { char *p = malloc(100); p[0] = 1; puts("hello"); free(p); return x; }
int main(void) {
  pthread_t all[8];
  for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, say, 0);
  for (int i = 0; i < 8; i++) pthread_join(all[i], 0);
  return 0;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let Some(threads) = build(folder.path(), "threads", THREADS) else {
        return;
    };
    if !can_count() {
        return;
    }
    for command in ["true", "ls", threads.to_str().unwrap()] {
        let output = memwide(&["diagnose", "--format", "json", "--", command]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        for list in ["findings", "cannot_tell"] {
            for (topic, says) in topics(&found, list) {
                assert!(
                    !["memory growth", "allocation churn"].contains(&topic.as_str()),
                    "{command}: {says}"
                );
            }
        }
    }
}

#[test]
fn false_sharing_that_only_breakpoints_see_cannot_be_told() {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: breakpoints are set at an address of x86-64");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = r"
#include <pthread.h>
#include <stdio.h>
struct { volatile long first, second; } shared_line __attribute__((aligned(64)));
__attribute__((noinline)) static void *write_first(void *x) { for (int i = 0; i < 2000; i++) shared_line.first++; return x; }
__attribute__((noinline)) static void *write_second(void *x) { for (int i = 0; i < 2000; i++) shared_line.second++; return x; }
int main(void) {
  pthread_t one, two;
  pthread_create(&one, 0, write_first, 0);
  pthread_create(&two, 0, write_second, 0);
  pthread_join(one, 0); pthread_join(two, 0);
  return 0;
}
";
    let builder = Builder::within(folder.path(), &[("shares.c", source)]);
    // At a fixed address.
    let args = ["-O1", "-g", "-no-pie", "-fno-omit-frame-pointer"];
    let Some(fixed) = builder.compile(C, "shares.c", "fixed", &args) else {
        return;
    };
    if !can_count() {
        return;
    }
    let at = Program::new(&fixed).linked("shared_line");
    let (one, two) = (format!("mem:{at:#x}/8:w"), format!("mem:{:#x}/8:w", at + 8));
    let output = memwide(&[
        "diagnose",
        "--format",
        "json",
        "-e",
        &one,
        "-e",
        &two,
        "--",
        fixed.to_str().unwrap(),
    ]);
    let said = text(&output.stderr);
    if said.contains("cannot record mem:") {
        eprintln!("skipped: no breakpoints here: {said}");
        return;
    }
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {said}"));
    let unsure = topics(&found, "cannot_tell");
    let shared = unsure.iter().find(|(topic, _)| topic == "false sharing");
    let (_, says) = shared.unwrap_or_else(|| panic!("{found:#}"));
    assert!(
        says.contains("shared_line") && says.contains("different offsets"),
        "{says}"
    );
    let evidence = found["cannot_tell"].to_string();
    assert!(
        evidence.contains("write_first") && evidence.contains("write_second"),
        "{evidence}"
    );
}

#[test]
fn a_question_about_nobody_is_refused_with_a_remedy() {
    let output = memwide(&["diagnose"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("-i FILE"));
    let output = memwide(&["diagnose", "--keep", "/no/such/folder/x", "--", "true"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--keep") && !said.contains("-o"), "{said}");
}

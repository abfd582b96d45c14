//! Functions that were inlined stand in trees of calls and flame graphs, marked as perf marks them.

use crate::program::build;
use crate::run::{json, recorded, text};

const SOURCE: &str = r#"
#include <sys/mman.h>
static inline __attribute__((always_inline)) void touch(char *p) { for (long i = 0; i < 8 << 20; i += 4096) p[i] = 1; }
static inline __attribute__((always_inline)) void both(char *p) { touch(p); }
__attribute__((noinline)) void work(void) {
  char *p = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, 8 << 20, MADV_NOHUGEPAGE);
  both(p);
  __asm__ volatile("" ::: "memory");
}
int main(void) { work(); return 0; }
"#;

#[test]
fn inlined_functions_stand_between_callers_and_callees_unless_they_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let Some(file) = recorded(&program.path, &["-e", "minor-faults"]) else {
        return;
    };
    let folded = text("flamegraph", &file, &["--folded"], 80);
    assert!(
        folded.contains("main;work;both (inlined);touch (inlined) "),
        "{folded}"
    );
    let plain = text("flamegraph", &file, &["--folded", "--no-inline"], 80);
    assert!(
        plain.contains("main;work ") && !plain.contains("inlined"),
        "{plain}"
    );
    let names = |args: &[&str], below: &str| {
        let found = json(
            "report",
            &file,
            &[&["--sort", "symbol", "-g"], args].concat(),
        );
        let rows = found["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["symbol"] == "work").unwrap();
        let (mut names, mut at) = (Vec::new(), &row[below][0]);
        while let Some(name) = at["symbol"].as_str() {
            names.push(name.to_owned());
            at = &at[below][0];
        }
        names
    };
    let callee = names(&[], "callers");
    assert_eq!(
        callee[..4],
        ["touch (inlined)", "both (inlined)", "work", "main"]
    );
    let caller = names(&["caller"], "callees");
    let work = caller.iter().position(|name| name == "work").unwrap();
    assert_eq!(caller[work + 1..], ["both (inlined)", "touch (inlined)"]);
    assert_eq!(names(&["--no-inline"], "callers")[0], "main");
    assert_eq!(names(&["-j", "3"], "callers"), callee);
}

//! Members of variables, compared with the addresses that the programs themselves print; with all of it in the program, split
//! off, and packed together.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

#[path = "support/split.rs"]
mod split;

use memwide_objects::DebugInfo;
use split::{info, run, table};
use std::path::{Path, PathBuf};

const C: &str = r#"#include <stdio.h>
#include <stdint.h>
struct counters { long hits; long misses; };
typedef struct { char tag; struct counters per[2]; union { int word; short half[2]; } u; struct { int anon; }; } mixed_t;
struct bits { unsigned low : 3; unsigned high : 9; unsigned char plain; };
struct tail { int n; int rest[]; };
struct counters stats[8];
static const volatile mixed_t mixed[3] = {{1}};
int grid[4][5];
struct bits bits;
static struct tail tail = {3, {1, 2, 3}};
int *pointer;
enum color { RED } color = RED;
static __attribute__((noinline)) void *local(int i) {
    static struct { int a; struct counters deep[4]; } kept;
    return &kept.deep[i].misses;
}
__thread long before;
__thread struct counters mine[2];
extern struct counters elsewhere;
#define P(path) printf("%s %p\n", #path, (void *)&path)
int main(void) {
    P(stats[0].hits); P(stats[3].misses); P(stats[7].misses);
    P(mixed[2].tag); P(mixed[1].per[1].hits); P(mixed[1].anon);
    printf("mixed[2].u.{word|half} %p\n", (void *)&mixed[2].u);
    P(grid[3][4]); P(grid[0][1]);
    printf("bits.{low|high} %p\n", (void *)&bits);
    P(bits.plain);
    P(tail.n); P(pointer); P(color); P(elsewhere.misses);
    printf("kept.deep[2].misses %p\n", local(2));
    mine[0].hits = before;
    return (int)mine[0].hits;
}
"#;

const ELSEWHERE: &str =
    "struct counters { long hits; long misses; };\nstruct counters elsewhere = {1, 2};\n";

const CPP: &str = r#"#include <cstdio>
#include <atomic>
namespace app {
struct Empty {};
struct Base { int in_base; virtual ~Base() {} };
template <class T> struct Pair { T first; T second; };
struct Derived : Empty, Base { Pair<long> pair; std::atomic<int> hot; static Pair<int> shared; int &ref; Derived(int &r) : ref(r) {} };
Pair<int> Derived::shared;
int target;
Derived derived[2] = {Derived(target), Derived(target)};
inline Pair<short> inlined;
}
#define P(path) printf("%s %p\n", #path, (void *)&path)
int main() {
    using namespace app;
    P(derived[1].in_base); P(derived[0].pair.second); P(derived[1].pair.first);
    P(inlined.second);
    P(target);
    printf("app::Derived::shared.second %p\n", (void *)&Derived::shared.second);
    return 0;
}
"#;

const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering};
#[repr(C)]
pub struct Counter { hits: AtomicU64, pair: (u32, u64) }
#[repr(C)]
pub enum Kind { Small(u32), Large(u64, u64) }
pub static COUNTERS: [Counter; 4] = [const { Counter { hits: AtomicU64::new(0), pair: (1, 2) } }; 4];
pub static KIND: Kind = Kind::Large(1, 2);
fn main() {
    COUNTERS[1].hits.fetch_add(1, Ordering::Relaxed);
    println!("COUNTERS[2].hits.v.value {:p}", &COUNTERS[2].hits);
    println!("COUNTERS[3].pair.1 {:p}", &COUNTERS[3].pair.1);
    println!("base {:p}", &COUNTERS);
    std::hint::black_box(&KIND);
}
"#;

/// The address that a program prints for a name.
fn printed(said: &str, name: &str) -> u64 {
    let mut lines = said.lines();
    let address = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" 0x"));
    u64::from_str_radix(address.unwrap(), 16).unwrap()
}

/// Variable and path as found.
fn named(info: &mut DebugInfo, address: u64) -> String {
    let Some(found) = info.member(address).unwrap() else {
        return "nothing".to_owned();
    };
    let variable = found.variable.unwrap();
    let variable = memwide_objects::demangle(&variable);
    let name = format!("{variable}{}", found.path);
    if found.rest == 0 {
        name
    } else {
        format!("{name}+{:#x}", found.rest)
    }
}

/// `name address` of each line that the program prints, checked.
fn check(program: &Path, info: &mut DebugInfo, said: &str, what: &str) {
    let lines: Vec<(&str, u64)> = said
        .lines()
        .map(|line| {
            let (name, address) = line.split_once(' ').unwrap();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            (name, address)
        })
        .collect();
    assert!(lines.len() > 2, "{}", program.display());
    for (name, address) in lines.iter().filter(|(name, _)| *name != "base") {
        assert_eq!(
            named(info, *address).replace("app::", ""),
            name.replace("app::", ""),
            "{what}"
        );
    }
}

fn c_program(folder: &Path, options: &[&str]) -> Option<(PathBuf, String)> {
    std::fs::write(folder.join("members.c"), C).unwrap();
    std::fs::write(folder.join("elsewhere.c"), ELSEWHERE).unwrap();
    // Compiled by themselves: only then do split files have names of their own.
    for name in ["members", "elsewhere"] {
        let (source, object) = (format!("{name}.c"), format!("{name}.o"));
        let args = [options, &["-c", &source, "-o", &object]].concat();
        run("cc", &args, folder)?;
    }
    let link = ["-no-pie", "members.o", "elsewhere.o", "-o", "members"];
    run("cc", &link, folder)?;
    let program = folder.join("members");
    let said = run(program.to_str().unwrap(), &[], folder)?;
    Some((program, said))
}

/// Builds a program in each of several ways; what it prints must hold. `build` answers program and what it printed.
fn check_each(build: impl Fn(&Path, &[&str]) -> Option<(PathBuf, String)>) {
    for options in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let options = [options, &["-fno-pie"]].concat();
        let Some((program, said)) = build(folder.path(), &options) else {
            return;
        };
        let what = options.join(" ");
        check(&program, &mut info(&program, None), &said, &what);
    }
}

const KINDS: [&[&str]; 6] = [
    &["-g", "-O1", "-gdwarf-5"],
    &["-g", "-O0", "-gdwarf-4"],
    &["-g", "-gdwarf-3", "-gno-strict-dwarf"],
    &["-g", "-gdwarf-5", "-fdebug-types-section"],
    &["-g", "-gdwarf-4", "-fdebug-types-section"],
    &["-g", "-gz"],
];

#[test]
fn members_of_c_variables_are_where_the_program_says() {
    check_each(c_program);
}

#[test]
fn split_files_and_packages_name_the_same_members() {
    for options in [
        &["-g", "-gdwarf-5"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-5", "-fdebug-types-section"],
        &["-g", "-gdwarf-4", "-fdebug-types-section"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = [options, &["-fno-pie", "-gsplit-dwarf"]].concat();
        let Some((program, said)) = c_program(folder.path(), &options) else {
            return;
        };
        let what = options.join(" ");
        check(&program, &mut info(&program, None), &said, &what);
        let package = folder.path().join("members.dwp");
        for packer in ["dwp", "llvm-dwp"] {
            // Versions of both that are in use do not know packages of version 5.
            let args = ["-e", "members", "-o", "members.dwp"];
            if what.contains("-5") || run(packer, &args, folder.path()).is_none() {
                continue;
            }
            let mut info = info(&program, Some(&package));
            check(&program, &mut info, &said, &format!("{what}, {packer}"));
            assert_eq!(info.split_refusals(), (&[][..], 0), "all is in the package");
        }
    }
}

#[test]
fn split_files_of_another_build_or_lost_ones_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-g", "-fno-pie", "-gsplit-dwarf"];
    let Some((program, said)) = c_program(folder.path(), &options) else {
        return;
    };
    let stats = printed(&said, "stats[0].hits");
    let kept = folder.path().join("kept");
    std::fs::copy(&program, &kept).unwrap();
    let changed = C.replace("long hits; long misses;", "long misses; int hits;");
    std::fs::write(folder.path().join("members.c"), changed).unwrap();
    let again = [&options[..], &["-c", "members.c", "-o", "members.o"]].concat();
    run("cc", &again, folder.path()).unwrap();
    std::fs::remove_file(folder.path().join("elsewhere.dwo")).unwrap();
    let mut info = info(&kept, None);
    assert_eq!(info.member(stats).unwrap(), None);
    let (refused, more) = info.split_refusals();
    assert!(
        refused
            .iter()
            .any(|why| why.contains("members.dwo is of another build")),
        "{refused:?}"
    );
    assert!(
        refused
            .iter()
            .any(|why| why.contains("elsewhere.dwo: No such file")),
        "{refused:?}"
    );
    assert_eq!((refused.len(), more), (2, 0));
}

#[test]
fn members_of_cpp_variables_are_where_the_program_says() {
    check_each(|folder, options| {
        std::fs::write(folder.join("members.cpp"), CPP).unwrap();
        let more = ["-std=c++17", "-no-pie", "members.cpp", "-o", "members"];
        run("c++", &[options, &more].concat(), folder)?;
        let program = folder.join("members");
        let said = run(program.to_str().unwrap(), &[], folder).unwrap();
        Some((program, said))
    });
}

#[test]
fn members_of_rust_statics_are_where_the_program_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("members.rs"), RUST).unwrap();
    let args = ["--edition=2021", "-g", "members.rs"];
    if run("rustc", &args, folder.path()).is_none() {
        return;
    }
    let program = folder.path().join("members");
    let said = run(program.to_str().unwrap(), &[], folder.path()).unwrap();
    let table = table(&program);
    let start = |name: &str| {
        let mut all = table.objects().iter();
        all.find(|symbol| symbol.name.contains(name)).unwrap().start
    };
    // The program lies anywhere: it prints where this variable went.
    let moved = printed(&said, "base") - start("COUNTERS");
    let mut info = info(&program, None);
    let mut checked = 0;
    for line in said.lines().filter(|line| !line.starts_with("base")) {
        let (name, address) = line.split_once(" 0x").unwrap();
        let address = u64::from_str_radix(address, 16).unwrap() - moved;
        assert_eq!(named(&mut info, address), format!("members::{name}"));
        checked += 1;
    }
    assert_eq!(checked, 2);
    let kind = named(&mut info, start("KIND") + 8);
    assert_eq!(
        kind, "members::KIND.{Small|Large}+0x8",
        "which variant it is, the data says"
    );
}

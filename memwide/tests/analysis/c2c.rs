//! `memwide c2c`: false sharing, padding, a lock, on a program's own variables.

use crate::program::{HITM, LOAD, Made, STORE, build, write};
use crate::run::{check_width, json, text};
use memwide_model::DataSrc;
use memwide_model::data_src::lock;
use memwide_tests::programs::Program;

const SOURCE: &str = "
struct { volatile long first, second; } shared_line __attribute__((aligned(64))) = {1, 1};
struct { volatile long first; char pad[56]; volatile long second; } padded __attribute__((aligned(64))) = {1, {0}, 1};
volatile long lock_word __attribute__((aligned(64))) = 1;
__attribute__((noinline)) void read_first(void) { shared_line.first; padded.first; }
__attribute__((noinline)) void write_second(void) { shared_line.second++; padded.second++; }
__attribute__((noinline)) void take_lock(void) { __sync_fetch_and_add(&lock_word, 1); }
int main(void) { read_first(); write_second(); take_lock(); return 0; }
";

/// One thread reads `first` of both structures, another writes `second`; both take the lock.
fn accesses(program: &Program) -> Vec<Made> {
    let at = |name: &str| program.address(name);
    let made = |function: &str, addr, tid, word: DataSrc| Made {
        ip: at(function) + 4,
        addr,
        tid,
        word: word.0,
    };
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(made("read_first", at("shared_line"), 101, HITM));
        all.push(made("write_second", at("shared_line") + 8, 102, STORE));
        all.push(made("read_first", at("padded"), 101, LOAD));
        all.push(made("write_second", at("padded") + 64, 102, STORE));
    }
    for tid in [101, 102] {
        let locked = HITM.with_lock(lock::LOCKED);
        all.extend([made("take_lock", at("lock_word"), tid, locked); 5]);
    }
    all
}

#[test]
fn false_sharing_is_found_by_variable_and_function_and_padding_is_not_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("c2c.data");
    write(&file, &program, &accesses(&program));
    let found = json("c2c", &file, &[]);
    assert_eq!(found["summary"]["tot_hitm"], 30);
    let lines = found["lines"].as_array().unwrap();
    let what = |at: usize| {
        let verdict = &lines[at]["verdict"];
        (
            lines[at]["data"].as_str().unwrap(),
            lines[at]["hitm"].as_u64().unwrap(),
            verdict["kind"].as_str().unwrap(),
        )
    };
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert_eq!(what(0), ("shared_line", 20, "false sharing"));
    assert_eq!(what(1), ("lock_word", 10, "true sharing"));
    let verdict = &lines[0]["verdict"];
    assert_eq!(verdict["written_at_other_offsets"], 20);
    assert_eq!(verdict["victim"]["function"], "read_first");
    assert_eq!(verdict["victim"]["thread"], 101);
    let source = lines[0]["offsets"][0]["srcline"].as_str().unwrap();
    assert_eq!(source, "program.c:5");
    assert_eq!(verdict["writer"]["function"], "write_second");
    assert_eq!(verdict["writer"]["offset"], 8);
    // As false sharing of a pair of lines it is found only when asked for.
    let double = json("c2c", &file, &["--double-cl", "--show-all"]);
    let of_padded = double["lines"].as_array().unwrap().iter();
    let kinds: Vec<&str> = of_padded
        .filter(|line| line["data"].as_str().unwrap().starts_with("padded"))
        .map(|line| line["verdict"]["kind"].as_str().unwrap())
        .collect();
    let start = program.address("padded") % 128;
    let expected = if start == 0 {
        vec!["read and written, different offsets"]
    } else {
        vec!["not shared"; 2]
    };
    assert_eq!(kinds, expected);
}

#[test]
fn tables_fit_the_terminal_and_csv_has_a_row_a_site() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("c2c.data");
    write(&file, &program, &accesses(&program));
    for columns in [80, 200] {
        let text = text("c2c", &file, &[], columns);
        check_width(&text, columns);
        assert!(text.contains("false sharing"), "{text}");
        assert!(text.contains("[.] read_first"), "{text}");
    }
    let csv = text("c2c", &file, &["--format", "csv"], 80);
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    let few = text("c2c", &file, &["-F", "function=take_lock"], 80);
    assert!(
        few.contains("true sharing") && !few.contains("read_first"),
        "{few}"
    );
}

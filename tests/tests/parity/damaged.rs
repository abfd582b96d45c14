//! Files that are damaged, cut or of strange machines: bad input where perf too fails or warns, and never a panic.

use crate::collection::folder;
use crate::perf::{self, NO_SYMBOLS};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: &str, args: &[&str], file: &Path) -> Output {
    Command::new(program)
        .args(args)
        .args(NO_SYMBOLS)
        .arg("-i")
        .arg(file)
        .output()
        .unwrap()
}

/// Whether perf fails on a file or warns of it.
fn is_bad_to_perf(file: &Path) -> bool {
    let ran = run("perf", &["script", "--no-itrace", "-f"], file);
    let said = String::from_utf8_lossy(&ran.stderr);
    let warns = ["unexpected end", "bad event header", "data size field"];
    !ran.status.success() || warns.iter().any(|warning| said.contains(warning))
}

/// Our exit code; whatever it is, it comes with a reason. And whether that is a record shorter than its fields, of which perf
/// says nothing and shows what lies behind it in memory.
fn our_code(file: &Path) -> (i32, bool) {
    let program = memwide_tests::memwide();
    let ran = run(
        program.to_str().unwrap(),
        &["script", "--format", "ndjson"],
        file,
    );
    let said = String::from_utf8_lossy(&ran.stderr);
    let code = ran.status.code().unwrap();
    assert!(!said.contains("panicked"), "{}: {said}", file.display());
    assert!(code == 0 || !said.is_empty(), "{}", file.display());
    (code, said.contains("shorter than their fields"))
}

#[test]
fn damaged_files_are_bad_input_where_perf_fails_or_warns() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    let files = std::fs::read_dir(&folder).unwrap();
    let files: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("fuzz-") || name.starts_with("bad-")
        })
        .collect();
    let mut wrong = Vec::new();
    for file in &files {
        let (bad, (code, is_short)) = (is_bad_to_perf(file), our_code(file));
        if code != if bad || is_short { 65 } else { 0 } {
            wrong.push(format!("{}: {code}, perf: {bad}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() > 8, "{} files", files.len());
}

#[test]
fn a_cut_pipe_is_bad_input_where_perf_warns() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("cut.data");
    let mut warned = 0;
    for name in [
        "pipe-header_features-4.16.data",
        "pipe-ctx_switch-namespaces-4.14.data",
    ] {
        let whole = std::fs::read(folder.join(name)).unwrap();
        for cut in (8..whole.len()).step_by(331) {
            std::fs::write(&file, &whole[..cut]).unwrap();
            if is_bad_to_perf(&file) {
                assert_eq!(our_code(&file).0, 65, "{name} cut at {cut}");
                warned += 1;
            }
        }
    }
    assert!(warned > 10, "{warned}");
}

//! Runs perf and memwide on a file.

use std::path::Path;
use std::process::Command;

/// Whether perf can be run at all.
pub(crate) fn exists() -> bool {
    let version = Command::new("perf").arg("--version").output();
    let exists = version.is_ok_and(|output| output.status.success());
    if !exists {
        eprintln!("skipped: there is no perf to compare with");
    }
    exists
}

/// Arguments that keep both from finding any symbols: for files of other machines.
pub(crate) const NO_SYMBOLS: [&str; 4] = ["--symfs", "/sys/kernel", "--kallsyms", "/dev/null"];

/// What `perf ARGS… -f -i FILE` prints.
pub(crate) fn perf(args: &[&str], file: &Path) -> String {
    let output = Command::new("perf")
        .args(args)
        .arg("-f")
        .arg("-i")
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether perf itself dies on a recording; then there is nothing to compare with.
pub(crate) fn dies(file: &Path) -> bool {
    let output = Command::new("perf")
        .args([
            "script",
            "--no-itrace",
            "-G",
            "-F",
            "comm,ip,sym,dso",
            "-f",
            "-i",
        ])
        .arg(file)
        .output()
        .unwrap();
    let dies = output.status.code().is_none();
    if dies {
        eprintln!("skipped: perf script ends with {}", output.status);
    }
    dies
}

/// What `memwide ARGS… -i FILE` prints; it must end well.
pub(crate) fn memwide(args: &[&str], file: &Path) -> String {
    let output = Command::new(memwide_tests::memwide())
        .args(args)
        .arg("-i")
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "memwide {args:?} -i {}: {said}",
        file.display()
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The first place where two lists differ.
pub(crate) fn difference(ours: &[String], theirs: &[String]) -> Option<String> {
    let differs = |(ours, theirs): (&String, &String)| ours != theirs;
    if let Some(at) = ours.iter().zip(theirs).position(differs) {
        return Some(format!(
            "line {at}: {:?}, perf has {:?}",
            ours[at], theirs[at]
        ));
    }
    (ours.len() != theirs.len()).then(|| format!("{} lines, perf has {}", ours.len(), theirs.len()))
}

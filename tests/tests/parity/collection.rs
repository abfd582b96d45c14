//! The shared collection of perf.data files, when it stands beside the repository.

use std::path::{Path, PathBuf};

/// The collection's folder.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/perfdata");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no collection of perf.data files beside the repository");
    None
}

/// Names of the files that perf reads, those of fuzzers aside.
pub(crate) fn readable_by_perf(folder: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let mut lines = manifest
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let perf = columns
        .iter()
        .position(|name| name.starts_with("read by perf"))
        .unwrap();
    let readable = lines.filter(|row| row[perf].starts_with("yes") && !row[0].starts_with("fuzz"));
    readable.map(|row| row[0].to_owned()).collect()
}

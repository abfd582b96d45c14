//! The folder of answers, shared with debuginfod's own client, and its bound.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most entries of a folder looked at.
const ENTRIES_MAX: usize = 1 << 16;

/// The folder of debuginfod's own client.
pub(in crate::edge) fn cache_dir() -> Option<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = var("DEBUGINFOD_CACHE_PATH") {
        return Some(path.into());
    }
    let base = var("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&var("HOME")?).join(".cache")));
    base.map(|base| base.join("debuginfod_client"))
}

/// An answer kept.
struct Kept {
    used: SystemTime,
    len: u64,
    path: PathBuf,
}

/// Removes the answers that were used longest ago, until at most so many bytes are left; never `newest`. Only files that such
/// a client writes are looked at: folders named by a build id hold them.
pub(super) fn trim(cache: &Path, most: u64, newest: &Path) {
    let mut kept = answers(cache);
    let mut total: u64 = kept.iter().map(|answer| answer.len).sum();
    kept.sort_by_key(|answer| answer.used);
    for answer in kept {
        if total <= most {
            return;
        }
        if answer.path != newest && std::fs::remove_file(&answer.path).is_ok() {
            total -= answer.len;
            // Empty now, or not: then it stays.
            let _ = answer.path.parent().map(std::fs::remove_dir);
        }
    }
}

fn answers(cache: &Path) -> Vec<Kept> {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.flatten().take(ENTRIES_MAX)
    };
    let is_id = |name: &str| name.len() >= 8 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let mut found = Vec::new();
    for folder in entries(cache) {
        if !folder.file_name().to_str().is_some_and(is_id) {
            continue;
        }
        for entry in entries(&folder.path()) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_answer = ["debuginfo", "executable"].contains(&&*name)
                || name.starts_with("source")
                || name.starts_with("section");
            // Links lead elsewhere: what lies there is not ours.
            let meta = std::fs::symlink_metadata(entry.path());
            let Some(meta) = meta.ok().filter(|meta| meta.is_file() && is_answer) else {
                continue;
            };
            let times = [meta.accessed(), meta.modified()];
            found.push(Kept {
                used: times
                    .into_iter()
                    .flatten()
                    .max()
                    .unwrap_or(SystemTime::UNIX_EPOCH),
                len: meta.len(),
                path: entry.path(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    /// An answer of so many bytes, used so many hours ago.
    fn answer(cache: &Path, id: &str, name: &str, len: usize, hours: u64) -> PathBuf {
        let folder = cache.join(id);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, vec![0; len]).unwrap();
        let used = SystemTime::now() - Duration::from_hours(hours);
        let times = std::fs::FileTimes::new()
            .set_accessed(used)
            .set_modified(used);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        path
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_nothing_but_answers_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path();
        let oldest = answer(cache, "aaaaaaaaaa", "debuginfo", 100, 50);
        let old = answer(cache, "bbbbbbbbbb", "executable", 100, 40);
        let newer = answer(cache, "cccccccccc", "debuginfo", 100, 3);
        let newest = answer(cache, "dddddddddd", "debuginfo", 100, 60);
        let foreign = answer(cache, "settings", "debuginfo", 1000, 90);
        let other = answer(cache, "eeeeeeeeee", "notes", 1000, 90);
        trim(cache, 250, &newest);
        for gone in [&oldest, &old] {
            assert!(!gone.exists(), "{}", gone.display());
        }
        for kept in [&newer, &newest, &foreign, &other] {
            assert!(kept.exists(), "{}", kept.display());
        }
        assert!(
            !cache.join("aaaaaaaaaa").exists(),
            "the empty folder is gone"
        );
        trim(cache, 250, &newest);
        assert!(newer.exists());
    }
}

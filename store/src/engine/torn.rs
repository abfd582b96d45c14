//! Tokens of inserts that a crash tore are made free again, before the engine reads them.
//!
//! The engine writes a block's token to its table's deduplication log first and gives the block's part its name after
//! (`MergeTreeSink::commitPart`; seen with `strace` on 26.7). Killed in between, it would start with a token that
//! stands for nothing: the repeated insert would be "there already", and the block lost. A log line whose part is not
//! on the disk, alone or merged into a wider one, is therefore taken back by the line the engine itself writes when a
//! part is dropped. A line that was cut is cut away: else the next one would be glued to it, and the engine stops
//! reading a log at the first line that it does not understand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Bytes of a log's end that are looked at: some 500 lines, and no more inserts than the engine has threads are torn.
const TAIL_BYTES: u64 = 32 << 10;

/// Parts are numbered as their tokens are written, and named under one lock: one that is torn has a number above all named
/// ones, give or take the inserts of that moment. A part that is missing below was dropped, and its token stays.
const AT_ONCE: u64 = 16;

/// A part by its name: `partition_min_max_level`, and `_mutation` at times.
#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    partition: &'a str,
    /// First and last block in it.
    blocks: (u64, u64),
}

impl<'a> Part<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let pieces = name.split('_').collect::<Vec<_>>();
        let (&partition, numbers) = pieces.split_first()?;
        if !matches!(numbers.len(), 3 | 4) {
            return None;
        }
        let numbers = numbers
            .iter()
            .map(|piece| piece.parse().ok())
            .collect::<Option<Vec<u64>>>()?;
        Some(Self {
            partition,
            blocks: (numbers[0], numbers[1]),
        })
    }

    fn holds(&self, other: &Part<'_>) -> bool {
        self.partition == other.partition
            && self.blocks.0 <= other.blocks.0
            && other.blocks.1 <= self.blocks.1
    }
}

/// Frees the tokens that stand for nothing, in all tables of the engine in `folder`. Gives the names of their parts.
pub(super) fn free_tokens(folder: &Path) -> Result<Vec<String>, StoreError> {
    let mut freed = Vec::new();
    for shelf in entries(&folder.join("store"))? {
        for table in entries(&shelf)? {
            free_in(&table, &mut freed).map_err(StoreError::io(format!(
                "look through the deduplication log of {}",
                table.display()
            )))?;
        }
    }
    Ok(freed)
}

/// What is in a folder; nothing in one that is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let list = || match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Vec::new()),
            _ => Err(error),
        },
    };
    list().map_err(StoreError::io(format!("list {}", folder.display())))
}

fn free_in(table: &Path, freed: &mut Vec<String>) -> io::Result<()> {
    let mut logs = BTreeMap::new();
    let folder = table.join("deduplication_logs");
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.rsplit('_').next()?.parse::<u64>().ok());
        if let Some(number) = number {
            logs.insert(number, path);
        }
    }
    // A full log is followed by a new one, and then the last line stands in the one before.
    let mut tokens = BTreeMap::new();
    let mut last = None;
    for path in logs
        .into_values()
        .rev()
        .take(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        read_tail(&path, &mut tokens)?;
        last = Some(path);
    }
    let names = fs::read_dir(table)?
        .map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()))
        .collect::<io::Result<Vec<_>>>()?;
    let parts = names
        .iter()
        .filter_map(|name| Part::parse(name))
        .collect::<Vec<_>>();
    let newest = parts.iter().map(|part| part.blocks.1).max().unwrap_or(0);
    let is_torn = |name: &str| {
        Part::parse(name).is_some_and(|part| {
            part.blocks.0.saturating_add(AT_ONCE) > newest && !parts.iter().any(|p| p.holds(&part))
        })
    };
    let mut lines = String::new();
    for (token, name) in tokens {
        if is_torn(&name) {
            let _ = writeln!(lines, "2\t{name}\t{token}");
            freed.push(name);
        }
    }
    match last {
        Some(path) if !lines.is_empty() => {
            let mut log = OpenOptions::new().append(true).open(path)?;
            log.write_all(lines.as_bytes())?;
            log.sync_all()
        }
        _ => Ok(()),
    }
}

/// Reads the last lines of a log into `tokens` (token to part), and cuts away one that has no end.
fn read_tail(path: &Path, tokens: &mut BTreeMap<String, String>) -> io::Result<()> {
    let mut log = File::options().read(true).write(true).open(path)?;
    let length = log.metadata()?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    log.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    log.read_to_end(&mut tail)?;
    let whole = tail
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    if whole < tail.len() {
        log.set_len(from + whole as u64)?;
        log.sync_all()?;
    }
    let text = String::from_utf8_lossy(&tail[..whole]);
    // The first line of a tail may be the end of one.
    for line in text.lines().skip(usize::from(from > 0)) {
        let mut fields = line.split('\t');
        match (fields.next(), fields.next(), fields.next()) {
            (Some("1"), Some(part), Some(token)) => {
                tokens.insert(token.to_owned(), part.to_owned());
            }
            (Some("2"), _, Some(token)) => {
                tokens.remove(token);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        let part = |name| Part::parse(name).map(|part| (part.partition, part.blocks));
        assert_eq!(part("20260101_4_9_1"), Some(("20260101", (4, 9))));
        assert_eq!(part("all_4_9_1_12"), Some(("all", (4, 9))));
        for name in [
            "tmp_insert_all_4_4_0",
            "delete_tmp_all_4_4_0",
            "detached",
            "all_1_2",
            "all_1_x_0",
        ] {
            assert_eq!(part(name), None, "{name}");
        }
        let wide = Part::parse("a_1_9_2").unwrap();
        assert!(wide.holds(&Part::parse("a_9_9_0").unwrap()));
        assert!(!wide.holds(&Part::parse("a_9_10_0").unwrap()));
        assert!(!wide.holds(&Part::parse("b_9_9_0").unwrap()));
    }

    #[test]
    fn only_tokens_without_a_part_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("store/abc/abcdef");
        let logs = table.join("deduplication_logs");
        fs::create_dir_all(&logs).unwrap();
        for part in ["d_1_2_1", "d_5_5_0", "detached"] {
            fs::create_dir(table.join(part)).unwrap();
        }
        // 4 was dropped by the engine, 6 is torn; 7 is a line that was cut.
        let first = "1\td_1_1_0\tt1\n1\td_2_2_0\tt2\n1\td_4_4_0\tt4\n2\td_4_4_0\tt4\n1\td_5_5_0\tt5\n1\td_6_6_0\tt6\n";
        fs::write(logs.join("deduplication_log_9.txt"), first).unwrap();
        fs::write(logs.join("deduplication_log_10.txt"), "1\td_7").unwrap();
        assert_eq!(free_tokens(folder.path()).unwrap(), ["d_6_6_0"]);
        let read = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
        assert_eq!(read("deduplication_log_9.txt"), first);
        assert_eq!(read("deduplication_log_10.txt"), "2\td_6_6_0\tt6\n");
        assert!(free_tokens(folder.path()).unwrap().is_empty());
        assert!(free_tokens(&folder.path().join("none")).unwrap().is_empty());
        // A day was dropped long ago: what is inserted once more under its tokens stays out.
        fs::create_dir(table.join("e_40_40_0")).unwrap();
        fs::write(
            logs.join("deduplication_log_10.txt"),
            "1\td_7_7_0\tt7\n1\te_41_41_0\tt41\n",
        )
        .unwrap();
        assert_eq!(free_tokens(folder.path()).unwrap(), ["e_41_41_0"]);
    }
}

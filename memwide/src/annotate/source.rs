//! Texts of source lines, from the files the compiler read, where they are here.

use memwide_analysis::annotate::Line;
use memwide_decoder::edge::FileSource;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Largest file of source read, in bytes.
const FILE_MAX: u64 = 16 << 20;

/// Files of source kept at most.
const FILES_MAX: usize = 256;

/// Longest text shown of a line, in characters.
const TEXT_MAX: usize = 300;

/// Files read so far; `None` for those that are not here.
#[derive(Debug, Default)]
pub(crate) struct Source {
    files: HashMap<Arc<str>, Option<Vec<String>>>,
}

impl Source {
    /// The text of a line, without the blanks around it.
    pub(super) fn text(&mut self, places: &FileSource, line: &Line) -> Option<String> {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&line.file) {
            return None;
        }
        let file = self.files.entry(Arc::clone(&line.file)).or_insert_with(|| {
            let path = places.below_root(Path::new(&*line.file));
            read(&path).or_else(|| read(Path::new(&*line.file)))
        });
        let at = usize::try_from(line.line).ok()?.checked_sub(1)?;
        file.as_ref()?.get(at).cloned()
    }
}

fn read(path: &Path) -> Option<Vec<String>> {
    let meta = std::fs::metadata(path).ok()?;
    // Devices and pipes could block for ever; a path that is not whole could be any file.
    if !meta.is_file() || meta.len() > FILE_MAX || !path.is_absolute() {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = |line: &str| line.trim().chars().take(TEXT_MAX).collect();
    Some(text.lines().map(line).collect())
}

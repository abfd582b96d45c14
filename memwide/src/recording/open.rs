//! Opens a file, a directory that perf wrote, or standard input.

use super::InputError;
use memwide_perf_abi::PerfFile;
use memwide_perf_abi::file::{PARTS_MAX, part_number};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path that stands for standard input.
const STDIN: &str = "-";
/// The file with the header in a directory that `perf record --threads` or `--kcore` wrote.
const DIRECTORY_MAIN: &str = "data";
/// Entries of a directory looked at: twice what a recording may have.
const DIRECTORY_ENTRIES_MAX: usize = 2 * PARTS_MAX;

pub(super) fn open(path: &Path) -> Result<PerfFile<File>, InputError> {
    let cannot_open = |source| InputError::Open {
        path: path.to_owned(),
        source,
    };
    if path == Path::new(STDIN) {
        return opened(path, from_stdin()?, Vec::new());
    }
    // Asked before opening: opening a pipe waits for a writer.
    let meta = std::fs::metadata(path).map_err(cannot_open)?;
    let main = path.join(DIRECTORY_MAIN);
    let is_recording = meta.is_dir() && main.is_file();
    if let Some(what) = other_than_file(meta.file_type()).filter(|_| !is_recording) {
        return Err(InputError::NotAFile {
            path: path.to_owned(),
            what,
        });
    }
    let (main, parts) = if is_recording {
        (main, parts(path).map_err(cannot_open)?)
    } else {
        (path.to_owned(), Vec::new())
    };
    let file = File::open(main).map_err(cannot_open)?;
    opened(path, file, parts)
}

fn opened(path: &Path, file: File, parts: Vec<File>) -> Result<PerfFile<File>, InputError> {
    let file = PerfFile::open_parts(file, parts).map_err(|source| InputError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    if file.is_bare_pipe() {
        let path = path.to_owned();
        return Err(InputError::BarePipe { path });
    }
    Ok(file)
}

/// What comes on standard input: the file behind it, or all of a pipe, kept in a file without a name: header and records of a
/// recording are read where they stand, some more than once.
fn from_stdin() -> Result<File, InputError> {
    /// The same for all who open it.
    static KEPT: OnceLock<File> = OnceLock::new();
    let failed = |source| InputError::Stdin { source };
    if let Some(kept) = KEPT.get() {
        return kept.try_clone().map_err(failed);
    }
    let stdin = io::stdin();
    if stdin.is_terminal() {
        let (path, what) = (PathBuf::from(STDIN), "terminal");
        return Err(InputError::NotAFile { path, what });
    }
    let mut source = File::from(stdin.as_fd().try_clone_to_owned().map_err(failed)?);
    let is_file = source.metadata().map_err(failed)?.is_file();
    let file = if is_file {
        source
    } else {
        let mut kept = nameless().map_err(failed)?;
        io::copy(&mut source, &mut kept).map_err(failed)?;
        kept
    };
    KEPT.get_or_init(|| file).try_clone().map_err(failed)
}

/// A file that is gone when nobody has it open.
fn nameless() -> io::Result<File> {
    let mut number = 0_u32;
    loop {
        let name = format!("memwide-stdin-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match options {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The copy that `perf record --kcore` made of the symbols of the kernel that ran.
pub(super) fn own_kallsyms(path: &Path) -> Option<PathBuf> {
    let copy = path.join("kcore_dir/kallsyms");
    copy.is_file().then_some(copy)
}

/// The copy that it made of that kernel's code.
pub(super) fn own_kcore(path: &Path) -> Option<PathBuf> {
    let copy = path.join("kcore_dir/kcore");
    copy.is_file().then_some(copy)
}

/// The files `data.N` of a directory, by number.
fn parts(folder: &Path) -> io::Result<Vec<File>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)?.take(DIRECTORY_ENTRIES_MAX) {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(part_number)
            && entry.file_type()?.is_file()
        {
            found.insert(number, entry.path());
        }
    }
    found.into_values().map(File::open).collect()
}

fn other_than_file(kind: std::fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_dir() {
        Some("directory")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("device")
    } else {
        None
    }
}

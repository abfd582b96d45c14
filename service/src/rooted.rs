//! Files of a process as it sees them.
//!
//! A process in a container has a root of its own and may point links wherever it likes: a path below `/proc/PID/root` by
//! its plain name would follow an absolute link out of that root, into the files of whoever reads it.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file below the root of a process, whose folder in `/proc` this is. No link leads out of that root; what is no regular
/// file is refused, and nothing blocks.
pub fn open(process: &Path, path: &Path) -> io::Result<File> {
    let root = rustix::fs::open(
        process.join("root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let file = rustix::fs::openat2(
        root,
        path.strip_prefix("/").unwrap_or(path),
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_below_the_root() {
        let process = tempfile::tempdir().unwrap();
        let root = process.path().join("root");
        std::fs::create_dir_all(root.join("tmp")).unwrap();
        std::fs::write(process.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("own"), "own").unwrap();
        let outside = process.path().join("secret");
        symlink(&outside, root.join("tmp/absolute")).unwrap();
        symlink("../../secret", root.join("tmp/relative")).unwrap();
        symlink("/own", root.join("tmp/inside")).unwrap();
        for wrong in ["/tmp/absolute", "/tmp/relative", "/tmp", "/none"] {
            assert!(open(process.path(), Path::new(wrong)).is_err(), "{wrong}");
        }
        let mut text = String::new();
        let mut file = open(process.path(), Path::new("/tmp/inside")).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "own");
    }
}

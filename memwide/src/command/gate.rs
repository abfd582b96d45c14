//! A command that starts only when everything is ready for it.
//!
//! The command's process exists before the events are opened on it: it is this program, waiting at a FIFO, and becomes the
//! command when one byte comes. If none can come any more, it ends.

use crate::failure::Failure;
use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const FIFO: &str = "gate";
/// Where the process writes why it could not become the command.
const FAILURE: &str = "failure";
/// Exit code of a process that did not become the command, as shells have it.
const NOT_STARTED: i32 = 127;
/// What to do about a command that cannot run.
pub(super) const REMEDY: &str = "give the path of a program or correct its name";

/// The gate's folder, removed with it, and its FIFO.
#[derive(Debug)]
pub(super) struct GatePlace {
    folder: Folder,
    /// What is in a FIFO is gone when nobody has it open.
    fifo: File,
}

#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let mut number = 0_u32;
        loop {
            let name = format!("memwide-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl GatePlace {
    /// Why the process did not become the command.
    pub(super) fn failure(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.0.join(FAILURE)).ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An empty folder of temporary files is no reason to fail.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The process that waits, or became the command. Ended when dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Waits for its end; `None` if that cannot be known.
    pub(super) fn wait(&mut self) -> Option<ExitStatus> {
        self.0.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that was waited for gets no signal.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The process that waits, and the way to let it go on.
#[derive(Debug)]
pub(super) struct Gate {
    process: Process,
    place: GatePlace,
    command: String,
    pid: u32,
}

impl Gate {
    /// Starts the process that will be the command, if there is one; `stdout`: where it prints.
    pub(super) fn start(command: &[OsString], stdout: Stdio) -> anyhow::Result<Option<Self>> {
        let Some(name) = command.first() else {
            return Ok(None);
        };
        check(name)?;
        let folder =
            Folder::new().context("cannot make a folder for temporary files; set TMPDIR")?;
        let path = folder.0.join(FIFO);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .context("cannot make a FIFO")?;
        // Open for both, it neither waits for the other side nor fails without it.
        let fifo = OpenOptions::new().read(true).write(true).open(&path)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let child = Command::new(program)
            .arg("exec-gate")
            .arg(&folder.0)
            .arg("--")
            .args(command)
            .stdout(stdout)
            .spawn()
            .context("cannot start a process for the command")?;
        Ok(Some(Self {
            pid: child.id(),
            process: Process(child),
            place: GatePlace { folder, fifo },
            command: name.to_string_lossy().into_owned(),
        }))
    }

    /// The process, now and as the command.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The command's name.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Lets the process become the command.
    pub(super) fn open(&mut self) -> io::Result<()> {
        self.place.fifo.write_all(&[1])
    }

    /// The process, and the place to keep until its end.
    pub(super) fn into_parts(self) -> (Process, GatePlace) {
        (self.process, self.place)
    }
}

/// Looks for the command as exec will, so that what cannot run is said before anything is recorded.
fn check(name: &OsStr) -> anyhow::Result<()> {
    let runs = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if path.components().count() > 1 || name.as_encoded_bytes().contains(&b'/') {
        return match std::fs::metadata(path) {
            Ok(_) if runs(path) => Ok(()),
            Ok(_) => bail!(
                "cannot run {}: it is no executable file; make it one (chmod +x) or {REMEDY}",
                path.display()
            ),
            Err(error) => {
                Err(error).with_context(|| format!("cannot run {}; {REMEDY}", path.display()))
            }
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&folders).any(|folder| runs(&folder.join(path))) {
        return Ok(());
    }
    bail!(
        "cannot run {}: no such command in PATH; {REMEDY}",
        path.display()
    )
}

/// In the process: waits for the byte, then becomes the command.
pub(super) fn wait_and_exec(folder: &Path, command: &[OsString]) -> Result<(), Failure> {
    if !may_go(&folder.join(FIFO))? {
        return Ok(());
    }
    let [program, words @ ..] = command else {
        return Ok(());
    };
    let error = Command::new(program).args(words).exec();
    // The recorder tells it: two lines about one thing are too many.
    drop(std::fs::write(folder.join(FAILURE), error.to_string()));
    std::process::exit(NOT_STARTED)
}

/// `false` when the recorder is gone.
fn may_go(fifo: &Path) -> io::Result<bool> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut fifo = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(fifo)?;
    loop {
        match fifo.read(&mut [0]) {
            Ok(count) => return Ok(count == 1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&fifo, PollFlags::IN)], None)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! Why nothing was recorded.

use std::io;
use std::path::PathBuf;

use crate::events::{Absent, Fault};
use memwide_perf_abi::FileError;

/// Why nothing was recorded. No file is left behind then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The machine or the kernel does not have the event.
    #[error("cannot record {name}: {reason}{}", then(remedy))]
    Event {
        /// As it was asked for.
        name: String,
        /// Why not.
        reason: String,
        /// What to do; empty: nothing.
        remedy: String,
    },
    /// No machine has an event of this name.
    #[error("no event is called {name}{}", then(remedy))]
    UnknownEvent {
        /// As it was asked for.
        name: String,
        /// What may have been meant, and where to look.
        remedy: String,
    },
    /// The event is written wrongly: no machine would take it.
    #[error("cannot read the event {name}: {reason}{}", then(remedy))]
    MisreadEvent {
        /// As it was asked for.
        name: String,
        /// What is wrong.
        reason: String,
        /// How it is written.
        remedy: String,
    },
    /// The kernel does not let it be opened.
    #[error("cannot record {what}: {reason}{}", then(remedy))]
    Refused {
        /// What was opened.
        what: String,
        /// Why not.
        reason: String,
        /// What to do; empty: nothing.
        remedy: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Nobody has this process id.
    #[error("there is no process {pid}; see `ps -e` for those that run")]
    NoProcess {
        /// The id.
        pid: u32,
    },
    /// The machine has no such CPU, or it is offline.
    #[error("CPU {cpu} is not online; {online} CPUs are: see /sys/devices/system/cpu/online")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// CPUs online.
        online: usize,
    },
    /// The output cannot be made.
    #[error("cannot write {}; name another file with -o", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The output exists and is no file that could be replaced.
    #[error("{} is not a regular file and is not replaced; name another file with -o", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// Somebody else is recording into the same file.
    #[error("another recording writes {}; name another file with -o", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The kernel wrote what is no record, or the disk did not take it.
    #[error("cannot go on writing {}; what was recorded is removed", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: FileError,
    },
    /// A system call of the recording itself failed.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RecordError {
    /// An event that was asked for is not there.
    pub(crate) fn absent(name: &str, absent: Absent) -> Self {
        let (name, reason, remedy) = (name.to_owned(), absent.reason, absent.remedy);
        match absent.fault {
            Fault::Name => Self::UnknownEvent { name, remedy },
            Fault::Spelling => Self::MisreadEvent {
                name,
                reason,
                remedy,
            },
            Fault::Machine => Self::Event {
                name,
                reason,
                remedy,
            },
        }
    }
}

fn then(remedy: &str) -> String {
    if remedy.is_empty() {
        String::new()
    } else {
        format!("; {remedy}")
    }
}

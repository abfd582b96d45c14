//! A client of debuginfod servers: debug information by build id, over HTTP.
//!
//! Answers lie where debuginfod's own client keeps them (`CACHE/BUILDID/debuginfo`), so that both use them. What no server has
//! is remembered for ten minutes as an empty file, as that client does.

use super::{has_build_id, hex, read};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file fetched, in bytes.
const FILE_MAX: u64 = 2 << 30;

/// For one file, from first to last byte.
const FETCH_TIME_MAX: Duration = Duration::from_mins(5);

/// Until a server says whether it has the file.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a file that no server had is not asked for again.
const MISS_KEPT: Duration = Duration::from_mins(10);

/// Servers asked at most.
const SERVERS_MAX: usize = 8;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Artifact {
    /// The file with the debug information.
    DebugInfo,
    /// The program or library itself.
    Executable,
}

impl Artifact {
    fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// Why no server gave a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum DebuginfodError {
    /// Asked not long ago.
    #[error("no server of debug information had it less than 10 minutes ago")]
    MissedLately,
    /// None has it, or none could be asked; the last one's answer.
    #[error("{url} gives none: {why}")]
    NotThere {
        /// The server.
        url: String,
        /// Its answer, or why there is none.
        why: String,
    },
    /// The answer cannot be kept.
    #[error("cannot write {}", path.display())]
    Cache {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The folder of debuginfod's own client.
pub(super) fn cache_dir() -> Option<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = var("DEBUGINFOD_CACHE_PATH") {
        return Some(path.into());
    }
    let base = var("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&var("HOME")?).join(".cache")));
    base.map(|base| base.join("debuginfod_client"))
}

/// A file by build id: from the cache, else from the first server that has it.
pub(super) fn fetch(
    servers: &[String],
    cache: &Path,
    id: &[u8],
    what: Artifact,
) -> Result<PathBuf, DebuginfodError> {
    let folder = cache.join(hex(id));
    let path = folder.join(what.name());
    if let Ok(meta) = std::fs::metadata(&path) {
        if meta.len() > 0 {
            return Ok(path);
        }
        let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age < MISS_KEPT) {
            return Err(DebuginfodError::MissedLately);
        }
    }
    let cannot_keep = |source| DebuginfodError::Cache {
        path: folder.clone(),
        source,
    };
    std::fs::create_dir_all(&folder).map_err(cannot_keep)?;
    let mut last = None;
    let mut absent = true;
    for server in servers.iter().take(SERVERS_MAX) {
        match ask(server, &folder, id, what) {
            Ok(new) => {
                std::fs::rename(&new, &path).map_err(cannot_keep)?;
                return Ok(path);
            }
            Err((why, is_absent)) => {
                absent &= is_absent;
                last = Some((server.clone(), why));
            }
        }
    }
    if absent {
        // Whether or not it can be noted, the file is not there.
        let _ = File::create(&path);
    }
    let (url, why) = last.unwrap_or_else(|| ("nobody".to_owned(), "no server is named".to_owned()));
    Err(DebuginfodError::NotThere { url, why })
}

/// Fetches into a new file of the folder. The error says whether the server clearly has none.
fn ask(server: &str, folder: &Path, id: &[u8], what: Artifact) -> Result<PathBuf, (String, bool)> {
    let url = format!(
        "{}/buildid/{}/{}",
        server.trim_end_matches('/'),
        hex(id),
        what.name()
    );
    if !url.starts_with("http://") {
        return Err(("only http:// servers are asked".to_owned(), false));
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIME_MAX))
        .timeout_connect(Some(ANSWER_TIME_MAX))
        .timeout_recv_response(Some(ANSWER_TIME_MAX))
        .max_redirects(4)
        .build()
        .into();
    let answer = agent.get(&url).call();
    let mut answer = answer.map_err(|error| match error {
        ureq::Error::StatusCode(404) => ("it has no such file".to_owned(), true),
        other => (other.to_string(), false),
    })?;
    let new = folder.join(format!(".{}.{}", what.name(), std::process::id()));
    let written = write(&new, answer.body_mut(), id);
    written.map(|()| new.clone()).map_err(|why| {
        // Nothing else is known of it.
        let _ = std::fs::remove_file(&new);
        (why, false)
    })
}

fn write(to: &Path, body: &mut ureq::Body, id: &[u8]) -> Result<(), String> {
    let mut reader = body.with_config().limit(FILE_MAX).reader();
    let mut file = File::create(to).map_err(|error| error.to_string())?;
    io::copy(&mut reader, &mut file)
        .and_then(|_| file.flush())
        .map_err(|error| error.to_string())?;
    // Servers have answered with pages that say they are sorry.
    match read(to) {
        Some(bytes) if has_build_id(&bytes, id) => Ok(()),
        _ => Err("its answer is no ELF file with that build id".to_owned()),
    }
}

//! A client of debuginfod servers: debug information by build id, over HTTP and HTTPS.
//!
//! Answers lie where debuginfod's own client keeps them (`CACHE/BUILDID/debuginfo`), so that both use them. What no server has
//! is remembered for ten minutes as an empty file, as that client does. The variables of that client hold here too, see
//! [`Bounds::of_environment`].

mod cache;
mod progress;

use super::{has_build_id, hex, read};
use memwide_service::tls::TLS;
use progress::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) use cache::cache_dir;

/// How long a file that no server had is not asked for again.
const MISS_KEPT: Duration = Duration::from_mins(10);

/// Servers asked at most.
const SERVERS_MAX: usize = 8;

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Bytes that must come within [`Bounds::idle`].
const PIECE_MIN: u64 = 100 << 10;

/// Servers that failed. They are not asked again while this process lives: each would take its time for every file.
static DOWN: LazyLock<Mutex<BTreeSet<String>>> = LazyLock::new(Mutex::default);

/// Answers that were of no use, by address, and why. The same question later in this process would cost the same bytes.
static USELESS: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(Mutex::default);

/// Useless answers remembered.
const USELESS_MAX: usize = 4096;

/// How much time and room a file may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Until a server answers, and for each further 100 KiB.
    pub(super) idle: Duration,
    /// For one file, from first to last byte.
    pub(super) whole: Duration,
    /// Bytes of a file.
    pub(super) bytes: u64,
    /// Bytes kept of all answers.
    pub(super) cache: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(90),
            whole: Duration::from_mins(5),
            bytes: 4 << 30,
            cache: 10 << 30,
        }
    }
}

impl Bounds {
    /// `DEBUGINFOD_TIMEOUT` and `DEBUGINFOD_MAXTIME` in seconds, `DEBUGINFOD_MAXSIZE` in bytes; 0, and what is no number, means
    /// the default.
    pub(super) fn of_environment() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name| variable(name)?.trim().parse().ok().filter(|n: &u64| *n > 0);
        let seconds = |name| number(name).map(Duration::from_secs);
        let default = Self::default();
        Self {
            idle: seconds("DEBUGINFOD_TIMEOUT").unwrap_or(default.idle),
            whole: seconds("DEBUGINFOD_MAXTIME").unwrap_or(default.whole),
            bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(default.bytes),
            ..default
        }
    }
}

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
        /// It says that it has none; no server failed.
        absent: bool,
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

impl DebuginfodError {
    /// What failed and why, unless it is only that nobody has the file.
    pub(super) fn failure(&self) -> Option<(String, String)> {
        match self {
            Self::MissedLately | Self::NotThere { absent: true, .. } => None,
            Self::NotThere { url, why, .. } => Some((url.clone(), why.clone())),
            Self::Cache { path, source } => {
                let why = format!("answers of servers cannot be kept there: {source}");
                Some((path.display().to_string(), why))
            }
        }
    }
}

/// A file by build id: from the cache, else from the first server that has it.
pub(super) fn fetch(
    servers: &[String],
    cache: &Path,
    id: &[u8],
    what: Artifact,
    bounds: Bounds,
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
    let mut last: Option<(String, Refused)> = None;
    let mut absent = true;
    for server in servers.iter().take(SERVERS_MAX) {
        let answer = if is_down(server) {
            Err(Refused::Down("it failed before".to_owned()))
        } else {
            ask(server, &folder, id, what, bounds)
        };
        match answer {
            Ok(new) => {
                std::fs::rename(&new, &path).map_err(cannot_keep)?;
                cache::trim(cache, bounds.cache, &path);
                return Ok(path);
            }
            Err(refused) => {
                if let Refused::Down(_) = refused {
                    set_down(server);
                }
                absent &= matches!(refused, Refused::Absent);
                // A failure tells more than that another server has none.
                if !matches!((&refused, &last), (Refused::Absent, Some(_))) {
                    last = Some((server.clone(), refused));
                }
            }
        }
    }
    if absent {
        // Whether or not it can be noted, the file is not there.
        let _ = File::create(&path);
    }
    let (url, why) = match last {
        Some((url, refused)) => (url, refused.why()),
        None => ("nobody".to_owned(), "no server is named".to_owned()),
    };
    Err(DebuginfodError::NotThere { url, why, absent })
}

fn is_down(server: &str) -> bool {
    let down = DOWN.lock().unwrap_or_else(PoisonError::into_inner);
    down.contains(server)
}

fn set_down(server: &str) {
    let mut down = DOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if down.len() < SERVERS_MAX {
        down.insert(server.to_owned());
    }
}

/// Why a server gives no file.
enum Refused {
    /// It has none.
    Absent,
    /// It cannot be asked for anything.
    Down(String),
    /// This answer is of no use.
    Answer(String),
}

impl Refused {
    fn why(self) -> String {
        match self {
            Self::Absent => "it has no such file".to_owned(),
            Self::Down(why) | Self::Answer(why) => why,
        }
    }
}

/// Fetches into a new file of the folder.
fn ask(
    server: &str,
    folder: &Path,
    id: &[u8],
    what: Artifact,
    bounds: Bounds,
) -> Result<PathBuf, Refused> {
    let url = format!(
        "{}/buildid/{}/{}",
        server.trim_end_matches('/'),
        hex(id),
        what.name()
    );
    if !["http://", "https://"]
        .iter()
        .any(|start| url.starts_with(start))
    {
        let why = "only http:// and https:// servers are asked";
        return Err(Refused::Down(why.to_owned()));
    }
    if let Some(why) = useless().get(&url) {
        return Err(Refused::Answer(why.clone()));
    }
    let answer = download(server, &url, folder, id, what, bounds);
    if let Err(Refused::Answer(why)) = &answer {
        let mut known = useless();
        if known.len() < USELESS_MAX {
            known.insert(url, why.clone());
        }
    }
    answer
}

fn useless() -> MutexGuard<'static, BTreeMap<String, String>> {
    USELESS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn download(
    server: &str,
    url: &str,
    folder: &Path,
    id: &[u8],
    what: Artifact,
    bounds: Bounds,
) -> Result<PathBuf, Refused> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(bounds.whole))
        .timeout_connect(Some(bounds.idle))
        .timeout_recv_response(Some(bounds.idle))
        .max_redirects(4)
        .tls_config(TLS.clone())
        .build()
        .into();
    let mut progress = Progress::start(server, what.name());
    let answer = agent.get(url).call();
    let mut answer = answer.map_err(|error| match error {
        ureq::Error::StatusCode(404) => Refused::Absent,
        ureq::Error::StatusCode(status) => Refused::Answer(format!("status {status}")),
        other => Refused::Down(other.to_string()),
    })?;
    let body = answer.body_mut();
    if let Some(len) = body.content_length().filter(|len| *len > bounds.bytes) {
        return Err(Refused::Answer(too_large(len, bounds)));
    }
    let new = folder.join(format!(".{}.{}", what.name(), std::process::id()));
    let written = write(&new, body, id, bounds, &mut progress);
    written.map(|()| new.clone()).inspect_err(|_| {
        // Nothing else is known of it.
        let _ = std::fs::remove_file(&new);
    })
}

fn too_large(len: u64, bounds: Bounds) -> String {
    let most = bounds.bytes;
    format!("{len} bytes, at most {most} are taken (DEBUGINFOD_MAXSIZE)")
}

fn write(
    to: &Path,
    body: &mut ureq::Body,
    id: &[u8],
    bounds: Bounds,
    progress: &mut Progress,
) -> Result<(), Refused> {
    let answer = |error: io::Error| Refused::Answer(error.to_string());
    let all = body.content_length();
    // One byte more than is taken: then it is known that there are too many.
    let limit = bounds.bytes.saturating_add(1);
    let mut reader = body.with_config().limit(limit).reader();
    let mut file = File::create(to).map_err(answer)?;
    // Servers have answered with pages that say they are sorry: of those no more than the start is taken.
    let mut start = Vec::new();
    let magic = b"\x7fELF";
    let mut head = reader.by_ref().take(magic.len() as u64);
    head.read_to_end(&mut start).map_err(answer)?;
    if start != magic {
        return Err(no_such_file());
    }
    file.write_all(&start).map_err(answer)?;
    let mut piece = vec![0; PIECE];
    let (mut len, mut since) = (start.len() as u64, (Instant::now(), 0_u64));
    loop {
        let read = reader.read(&mut piece).map_err(answer)?;
        if read == 0 {
            break;
        }
        len += read as u64;
        if len > bounds.bytes {
            return Err(Refused::Answer(too_large(len, bounds)));
        }
        file.write_all(piece.get(..read).unwrap_or_default())
            .map_err(answer)?;
        progress.show(len, all);
        if len - since.1 >= PIECE_MIN {
            since = (Instant::now(), len);
        } else if since.0.elapsed() > bounds.idle {
            let seconds = bounds.idle.as_secs();
            return Err(Refused::Down(format!(
                "less than {PIECE_MIN} bytes in {seconds} s (DEBUGINFOD_TIMEOUT)"
            )));
        }
    }
    file.flush().map_err(answer)?;
    match read(to) {
        Some(bytes) if has_build_id(&bytes, id) => Ok(()),
        _ => Err(no_such_file()),
    }
}

fn no_such_file() -> Refused {
    Refused::Answer("its answer is no ELF file with that build id".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_debuginfods_own_client_bound_a_file() {
        let none = Bounds::of(|_| None);
        assert_eq!(none, Bounds::default());
        let set = Bounds::of(|name| match name {
            "DEBUGINFOD_TIMEOUT" => Some("7".to_owned()),
            "DEBUGINFOD_MAXTIME" => Some(" 9 ".to_owned()),
            "DEBUGINFOD_MAXSIZE" => Some("1000".to_owned()),
            _ => None,
        });
        assert_eq!(set.idle, Duration::from_secs(7));
        assert_eq!(set.whole, Duration::from_secs(9));
        assert_eq!(set.bytes, 1000);
        for odd in ["", "0", "much", "-1"] {
            assert_eq!(Bounds::of(|_| Some(odd.to_owned())), Bounds::default());
        }
    }
}

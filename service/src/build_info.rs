//! What was built, from which commit.
//!
//! The commit comes from the variable `MEMWIDE_COMMIT` of the build, which the Makefile and the
//! image set. Without it, or without a `.git` folder, the build works and says `unknown`.

use serde::Serialize;

/// Identity of this build, as `/version` and `memwide --version` show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BuildInfo {
    /// Version of the workspace.
    pub version: &'static str,
    /// Commit the sources were at, or `unknown`.
    pub commit: &'static str,
    /// `debug` or `release`.
    pub profile: &'static str,
    /// Processor architecture built for.
    pub arch: &'static str,
}

/// What this binary was built from.
pub const BUILD: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("MEMWIDE_COMMIT") {
        Some(commit) if !commit.is_empty() => commit,
        _ => "unknown",
    },
    profile: if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    },
    arch: std::env::consts::ARCH,
};

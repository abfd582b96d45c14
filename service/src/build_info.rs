//! What was built, from which commit.
//!
//! The commit comes from the variable `MEMWIDE_COMMIT` of the build, which the Makefile and the
//! image set. Without it, or without a `.git` folder, the build works and says `unknown`.

use serde::Serialize;

/// Identity of this build, as `/version` shows it.
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

/// Version and commit, as `memwide --version` shows them: `0.1.0 (0123456789ab)`.
pub const VERSION: &str = match std::str::from_utf8(&VERSION_BYTES) {
    Ok(text) => text,
    Err(_) => BUILD.version,
};

const VERSION_BYTES: [u8; BUILD.version.len() + BUILD.commit.len() + 3] = {
    let parts = [BUILD.version, " (", BUILD.commit, ")"];
    let mut out = [0; BUILD.version.len() + BUILD.commit.len() + 3];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            out[filled] = bytes[at];
            filled += 1;
            at += 1;
        }
        part += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_commit() {
        assert_eq!(VERSION, format!("{} ({})", BUILD.version, BUILD.commit));
    }
}

//! Where the two programs that memwide starts but does not contain are found.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variable that names the engine library, `libchdb.so`.
pub const ENGINE_VARIABLE: &str = "MEMWIDE_ENGINE";
/// Variable that names the `nats-server` binary.
pub const NATS_SERVER_VARIABLE: &str = "MEMWIDE_NATS_SERVER";

/// Folder and file of the pinned engine in the cache; `scripts/fetch-tools` puts it there.
const ENGINE_CACHED: &str = "engine-26.7.3-stable.1/libchdb.so";
/// Folder and file of the pinned nats-server in the cache; `scripts/fetch-tools` puts it there.
const NATS_SERVER_CACHED: &str = "nats-server-2.15.1/nats-server";

/// A tool that was looked for in vain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The variable is set, but names no file.
    #[error("{variable} names {path}, which is not a file; name one, or unset it and run `make tools`", path = path.display())]
    NotAFile {
        /// The variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The tool is in none of its places.
    #[error("{tool} is missing (looked for {looked_for}): run `make tools`, or set {variable}")]
    Missing {
        /// What is missing.
        tool: &'static str,
        /// Places, comma-separated.
        looked_for: String,
        /// The variable that names it.
        variable: &'static str,
    },
}

/// The environment a lookup depends on, so that lookups are testable.
#[derive(Debug, Default)]
struct Places {
    variable: Option<OsString>,
    tools: Option<OsString>,
    xdg_cache: Option<OsString>,
    home: Option<OsString>,
    path: Option<OsString>,
}

impl Places {
    fn of(variable: &str) -> Self {
        let get = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            variable: get(variable),
            tools: get("MEMWIDE_TOOLS"),
            xdg_cache: get("XDG_CACHE_HOME"),
            home: get("HOME"),
            path: get("PATH"),
        }
    }

    /// The cache folder, by the same rule as `scripts/fetch-tools`.
    fn cache(&self) -> Option<PathBuf> {
        if let Some(tools) = &self.tools {
            return Some(tools.into());
        }
        let cache = match (&self.xdg_cache, &self.home) {
            (Some(xdg), _) => PathBuf::from(xdg),
            (None, Some(home)) => Path::new(home).join(".cache"),
            (None, None) => return None,
        };
        Some(cache.join("memwide"))
    }

    fn find(
        &self,
        tool: &'static str,
        variable: &'static str,
        cached: &str,
        on_path: Option<&str>,
    ) -> Result<PathBuf, ToolError> {
        if let Some(path) = &self.variable {
            let path = PathBuf::from(path);
            return if path.is_file() {
                Ok(path)
            } else {
                Err(ToolError::NotAFile { variable, path })
            };
        }
        let mut looked_for = Vec::new();
        if let Some(path) = self.cache().map(|cache| cache.join(cached)) {
            if path.is_file() {
                return Ok(path);
            }
            looked_for.push(path.display().to_string());
        }
        if let (Some(name), Some(folders)) = (on_path, &self.path) {
            if let Some(path) = env::split_paths(folders)
                .map(|folder| folder.join(name))
                .find(|path| path.is_file())
            {
                return Ok(path);
            }
            looked_for.push(format!("`{name}` in PATH"));
        }
        Err(ToolError::Missing {
            tool,
            looked_for: looked_for.join(", "),
            variable,
        })
    }
}

/// The engine library: `MEMWIDE_ENGINE`, else the cache folder that `make tools` fills.
pub fn engine_library() -> Result<PathBuf, ToolError> {
    Places::of(ENGINE_VARIABLE).find(
        "the engine library libchdb.so",
        ENGINE_VARIABLE,
        ENGINE_CACHED,
        None,
    )
}

/// The NATS server: `MEMWIDE_NATS_SERVER`, else the cache folder that `make tools` fills, else `PATH`.
pub fn nats_server() -> Result<PathBuf, ToolError> {
    Places::of(NATS_SERVER_VARIABLE).find(
        "nats-server",
        NATS_SERVER_VARIABLE,
        NATS_SERVER_CACHED,
        Some("nats-server"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(places: &Places) -> Result<PathBuf, ToolError> {
        places.find("the tool", "TOOL_VARIABLE", "v1/tool", Some("tool"))
    }

    #[test]
    fn the_variable_wins_the_cache_comes_next_then_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let (own, cached, on_path) = (file("own"), file("cache/memwide/v1/tool"), file("bin/tool"));
        let mut places = Places {
            variable: Some(own.clone().into()),
            xdg_cache: Some(folder.path().join("cache").into()),
            path: Some(folder.path().join("bin").into()),
            ..Places::default()
        };
        assert_eq!(find(&places), Ok(own));
        places.variable = None;
        assert_eq!(find(&places), Ok(cached));
        places.xdg_cache = None;
        assert_eq!(find(&places), Ok(on_path));
    }

    #[test]
    fn an_error_names_the_places_and_the_remedy() {
        let places = Places {
            home: Some("/nonexistent".into()),
            ..Places::default()
        };
        let error = find(&places).unwrap_err().to_string();
        assert_eq!(
            error,
            "the tool is missing (looked for /nonexistent/.cache/memwide/v1/tool): run `make tools`, or set TOOL_VARIABLE"
        );
        let places = Places {
            variable: Some("/nonexistent/x".into()),
            ..Places::default()
        };
        assert_eq!(
            find(&places).unwrap_err().to_string(),
            "TOOL_VARIABLE names /nonexistent/x, which is not a file; name one, or unset it and run `make tools`"
        );
    }
}

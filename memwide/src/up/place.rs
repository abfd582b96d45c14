//! The data folder: who owns it, what lies where.

use anyhow::Context as _;
use memwide_service::single::Lock;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A prepared data folder, held by this process.
#[derive(Debug)]
pub(crate) struct Place {
    root: PathBuf,
    _lock: Lock,
}

impl Place {
    /// Makes the folder (for its owner only) and locks it.
    pub(crate) fn prepare(asked: Option<&Path>) -> anyhow::Result<Self> {
        let root = match asked {
            Some(root) => std::path::absolute(root)?,
            None => default_root()?,
        };
        make(&root)?;
        let lock = Lock::acquire(&root.join("up.lock"), "memwide up")?;
        let place = Self { root, _lock: lock };
        for folder in [
            place.stream(),
            place.engine(),
            place.spool(),
            place.symbols(),
            place.ports(),
        ] {
            make(&folder)?;
        }
        Ok(place)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Database of the rows.
    #[expect(
        clippy::unused_self,
        reason = "one folder holds one database; callers need not know its name"
    )]
    pub(crate) fn database(&self) -> &'static str {
        memwide_store::DEFAULT_DATABASE
    }

    /// JetStream's files.
    pub(crate) fn stream(&self) -> PathBuf {
        self.root.join("stream")
    }

    /// The server writes its port here.
    pub(crate) fn ports(&self) -> PathBuf {
        self.root.join("ports")
    }

    /// The engine's tables.
    pub(crate) fn engine(&self) -> PathBuf {
        self.root.join("store")
    }

    /// Batches of this machine's collector.
    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// Raw batches, where they are kept.
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// Symbol tables.
    pub(crate) fn symbols(&self) -> PathBuf {
        self.root.join("symbols")
    }
}

fn default_root() -> anyhow::Result<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(data) = variable("XDG_DATA_HOME") {
        return Ok(data.join("memwide"));
    }
    let home = variable("HOME")
        .context("neither XDG_DATA_HOME nor HOME is set; say where with --data DIR")?;
    Ok(home.join(".local/share/memwide"))
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "cannot make the data folder {}; choose another with --data DIR",
                folder.display()
            )
        })
}

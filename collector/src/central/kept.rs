//! What the centre said, on disk beside the spool's epochs, for the next start and `memwide doctor`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Pushed;

/// Its name in the spool's folder.
pub(super) const FILE: &str = "central.json";

/// What the next start has to know.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(flatten)]
    pub(super) pushed: Pushed,
    /// The decoder that told it.
    #[serde(default)]
    pub(super) from: String,
    /// What was refused since, and why.
    #[serde(default)]
    pub(super) refused: Option<(Pushed, String)>,
    /// Version of refused settings whose `stop = true` holds all the same; 0: none.
    #[serde(default)]
    pub(super) halted: u64,
}

impl Kept {
    /// `None`: the centre never said anything.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// The old file or the new one is there, whatever happens: a stop must outlive the machine's death too.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

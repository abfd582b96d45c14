//! Whose batches a folder holds: a small text file.

use std::fs;
use std::path::Path;

use memwide_model::{BootId, HostId, Source};
use serde::{Deserialize, Serialize};

use super::SpoolError;
use crate::uplink::Origin;

const FILE: &str = "source.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    host: [u8; 16],
    boot: [u8; 16],
    epoch: u64,
    hostname: String,
}

/// Kind of everything in a spool.
const LIVE: &str = "live";

pub(super) fn write(folder: &Path, origin: &Origin) -> Result<(), SpoolError> {
    let written = Written {
        host: origin.source.host.0,
        boot: origin.source.boot.0,
        epoch: origin.source.epoch,
        hostname: origin.hostname.clone(),
    };
    let path = folder.join(FILE);
    let fresh = folder.join("source.new");
    let text = serde_json::to_vec(&written).unwrap_or_default();
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(SpoolError::io("write", &path))
}

pub(super) fn read(folder: &Path) -> Result<Origin, SpoolError> {
    let path = folder.join(FILE);
    let text = fs::read(&path).map_err(SpoolError::io("read", &path))?;
    let written: Written = serde_json::from_slice(&text).map_err(|error| SpoolError::Io {
        what: "understand",
        path,
        source: error.into(),
    })?;
    Ok(Origin {
        source: Source {
            host: HostId(written.host),
            boot: BootId(written.boot),
            epoch: written.epoch,
        },
        hostname: written.hostname,
        kind: LIVE,
    })
}

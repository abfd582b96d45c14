//! `Source` on the wire ↔ `model::Source`.

use crate::v1;
use memwide_model::{BootId, HostId, Source};

/// Why a source on the wire is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The message has no source.
    #[error("the message names no source")]
    Missing,
    /// An id has another length than 16 bytes.
    #[error("{field} has {have} bytes, 16 are needed")]
    Length {
        /// Which id.
        field: &'static str,
        /// Bytes it has.
        have: usize,
    },
}

impl TryFrom<&v1::Source> for Source {
    type Error = SourceError;

    fn try_from(wire: &v1::Source) -> Result<Self, SourceError> {
        let sixteen = |field, bytes: &[u8]| {
            <[u8; 16]>::try_from(bytes).map_err(|_| SourceError::Length {
                field,
                have: bytes.len(),
            })
        };
        Ok(Self {
            host: HostId(sixteen("host_id", &wire.host_id)?),
            boot: BootId(sixteen("boot_id", &wire.boot_id)?),
            epoch: wire.epoch,
        })
    }
}

impl From<&Source> for v1::Source {
    fn from(source: &Source) -> Self {
        Self {
            host_id: source.host.0.to_vec(),
            boot_id: source.boot.0.to_vec(),
            epoch: source.epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_survives_the_wire() {
        let source = Source {
            host: HostId([1; 16]),
            boot: BootId([2; 16]),
            epoch: 3,
        };
        assert_eq!(Source::try_from(&v1::Source::from(&source)), Ok(source));
    }

    #[test]
    fn a_short_id_is_refused_by_name() {
        let wire = v1::Source {
            host_id: vec![0; 15],
            boot_id: vec![0; 16],
            epoch: 0,
        };
        let refused = Source::try_from(&wire).unwrap_err();
        assert_eq!(refused.to_string(), "host_id has 15 bytes, 16 are needed");
    }
}

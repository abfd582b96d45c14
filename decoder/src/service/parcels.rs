//! Symbol tables on their way from a collector, piece by piece.

use memwide_model::MappingId;
use memwide_proto::limits::SYMBOL_TABLE_BYTES_MAX;
use memwide_proto::v1;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Requests one stream may have open; those beyond wait for the next batch that needs them.
pub(super) const REQUESTS_MAX: usize = 1024;

/// Bytes of unfinished tables of one stream.
const BYTES_MAX: u64 = SYMBOL_TABLE_BYTES_MAX;

#[derive(Debug)]
struct Parcel {
    mapping: MappingId,
    bytes: Vec<u8>,
}

/// Open requests of one stream.
#[derive(Debug, Default)]
pub(super) struct Parcels {
    open: BTreeMap<u64, Parcel>,
    bytes: u64,
    last: u64,
}

/// What a piece made of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// More must come, or nobody asked.
    Nothing,
    /// The whole table, as encoded.
    Table(MappingId, Vec<u8>),
    /// There is none.
    Unavailable(MappingId, String),
    /// What came is no table; asking again would not help.
    Refused(MappingId, String),
}

impl Parcels {
    /// Opens a request; `None` when too many are open.
    pub(super) fn ask(&mut self, mapping: MappingId) -> Option<u64> {
        if self.open.len() >= REQUESTS_MAX {
            return None;
        }
        self.last += 1;
        let bytes = Vec::new();
        self.open.insert(self.last, Parcel { mapping, bytes });
        Some(self.last)
    }

    /// Whether a request is still open.
    pub(super) fn is_open(&self, request: u64) -> bool {
        self.open.contains_key(&request)
    }

    /// Takes a piece.
    pub(super) fn receive(&mut self, chunk: v1::SymbolChunk) -> Arrived {
        let Some(parcel) = self.open.get_mut(&chunk.request) else {
            return Arrived::Nothing;
        };
        let mapping = parcel.mapping;
        if !chunk.unavailable.is_empty() {
            self.close(chunk.request);
            return Arrived::Unavailable(mapping, chunk.unavailable);
        }
        let have = parcel.bytes.len() as u64;
        let end = have.saturating_add(chunk.data.len() as u64);
        let total = chunk.total_bytes;
        let growth = chunk.data.len() as u64;
        let problem = if total > SYMBOL_TABLE_BYTES_MAX {
            Some(format!(
                "{total} bytes, at most {SYMBOL_TABLE_BYTES_MAX} are taken"
            ))
        } else if chunk.offset != have || end > total {
            Some(format!(
                "piece at {} of {total} bytes, {have} were due",
                chunk.offset
            ))
        } else if self.bytes.saturating_add(growth) > BYTES_MAX {
            Some("too many unfinished tables".to_owned())
        } else {
            None
        };
        if let Some(problem) = problem {
            self.close(chunk.request);
            return Arrived::Refused(mapping, problem);
        }
        parcel.bytes.extend_from_slice(&chunk.data);
        self.bytes += growth;
        if end < total {
            return Arrived::Nothing;
        }
        let bytes = self.close(chunk.request);
        let sum = xxh3_64(&bytes);
        if sum != chunk.checksum {
            let problem = format!("checksum {sum:#018x}, {:#018x} announced", chunk.checksum);
            return Arrived::Refused(mapping, problem);
        }
        Arrived::Table(mapping, bytes)
    }

    fn close(&mut self, request: u64) -> Vec<u8> {
        let bytes = self
            .open
            .remove(&request)
            .map_or_else(Vec::new, |parcel| parcel.bytes);
        self.bytes -= bytes.len() as u64;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(request: u64, whole: &[u8], from: usize, to: usize) -> v1::SymbolChunk {
        v1::SymbolChunk {
            request,
            total_bytes: whole.len() as u64,
            offset: from as u64,
            data: whole[from..to].to_vec().into(),
            checksum: xxh3_64(whole),
            ..v1::SymbolChunk::default()
        }
    }

    #[test]
    fn pieces_in_order_make_a_table() {
        let mut parcels = Parcels::default();
        let request = parcels.ask(MappingId(7)).unwrap();
        let whole = b"symbols";
        assert_eq!(
            parcels.receive(piece(request, whole, 0, 3)),
            Arrived::Nothing
        );
        let arrived = parcels.receive(piece(request, whole, 3, 7));
        assert_eq!(arrived, Arrived::Table(MappingId(7), whole.to_vec()));
        assert!(!parcels.is_open(request));
        assert_eq!(
            parcels.receive(piece(request, whole, 0, 7)),
            Arrived::Nothing
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_once() {
        let whole = b"symbols";
        let broken = [
            piece(1, whole, 2, 7),
            v1::SymbolChunk {
                total_bytes: u64::MAX,
                ..piece(1, whole, 0, 3)
            },
            v1::SymbolChunk {
                total_bytes: 2,
                ..piece(1, whole, 0, 7)
            },
            v1::SymbolChunk {
                checksum: 1,
                ..piece(1, whole, 0, 7)
            },
        ];
        for chunk in broken {
            let mut parcels = Parcels::default();
            assert_eq!(parcels.ask(MappingId(7)), Some(1));
            assert!(matches!(parcels.receive(chunk), Arrived::Refused(..)));
            assert_eq!(parcels.bytes, 0);
        }
    }

    #[test]
    fn open_requests_are_bounded() {
        let mut parcels = Parcels::default();
        let most = 10 * REQUESTS_MAX as u64;
        let opened = (0..most)
            .filter(|n| parcels.ask(MappingId(*n)).is_some())
            .count();
        assert_eq!(opened, REQUESTS_MAX);
    }
}

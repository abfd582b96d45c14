//! Symbol tables on their way from a collector, piece by piece.

use super::shelf::Half;
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
    /// Checksum of the table that the first of `bytes` are of, if they were there before.
    resumes: Option<u64>,
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
    /// Nobody asked.
    Nothing,
    /// More must come; the piece at this offset is taken.
    Piece(MappingId, u64),
    /// The whole table, as encoded.
    Table(MappingId, Vec<u8>),
    /// There is none.
    Unavailable(MappingId, String),
    /// What came is no table; asking again would not help.
    Refused(MappingId, String),
}

impl Parcels {
    /// Opens a request; `None` when too many are open.
    pub(super) fn ask(&mut self, mapping: MappingId, half: Option<Half>) -> Option<u64> {
        if self.open.len() >= REQUESTS_MAX {
            return None;
        }
        self.last += 1;
        let half = half.filter(|half| self.bytes + half.bytes.len() as u64 <= BYTES_MAX);
        let (resumes, bytes) =
            half.map_or((None, Vec::new()), |half| (Some(half.checksum), half.bytes));
        self.bytes += bytes.len() as u64;
        let parcel = Parcel {
            mapping,
            bytes,
            resumes,
        };
        self.open.insert(self.last, parcel);
        Some(self.last)
    }

    /// Where an upload is to go on and of what table; `(0, 0)` from its start.
    pub(super) fn resumes(&self, request: u64) -> (u64, u64) {
        let parcel = self.open.get(&request);
        let resumes = parcel.and_then(|parcel| Some((parcel.bytes.len() as u64, parcel.resumes?)));
        resumes.unwrap_or_default()
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
        if chunk.offset == 0 && parcel.resumes.take().is_some() {
            // Another table than the one that was begun: this one has its own start.
            self.bytes -= parcel.bytes.len() as u64;
            parcel.bytes.clear();
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
            return Arrived::Piece(mapping, chunk.offset);
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
        let request = parcels.ask(MappingId(7), None).unwrap();
        let whole = b"symbols";
        assert_eq!(
            parcels.receive(piece(request, whole, 0, 3)),
            Arrived::Piece(MappingId(7), 0)
        );
        let arrived = parcels.receive(piece(request, whole, 3, 7));
        assert_eq!(arrived, Arrived::Table(MappingId(7), whole.to_vec()));
        assert!(parcels.open.is_empty());
        assert_eq!(
            parcels.receive(piece(request, whole, 0, 7)),
            Arrived::Nothing
        );
    }

    #[test]
    fn an_upload_goes_on_or_begins_anew_as_the_collector_has_the_same_table_or_another() {
        let whole = b"symbols";
        let half = Half {
            checksum: xxh3_64(whole),
            total: 7,
            bytes: whole[..3].to_vec(),
        };
        let mut parcels = Parcels::default();
        let request = parcels.ask(MappingId(7), Some(half.clone())).unwrap();
        assert_eq!(parcels.resumes(request), (3, half.checksum));
        let arrived = parcels.receive(piece(request, whole, 3, 7));
        assert_eq!(arrived, Arrived::Table(MappingId(7), whole.to_vec()));
        let other = b"another table";
        let request = parcels.ask(MappingId(7), Some(half)).unwrap();
        let arrived = parcels.receive(piece(request, other, 0, 5));
        assert_eq!(arrived, Arrived::Piece(MappingId(7), 0));
        let arrived = parcels.receive(piece(request, other, 5, 13));
        assert_eq!(arrived, Arrived::Table(MappingId(7), other.to_vec()));
        assert_eq!(parcels.bytes, 0);
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
            assert_eq!(parcels.ask(MappingId(7), None), Some(1));
            assert!(matches!(parcels.receive(chunk), Arrived::Refused(..)));
            assert_eq!(parcels.bytes, 0);
        }
    }

    #[test]
    fn open_requests_are_bounded() {
        let mut parcels = Parcels::default();
        let most = 10 * REQUESTS_MAX as u64;
        let opened = (0..most)
            .filter(|n| parcels.ask(MappingId(*n), None).is_some())
            .count();
        assert_eq!(opened, REQUESTS_MAX);
    }
}

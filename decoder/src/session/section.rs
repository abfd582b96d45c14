//! Sections of a batch back to records, within bounds.

use memwide_perf_abi::pack::{self, PackError};
use memwide_proto::limits::SECTION_RAW_BYTES_MAX;
use memwide_proto::v1;
use xxhash_rust::xxh3::xxh3_64;

/// Why a section is not what it says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SectionError {
    /// More than a receiver takes.
    #[error("section of {announced} bytes, at most {limit} are taken")]
    TooLarge {
        /// Bytes announced.
        announced: u64,
        /// Bytes taken.
        limit: u64,
    },
    /// An encoding of a newer sender.
    #[error("section encoding {0} is not known; upgrade the decoder")]
    Encoding(i32),
    /// The compressed bytes are damaged, or hold more than announced.
    #[error("section does not decompress to {announced} bytes")]
    Zstd {
        /// Bytes announced.
        announced: u64,
        /// What zstd said.
        #[source]
        source: std::io::Error,
    },
    /// The packed bytes are damaged.
    #[error("section does not unpack")]
    Pack(#[source] PackError),
    /// Another length than announced.
    #[error("section has {got} bytes, {announced} were announced")]
    Length {
        /// Bytes there.
        got: usize,
        /// Bytes announced.
        announced: u64,
    },
    /// The bytes changed on the way.
    #[error("section has checksum {got:#018x}, {announced:#018x} was announced")]
    Checksum {
        /// Of the bytes there.
        got: u64,
        /// As announced.
        announced: u64,
    },
}

/// Unpacks a section into `raw`, which is cleared first.
pub fn unpack(section: &v1::Section, raw: &mut Vec<u8>) -> Result<(), SectionError> {
    raw.clear();
    let announced = section.raw_bytes;
    let limit = SECTION_RAW_BYTES_MAX;
    if announced > limit {
        return Err(SectionError::TooLarge { announced, limit });
    }
    let wanted = usize::try_from(announced).unwrap_or(usize::MAX);
    let zstd = |most: usize| {
        zstd::bulk::decompress(&section.data, most)
            .map_err(|source| SectionError::Zstd { announced, source })
    };
    match v1::section::Encoding::try_from(section.encoding) {
        Ok(v1::section::Encoding::Raw) => raw.extend_from_slice(&section.data),
        Ok(v1::section::Encoding::Zstd) => *raw = zstd(wanted)?,
        Ok(v1::section::Encoding::WordDeltaZstd) => {
            // Packing never makes more than nine eighths of it, and a length.
            let packed = zstd(wanted / 8 * 9 + 64)?;
            pack::unpack(&packed, wanted, raw).map_err(SectionError::Pack)?;
        }
        Err(_) => return Err(SectionError::Encoding(section.encoding)),
    }
    if raw.len() != wanted {
        let got = raw.len();
        return Err(SectionError::Length { got, announced });
    }
    let got = xxh3_64(raw);
    if got != section.checksum && !(raw.is_empty() && section.checksum == 0) {
        return Err(SectionError::Checksum {
            got,
            announced: section.checksum,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::section::Encoding;

    fn section(encoding: Encoding, raw: &[u8], data: Vec<u8>) -> v1::Section {
        v1::Section {
            encoding: encoding.into(),
            raw_bytes: raw.len() as u64,
            records: 1,
            data: data.into(),
            checksum: xxh3_64(raw),
        }
    }

    fn record() -> Vec<u8> {
        let mut bytes = Vec::new();
        memwide_perf_abi::encode::raw(&mut bytes, 9, 2, &[7; 64]).unwrap();
        bytes
    }

    #[test]
    fn every_encoding_gives_the_bytes_back() {
        let raw = record();
        let mut packer = pack::Packer::default();
        let packed = packer.pack(&raw).unwrap();
        let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
        for section in [
            section(Encoding::Raw, &raw, raw.clone()),
            section(Encoding::Zstd, &raw, zstd(&raw)),
            section(Encoding::WordDeltaZstd, &raw, zstd(packed)),
        ] {
            let mut back = Vec::new();
            unpack(&section, &mut back).unwrap();
            assert_eq!(back, raw);
        }
        unpack(&v1::Section::default(), &mut Vec::new()).unwrap();
    }

    #[test]
    fn what_is_not_as_announced_is_refused() {
        let raw = record();
        let good = || section(Encoding::Raw, &raw, raw.clone());
        let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 1).unwrap();
        let cases = [
            v1::Section {
                checksum: 1,
                ..good()
            },
            v1::Section {
                raw_bytes: 1,
                ..good()
            },
            v1::Section {
                raw_bytes: u64::MAX,
                ..good()
            },
            v1::Section {
                encoding: 99,
                ..good()
            },
            section(Encoding::Zstd, &raw, raw.clone()),
            section(Encoding::Zstd, &raw, bomb),
            section(
                Encoding::WordDeltaZstd,
                &raw,
                zstd::bulk::compress(&raw, 1).unwrap(),
            ),
        ];
        for case in cases {
            assert!(unpack(&case, &mut Vec::new()).is_err(), "{case:?}");
        }
    }
}

//! Records packed for the wire, without loss.

use std::fmt;
use std::io;

use memwide_perf_abi::pack;
use memwide_proto::v1::{Section, section};
use xxhash_rust::xxh3::Xxh3;
use zstd::bulk::Compressor;

/// Level 1: word-delta packing has done the work, higher levels cost 35 % more time for 7 % less.
const ZSTD_LEVEL: i32 = 1;

/// Records packed as they come, while they are in the cache.
#[derive(Default)]
pub(crate) struct Growing {
    words: pack::Packer,
    hash: Xxh3,
    /// Bytes added.
    len: usize,
    /// Foreign records of odd sizes are among them.
    odd: bool,
}

impl fmt::Debug for Growing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Growing")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Growing {
    /// Adds what is new in `raw`: all whole records so far.
    pub(crate) fn add(&mut self, raw: &[u8]) {
        self.hash.update(raw.get(self.len..).unwrap_or_default());
        self.len = raw.len();
        self.odd = self.odd || self.words.add(raw).is_err();
    }

    pub(crate) fn begin(&mut self) {
        self.words.begin();
        self.hash.reset();
        (self.len, self.odd) = (0, false);
    }
}

/// Makes sections of records, in memory that it keeps.
pub struct SectionPacker {
    own: Growing,
    zstd: Zstd,
}

struct Zstd {
    context: Compressor<'static>,
    out: Vec<u8>,
}

impl fmt::Debug for SectionPacker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SectionPacker").finish_non_exhaustive()
    }
}

impl SectionPacker {
    /// One that has packed nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            own: Growing::default(),
            zstd: Zstd {
                context: Compressor::new(ZSTD_LEVEL)?,
                out: Vec::new(),
            },
        })
    }

    /// A section of whole records.
    pub fn pack(&mut self, raw: &[u8], records: u32) -> io::Result<Section> {
        self.own.begin();
        self.own.add(raw);
        self.zstd.section(&mut self.own, raw, records)
    }

    /// The section of what was added, which is `raw`; the next one begins.
    pub(crate) fn finish(
        &mut self,
        growing: &mut Growing,
        raw: &[u8],
        records: u32,
    ) -> io::Result<Section> {
        self.zstd.section(growing, raw, records)
    }
}

impl Zstd {
    fn section(&mut self, of: &mut Growing, raw: &[u8], records: u32) -> io::Result<Section> {
        if raw.is_empty() {
            return Ok(Section::default());
        }
        let (encoding, plain) = if of.odd {
            (section::Encoding::Zstd, raw)
        } else {
            (section::Encoding::WordDeltaZstd, of.words.finish())
        };
        self.out.clear();
        self.out
            .reserve(zstd::zstd_safe::compress_bound(plain.len()));
        self.context.compress_to_buffer(plain, &mut self.out)?;
        let section = Section {
            encoding: encoding.into(),
            raw_bytes: raw.len() as u64,
            records,
            data: self.out.as_slice().to_vec().into(),
            checksum: of.hash.digest(),
        };
        of.begin();
        Ok(section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::{encode, kind};
    use xxhash_rust::xxh3::xxh3_64;

    fn sample(words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut out = Vec::new();
        encode::raw(&mut out, kind::SAMPLE, 0, &body).unwrap();
        out
    }

    #[test]
    fn a_section_unpacks_to_its_records_however_it_grew() {
        let (first, second) = (sample(&[3, 9]), sample(&[3, 10]));
        let raw = [first.clone(), second].concat();
        let mut packer = SectionPacker::new().unwrap();
        let made = packer.pack(&raw, 2).unwrap();
        assert_eq!(made.encoding(), section::Encoding::WordDeltaZstd);
        let packed = zstd::bulk::decompress(&made.data, 1 << 20).unwrap();
        let mut back = Vec::new();
        pack::unpack(&packed, raw.len(), &mut back).unwrap();
        assert_eq!((back, made.checksum), (raw.clone(), xxh3_64(&raw)));
        let mut growing = Growing::default();
        for _ in 0..2 {
            growing.add(&first);
            growing.add(&raw);
            assert_eq!(packer.finish(&mut growing, &raw, 2).unwrap(), made);
        }
        assert_eq!(packer.pack(&[], 0).unwrap(), Section::default());
    }

    #[test]
    fn records_of_odd_sizes_are_sent_plainly() {
        let mut raw = sample(&[3]);
        raw.push(1); // a foreign record of 17 bytes
        raw[6] = 17;
        let mut packer = SectionPacker::new().unwrap();
        let made = packer.pack(&raw, 1).unwrap();
        assert_eq!(made.encoding(), section::Encoding::Zstd);
        assert_eq!(zstd::bulk::decompress(&made.data, 1 << 20).unwrap(), raw);
        assert_eq!(
            packer.pack(&sample(&[3]), 1).unwrap().encoding(),
            section::Encoding::WordDeltaZstd
        );
    }
}

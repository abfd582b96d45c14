//! A table as bytes.
//!
//! ```text
//! "MWSY" | version u8 | xxh3 of what follows u64 LE | zstd of:
//!   gaps (below) and symbols passed over (above bit 32), segments (count; vaddr offset file_size mem_size flags each)
//!   functions, objects, thread-locals, each as columns:
//!     count, bytes of names, start deltas, sizes, flags (u8), sources (u8), lengths of names, names
//!   version 2, of tables that know the source: count of files, length and path of each,
//!     for every function the file (from 1; 0: none) and the line
//! ```
//!
//! All numbers are LEB128 varints unless said otherwise. Columns, because equal things side by side
//! are what zstd is good at.

use std::io::Read;

use xxhash_rust::xxh3::xxh3_64;

use crate::places::{PATH_BYTES_MAX, Places};
use crate::table::Gaps;
use crate::{
    Flags, Limits, Segment, Segments, Source, Symbol, SymbolTable, Symbols, SymbolsBuilder,
    WireError,
};

const MAGIC: [u8; 4] = *b"MWSY";
const VERSION: u8 = 1;
/// With the places of functions in the source; only tables that have them are of it, so that older receivers read the rest.
const VERSION_SOURCE: u8 = 2;
/// What a symbol takes besides its name, at most, in nearly all tables: start and size of two to three bytes each, the length of
/// the name of one to two, flags and source.
const SYMBOL_BYTES: usize = 10;
const HEADER_LEN: usize = MAGIC.len() + 1 + 8;

/// Names compress tenfold already at the quickest level; higher ones cost the node more than the
/// link.
const ZSTD_LEVEL: i32 = 2;

impl SymbolTable {
    /// The table as bytes for [`SymbolTable::decode`].
    pub fn encode(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(self.plain_bytes());
        let gaps = u64::from(self.gaps.bits()) | u64::from(self.malformed) << 32;
        put(&mut plain, gaps);
        let segments = self.segments.as_slice();
        put(&mut plain, segments.len() as u64);
        for s in segments {
            for value in [
                s.vaddr,
                s.offset,
                s.file_size,
                s.mem_size,
                u64::from(s.flags),
            ] {
                put(&mut plain, value);
            }
        }
        for symbols in [&self.functions, &self.objects, &self.thread_locals] {
            put_symbols(&mut plain, symbols);
        }
        if self.has_source() {
            put_places(&mut plain, &self.places);
        }
        let packed = pack(&plain);
        let mut bytes = Vec::with_capacity(HEADER_LEN + packed.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.push(if self.has_source() {
            VERSION_SOURCE
        } else {
            VERSION
        });
        bytes.extend_from_slice(&xxh3_64(&packed).to_le_bytes());
        bytes.extend_from_slice(&packed);
        bytes
    }

    /// About as many bytes as the table has before it is packed: a block that grows would take twice as many.
    fn plain_bytes(&self) -> usize {
        let parts = [&self.functions, &self.objects, &self.thread_locals];
        let names: usize = parts.iter().map(|symbols| symbols.name_bytes()).sum();
        names.saturating_add(self.symbols().saturating_mul(SYMBOL_BYTES))
    }

    /// Reads what [`SymbolTable::encode`] made. Nothing in the bytes is trusted.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, WireError> {
        let not_a_table = WireError::NotATable { len: bytes.len() };
        let Some((header, packed)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(not_a_table);
        };
        let [m0, m1, m2, m3, version, sum @ ..] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(not_a_table);
        }
        if version != VERSION && version != VERSION_SOURCE {
            return Err(WireError::Version {
                got: version,
                known: VERSION_SOURCE,
            });
        }
        let (got, expected) = (xxh3_64(packed), u64::from_le_bytes(sum));
        if got != expected {
            return Err(WireError::Checksum { got, expected });
        }
        let plain = unpack(packed, limits.decoded_bytes)?;
        let mut from = Reader { rest: &plain };
        let [gaps, malformed] = halves(from.varint("gaps")?);
        let gaps = Gaps::from_bits(gaps);
        let segments = from.segments(limits)?;
        let mut room = Room {
            symbols: limits.symbols,
            name_bytes: limits.name_bytes,
        };
        let functions = from.symbols(&mut room)?;
        let objects = from.symbols(&mut room)?;
        let thread_locals = from.symbols(&mut room)?;
        let places = if version == VERSION_SOURCE {
            from.places(functions.len())?
        } else {
            Places::default()
        };
        if !from.rest.is_empty() {
            return Err(WireError::Malformed {
                what: "bytes behind the end",
            });
        }
        Ok(Self {
            segments,
            functions,
            objects,
            thread_locals,
            gaps,
            malformed,
            places,
        })
    }
}

/// The lower and the upper 32 bits.
fn halves(word: u64) -> [u32; 2] {
    [word, word >> 32].map(|half| u32::try_from(half & 0xffff_ffff).unwrap_or(u32::MAX))
}

fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

fn put_symbols(to: &mut Vec<u8>, symbols: &Symbols) {
    put(to, symbols.len() as u64);
    put(to, symbols.name_bytes() as u64);
    let mut before = 0;
    for symbol in symbols.iter() {
        put(to, symbol.start - before); // ascending
        before = symbol.start;
    }
    symbols.iter().for_each(|symbol| put(to, symbol.size));
    to.extend(symbols.iter().map(|symbol| symbol.flags.bits()));
    to.extend(symbols.iter().map(|symbol| symbol.source as u8));
    symbols
        .iter()
        .for_each(|symbol| put(to, symbol.name.len() as u64));
    symbols
        .iter()
        .for_each(|symbol| to.extend_from_slice(symbol.name.as_bytes()));
}

fn put_places(to: &mut Vec<u8>, places: &Places) {
    put(to, places.files.len() as u64);
    for file in &places.files {
        put(to, file.len() as u64);
        to.extend_from_slice(file.as_bytes());
    }
    places
        .of
        .iter()
        .for_each(|(file, _)| put(to, u64::from(*file)));
    places
        .of
        .iter()
        .for_each(|(_, line)| put(to, u64::from(*line)));
}

/// Compresses; in memory this fails only for want of memory, where the bytes go uncompressed into
/// a frame of no content and the receiver refuses them.
fn pack(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, ZSTD_LEVEL).unwrap_or_default()
}

fn unpack(packed: &[u8], limit: usize) -> Result<Vec<u8>, WireError> {
    let malformed = |_| WireError::Malformed {
        what: "not a zstd frame",
    };
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(malformed)?;
    let mut plain = Vec::new(); // grows with what really comes, not with what is announced
    let cap = limit as u64;
    decoder
        .take(cap.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(malformed)?;
    if plain.len() as u64 > cap {
        return Err(WireError::TooLarge {
            what: "bytes",
            got: plain.len() as u64,
            limit: cap,
        });
    }
    Ok(plain)
}

/// What the receiver may still keep.
struct Room {
    symbols: usize,
    name_bytes: usize,
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let parts = self.rest.split_at_checked(len);
        let (bytes, rest) = parts.ok_or(WireError::Malformed { what })?;
        self.rest = rest;
        Ok(bytes)
    }

    fn varint(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self
                .rest
                .split_first()
                .ok_or(WireError::Malformed { what })?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break; // more than 64 bits
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Malformed { what })
    }

    fn small(&mut self, what: &'static str) -> Result<u32, WireError> {
        u32::try_from(self.varint(what)?).map_err(|_| WireError::Malformed { what })
    }

    /// A count of things that take at least one byte each of what is left.
    fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, WireError> {
        let got = self.varint(what)?;
        if got > limit as u64 {
            return Err(WireError::TooLarge {
                what,
                got,
                limit: limit as u64,
            });
        }
        match usize::try_from(got) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(WireError::Malformed { what }),
        }
    }

    fn segments(&mut self, limits: &Limits) -> Result<Segments, WireError> {
        let what = "segments";
        let count = self.count(what, limits.segments)?;
        let one = |_| {
            Ok(Segment {
                vaddr: self.varint(what)?,
                offset: self.varint(what)?,
                file_size: self.varint(what)?,
                mem_size: self.varint(what)?,
                flags: self.small(what)?,
            })
        };
        Ok(Segments::new(
            (0..count).map(one).collect::<Result<_, WireError>>()?,
        ))
    }

    /// Of a table with this many functions.
    fn places(&mut self, functions: usize) -> Result<Places, WireError> {
        let what = "places in the source";
        let count = self.count(what, functions)?;
        let mut files = Vec::with_capacity(count);
        let mut bytes = 0;
        for _ in 0..count {
            let len = self.count(what, PATH_BYTES_MAX - bytes)?;
            bytes += len;
            let path = std::str::from_utf8(self.bytes(len, what)?);
            files.push(path.map_err(|_| WireError::Malformed { what })?.into());
        }
        let column = |from: &mut Self| -> Result<Vec<u32>, WireError> {
            (0..functions).map(|_| from.small(what)).collect()
        };
        let (numbers, lines) = (column(self)?, column(self)?);
        let of = numbers.into_iter().zip(lines).collect();
        Ok(Places { files, of })
    }

    fn symbols(&mut self, room: &mut Room) -> Result<Symbols, WireError> {
        let count = self.count("symbols", room.symbols)?;
        let name_bytes = self.count("bytes of names", room.name_bytes)?;
        room.symbols -= count;
        room.name_bytes -= name_bytes;
        let column = |from: &mut Self, what| -> Result<Vec<u64>, WireError> {
            (0..count).map(|_| from.varint(what)).collect()
        };
        let deltas = column(self, "starts")?;
        let sizes = column(self, "sizes")?;
        let flags = self.bytes(count, "flags")?;
        let sources = self.bytes(count, "sources")?;
        let lengths = column(self, "lengths of names")?;
        let names = std::str::from_utf8(self.bytes(name_bytes, "names")?).map_err(|_| {
            WireError::Malformed {
                what: "names are not UTF-8",
            }
        })?;

        let mut builder = SymbolsBuilder::with_capacity(count);
        let (mut start, mut names) = (0_u64, names);
        let columns = deltas
            .iter()
            .zip(sizes)
            .zip(flags)
            .zip(sources)
            .zip(lengths);
        for ((((delta, size), flags), source), length) in columns {
            let malformed = |what| WireError::Malformed { what };
            start = start
                .checked_add(*delta)
                .ok_or(malformed("a start beyond 64 bits"))?;
            let length = usize::try_from(length).map_err(|_| malformed("a name's length"))?;
            let parts = names.split_at_checked(length);
            let (name, rest) = parts.ok_or(malformed("a name's length"))?;
            names = rest;
            let source = Source::from_rank(*source).ok_or(malformed("an unknown source"))?;
            let flags = Flags::from_bits(*flags);
            if !builder.push(Symbol {
                start,
                size,
                name,
                source,
                flags,
            }) {
                return Err(malformed("more names than can be kept"));
            }
        }
        if !names.is_empty() {
            return Err(WireError::Malformed {
                what: "names behind the last",
            });
        }
        Ok(builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn symbols() -> impl Strategy<Value = Symbols> {
        let one = (
            any::<u64>(),
            any::<u64>(),
            "\\PC{0,20}",
            0_u8..4,
            any::<u8>(),
        );
        prop::collection::vec(one, 0..40).prop_map(|list| {
            let mut builder = SymbolsBuilder::default();
            for (start, size, name, rank, flags) in &list {
                let (start, size, name) = (*start, *size, name.as_str());
                let source = Source::from_rank(*rank).unwrap();
                let flags = Flags::from_bits(*flags);
                assert!(builder.push(Symbol {
                    start,
                    size,
                    name,
                    source,
                    flags
                }));
            }
            builder.finish()
        })
    }

    prop_compose! {
        fn table()(
            segments in prop::collection::vec(any::<(u64, u64, u64, u64, u32)>(), 0..5),
            functions in symbols(),
            objects in symbols(),
            thread_locals in symbols(),
            (gaps, malformed) in any::<(u32, u32)>(),
            lines in prop::collection::vec((0_u32..4, any::<u32>()), 40),
            with_source in any::<bool>(),
        ) -> SymbolTable {
            let segment = |(vaddr, offset, file_size, mem_size, flags)| Segment {
                vaddr, offset, file_size, mem_size, flags,
            };
            let mut places = Places::default();
            if with_source && functions.len() > 2 {
                places.files = ["/src/a.c".into(), "b.rs".into()].into();
                places.of = lines.into_iter().take(functions.len()).collect();
            }
            SymbolTable {
                segments: Segments::new(segments.into_iter().map(segment).collect()),
                functions,
                objects,
                thread_locals,
                gaps: Gaps::from_bits(gaps),
                malformed,
                places,
            }
        }
    }

    /// Content of any kind behind a header that is right.
    fn framed(plain: &[u8]) -> Vec<u8> {
        let packed = pack(plain);
        let sum = xxh3_64(&packed).to_le_bytes();
        [&MAGIC[..], &[VERSION], &sum, &packed].concat()
    }

    fn decode(bytes: &[u8]) -> Result<SymbolTable, WireError> {
        SymbolTable::decode(bytes, &Limits::default())
    }

    proptest! {
        #[test]
        fn a_table_survives_the_way(table in table()) {
            prop_assert_eq!(decode(&table.encode()), Ok(table));
        }

        #[test]
        fn a_changed_byte_is_an_error(table in table(), at in any::<prop::sample::Index>()) {
            let mut bytes = table.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn content_that_lies_is_an_error_or_a_table(plain in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(table) = decode(&framed(&plain)) {
                prop_assert!(table.functions.len() <= plain.len());
            }
        }
    }

    #[test]
    fn cut_anywhere_it_is_an_error() {
        let bytes = SymbolTable::default().encode();
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        assert_eq!(decode(b"hello"), Err(WireError::NotATable { len: 5 }));
        let mut newer = SymbolTable::default().encode();
        newer[4] = 9;
        assert_eq!(decode(&newer), Err(WireError::Version { got: 9, known: 2 }));
        // gaps 0, segments 0, then two million functions in eleven bytes.
        let mut plain = vec![0, 0];
        put(&mut plain, 2_000_000);
        put(&mut plain, 0);
        assert_eq!(
            decode(&framed(&plain)),
            Err(WireError::Malformed { what: "symbols" })
        );
    }

    #[test]
    fn the_receivers_limits_hold() {
        let small = Limits {
            decoded_bytes: 1_000,
            ..Limits::default()
        };
        let bomb = framed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 2_000);
        assert_eq!(
            SymbolTable::decode(&bomb, &small),
            Err(WireError::TooLarge {
                what: "bytes",
                got: 1_001,
                limit: 1_000
            })
        );
        let mut plain = vec![0, 0];
        put(&mut plain, 9_000_000);
        assert_eq!(
            decode(&framed(&plain)),
            Err(WireError::TooLarge {
                what: "symbols",
                got: 9_000_000,
                limit: 8_000_000
            })
        );
    }
}

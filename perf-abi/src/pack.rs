//! Word-delta packing: loss-free, about 100 bytes of record become 25, which zstd then shrinks below 17.
//!
//! A record is a row of 64-bit words. Each word is predicted by the same word of an earlier record; the zig-zag difference
//! goes into two streams: its length in bytes (0–8) as a nibble, its low bytes as they are.
//!
//! ```text
//! packed = nibble bytes: u32 LE | nibbles (2 a byte, low one first) | low bytes
//! word 0  (header: type, misc, size)                       predicted by word 0 of the record before
//! word 1  (the event id, where IDENTIFIER is asked for)    by word 1 of the last record with the same word 0
//! word 2… by the same word of the last record with the same words 0 and 1
//! ```
//!
//! Only size and id of a record are looked at, so side-band is covered too. Records whose size is no multiple of 8 (some
//! foreign files have them) are refused: send them plainly.

/// Slots of each predictor table; a collision costs bytes, never correctness.
const SLOTS: usize = 512;

/// Shift that leaves the 9 best-mixed bits of a product: an index below [`SLOTS`].
const SLOT_SHIFT: u32 = 64 - 9;

/// Why bytes could not be packed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The raw bytes are no row of whole records of whole words.
    #[error("record at byte {at} has size {size}: not a whole record of 8-byte words")]
    Size {
        /// Offset of the record in the raw bytes.
        at: usize,
        /// Size its header gives.
        size: usize,
    },
    /// The packed bytes end early.
    #[error("packed bytes end after {have} of {want} raw bytes")]
    Truncated {
        /// Raw bytes recovered.
        have: usize,
        /// Raw bytes announced.
        want: usize,
    },
    /// The packed bytes go on after the announced raw bytes.
    #[error("{extra} packed bytes are left over")]
    Trailing {
        /// Bytes left.
        extra: usize,
    },
    /// A length nibble above 8.
    #[error("length nibble {0} is above 8")]
    Nibble(u8),
}

/// Where the last record of each kind began, as a word index; both sides keep it alike.
#[derive(Debug)]
struct Predictor {
    by_header: [Option<u32>; SLOTS],
    by_id: [Option<u32>; SLOTS],
}

impl Predictor {
    fn new() -> Self {
        Self {
            by_header: [None; SLOTS],
            by_id: [None; SLOTS],
        }
    }

    fn forget(&mut self) {
        self.by_header.fill(None);
        self.by_id.fill(None);
    }

    /// The last record with this header, and remembers `at` as the newest.
    fn header(&mut self, header: u64, at: u32) -> Option<u32> {
        swap(&mut self.by_header, header, at)
    }

    /// The last record with this header and id, and remembers `at` as the newest.
    fn id(&mut self, header: u64, id: u64, at: u32) -> Option<u32> {
        swap(&mut self.by_id, header ^ id.rotate_left(32), at)
    }

    /// Remembers the last of records that followed each other.
    fn end(&mut self, run: Run) {
        self.header(run.header, run.at);
        self.id(run.header, run.id, run.at);
    }
}

/// Records with the same header and id, one right behind the other: each is predicted by the one before.
#[derive(Debug, Clone, Copy)]
struct Run {
    header: u64,
    id: u64,
    /// The last one.
    at: u32,
}

fn swap(slots: &mut [Option<u32>; SLOTS], key: u64, at: u32) -> Option<u32> {
    let slot = usize::try_from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SLOT_SHIFT).ok()?;
    slots.get_mut(slot)?.replace(at)
}

/// Words a record's header asks for, or why it cannot be packed. `left` counts words from the header on.
fn words_of(header: u64, at: usize, left: usize) -> Result<usize, PackError> {
    let size = usize::from(u16::try_from(header >> 48).unwrap_or(0));
    if size < 8 || !size.is_multiple_of(8) || size / 8 > left {
        return Err(PackError::Size { at: at * 8, size });
    }
    Ok(size / 8)
}

/// Packs batches one after the other, each as it grows, in memory that it keeps.
#[derive(Debug)]
pub struct Packer {
    predictor: Predictor,
    last_header: u64,
    /// What the last record belongs to, if it has an id. The predictor learns of its last one when it ends.
    run: Option<Run>,
    /// Words packed.
    words: usize,
    streams: Streams,
    out: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            predictor: Predictor::new(),
            last_header: 0,
            run: None,
            words: 0,
            streams: Streams::default(),
            out: Vec::new(),
        }
    }
}

impl Packer {
    /// Packs what is new in `raw`: all whole records of the batch so far. After an error begin anew.
    pub fn add(&mut self, raw: &[u8]) -> Result<(), PackError> {
        let (words, rest) = raw.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(PackError::Size {
                at: raw.len() - rest.len(),
                size: rest.len(),
            });
        }
        let new = words.len().saturating_sub(self.words);
        let mut out = Encoder::new(&mut self.streams, new);
        let (mut at, mut last_header) = (self.words, self.last_header);
        while let Some(header) = words.get(at) {
            let header = u64::from_le_bytes(*header);
            let count = words_of(header, at, words.len() - at)?;
            let here = u32::try_from(at).unwrap_or(u32::MAX);
            let id = words.get(at + 1).filter(|_| count > 1);
            let id = id.map(|id| u64::from_le_bytes(*id));
            if let Some(run) = self.run.as_mut().filter(|run| run.header == header)
                && id == Some(run.id)
                && let Some(both) = words.get(at - count..at + count)
            {
                let (earlier, record) = both.split_at(count);
                out.put_like(record, earlier);
                run.at = here;
                at += count;
                continue;
            }
            if let Some(run) = self.run.take() {
                self.predictor.end(run);
            }
            out.put(header, last_header);
            last_header = header;
            let like = self.predictor.header(header, here);
            if let Some(id) = id {
                let earlier = like.and_then(|like| words.get(like as usize + 1));
                out.put(id, earlier.map_or(0, |id| u64::from_le_bytes(*id)));
                let like = self.predictor.id(header, id, here);
                let body = words.get(at + 2..at + count).unwrap_or_default();
                // An earlier record behind a colliding slot may be shorter; then the words behind it predict. All of them
                // lie before the word they predict, so the other side knows them too.
                if let Some(earlier) = like.and_then(|like| words.get(like as usize + 2..)) {
                    out.put_like(body, earlier);
                } else {
                    for word in body {
                        out.put(u64::from_le_bytes(*word), 0);
                    }
                }
                self.run = Some(Run {
                    header,
                    id,
                    at: here,
                });
            }
            at += count;
        }
        self.streams.ends = out.ends;
        (self.words, self.last_header) = (at, last_header);
        Ok(())
    }

    /// The packed form of all that was added. The next batch begins.
    pub fn finish(&mut self) -> &[u8] {
        self.streams
            .put_together(self.words.div_ceil(2), &mut self.out);
        self.begin();
        &self.out
    }

    /// Forgets what was added.
    pub fn begin(&mut self) {
        self.predictor.forget();
        self.run = None;
        self.streams.ends = Ends::default();
        (self.words, self.last_header) = (0, 0);
    }

    /// The packed form of a whole batch.
    pub fn pack(&mut self, raw: &[u8]) -> Result<&[u8], PackError> {
        self.begin();
        self.add(raw)?;
        Ok(self.finish())
    }
}

/// The inverse: fills `raw` with exactly `raw_bytes` bytes. The caller bounds `raw_bytes`.
pub fn unpack(packed: &[u8], raw_bytes: usize, raw: &mut Vec<u8>) -> Result<(), PackError> {
    let want = raw_bytes / 8;
    if !raw_bytes.is_multiple_of(8) {
        return Err(PackError::Size {
            at: 0,
            size: raw_bytes,
        });
    }
    let mut words: Vec<u64> = Vec::with_capacity(want);
    let mut input = Decoder::new(packed, raw_bytes)?;
    let mut predictor = Predictor::new();
    let mut last_header = 0_u64;
    while words.len() < want {
        let at = words.len();
        let header = last_header.wrapping_add(input.take(at)?);
        last_header = header;
        let count = words_of(header, at, want - at)?;
        words.push(header);
        let here = u32::try_from(at).unwrap_or(u32::MAX);
        let like = predictor.header(header, here);
        if count > 1 {
            let id = word_at(&words, like, 1).wrapping_add(input.take(at)?);
            words.push(id);
            let like = predictor.id(header, id, here);
            for word in 2..count {
                let earlier = word_at(&words, like, word);
                words.push(earlier.wrapping_add(input.take(at)?));
            }
        }
    }
    input.end()?;
    raw.reserve(raw_bytes);
    for word in words {
        raw.extend_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

fn word_at(words: &[u64], record: Option<u32>, word: usize) -> u64 {
    record
        .and_then(|record| words.get(record as usize + word))
        .copied()
        .unwrap_or(0)
}

fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference.cast_signed() >> 63).cast_unsigned()
}

fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// Both streams as far as they are written. The vectors are longer: what is behind is not in use.
#[derive(Debug, Default)]
struct Streams {
    nibbles: Vec<u8>,
    low: Vec<u8>,
    ends: Ends,
}

/// Where both streams end.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    nibbles: usize,
    low: usize,
    /// Up to sixteen nibbles under way, the newest on top.
    pending: u64,
    pending_bits: u32,
}

impl Streams {
    fn put_together(&self, nibble_bytes: usize, out: &mut Vec<u8>) {
        let ends = self.ends;
        let length = u32::try_from(nibble_bytes).unwrap_or(u32::MAX);
        let pending = ends.pending.to_le_bytes();
        out.clear();
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(self.nibbles.get(..ends.nibbles).unwrap_or_default());
        let rest = pending.get(..nibble_bytes.saturating_sub(ends.nibbles));
        out.extend_from_slice(rest.unwrap_or_default());
        out.extend_from_slice(self.low.get(..ends.low).unwrap_or_default());
    }
}

/// Writes to both streams at once.
struct Encoder<'a> {
    nibbles: &'a mut [u8],
    low: &'a mut [u8],
    /// Its own, so that it stays in registers.
    ends: Ends,
}

impl<'a> Encoder<'a> {
    /// For so many words, each to be put once.
    fn new(streams: &'a mut Streams, words: usize) -> Self {
        let ends = streams.ends;
        // Both are written eight bytes at a time, over what follows; so there is room for one word more.
        let nibbles = ends.nibbles + words.div_ceil(2) + 16;
        let low = ends.low + (words + 1) * 8;
        for (stream, most) in [(&mut streams.nibbles, nibbles), (&mut streams.low, low)] {
            if stream.len() < most {
                stream.resize(most, 0);
            }
        }
        Self {
            nibbles: &mut streams.nibbles,
            low: &mut streams.low,
            ends,
        }
    }

    #[inline]
    fn put(&mut self, word: u64, predicted: u64) {
        let nibble = self.low(word.wrapping_sub(predicted));
        self.nibbles(nibble, 4);
    }

    /// Words, each predicted by the one at its place in `earlier`. Most are the same, which costs a comparison.
    #[inline]
    fn put_like(&mut self, words: &[[u8; 8]], earlier: &[[u8; 8]]) {
        for (words, earlier) in words.chunks(16).zip(earlier.chunks(16)) {
            let (mut nibbles, mut bits) = (0, 0);
            for (word, earlier) in words.iter().zip(earlier) {
                if word != earlier {
                    let word = u64::from_le_bytes(*word);
                    nibbles |= self.low(word.wrapping_sub(u64::from_le_bytes(*earlier))) << bits;
                }
                bits += 4;
            }
            self.nibbles(nibbles, bits);
        }
    }

    /// The low bytes of a difference. How many they are.
    #[inline]
    fn low(&mut self, difference: u64) -> u64 {
        let coded = zigzag(difference);
        let bytes = (u64::BITS + 7 - coded.leading_zeros()) / 8;
        let rest = self.low.get_mut(self.ends.low..);
        if let Some(to) = rest.and_then(<[u8]>::first_chunk_mut) {
            *to = coded.to_le_bytes();
        }
        self.ends.low += bytes as usize;
        u64::from(bytes)
    }

    /// Up to sixteen nibbles, of so many bits together.
    #[inline]
    fn nibbles(&mut self, nibbles: u64, bits: u32) {
        let ends = &mut self.ends;
        ends.pending |= nibbles << ends.pending_bits;
        let left = u64::BITS - ends.pending_bits;
        if bits < left {
            ends.pending_bits += bits;
            return;
        }
        let rest = self.nibbles.get_mut(ends.nibbles..);
        if let Some(to) = rest.and_then(<[u8]>::first_chunk_mut) {
            *to = ends.pending.to_le_bytes();
        }
        ends.nibbles += 8;
        ends.pending = nibbles.checked_shr(left).unwrap_or(0);
        ends.pending_bits = bits - left;
    }
}

struct Decoder<'a> {
    nibbles: &'a [u8],
    taken: usize,
    low: &'a [u8],
    want: usize,
}

impl<'a> Decoder<'a> {
    fn new(packed: &'a [u8], want: usize) -> Result<Self, PackError> {
        let truncated = PackError::Truncated { have: 0, want };
        let (length, rest) = packed.split_first_chunk::<4>().ok_or(truncated)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (nibbles, low) = rest.split_at_checked(length).ok_or(truncated)?;
        Ok(Self {
            nibbles,
            taken: 0,
            low,
            want,
        })
    }

    /// The next difference; `at` is the word index for the error.
    fn take(&mut self, at: usize) -> Result<u64, PackError> {
        let truncated = PackError::Truncated {
            have: at * 8,
            want: self.want,
        };
        let pair = self.nibbles.get(self.taken / 2).ok_or(truncated)?;
        let nibble = if self.taken.is_multiple_of(2) {
            pair & 15
        } else {
            pair >> 4
        };
        self.taken += 1;
        if nibble > 8 {
            return Err(PackError::Nibble(nibble));
        }
        let count = usize::from(nibble);
        let coded = if let Some(eight) = self.low.first_chunk::<8>() {
            let keep = u64::MAX
                .checked_shr(64 - 8 * u32::from(nibble))
                .unwrap_or(0);
            u64::from_le_bytes(*eight) & keep
        } else {
            let bytes = self.low.get(..count).ok_or(truncated)?;
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        self.low = self.low.get(count..).ok_or(truncated)?;
        Ok(unzigzag(coded))
    }

    fn end(&self) -> Result<(), PackError> {
        let spare = self.nibbles.len() - self.taken.div_ceil(2);
        match spare + self.low.len() {
            0 => Ok(()),
            extra => Err(PackError::Trailing { extra }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + 8 * words.len()).unwrap();
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend_from_slice(&1_u16.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[track_caller]
    fn round_trip(raw: &[u8]) -> usize {
        let mut packer = Packer::default();
        let mut back = Vec::new();
        let first = packer.pack(raw).unwrap().to_vec();
        // What was packed before leaves no trace.
        let again = packer.pack(raw).unwrap();
        assert!(again == first, "packing again made other bytes");
        // Nor does it matter where a batch was when more came.
        packer.begin();
        let mut at = 0;
        while at < raw.len() {
            at += usize::from(u16::from_le_bytes([raw[at + 6], raw[at + 7]]));
            packer.add(&raw[..at]).unwrap();
        }
        let again = packer.finish();
        assert!(again == first, "packing piece by piece made other bytes");
        unpack(again, raw.len(), &mut back).unwrap();
        assert!(back == raw, "packing changed the bytes");
        first.len()
    }

    #[test]
    fn nothing_packs_to_a_length() {
        assert_eq!(round_trip(&[]), 4);
    }

    #[test]
    fn samples_of_interleaved_events_shrink() {
        let mut raw = Vec::new();
        for n in 0..1_000_u64 {
            let id = 100 + n % 3;
            raw.extend(record(
                9,
                &[
                    id,
                    0x40_1000 + n % 7,
                    5_000_000_000 + n * 1_000,
                    0x7fff_0000 + n * 4096,
                ],
            ));
        }
        let packed = round_trip(&raw);
        assert!(packed * 4 < raw.len(), "{packed} of {}", raw.len());
    }

    #[test]
    fn a_record_of_the_header_alone_is_packed() {
        round_trip(&[record(68, &[]), record(68, &[]), record(9, &[1])].concat());
    }

    #[test]
    fn odd_sizes_are_refused_by_place() {
        let mut raw = record(9, &[1, 2]);
        let at = raw.len();
        raw.extend(record(9, &[1, 2]));
        raw[at + 6] = 20;
        assert_eq!(
            Packer::default().pack(&raw),
            Err(PackError::Size { at, size: 20 })
        );
    }

    #[test]
    fn cut_anywhere_it_says_so() {
        let raw: Vec<u8> = (0..20)
            .flat_map(|n| record(9, &[7, n * 1_000, n]))
            .collect();
        let mut packer = Packer::default();
        let packed = packer.pack(&raw).unwrap();
        for cut in 0..packed.len() {
            assert!(
                unpack(&packed[..cut], raw.len(), &mut Vec::new()).is_err(),
                "cut at {cut}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_records_survive(
            records in prop::collection::vec(
                (0u32..3, prop::collection::vec(prop_oneof![0u64..3, any::<u64>()], 0..40)),
                0..60,
            ),
        ) {
            let raw: Vec<u8> = records.iter().flat_map(|(kind, words)| record(*kind, words)).collect();
            round_trip(&raw);
        }

        #[test]
        fn any_bytes_unpack_to_an_error_or_to_what_was_announced(
            packed in prop::collection::vec(any::<u8>(), 0..300),
            words in 0usize..200,
        ) {
            let mut raw = Vec::new();
            if unpack(&packed, words * 8, &mut raw).is_ok() {
                prop_assert_eq!(raw.len(), words * 8);
            }
        }
    }
}

//! Frames in a segment file.
//!
//! ```text
//! magic u32 | kind u32 | number u64 | len u64 | xxh3 of payload u64 | xxh3 of the 32 bytes before u64 | payload | 0…7 zeros
//! ```
//!
//! All little-endian, each frame starts at a multiple of 8. The header has its own checksum, so a length is never believed
//! by mistake; after a broken header the next whole one is searched for. Payloads are checked when they are read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_64;

const MAGIC: u32 = u32::from_le_bytes(*b"MWf1");
const HEADER_LEN: usize = 40;
const HEADER: u64 = HEADER_LEN as u64;
/// Bytes looked through at once for the next header.
const SEARCH_BYTES: usize = 64 << 10;

/// What a frame holds, as bits.
pub(super) mod kind {
    /// A batch without its samples.
    pub(in super::super) const SIDE_BAND: u32 = 1;
    /// The batch is a snapshot.
    pub(in super::super) const SNAPSHOT: u32 = 2;
    /// The batch has samples, in a frame of their own.
    pub(in super::super) const HAS_SAMPLES: u32 = 4;
    /// A batch's samples.
    pub(in super::super) const SAMPLES: u32 = 8;
}

/// Where a frame is in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u32,
    pub(super) number: u64,
    /// Of the header.
    pub(super) offset: u64,
    /// Of the payload.
    pub(super) len: u64,
    checksum: u64,
}

/// Bytes of a frame with a payload of this length.
pub(super) fn frame_len(payload: u64) -> u64 {
    HEADER + payload.next_multiple_of(8)
}

/// Makes `out` a whole frame, to be written at once; `put` appends the payload.
pub(super) fn encode(
    out: &mut Vec<u8>,
    kind: u32,
    number: u64,
    put: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    out.clear();
    out.resize(HEADER_LEN, 0);
    put(out)?;
    let payload = out.get(HEADER_LEN..).unwrap_or_default();
    let (len, checksum) = (payload.len() as u64, xxh3_64(payload));
    let first = u64::from(kind) << 32 | u64::from(MAGIC);
    let words = [first, number, len, checksum].map(u64::to_le_bytes);
    let words = words.as_flattened();
    let check = xxh3_64(words).to_le_bytes();
    let header = words.iter().chain(&check);
    for (to, byte) in out.iter_mut().zip(header) {
        *to = *byte;
    }
    out.resize(out.len().next_multiple_of(8), 0);
    Ok(())
}

fn decode(header: &[u8; HEADER_LEN], offset: u64) -> Option<Frame> {
    let word = |at: usize| {
        let bytes = header.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let first = word(0)?;
    let magic = u32::try_from(first & u64::from(u32::MAX)).ok()?;
    let whole = xxh3_64(header.get(..32)?) == word(32)?;
    (magic == MAGIC && whole).then_some(Frame {
        kind: u32::try_from(first >> 32).ok()?,
        number: word(8)?,
        offset,
        len: word(16)?,
        checksum: word(24)?,
    })
}

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) frames: Vec<Frame>,
    /// Behind the last whole frame; what follows is torn.
    pub(super) end: u64,
    /// Stretches that are no frames, the torn end aside.
    pub(super) broken: u64,
}

/// Reads all headers of a file.
pub(super) fn scan(file: &File) -> io::Result<Scan> {
    let len = file.metadata()?.len();
    let mut found = Scan::default();
    let mut at = 0;
    while at + HEADER <= len {
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, at)?;
        let frame = decode(&header, at)
            .filter(|frame| frame.len <= len && at + frame_len(frame.len) <= len);
        if let Some(frame) = frame {
            at += frame_len(frame.len);
            found.frames.push(frame);
            found.end = at;
        } else {
            let Some(next) = search(file, at + 8, len)? else {
                break; // torn, or nothing whole behind the damage
            };
            found.broken += 1;
            at = next;
        }
    }
    Ok(found)
}

/// The next offset at which a whole header stands.
fn search(file: &File, from: u64, len: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    let mut chunk = vec![0; SEARCH_BYTES];
    while at + HEADER <= len {
        let take = usize::try_from(len - at)
            .unwrap_or(usize::MAX)
            .min(SEARCH_BYTES);
        let Some(piece) = chunk.get_mut(..take) else {
            break;
        };
        file.read_exact_at(piece, at)?;
        for offset in (0..piece.len()).step_by(8) {
            let Some(header) = piece.get(offset..).and_then(|rest| rest.first_chunk()) else {
                break;
            };
            let here = at + offset as u64;
            if decode(header, here)
                .is_some_and(|frame| frame.len <= len && here + frame_len(frame.len) <= len)
            {
                return Ok(Some(here));
            }
        }
        // Headers across the chunk's end are looked at with the next chunk.
        at += (take as u64).saturating_sub(HEADER).max(8) & !7;
    }
    Ok(None)
}

/// The payload, if its checksum holds.
pub(super) fn read(file: &File, frame: &Frame) -> io::Result<Option<Vec<u8>>> {
    // The length was checked against the file when it was scanned or written.
    let mut payload = vec![0; usize::try_from(frame.len).unwrap_or(0)];
    match file.read_exact_at(&mut payload, frame.offset + HEADER) {
        Ok(()) => Ok((xxh3_64(&payload) == frame.checksum).then_some(payload)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The frame that [`encode`]'s bytes make when written at `offset`.
pub(super) fn placed(encoded: &[u8], offset: u64) -> Option<Frame> {
    decode(encoded.first_chunk()?, offset)
}

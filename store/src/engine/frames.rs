//! ClickHouse's own compression framing, as `compress=1` and `decompress=1` use it:
//!
//! ```text
//! 16 bytes  CityHash128 (1.0.2) of all that follows in the frame, halves swapped
//!  1 byte   method: 0x82 LZ4, 0x90 zstd, 0x02 none
//!  u32      bytes from the method byte to the end of the frame
//!  u32      bytes after decompression
//! ```

use std::io::{self, Read};

const CHECKSUM: usize = 16;
const HEADER: usize = 9;
const LZ4: u8 = 0x82;
const ZSTD: u8 = 0x90;
const NONE: u8 = 0x02;

/// A frame larger than this, before or after decompression, is refused: clients write frames of 1 MiB.
const MAX_FRAME_BYTES: usize = 128 << 20;

/// Raw bytes a frame of ours holds at most.
const FRAME_BYTES: usize = 1 << 20;

/// Undoes the framing.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    inner: R,
    raw: Vec<u8>,
    at: usize,
}

impl<R: Read> FrameReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            raw: Vec::new(),
            at: 0,
        }
    }

    /// Reads the next frame; `false` at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        let mut head = [0; CHECKSUM + HEADER];
        if !read_or_end(&mut self.inner, &mut head)? {
            return Ok(false);
        }
        let size = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let (packed_bytes, raw_bytes) = (size(CHECKSUM + 1), size(CHECKSUM + 5));
        if !(HEADER..=MAX_FRAME_BYTES).contains(&packed_bytes) || raw_bytes > MAX_FRAME_BYTES {
            return Err(io::Error::other(format!(
                "compressed frame of {packed_bytes} bytes for {raw_bytes} raw bytes is out of bounds"
            )));
        }
        let mut packed = vec![0; packed_bytes];
        packed[..HEADER].copy_from_slice(&head[CHECKSUM..]);
        self.inner.read_exact(&mut packed[HEADER..])?;
        if checksum(&packed) != head[..CHECKSUM] {
            return Err(io::Error::other(
                "checksum of a compressed frame does not match",
            ));
        }
        self.raw.resize(raw_bytes, 0);
        self.at = 0;
        let body = &packed[HEADER..];
        let got = match packed[0] {
            LZ4 => {
                lz4_flex::block::decompress_into(body, &mut self.raw).map_err(io::Error::other)?
            }
            ZSTD => zstd::bulk::decompress_to_buffer(body, &mut self.raw)?,
            NONE if body.len() == raw_bytes => {
                self.raw.copy_from_slice(body);
                raw_bytes
            }
            method => {
                return Err(io::Error::other(format!(
                    "compression method {method:#x} is not known"
                )));
            }
        };
        if got == raw_bytes {
            Ok(true)
        } else {
            Err(io::Error::other(
                "a compressed frame has another size than it says",
            ))
        }
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.raw.len() {
            if !self.next_frame()? {
                return Ok(0);
            }
        }
        let n = out.len().min(self.raw.len() - self.at);
        out[..n].copy_from_slice(&self.raw[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Fills `buffer`; `false` if the input ended before its first byte.
fn read_or_end(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(true)
}

fn checksum(packed: &[u8]) -> [u8; CHECKSUM] {
    cityhash_rs::cityhash_102_128(packed)
        .rotate_right(64)
        .to_le_bytes()
}

/// Frames `data` with LZ4.
pub(super) fn frame(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for raw in data.chunks(FRAME_BYTES) {
        let mut packed = vec![LZ4, 0, 0, 0, 0, 0, 0, 0, 0];
        packed.extend(lz4_flex::block::compress(raw));
        // Both sizes are bounded by `FRAME_BYTES` and LZ4's worst case, far below 4 GiB.
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let sizes = (size(packed.len()), size(raw.len()));
        packed[1..5].copy_from_slice(&sizes.0);
        packed[5..9].copy_from_slice(&sizes.1);
        out.extend(checksum(&packed));
        out.extend(packed);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unframe(framed: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        FrameReader::new(framed).read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn what_was_framed_comes_back() {
        for bytes in [0, 1, 1000, FRAME_BYTES, 2 * FRAME_BYTES + 7] {
            let data: Vec<u8> = (0..bytes)
                .map(|i| u8::try_from(i * i % 251).unwrap())
                .collect();
            assert_eq!(unframe(&frame(&data)).unwrap(), data, "{bytes} bytes");
        }
    }

    #[test]
    fn any_changed_byte_and_any_cut_is_an_error() {
        let good = frame(b"the quick brown fox jumps over the lazy dog, the quick brown fox");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            assert!(unframe(&bad).is_err(), "byte {at}");
        }
        for cut in 1..good.len() {
            assert!(unframe(&good[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_huge_size_allocates_nothing() {
        let mut bad = frame(b"x");
        bad[CHECKSUM + 5..CHECKSUM + 9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(
            unframe(&bad)
                .unwrap_err()
                .to_string()
                .contains("out of bounds")
        );
    }
}

//! Bodies on their way in and out: from the network's chunks to a blocking reader, and back through an encoding.

use std::io::{self, Read, Write};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error_text::exception;
use super::frames;

/// The chunks of a request's body, read by a thread that may block.
#[derive(Debug)]
struct Chunks {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.current = chunk?,
            }
        }
        let n = out.len().min(self.current.len());
        out[..n].copy_from_slice(&self.current.split_to(n));
        Ok(n)
    }
}

/// A reader of the body as the statement means it: content encoding and ClickHouse's framing undone.
pub(super) fn reader(
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    encoding: &str,
    framed: bool,
) -> Result<Box<dyn Read + Send>, String> {
    let chunks = Chunks {
        chunks,
        current: Bytes::new(),
    };
    let plain: Box<dyn Read + Send> = match encoding {
        "" | "identity" => Box::new(chunks),
        "lz4" => Box::new(lz4_flex::frame::FrameDecoder::new(chunks)),
        "zstd" => Box::new(
            zstd::stream::read::Decoder::new(chunks)
                .map_err(|e| exception(49, "LOGICAL_ERROR", &e.to_string()))?,
        ),
        other => {
            let text =
                format!("content encoding '{other}' is not spoken here; send lz4, zstd or plain");
            return Err(exception(49, "UNKNOWN_COMPRESSION_METHOD", &text));
        }
    };
    Ok(if framed {
        Box::new(frames::FrameReader::new(plain))
    } else {
        plain
    })
}

/// Packs an answer chunk by chunk.
#[expect(missing_debug_implementations, reason = "encoders tell nothing")]
pub enum Packer {
    /// As it is.
    Plain,
    /// ClickHouse's framing.
    Framed,
    /// An LZ4 frame.
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
    /// A zstd frame.
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Packer {
    /// Packs as asked: in ClickHouse's framing, or in an encoding of HTTP.
    pub fn new(framed: bool, encoding: Option<&str>) -> io::Result<Self> {
        Ok(match encoding {
            _ if framed => Self::Framed,
            Some("lz4") => Self::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(Vec::new()))),
            Some("zstd") => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
            _ => Self::Plain,
        })
    }

    /// The bytes to send for `data`; may be empty.
    pub fn pack(&mut self, data: Bytes) -> io::Result<Bytes> {
        Ok(match self {
            Self::Plain => data,
            Self::Framed => frames::frame(&data).into(),
            Self::Lz4(encoder) => {
                encoder.write_all(&data)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut()).into()
            }
            Self::Zstd(encoder) => {
                encoder.write_all(&data)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut()).into()
            }
        })
    }

    /// The bytes that end the encoding.
    pub fn finish(self) -> io::Result<Bytes> {
        Ok(match self {
            Self::Plain | Self::Framed => Bytes::new(),
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::other)?.into(),
            Self::Zstd(encoder) => encoder.finish()?.into(),
        })
    }
}

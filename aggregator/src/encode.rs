//! Blocks of rows as messages, and back.

use bytes::Bytes;
use memwide_proto::{SCHEMA_VERSION, limits, v1};
use memwide_store::rows::NativeBlock;
use prost::Message as _;

use crate::error::Cause;

/// Compression of rows: the fastest level; JetStream keeps them for seconds.
const LEVEL: i32 = 1;

/// Most that one message may unpack to, in bytes; the aggregator stays below 1 MiB.
const NATIVE_BYTES_MAX: u64 = 64 << 20;

/// A block of rows as the payload of one message.
pub(crate) fn row_block(block: &NativeBlock) -> std::io::Result<Bytes> {
    let message = v1::RowBlock {
        schema_version: SCHEMA_VERSION,
        table: block.table.to_owned(),
        day: block.day.into(),
        rows: block.rows,
        native_zstd: zstd::bulk::compress(&block.bytes, LEVEL)?.into(),
        native_bytes: block.bytes.len() as u64,
    };
    let payload = message.encode_to_vec();
    if payload.len() > limits::STREAM_MESSAGE_BYTES {
        let (table, have, most) = (block.table, payload.len(), limits::STREAM_MESSAGE_BYTES);
        return Err(std::io::Error::other(format!(
            "a block of {table} has {have} bytes, {most} fit a message"
        )));
    }
    Ok(payload.into())
}

/// The native block inside a message.
pub(crate) fn native(message: &v1::RowBlock) -> Result<Vec<u8>, Cause> {
    if message.schema_version > SCHEMA_VERSION {
        return Err(format!(
            "schema version {} is newer than {SCHEMA_VERSION}",
            message.schema_version
        )
        .into());
    }
    if message.native_bytes > NATIVE_BYTES_MAX {
        return Err(format!(
            "{} bytes unpacked are more than {NATIVE_BYTES_MAX}",
            message.native_bytes
        )
        .into());
    }
    let capacity = usize::try_from(message.native_bytes)?;
    let native = zstd::bulk::decompress(&message.native_zstd, capacity)?;
    if native.len() != capacity {
        return Err(format!("{} bytes unpacked, {capacity} were promised", native.len()).into());
    }
    Ok(native)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> v1::RowBlock {
        let block = NativeBlock {
            table: "samples",
            day: 3,
            rows: 2,
            bytes: vec![7; 1_000],
        };
        v1::RowBlock::decode(row_block(&block).unwrap()).unwrap()
    }

    #[test]
    fn a_block_survives_the_stream() {
        let block = block();
        assert_eq!(
            (block.table.as_str(), block.day, block.rows),
            ("samples", 3, 2)
        );
        assert_eq!(native(&block).unwrap(), [7; 1_000]);
    }

    #[test]
    fn what_unpacks_to_more_or_less_than_promised_is_refused() {
        for native_bytes in [999, 1_001, NATIVE_BYTES_MAX + 1] {
            assert!(
                native(&v1::RowBlock {
                    native_bytes,
                    ..block()
                })
                .is_err(),
                "{native_bytes}"
            );
        }
        assert!(
            native(&v1::RowBlock {
                schema_version: SCHEMA_VERSION + 1,
                ..block()
            })
            .is_err()
        );
    }

    #[test]
    fn a_block_that_fits_no_message_is_not_sent() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = Vec::new();
        while noise.len() < 1_000_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_le_bytes());
        }
        let block = NativeBlock {
            table: "samples",
            day: 3,
            rows: 2,
            bytes: noise,
        };
        assert!(row_block(&block).is_err());
    }
}

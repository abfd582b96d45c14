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

//! Bounds on what crosses a process. A receiver enforces them; a sender keeps below them.

/// Largest gRPC message either side takes, in bytes. A batch is one message, so this bounds a batch.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Largest unpacked section, in bytes: caps what a few compressed bytes may become.
pub const SECTION_RAW_BYTES_MAX: u64 = 64 << 20;

/// Raw sample bytes at which a batch of a file is closed; live ones are larger, as their rings allow.
pub const BATCH_RAW_BYTES: usize = 1 << 20;

/// Age at which the collector closes a batch, in milliseconds; idle hosts send empty ones.
pub const BATCH_AGE_MS: u64 = 1_000;

/// Bytes a collector may have under way and unacked, unless the decoder says less.
pub const UNACKED_BYTES_MAX: u64 = 32 << 20;

/// Piece of a symbol table, in bytes.
pub const SYMBOL_CHUNK_BYTES: usize = 256 << 10;

/// Largest encoded symbol table, in bytes.
pub const SYMBOL_TABLE_BYTES_MAX: u64 = 256 << 20;

/// Payload of one JetStream message, in bytes: below the server's `max_payload` (1 MiB) with room for headers.
pub const STREAM_MESSAGE_BYTES: usize = 768 << 10;

/// Messages of one atomic batch: below the limit the server is configured with (see `deploy` and `memwide up`).
pub const STREAM_BATCH_MESSAGES_MAX: usize = 900;

/// Rows a sink puts into one insert.
pub const BLOCK_ROWS: u64 = 200_000;

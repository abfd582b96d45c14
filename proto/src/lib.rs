//! Every message that crosses a process, with units; JetStream subjects; limits.
//!
//! The `.proto` files under `v1/` are the text to read: each field says its meaning, its unit and what unset and 0
//! mean. The code under `src/gen` is generated from them and committed; `tests/generated.rs` holds it current.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod limits;
mod source;
pub mod subject;

pub use source::SourceError;

/// Messages and services of schema version 1.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from v1/*.proto, where each field is documented"
)]
pub mod v1 {
    include!("gen/memwide.v1.rs");
}

/// Version of the messages in `v1/`; receivers refuse a newer one they do not know.
pub const SCHEMA_VERSION: u32 = 1;

//! ClickHouse on one machine: `libchdb` in a process of its own, behind ClickHouse's HTTP interface on 127.0.0.1.
//!
//! [`run_child`] is that process (the hidden `store-engine` subcommand calls it), [`Child`] its handle in the process
//! that started it. Everybody else talks HTTP, so an external ClickHouse is only another URL.
//!
//! Two users: [`WRITER`] may do everything within the product's databases, [`READER`] may only read them. The roles'
//! grants are the wall; for the reader the SQL guard stands in front of it, because the scalar function `file()` of
//! this engine asks for no grant.
//!
//! Not for: several machines, sessions (`session_id`), gzip bodies, progress headers.

pub(crate) mod body;
mod child;
mod config;
pub(crate) mod error_text;
mod ffi;
mod frames;
pub(crate) mod http;
mod options;
mod parent;
mod pool;
pub(crate) mod request;
mod statement;
mod torn;

pub use child::run_child;
pub use ffi::LoadError;
pub use options::EngineOptions;
pub use parent::{Child, ChildOptions, Passwords};

/// User that may write the product's databases.
pub const WRITER: &str = "memwide";
/// User that may only read them, through the SQL guard.
pub const READER: &str = "reader";

/// Variable that hands the writer's password to the engine process.
pub const WRITER_PASSWORD: &str = "MEMWIDE_ENGINE_PASSWORD";
/// Variable that hands the reader's password to the engine process.
pub const READER_PASSWORD: &str = "MEMWIDE_ENGINE_READER_PASSWORD";
/// What the engine process prints, followed by its port, when it is ready.
const READY: &str = "engine listening ";

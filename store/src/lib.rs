//! Schema, migrations, typed rows and Native blocks; the embedded engine behind ClickHouse's HTTP interface; the guard
//! for SQL that people type.

mod client;
mod error;

pub mod engine;
pub mod guard;
pub mod native;
pub mod rows;
pub mod schema;
mod sql;
pub mod tools;
mod url;
pub mod wire;

pub use client::{Request, Store};
pub use error::{Advice, StoreError};
pub use sql::OutOfRange;

/// Name of the database unless the operator chooses another.
pub const DEFAULT_DATABASE: &str = "memwide";

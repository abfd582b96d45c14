//! Tests of the public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "these are tests"
)]

mod corpus;
mod hostile;
mod perf_script;
mod roundtrip;
mod written;

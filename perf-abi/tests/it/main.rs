//! Tests of the public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "these are tests"
)]

mod byte_order;
mod corpus;
mod deferred;
mod foreign;
mod hardware_bytes;
mod hostile;
mod parts;
mod perf_script;
mod rounds;
mod roundtrip;
mod spe_file;
mod tracepoints;
mod tracepoints_of_perf;
mod written;

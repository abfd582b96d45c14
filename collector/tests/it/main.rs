//! The collector against a decoder that takes batches over real gRPC.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking, and skip loudly"
)]

mod boost;
mod central;
mod cgroups;
mod cpus;
mod decoder;
mod govern;
mod import;
mod live;
mod rights;
mod select;
mod switches;
mod uplink;

//! The delivery protocol (`docs/delivery.md`) under every interleaving: the product's own pure states, moved by an
//! explorer that may kill, delay, repeat and lose at every step.
//!
//! What is real: `collector::uplink::Uplink`, `collector::delivery::Numbers`, `decoder::delivery::Order`,
//! `aggregator::delivery::{Order, Partition, FlushHead, plan}`, the tokens. What is imagined: streams between processes
//! (in order, cut anywhere), a NATS server that takes a flush whole at the expected sequence, a store that drops a repeated
//! token. `tests/tests/faults.rs` holds the same against the real ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test"
)]

mod actions;
mod cases;
mod commit;
mod explore;
mod send;
mod store;
mod world;

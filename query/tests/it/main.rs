//! The query service against the real engine. Where the engine library is absent, each test says loudly that it skips.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may unwrap, and say loudly that they skip"
)]

mod api;
mod browser;
mod clients;
mod clock;
mod cookbook;
mod count;
mod dark;
mod difference;
mod engine;
mod export;
mod fleet;
mod grpc;
mod links;
mod numa;
mod page;
mod places;
mod profiles;
mod questions;
mod readings;
mod recorded;
mod rules;
mod sql;
mod support;
mod tables;
mod truth;
mod waits;
mod why;

//! The store against the real engine. Where the engine library is absent, each test says loudly that it skips.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may unwrap, and say loudly that they skip"
)]

mod backup;
mod calls;
mod children;
mod day;
mod details;
mod guard_wall;
mod http_face;
mod inserts;
mod migrations;
mod support;
mod support_rows;
mod views;

//! The commands that answer questions on one file, on programs whose truth is known: built here with `cc`, and either run
//! under a recorder or given made-up accesses at their real addresses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod c2c;
mod diagnose;
mod diff;
mod inlined;
mod live;
mod members;
mod missing;
mod program;
mod run;

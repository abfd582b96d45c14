//! `memwide script` and `memwide report` on files made here, whose truth is known.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod bad_input;
mod diagnose;
mod files;
mod generated_code;
mod kernel;
mod kernel_code;
mod modules;
mod nodes;
mod report;
mod run;
mod script;
mod threads;

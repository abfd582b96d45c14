//! Commands that measure this machine: on programs whose truth is known, beside perf where it is installed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod diagnose;
mod run;
mod stacks;
mod stat;
mod stdin;

//! `memwide script` and `memwide report` beside the installed perf: on a shared collection of files, on a file made here, on
//! a recording of this machine. What is not there is skipped, loudly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod annotate;
mod calls;
mod collection;
mod damaged;
mod diff;
mod jit;
mod memory;
mod other_order;
mod perf;
mod recorded;
mod report;
mod script;
mod sharing;
mod source;
mod stacks;
mod unwind;

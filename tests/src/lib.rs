//! Harness of the tests that need more than one package: a running `memwide up`, its children, bounded waits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

pub mod ask;
mod deployment;
pub mod generated;
mod https;
pub mod measured;
mod pipeline;
mod processes;
pub mod programs;
pub mod s3;
pub mod sharing;
mod wait;

pub use deployment::{Deployment, Setup};
pub use https::Https;
pub use pipeline::{Up, UpOptions, memwide, tools_missing};
pub use processes::{Process, Running, children_of, kill_9, process_named};
pub use wait::{until, until_some, within};

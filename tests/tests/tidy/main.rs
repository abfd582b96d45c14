//! What ARCHITECTURE.md, STYLE.md and `deploy/` promise, checked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod deploy;
mod metrics;
mod rules;
mod support;

//! Programs whose truth is known, in several languages and builds, and the commands that must find it: through made-up
//! accesses at the places the programs themselves name, and recorded here while they run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

mod builds;
mod live;
mod made;
mod run;

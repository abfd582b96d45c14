//! Exit codes of every command, after `sysexits.h` where it has one.

/// Done as asked.
pub const OK: u8 = 0;
/// Rightly asked, but it failed: worth another try.
pub const FAILED: u8 = 1;
/// Wrong usage or configuration: a supervisor need not retry.
pub const USAGE: u8 = 64;
/// The input cannot be read: the same file fails again.
pub const BAD_INPUT: u8 = 65;
/// Ended at once by a second interrupt (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

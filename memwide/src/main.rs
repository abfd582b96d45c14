//! The command people type.

fn main() {}

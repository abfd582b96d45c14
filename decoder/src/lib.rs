//! Raw bytes to symbolized, classified accesses.

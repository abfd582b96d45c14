//! On each node: open events, drain rings, snapshot processes, spool, ship raw bytes.

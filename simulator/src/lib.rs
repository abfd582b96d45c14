//! Hosts that do not exist, with known truth, through the real ingest path.

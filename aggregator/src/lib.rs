//! Accesses to rollups to JetStream; and the sink role, JetStream to ClickHouse.

//! What every process does alike: config, logs, metrics, admin endpoints, shutdown.

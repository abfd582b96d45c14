//! Named failures.

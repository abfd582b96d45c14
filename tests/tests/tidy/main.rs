//! What ARCHITECTURE.md, STYLE.md and `deploy/` promise, checked.

mod deploy;
mod metrics;
mod rules;
mod support;

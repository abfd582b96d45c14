//! The query service: questions and guarded SQL over HTTP and gRPC on one port, and the page.
//!
//! `ask` and `answer` are pure: a question becomes SQL with bound parameters, rows become an answer that says how
//! complete it is. `service` runs it against a store; `http`, `grpc` and the page are thin edges around that.
//!
//! Not in here: who may ask. The embedded engine is single-tenant, so its page and API stay on loopback unless the
//! process around it adds authentication. The store it is given should be connected as a user that can only read:
//! grants are the wall, the SQL guard in front of it is the first fence.

pub mod answer;
pub mod ask;
mod config;
mod export;
mod grpc;
mod http;
pub mod metrics;
mod problem;
mod recording;
mod rules;
mod serve;
mod service;
mod statement;
mod status;

pub use answer::{Answer, Part};
pub use config::{Config, Limits};
pub use problem::{Class, Problem};
pub use rules::{Rule, RuleError, Rules};
pub use serve::{serve, serve_with};
pub use service::Service;
pub use statement::Statement;
pub use status::{ServiceState, Status, StatusDetail};

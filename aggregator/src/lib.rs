//! Accesses to rollups to JetStream; and the sink role, JetStream to ClickHouse.
//!
//! **Aggregator** ([`serve`]): takes decoded batches by gRPC, each source in order, builds the rows of every table
//! and commits them to JetStream together with a cursor that says which batches they are made of. What the cursor
//! covers is in the stream exactly once; the rest is sent again.
//!
//! **Sink** ([`sink`]): moves rows from the stream into the store, block by block, each under a token by which the store
//! drops repeats.
//!
//! Neither decodes nor classifies, and neither answers questions. Whoever runs them brings NATS (see
//! [`server_config`]) and a store whose schema is migrated.

mod answers;
mod config;
mod encode;
mod error;
pub mod metrics;
mod nats_server;
mod order;
mod owner;
mod partition;
mod publish;
mod ready;
mod rollup;
mod rows;
mod server;
mod sink;
mod stream;

/// The pure states of delivery, which the model test drives; the services are their edges.
pub mod delivery {
    pub use crate::order::{Answer, Order};
    pub use crate::partition::{FlushHead, Judged, Limits, Offered, Partition, Verdict};
    pub use crate::sink::plan;
}

pub use config::{Config, NatsConfig, SinkConfig};
pub use error::{AggregatorError, Cause, HoldError, SinkError, StreamError};
pub use nats_server::{server_config, server_trouble};
pub use rows::Rows;
pub use server::serve;
pub use sink::hold::{Hold, Sinks};
pub use sink::lease::Lease;
pub use sink::{sink, sink_into};

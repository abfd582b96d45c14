//! A gRPC server as every service of ours runs it.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::{Error, Server};

/// A peer that does not answer for so long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Windows of streams that a connection has room for.
const STREAMS: u32 = 16;

/// Bytes of a frame at most: a batch fits into one, and each frame is a system call of its own.
const FRAME_BYTES: u32 = 256 << 10;

/// Serves until `stop` is cancelled and the calls under way have ended. `stream_window_bytes` bounds what is on its way in
/// one stream, in bytes.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    stream_window_bytes: u32,
    stop: CancellationToken,
) -> Result<(), Error> {
    Server::builder()
        .initial_stream_window_size(stream_window_bytes)
        .initial_connection_window_size(stream_window_bytes.saturating_mul(STREAMS))
        .max_frame_size(FRAME_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .add_routes(routes)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.cancelled_owned())
        .await
}

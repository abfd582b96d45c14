//! The nats-server that `memwide up` starts: its configuration text, and whether it is well.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use memwide_proto::limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Largest message the server takes, in bytes; `limits::STREAM_MESSAGE_BYTES` is below it.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Atomic batches that may be open at once; the default of 50 a stream is below 64 partitions.
const BATCHES_OPEN: u32 = 1_000;

/// The text of a `nats.conf` for one server on loopback: JetStream under `store_dir`, batch limits above what
/// `proto::limits` promises to keep, and `token` asked of every client.
///
/// At port `monitor` it says whether it is well ([`server_trouble`]); 0: nowhere. The server writes the port it listens
/// on, also one it chose itself (`port` 0), into a file `*.ports` in `ports_dir`.
pub fn server_config(
    port: u16,
    monitor: u16,
    store_dir: &Path,
    ports_dir: &Path,
    token: &str,
) -> String {
    let messages = limits::STREAM_BATCH_MESSAGES_MAX + limits::STREAM_BATCH_MESSAGES_MAX / 10;
    let listen = if port == 0 {
        "-1".to_owned()
    } else {
        port.to_string()
    };
    let monitor = if monitor == 0 {
        String::new()
    } else {
        format!("http: \"127.0.0.1:{monitor}\"\n")
    };
    format!(
        "host: \"127.0.0.1\"\n\
         port: {listen}\n\
         {monitor}\
         server_name: memwide\n\
         max_payload: {MAX_PAYLOAD_BYTES}\n\
         max_pending: 256MB\n\
         write_deadline: \"10s\"\n\
         ports_file_dir: {ports}\n\
         authorization {{ token: {token} }}\n\
         jetstream {{\n\
         \x20 store_dir: {store}\n\
         \x20 max_file_store: 64GB\n\
         \x20 max_memory_store: 256MB\n\
         \x20 limits {{\n\
         \x20   batch {{\n\
         \x20     max_inflight_per_stream: {BATCHES_OPEN}\n\
         \x20     max_inflight_total: {BATCHES_OPEN}\n\
         \x20     max_msgs: {messages}\n\
         \x20     timeout: \"10s\"\n\
         \x20   }}\n\
         \x20 }}\n\
         }}\n",
        ports = quoted(&ports_dir.display().to_string()),
        store = quoted(&store_dir.display().to_string()),
        token = quoted(token),
    )
}

/// Longest wait for what the server says of itself; usual are milliseconds.
const SAID_WITHIN: Duration = Duration::from_secs(10);

/// Most of what it says, in bytes.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// What is wrong with the server at this monitoring port, as it says; `None`: nothing, or it does not run.
///
/// After a write that failed for want of room (or any other error of the disk), a stream of nats-server takes nothing more
/// until the server is started again, also when there is room. JetStream stays enabled, so only the full check tells. That check waits for locks
/// of the streams: one that is held for ever is a trouble, too.
pub async fn server_trouble(monitor: u16) -> Option<String> {
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, monitor)).await;
    let mut connection = connecting.ok()?;
    let asked = async {
        let request = b"GET /healthz HTTP/1.0\r\n\r\n";
        connection.write_all(request).await?;
        let mut answer = String::new();
        let mut bounded = connection.take(SAID_BYTES_MAX);
        bounded.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let Ok(answer) = tokio::time::timeout(SAID_WITHIN, asked).await else {
        return Some(format!(
            "its health check does not answer within {SAID_WITHIN:?}"
        ));
    };
    trouble_in(&answer.ok()?)
}

fn trouble_in(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1) != Some("503") {
        return None;
    }
    let said: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let error = said["error"].as_str().unwrap_or("unavailable");
    Some(error.to_owned())
}

/// A string in the server's configuration language.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_what_the_server_says_and_nothing_else() {
        let rows = [
            ("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"status\":\"ok\"}", None),
            (
                "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"status\":\"unavailable\",\"error\":\"write error\"}",
                Some("write error"),
            ),
            (
                "HTTP/1.0 503 Service Unavailable\r\n\r\nno",
                Some("unavailable"),
            ),
            ("HTTP/1.0 500 Internal Server Error\r\n\r\n{}", None),
            ("HTTP/1.0 503", None),
            ("", None),
        ];
        for (answer, trouble) in rows {
            assert_eq!(trouble_in(answer).as_deref(), trouble, "{answer}");
        }
    }
}

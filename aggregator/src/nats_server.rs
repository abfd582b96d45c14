//! Configuration text of the nats-server that `memwide up` starts.

use std::path::Path;

use memwide_proto::limits;

/// Largest message the server takes, in bytes; `limits::STREAM_MESSAGE_BYTES` is below it.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Atomic batches that may be open at once; the default of 50 a stream is below 64 partitions.
const BATCHES_OPEN: u32 = 1_000;

/// The text of a `nats.conf` for one server on loopback: JetStream under `store_dir`, batch limits above what
/// `proto::limits` promises to keep, and `token` asked of every client.
///
/// The server writes the port it listens on, also one it chose itself (`port` 0), into a file `*.ports` in `ports_dir`.
pub fn server_config(port: u16, store_dir: &Path, ports_dir: &Path, token: &str) -> String {
    let messages = limits::STREAM_BATCH_MESSAGES_MAX + limits::STREAM_BATCH_MESSAGES_MAX / 10;
    let listen = if port == 0 {
        "-1".to_owned()
    } else {
        port.to_string()
    };
    format!(
        "host: \"127.0.0.1\"\n\
         port: {listen}\n\
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

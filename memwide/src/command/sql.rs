//! `memwide sql`: one guarded query.

use super::answer;
use crate::cli::SqlArgs;
use crate::client::Client;
use crate::failure::Failure;
use serde_json::{Map, Value, json};
use std::io::Read as _;

/// Longest query read from standard input, in bytes; the service refuses longer ones anyway.
const QUERY_BYTES_MAX: u64 = 256 << 10;

pub(crate) fn run(args: &SqlArgs) -> Result<(), Failure> {
    let mut query = args.query.clone();
    if query == "-" {
        query.clear();
        std::io::stdin()
            .lock()
            .take(QUERY_BYTES_MAX)
            .read_to_string(&mut query)?;
    }
    let mut params = Map::new();
    for param in &args.params {
        let Some((name, value)) = param.split_once('=') else {
            let wrong = anyhow::anyhow!("parameter `{param}` is not NAME=VALUE");
            return Err(Failure::usage(wrong));
        };
        params.insert(name.to_owned(), Value::from(value));
    }
    let body = json!({"query": query, "params": params, "format": "json"});
    let client = Client::new(&args.server.server);
    let document = client.post("sql", &body).map_err(answer::failure)?;
    Ok(answer::table(document).print(args.format)?)
}

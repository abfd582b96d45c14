//! ClickHouse's HTTP interface: `POST /`, `GET /?query=…` and `/ping`, for programs that speak it (clickhouse-connect,
//! @clickhouse/client, Grafana's data source). Statements pass the same guard and the same limits as `/api/v1/sql`.
//!
//! | what clients send | here |
//! |---|---|
//! | `FORMAT name` at the end, `default_format`, `X-ClickHouse-Format` | the answer's format |
//! | `param_…`, in the URL or a form | values, as ClickHouse writes them |
//! | settings that shape an answer | passed on |
//! | `max_execution_time`, `max_result_rows`, `max_memory_usage` | lower the service's own limits, never raise them |
//! | `compress`, `Accept-Encoding: lz4` or `zstd` | packed so |
//! | `client_protocol_version` | Native blocks in the form of that revision |
//! | sessions, progress, user and password | nothing: there are no temporary tables, and nobody is asked who he is |
//! | any other setting | refused by name |

use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use memwide_store::wire::{
    self, Asked, Packer, boundary, complete, exception, form_fields, reader_may_set, split_format,
};

use super::page;
use crate::metrics;
use crate::problem::{Class, Problem};
use crate::service::{Relayed, Service};

/// Formats of answers. None reads or writes anything beside the answer.
const FORMATS: &[&str] = &[
    "Arrow",
    "ArrowStream",
    "CSV",
    "CSVWithNames",
    "CSVWithNamesAndTypes",
    "JSON",
    "JSONColumnsWithMetadata",
    "JSONCompact",
    "JSONCompactEachRow",
    "JSONCompactEachRowWithNames",
    "JSONCompactEachRowWithNamesAndTypes",
    "JSONCompactStrings",
    "JSONCompactStringsEachRow",
    "JSONCompactStringsEachRowWithNames",
    "JSONCompactStringsEachRowWithNamesAndTypes",
    "JSONEachRow",
    "JSONObjectEachRow",
    "JSONStrings",
    "JSONStringsEachRow",
    "Markdown",
    "Native",
    "Null",
    "Parquet",
    "Pretty",
    "PrettyCompact",
    "PrettyCompactMonoBlock",
    "RowBinary",
    "RowBinaryWithNames",
    "RowBinaryWithNamesAndTypes",
    "TSV",
    "TSVRaw",
    "TSVWithNames",
    "TSVWithNamesAndTypes",
    "TabSeparated",
    "TabSeparatedRaw",
    "TabSeparatedWithNames",
    "TabSeparatedWithNamesAndTypes",
    "Values",
    "Vertical",
];

/// Settings that mean nothing to an answer that is collected before it is sent.
const IGNORED: &[&str] = &[
    "cancel_http_readonly_queries_on_client_close",
    "http_headers_progress_interval_ms",
    "http_response_buffer_size",
    "readonly",
    "send_progress_in_http_headers",
];

/// An error as ClickHouse words it: its code and the text.
#[derive(Debug)]
struct Refused {
    code: u32,
    text: String,
}

fn refused(code: u32, name: &str, text: &str) -> Refused {
    let text = exception(code, name, text);
    Refused { code, text }
}

/// The page; with a statement in the URL that statement's answer.
pub(super) async fn get(
    service: State<Service>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let pairs = uri.query().unwrap_or_default().split('&');
    let asks = pairs.into_iter().any(|pair| pair.starts_with("query="));
    if asks {
        post(service, method, uri, headers, Bytes::new()).await
    } else {
        page::index()
    }
}

/// Whether the service answers at all.
pub(super) async fn ping() -> &'static str {
    "Ok.\n"
}

/// One statement.
pub(super) async fn post(
    State(service): State<Service>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let begun = Instant::now();
    let mut query_id = String::new();
    let answered = answer(&service, &method, &uri, &headers, &body, &mut query_id).await;
    metrics::count_class(answered.as_ref().err().map(Refused::class));
    let mut response = match answered {
        Ok(answer) => answer.into_response(begun),
        Err(refused) => refused.into_response(),
    };
    for (name, value) in [
        ("x-clickhouse-query-id", query_id.as_str()),
        ("x-clickhouse-server-display-name", "memwide"),
        ("x-clickhouse-timezone", "UTC"),
    ] {
        put(&mut response, name, value);
    }
    response
}

fn put(response: &mut Response, name: &'static str, value: &str) {
    // What cannot stand in a header is the client's own loss.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// An answer, packed.
struct Answer {
    format: String,
    encoding: Option<&'static str>,
    bytes: usize,
    packed: Bytes,
}

impl Answer {
    fn into_response(self, begun: Instant) -> Response {
        let mut response = Response::new(Body::from(self.packed));
        // Only what is known here: how much the store read is told by no answer that comes through it.
        let summary = serde_json::json!({
            "elapsed_ns": begun.elapsed().as_nanos().to_string(),
            "result_bytes": self.bytes.to_string(),
        });
        put(&mut response, "x-clickhouse-summary", &summary.to_string());
        put(&mut response, "x-clickhouse-format", &self.format);
        put(
            &mut response,
            "content-type",
            wire::content_type(&self.format),
        );
        if let Some(encoding) = self.encoding {
            put(&mut response, "content-encoding", encoding);
        }
        response
    }
}

async fn answer(
    service: &Service,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &Bytes,
    query_id: &mut String,
) -> Result<Answer, Refused> {
    // A browser names the page that asks; programs do not. Other pages have no business here.
    if headers.contains_key(header::ORIGIN) {
        return Err(refused(
            497,
            "ACCESS_DENIED",
            "pages of a browser are not answered here; use /api/v1/sql",
        ));
    }
    let form = boundary(headers).map(|boundary| form_fields(body, &boundary));
    let is_form = form.is_some();
    let asked = Asked::read(method, uri, headers, form.unwrap_or_default());
    let asked = asked.map_err(|text| Refused { code: 36, text })?;
    query_id.clone_from(&asked.query_id);
    if query_id.is_empty() {
        *query_id = memwide_service::random::text().unwrap_or_default();
    }
    let sql = statement(&asked, if is_form { &[] } else { body })?;
    let (sql, format) = split_format(&sql);
    let format = format.or_else(|| asked.format.clone());
    let format = known_format(&format.unwrap_or_else(|| "TabSeparated".to_owned()))?;
    super::sql::check_names(&asked.params).map_err(|problem| Refused::new(None, &problem))?;
    let settings = settings(&asked)?;
    known_database(service, asked.database.as_deref())?;
    let relayed = Relayed {
        sql,
        params: &asked.params,
        settings: &settings,
        format,
    };
    let answer = service.relayed(relayed).await;
    let answer = answer.map_err(|(code, problem)| Refused::new(code, &problem))?;
    let answer = match asked.protocol_version {
        0 => answer,
        version if format == "Native" => wire::revised(&answer, version)
            .map_err(|error| refused(48, "NOT_IMPLEMENTED", &format!("{error}; ask for another format than Native, or without client_protocol_version")))?
            .into(),
        _ => answer,
    };
    let bytes = answer.len();
    let packed = packed(answer, asked.compress, asked.answer_encoding)
        .map_err(|error| refused(49, "LOGICAL_ERROR", &error.to_string()))?;
    Ok(Answer {
        format: format.to_owned(),
        encoding: asked.answer_encoding,
        bytes,
        packed,
    })
}

/// The statement's text: what stands in the URL or a form, then the body.
fn statement(asked: &Asked, body: &[u8]) -> Result<String, Refused> {
    if asked.decompress || !matches!(asked.body_encoding.as_str(), "" | "identity") {
        let text = "statements are taken as plain text; switch the compression of requests off";
        return Err(refused(49, "UNKNOWN_COMPRESSION_METHOD", text));
    }
    let body = std::str::from_utf8(body).map_err(|_| {
        refused(
            62,
            "SYNTAX_ERROR",
            "the statement is not UTF-8; nothing can be inserted here",
        )
    })?;
    let length = asked.sql.len() + body.len();
    if length > super::sql::STATEMENT_BYTES_MAX {
        let text = format!(
            "the statement has {length} bytes, at most {} are taken",
            super::sql::STATEMENT_BYTES_MAX
        );
        return Err(refused(62, "SYNTAX_ERROR", &text));
    }
    Ok(format!("{}{body}", asked.sql))
}

fn known_format(name: &str) -> Result<&'static str, Refused> {
    let mut known = FORMATS.iter();
    let found = known
        .find(|known| known.eq_ignore_ascii_case(name))
        .copied();
    found.ok_or_else(|| {
        let name = crate::ask::shortened(name);
        let text = format!("unknown format {name}; use one of {}", FORMATS.join(", "));
        refused(73, "UNKNOWN_FORMAT", &text)
    })
}

/// Clients that were not told a database name ClickHouse's own.
fn known_database(service: &Service, name: Option<&str>) -> Result<(), Refused> {
    let own = service.database();
    match name {
        None | Some("" | "default") => Ok(()),
        Some(name) if own.as_deref().is_none_or(|own| own == name) => Ok(()),
        Some(name) => {
            let text = format!(
                "there is no database `{}`; leave it out",
                crate::ask::shortened(name)
            );
            Err(refused(81, "UNKNOWN_DATABASE", &text))
        }
    }
}

/// The settings that are passed on, each once: the last one counts.
fn settings(asked: &Asked) -> Result<Vec<(String, String)>, Refused> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for (name, value) in &asked.settings {
        if IGNORED.contains(&name.as_str()) {
            continue;
        }
        if !reader_may_set(name) {
            let text = format!(
                "the setting `{}` is not taken here; leave it out",
                crate::ask::shortened(name)
            );
            return Err(refused(452, "SETTING_CONSTRAINT_VIOLATION", &text));
        }
        kept.retain(|(known, _)| known != name);
        kept.push((name.clone(), value.clone()));
    }
    Ok(kept)
}

fn packed(answer: Bytes, framed: bool, encoding: Option<&str>) -> std::io::Result<Bytes> {
    let mut packer = Packer::new(framed, encoding)?;
    let mut packed = Vec::from(packer.pack(answer)?);
    packed.extend(packer.finish()?);
    Ok(packed.into())
}

impl Refused {
    /// A problem in ClickHouse's words; `code`: the store's own.
    fn new(code: Option<u32>, problem: &Problem) -> Self {
        let (usual, name) = match problem.class {
            Class::Question | Class::NotFound | Class::Method | Class::MediaType => {
                (36, "BAD_ARGUMENTS")
            }
            Class::Forbidden => (497, "ACCESS_DENIED"),
            Class::Limit => (396, "TOO_MANY_ROWS_OR_BYTES"),
            Class::Unavailable => (202, "TOO_MANY_SIMULTANEOUS_QUERIES"),
            Class::Internal => (1002, "UNKNOWN_EXCEPTION"),
        };
        // The store's words begin with its code and end with its name: so do these.
        let text = match problem.detail.strip_suffix(')') {
            Some(words) if words.starts_with("Code: ") => words.rsplit_once(" (").map_or_else(
                || problem.detail.clone(),
                |(words, name)| format!("{words}; {} ({name})", problem.remedy),
            ),
            _ => {
                let (code, name) = match code {
                    Some(code @ 159) => (code, "TIMEOUT_EXCEEDED"),
                    Some(code @ 241) => (code, "MEMORY_LIMIT_EXCEEDED"),
                    _ => (usual, name),
                };
                exception(code, name, &problem.to_string())
            }
        };
        Self {
            code: wire::code(&text),
            text,
        }
    }

    fn class(&self) -> Class {
        match wire::status(self.code) {
            403 => Class::Forbidden,
            404 => Class::NotFound,
            503 => Class::Unavailable,
            _ => match self.code {
                159 | 160 | 241 | 396 => Class::Limit,
                1002 => Class::Internal,
                _ => Class::Question,
            },
        }
    }

    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(wire::status(self.code))
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let words = format!("{}\n", complete(&self.text));
        let mut response = (status, words).into_response();
        put(&mut response, "content-type", "text/plain; charset=UTF-8");
        put(
            &mut response,
            "x-clickhouse-exception-code",
            &self.code.to_string(),
        );
        response
    }
}

//! ClickHouse's HTTP interface in front of the engine's threads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use memwide_service::config::Secret;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::error_text::{code, complete, exception, status, tag};
use super::pool::{Job, Progress, Stopper, submit};
use super::request::{Asked, boundary, form_fields};
use super::statement::Work;
use super::{READER, WRITER};

/// Chunks of a body or an answer that wait between network and engine, each up to about 1 MiB: enough to keep both
/// busy, little enough to hold either back.
const CHUNKS: usize = 8;
/// Fields of a form are statements and parameters, not data.
const MAX_FORM_BYTES: usize = 16 << 20;

/// What every request needs.
pub(super) struct Face {
    pub(super) reads: SyncSender<Job>,
    pub(super) inserts: SyncSender<Job>,
    pub(super) stopper: Stopper,
    pub(super) writer_password: Secret,
    pub(super) reader_password: Secret,
    pub(super) databases: Vec<String>,
    pub(super) host: String,
    /// The most a statement of the reader may use, in bytes.
    pub(super) reader_memory_bytes: u64,
    /// Cancelled when new work is refused.
    pub(super) stopping: CancellationToken,
}

/// A statement that takes longer to be answered means that the engine is not ready for others.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// The routes of the interface.
pub(super) fn router(face: Arc<Face>) -> Router {
    Router::new().fallback(serve).with_state(face)
}

async fn serve(State(face): State<Arc<Face>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match parts.uri.path() {
        "/ping" | "/replicas_status" => return text(200, "Ok.\n"),
        "/" if parts.method == Method::GET && parts.uri.query().is_none_or(str::is_empty) => {
            return text(200, "Ok.\n");
        }
        "/readyz" => return face.ready().await,
        "/" => {}
        _ => {
            return text(
                404,
                "there is nothing here: queries go to /, health checks to /ping\n",
            );
        }
    }
    let mut body = Some(body);
    let mut form = Vec::new();
    if let Some(boundary) = boundary(&parts.headers) {
        match axum::body::to_bytes(body.take().unwrap_or_default(), MAX_FORM_BYTES).await {
            Ok(bytes) => form = form_fields(&bytes, &boundary),
            Err(error) => return text(400, &format!("the form cannot be read: {error}\n")),
        }
    }
    let mut asked = match Asked::read(&parts.method, &parts.uri, &parts.headers, form) {
        Ok(asked) => asked,
        Err(error) => return face.error("", &error),
    };
    if asked.query_id.is_empty() {
        asked.query_id = random_text();
    }
    let query_id = asked.query_id.clone();
    let admitted = face.admit(&asked);
    if let Ok(true) = admitted {
        asked.bound_memory(face.reader_memory_bytes);
    }
    match admitted {
        Ok(reader) => face.run(asked, reader, body).await,
        Err(error) => face.error(&query_id, &error),
    }
}

impl Face {
    /// Whether the engine's threads answer a statement.
    async fn ready(&self) -> Response {
        let asked = Asked {
            sql: "SELECT 1".to_owned(),
            query_id: random_text(),
            wait_end: true,
            ..Asked::default()
        };
        if self.stopping.is_cancelled() {
            return text(503, "engine: it is stopping\n");
        }
        match tokio::time::timeout(READY_WITHIN, self.run(asked, true, None)).await {
            Ok(answer) if answer.status().is_success() => text(200, "ok\n"),
            Ok(answer) => {
                let words = axum::body::to_bytes(answer.into_body(), MAX_FORM_BYTES).await;
                let words = words.unwrap_or_default();
                text(503, &format!("engine: {}", String::from_utf8_lossy(&words)))
            }
            Err(_) => text(503, &format!("engine: no answer within {READY_WITHIN:?}\n")),
        }
    }

    /// Whether the request is the reader's, or why it is turned away.
    fn admit(&self, asked: &Asked) -> Result<bool, String> {
        if self.stopping.is_cancelled() {
            return Err(exception(1003, "SERVER_STOPPING", "the engine is stopping"));
        }
        let reader = match asked.user.as_str() {
            user if user == WRITER && self.writer_password.is(&asked.password) => false,
            user if user == READER && self.reader_password.is(&asked.password) => true,
            user => {
                let words = format!(
                    "{user}: Authentication failed: password is incorrect, or there is no user with such name"
                );
                return Err(exception(516, "AUTHENTICATION_FAILED", &words));
            }
        };
        if reader {
            let database = asked.database.as_deref().unwrap_or_default();
            if !database.is_empty() && !self.databases.iter().any(|own| own == database) {
                return Err(exception(
                    497,
                    "ACCESS_DENIED",
                    &format!("the reader has no database `{database}`"),
                ));
            }
            if let Some((name, _)) = asked
                .settings
                .iter()
                .find(|(name, _)| !reader_may_set(name))
            {
                return Err(exception(
                    452,
                    "SETTING_CONSTRAINT_VIOLATION",
                    &format!("the reader may not set `{name}`"),
                ));
            }
        }
        Ok(reader)
    }

    async fn run(&self, asked: Asked, reader: bool, body: Option<Body>) -> Response {
        let (query_id, encoding) = (asked.query_id.clone(), asked.answer_encoding);
        let (chunks, body, inserts) = self.take_body(&asked, body).await;
        let (head, head_known) = oneshot::channel();
        let (answer, answer_chunks) = mpsc::channel(CHUNKS);
        let progress = Arc::new(Progress::default());
        let work = Work {
            asked,
            reader,
            body: chunks,
            head: Some(head),
            answer,
            progress: Arc::clone(&progress),
        };
        let queue = if inserts { &self.inserts } else { &self.reads };
        if let Err(why) = submit(queue, Box::new(move |sessions| work.run(sessions))) {
            return self.error(
                &query_id,
                &exception(202, "TOO_MANY_SIMULTANEOUS_QUERIES", why),
            );
        }
        // From here on a client that leaves stops its query.
        let leaving = Leaving {
            stopper: self.stopper.clone(),
            query_id: query_id.clone(),
            progress,
            ended: false,
        };
        let mut answer = AnswerBody {
            chunks: answer_chunks,
            leaving,
            ending: Ending::NotYet,
        };
        if let Some((body, sender)) = body {
            tokio::spawn(pump(body, sender));
        }
        match head_known.await {
            Ok(Ok(head)) => {
                let mut response = Response::new(Body::from_stream(answer));
                let headers = response.headers_mut();
                self.headers(headers, &query_id);
                put(headers, "x-clickhouse-format", &head.format);
                put(headers, "x-clickhouse-summary", &head.summary);
                put(headers, "x-clickhouse-exception-tag", &tag(&query_id));
                put(headers, "content-type", content_type(&head.format));
                if let Some(encoding) = encoding {
                    put(headers, "content-encoding", encoding);
                }
                response
            }
            Ok(Err(error)) => {
                answer.leaving.ended = true;
                self.error(&query_id, &error)
            }
            Err(_) => {
                answer.leaving.ended = true;
                self.error(
                    &query_id,
                    &exception(394, "QUERY_WAS_CANCELLED", "the query was dropped"),
                )
            }
        }
    }

    /// The channel an engine thread reads the body from, what feeds it, and whether the statement is an INSERT.
    async fn take_body(
        &self,
        asked: &Asked,
        body: Option<Body>,
    ) -> (
        mpsc::Receiver<io::Result<Bytes>>,
        Option<(BodyStream, mpsc::Sender<io::Result<Bytes>>)>,
        bool,
    ) {
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let Some(body) = body else {
            return (chunks, None, is_insert(asked.sql.as_bytes()));
        };
        let mut body: BodyStream = Box::pin(
            body.into_data_stream()
                .map(|chunk| chunk.map_err(io::Error::other)),
        );
        let mut inserts = is_insert(asked.sql.as_bytes());
        if asked.sql.is_empty()
            && let Some(first) = body.next().await
        {
            inserts = first.as_ref().is_ok_and(|bytes| is_insert(bytes));
            // The channel is new and has room.
            let _ = sender.try_send(first);
        }
        (chunks, Some((body, sender)), inserts)
    }

    fn headers(&self, headers: &mut HeaderMap, query_id: &str) {
        put(headers, "x-clickhouse-query-id", query_id);
        put(headers, "x-clickhouse-timezone", "UTC");
        put(headers, "x-clickhouse-server-display-name", &self.host);
    }

    fn error(&self, query_id: &str, error: &str) -> Response {
        let (words, code) = (complete(error), code(error));
        let mut response = text(status(code), &format!("{words}\n"));
        self.headers(response.headers_mut(), query_id);
        put(
            response.headers_mut(),
            "x-clickhouse-exception-code",
            &code.to_string(),
        );
        response
    }
}

type BodyStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Feeds a body to an engine thread; a body that breaks off is told as an error, so that nothing is committed.
async fn pump(mut body: BodyStream, sender: mpsc::Sender<io::Result<Bytes>>) {
    while let Some(chunk) = body.next().await {
        let broken = chunk.is_err();
        if sender.send(chunk).await.is_err() || broken {
            return;
        }
    }
}

/// Stops the query when dropped before its end.
struct Leaving {
    stopper: Stopper,
    query_id: String,
    progress: Arc<Progress>,
    ended: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.ended {
            self.stopper.stop(
                std::mem::take(&mut self.query_id),
                Arc::clone(&self.progress),
            );
        }
    }
}

/// Time for what was sent before to leave the buffers: clients find an error's words only in a chunk of their own.
const BEFORE_LAST_WORDS: Duration = Duration::from_millis(100);
/// Time for the words to leave the buffers before the connection breaks.
const AFTER_LAST_WORDS: Duration = Duration::from_millis(200);

/// How far a failed answer is on its way out.
enum Ending {
    NotYet,
    /// These words are sent when the time is over.
    Words(Bytes, Pin<Box<Sleep>>),
    /// The connection breaks when the time is over.
    Break(Pin<Box<Sleep>>),
}

/// The answer's chunks on their way to the client.
struct AnswerBody {
    chunks: mpsc::Receiver<Result<Bytes, String>>,
    leaving: Leaving,
    ending: Ending,
}

impl Stream for AnswerBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.ending {
                Ending::NotYet => match ready!(self.chunks.poll_recv(context)) {
                    Some(Ok(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                    Some(Err(words)) => {
                        self.leaving.ended = true;
                        self.ending = Ending::Words(
                            words.into(),
                            Box::pin(tokio::time::sleep(BEFORE_LAST_WORDS)),
                        );
                    }
                    None => {
                        self.leaving.ended = true;
                        return Poll::Ready(None);
                    }
                },
                Ending::Words(words, pause) => {
                    ready!(pause.as_mut().poll(context));
                    let words = std::mem::take(words);
                    self.ending = Ending::Break(Box::pin(tokio::time::sleep(AFTER_LAST_WORDS)));
                    return Poll::Ready(Some(Ok(words)));
                }
                Ending::Break(pause) => {
                    ready!(pause.as_mut().poll(context));
                    return Poll::Ready(Some(Err(io::Error::other(
                        "the query failed in mid-answer",
                    ))));
                }
            }
        }
    }
}

/// Settings that shape the reader's answer or lower its limits; anything else is for the writer.
pub fn reader_may_set(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "cancel_http_readonly_queries_on_client_close",
        "cast_string_to_dynamic_use_inference",
        "date_time_input_format",
        "date_time_output_format",
        "describe_include_subcolumns",
        "extremes",
        "join_use_nulls",
        "limit",
        "max_execution_time",
        "max_memory_usage",
        "max_result_bytes",
        "max_result_rows",
        "max_rows_to_read",
        "max_threads",
        "offset",
        "readonly",
        "result_overflow_mode",
        "send_progress_in_http_headers",
        "session_timezone",
        "timeout_overflow_mode",
    ];
    NAMES.contains(&name) || name.starts_with("output_format_")
}

fn is_insert(text: &[u8]) -> bool {
    crate::sql::Lexer::new(text)
        .next()
        .is_some_and(|token| token.is("INSERT"))
}

/// 128 random bits as text, from the standard library's per-process random keys.
pub(super) fn random_text() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!(
        "{:016x}{:016x}",
        RandomState::new().hash_one(0),
        RandomState::new().hash_one(1)
    )
}

/// The content type of a format.
pub fn content_type(format: &str) -> &'static str {
    match format.to_ascii_lowercase().as_str() {
        "json" | "jsoncompact" | "jsonstrings" => "application/json; charset=UTF-8",
        "jsoneachrow" | "jsoncompacteachrow" | "jsonlines" | "ndjson" => {
            "application/x-ndjson; charset=UTF-8"
        }
        "tabseparated" | "tsv" | "tabseparatedwithnames" | "tsvwithnames" => {
            "text/tab-separated-values; charset=UTF-8"
        }
        "csv" => "text/csv; charset=UTF-8; header=absent",
        "csvwithnames" => "text/csv; charset=UTF-8; header=present",
        "pretty" | "prettycompact" | "vertical" | "values" => "text/plain; charset=UTF-8",
        _ => "application/octet-stream",
    }
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // A query id with a line end in it is the client's own loss.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn text(status: u16, words: &str) -> Response {
    let mut response = Response::new(Body::from(words.to_owned()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(
        response.headers_mut(),
        "content-type",
        "text/plain; charset=UTF-8",
    );
    response
}

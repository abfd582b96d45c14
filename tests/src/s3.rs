//! A server of what memwide asks an object store for: put, put if there is none, get, a part, list, delete. It can be told to
//! misbehave. The decoder's own tests have it too.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use tokio::runtime::Builder;

/// The only bucket.
pub const BUCKET: &str = "bucket";

/// Who may use it.
pub const KEY_ID: &str = "id";
/// What this one signs with.
pub const SECRET: &str = "secret";

/// What goes wrong with puts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// Answered with 503.
    Busy,
    /// Kept, and answered with 503 all the same.
    AnswersLost,
}

#[derive(Debug, Default)]
struct Kept {
    objects: BTreeMap<String, Bytes>,
    trouble: Trouble,
    puts: u64,
}

/// The server; it runs until the process ends.
#[derive(Debug, Clone)]
pub struct S3 {
    endpoint: String,
    kept: Arc<Mutex<Kept>>,
}

impl S3 {
    /// Starts one on a port of its own.
    pub fn start() -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let (tell, told) = mpsc::sync_channel(1);
        let state = Arc::clone(&kept);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tell.send(format!("http://{address}")).unwrap();
                let limit = axum::extract::DefaultBodyLimit::disable();
                let app = Router::new().fallback(serve).layer(limit).with_state(state);
                axum::serve(listener, app).await.unwrap();
            });
        });
        let endpoint = told.recv().unwrap();
        Self { endpoint, kept }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How a process finds it and is let in.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "here".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    /// Puts go wrong from now on.
    pub fn set(&self, trouble: Trouble) {
        self.kept().trouble = trouble;
    }

    /// Puts that were asked for.
    pub fn puts(&self) -> u64 {
        self.kept().puts
    }

    /// Names and contents.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let kept = self.kept();
        let objects = kept.objects.iter();
        objects
            .map(|(name, bytes)| (name.clone(), bytes.to_vec()))
            .collect()
    }

    /// Removes the objects whose names have this in them.
    pub fn remove(&self, word: &str) {
        self.kept().objects.retain(|name, _| !name.contains(word));
    }

    /// Makes an object what it is to be.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.kept().objects.insert(name.to_owned(), bytes.into());
    }
}

fn answer(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert("etag", "\"1\"".parse().unwrap());
    let at = "Mon, 30 Nov 2026 00:00:00 GMT";
    headers.insert("last-modified", at.parse().unwrap());
    answer
}

/// A value of a query.
fn value(query: &str, name: &str) -> Option<String> {
    let mut values = query.split('&').filter_map(|one| one.split_once('='));
    let (_, value) = values.find(|(key, _)| *key == name)?;
    Some(value.replace("%2F", "/"))
}

fn list(objects: &BTreeMap<String, Bytes>, query: &str) -> Response {
    let start = value(query, "prefix").unwrap_or_default();
    let is_flat = value(query, "delimiter").is_none();
    let (mut listed, mut folders) = (String::new(), BTreeSet::new());
    for (key, bytes) in objects.iter().filter(|(key, _)| key.starts_with(&start)) {
        if !is_flat && let Some((folder, _)) = key[start.len()..].split_once('/') {
            folders.insert(format!("{start}{folder}/"));
            continue;
        }
        let size = bytes.len();
        write!(
            listed,
            "<Contents><Key>{key}</Key><LastModified>2026-11-30T00:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{size}</Size></Contents>"
        )
        .unwrap();
    }
    for folder in folders {
        write!(
            listed,
            "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
        )
        .unwrap();
    }
    answer(
        StatusCode::OK,
        format!("<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"),
    )
}

fn get(bytes: &Bytes, headers: &HeaderMap) -> Response {
    let range = headers.get("range").and_then(|range| {
        let (first, last) = range
            .to_str()
            .ok()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let Some((first, last)) = range else {
        return answer(StatusCode::OK, bytes.clone());
    };
    let last = last.min(bytes.len() - 1);
    let mut part = answer(StatusCode::PARTIAL_CONTENT, bytes.slice(first..=last));
    let of = format!("bytes {first}-{last}/{}", bytes.len());
    part.headers_mut()
        .insert("content-range", of.parse().unwrap());
    part
}

fn put(kept: &mut Kept, key: String, headers: &HeaderMap, body: Bytes) -> Response {
    kept.puts += 1;
    if kept.trouble == Trouble::Busy {
        return answer(StatusCode::SERVICE_UNAVAILABLE, "");
    }
    let only_new = headers
        .get("if-none-match")
        .is_some_and(|value| value == "*");
    if only_new && kept.objects.contains_key(&key) {
        return answer(StatusCode::PRECONDITION_FAILED, "");
    }
    kept.objects.insert(key, body);
    if kept.trouble == Trouble::AnswersLost {
        return answer(StatusCode::SERVICE_UNAVAILABLE, "");
    }
    answer(StatusCode::OK, "")
}

/// One request, keys as in the path: `/BUCKET/KEY`.
async fn serve(
    State(kept): State<Arc<Mutex<Kept>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut kept = kept.lock().unwrap();
    let signed = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap());
    if !signed.is_some_and(|signed| signed.contains(&format!("Credential={KEY_ID}/"))) {
        let text = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>";
        return answer(StatusCode::FORBIDDEN, text);
    }
    let path = uri.path().trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    if bucket != BUCKET {
        let text = "<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>";
        return answer(StatusCode::NOT_FOUND, text);
    }
    let query = uri.query().unwrap_or_default();
    match method {
        Method::PUT => put(&mut kept, key.to_owned(), &headers, body),
        Method::GET if key.is_empty() && query.contains("list-type=2") => {
            list(&kept.objects, query)
        }
        Method::GET => match kept.objects.get(key) {
            Some(bytes) => get(bytes, &headers),
            None => answer(StatusCode::NOT_FOUND, ""),
        },
        // Several at once: <Delete><Object><Key>…</Key></Object>…</Delete>.
        Method::POST if query.starts_with("delete") => {
            let body = String::from_utf8_lossy(&body).into_owned();
            let mut deleted = String::new();
            for named in body.split("<Key>").skip(1) {
                let key = named.split('<').next().unwrap();
                kept.objects.remove(key);
                write!(deleted, "<Deleted><Key>{key}</Key></Deleted>").unwrap();
            }
            answer(
                StatusCode::OK,
                format!("<DeleteResult>{deleted}</DeleteResult>"),
            )
        }
        Method::DELETE => {
            kept.objects.remove(key);
            answer(StatusCode::NO_CONTENT, "")
        }
        _ => answer(StatusCode::NOT_IMPLEMENTED, ""),
    }
}

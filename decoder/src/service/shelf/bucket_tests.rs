//! Against a server of what the bucket asks for: put, put if there is none, get, list, delete. Against another one where
//! `MEMWIDE_S3_TEST` names an empty place (`s3://BUCKET/START`) that the environment reaches; so it was tried on moto 5.2.

use super::super::blobs::one_of_several_succeeds;
use super::super::tests::{found, place};
use super::super::{Placed, Shelf};
use super::*;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use memwide_model::MappingId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock};

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

fn answer(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert("etag", "\"1\"".parse().unwrap());
    let at = "Mon, 30 Nov 2026 00:00:00 GMT";
    headers.insert("last-modified", at.parse().unwrap());
    answer
}

/// One request, keys as in the path: `/BUCKET/KEY`.
async fn serve(
    State(objects): State<Objects>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut objects = objects.lock().unwrap();
    let key = uri
        .path()
        .trim_start_matches("/bucket")
        .trim_start_matches('/')
        .to_owned();
    let query = uri.query().unwrap_or_default();
    match method {
        Method::PUT => {
            let only_new = headers
                .get("if-none-match")
                .is_some_and(|value| value == "*");
            if only_new && objects.contains_key(&key) {
                return answer(StatusCode::PRECONDITION_FAILED, "");
            }
            objects.insert(key, body);
            answer(StatusCode::OK, "")
        }
        Method::GET if key.is_empty() && query.contains("list-type=2") => {
            let mut listed = String::new();
            let start = query.split('&').find_map(|one| one.strip_prefix("prefix="));
            let start = start.unwrap_or_default().replace("%2F", "/");
            let of_start = objects.iter().filter(|(key, _)| key.starts_with(&start));
            for (key, bytes) in of_start {
                let size = bytes.len();
                write!(
                    listed,
                    "<Contents><Key>{key}</Key><LastModified>2026-11-30T00:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{size}</Size></Contents>"
                )
                .unwrap();
            }
            answer(
                StatusCode::OK,
                format!(
                    "<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
                ),
            )
        }
        Method::GET => match objects.get(&key) {
            Some(bytes) => answer(StatusCode::OK, bytes.clone()),
            None => answer(StatusCode::NOT_FOUND, ""),
        },
        // Several at once: <Delete><Object><Key>…</Key></Object>…</Delete>.
        Method::POST if query.starts_with("delete") => {
            let body = String::from_utf8_lossy(&body).into_owned();
            let mut deleted = String::new();
            for named in body.split("<Key>").skip(1) {
                let key = named.split('<').next().unwrap();
                objects.remove(key);
                write!(deleted, "<Deleted><Key>{key}</Key></Deleted>").unwrap();
            }
            answer(
                StatusCode::OK,
                format!("<DeleteResult>{deleted}</DeleteResult>"),
            )
        }
        Method::DELETE => {
            objects.remove(&key);
            answer(StatusCode::NO_CONTENT, "")
        }
        _ => answer(StatusCode::NOT_IMPLEMENTED, ""),
    }
}

/// Where the server of these tests listens; it runs until they end.
fn server() -> &'static str {
    static AT: OnceLock<String> = OnceLock::new();
    AT.get_or_init(|| {
        let (tell, told) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(format!("http://{}", listener.local_addr().unwrap()))
                    .unwrap();
                let app = Router::new().fallback(serve).with_state(Objects::default());
                axum::serve(listener, app).await.unwrap();
            });
        });
        told.recv().unwrap()
    })
}

/// A bucket that is empty under a start nobody else uses.
fn bucket(start: &str) -> Bucket {
    if let Ok(url) = std::env::var("MEMWIDE_S3_TEST") {
        return Bucket::open(&format!("{url}/{start}")).unwrap();
    }
    let builder = AmazonS3Builder::new()
        .with_endpoint(server())
        .with_allow_http(true)
        .with_region("here")
        .with_access_key_id("id")
        .with_secret_access_key("secret");
    Bucket::of(builder, &format!("s3://bucket/{start}")).unwrap()
}

#[test]
fn one_of_those_who_make_an_object_at_once_succeeds() {
    one_of_several_succeeds(&bucket("at-once"));
}

#[test]
fn tables_are_kept_and_found_by_another_decoder() {
    let one = Shelf::with(Box::new(bucket("tables")), 1 << 20, Duration::ZERO).unwrap();
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::New);
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::Known);
    let two = Shelf::with(Box::new(bucket("tables")), 1 << 20, Duration::ZERO).unwrap();
    assert_eq!(two.find(MappingId(7)).unwrap(), Some(found(1, b"dynamic")));
    assert_eq!(place(&two, 7, 3, b"debug"), Placed::New);
    assert!(one.look().unwrap().0);
    assert_eq!(one.find(MappingId(7)).unwrap(), Some(found(3, b"debug")));
}

#[test]
fn a_url_without_a_bucket_and_a_store_that_is_not_there_are_told() {
    for url in ["s3://", "s3:///start"] {
        let wrong = Bucket::open(url).unwrap_err();
        assert!(wrong.to_string().contains("names no bucket"), "{wrong}");
    }
    let nobody = AmazonS3Builder::new()
        .with_endpoint("http://127.0.0.1:1")
        .with_allow_http(true)
        .with_region("here")
        .with_access_key_id("id")
        .with_secret_access_key("secret");
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let bucket = Bucket::of(nobody.with_retry(retry), "s3://bucket/start").unwrap();
    assert!(bucket.list().is_err());
    assert!(bucket.create("a", b"1").is_err());
}

//! Against a server of what the bucket asks for. Against another one where `MEMWIDE_S3_TEST` names an empty place
//! (`s3://BUCKET/START`) that the environment reaches; so it was tried on moto 5.2.

use super::*;
use std::sync::OnceLock;

#[path = "../../tests/src/s3.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "a helper of another package, of which not all is needed here"
)]
pub(crate) mod s3;

use s3::{BUCKET, KEY_ID, S3, SECRET};

fn builder(endpoint: &str, key: &str) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("here")
        .with_access_key_id(key)
        .with_secret_access_key(SECRET)
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        })
}

/// A bucket of a server, under a start.
pub(crate) fn bucket_of(server: &S3, start: &str) -> Bucket {
    let builder = builder(server.endpoint(), KEY_ID);
    Bucket::of(builder, &format!("s3://{BUCKET}/{start}")).unwrap()
}

/// A bucket that is empty under a start nobody else uses.
pub(crate) fn bucket(start: &str) -> Bucket {
    static SERVER: OnceLock<S3> = OnceLock::new();
    if let Ok(url) = std::env::var("MEMWIDE_S3_TEST") {
        return Bucket::open(&format!("{url}/{start}")).unwrap();
    }
    bucket_of(SERVER.get_or_init(S3::start), start)
}

#[test]
fn objects_have_names_below_the_start_and_folders() {
    let bucket = bucket("names/of");
    assert_eq!(bucket.folders("").unwrap(), Vec::<String>::new());
    for name in ["a", "day/host/one", "day/host/two", "days/host/one"] {
        bucket.write(name, name.into()).unwrap();
    }
    let names = |folder: &str| {
        let mut listed = bucket.list(folder).unwrap();
        listed.sort_by(|one, two| one.name.cmp(&two.name));
        let of = listed
            .iter()
            .map(|one| format!("{} {}", one.name, one.bytes));
        of.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(names("day"), "day/host/one 12, day/host/two 12");
    assert_eq!(names("").split(", ").count(), 4);
    assert_eq!(bucket.folders("").unwrap(), ["day", "days"]);
    assert_eq!(bucket.folders("day").unwrap(), ["host"]);
    assert_eq!(bucket.read_range("day/host/one", 4..8).unwrap(), b"host");
    bucket
        .remove(&["a".to_owned(), "day/host/one".to_owned(), "none".to_owned()])
        .unwrap();
    assert_eq!(names("day"), "day/host/two 12");
    assert_eq!(bucket.read("a").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_url_without_a_bucket_a_wrong_key_and_a_store_that_is_not_there_are_told() {
    for url in ["s3://", "s3:///start"] {
        let wrong = Bucket::open(url).unwrap_err();
        assert!(wrong.to_string().contains("names no bucket"), "{wrong}");
    }
    let server = S3::start();
    let wrong = Bucket::of(builder(server.endpoint(), "another"), "s3://bucket/start").unwrap();
    let refused = wrong.list("").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
    let none = Bucket::of(builder(server.endpoint(), KEY_ID), "s3://another/start").unwrap();
    assert_eq!(none.folders("").unwrap_err().kind(), ErrorKind::NotFound);
    let nobody = builder("http://127.0.0.1:1", KEY_ID);
    let bucket = Bucket::of(nobody, "s3://bucket/start").unwrap();
    assert!(bucket.list("").is_err());
    assert!(bucket.create("a", b"1".to_vec()).is_err());
}

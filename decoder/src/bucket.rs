//! A bucket of an object store that speaks S3: objects by name below a common start. Symbol tables and the archive may lie there.
//!
//! Who may use it and where it is comes from the environment, as for every program that uses S3 (`AWS_ACCESS_KEY_ID`,
//! `AWS_REGION`, `AWS_ENDPOINT_URL`, …), or from the machine's role. What is put is signed with its SHA-256, so the store takes
//! it whole or not at all.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, RetryConfig};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// What is tried again, and how long in all.
const RETRIES: usize = 4;
const RETRY_FOR: Duration = Duration::from_secs(30);

/// Whether a place is named by a URL of a bucket.
pub(crate) fn is_url(place: &std::path::Path) -> bool {
    place.to_str().is_some_and(|text| text.starts_with("s3://"))
}

/// An object, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Below the start.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) written: SystemTime,
}

/// Objects under `s3://BUCKET/START`. All calls block.
#[derive(Debug)]
pub(crate) struct Bucket {
    url: String,
    store: Arc<dyn ObjectStore>,
    start: Path,
    /// Of a thread of its own, so that callers may be on any thread.
    runtime: Option<Runtime>,
}

impl Bucket {
    /// By its URL; asks nobody yet.
    pub(crate) fn open(url: &str) -> io::Result<Self> {
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_FOR,
            ..RetryConfig::default()
        };
        Self::of(AmazonS3Builder::from_env().with_retry(retry), url)
    }

    pub(crate) fn of(builder: AmazonS3Builder, url: &str) -> io::Result<Self> {
        // One that is there already is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let behind = url.strip_prefix("s3://").unwrap_or_default();
        let (bucket, start) = behind.split_once('/').unwrap_or((behind, ""));
        if bucket.is_empty() {
            let text = format!("{url} names no bucket: s3://BUCKET/START");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let store = builder.with_bucket_name(bucket).build();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("s3")
            .enable_all()
            .build();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            store: Arc::new(store.map_err(io_error)?),
            start: parse(start)?,
            runtime: Some(runtime?),
        })
    }

    /// How people call an object, or the whole (`""`).
    pub(crate) fn shown(&self, name: &str) -> String {
        if name.is_empty() {
            self.url.clone()
        } else {
            format!("{}/{name}", self.url)
        }
    }

    /// Waits for an answer.
    fn wait<T: Send + 'static>(
        &self,
        asked: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> io::Result<Result<T, Error>> {
        let (answer, answered) = mpsc::sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { answer.send(asked.await) });
        }
        answered.recv().map_err(io::Error::other)
    }

    fn key(&self, name: &str) -> io::Result<Path> {
        if name.is_empty() {
            return Ok(self.start.clone());
        }
        parse(&format!("{}/{name}", self.start))
    }

    /// All objects below a folder; `""`: below the start.
    pub(crate) fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let (store, from) = (Arc::clone(&self.store), self.key(folder)?);
        let listed = self.wait(async move { store.list(Some(&from)).try_collect().await })?;
        let listed: Vec<object_store::ObjectMeta> = listed.map_err(io_error)?;
        let named = listed.into_iter().filter_map(|object| {
            let name = self.below(&object.location)?;
            Some(Listed {
                name,
                bytes: object.size,
                written: object.last_modified.into(),
            })
        });
        Ok(named.collect())
    }

    /// Names of the folders right below a folder.
    pub(crate) fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let (store, from) = (Arc::clone(&self.store), self.key(folder)?);
        let listed = self.wait(async move { store.list_with_delimiter(Some(&from)).await })?;
        let listed = listed.map_err(io_error)?.common_prefixes;
        let names = listed.iter().filter_map(|path| path.filename());
        Ok(names.map(str::to_owned).collect())
    }

    fn below(&self, location: &Path) -> Option<String> {
        let parts: Vec<_> = location.prefix_match(&self.start)?.collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        Some(parts.join("/"))
    }

    /// One object; [`ErrorKind::NotFound`] if there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let (store, key) = (Arc::clone(&self.store), self.key(name)?);
        let read = self.wait(async move { store.get(&key).await?.bytes().await })?;
        Ok(read.map_err(io_error)?.into())
    }

    /// A part of one.
    pub(crate) fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (store, key) = (Arc::clone(&self.store), self.key(name)?);
        let read = self.wait(async move { store.get_range(&key, range).await })?;
        Ok(read.map_err(io_error)?.into())
    }

    /// Makes or replaces an object: readers see the old or the new one, whole.
    pub(crate) fn write(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.put(name, bytes, PutMode::Overwrite)?.map_err(io_error)
    }

    /// Makes an object if there is none of the name; says whether it did.
    pub(crate) fn create(&self, name: &str, bytes: Vec<u8>) -> io::Result<bool> {
        match self.put(name, bytes, PutMode::Create)? {
            Ok(()) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(io_error(error)),
        }
    }

    fn put(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> io::Result<Result<(), Error>> {
        let payload = PutPayload::from(bytes);
        let (store, key) = (Arc::clone(&self.store), self.key(name)?);
        self.wait(async move {
            store.put_opts(&key, payload, mode.into()).await?;
            Ok(())
        })
    }

    /// Removes objects; those that are not there are removed.
    pub(crate) fn remove(&self, names: &[String]) -> io::Result<()> {
        let store = Arc::clone(&self.store);
        let keys: io::Result<Vec<Path>> = names.iter().map(|name| self.key(name)).collect();
        let keys = stream::iter(keys?.into_iter().map(Ok)).boxed();
        let removed = self.wait(async move {
            let removed = store.delete_stream(keys);
            removed.try_collect::<Vec<Path>>().await
        })?;
        match removed {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(io_error(error)),
        }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // waiting is not allowed on every thread
        }
    }
}

fn parse(key: &str) -> io::Result<Path> {
    Path::parse(key).map_err(|error| io_error(error.into()))
}

fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            ErrorKind::PermissionDenied
        }
        // Of a list the client tells the status in words only.
        Error::Generic { source, .. } => {
            let text = memwide_service::telemetry::Chain(source.as_ref()).to_string();
            match text
                .split("status code: ")
                .nth(1)
                .and_then(|text| text.get(..3))
            {
                Some("401" | "403") => ErrorKind::PermissionDenied,
                Some("404") => ErrorKind::NotFound,
                _ => ErrorKind::Other,
            }
        }
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
pub(crate) mod tests;

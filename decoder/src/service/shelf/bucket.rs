//! Objects in a bucket of an object store that speaks S3, their keys with a common start.
//!
//! Who may use it and where it is comes from the environment, as for every program that uses S3 (`AWS_ACCESS_KEY_ID`,
//! `AWS_REGION`, `AWS_ENDPOINT_URL`, …), or from the machine's role.

use super::blobs::{Blobs, Entry};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, RetryConfig,
};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// End of the keys of empty objects that say when another was used last: objects themselves are never changed.
const USED: &str = ".used";

/// What is tried again, and how long in all.
const RETRIES: usize = 4;
const RETRY_FOR: Duration = Duration::from_secs(30);

/// Objects under `s3://BUCKET/START`.
#[derive(Debug)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    start: Path,
    /// Of a thread of its own, so that callers may be on any thread.
    runtime: Option<Runtime>,
}

impl Bucket {
    /// By its URL; asks nobody yet.
    pub(super) fn open(url: &str) -> io::Result<Self> {
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_FOR,
            ..RetryConfig::default()
        };
        Self::of(AmazonS3Builder::from_env().with_retry(retry), url)
    }

    fn of(builder: AmazonS3Builder, url: &str) -> io::Result<Self> {
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
            store: Arc::new(store.map_err(io_error)?),
            start: Path::parse(start).map_err(|error| io_error(error.into()))?,
            runtime: Some(runtime?),
        })
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

    fn key(&self, name: &str) -> Path {
        self.start.clone().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8], mode: PutMode) -> io::Result<Result<(), Error>> {
        let payload = PutPayload::from(bytes.to_vec());
        let (store, key) = (Arc::clone(&self.store), self.key(name));
        self.wait(async move {
            store.put_opts(&key, payload, mode.into()).await?;
            Ok(())
        })
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // waiting is not allowed on every thread
        }
    }
}

impl Blobs for Bucket {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let (store, start) = (Arc::clone(&self.store), self.start.clone());
        let listed = self.wait(async move { store.list(Some(&start)).try_collect().await })?;
        let listed: Vec<ObjectMeta> = listed.map_err(io_error)?;
        let (mut all, mut used) = (Vec::new(), HashMap::new());
        for object in listed {
            let Some(name) = object.location.filename() else {
                continue;
            };
            let at = SystemTime::from(object.last_modified);
            match name.strip_suffix(USED) {
                Some(of) => drop(used.insert(of.to_owned(), at)),
                None => all.push(Entry {
                    name: name.to_owned(),
                    bytes: object.size,
                    used: at,
                }),
            }
        }
        for entry in &mut all {
            if let Some(at) = used.get(&entry.name) {
                entry.used = entry.used.max(*at);
            }
        }
        Ok(all)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let (store, key) = (Arc::clone(&self.store), self.key(name));
        let read = self.wait(async move { store.get(&key).await?.bytes().await })?;
        Ok(read.map_err(io_error)?.into())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes, PutMode::Overwrite)?.map_err(io_error)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        match self.put(name, bytes, PutMode::Create)? {
            Ok(()) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(io_error(error)),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let store = Arc::clone(&self.store);
        let keys = [self.key(name), self.key(&format!("{name}{USED}"))].map(Ok);
        let removed = self.wait(async move {
            let removed = store.delete_stream(stream::iter(keys).boxed());
            removed.try_collect::<Vec<Path>>().await
        })?;
        match removed {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(io_error(error)),
        }
    }

    fn touch(&self, name: &str) -> io::Result<()> {
        self.write(&format!("{name}{USED}"), &[])
    }
}

fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            ErrorKind::PermissionDenied
        }
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;

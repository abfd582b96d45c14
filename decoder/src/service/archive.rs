//! The archive while the process runs: opened, kept within its bounds, put up into an object store.

use super::{Config, ServeError};
use crate::archive::{Archive, ArchiveError, Up};
use crate::bucket::{self, Bucket};
use memwide_service::CancellationToken;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause between two looks at what of the archive is too old or too much.
const SWEEP_EVERY: Duration = Duration::from_secs(20);

/// Pause between two looks at what can go up, and the longest one while nothing can.
const UP_EVERY: Duration = Duration::from_secs(2);
const UP_AT_LEAST_EVERY: Duration = Duration::from_mins(1);

/// Looks at what can go up between two at what is too old there.
const RETAIN_EVERY: u32 = 300;

/// An object store that does not answer so long at the start may come later.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// After the last stream has ended, what it closed has so long to go up; the next start does the rest.
const UP_AT_THE_END: Duration = Duration::from_secs(10);

/// What does not fit together.
pub(super) fn check(config: &Config) -> Result<(), ServeError> {
    let wrong = |text: &str| Err(ServeError::Config(text.to_owned()));
    let has_others = config.archive_required
        || !config.archive_key_file.as_os_str().is_empty()
        || !config.archive_url.is_empty();
    if config.archive_dir.as_os_str().is_empty() && has_others {
        return wrong(
            "`archive_dir` is empty, and other keys of the archive are set; name a folder (with `archive_url`: in which batches \
             lie before they go up)",
        );
    }
    if bucket::is_url(&config.archive_dir) {
        return wrong(
            "`archive_dir` is a URL; give it as `archive_url`, and as `archive_dir` a folder in which batches lie before they go up",
        );
    }
    if !config.archive_url.is_empty() && !bucket::is_url(Path::new(&config.archive_url)) {
        return wrong("`archive_url` is no URL of an object store; write s3://BUCKET/START");
    }
    if config.archive_close_s == 0 {
        return wrong("`archive_close_s` must be at least 1");
    }
    Ok(())
}

/// The archive, where one is asked for.
pub(super) async fn open(config: &Config) -> Result<Option<Arc<Archive>>, ServeError> {
    if config.archive_dir.as_os_str().is_empty() {
        return Ok(None);
    }
    let url = config.archive_url.clone();
    let up = if url.is_empty() {
        None
    } else {
        let away = |source| {
            let place = url.clone().into();
            ServeError::Archive(ArchiveError::Bucket { place, source })
        };
        let bucket = Arc::new(Bucket::open(&url).map_err(away)?);
        let asked = Arc::clone(&bucket);
        let asking = tokio::task::spawn_blocking(move || asked.folders(""));
        match tokio::time::timeout(ANSWERS_WITHIN, asking).await {
            Ok(Ok(Err(error))) if is_final(error.kind()) => return Err(away(error)),
            Ok(Ok(Ok(_))) => {}
            _ => tracing::warn!(
                url,
                "the object store of the archive does not answer; batches wait in archive_dir"
            ),
        }
        Some(Up {
            bucket,
            close_after: config.archive_close(),
        })
    };
    let (root, key) = (config.archive_dir.clone(), config.archive_key_file.clone());
    let (bytes_max, days) = (config.archive_bytes_max, config.archive_days);
    let opening = move || Archive::open(&root, &key, bytes_max, days, up);
    match tokio::task::spawn_blocking(opening).await {
        Ok(opened) => Ok(Some(Arc::new(opened?))),
        Err(error) => Err(ServeError::Config(error.to_string())),
    }
}

/// Asking again does not help.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::NotFound)
}

/// Keeps the archive within its bounds, as long as the process runs.
pub(super) async fn sweep(archive: Arc<Archive>, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        let archive = Arc::clone(&archive);
        let swept = tokio::task::spawn_blocking(move || archive.sweep()).await?;
        if let Err(error) = swept {
            tracing::warn!(%error, "the archive cannot be looked through; what is too old or too much stays");
        }
    }
}

/// Puts up what nobody writes to, as long as the process runs.
pub(super) async fn put_up(archive: Arc<Archive>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut backoff = Backoff::new(UP_EVERY, UP_AT_LEAST_EVERY);
    let ending = Arc::new(AtomicBool::new(false));
    let (mut pause, mut looks) = (UP_EVERY, 0_u32);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        let (up, end) = (Arc::clone(&archive), Arc::clone(&ending));
        let is_due = looks.is_multiple_of(RETAIN_EVERY);
        looks = looks.wrapping_add(1);
        let work = move || {
            up.put_up(&end)?;
            if is_due && let Err(error) = up.retain() {
                tracing::warn!(%error, "the object store of the archive cannot be looked through; days that are too old stay");
            }
            Ok(())
        };
        let put = tokio::select! {
            () = stop.cancelled() => {
                // ATOMICS: a wish to end, see there.
                ending.store(true, Ordering::Relaxed);
                return Ok(());
            }
            put = tokio::task::spawn_blocking(work) => put?,
        };
        pause = match put {
            Ok(()) => {
                backoff.reset();
                UP_EVERY
            }
            Err(error) => {
                told(&error, backoff.attempts());
                backoff.next_pause()
            }
        };
    }
}

/// Once when it begins, and again about once a minute.
fn told(error: &crate::archive::UploadError, attempts: u32) {
    let error = Chain(error);
    if attempts == 0 || attempts > 4 {
        tracing::error!(%error, "batches of the archive do not go up; they wait in archive_dir");
    }
}

/// Puts up what was closed last.
pub(super) async fn put_up_rest(archive: Arc<Archive>) {
    let ending = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ending);
    let put = tokio::task::spawn_blocking(move || archive.put_up(&end));
    match tokio::time::timeout(UP_AT_THE_END, put).await {
        Ok(Ok(Err(error))) => told(&error, 0),
        Ok(_) => {}
        Err(_) => {
            // ATOMICS: a wish to end, see there.
            ending.store(true, Ordering::Relaxed);
            tracing::warn!("not all of the archive went up; the rest goes up after the next start");
        }
    }
}

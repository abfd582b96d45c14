//! When a collector and a decoder can do their work, as `/readyz` of their role says.

use memwide_collector::Status;
use memwide_service::admin::Readiness;
use rustix::fs::{Access, access};
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A connection that takes longer does not count.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// `rings`: events are open; `delivery`: a decoder takes batches, or else the spool can keep them meanwhile.
pub(super) async fn collector(
    readiness: &Readiness,
    status: watch::Receiver<Status>,
    spool: &Path,
) -> Infallible {
    let rings = readiness.expect("rings", "events are not open yet");
    let delivery = readiness.expect("delivery", "not tried yet");
    let look = || {
        let now = status.borrow();
        if now.source.is_some() {
            rings.holds();
        }
        std::future::ready(delivered(&now, spool))
    };
    delivery.keep(look).await
}

fn delivered(status: &Status, spool: &Path) -> Result<(), String> {
    if !status.unwritten.is_empty() {
        // Samples are lost meanwhile, decoder or not.
        return Err(status.unwritten.clone());
    }
    if status.connected {
        return Ok(());
    }
    let why_not = match status.connection_error.as_str() {
        "" => "no decoder takes batches yet",
        error => error,
    };
    access(spool, Access::WRITE_OK).map_err(|errno| {
        format!(
            "{why_not}, and the spool {} cannot be written: {errno}",
            spool.display()
        )
    })
}

/// `aggregators`: each of them can be connected to. The listener is open before this is called.
pub(super) async fn decoder(readiness: &Readiness, aggregators: &[String]) -> Infallible {
    let condition = readiness.expect("aggregators", "not tried yet");
    condition.keep(|| reachable(aggregators)).await
}

async fn reachable(urls: &[String]) -> Result<(), String> {
    let mut away = Vec::new();
    for url in urls {
        let address = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let connected = tokio::time::timeout(
            CONNECT_WITHIN,
            TcpStream::connect(address.trim_end_matches('/')),
        );
        match connected.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => away.push(format!("{url}: {error}")),
            Err(_) => away.push(format!("{url}: no answer within {CONNECT_WITHIN:?}")),
        }
    }
    if away.is_empty() {
        Ok(())
    } else {
        Err(away.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_without_a_decoder_delivers_into_its_spool() {
        let folder = tempfile::tempdir().unwrap();
        let away = Status {
            connection_error: "connection refused".to_owned(),
            ..Status::default()
        };
        assert_eq!(delivered(&away, folder.path()), Ok(()));
        let gone = folder.path().join("gone");
        let why = delivered(&away, &gone).unwrap_err();
        assert!(
            why.starts_with("connection refused, and the spool"),
            "{why}"
        );
        let connected = Status {
            connected: true,
            ..away
        };
        assert_eq!(delivered(&connected, &gone), Ok(()));
        let full = Status {
            unwritten: "cannot write to spool".to_owned(),
            ..connected
        };
        assert_eq!(delivered(&full, folder.path()), Err(full.unwritten.clone()));
    }

    #[tokio::test]
    async fn an_aggregator_that_does_not_listen_is_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = format!("http://{}", listener.local_addr().unwrap());
        assert_eq!(reachable(std::slice::from_ref(&there)).await, Ok(()));
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = format!("http://{}", taken.local_addr().unwrap());
        drop(taken);
        let why = reachable(&[there, gone.clone()]).await.unwrap_err();
        assert!(why.starts_with(&gone) && !why.contains(';'), "{why}");
    }
}

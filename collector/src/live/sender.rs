//! The thread that sends: a runtime of its own, so that batches never wait for another service of the process, and handing
//! one on wakes no other thread.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use memwide_service::CancellationToken;
use tokio::sync::oneshot;

use super::waits::NoDecoder;
use crate::spool::{Epoch, Spool};
use crate::status::Reporter;
use crate::uplink::{
    self, BatchStore, Observer, Settings, SymbolProvider, UplinkError, UplinkEvent,
};

/// Sends this run's batches and those of earlier runs.
pub(super) struct Sender {
    pub(super) endpoint: String,
    pub(super) spool: Arc<Spool>,
    pub(super) epoch: Arc<Epoch>,
    pub(super) symbols: Arc<dyn SymbolProvider>,
    pub(super) settings: Arc<dyn Settings>,
    pub(super) observer: Observer,
    pub(super) stop: CancellationToken,
}

impl Sender {
    /// Ends when everything is acked, when it is stopped, or when it cannot go on.
    pub(super) fn start(self) -> io::Result<oneshot::Receiver<Result<(), UplinkError>>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("mw-symbols")
            .build()?;
        let (ended, end) = oneshot::channel();
        let thread = std::thread::Builder::new().name("mw-uplink".to_owned());
        thread.spawn(move || {
            let sent = runtime.block_on(self.send());
            // A symbol table that is being read is of no use any more; the spool must be free for the next run.
            runtime.shutdown_background();
            drop(self);
            // Nobody waits for it when the collector was dropped.
            drop(ended.send(sent));
        })?;
        Ok(end)
    }

    async fn send(&self) -> Result<(), UplinkError> {
        let own = uplink::run(
            &self.endpoint,
            self.epoch.clone(),
            self.symbols.clone(),
            self.settings.clone(),
            self.observer.clone(),
            self.stop.clone(),
        );
        let earlier = async {
            self.send_earlier().await;
            Ok(())
        };
        tokio::try_join!(own, earlier).map(drop)
    }

    /// Sends what earlier runs left, one after the other, each under its own source.
    async fn send_earlier(&self) {
        for epoch in self.spool.epochs() {
            if Arc::ptr_eq(&epoch, &self.epoch) {
                continue;
            }
            let quiet: Observer = Arc::new(|_| ());
            let store: Arc<dyn BatchStore> = epoch.clone();
            let sent = uplink::run(
                &self.endpoint,
                store,
                self.symbols.clone(),
                self.settings.clone(),
                quiet,
                self.stop.clone(),
            )
            .await;
            if self.stop.is_cancelled() {
                return;
            }
            let over = match sent {
                Ok(()) => true,
                Err(UplinkError::Refused {
                    reason, message, ..
                }) => {
                    let batches = epoch.unacked();
                    tracing::error!(
                        reason,
                        message,
                        batches,
                        "an earlier run's batches are refused for good"
                    );
                    reason == "expired"
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "an earlier run's batches cannot be sent");
                    false
                }
            };
            if over {
                let spool = self.spool.clone();
                let retired = tokio::task::spawn_blocking(move || spool.retire(&epoch)).await;
                if let Ok(Err(error)) = retired {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "an earlier run's folder stays");
                }
            }
        }
    }
}

/// Tells the status what happens on the uplink.
pub(super) fn observe(reporter: Reporter) -> Observer {
    let away = Mutex::new(NoDecoder::default());
    Arc::new(move |event| {
        let mut away = away.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            UplinkEvent::Connected => away.connected(),
            UplinkEvent::Disconnected(why) => away.failed(why),
            UplinkEvent::Acked(_) => {}
        }
        reporter.update(|status| match event {
            UplinkEvent::Connected => {
                status.connected = true;
                status.connection_error.clear();
            }
            UplinkEvent::Disconnected(why) => {
                status.connected = false;
                status.connection_error = why;
            }
            UplinkEvent::Acked(through) => status.acked = through,
        });
    })
}

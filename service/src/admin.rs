//! `/healthz /readyz /metrics /config /version`, and binding a port.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::build_info::BUILD;
use crate::metrics::Registry;

mod holder;

/// Pause between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Named conditions that must hold before the process can do its work; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

impl Readiness {
    /// No conditions: ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a condition that does not hold yet, with the reason.
    pub fn expect(&self, name: &'static str, why_not: impl Into<String>) -> Condition {
        let condition = Condition {
            name,
            of: self.clone(),
        };
        condition.fails(why_not);
        condition
    }

    /// What does not hold now, with reasons; empty: ready.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let conditions = self.lock();
        let missing = conditions
            .iter()
            .filter_map(|(name, why_not)| Some((*name, why_not.clone()?)));
        missing.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        let guard = self.conditions.lock();
        guard.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One condition of a [`Readiness`].
#[derive(Debug, Clone)]
pub struct Condition {
    name: &'static str,
    of: Readiness,
}

impl Condition {
    /// It holds.
    pub fn holds(&self) {
        self.of.lock().insert(self.name, None);
    }

    /// It does not hold, for this reason.
    pub fn fails(&self, why_not: impl Into<String>) {
        self.of.lock().insert(self.name, Some(why_not.into()));
    }

    /// Sets it by the outcome of a look.
    pub fn set(&self, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.holds(),
            Err(why_not) => self.fails(why_not),
        }
    }

    /// Looks every two seconds, for ever: to be run beside the work it is about.
    pub async fn keep<F>(self, mut look: impl FnMut() -> F) -> Infallible
    where
        F: Future<Output = Result<(), String>>,
    {
        loop {
            self.set(look().await);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// What the admin endpoints of a process show.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Name of the service, as `collector`.
    pub service: &'static str,
    /// Metrics of this process.
    pub registry: Arc<Registry>,
    /// Conditions of `/readyz`.
    pub readiness: Readiness,
    /// The resolved configuration with its origins, secrets redacted.
    pub config: serde_json::Value,
}

impl Admin {
    /// The endpoints, to be served alone or merged into a larger router.
    pub fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/config", get(config))
            .route("/version", get(version))
            .with_state(Arc::new(self))
    }
}

async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    let missing = admin.readiness.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let mut text = String::new();
    for (name, why_not) in missing {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(&why_not);
        text.push('\n');
    }
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (content_type, admin.registry.render()).into_response()
}

async fn config(State(admin): State<Arc<Admin>>) -> Response {
    Json(&admin.config).into_response()
}

async fn version(State(admin): State<Arc<Admin>>) -> Response {
    let answer = serde_json::json!({ "service": admin.service, "build": BUILD });
    Json(answer).into_response()
}

/// Why an address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another process listens there.
    #[error("{address} is taken by {holder}; stop it or choose another address with `{setting}`")]
    Taken {
        /// The address asked for.
        address: SocketAddr,
        /// Who holds it, as far as can be seen.
        holder: String,
        /// The flag or key that chooses the address.
        setting: &'static str,
    },
    /// Ports below 1024 need a capability.
    #[error("may not listen on {address}; choose a port above 1023 with `{setting}`")]
    Forbidden {
        /// The address asked for.
        address: SocketAddr,
        /// The flag or key that chooses the address.
        setting: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// This host has no such address, or it failed otherwise.
    #[error("cannot listen on {address}, given by `{setting}`")]
    Other {
        /// The address asked for.
        address: SocketAddr,
        /// The flag or key that chooses the address.
        setting: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Listens on `address`; `setting` is the flag or key that a person changes when it is taken.
pub async fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener, BindError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::AddrInUse => BindError::Taken {
                address,
                holder: holder::of_port(address.port()),
                setting,
            },
            std::io::ErrorKind::PermissionDenied => BindError::Forbidden {
                address,
                setting,
                source,
            },
            _ => BindError::Other {
                address,
                setting,
                source,
            },
        })
}

/// Serves `router` until `stop` is cancelled and the requests under way are answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let graceful =
        axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    Ok(graceful.await?)
}

#[cfg(test)]
mod tests;

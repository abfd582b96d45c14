//! The listener: HTTP/1.1, HTTP/2 without TLS, gRPC and the admin endpoints on one port.

use std::sync::Arc;

use memwide_service::CancellationToken;
use memwide_service::admin::{self, Admin, Readiness};
use memwide_service::clock;
use memwide_service::metrics::Registry;
use memwide_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Config;
use crate::rules::{self, Rules};
use crate::service::Service;
use crate::status::StatusDetail;
use crate::{grpc, http, metrics};

/// The query service as a process of its own: the store is the one at `config.store`. `/metrics` tells of the metrics in
/// `beside` too, those of what else runs in the process.
///
/// Condition of `readiness`: `store` (answers).
pub async fn serve(
    config: Config,
    listener: TcpListener,
    readiness: Readiness,
    beside: Registry,
    stop: CancellationToken,
    status: watch::Receiver<StatusDetail>,
) -> anyhow::Result<()> {
    let url = config
        .store
        .expose()
        .ok_or_else(|| anyhow::anyhow!("`store` is not set: give the URL of the store"))?;
    let (_kept, stores) = watch::channel(Some(Store::from_url(url)?));
    let admin = Admin {
        service: "query",
        registry: Arc::new(beside.with(metrics::ALL)),
        readiness,
        config: serde_json::to_value(&config)?,
    };
    let rules = Rules::new(config.rules.clone(), clock::unix_ns())?;
    serve_with(
        Service::new(config.limits, stores, status).with_rules(rules),
        admin,
        listener,
        stop,
    )
    .await
}

/// The query service within a larger process, which brings the store and the admin endpoints.
///
/// A condition `store` is added to the admin's readiness.
pub async fn serve_with(
    service: Service,
    admin: Admin,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let loopback = listener.local_addr()?.ip().is_loopback();
    let condition = admin.readiness.expect("store", "not asked yet");
    let router = http::router(service.clone(), loopback)
        .route_service("/memwide.v1.Query/{*method}", grpc::server(service.clone()))
        .merge(admin.router());
    tokio::select! {
        () = rules::keep(service.clone()) => anyhow::bail!("nobody keeps the rules"),
        served = admin::serve(listener, router, stop) => served,
        never = condition.keep(|| async { service.status().await.store }) => match never {},
    }
}

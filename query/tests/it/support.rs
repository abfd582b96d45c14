//! A service over a fresh engine with known rows, on a port of its own.

use std::sync::Arc;
use std::time::Duration;

use memwide_query::{Limits, Rules, Service, StatusDetail};
use memwide_service::CancellationToken;
use memwide_service::admin::{Admin, Readiness};
use memwide_service::metrics::Registry;
use memwide_store::Store;
use memwide_store::engine::Child;
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::{engine, truth};

/// A running service and what stands behind it.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) store: Store,
    pub(crate) status: watch::Sender<StatusDetail>,
    pub(crate) stores: watch::Sender<Option<Store>>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<anyhow::Result<()>>,
    child: Child,
    _folder: TempDir,
}

/// What an HTTP request was answered with.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) completeness: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) page: Option<String>,
    pub(crate) policy: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The rows of an answer as objects by column name.
    pub(crate) fn records(&self) -> Vec<Json> {
        let answer = self.json();
        assert_eq!(self.status, 200, "{answer}");
        objects(&answer)
    }

    /// The same of a part.
    pub(crate) fn part(&self, name: &str) -> Vec<Json> {
        let answer = self.json();
        assert_eq!(self.status, 200, "{answer}");
        let mut parts = answer["parts"].as_array().unwrap().iter();
        objects(parts.find(|part| part["name"] == name).unwrap())
    }
}

fn objects(table: &Json) -> Vec<Json> {
    let columns = table["columns"].as_array().unwrap().iter();
    let names: Vec<String> = columns
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .collect();
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let cells = row.as_array().unwrap().iter().cloned();
        names.iter().cloned().zip(cells).collect()
    })
    .collect()
}

/// Starts everything with [`truth::rows`]; `None` where there is no engine.
pub(crate) async fn running() -> Option<Running> {
    running_with(Limits::default()).await
}

pub(crate) async fn running_with(limits: Limits) -> Option<Running> {
    running_by(limits, Rules::default()).await
}

/// The same with standing rules.
pub(crate) async fn running_by(limits: Limits, rules: Rules) -> Option<Running> {
    let folder = tempfile::tempdir().unwrap();
    let child = engine::start(&folder.path().join("engine")).await?;
    let store = child.store("memwide").unwrap();
    store.migrate().await.unwrap();
    truth::insert(&store).await;
    let (stores, watched) = watch::channel(Some(child.reader("memwide").unwrap()));
    let (status, detail) = watch::channel(StatusDetail::default());
    let admin = Admin {
        service: "query",
        registry: Arc::new(Registry::new().with(memwide_query::metrics::ALL)),
        readiness: Readiness::new(),
        config: Json::Null,
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let service = Service::new(limits, watched, detail).with_rules(rules);
    let served = tokio::spawn(memwide_query::serve_with(
        service,
        admin,
        listener,
        stop.clone(),
    ));
    Some(Running {
        url,
        store,
        status,
        stores,
        stop,
        served,
        child,
        _folder: folder,
    })
}

impl Running {
    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    /// `POST /api/v1/sql`.
    pub(crate) async fn sql(&self, body: Json) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send("POST", "/api/v1/sql", &headers, Some(body.to_string()))
            .await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Reply {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(2)))
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.unwrap_or_default()).unwrap();
        tokio::task::spawn_blocking(move || {
            let mut response = agent.run(request).unwrap();
            let header = |name: &str| {
                response
                    .headers()
                    .get(name)
                    .map(|value| value.to_str().unwrap_or_default().to_owned())
            };
            Reply {
                status: response.status().as_u16(),
                content_type: header("content-type").unwrap_or_default(),
                completeness: header("memwide-completeness"),
                notes: header("memwide-notes"),
                page: header("memwide-page"),
                policy: header("content-security-policy").unwrap_or_default(),
                body: response.body_mut().read_to_vec().unwrap(),
            }
        })
        .await
        .unwrap()
    }

    /// Stops the service, then the engine.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        self.child.stop(Duration::from_secs(20)).await.unwrap();
    }
}

/// A text within a URL.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |url, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            url + &char::from(byte).to_string()
        }
        _ => url + &format!("%{byte:02X}"),
    })
}

/// Takes out of rows what is told of now: two answers differ in it.
pub(crate) fn forget_now(columns: &Json, rows: &mut Json) {
    let columns = columns.as_array().unwrap().iter();
    let is_of_now = columns.map(|column| column["name"] == "silent_seconds");
    for (at, _) in is_of_now.enumerate().filter(|(_, is)| *is) {
        for row in rows.as_array_mut().unwrap() {
            row[at] = Json::Null;
        }
    }
}

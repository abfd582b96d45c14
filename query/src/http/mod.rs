//! HTTP: routes, what every answer carries, and problems as documents.

mod clickhouse;
mod export;
mod hosts;
mod links;
mod openapi;
mod page;
mod questions;
mod render;
mod sql;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;

use crate::ask::Name;
use crate::problem::{Class, Problem};
use crate::service::Service;

pub(crate) use sql::{Format, Statement, run as run_sql};

/// Nothing from elsewhere, nothing inline: names in answers are hostile.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                              img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Paths of the API that are no questions, and their methods.
const FURTHER: &[(&str, &[&str])] = &[
    ("/api/v1/sql", &["get", "post"]),
    ("/api/v1/status", &["get"]),
    ("/api/v1/rules", &["get"]),
    ("/api/v1/openapi.json", &["get"]),
];

/// Paths of the API and their methods; the document and the router are held to it by a test.
pub(crate) fn paths() -> Vec<(String, &'static [&'static str])> {
    let question = |name: &Name| (format!("/api/v1/{}", name.name()), &["get"] as &[&str]);
    let export = |export: &export::Export| (export.path().to_owned(), &["get"] as &[&str]);
    let further = FURTHER.iter();
    let further = further.map(|(path, methods)| ((*path).to_owned(), *methods));
    let exports = export::Export::ALL.iter().map(export);
    Name::ALL
        .iter()
        .map(question)
        .chain(exports)
        .chain(further)
        .collect()
}

/// The routes of page and API. `loopback`: the listener is on loopback only, so a request that names another host was
/// led here by a page of that host, and is refused.
pub(crate) fn router(service: Service, loopback: bool) -> Router {
    let mut router = Router::new();
    for name in Name::ALL {
        let answer =
            move |service, query, headers| questions::answer(*name, service, query, headers);
        router = router.route(&format!("/api/v1/{}", name.name()), get(answer));
    }
    for export in export::Export::ALL {
        let answer =
            move |service, query, headers| export::answer(*export, service, query, headers);
        router = router.route(export.path(), get(answer));
    }
    let router = router
        .route(
            "/api/v1/sql",
            get(sql::get)
                .post(sql::post)
                .layer(DefaultBodyLimit::max(sql::BODY_BYTES_MAX)),
        )
        .route("/api/v1/status", get(status))
        .route("/api/v1/rules", get(rules))
        .route(
            "/api/v1/openapi.json",
            get(|| async { Json(openapi::document()) }),
        )
        .route(
            "/",
            get(clickhouse::get)
                .post(clickhouse::post)
                .layer(DefaultBodyLimit::max(sql::BODY_BYTES_MAX)),
        )
        .route("/ping", get(clickhouse::ping))
        .route("/app.js", get(page::script))
        .route("/question.js", get(page::question))
        .route("/style.css", get(page::style))
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        .with_state(service);
    let router = if loopback {
        router.layer(middleware::from_fn(hosts::only_loopback))
    } else {
        router
    };
    router.layer(middleware::map_response(guarded_headers))
}

async fn status(State(service): State<Service>) -> Response {
    Json(service.status().await.to_json()).into_response()
}

async fn rules(State(service): State<Service>) -> Response {
    Json(service.rules().to_json()).into_response()
}

async fn not_found(uri: Uri) -> Problem {
    let paths: Vec<String> = paths().into_iter().map(|(path, _)| path).collect();
    Problem {
        class: Class::NotFound,
        title: "there is no such path",
        detail: format!("`{}` leads nowhere", crate::ask::shortened(uri.path())),
        remedy: format!("use {}", paths.join(", ")),
    }
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let known = paths().into_iter().find(|(path, _)| path == uri.path());
    let methods = known.map_or("get".to_owned(), |(_, methods)| methods.join(" or "));
    Problem {
        class: Class::Method,
        title: "the method is not taken here",
        detail: format!("{method} {}", uri.path()),
        remedy: format!("use {}", methods.to_uppercase()),
    }
}

async fn guarded_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.class.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, content_type, self.to_json().to_string()).into_response()
    }
}

/// Whether the caller prefers a type by its Accept header: the first one named that is known here.
fn accepts(headers: &HeaderMap) -> Option<&'static str> {
    let accepted = headers.get(header::ACCEPT)?.to_str().ok()?;
    accepted.split(',').find_map(
        |one| match one.split(';').next().unwrap_or_default().trim() {
            "application/json" => Some("json"),
            "text/csv" => Some("csv"),
            "text/plain" => Some("table"),
            _ => None,
        },
    )
}

//! The page: four files within the binary, nothing from elsewhere.

use axum::http::header;
use axum::response::{IntoResponse, Response};

fn file(content_type: &'static str, text: &'static str) -> Response {
    (
        [
            (header::CONTENT_TYPE, content_type),
            (header::CACHE_CONTROL, "no-cache"),
        ],
        text,
    )
        .into_response()
}

pub(super) fn index() -> Response {
    file(
        "text/html; charset=utf-8",
        include_str!("../../web/index.html"),
    )
}

pub(super) async fn script() -> Response {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../../web/app.js"),
    )
}

pub(super) async fn question() -> Response {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../../web/question.js"),
    )
}

pub(super) async fn style() -> Response {
    file(
        "text/css; charset=utf-8",
        include_str!("../../web/style.css"),
    )
}

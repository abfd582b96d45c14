//! `GET /api/v1/functions` and the other questions.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Json, Response};

use super::links::Links;
use super::{accepts, render};
use crate::ask::{Name, Question};
use crate::metrics;
use crate::problem::{Class, Problem};
use crate::service::Service;

/// Header with the completeness where the body has no room for it.
pub(super) const COMPLETENESS: &str = "memwide-completeness";

/// Header with the notes where the body has no room for them.
const NOTES: &str = "memwide-notes";

/// Header with the answer's address on the page.
const PAGE: &str = "memwide-page";

pub(super) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

pub(super) async fn answer(
    name: Name,
    State(service): State<Service>,
    pairs: Pairs,
    headers: HeaderMap,
) -> Response {
    let outcome = answered(name, &service, pairs, &headers).await;
    metrics::count(&outcome);
    outcome.unwrap_or_else(IntoResponse::into_response)
}

async fn answered(
    name: Name,
    service: &Service,
    pairs: Pairs,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let pairs = pairs.map_err(|rejection| unreadable(&rejection))?.0;
    let format = format(&pairs, headers)?;
    let now_ns = Service::now_ns();
    let question = Question::parse(name, &pairs, now_ns)?;
    let answer = service.answer(&question).await?;
    let links = Links::new(&question, &pairs, now_ns, &answer.columns);
    Ok(match format {
        "csv" => {
            let mut response = text(
                "text/csv; charset=utf-8; header=present",
                render::csv(&answer),
            );
            with_completeness(&mut response, &answer.completeness);
            with_notes(&mut response, &answer.notes);
            with_page(&mut response, &links);
            response
        }
        "table" => {
            let table = render::table(&answer);
            text(
                "text/plain; charset=utf-8",
                format!("{table}page: {}\n", links.page()),
            )
        }
        _ => {
            let mut answer = answer.to_json();
            answer["links"] = links.to_json();
            Json(answer).into_response()
        }
    })
}

fn text(content_type: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

pub(super) fn with_completeness(
    response: &mut Response,
    completeness: &crate::answer::Completeness,
) {
    if let Ok(value) = HeaderValue::from_str(&completeness.to_json().to_string()) {
        response.headers_mut().insert(COMPLETENESS, value);
    }
}

/// What a reader must know, where the body has no room for it.
pub(super) fn with_notes(response: &mut Response, notes: &[String]) {
    let notes = serde_json::json!(notes).to_string();
    if let Ok(value) = HeaderValue::from_bytes(notes.as_bytes()) {
        response.headers_mut().insert(NOTES, value);
    }
}

/// Where the page has the same answer.
pub(super) fn with_page(response: &mut Response, links: &Links) {
    if let Ok(value) = HeaderValue::from_str(&links.page()) {
        response.headers_mut().insert(PAGE, value);
    }
}

pub(super) fn unreadable(rejection: &QueryRejection) -> Problem {
    Problem {
        class: Class::Question,
        title: "the URL is not understood",
        detail: rejection.to_string(),
        remedy: "encode the parameters' names and values (%20 for a blank)".to_owned(),
    }
}

/// The parameter `format`, else what the caller accepts, else JSON.
fn format(pairs: &[(String, String)], headers: &HeaderMap) -> Result<&'static str, Problem> {
    const FORMATS: [&str; 3] = ["json", "csv", "table"];
    let Some((_, asked)) = pairs
        .iter()
        .find(|(name, value)| name == "format" && !value.is_empty())
    else {
        return Ok(accepts(headers).unwrap_or("json"));
    };
    FORMATS
        .into_iter()
        .find(|known| known == asked)
        .ok_or_else(|| Problem {
            class: Class::Question,
            title: "the question is not understood",
            detail: format!("`format` does not take `{}`", crate::ask::shortened(asked)),
            remedy: format!("use one of {}", FORMATS.join(", ")),
        })
}

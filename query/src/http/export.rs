//! `GET /api/v1/export/…`: call paths in the formats of other tools; the parameters are those of `flamegraph`.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::questions::{Pairs, unreadable, with_completeness, with_notes};
use crate::answer::Answer;
use crate::ask::{Estimator, Filter, Name, Question, Range};
use crate::export;
use crate::metrics;
use crate::problem::Problem;
use crate::service::Service;

/// Writes an answer of `flamegraph` by an estimator.
type Write = fn(&Answer, Estimator, Range) -> Vec<u8>;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    /// pprof's protobuf.
    Pprof,
    /// Folded stacks.
    Folded,
    /// speedscope's JSON.
    Speedscope,
    /// Samples of one host as a perf.data file.
    PerfData,
}

impl Export {
    pub(super) const ALL: &'static [Self] =
        &[Self::Pprof, Self::Folded, Self::Speedscope, Self::PerfData];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Pprof => "/api/v1/export/pprof",
            Self::Folded => "/api/v1/export/folded",
            Self::Speedscope => "/api/v1/export/speedscope",
            Self::PerfData => "/api/v1/export/perf-data",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Pprof => {
                "Call paths of one event as a pprof profile: samples and the estimators it has, `by` first; tier and event as labels."
            }
            Self::Folded => {
                "Call paths of one event as folded stacks: one line a path, with the estimator `by`; the header `memwide-notes` says which event."
            }
            Self::Speedscope => {
                "Call paths for speedscope: one profile an event, by the estimator `by`."
            }
            Self::PerfData => {
                "Samples of one host as a perf.data file that perf reads, at most 200,000; neither `by`, `one_event` nor `limit` matter."
            }
        }
    }

    /// What writes an answer of `flamegraph`; `None`: it is no such answer.
    fn writer(self) -> Option<Write> {
        Some(match self {
            Self::Pprof => {
                |answer, by, range| export::pprof(answer, by, (range.since_ns, range.until_ns))
            }
            Self::Folded => |answer, by, _| export::folded(answer, by.name()).into_bytes(),
            Self::Speedscope => |answer, by, _| {
                export::speedscope(answer, by.name())
                    .to_string()
                    .into_bytes()
            },
            Self::PerfData => return None,
        })
    }

    /// Formats that add paths up, or know one set of units only.
    const fn is_of_one_event(self) -> bool {
        matches!(self, Self::Pprof | Self::Folded)
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Pprof | Self::PerfData => "application/octet-stream",
            Self::Folded => "text/plain; charset=utf-8",
            Self::Speedscope => "application/json",
        }
    }
}

pub(super) async fn answer(
    export: Export,
    State(service): State<Service>,
    pairs: Pairs,
    _: HeaderMap,
) -> Response {
    let outcome = answered(export, &service, pairs).await;
    metrics::count(&outcome);
    outcome.unwrap_or_else(IntoResponse::into_response)
}

async fn answered(export: Export, service: &Service, pairs: Pairs) -> Result<Response, Problem> {
    let pairs = pairs.map_err(|rejection| unreadable(&rejection))?.0;
    let mut question = Question::parse(Name::Flamegraph, &pairs, Service::now_ns())?;
    let Some(write) = export.writer() else {
        return recorded(service, question.filter()).await;
    };
    let mut by = Estimator::default();
    if let Question::Flamegraph(flamegraph) = &mut question {
        by = flamegraph.by;
        flamegraph.one_event |= export.is_of_one_event();
    }
    let range = question.plan().range;
    let answer = service.answer(&question).await?;
    let body = write(&answer, by, range);
    let mut response = ([(header::CONTENT_TYPE, export.content_type())], body).into_response();
    with_completeness(&mut response, &answer.completeness);
    with_notes(&mut response, &answer.notes);
    Ok(response)
}

/// The samples that pass the filter as a recording.
async fn recorded(service: &Service, filter: &Filter) -> Result<Response, Problem> {
    let (file, completeness) = service.recording(filter).await?;
    let headers = [
        (header::CONTENT_TYPE, Export::PerfData.content_type()),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"perf.data\"",
        ),
    ];
    let mut response = (headers, file).into_response();
    with_completeness(&mut response, &completeness);
    Ok(response)
}

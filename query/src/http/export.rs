//! `GET /api/v1/export/…`: call paths in the formats of other tools; the parameters are those of `flamegraph`.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::links::Links;
use super::questions::{Pairs, unreadable, with_completeness, with_notes, with_page};
use crate::answer::Answer;
use crate::ask::{Estimator, Filter, Name, Question};
use crate::export::{self, Selection};
use crate::metrics;
use crate::problem::Problem;
use crate::service::Service;

/// Writes an answer of `flamegraph`.
type Write = fn(&Answer, &Selection) -> Vec<u8>;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    /// pprof's protobuf.
    Pprof,
    /// Folded stacks.
    Folded,
    /// speedscope's JSON.
    Speedscope,
    /// The Firefox profiler's JSON.
    Firefox,
    /// OpenTelemetry's protobuf.
    Otlp,
    /// Samples of one host as a perf.data file.
    PerfData,
}

impl Export {
    pub(super) const ALL: &'static [Self] = &[
        Self::Pprof,
        Self::Folded,
        Self::Speedscope,
        Self::Firefox,
        Self::Otlp,
        Self::PerfData,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Pprof => "/api/v1/export/pprof",
            Self::Folded => "/api/v1/export/folded",
            Self::Speedscope => "/api/v1/export/speedscope",
            Self::Firefox => "/api/v1/export/firefox",
            Self::Otlp => "/api/v1/export/otlp",
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
            Self::Firefox => {
                "Call paths for the Firefox profiler (profiler.firefox.com, processed format): one thread an event, by the estimator `by`."
            }
            Self::Otlp => {
                "Call paths as OpenTelemetry profiles (v1development), a binary ProfilesData: one profile for each event and estimator, `by` first; event and tier as attributes."
            }
            Self::PerfData => {
                "Samples of one host as a perf.data file that perf reads, at most 200,000; neither `by`, `one_event` nor `limit` matter."
            }
        }
    }

    /// What writes an answer of `flamegraph`; `None`: it is no such answer.
    fn writer(self) -> Option<Write> {
        Some(match self {
            Self::Pprof => export::pprof,
            Self::Folded => |answer, asked| export::folded(answer, asked.by.name()).into_bytes(),
            Self::Speedscope => |answer, asked| {
                export::speedscope(answer, asked.by.name())
                    .to_string()
                    .into_bytes()
            },
            Self::Firefox => {
                |answer, asked| export::firefox(answer, asked).to_string().into_bytes()
            }
            Self::Otlp => export::otlp,
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
            Self::Speedscope | Self::Firefox => "application/json",
            Self::Otlp => "application/x-protobuf",
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
    let now_ns = Service::now_ns();
    let mut question = Question::parse(Name::Flamegraph, &pairs, now_ns)?;
    let Some(write) = export.writer() else {
        let mut response = recorded(service, question.filter()).await?;
        with_page(&mut response, &Links::new(&question, &pairs, now_ns, &[]));
        return Ok(response);
    };
    let mut by = Estimator::default();
    if let Question::Flamegraph(flamegraph) = &mut question {
        by = flamegraph.by;
        flamegraph.one_event |= export.is_of_one_event();
    }
    let filters = question.filter().dimensions();
    let selection = Selection {
        by,
        range: question.plan().range,
        filters: filters
            .map(|(dimension, values)| (dimension.name(), values.to_vec()))
            .collect(),
    };
    let mut answer = service.answer(&question).await?;
    if answer.other.is_some() && (by != Estimator::Samples || export == Export::Pprof) {
        answer.notes.push("of the paths that were cut the samples are known alone: sums of other estimators are of the paths shown".to_owned());
    }
    let body = write(&answer, &selection);
    let mut response = ([(header::CONTENT_TYPE, export.content_type())], body).into_response();
    with_completeness(&mut response, &answer.completeness);
    with_notes(&mut response, &answer.notes);
    with_page(
        &mut response,
        &Links::new(&question, &pairs, now_ns, &answer.columns),
    );
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

//! gRPC: the same questions, on the same port.

use memwide_proto::v1;
use memwide_proto::v1::query_server::{Query, QueryServer};
use memwide_service::build_info::BUILD;
use tonic::{Request, Response, Status};

use crate::answer::{Answer, Value};
use crate::ask::{AskError, Breakdown, Functions, Hosts, Ledger, Question};
use crate::http::{self, Format};
use crate::metrics;
use crate::problem::Problem;
use crate::service::Service;

/// The gRPC service, to be routed at `/memwide.v1.Query/`.
pub(crate) fn server(service: Service) -> QueryServer<Grpc> {
    QueryServer::new(Grpc { service }).max_decoding_message_size(1 << 20)
}

/// The edge between messages and questions.
#[derive(Debug)]
pub(crate) struct Grpc {
    service: Service,
}

impl Grpc {
    async fn answer(
        &self,
        question: Result<Question, AskError>,
    ) -> Result<Response<v1::Answer>, Status> {
        let outcome = match question {
            Ok(question) => self.service.answer(&question).await,
            Err(error) => Err(Problem::from(error)),
        };
        metrics::count(&outcome);
        Ok(Response::new(message(outcome?)))
    }
}

#[tonic::async_trait]
impl Query for Grpc {
    async fn functions(
        &self,
        request: Request<v1::FunctionsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let question = Functions::from_message(request.into_inner(), Service::now_ns());
        self.answer(question.map(Question::Functions)).await
    }

    async fn breakdown(
        &self,
        request: Request<v1::BreakdownRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let question = Breakdown::from_message(request.into_inner(), Service::now_ns());
        self.answer(question.map(Question::Breakdown)).await
    }

    async fn hosts(
        &self,
        request: Request<v1::HostsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let question = Hosts::from_message(request.into_inner(), Service::now_ns());
        self.answer(question.map(Question::Hosts)).await
    }

    async fn ledger(
        &self,
        request: Request<v1::LedgerRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let question = Ledger::from_message(request.into_inner(), Service::now_ns());
        self.answer(question.map(Question::Ledger)).await
    }

    async fn sql(
        &self,
        request: Request<v1::SqlRequest>,
    ) -> Result<Response<v1::SqlAnswer>, Status> {
        let request = request.into_inner();
        let outcome = async {
            let format = Format::parse(&request.format)?;
            let mut params: Vec<(String, String)> = request.params.into_iter().collect();
            params.sort();
            let statement = http::Statement {
                query: request.query,
                params,
                format,
            };
            let (data, _) = http::run_sql(&self.service, &statement).await?;
            Ok::<_, Problem>(v1::SqlAnswer {
                data: data.to_vec(),
                content_type: format.content_type().to_owned(),
            })
        }
        .await;
        metrics::count(&outcome);
        Ok(Response::new(outcome?))
    }

    async fn status(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusAnswer>, Status> {
        let status = self.service.status().await;
        Ok(Response::new(v1::StatusAnswer {
            version: BUILD.version.to_owned(),
            ingest_address: status.detail.ingest_address.clone(),
            ready: status.ready(),
            detail_json: status.to_json().to_string(),
        }))
    }
}

/// An answer as a message.
fn message(answer: Answer) -> v1::Answer {
    let columns = answer.columns.iter().map(|column| v1::Column {
        name: column.name.to_owned(),
        r#type: column.kind.name().to_owned(),
        unit: column.unit.to_owned(),
    });
    let complete = answer.completeness;
    v1::Answer {
        columns: columns.collect(),
        rows: answer
            .rows
            .into_iter()
            .map(|row| v1::Row {
                values: row.into_iter().map(value).collect(),
            })
            .collect(),
        completeness: Some(v1::Completeness {
            hosts_seen: complete.hosts_seen,
            hosts_expected: complete.hosts_expected,
            samples_stored: complete.samples_stored,
            samples_produced: complete.samples_produced,
            tiers: complete
                .tiers
                .into_iter()
                .map(|(tier, samples)| v1::TierCount { tier, samples })
                .collect(),
            blind_seconds: complete.blind_seconds,
            missing: complete.missing.into_iter().collect(),
            samples_named: complete.samples_named,
        }),
        source_table: answer.source_table.to_owned(),
        notes: answer.notes,
    }
}

fn value(value: Value) -> v1::Value {
    let value = match value {
        Value::Null => None,
        Value::Text(text) => Some(v1::value::Value::Text(text)),
        Value::Number(number) => Some(v1::value::Value::Number(number)),
        Value::Real(real) => Some(v1::value::Value::Real(real)),
    };
    v1::Value { value }
}

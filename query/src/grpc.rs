//! gRPC: the same questions, on the same port.

use memwide_proto::v1;
use memwide_proto::v1::query_server::{Query, QueryServer};
use memwide_service::build_info::BUILD;
use tonic::{Request, Response, Status};

use crate::answer::{Answer, Column, Value};
use crate::ask::{Name, Question};
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
        name: Name,
        filter: Option<v1::Filter>,
        given: &[(&str, String)],
    ) -> Result<Response<v1::Answer>, Status> {
        let question = Question::from_message(name, filter, given, Service::now_ns());
        let outcome = match question {
            Ok(question) => self.service.answer(&question).await,
            Err(error) => Err(Problem::from(error)),
        };
        metrics::count(&outcome);
        Ok(Response::new(message(outcome?)))
    }
}

/// A parameter given once for each value.
fn each(name: &str, values: Vec<String>) -> Vec<(&str, String)> {
    values.into_iter().map(|value| (name, value)).collect()
}

#[tonic::async_trait]
impl Query for Grpc {
    async fn functions(
        &self,
        request: Request<v1::FunctionsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = [("by", asked.by), ("per_host", asked.per_host.to_string())];
        self.answer(Name::Functions, asked.filter, &given).await
    }

    async fn breakdown(
        &self,
        request: Request<v1::BreakdownRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = each("by", asked.by);
        self.answer(Name::Breakdown, asked.filter, &given).await
    }

    async fn numa(
        &self,
        request: Request<v1::NumaRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        self.answer(Name::Numa, asked.filter, &[("by", asked.by)])
            .await
    }

    async fn latency(
        &self,
        request: Request<v1::LatencyRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = each("by", asked.by);
        self.answer(Name::Latency, asked.filter, &given).await
    }

    async fn data(
        &self,
        request: Request<v1::DataRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = [
            ("by", asked.by),
            ("per_function", asked.per_function.to_string()),
        ];
        self.answer(Name::Data, asked.filter, &given).await
    }

    async fn pages(
        &self,
        request: Request<v1::PagesRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Pages, request.into_inner().filter, &[])
            .await
    }

    async fn lines(
        &self,
        request: Request<v1::LinesRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Lines, request.into_inner().filter, &[])
            .await
    }

    async fn flamegraph(
        &self,
        request: Request<v1::FlamegraphRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = [("by", asked.by), ("one_event", asked.one_event.to_string())];
        self.answer(Name::Flamegraph, asked.filter, &given).await
    }

    async fn annotate(
        &self,
        request: Request<v1::AnnotateRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        self.answer(Name::Annotate, asked.filter, &[("by", asked.by)])
            .await
    }

    async fn diff(
        &self,
        request: Request<v1::DiffRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let moment = |ns: u64| {
            if ns == 0 {
                String::new()
            } else {
                ns.to_string()
            }
        };
        let mut given = vec![
            ("before_since", moment(asked.before_since_wall_ns)),
            ("before_until", moment(asked.before_until_wall_ns)),
        ];
        given.extend(each("before_build_id", asked.before_build_id));
        given.extend(each("before_host", asked.before_host));
        self.answer(Name::Diff, asked.filter, &given).await
    }

    async fn faults(
        &self,
        request: Request<v1::FaultsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Faults, request.into_inner().filter, &[])
            .await
    }

    async fn kernel(
        &self,
        request: Request<v1::KernelRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Kernel, request.into_inner().filter, &[])
            .await
    }

    async fn allocs(
        &self,
        request: Request<v1::AllocsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Allocs, request.into_inner().filter, &[])
            .await
    }

    async fn offcpu(
        &self,
        request: Request<v1::OffcpuRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Offcpu, request.into_inner().filter, &[])
            .await
    }

    async fn pressure(
        &self,
        request: Request<v1::PressureRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = each("metric", asked.metric);
        self.answer(Name::Pressure, asked.filter, &given).await
    }

    async fn rss(&self, request: Request<v1::RssRequest>) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = each("metric", asked.metric);
        self.answer(Name::Rss, asked.filter, &given).await
    }

    async fn counters(
        &self,
        request: Request<v1::CountersRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        let asked = request.into_inner();
        let given = each("metric", asked.metric);
        self.answer(Name::Counters, asked.filter, &given).await
    }

    async fn hosts(
        &self,
        request: Request<v1::HostsRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Hosts, request.into_inner().filter, &[])
            .await
    }

    async fn ledger(
        &self,
        request: Request<v1::LedgerRequest>,
    ) -> Result<Response<v1::Answer>, Status> {
        self.answer(Name::Ledger, request.into_inner().filter, &[])
            .await
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
    let complete = answer.completeness;
    let blind_seconds = complete.blind_seconds();
    v1::Answer {
        columns: columns(&answer.columns),
        rows: rows(answer.rows),
        parts: answer
            .parts
            .into_iter()
            .map(|part| v1::Part {
                name: part.name.to_owned(),
                columns: columns(&part.columns),
                rows: rows(part.rows),
            })
            .collect(),
        other: answer.other.map(|other| v1::Other {
            rows: other.rows,
            samples: other.samples,
        }),
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
            blind_seconds,
            missing: complete.missing.into_iter().collect(),
            samples_named: complete.samples_named,
            since: complete.since,
            until: complete.until,
            samples_in_range: complete.samples_in_range,
            stopped_seconds: complete.stopped.seconds,
            stopped_cpu_seconds: complete.stopped.cpu_seconds,
        }),
        source_table: answer.source_table.to_owned(),
        notes: answer.notes,
    }
}

fn columns(columns: &[Column]) -> Vec<v1::Column> {
    let column = |column: &Column| v1::Column {
        name: column.name.to_owned(),
        r#type: column.kind.name().to_owned(),
        unit: column.unit.to_owned(),
    };
    columns.iter().map(column).collect()
}

fn rows(rows: Vec<Vec<Value>>) -> Vec<v1::Row> {
    let row = |row: Vec<Value>| v1::Row {
        values: row.into_iter().map(value).collect(),
    };
    rows.into_iter().map(row).collect()
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

//! `GET` and `POST /api/v1/sql`: one guarded statement.

use std::collections::BTreeMap;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::accepts;
use super::questions::{unreadable, with_completeness};
use crate::answer::Completeness;
use crate::ask::Range;
use crate::metrics;
use crate::problem::{Class, Problem};
use crate::service::Service;

/// Span of the completeness beside an SQL answer: the statement's own range is not known.
const COMPLETENESS_SINCE: &str = "-1d";

/// Format of an SQL answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Csv,
    Arrow,
    Parquet,
}

impl Format {
    pub(crate) const ALL: &'static [Self] = &[Self::Json, Self::Csv, Self::Arrow, Self::Parquet];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        }
    }

    const fn of_store(self) -> &'static str {
        match self {
            Self::Json => "JSONCompact",
            Self::Csv => "CSVWithNames",
            Self::Arrow => "Arrow",
            Self::Parquet => "Parquet",
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Arrow => "application/vnd.apache.arrow.file",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, Problem> {
        if name.is_empty() {
            return Ok(Self::Json);
        }
        Self::ALL
            .iter()
            .find(|known| known.name() == name)
            .copied()
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|known| known.name()).collect();
                wrong(
                    format!("`format` does not take `{}`", crate::ask::shortened(name)),
                    format!("use one of {}", names.join(", ")),
                )
            })
    }
}

/// A statement that a person typed.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) query: String,
    /// Names without `param_`, and values.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) format: Format,
}

/// Runs a statement; the bytes are a whole document of its format.
pub(crate) async fn run(
    service: &Service,
    statement: &Statement,
) -> Result<(bytes::Bytes, Completeness), Problem> {
    if statement.query.trim().is_empty() {
        let remedy = "send the statement as `query`, as SELECT function, sum(samples) FROM functions GROUP BY function";
        return Err(wrong("`query` is empty".to_owned(), remedy.to_owned()));
    }
    let length = statement.query.len();
    if length > STATEMENT_BYTES_MAX {
        let detail =
            format!("the statement has {length} bytes, at most {STATEMENT_BYTES_MAX} are taken");
        let remedy = "filter by what is stored, not by a list; or ask in parts";
        return Err(wrong(detail, remedy.to_owned()));
    }
    check_names(&statement.params)?;
    let range = Range::parse(COMPLETENESS_SINCE, "", Service::now_ns())?;
    let (answer, completeness) = tokio::try_join!(
        service.guarded(
            &statement.query,
            &statement.params,
            statement.format.of_store()
        ),
        service.completeness_of(range, Vec::new()),
    )?;
    if statement.format == Format::Json {
        return Ok((
            document(&answer, &completeness)?.to_string().into(),
            completeness,
        ));
    }
    Ok((answer, completeness))
}

/// Each parameter has a name and is given once.
pub(super) fn check_names(params: &[(String, String)]) -> Result<(), Problem> {
    for (at, (name, _)) in params.iter().enumerate() {
        let mut before = params.iter().take(at);
        if before.any(|(earlier, _)| earlier == name) {
            let detail = format!("the parameter `{name}` is given more than once");
            return Err(wrong(detail, "give each parameter one value".to_owned()));
        }
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            let remedy = "name parameters by letters, digits and `_`";
            return Err(wrong(
                format!(
                    "`{}` is no name of a parameter",
                    crate::ask::shortened(name)
                ),
                remedy.to_owned(),
            ));
        }
    }
    Ok(())
}

fn wrong(detail: String, remedy: String) -> Problem {
    Problem {
        class: Class::Question,
        title: "the statement is not understood",
        detail,
        remedy,
    }
}

type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Every parameter stands in the URL: `query`, `format`, `param_<name>`.
pub(super) async fn get(
    State(service): State<Service>,
    pairs: Pairs,
    headers: HeaderMap,
) -> Response {
    let read = || {
        let pairs = pairs.map_err(|rejection| unreadable(&rejection))?.0;
        let (mut query, mut format, mut params) = (String::new(), String::new(), Vec::new());
        for (name, value) in pairs {
            match (name.as_str(), name.strip_prefix("param_")) {
                ("query", _) => query = value,
                ("format", _) => format = value,
                (_, Some(param)) => params.push((param.to_owned(), value)),
                (name, None) => {
                    let detail = format!("`sql` does not take `{}`", crate::ask::shortened(name));
                    return Err(wrong(detail, "use query, format, param_<name>".to_owned()));
                }
            }
        }
        if format.is_empty() && accepts(&headers) == Some("csv") {
            "csv".clone_into(&mut format);
        }
        Ok(Statement {
            query,
            params,
            format: Format::parse(&format)?,
        })
    };
    respond(&service, read()).await
}

/// Longest statement.
pub(super) const STATEMENT_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a body that are read: of a longer one the connection ends, and who still sends learns no reason.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;

/// The body of a POST.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body {
    query: String,
    #[serde(default)]
    params: BTreeMap<String, Json>,
    #[serde(default)]
    format: String,
}

/// `{"query": …, "params": {…}, "format": …}`. Only `application/json` is taken: a foreign page cannot send that
/// unasked.
pub(super) async fn post(
    State(service): State<Service>,
    body: Result<axum::Json<Body>, JsonRejection>,
) -> Response {
    let read = || {
        let body = body.map_err(|rejection| no_body(&rejection))?.0;
        let mut params = Vec::new();
        for (name, value) in body.params {
            let value = match value {
                Json::String(text) => text,
                Json::Number(_) | Json::Bool(_) => value.to_string(),
                _ => {
                    let detail = format!(
                        "parameter `{}` is neither text nor number",
                        crate::ask::shortened(&name)
                    );
                    return Err(wrong(
                        detail,
                        "write lists as text, as \"['a','b']\"".to_owned(),
                    ));
                }
            };
            params.push((name, value));
        }
        Ok(Statement {
            query: body.query,
            params,
            format: Format::parse(&body.format)?,
        })
    };
    respond(&service, read()).await
}

fn no_body(rejection: &JsonRejection) -> Problem {
    let media = matches!(rejection, JsonRejection::MissingJsonContentType(_));
    Problem {
        class: if media { Class::MediaType } else { Class::Question },
        title: "the body is not understood",
        detail: rejection.body_text(),
        remedy: "send content-type application/json and {\"query\": \"SELECT …\", \"params\": {}, \"format\": \"json\"}"
            .to_owned(),
    }
}

async fn respond(service: &Service, statement: Result<Statement, Problem>) -> Response {
    let outcome = async {
        let statement = statement?;
        let (body, completeness) = run(service, &statement).await?;
        let mut response = (
            [(header::CONTENT_TYPE, statement.format.content_type())],
            body,
        )
            .into_response();
        if statement.format != Format::Json {
            with_completeness(&mut response, &completeness);
        }
        Ok(response)
    }
    .await;
    metrics::count(&outcome);
    outcome.unwrap_or_else(IntoResponse::into_response)
}

/// Columns that hold ids and addresses: shown as `0x…`, since numbers above 2^53 are lost on many readers of JSON.
fn is_id(name: &str, kind: &str) -> bool {
    let known = [
        "ip",
        "addr",
        "phys_addr",
        "data_src",
        "address",
        "start",
        "locations",
    ];
    kind.contains("UInt64") && (name.ends_with("_id") || known.contains(&name))
}

/// The shape of all answers, from ClickHouse's.
fn document(answer: &[u8], completeness: &Completeness) -> Result<Json, Problem> {
    #[derive(Deserialize)]
    struct Meta {
        name: String,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Compact<'a> {
        meta: Vec<Meta>,
        #[serde(borrow)]
        data: Vec<Vec<&'a RawValue>>,
    }
    let text = String::from_utf8_lossy(answer);
    let compact: Compact<'_> = serde_json::from_str(&text).map_err(|error| Problem {
        class: Class::Internal,
        title: "the store's answer cannot be used",
        detail: error.to_string(),
        remedy: "ask for another format, as csv".to_owned(),
    })?;
    let ids: Vec<bool> = compact
        .meta
        .iter()
        .map(|column| is_id(&column.name, &column.kind))
        .collect();
    let cell = |(raw, is_id): (&&RawValue, &bool)| {
        let mut cell = exact(raw);
        if *is_id {
            hex(&mut cell);
        }
        cell
    };
    let row = |row: &Vec<&RawValue>| row.iter().zip(&ids).map(cell).collect::<Json>();
    let rows: Json = compact.data.iter().map(row).collect();
    let columns = compact.meta.iter();
    // What an expression's unit is nobody tells; `unit` is null: not known.
    let columns: Vec<Json> = columns
        .map(|column| json!({ "name": column.name, "type": column.kind, "unit": null }))
        .collect();
    let mut notes =
        vec!["the completeness is that of the last 24 hours, whatever the statement reads"];
    let is_decimal = |column: &Meta| column.kind.contains("Decimal");
    if compact.meta.iter().any(is_decimal) {
        notes.push("decimals are texts: numbers of JSON would lose digits");
    }
    Ok(json!({
        "columns": columns,
        "rows": rows,
        "completeness": completeness.to_json(),
        "notes": notes,
    }))
}

/// A value with all its digits: whole numbers beyond 64 bits become texts.
fn exact(raw: &RawValue) -> Json {
    let text = raw.get();
    if let Ok(cells) = serde_json::from_str::<Vec<&RawValue>>(text) {
        return cells.into_iter().map(exact).collect();
    }
    let value = serde_json::from_str(text).unwrap_or_default();
    match &value {
        Json::Number(number) if number.is_f64() && !text.contains(['.', 'e', 'E']) => {
            Json::String(text.to_owned())
        }
        _ => value,
    }
}

fn hex(cell: &mut Json) {
    match cell {
        Json::Number(number) => {
            if let Some(number) = number.as_u64() {
                *cell = Json::String(format!("{number:#x}"));
            }
        }
        Json::Array(cells) => cells.iter_mut().for_each(hex),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_digits_are_kept_and_units_are_not_guessed() {
        let answer = br#"{"meta":[{"name":"function_id","type":"UInt64"},{"name":"locations","type":"Array(UInt64)"},
            {"name":"samples","type":"UInt64"},{"name":"comm","type":"LowCardinality(String)"},
            {"name":"big","type":"Array(UInt128)"},{"name":"money","type":"Decimal(38, 2)"},{"name":"ratio","type":"Float64"}],
            "data":[[18446744073709551615,[1,255],18446744073709551615,"a<b>",[340282366920938463463374607431768211455,1],
            "1234567890123456789012.34","inf"]],"rows":1}"#;
        let document = document(answer, &Completeness::default()).unwrap();
        assert_eq!(
            document["rows"][0],
            json!([
                "0xffffffffffffffff",
                ["0x1", "0xff"],
                u64::MAX,
                "a<b>",
                ["340282366920938463463374607431768211455", 1],
                "1234567890123456789012.34",
                "inf",
            ])
        );
        assert_eq!(
            document["columns"][2],
            json!({"name": "samples", "type": "UInt64", "unit": null})
        );
        assert!(document["notes"].to_string().contains("decimals are texts"));
    }
}

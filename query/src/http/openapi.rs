//! The OpenAPI document, made from the same tables that the parser of questions reads.

use memwide_service::build_info::BUILD;
use serde_json::{Map, Value as Json, json};

use super::Format;
use super::export::Export;
use crate::ask::{Dimension, LIMIT_MAX, Name, Values};

/// The document.
pub(super) fn document() -> Json {
    let mut paths = Map::new();
    for (path, methods) in super::paths() {
        let mut operations = Map::new();
        for method in methods {
            operations.insert((*method).to_owned(), operation(&path, method));
        }
        paths.insert(path, Json::Object(operations));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "memwide",
            "version": BUILD.version,
            "description": "Questions about memory accesses of a fleet. Rows of different tiers and events stand side by side \
                            and are not to be added up; every answer says how complete it is."
        },
        "paths": paths,
        "components": { "schemas": schemas() },
    })
}

fn operation(path: &str, method: &str) -> Json {
    let name = path.rsplit('/').next().unwrap_or_default();
    let question = Name::ALL.iter().find(|question| question.name() == name);
    if let Some(export) = Export::ALL.iter().find(|export| export.path() == path) {
        return exported(*export);
    }
    let (summary, parameters, schema) = match (question, name) {
        (Some(question), _) => (question.about(), of_question(*question), "Answer"),
        (None, "sql") if method == "get" => ("One statement that reads.", of_sql(), "SqlAnswer"),
        (None, "sql") => ("One statement that reads.", Vec::new(), "SqlAnswer"),
        (None, "status") => (
            "How this service is, and what stands behind it.",
            Vec::new(),
            "Status",
        ),
        (None, "rules") => (
            "Standing rules and how they are: unasked, quiet, firing, failed; with the rows that fire.",
            Vec::new(),
            "Rules",
        ),
        (None, _) => ("This document.", Vec::new(), "Document"),
    };
    let mut content = json!({ "application/json": { "schema": reference(schema) } });
    if question.is_some() || name == "sql" {
        content["text/csv"] = json!({ "schema": { "type": "string" } });
    }
    if question.is_some() {
        content["text/plain"] = json!({ "schema": { "type": "string" } });
    }
    let problem = json!({ "description": "A problem and its remedy.", "content": {
        "application/problem+json": { "schema": reference("Problem") } } });
    let mut operation = json!({
        "operationId": if method == "get" { name.to_owned() } else { format!("{method}_{name}") },
        "summary": summary,
        "parameters": parameters,
        "responses": { "200": { "description": "The answer.", "content": content }, "default": problem },
    });
    if method == "post" {
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": {
            "schema": reference("SqlRequest") } } });
    }
    operation
}

/// A call path export: the parameters of `flamegraph`, but no format.
fn exported(export: Export) -> Json {
    let mut parameters = of_question(Name::Flamegraph);
    parameters.retain(|parameter| parameter["name"] != "format");
    let mut content = Map::new();
    content.insert(
        export.content_type().to_owned(),
        json!({ "schema": { "type": "string" } }),
    );
    let problem = json!({ "description": "A problem and its remedy.", "content": {
        "application/problem+json": { "schema": reference("Problem") } } });
    json!({
        "operationId": format!("export_{}", export.path().rsplit('/').next().unwrap_or_default()),
        "summary": export.about(),
        "parameters": parameters,
        "responses": { "200": { "description": "The profile.", "content": content }, "default": problem },
    })
}

fn parameter(name: &str, description: &str, schema: impl Into<Json>) -> Json {
    json!({ "name": name, "in": "query", "description": description, "schema": schema.into() })
}

/// Parameters of a question, in the order of its error messages.
fn of_question(question: Name) -> Vec<Json> {
    let time = "-1h (s, m, h, d, w), now, RFC 3339, or nanoseconds since 1970.";
    let text = json!({ "type": "string" });
    let mut parameters = vec![
        parameter(
            "since",
            &format!("First moment; one hour before `until` unless given. {time}"),
            text.clone(),
        ),
        parameter(
            "until",
            &format!("Moment behind the last one; now unless given. {time}"),
            text,
        ),
        parameter(
            "limit",
            "Most rows.",
            json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": question.limit() }),
        ),
        parameter(
            "format",
            "Of the answer; the Accept header chooses too.",
            json!({ "type": "string", "enum": ["json", "csv", "table"] }),
        ),
    ];
    for extra in question.extra() {
        let (name, about) = (extra.name, extra.about);
        parameters.push(match extra.values {
            Values::Flag => parameter(name, about, json!({ "type": "boolean" })),
            Values::Text => parameter(name, about, json!({ "type": "string" })),
            Values::One(of) => parameter(name, about, json!({ "type": "string", "enum": of() })),
            Values::Several(of) => list(name, about, Some(of())),
        });
    }
    let filters = question.dimensions().iter();
    parameters.extend(filters.map(|filter| {
        let several = if filter.is_list() {
            "Several by commas or repeated: any of them."
        } else {
            "Several by repeating it: any of them; commas are part of a name."
        };
        let about = format!("{} {several}", filter.description());
        list(filter.name(), &about, Dimension::values(*filter))
    }));
    parameters
}

/// A parameter that may be repeated.
fn list(name: &str, description: &str, values: Option<Vec<&str>>) -> Json {
    let items = match values {
        Some(values) => json!({ "type": "string", "enum": values }),
        None => json!({ "type": "string" }),
    };
    parameter(
        name,
        description,
        json!({ "type": "array", "items": items }),
    )
}

fn formats() -> Json {
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    json!({ "type": "string", "enum": names, "default": "json" })
}

fn of_sql() -> Vec<Json> {
    let mut query = parameter("query", "The statement.", json!({ "type": "string" }));
    query["required"] = json!(true);
    vec![
        query,
        parameter("format", "Of the answer.", formats()),
        parameter(
            "param_name",
            "Value of `{name:Type}` in the statement; any name behind `param_`.",
            json!({ "type": "string" }),
        ),
    ]
}

fn reference(schema: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn object(properties: impl Into<Json>) -> Json {
    json!({ "type": "object", "properties": properties.into() })
}

fn schemas() -> Json {
    let (text, count, real) = (
        json!({ "type": "string" }),
        json!({ "type": "integer" }),
        json!({ "type": "number" }),
    );
    let texts = json!({ "type": "array", "items": text });
    let column = object(json!({ "name": text, "type": text,
        "unit": { "type": ["string", "null"], "description": "Empty for names; null: not known." } }));
    let rows = json!({ "type": "array", "description": "One list of values a row, in the order of the columns.",
        "items": { "type": "array" } });
    let tiers =
        json!({ "type": "array", "items": object(json!({ "tier": text, "samples": count })) });
    json!({
        "Answer": object(json!({
            "columns": { "type": "array", "items": reference("Column") }, "rows": rows,
            "parts": { "type": "array", "description": "What stands behind the rows.", "items": reference("Part") },
            "other": { "type": ["object", "null"], "description": "What was cut after the last row.",
                "properties": { "rows": count, "samples": count } },
            "completeness": reference("Completeness"), "source_table": text, "notes": texts, "links": reference("Links") })),
        "Links": object(json!({
            "self": { "type": "string", "description": "The same answer of the API, at absolute times; as all links from the server's root on." },
            "page": { "type": "string", "description": "The same answer on the page." },
            "row_filters": { "type": "array", "items": text, "description": "Columns whose value, as a filter of that name, narrows the question down to a row." },
            "next": { "type": "object", "additionalProperties": text, "description": "Pages of further questions about the same selection, by question." } })),
        "Part": object(json!({
            "name": text, "columns": { "type": "array", "items": reference("Column") }, "rows": rows })),
        "SqlAnswer": object(json!({
            "columns": { "type": "array", "items": reference("Column") }, "rows": rows,
            "completeness": reference("Completeness"), "notes": texts })),
        "SqlRequest": json!({ "type": "object", "required": ["query"], "additionalProperties": false,
            "properties": { "query": text, "params": { "type": "object" }, "format": formats() } }),
        "Column": column,
        "Completeness": object(json!({
            "hosts_seen": count, "hosts_expected": count, "samples_stored": count, "samples_named": count, "samples_produced": count,
            "since": text, "until": text, "samples_in_range": { "type": ["integer", "null"], "minimum": 0 },
            "tiers": tiers, "blind_seconds": real, "stopped_seconds": { "type": ["number", "null"] }, "stopped_cpu_seconds": real,
            "missing": { "type": "object", "additionalProperties": count } })),
        "Status": object(json!({
            "ready": { "type": "boolean" }, "version": text, "commit": text, "ingest_address": text,
            "store": { "type": "object" }, "services": { "type": "array" }, "collects": texts })),
        "Rules": object(json!({ "rules": { "type": "array" } })),
        "Document": { "type": "object" },
        "Problem": object(json!({ "type": text, "title": text, "status": count, "detail": text, "remedy": text })),
    })
}

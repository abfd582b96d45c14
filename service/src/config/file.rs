//! TOML with the line of each key.

use std::path::Path;

use serde_json::{Number, Value};
use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// One value of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) value: Value,
    /// From 1.
    pub(super) line: usize,
    /// Of a list of tables: each table and its keys by their place in the list (`0`, `0.name`), with their lines.
    pub(super) within: Vec<(String, usize)>,
}

/// All values of a file, in order of key.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Row>, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line(text, span.start)),
        message: error.message().to_owned(),
    })?;
    let mut rows = Vec::new();
    collect("", table.get_ref(), text, &mut rows);
    Ok(rows)
}

/// A value as TOML writes it: `5`, `true`, `"x"`, `["a"]`.
pub(super) fn parse_value(text: &str) -> Option<Value> {
    let value = DeValue::parse(text.trim()).ok()?;
    Some(json(value.get_ref()))
}

fn collect(prefix: &str, table: &DeTable<'_>, text: &str, rows: &mut Vec<Row>) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => collect(&key, inner, text, rows),
            other => rows.push(Row {
                key,
                value: json(other),
                line: line(text, name.span().start),
                within: within(other, text),
            }),
        }
    }
}

fn within(value: &DeValue<'_>, text: &str) -> Vec<(String, usize)> {
    let items = value.as_array().into_iter().flat_map(|items| items.iter());
    let mut places = Vec::new();
    for (number, item) in items.enumerate() {
        let keys = item.get_ref().as_table().into_iter().flatten();
        let keys = keys.map(|(name, _)| (name.get_ref(), line(text, name.span().start)));
        places.extend(keys.map(|(name, line)| (format!("{number}.{name}"), line)));
        places.push((number.to_string(), line(text, item.span().start)));
    }
    places
}

fn line(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::from),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .map_or_else(|| Value::String(number.to_string()), Value::Number),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())))
            .collect(),
    }
}

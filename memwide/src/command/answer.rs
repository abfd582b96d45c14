//! Answers of the query service as tables, and filters as parameters.

use crate::cli::{FilterArgs, Format};
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::output::{Column, Table, grouped, say, width};
use serde_json::Value;

/// Filters as URL parameters; the service says which names it knows.
pub(super) fn params(filter: &FilterArgs) -> Result<Vec<(String, String)>, Failure> {
    let mut params = Vec::new();
    for filter in &filter.filters {
        let Some((key, value)) = filter.split_once('=') else {
            let wrong = anyhow::anyhow!("filter `{filter}` is not KEY=VALUE, as locality=remote");
            return Err(Failure::usage(wrong));
        };
        params.push((key.to_owned(), value.to_owned()));
    }
    let times = [("since", &filter.since), ("until", &filter.until)];
    for (name, value) in times {
        params.extend(value.as_ref().map(|value| (name.to_owned(), value.clone())));
    }
    params.extend(
        filter
            .limit
            .map(|limit| ("limit".to_owned(), limit.to_string())),
    );
    Ok(params)
}

/// Asks a question; a wrong question is wrong usage. With `link` it says where the page has the answer.
pub(super) fn found(
    client: &Client,
    path: &str,
    params: &[(String, String)],
    link: bool,
) -> Result<Value, Failure> {
    let found = client.get(path, params).map_err(failure)?;
    if link {
        say(&page(client, &found));
    }
    Ok(found)
}

/// Where the page has an answer.
pub(super) fn page(client: &Client, answer: &Value) -> String {
    let page = client.page(answer);
    page.map_or_else(
        || "this server has no addresses of answers; it is older than this command".to_owned(),
        |page| format!("page: {page}"),
    )
}

/// The same as a table.
pub(super) fn ask(
    client: &Client,
    path: &str,
    params: &[(String, String)],
    link: bool,
) -> Result<Table, Failure> {
    found(client, path, params, link).map(table)
}

/// Columns that are left out first where there is no room for names.
const WIDE: &[&str] = &[
    "build_id",
    "module",
    "ci_basis",
    "clusters",
    "latency_kind",
    "latency_cycles",
    "n_fwd",
    "n_peer",
    "n_page_known",
    "n_page_remote",
    "n_locked",
    "n_blocked",
    "n_stlb_walk",
    "n_hitm_rmt",
];
/// Those that are left out next.
const MIDDLE: &[&str] = &[
    "tier",
    "weight",
    "est_events",
    "est_unit",
    "share_of",
    "n_hitm",
    "hosts",
];

/// Gives columns whose rows say the unit (`of COLUMN`) that unit where all say the same; the answer is the columns that are
/// no more needed.
pub(super) fn row_units(table: &mut Table) -> Vec<String> {
    let mut told = Vec::new();
    for at in 0..table.columns.len() {
        let Some(by) = table.columns[at].unit.strip_prefix("of ") else {
            continue;
        };
        let by = by.split(' ').next().unwrap_or_default().to_owned();
        let Some(place) = table.columns.iter().position(|column| column.name == by) else {
            continue;
        };
        let mut units = table.rows.iter().filter(|row| !row[at].is_null());
        let mut units: Vec<&str> = units
            .by_ref()
            .filter_map(|row| row[place].as_str())
            .collect();
        units.dedup();
        let unit = match units[..] {
            [unit] => unit.to_owned(),
            _ => String::new(),
        };
        if !unit.is_empty() && !told.contains(&by) {
            told.push(by);
        }
        table.columns[at].unit = unit;
    }
    told
}

/// For a person, on this terminal: what has room, always with that which orders rows. Programs see all.
pub(super) fn readable(table: Table, format: Format, by: &str) -> Table {
    match format {
        Format::Table => readable_at(table, width(), by),
        Format::Json | Format::Csv => table,
    }
}

/// For a person, on a terminal of so many columns.
pub(super) fn readable_at(mut table: Table, width: usize, by: &str) -> Table {
    let units = row_units(&mut table);
    table.keep_columns(|name| !units.iter().any(|unit| unit == name));
    let few: &[&[&str]] = &[WIDE, MIDDLE];
    for left_out in 0..few.len() {
        let shown = without(&table, &few[..left_out], by).narrowed(width);
        if shown.fits(width) {
            return shown;
        }
    }
    without(&table, few, by).narrowed(width)
}

/// Without these columns, but with that which orders rows.
fn without(table: &Table, columns: &[&[&str]], by: &str) -> Table {
    let mut table = table.clone();
    table.keep_columns(|name| name == by || !columns.iter().any(|of| of.contains(&name)));
    table
}

/// Exit code 64 for what the caller can mend, 1 for the rest.
pub(super) fn failure(error: ClientError) -> Failure {
    if error.is_usage() {
        Failure::usage(error)
    } else {
        error.into()
    }
}

/// `{"columns", "rows", "completeness", "notes"}` as a table.
pub(super) fn table(answer: Value) -> Table {
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let list = |key: &str| {
        answer
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let columns: Vec<Column> = list("columns")
        .iter()
        .map(|column| Column::new(text(column, "name"), text(column, "unit")))
        .collect();
    let rows = list("rows")
        .iter()
        .map(|row| cells(row, &columns))
        .collect();
    let mut notes: Vec<String> = answer
        .get("completeness")
        .and_then(completeness)
        .into_iter()
        .collect();
    notes.extend(
        list("notes")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned),
    );
    Table {
        columns,
        rows,
        notes,
        json: Some(answer),
    }
}

/// Rows come as arrays in column order, or as objects by name.
fn cells(row: &Value, columns: &[Column]) -> Vec<Value> {
    match row {
        Value::Array(cells) => cells.clone(),
        Value::Object(_) => {
            let cell = |column: &Column| row.get(&column.name).cloned().unwrap_or(Value::Null);
            columns.iter().map(cell).collect()
        }
        other => vec![other.clone()],
    }
}

/// One line that says how far the rows above can be trusted.
pub(super) fn completeness(value: &Value) -> Option<String> {
    let number = |key: &str| value.get(key).and_then(Value::as_u64);
    let mut line = format!(
        "completeness: hosts {} of {}; samples {} stored of {} produced",
        grouped(number("hosts_seen")?),
        grouped(number("hosts_expected")?),
        grouped(number("samples_stored")?),
        grouped(number("samples_produced")?),
    );
    if let (Some(named), Some(stored @ 1..)) = (number("samples_named"), number("samples_stored")) {
        line.push_str(&format!(
            "; {:.1} % with a function name",
            100.0 * named as f64 / stored as f64
        ));
    }
    let blind = value
        .get("blind_seconds")
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    if blind > 0.0 {
        line.push_str(&format!("; blind {blind:.1} s"));
    }
    let stopped = value
        .get("stopped_cpu_seconds")
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    if stopped >= 0.05 {
        line.push_str(&format!("; stopped or throttled {stopped:.1} CPU-seconds"));
    }
    if let Some(missing) = value.get("missing").and_then(Value::as_object) {
        for (reason, count) in missing
            .iter()
            .filter(|(_, count)| count.as_u64() != Some(0))
        {
            line.push_str(&format!("; {reason} {count}"));
        }
    }
    if let Some(tiers) = value.get("tiers") {
        let named = tiers.as_array().into_iter().flatten().filter_map(|tier| {
            let name = tier.get("tier")?.as_str()?;
            Some(format!(
                "{name} {}",
                grouped(tier.get("samples")?.as_u64()?)
            ))
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            line.push_str(&format!("; tiers: {}", named.join(", ")));
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_filter_without_a_value_is_wrong_usage() {
        let filter = FilterArgs {
            filters: vec!["locality".to_owned()],
            ..FilterArgs::default()
        };
        assert!(params(&filter).is_err());
    }

    #[test]
    fn people_see_what_has_room_and_what_orders_rows() {
        let names = |width: usize| -> Vec<String> {
            let name = "a".repeat(60);
            let found = table(json!({
                "columns": [{"name": "function"}, {"name": "samples"}, {"name": "n_locked"}, {"name": "hosts"}, {"name": "weight"}],
                "rows": [[name, 5, 1, 2, 7.0]], "notes": [],
            }));
            let shown = readable_at(found, width, "weight");
            assert_eq!(shown.rows[0].len(), shown.columns.len());
            let columns = shown.columns.into_iter();
            columns.map(|column| column.name).collect()
        };
        // Of a name 40 characters are shown before further columns are.
        let most = ["function", "samples", "weight"];
        assert_eq!(names(40), most);
        assert_eq!(names(60), most);
        assert_eq!(names(66), ["function", "samples", "hosts", "weight"]);
        let all = ["function", "samples", "n_locked", "hosts", "weight"];
        assert_eq!(names(74), all);
        assert_eq!(names(200), all);
    }

    #[test]
    fn an_answer_says_how_complete_it_is() {
        let table = table(json!({
            "columns": [{"name": "host", "unit": ""}, {"name": "n", "unit": "samples"}],
            "rows": [["a", 5], ["b", 6]],
            "completeness": {
                "hosts_seen": 2, "hosts_expected": 3, "samples_stored": 11, "samples_named": 10, "samples_produced": 12,
                "blind_seconds": 1.5, "missing": {"gap": 1, "refused": 0},
                "tiers": [{"tier": "software", "samples": 11}],
            },
            "notes": ["open hour included"],
        }));
        assert_eq!(table.rows.len(), 2);
        assert_eq!(
            table.notes,
            [
                "completeness: hosts 2 of 3; samples 11 stored of 12 produced; 90.9 % with a function name; blind 1.5 s; gap 1; tiers: software 11",
                "open hour included",
            ]
        );
    }
}

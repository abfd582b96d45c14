//! Annotated functions as tables, JSON and CSV.

use super::Annotated;
use crate::output::{Column, Document, Section, Table, grouped};
use crate::recording::Leftovers;
use crate::report::completeness;
use memwide_analysis::annotate::{Counts, Line, Row, Served};
use memwide_analysis::report::Estimator;
use memwide_analysis::source::name_of;
use memwide_perf_abi::file::EventTable;
use serde_json::{Map, Value, json};

/// Instructions shown before and behind one with samples.
const AROUND: usize = 3;

/// Functions of up to so many instructions are shown whole.
const WHOLE: usize = 40;

/// From this width on instructions have a column for file and line behind them; else the line's number stands before them.
const WIDE: usize = 110;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// All instructions.
    pub(crate) full: bool,
    /// Columns of the terminal.
    pub(crate) width: usize,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) functions: Vec<Annotated>,
    /// Functions that there are.
    pub(crate) found: usize,
    /// Samples in no function.
    pub(crate) nameless: u64,
    pub(crate) events: &'a EventTable,
    pub(crate) estimators: &'a [Estimator],
    /// What the weight of loads measures.
    pub(crate) weight_kind: &'a str,
    pub(crate) notes: Vec<String>,
    pub(crate) options: Options,
}

impl Answer<'_> {
    fn event(&self, function: &Annotated) -> &str {
        self.events
            .get(function.event)
            .map_or("", |event| &event.name)
    }

    fn estimator(&self, function: &Annotated) -> &'static str {
        self.estimators
            .get(function.event)
            .map_or("samples", |by| by.name())
    }
}

/// The whole answer.
pub(crate) fn document(answer: &Answer<'_>, left: &Leftovers) -> Document {
    let mut notes = Vec::new();
    if answer.found > answer.functions.len() {
        notes.push(format!(
            "{} of {} functions shown; --limit shows more",
            grouped(answer.functions.len() as u64),
            grouped(answer.found as u64)
        ));
    }
    if answer.nameless > 0 {
        notes.push(format!(
            "{} samples are in no function",
            grouped(answer.nameless)
        ));
    }
    notes.extend(answer.notes.iter().cloned());
    let functions = answer.functions.iter();
    let document = json!({
        "functions": functions.map(|function| json_function(answer, function)).collect::<Vec<_>>(),
        "functions_found": answer.found,
        "nameless_samples": answer.nameless,
        "weight_kind": answer.weight_kind,
        "notes": &notes,
        "completeness": completeness(left),
    });
    let sections = answer
        .functions
        .iter()
        .flat_map(|function| sections(answer, function));
    Document {
        sections: sections.collect(),
        csv: csv(answer),
        json: document,
        notes,
    }
}

/// A mean with one decimal.
fn rounded(mean: Option<f64>) -> Value {
    mean.map_or(Value::Null, |mean| json!((mean * 10.0).round() / 10.0))
}

fn line_text(line: Option<&Line>) -> String {
    line.map_or_else(
        || "?".to_owned(),
        |line| format!("{}:{}", name_of(&line.file), line.line),
    )
}

/// Name, unit and value of the columns that a function has, in order.
type Measures = Vec<(&'static str, &'static str, ValueOf)>;

type ValueOf = fn(&Counts) -> Value;

fn measures(of: &Counts) -> Measures {
    let mut columns: Measures = Vec::new();
    let told = of.sums.n > of.served(Served::Other);
    let served: [(Served, ValueOf); 7] = [
        (Served::L1, |c| c.served(Served::L1).into()),
        (Served::Lfb, |c| c.served(Served::Lfb).into()),
        (Served::L2, |c| c.served(Served::L2).into()),
        (Served::L3, |c| c.served(Served::L3).into()),
        (Served::Ram, |c| c.served(Served::Ram).into()),
        (Served::Remote, |c| c.served(Served::Remote).into()),
        (Served::Other, |c| c.served(Served::Other).into()),
    ];
    for (by, value) in served {
        if told && of.served(by) > 0 {
            columns.push((by.name(), "", value));
        }
    }
    if of.weight.n > 0 {
        columns.push(("weight", "mean", |c| rounded(c.weight.mean())));
    }
    if of.ins_lat.n > 0 {
        columns.push(("ins_lat", "mean", |c| rounded(c.ins_lat.mean())));
    }
    if of.retire_lat.n > 0 {
        columns.push(("retire", "mean", |c| rounded(c.retire_lat.mean())));
    }
    columns
}

/// Values of a row in text; a row without samples is empty but for its text.
fn cells(counts: &Counts, whole: &Counts, measures: &Measures) -> Vec<Value> {
    if counts.sums.n == 0 {
        return vec![Value::String(String::new()); 2 + measures.len()];
    }
    let mut cells = vec![counts.sums.share(&whole.sums).into(), counts.sums.n.into()];
    cells.extend(measures.iter().map(|(.., value)| value(counts)));
    cells
}

fn columns(measures: &Measures) -> Vec<Column> {
    let mut columns = vec![
        Column::new("share", "ratio"),
        Column::new("samples", "samples"),
    ];
    columns.extend(
        measures
            .iter()
            .map(|(name, unit, _)| Column::new(*name, *unit)),
    );
    columns
}

fn sections(answer: &Answer<'_>, function: &Annotated) -> [Section; 2] {
    let measures = measures(&function.counts);
    let of_event = function
        .counts
        .sums
        .share(&function.total.sums)
        .unwrap_or(0.0);
    let mut title = format!(
        "{} in {}, {}: {} sample{}, {:.1} % of the event",
        function.symbol,
        function.dso,
        answer.event(function),
        grouped(function.counts.sums.n),
        if function.counts.sums.n == 1 { "" } else { "s" },
        100.0 * of_event
    );
    if let Some([low, high]) = function.counts.sums.interval(&function.total.sums) {
        title.push_str(&format!(
            " (95 %: {:.1} to {:.1})",
            100.0 * low,
            100.0 * high
        ));
    }
    let mut about = vec![format!(
        "shares are of the function's {}",
        answer.estimator(function)
    )];
    if function.counts.weight.n > 0 {
        about.push(format!("weight of loads: {}, cycles", answer.weight_kind));
    }
    about.extend(function.notes.iter().cloned());
    [
        Section {
            title,
            about,
            table: line_table(function, &measures),
        },
        Section {
            title: format!("instructions of {}", function.symbol),
            about: Vec::new(),
            table: instruction_table(answer, function, &measures),
        },
    ]
}

fn line_table(function: &Annotated, measures: &Measures) -> Table {
    let mut columns = columns(measures);
    columns.extend([Column::new("line", ""), Column::new("source", "")]);
    let lines = function.listing.lines().into_iter().zip(&function.texts);
    let rows = lines.map(|((line, counts), text)| {
        let mut cells = cells(&counts, &function.counts, measures);
        cells.push(line_text(line).into());
        cells.push(text.clone().unwrap_or_default().into());
        cells
    });
    Table {
        rows: rows.collect(),
        columns,
        ..Table::default()
    }
}

fn instruction_table(answer: &Answer<'_>, function: &Annotated, measures: &Measures) -> Table {
    let wide = answer.options.width >= WIDE;
    let mut columns = columns(measures);
    columns.push(Column::new("address", ""));
    if !wide {
        columns.push(Column::new("line", ""));
    }
    columns.push(Column::new("instruction", ""));
    if wide {
        columns.push(Column::new("line", ""));
    }
    let rows = &function.listing.rows;
    let around = if answer.options.full || rows.len() <= WHOLE {
        rows.len()
    } else {
        AROUND
    };
    let (mut before, mut before_line) = (None, None);
    let mut shown = Vec::new();
    for at in function.listing.near_samples(around) {
        let Some(row) = rows.get(at) else { continue };
        if at > before.map_or(0, |before| before + 1) {
            let mut gap = vec![Value::String(String::new()); columns.len()];
            gap[2 + measures.len()] = "…".into();
            before_line = None;
            shown.push(gap);
        }
        before = Some(at);
        let mut cells = cells(&row.counts, &function.counts, measures);
        cells.push(format!("{:x}", row.instruction.address).into());
        if !wide {
            // Where the line changes; files are in the table above.
            let line = row.line.as_ref();
            let is_new = line.map(|line| line.line) != before_line;
            before_line = line.map(|line| line.line);
            let number = line.filter(|_| is_new).map(|line| line.line.to_string());
            cells.push(number.unwrap_or_default().into());
        }
        cells.push(row.instruction.text.clone().into());
        if wide {
            cells.push(line_text(row.line.as_ref()).into());
        }
        shown.push(cells);
    }
    Table {
        rows: shown,
        columns,
        ..Table::default()
    }
}

fn json_counts(counts: &Counts, whole: &Counts) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("samples".to_owned(), counts.sums.n.into());
    out.insert("share".to_owned(), counts.sums.share(&whole.sums).into());
    let interval = counts.sums.interval(&whole.sums);
    out.insert(
        "ci95".to_owned(),
        interval.map_or(Value::Null, |both| json!(both)),
    );
    let served = Served::ALL
        .iter()
        .map(|by| (by.name().to_owned(), counts.served(*by).into()));
    out.insert("served".to_owned(), Value::Object(served.collect()));
    for (name, latency) in [
        ("weight_mean", counts.weight),
        ("ins_lat_mean", counts.ins_lat),
        ("retire_lat_mean", counts.retire_lat),
    ] {
        out.insert(name.to_owned(), rounded(latency.mean()));
    }
    out
}

fn json_line(out: &mut Map<String, Value>, line: Option<&Line>) {
    out.insert(
        "file".to_owned(),
        line.map(|line| line.file.to_string()).into(),
    );
    out.insert("line".to_owned(), line.map(|line| line.line).into());
}

fn json_function(answer: &Answer<'_>, function: &Annotated) -> Value {
    let mut out = Map::new();
    for (name, value) in [
        ("event", Value::from(answer.event(function))),
        ("symbol", function.symbol.as_str().into()),
        ("dso", function.dso.as_str().into()),
        ("start", format!("{:#x}", function.start).into()),
        ("size", function.size.into()),
        ("share_by", answer.estimator(function).into()),
    ] {
        out.insert(name.to_owned(), value);
    }
    out.append(&mut json_counts(&function.counts, &function.total));
    let lines = function.listing.lines().into_iter().zip(&function.texts);
    let lines = lines.map(|((line, counts), text)| {
        let mut out = Map::new();
        json_line(&mut out, line);
        out.insert("text".to_owned(), text.clone().into());
        out.append(&mut json_counts(&counts, &function.counts));
        Value::Object(out)
    });
    out.insert("lines".to_owned(), lines.collect());
    let rows = function.listing.rows.iter();
    let shown = rows.filter(|row| answer.options.full || row.counts.sums.n > 0);
    let instructions = shown.map(|row| {
        let mut out = Map::new();
        let address = format!("{:#x}", row.instruction.address);
        out.insert("address".to_owned(), address.into());
        out.insert(
            "instruction".to_owned(),
            row.instruction.text.as_str().into(),
        );
        json_line(&mut out, row.line.as_ref());
        out.append(&mut json_counts(&row.counts, &function.counts));
        Value::Object(out)
    });
    out.insert("instructions".to_owned(), instructions.collect());
    out.insert("notes".to_owned(), function.notes.clone().into());
    Value::Object(out)
}

/// One row an instruction with samples.
fn csv(answer: &Answer<'_>) -> Table {
    let mut columns: Vec<Column> = [
        "event",
        "dso",
        "symbol",
        "address",
        "instruction",
        "file",
        "line",
    ]
    .into_iter()
    .map(|name| Column::new(name, ""))
    .collect();
    columns.push(Column::new("samples", "samples"));
    columns.extend(["share", "ci95_low", "ci95_high"].map(|name| Column::new(name, "ratio")));
    columns.extend(
        Served::ALL
            .iter()
            .map(|by| Column::new(by.name(), "samples")),
    );
    for name in ["weight_mean", "ins_lat_mean", "retire_lat_mean"] {
        columns.push(Column::new(name, "cycles"));
    }
    let row = |function: &Annotated, row: &Row| -> Vec<Value> {
        let (counts, line) = (&row.counts, row.line.as_ref());
        let interval = counts.sums.interval(&function.counts.sums);
        let mut cells = vec![
            answer.event(function).into(),
            function.dso.as_str().into(),
            function.symbol.as_str().into(),
            format!("{:#x}", row.instruction.address).into(),
            row.instruction.text.as_str().into(),
            line.map(|line| line.file.to_string()).into(),
            line.map(|line| line.line).into(),
            counts.sums.n.into(),
            counts.sums.share(&function.counts.sums).into(),
            interval.map(|[low, _]| low).into(),
            interval.map(|[_, high]| high).into(),
        ];
        cells.extend(Served::ALL.iter().map(|by| Value::from(counts.served(*by))));
        cells.extend([counts.weight, counts.ins_lat, counts.retire_lat].map(|l| rounded(l.mean())));
        cells
    };
    let rows = answer.functions.iter().flat_map(|function| {
        let rows = function
            .listing
            .rows
            .iter()
            .filter(|row| row.counts.sums.n > 0);
        rows.map(move |one| (function, one))
    });
    Table {
        rows: rows.map(|(function, one)| row(function, one)).collect(),
        columns,
        ..Table::default()
    }
}

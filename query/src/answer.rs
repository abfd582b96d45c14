//! An answer: columns with units, rows, and how complete it is.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// Type of a column's values; a value may also be missing ([`Value::Null`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name.
    Text,
    /// A whole number.
    Number,
    /// A real number.
    Real,
}

impl Kind {
    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Number => "u64",
            Self::Real => "f64",
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name, unique within an answer.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// `samples`, `cycles`, `events`, `ratio`, `records`, `seconds`, …; empty for names.
    pub unit: &'static str,
}

impl Column {
    /// A name, without a unit.
    pub const fn text(name: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Text,
            unit: "",
        }
    }

    /// A count of `unit`.
    pub const fn number(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Number,
            unit,
        }
    }

    /// A measure in `unit`.
    pub const fn real(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Real,
            unit,
        }
    }
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// There is none: the source declares no such thing. Never a stand-in for 0.
    Null,
    /// A name.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A real number.
    Real(f64),
}

impl Value {
    /// Reads a JSON value of ClickHouse as `kind`.
    pub(crate) fn read(kind: Kind, json: Json) -> Option<Self> {
        Some(match (kind, json) {
            (_, Json::Null) => Self::Null,
            (Kind::Text, Json::String(text)) => Self::Text(text),
            (Kind::Number, Json::Number(number)) => Self::Number(number.as_u64()?),
            (Kind::Number, Json::String(digits)) => Self::Number(digits.parse().ok()?),
            (Kind::Real, Json::Number(number)) => Self::Real(number.as_f64()?),
            _ => return None,
        })
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Text(text) => json!(text),
            Self::Number(number) => json!(number),
            Self::Real(real) => json!(real),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Text(text) => out.write_str(text),
            Self::Number(number) => write!(out, "{number}"),
            Self::Real(real) => write!(out, "{real}"),
        }
    }
}

/// Time without samples, of one cause.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dark {
    /// Hosts it fell on.
    pub hosts: u64,
    /// Seconds, summed over hosts; of a host with several events that of the event it fell on most. `None`: not known, as
    /// nobody told how many CPUs the hosts have.
    pub seconds: Option<f64>,
    /// The same, summed over the CPUs of each host; 0 where it is not counted by CPU.
    pub cpu_seconds: f64,
    /// The host it fell on most, the event, the CPU-seconds (else seconds) there.
    pub most: (String, String, f64),
}

/// What is there and what is missing in the time range and on the hosts of an answer, by the ledger.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completeness {
    /// The whole minutes it is told of, RFC 3339; batches count in the minute in which they were closed.
    pub since: String,
    /// Their end.
    pub until: String,
    /// Hosts that sent batches within the range.
    pub hosts_seen: u64,
    /// Hosts known by facts or ledger within 24 hours before the range's end.
    pub hosts_expected: u64,
    /// Samples that are rows: those that became one less those the store refused later.
    pub samples_stored: u64,
    /// Of these, samples whose function has a name.
    pub samples_named: u64,
    /// Samples that collectors took from rings.
    pub samples_produced: u64,
    /// Samples stored, by tier.
    pub tiers: BTreeMap<String, u64>,
    /// Rows of samples taken in these minutes, whenever their batches were closed; `None`: not counted, in long ranges it is
    /// `samples_stored` but for the edges.
    pub samples_in_range: Option<u64>,
    /// Time in which nothing could be seen.
    pub blind: Dark,
    /// Time in which sampling stood still: stopped by somebody, or throttled.
    pub stopped: Dark,
    /// Records not stored, by reason of the ledger.
    pub missing: BTreeMap<String, u64>,
}

impl Completeness {
    /// As JSON.
    pub fn to_json(&self) -> Json {
        let tiers = self.tiers.iter();
        let tiers: Vec<Json> = tiers
            .map(|(tier, samples)| json!({ "tier": tier, "samples": samples }))
            .collect();
        json!({
            "since": self.since,
            "until": self.until,
            "hosts_seen": self.hosts_seen,
            "hosts_expected": self.hosts_expected,
            "samples_stored": self.samples_stored,
            "samples_named": self.samples_named,
            "samples_produced": self.samples_produced,
            "tiers": tiers,
            "samples_in_range": self.samples_in_range,
            "blind_seconds": self.blind_seconds(),
            "stopped_seconds": self.stopped.seconds,
            "stopped_cpu_seconds": self.stopped.cpu_seconds,
            "missing": self.missing,
        })
    }

    /// Seconds in which nothing could be seen, summed over hosts.
    pub fn blind_seconds(&self) -> f64 {
        self.blind.seconds.unwrap_or(0.0)
    }
}

/// Rows of another shape beside those of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name, unique within an answer.
    pub name: &'static str,
    /// Columns, in the order of each row's values.
    pub columns: Vec<Column>,
    /// Rows; each has one value a column.
    pub rows: Vec<Vec<Value>>,
}

impl Part {
    /// Place of the column `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// What was cut after the last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Rows that are not shown.
    pub rows: u64,
    /// Samples in them.
    pub samples: u64,
}

/// Columns and rows as JSON.
fn table(columns: &[Column], rows: &[Vec<Value>]) -> (Json, Json) {
    let column = |column: &Column| json!({ "name": column.name, "type": column.kind.name(), "unit": column.unit });
    let row = |row: &Vec<Value>| row.iter().map(Value::to_json).collect::<Json>();
    (
        columns.iter().map(column).collect(),
        rows.iter().map(row).collect(),
    )
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Columns, in the order of each row's values.
    pub columns: Vec<Column>,
    /// Rows; each has one value a column.
    pub rows: Vec<Vec<Value>>,
    /// What stands behind the rows.
    pub parts: Vec<Part>,
    /// What was cut; `None`: nothing, or nobody counted it.
    pub other: Option<Other>,
    /// How complete it is.
    pub completeness: Completeness,
    /// Table the rows were read from.
    pub source_table: &'static str,
    /// What a reader must know: rounded times, mixed tiers, cut rows.
    pub notes: Vec<String>,
}

impl Answer {
    /// As JSON: `{"columns":[{"name","type","unit"}],"rows":[[…]],"parts":[{"name","columns","rows"}],"other":{"rows","samples"},
    /// "completeness":{…},"source_table":…,"notes":[…]}`.
    pub fn to_json(&self) -> Json {
        let (columns, rows) = table(&self.columns, &self.rows);
        let part = |part: &Part| {
            let (columns, rows) = table(&part.columns, &part.rows);
            json!({ "name": part.name, "columns": columns, "rows": rows })
        };
        let other = self.other.as_ref();
        json!({
            "columns": columns,
            "rows": rows,
            "parts": self.parts.iter().map(part).collect::<Json>(),
            "other": other.map(|other| json!({ "rows": other.rows, "samples": other.samples })),
            "completeness": self.completeness.to_json(),
            "source_table": self.source_table,
            "notes": self.notes,
        })
    }

    /// Place of the column `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

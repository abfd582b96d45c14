//! Where an answer is found again, whenever: by the API, on the page, and further questions about the same selection.
//!
//! Addresses are relative to the server's, as nobody here knows by which name it is reached. Their times are absolute.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value as Json, json};

use crate::answer::Column;
use crate::ask::time::{moment, text};
use crate::ask::{Dimension, Filter, Name, Question};

/// What a URL need not hide.
const HIDDEN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The links of an answer to a question that was asked by these parameters at `now_ns`.
#[derive(Debug)]
pub(super) struct Links {
    name: Name,
    /// Times, and what all questions call alike.
    shared: Vec<(String, String)>,
    /// What this question alone is asked with.
    own: Vec<(String, String)>,
    used: Vec<Dimension>,
    row_filters: Vec<&'static str>,
}

impl Links {
    pub(super) fn new(
        question: &Question,
        pairs: &[(String, String)],
        now_ns: u64,
        columns: &[Column],
    ) -> Self {
        let (name, filter) = (question.name(), question.filter());
        let mut shared = vec![
            ("since".to_owned(), text(filter.range.since_ns)),
            ("until".to_owned(), text(filter.range.until_ns)),
        ];
        for (dimension, values) in filter.dimensions() {
            let values = values.iter();
            shared.extend(values.map(|value| (dimension.name().to_owned(), value.clone())));
        }
        let own = pairs.iter().filter(|(known, value)| {
            let is_own = question
                .name()
                .extra()
                .iter()
                .any(|extra| extra.name == known);
            (is_own || known == "limit") && !value.is_empty()
        });
        Self {
            name,
            shared,
            own: own
                .map(|(name, value)| (name.clone(), absolute(name, value, now_ns)))
                .collect(),
            used: filter
                .dimensions()
                .map(|(dimension, _)| dimension)
                .collect(),
            row_filters: row_filters(name, filter, columns),
        }
    }

    /// The same answer on the page.
    pub(super) fn page(&self) -> String {
        self.page_of(self.name, &self.own)
    }

    fn page_of(&self, name: Name, own: &[(String, String)]) -> String {
        let question = ("question".to_owned(), name.name().to_owned());
        let pairs = std::iter::once(&question).chain(&self.shared).chain(own);
        format!("/?{}", query(pairs))
    }

    pub(super) fn to_json(&self) -> Json {
        let pairs = self.shared.iter().chain(&self.own);
        let takes_all = |name: &&Name| {
            let takes = |used: &Dimension| name.dimensions().contains(used);
            **name != self.name && self.used.iter().all(takes)
        };
        let next: Map<String, Json> = Name::ALL
            .iter()
            .filter(takes_all)
            .map(|name| (name.name().to_owned(), json!(self.page_of(*name, &[]))))
            .collect();
        json!({
            "self": format!("/api/v1/{}?{}", self.name.name(), query(pairs)),
            "page": self.page(),
            "row_filters": self.row_filters,
            "next": next,
        })
    }
}

/// Columns whose values narrow the question down to a row: those it can be filtered by, unless a filter leaves but one value.
/// Not builds beside functions: shares of a function are among all, those of a build within the build.
fn row_filters(name: Name, filter: &Filter, columns: &[Column]) -> Vec<&'static str> {
    let is_there = |name: &str| columns.iter().any(|column| column.name == name);
    let of_functions = is_there(Dimension::Function.name());
    let narrows = |dimension: &&Dimension| {
        let is_of_a_function = **dimension == Dimension::BuildId && of_functions;
        is_there(dimension.name()) && !is_of_a_function && filter.values(**dimension).len() != 1
    };
    let dimensions = name.dimensions().iter().filter(narrows);
    dimensions.map(|dimension| dimension.name()).collect()
}

/// A parameter's value; those that are moments (`before_since`) as such.
fn absolute(name: &str, value: &str, now_ns: u64) -> String {
    if !name.ends_with("_since") && !name.ends_with("_until") {
        return value.to_owned();
    }
    moment("since", value, now_ns).map_or_else(|_| value.to_owned(), text)
}

fn query<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> String {
    let encoded = |text: &'a str| utf8_percent_encode(text, HIDDEN);
    let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<String>>().join("&")
}

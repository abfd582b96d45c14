//! Standing rules: a question or a statement asked again and again, that fires when a column is beyond a threshold by more
//! than its noise. What fires is a metric, an answer of `/api/v1/rules`, and a webhook: a release gate.

mod judge;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Query;
use axum::http::Uri;
use memwide_service::config::Wrong;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::ask::time::text;
use crate::ask::{LIMIT_MAX, Name, Question};

pub(crate) use watch::keep;

/// Longest time between two askings.
const EVERY_S_MAX: u64 = 7 * 24 * 3_600;

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// A question as in the path of the API, as `diff?since=-1h&before_since=-25h&before_until=-24h`.
    pub question: String,
    /// Or a statement; `question` is empty then.
    pub sql: String,
    /// The column that is judged; of a statement it may be empty: then every row fires. With a column an answer without rows, or
    /// without a number there, makes the rule fail: nothing was judged.
    pub column: String,
    /// It fires above this.
    pub above: Option<f64>,
    /// It fires below this.
    pub below: Option<f64>,
    /// Not by noise: the whole interval (`COLUMN_low`, `COLUMN_high`) has to be beyond, and where rows say whether they
    /// changed, `changed` has to be yes.
    pub beyond_noise: bool,
    /// Seconds from one asking to the next; 0: 60.
    pub every_seconds: u64,
    /// Where to POST when it starts or ceases to fire, `http://…` or `https://…`; empty: nowhere. Over HTTPS those are believed
    /// whom this machine believes.
    pub webhook: String,
}

/// Why a rule cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule `{name}`: {why}")]
pub struct RuleError {
    name: String,
    why: String,
    /// Its place in the list, from 0, and the key that is wrong; empty: the rule.
    number: usize,
    key: &'static str,
}

impl From<RuleError> for Wrong {
    fn from(error: RuleError) -> Self {
        let key = format!("rules.{}.{}", error.number, error.key);
        Self::new(key.trim_end_matches('.'), error.to_string())
    }
}

/// A webhook that can be told: its scheme and its host are understood.
fn is_webhook(url: &str) -> bool {
    let uri = url.parse::<Uri>();
    uri.is_ok_and(|uri| {
        let is_spoken = matches!(uri.scheme_str(), Some("http" | "https"));
        is_spoken && uri.host().is_some_and(|host| !host.is_empty())
    })
}

impl Rule {
    /// Name and parameters of its question.
    fn asked(&self, now_ns: u64) -> Result<Question, String> {
        let uri: Uri = format!("/{}", self.question.trim_start_matches('/'))
            .parse()
            .map_err(|_| {
                "`question` is no path of the API; encode its values (%20 for a blank)".to_owned()
            })?;
        let name = uri.path().rsplit('/').next().unwrap_or_default();
        let Some(name) = Name::ALL.iter().find(|known| known.name() == name) else {
            let known: Vec<&str> = Name::ALL.iter().map(|known| known.name()).collect();
            return Err(format!(
                "there is no question `{name}`; use {}",
                known.join(", ")
            ));
        };
        let pairs: Query<Vec<(String, String)>> =
            Query::try_from_uri(&uri).map_err(|error| error.to_string())?;
        let mut pairs = pairs.0;
        // A rule judges all rows, not the first page of them.
        if !pairs.iter().any(|(name, _)| name == "limit") {
            pairs.push(("limit".to_owned(), LIMIT_MAX.to_string()));
        }
        Question::parse(*name, &pairs, now_ns)
            .map_err(|error| format!("{error}; {}", error.remedy()))
    }

    /// The key that is wrong (empty: the rule), and why.
    fn check(&self, now_ns: u64) -> Result<(), (&'static str, String)> {
        let wrong = |key, why: &str| Err((key, why.to_owned()));
        if self.name.is_empty() {
            return wrong("name", "it needs a `name`");
        }
        match (self.question.is_empty(), self.sql.trim().is_empty()) {
            (false, true) => {
                self.asked(now_ns).map_err(|why| ("question", why))?;
                if self.column.is_empty() {
                    return wrong("", "say which `column` is judged");
                }
            }
            (true, false) => {}
            _ => return wrong("", "it has either a `question` or a statement `sql`"),
        }
        let has_bound = self.above.is_some() || self.below.is_some();
        if !self.column.is_empty() && !has_bound {
            return wrong("column", "say `above` or `below` what it fires");
        }
        if self.column.is_empty() && (has_bound || self.beyond_noise) {
            let key = if has_bound { "" } else { "beyond_noise" };
            return wrong(
                key,
                "say which `column` is judged, or that every row fires: without `above`, `below`, `beyond_noise`",
            );
        }
        if let (Some(above), Some(below)) = (self.above, self.below)
            && above < below
        {
            let why = "every number is above `above` or below `below`: it would always fire";
            return wrong("above", why);
        }
        if self.every_seconds > EVERY_S_MAX {
            let why = "`every_seconds` is at most 604800, a week";
            return wrong("every_seconds", why);
        }
        if !self.webhook.is_empty() && !is_webhook(&self.webhook) {
            let why = "`webhook` is no URL; write http://HOST:PORT/PATH or https://HOST/PATH";
            return wrong("webhook", why);
        }
        Ok(())
    }
}

/// How a rule is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not asked yet.
    #[default]
    Unasked,
    Quiet,
    Firing,
    /// It could not be asked or judged.
    Failed,
}

impl Standing {
    const fn name(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Quiet => "quiet",
            Self::Firing => "firing",
            Self::Failed => "failed",
        }
    }
}

/// What is known of a rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) standing: Standing,
    /// Since when it stands so, and when it was asked last; ns since 1970, 0: never.
    pub(crate) since_ns: u64,
    pub(crate) asked_ns: u64,
    /// Rows that fire, as objects.
    pub(crate) rows: Vec<Json>,
    pub(crate) problem: String,
}

/// All rules and how they are.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Arc<Vec<Rule>>,
    states: Arc<Mutex<BTreeMap<String, State>>>,
}

impl Rules {
    /// Rules that can be kept.
    pub fn new(rules: Vec<Rule>, now_ns: u64) -> Result<Self, RuleError> {
        let mut names = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            let error = |(key, why): (&'static str, String)| RuleError {
                name: rule.name.clone(),
                why,
                number,
                key,
            };
            rule.check(now_ns).map_err(error)?;
            if names.contains(&&rule.name) {
                return Err(error(("name", "there are two of this name".to_owned())));
            }
            names.push(&rule.name);
        }
        Ok(Self {
            rules: Arc::new(rules),
            states: Arc::default(),
        })
    }

    pub(crate) fn all(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn state(&self, name: &str) -> State {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(name).cloned().unwrap_or_default()
    }

    fn set(&self, name: &str, state: State) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(name.to_owned(), state);
    }

    fn count(&self, standing: Standing) -> usize {
        let of = self.rules.iter();
        of.filter(|rule| self.state(&rule.name).standing == standing)
            .count()
    }

    /// `{"rules": [{"name", "state", "since", "asked", "question", "sql", "column", "above", "below", "beyond_noise", "rows", "problem"}]}`.
    pub(crate) fn to_json(&self) -> Json {
        let rules = self.rules.iter();
        let rules: Vec<Json> = rules
            .map(|rule| described(rule, &self.state(&rule.name)))
            .collect();
        json!({ "rules": rules })
    }
}

/// A rule and how it is.
fn described(rule: &Rule, state: &State) -> Json {
    let moment = |ns: u64| (ns > 0).then(|| text(ns));
    json!({
        "name": rule.name,
        "state": state.standing.name(),
        "since": moment(state.since_ns),
        "asked": moment(state.asked_ns),
        "question": rule.question,
        "sql": rule.sql,
        "column": rule.column,
        "above": rule.above,
        "below": rule.below,
        "beyond_noise": rule.beyond_noise,
        "rows": state.rows,
        "problem": state.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_767_225_600_000_000_000;

    fn rule() -> Rule {
        Rule {
            name: "r".to_owned(),
            question: "diff?since=-1h&before_since=-25h&before_until=-24h".to_owned(),
            column: "change".to_owned(),
            above: Some(0.01),
            ..Rule::default()
        }
    }

    #[test]
    fn rules_that_cannot_be_kept_say_why() {
        assert!(Rules::new(vec![rule()], NOW).is_ok());
        let of = |change: fn(&mut Rule)| {
            let mut rule = rule();
            change(&mut rule);
            Rules::new(vec![rule], NOW).unwrap_err().to_string()
        };
        for (change, says) in [
            (
                (|rule| rule.name.clear()) as fn(&mut Rule),
                "needs a `name`",
            ),
            (
                |rule| rule.question = "dif".to_owned(),
                "there is no question `dif`",
            ),
            (
                |rule| rule.question = "functions?hots=a".to_owned(),
                "does not take `hots`",
            ),
            (
                |rule| rule.sql = "SELECT 1".to_owned(),
                "either a `question` or",
            ),
            (|rule| rule.column.clear(), "which `column`"),
            (|rule| rule.above = None, "`above` or `below`"),
            (|rule| rule.below = Some(0.5), "always fire"),
            (|rule| rule.every_seconds = u64::MAX, "a week"),
            (
                |rule| {
                    rule.question.clear();
                    rule.column.clear();
                    rule.sql = "SELECT 1".to_owned();
                },
                "every row fires",
            ),
            (|rule| rule.webhook = "ftp://x".to_owned(), "https://HOST"),
            (|rule| rule.webhook = "https:///hook".to_owned(), "no URL"),
            (|rule| rule.webhook = "hook".to_owned(), "no URL"),
        ] {
            let why = of(change);
            assert!(why.contains(says), "{why}");
        }
        let spoken = |webhook: &str| {
            let webhook = webhook.to_owned();
            Rules::new(vec![Rule { webhook, ..rule() }], NOW)
        };
        for webhook in ["http://h:9000/hook", "https://h/hook", "https://[::1]:1"] {
            assert!(spoken(webhook).is_ok(), "{webhook}");
        }
        let wrong = |rules| Wrong::from(Rules::new(rules, NOW).unwrap_err());
        let unspoken = Rule {
            name: "other".to_owned(),
            webhook: "h".to_owned(),
            ..rule()
        };
        assert_eq!(wrong(vec![rule(), unspoken]).key, "rules.1.webhook");
        assert_eq!(
            wrong(vec![Rule {
                column: String::new(),
                ..rule()
            }])
            .key,
            "rules.0"
        );
        let twice = Rules::new(vec![rule(), rule()], NOW).unwrap_err();
        assert!(twice.to_string().contains("two of this name"));
    }
}

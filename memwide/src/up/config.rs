//! What `memwide up` can be told: the keys of the collector on this machine, and bounds and standing rules of the query service.

use crate::command::role::loader;
use memwide_query::{Limits, Rule};
use memwide_service::config::{ConfigError, Place, Resolved};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The keys of one file; those of each service are the same as in its own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UpConfig {
    #[serde(flatten)]
    pub(crate) collector: memwide_collector::Config,
    limits: Limits,
    rules: Vec<Rule>,
}

/// Keys of the collector that `up` sets itself, and by which of its flags.
const OWN_KEYS: [(&str, &str); 2] = [
    (
        "endpoint",
        "`memwide up` sends to its own decoder (--ingest says where that listens); leave it out, or run `memwide collector`",
    ),
    (
        "spool.dir",
        "the spool of `memwide up` lies in its data folder (--data says where); leave it out",
    ),
];

impl UpConfig {
    /// Defaults, the file, variables `MEMWIDE_<KEY>`.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let loaded = loader::<Self>(file).load();
        let checked = loaded.and_then(|resolved| {
            refuse_own(&resolved)?;
            resolved.checked(|config| {
                config.collector.check()?;
                config.query().check()
            })
        });
        Ok(checked?.value)
    }

    /// The query service's configuration; its store is not known here.
    pub(crate) fn query(&self) -> memwide_query::Config {
        memwide_query::Config {
            limits: self.limits,
            rules: self.rules.clone(),
            ..memwide_query::Config::default()
        }
    }
}

/// What would be taken and not heeded is a mistake.
fn refuse_own(resolved: &Resolved<UpConfig>) -> Result<(), ConfigError> {
    for (key, reason) in OWN_KEYS {
        let place = resolved.place(key);
        if *place != Place::Default {
            return Err(ConfigError::WrongValue {
                key: key.to_owned(),
                place: place.clone(),
                reason: reason.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What is said of a file, without its folder.
    fn said(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("up.toml");
        std::fs::write(&path, text).unwrap();
        match UpConfig::load(Some(&path)) {
            Ok(_) => "taken".to_owned(),
            Err(failure) => failure
                .to_string()
                .replace(&format!("{}/", folder.path().display()), ""),
        }
    }

    #[test]
    fn keys_of_collector_and_query_service_stand_in_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("up.toml");
        let text =
            "host = 'web-1'\n[limits]\nseconds = 7\n[[rules]]\nname = 'r'\nsql = 'SELECT 1'\n";
        std::fs::write(&path, text).unwrap();
        let config = UpConfig::load(Some(&path)).unwrap();
        let query = config.query();
        assert_eq!(config.collector.host, "web-1");
        assert_eq!((query.limits.seconds, query.rules.len()), (7, 1));
        assert_eq!(query.rules[0].sql, "SELECT 1");
    }

    /// Each key there is, with a value of every wrong kind: none is taken silently.
    #[test]
    fn every_key_refuses_a_value_of_another_type_and_names_it() {
        let known = serde_json::to_value(UpConfig::default()).unwrap();
        let mut keys = Vec::new();
        leaves("", &known, &mut keys);
        assert!(keys.len() > 30, "{keys:?}");
        for (key, default) in keys {
            let wrong: &[&str] = match default {
                Value::String(_) => &["5", "true", "['a']", "{a = 1}"],
                Value::Bool(_) => &["5", "'yes'", "[true]"],
                Value::Number(number) if number.is_f64() => &["'5'", "true", "nan", "inf"],
                Value::Number(_) => &["'5'", "true", "-1", "1.5", "99999999999999999999"],
                Value::Array(_) => &["5", "true", "[5]", "[{nobody = 1}]", "[[]]"],
                _ => &["5", "'a'", "[1]"],
            };
            for value in wrong {
                let said = said(&format!("{key} = {value}\n"));
                let named = said.contains(&format!("`{key}")) && said.contains("(up.toml:1)");
                assert!(named, "{key} = {value}: {said}");
            }
        }
    }

    /// Keys of a tree that have no keys below them.
    fn leaves(above: &str, tree: &Value, into: &mut Vec<(String, Value)>) {
        match tree {
            Value::Object(table) if !table.is_empty() => {
                for (name, value) in table {
                    let key = if above.is_empty() {
                        name.clone()
                    } else {
                        format!("{above}.{name}")
                    };
                    leaves(&key, value, into);
                }
            }
            value => into.push((above.to_owned(), value.clone())),
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_place_and_remedy() {
        let rule = "[[rules]]\nname = 'r'\nquestion = 'functions?since=-1h'\ncolumn = 'share'\n";
        #[rustfmt::skip]
        let rows = [
            ("endpoint = 'http://h:1'\n".to_owned(), &["`endpoint` (up.toml:1)", "--ingest"][..]),
            ("\nspool.dir = '/tmp'\n".to_owned(), &["`spool.dir` (up.toml:2)", "--data"]),
            ("limits.second = 5\n".to_owned(), &["unknown key `limits.second` (up.toml:1)", "did you mean `limits.seconds`"]),
            ("store = 'http://h'\n".to_owned(), &["unknown key `store` (up.toml:1)"]),
            ("[limits]\nseconds = 0\n".to_owned(), &["`limits.seconds` (up.toml:2)", "from 1 to"]),
            ("[budget]\n\ncpu_percent = 0.0\n".to_owned(), &["`budget.cpu_percent` (up.toml:3)", "above 0"]),
            ("events = ['auto', 'minr-faults']\n".to_owned(), &["`events` (up.toml:1)", "minor-faults"]),
            ("[[events]]\nname = 'auto'\n[[events]]\nname = 'cpu-clock'\nperiod = -5\n".to_owned(), &["`events.period` (up.toml:5)", "-5"]),
            ("labels.zone = 5\n".to_owned(), &["`labels.zone` (up.toml:1)"]),
            (rule.to_owned(), &["`rules.column` (up.toml:4)", "rule `r`", "`above` or `below`"]),
            (format!("{rule}abve = 1\n"), &["`rules.abve` (up.toml:5)", "unknown field `abve`", "`above`"]),
            (format!("{rule}above = '1'\n"), &["`rules.above` (up.toml:5)", "expected f64"]),
            (format!("{rule}above = 1\nwebhook = 'alerts'\n"), &["`rules.webhook` (up.toml:6)", "https://HOST"]),
            (format!("{rule}above = 1\n{rule}above = 1\n"), &["`rules.name` (up.toml:7)", "two of this name"]),
            (rule.replace("since", "sinse"), &["`rules.question` (up.toml:3)", "sinse"]),
        ];
        for (text, parts) in rows {
            let said = said(&text);
            for part in parts {
                assert!(said.contains(part), "{text}: {said} lacks {part}");
            }
        }
        assert_eq!(
            said(&format!(
                "{rule}above = 1\nwebhook = 'https://alerts.example/hook'\n"
            )),
            "taken"
        );
    }
}

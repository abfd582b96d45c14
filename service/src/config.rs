//! Default < file < environment < flags, unknown keys refused by name.
//!
//! A service brings one type with `Default`, `Serialize` and `Deserialize`; the keys its default
//! serializes to are the keys there are. A table that is empty in the default takes any key. What
//! was resolved, and from where, is kept for `/config`.
//!
//! | source | written as |
//! |---|---|
//! | file | TOML: `[spool]` `max_bytes = 1000` |
//! | environment | `MEMWIDE_SPOOL__MAX_BYTES=1000`; lists as `a,b` or `["a", "b"]` |
//! | flags | any serializable value of the same shape; what is null is not given |

mod file;
mod secret;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::exit;
use crate::telemetry::LOG_VARIABLE;
pub use secret::Secret;

/// Every variable that configures a service starts so.
pub const PREFIX: &str = "MEMWIDE_";

/// Variables with the prefix that are no configuration keys.
const NOT_KEYS: &[&str] = &[
    LOG_VARIABLE,
    "MEMWIDE_CHECKERS",
    "MEMWIDE_CLIENTS",
    "MEMWIDE_COMMIT",
    "MEMWIDE_ENGINE",
    "MEMWIDE_NATS_SERVER",
    "MEMWIDE_TOOLS",
];

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nobody gave it.
    Default,
    /// In a file, at this line (from 1).
    File(PathBuf, usize),
    /// By this variable.
    Variable(String),
    /// On the command line.
    Flag,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {}; name an existing file with --config, examples are in deploy/config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// There is no such key.
    #[error(
        "unknown key `{key}` ({place}){}",
        nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
    )]
    UnknownKey {
        /// The key, its tables joined by dots.
        key: String,
        /// Where it was given.
        place: Place,
        /// The known key most like it.
        nearest: Option<String>,
    },
    /// The key does not take this value.
    #[error("wrong value for `{key}` ({place}): {reason}")]
    WrongValue {
        /// The key, its tables joined by dots.
        key: String,
        /// Where it was given.
        place: Place,
        /// What is wrong with it.
        reason: String,
    },
    /// Each value is right, together they are not.
    #[error("configuration does not fit together: {reason}")]
    WrongTogether {
        /// What is wrong.
        reason: String,
    },
}

/// A value that its type takes and its meaning does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Its key, its tables joined by dots; what stands in a list by its number from 0 (`rules.0.name`).
    pub key: String,
    /// Why not, and what to write instead.
    pub reason: String,
}

impl Wrong {
    /// A value that is not what it should be.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            reason: reason.into(),
        }
    }

    /// A number that has to lie between two others.
    pub fn unless_within<N: Copy + PartialOrd + fmt::Display>(
        key: &str,
        value: N,
        (least, most): (N, N),
        unit: &str,
    ) -> Result<(), Self> {
        if least <= value && value <= most {
            return Ok(());
        }
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        let reason = format!("{value} is not from {least} to {most}{unit}");
        Err(Self::new(key, reason))
    }
}

impl ConfigError {
    /// Exit code of a process that cannot start because of this.
    pub fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Resolves a configuration of type `T`.
#[derive(Debug)]
pub struct Loader<T> {
    files: Vec<(PathBuf, bool)>,
    variables: Vec<(String, String)>,
    flags: Vec<Value>,
    not_keys: Vec<String>,
    resolves: std::marker::PhantomData<fn() -> T>,
}

/// A resolved configuration and where each value came from.
#[derive(Debug, Clone)]
pub struct Resolved<T> {
    /// The configuration.
    pub value: T,
    /// Where each key that is not a default was given.
    pub places: BTreeMap<String, Place>,
}

impl<T: Serialize> Resolved<T> {
    /// `{"key": {"value": …, "from": "…"}}` for `/config`; secrets show as `<secret>`.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let tree = serde_json::to_value(&self.value).unwrap_or(Value::Null);
        tree::walk(&tree, &mut |key, value| {
            let place = self.place(key);
            let row = serde_json::json!({ "value": value, "from": place.to_string() });
            out.insert(key.to_owned(), row);
        });
        Value::Object(out)
    }

    /// The same if `check` finds nothing that only its meaning forbids.
    pub fn checked(self, check: impl FnOnce(&T) -> Result<(), Wrong>) -> Result<Self, ConfigError> {
        let wrong = check(&self.value);
        wrong.map_err(|wrong| ConfigError::WrongValue {
            place: self.place(&wrong.key).clone(),
            key: tree::without_numbers(&wrong.key),
            reason: wrong.reason,
        })?;
        Ok(self)
    }

    /// Where the value of `key` was given.
    pub fn place(&self, key: &str) -> &Place {
        let mut key = key;
        loop {
            if let Some(place) = self.places.get(key) {
                return place;
            }
            match key.rsplit_once('.') {
                Some((table, _)) => key = table,
                None => return &Place::Default,
            }
        }
    }
}

impl<T: Serialize + DeserializeOwned + Default> Default for Loader<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Serialize + DeserializeOwned + Default> Loader<T> {
    /// Only the defaults.
    pub fn new() -> Self {
        Self {
            files: Vec::new(),
            variables: Vec::new(),
            flags: Vec::new(),
            not_keys: NOT_KEYS.iter().map(|&name| name.to_owned()).collect(),
            resolves: std::marker::PhantomData,
        }
    }

    /// Reads this file, which must exist. Later files win.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push((path.into(), true));
        self
    }

    /// Reads this file if it exists.
    #[must_use]
    pub fn file_if_present(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push((path.into(), false));
        self
    }

    /// Reads the variables of this process that start with [`PREFIX`].
    #[must_use]
    pub fn environment(self) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        self.variables(variables)
    }

    /// As [`Loader::environment`], from these variables.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = variables.into_iter();
        self.variables
            .extend(ours.filter(|(name, _)| name.starts_with(PREFIX)));
        self
    }

    /// A variable with the prefix that somebody else reads.
    #[must_use]
    pub fn not_a_key(mut self, variable: &str) -> Self {
        self.not_keys.push(variable.to_owned());
        self
    }

    /// Values of the command line, in the shape of `T`; what is null or missing is not given.
    #[must_use]
    pub fn flags(mut self, flags: impl Serialize) -> Self {
        self.flags
            .push(serde_json::to_value(flags).unwrap_or(Value::Null));
        self
    }

    /// Resolves everything, or names the first thing that is wrong.
    pub fn load(self) -> Result<Resolved<T>, ConfigError> {
        let together = |error: serde_json::Error| ConfigError::WrongTogether {
            reason: error.to_string(),
        };
        let known = serde_json::to_value(T::default()).map_err(together)?;
        let mut given: Vec<Given> = Vec::new();
        for (path, required) in &self.files {
            given.extend(read_file(path, *required)?);
        }
        for (name, text) in self.variables {
            if !self.not_keys.contains(&name) {
                given.push(variable(&known, name, &text));
            }
        }
        for flags in &self.flags {
            tree::walk(flags, &mut |key, value| {
                if !value.is_null() {
                    given.push(Given {
                        key: key.to_owned(),
                        value: value.clone(),
                        place: Place::Flag,
                        within: Vec::new(),
                    });
                }
            });
        }
        for one in &given {
            if !tree::knows(&known, &one.key) {
                return Err(ConfigError::UnknownKey {
                    key: one.key.clone(),
                    place: one.place.clone(),
                    nearest: tree::nearest(&known, &one.key),
                });
            }
        }
        let mut resolved = known.clone();
        for one in &given {
            tree::set(&mut resolved, &one.key, one.value.clone());
        }
        let value = match serde_json::from_value(resolved) {
            Ok(value) => value,
            Err(error) => return Err(blame::<T>(&known, &given, &error)),
        };
        let mut places = BTreeMap::new();
        for one in given {
            // A list that was given again hides where the tables of the other one stood.
            let below = format!("{}.", one.key);
            places.retain(|key: &String, _| !key.starts_with(&below));
            let within = one.within.iter();
            places.extend(within.map(|(key, place)| (format!("{below}{key}"), place.clone())));
            places.insert(one.key, one.place);
        }
        Ok(Resolved { value, places })
    }
}

/// One value somebody gave.
#[derive(Debug, Clone)]
struct Given {
    key: String,
    value: Value,
    place: Place,
    /// Of a list of tables of a file: where each table and each of its keys stands.
    within: Vec<(String, Place)>,
}

impl Given {
    /// Where what is at `key` within this value was given, or at least the value.
    fn place_within(&self, key: &str) -> &Place {
        let found = self.within.iter().find(|(known, _)| known == key);
        found.map_or(&self.place, |(_, place)| place)
    }
}

fn read_file(path: &Path, required: bool) -> Result<Vec<Given>, ConfigError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if !required && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(source) => {
            let path = path.to_owned();
            return Err(ConfigError::Unreadable { path, source });
        }
    };
    let rows = file::parse(path, &text)?;
    let at = |line| Place::File(path.to_owned(), line);
    let given = rows.into_iter().map(|row| Given {
        key: row.key,
        value: row.value,
        place: at(row.line),
        within: row
            .within
            .into_iter()
            .map(|(key, line)| (key, at(line)))
            .collect(),
    });
    Ok(given.collect())
}

/// `MEMWIDE_SPOOL__MAX_BYTES=5` → `spool.max_bytes = 5`, read as the default's type says.
fn variable(known: &Value, name: String, text: &str) -> Given {
    let key = name
        .trim_start_matches(PREFIX)
        .split("__")
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join(".");
    let value = match tree::get(known, &key) {
        Some(Value::String(_)) => Value::String(text.to_owned()),
        Some(Value::Array(_)) if !text.trim_start().starts_with('[') => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            items.map(|item| Value::String(item.to_owned())).collect()
        }
        _ => file::parse_value(text).unwrap_or_else(|| Value::String(text.to_owned())),
    };
    Given {
        key,
        value,
        place: Place::Variable(name),
        within: Vec::new(),
    }
}

/// Finds the value that does not fit: the first that the defaults do not take alone.
fn blame<T: DeserializeOwned>(
    known: &Value,
    given: &[Given],
    together: &serde_json::Error,
) -> ConfigError {
    for one in given {
        let tried = |value: Value| {
            let mut alone = known.clone();
            tree::set(&mut alone, &one.key, value);
            serde_json::from_value::<T>(alone).err()
        };
        if let Some(error) = tried(one.value.clone()) {
            let (within, reason) = blame_within(&one.value, &tried)
                .unwrap_or_else(|| (String::new(), error.to_string()));
            return ConfigError::WrongValue {
                key: tree::without_numbers(&format!("{}.{within}", one.key)),
                place: one.place_within(&within).clone(),
                reason,
            };
        }
    }
    ConfigError::WrongTogether {
        reason: together.to_string(),
    }
}

/// Of a list of tables: the first table that is not taken, with the key without which it would be; and why.
fn blame_within(
    list: &Value,
    tried: &impl Fn(Value) -> Option<serde_json::Error>,
) -> Option<(String, String)> {
    for (number, item) in list.as_array()?.iter().enumerate() {
        let alone = |item: Value| tried(Value::Array(vec![item]));
        let Some(error) = alone(item.clone()) else {
            continue;
        };
        let keys = item.as_object().into_iter().flat_map(Map::keys);
        let guilty = keys.into_iter().find(|key| {
            let mut without = item.clone();
            without.as_object_mut().map(|table| table.remove(*key));
            alone(without).is_none()
        });
        let place = guilty.map_or_else(|| number.to_string(), |key| format!("{number}.{key}"));
        return Some((place, error.to_string()));
    }
    None
}

#[cfg(test)]
mod tests;

//! What the centre says of collectors: a file of settings, watched, with a section for each kind of hosts.
//!
//! ```toml
//! version = 3
//!
//! [[collectors]]              # later sections win, key by key
//! hosts = "*"
//! budget = { cpu_percent = 1.0 }
//!
//! [[collectors]]
//! hosts = "*"
//! labels = { pool = "db" }    # beside the name, all of these
//! stop = true
//! ```
//!
//! A decoder puts together what holds for a host and hands it on; what the keys mean is the collector's matter, which takes
//! them or says why not.

use crate::metrics;
use memwide_proto::v1;
use memwide_service::pattern::fits;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Pause between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Bytes of the file.
const BYTES_MAX: usize = 1 << 20;

/// The file as it was last right.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Raised by the person with each change.
    version: u64,
    #[serde(default)]
    collectors: Vec<Section>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Section {
    hosts: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(flatten)]
    keys: toml::Table,
}

impl Section {
    /// Whether it is meant for a host: its name fits, and each label does.
    fn is_for(&self, host: &str, labels: &HashMap<String, String>) -> bool {
        let has = |(name, pattern): (&String, &String)| {
            labels.get(name).is_some_and(|value| fits(pattern, value))
        };
        fits(&self.hosts, host) && self.labels.iter().all(has)
    }
}

impl Settings {
    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!(
                "{} bytes, at most {BYTES_MAX} are read",
                text.len()
            ));
        }
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if settings.version == 0 {
            return Err("`version` is 0; count from 1".to_owned());
        }
        Ok(settings)
    }

    /// What holds for a host; one that no section names has its own file alone.
    fn of(&self, host: &str, labels: &HashMap<String, String>) -> v1::Configure {
        let mut all = toml::Table::new();
        let sections = self.collectors.iter();
        for section in sections.filter(|section| section.is_for(host, labels)) {
            lay_over(&mut all, &section.keys);
        }
        v1::Configure {
            version: self.version,
            toml: all.to_string(),
            boost: None,
        }
    }
}

/// Keys of `over` win; tables are laid over each other, lists are not.
fn lay_over(under: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => lay_over(under, over),
            (Some(under), value) => *under = value.clone(),
            (None, value) => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The file, and what collectors said of it.
#[derive(Debug)]
pub(super) struct Collectors {
    file: PathBuf,
    settings: watch::Sender<Option<Arc<Settings>>>,
    /// The last refusal that was logged: thousands of hosts may say the same.
    warned: Mutex<(u64, String)>,
}

/// What one collector should hear.
#[derive(Debug)]
pub(super) struct Listener {
    /// `None`: nothing.
    settings: Option<watch::Receiver<Option<Arc<Settings>>>>,
    host: String,
    labels: HashMap<String, String>,
}

impl Collectors {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            settings: watch::Sender::new(None),
            warned: Mutex::default(),
        }
    }

    /// For a source that says this of itself: only those that collect here and now are told anything.
    pub(super) fn listen(&self, hello: &v1::Hello) -> Listener {
        Listener {
            settings: (hello.kind == "live").then(|| self.settings.subscribe()),
            host: hello.hostname.clone(),
            labels: hello.labels.clone(),
        }
    }

    /// Follows the file until cancelled. While it is wrong or away what it said last holds.
    pub(super) async fn follow(&self) {
        if self.file.as_os_str().is_empty() {
            return std::future::pending().await;
        }
        let mut seen = None;
        loop {
            let read = read(self.file.clone()).await;
            if seen.as_ref() != Some(&read) {
                self.take(&read);
                seen = Some(read);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn take(&self, read: &Result<String, String>) {
        let in_force = self.settings.borrow().as_ref().map_or(0, |one| one.version);
        let parsed = read.as_ref().map_err(Clone::clone);
        let parsed = parsed.and_then(|text| Settings::parse(text)).and_then(|new| {
            let is_other = self.settings.borrow().as_deref() != Some(&new);
            if new.version < in_force || (new.version == in_force && is_other) {
                let version = new.version;
                return Err(format!(
                    "`version` is {version}, and other settings have {in_force} already; raise it"
                ));
            }
            Ok(new)
        });
        match parsed {
            Ok(new) => {
                metrics::CENTRAL_VERSION.set(new.version);
                metrics::CENTRAL_WRONG.set(0);
                tracing::info!(
                    version = new.version,
                    sections = new.collectors.len(),
                    "settings of collectors are read"
                );
                self.settings.send_replace(Some(Arc::new(new)));
            }
            Err(why) => {
                metrics::CENTRAL_WRONG.set(1);
                tracing::error!(
                    file = %self.file.display(), in_force, why,
                    "settings of collectors are not read, those in force stay"
                );
            }
        }
    }

    /// A collector has answered.
    pub(super) fn answered(&self, host: &str, report: &v1::ConfigReport) {
        if report.applied {
            metrics::CENTRAL_TAKEN.add(1);
            return;
        }
        metrics::CENTRAL_REFUSED.add(1);
        let said = (report.version, report.message.clone());
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned == said {
            return;
        }
        tracing::warn!(
            host,
            version = report.version,
            why = report.message,
            "a collector refuses its settings; others that say the same are counted only"
        );
        *warned = said;
    }
}

async fn read(file: PathBuf) -> Result<String, String> {
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(&file)).await;
    match read {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Listener {
    /// What holds for the host now.
    pub(super) fn now(&mut self) -> Option<v1::Configure> {
        let settings = self.settings.as_mut()?.borrow_and_update().clone()?;
        Some(settings.of(&self.host, &self.labels))
    }

    /// Waits until other settings hold.
    pub(super) async fn changed(&mut self) {
        if let Some(settings) = &mut self.settings
            && settings.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../deploy/central/collectors.toml");

    fn toml_of(settings: &Settings, host: &str) -> toml::Table {
        toml_with(settings, host, &[])
    }

    fn toml_with(settings: &Settings, host: &str, labels: &[(&str, &str)]) -> toml::Table {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        settings.of(host, &labels.collect()).toml.parse().unwrap()
    }

    fn hello(host: &str, kind: &str) -> v1::Hello {
        v1::Hello {
            hostname: host.to_owned(),
            kind: kind.to_owned(),
            ..v1::Hello::default()
        }
    }

    #[test]
    fn labels_choose_hosts_beside_their_names() {
        let settings = Settings::parse(
            r#"
            version = 1
            [[collectors]]
            hosts = "node-*"
            labels = { pool = "db", region = "eu-*" }
            stop = true
            "#,
        )
        .unwrap();
        let both = [("pool", "db"), ("region", "eu-west"), ("rack", "7")];
        let other_pool = [("pool", "db-2"), ("region", "eu-west")];
        let rows = [
            ("node-1", &both[..], true),
            ("web-1", &both, false),
            ("node-1", &both[..1], false),
            ("node-1", &other_pool, false),
            ("node-1", &[], false),
        ];
        for (host, labels, meant) in rows {
            let stops = toml_with(&settings, host, labels).contains_key("stop");
            assert_eq!(stops, meant, "{host} {labels:?}");
        }
        let wrong = "version = 1\n[[collectors]]\nhosts = '*'\nlabels = { pool = 3 }";
        assert!(Settings::parse(wrong).is_err());
    }

    #[test]
    fn later_sections_win_key_by_key() {
        let settings = Settings::parse(
            r#"
            version = 2
            [[collectors]]
            hosts = "*"
            events = ["auto"]
            budget = { cpu_percent = 1.0, handler_percent = 0.5 }
            [[collectors]]
            hosts = "db-*"
            stop = true
            events = ["minor-faults"]
            budget.cpu_percent = 0.5
            "#,
        )
        .unwrap();
        let rows = [
            (
                "web-1",
                "events = ['auto']\nbudget = { cpu_percent = 1.0, handler_percent = 0.5 }",
            ),
            (
                "db-1",
                "events = ['minor-faults']\nstop = true\nbudget = { cpu_percent = 0.5, handler_percent = 0.5 }",
            ),
        ];
        for (host, expected) in rows {
            assert_eq!(
                toml_of(&settings, host),
                expected.parse().unwrap(),
                "{host}"
            );
        }
        let named =
            Settings::parse("version = 1\n[[collectors]]\nhosts = 'a'\nstop = true").unwrap();
        assert_eq!(
            toml_of(&named, "b"),
            toml::Table::new(),
            "its own file alone"
        );
    }

    #[test]
    fn a_wrong_file_leaves_what_was_in_force() {
        let collectors = Collectors::new(PathBuf::new());
        let mut listener = collectors.listen(&hello("a", "live"));
        assert_eq!(listener.now(), None);
        let section = "[[collectors]]\nhosts = '*'\n";
        let rows = [
            ("version = 1".to_owned(), 1),
            ("version = 3".to_owned(), 3),
            ("version = ".to_owned(), 3),
            ("collectors = []".to_owned(), 3),
            ("versoin = 4".to_owned(), 3),
            ("version = 0".to_owned(), 3),
            ("version = 2".to_owned(), 3),
            (format!("version = 3\n{section}stop = true"), 3),
            ("version = 4\n[[collectors]]\nstop = true".to_owned(), 3),
            (format!("version = 4\n{section}stop = true"), 4),
        ];
        for (text, in_force) in rows {
            collectors.take(&Ok(text.clone()));
            assert_eq!(listener.now().unwrap().version, in_force, "{text}");
        }
        collectors.take(&Err("it is gone".to_owned()));
        assert_eq!(listener.now().unwrap().toml.trim(), "stop = true");
        assert_eq!(collectors.listen(&hello("a", "simulated")).now(), None);
    }

    #[test]
    fn the_example_is_right() {
        let shipped = Settings::parse(TEXT).unwrap();
        assert!(toml_of(&shipped, "db-7").is_empty(), "nothing is set by it");
        let lines = TEXT.lines().map(|line| {
            let set = line.strip_prefix('#');
            set.filter(|set| !set.starts_with(' ')).unwrap_or(line)
        });
        let set = Settings::parse(&lines.collect::<Vec<_>>().join("\n")).unwrap();
        let keys = |host| toml_of(&set, host).keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("web-1"), ["budget", "events", "select"]);
        assert_eq!(keys("db-7"), ["budget", "events", "select", "stop"]);
    }
}

//! What the centre says of a collector, held against what its own file allows. Pure but for a look at the machine's events.
//!
//! Costs may only become smaller, selections only narrower. Places, addresses and sizes are the host's own: there are no
//! keys for them here.

use serde::Deserialize;

use crate::config::{Config, EventConfig, Mode};
use crate::events::machine::Machine;
use crate::events::{OpenError, try_open};
use crate::select::Selection;

/// Bytes of settings; a hundred events need less.
const BYTES_MAX: usize = 64 << 10;
/// Events, each with a descriptor on every CPU.
const EVENTS_MAX: usize = 64;

/// Why settings are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{bytes} bytes of settings, at most {BYTES_MAX} are taken")]
    Long { bytes: usize },
    #[error("{0}")]
    Form(String),
    #[error("`{key}` is {asked}; this host's own file allows more than 0 and at most {allowed}")]
    Raised {
        key: &'static str,
        asked: String,
        allowed: String,
    },
    #[error("`budget.govern` cannot be switched off centrally: nothing would bound the cost")]
    Ungoverned,
    #[error(
        "`events` cannot be set where this host's own file says budget.govern = false: nothing would bound their cost; set \
         `budget.govern = true` too"
    )]
    UngovernedEvents,
    #[error("`events` has {0} entries, 1 to {EVENTS_MAX} are taken")]
    Events(usize),
    #[error("event `{name}`: {reason}; {remedy}")]
    Event {
        name: String,
        reason: String,
        remedy: String,
    },
    #[error(
        "this host's own file has `select.include`: others cannot be added centrally, `select.exclude` can"
    )]
    Included,
    #[error("`select.modes` has `{0}`, which this host's own file leaves out")]
    Mode(String),
    #[error("{0}")]
    Select(String),
    #[error("{0}")]
    NoEvent(String),
}

/// Keys that are missing are as the host's own file has them.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    stop: bool,
    events: Option<Vec<EventConfig>>,
    callchain_frames_max: Option<u16>,
    select: Select,
    budget: Budget,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Select {
    include: Vec<String>,
    exclude: Vec<String>,
    modes: Option<Vec<Mode>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Budget {
    govern: Option<bool>,
    cpu_percent: Option<f64>,
    handler_percent: Option<f64>,
    bytes_per_second: Option<u64>,
}

/// A collector's own configuration with central settings in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Combined {
    pub(super) config: Config,
    /// Nothing shall be sampled.
    pub(super) stop: bool,
}

/// Puts settings into a collector's own configuration, or says what is wrong with them.
pub(super) fn combine(own: &Config, toml: &str) -> Result<Combined, Unfit> {
    if toml.len() > BYTES_MAX {
        return Err(Unfit::Long { bytes: toml.len() });
    }
    let form = |error: toml::de::Error| Unfit::Form(error.message().replace('\n', " "));
    let settings: Settings = toml::from_str(toml).map_err(form)?;
    let mut config = own.clone();
    lower_budget(&mut config, &settings.budget)?;
    if let Some(frames) = settings.callchain_frames_max {
        let most = config.callchain_frames_max;
        if !(1..=most).contains(&frames) {
            return Err(raised("callchain_frames_max", &frames, &most));
        }
        config.callchain_frames_max = frames;
    }
    narrow(&mut config, settings.select)?;
    if let Some(events) = settings.events {
        if !config.budget.govern {
            return Err(Unfit::UngovernedEvents);
        }
        if !(1..=EVENTS_MAX).contains(&events.len()) {
            return Err(Unfit::Events(events.len()));
        }
        config.events = events;
    }
    let stop = settings.stop;
    Ok(Combined { config, stop })
}

/// Whether settings stop this host, whatever else they say: an emergency does not wait for a typo.
pub(super) fn says_stop(toml: &str) -> bool {
    let all: Option<toml::Table> = toml.parse().ok();
    let stop = all.and_then(|all| all.get("stop")?.as_bool());
    stop == Some(true)
}

fn raised(key: &'static str, asked: &impl ToString, allowed: &impl ToString) -> Unfit {
    Unfit::Raised {
        key,
        asked: asked.to_string(),
        allowed: allowed.to_string(),
    }
}

fn lower_budget(config: &mut Config, asked: &Budget) -> Result<(), Unfit> {
    let own = &mut config.budget;
    match asked.govern {
        Some(false) if own.govern => return Err(Unfit::Ungoverned),
        Some(govern) => own.govern = govern,
        None => {}
    }
    let lower = |key, own: &mut f64, asked: Option<f64>| match asked {
        Some(asked) if asked > 0.0 && asked <= *own => {
            *own = asked;
            Ok(())
        }
        Some(asked) => Err(raised(key, &asked, own)),
        None => Ok(()),
    };
    lower(
        "budget.cpu_percent",
        &mut own.cpu_percent,
        asked.cpu_percent,
    )?;
    let handler = asked.handler_percent;
    lower("budget.handler_percent", &mut own.handler_percent, handler)?;
    match asked.bytes_per_second {
        Some(bytes) if (1..=own.bytes_per_second).contains(&bytes) => own.bytes_per_second = bytes,
        Some(bytes) => {
            let key = "budget.bytes_per_second";
            return Err(raised(key, &bytes, &own.bytes_per_second));
        }
        None => {}
    }
    Ok(())
}

fn narrow(config: &mut Config, asked: Select) -> Result<(), Unfit> {
    let own = &mut config.select;
    if !asked.include.is_empty() {
        if !own.include.is_empty() {
            return Err(Unfit::Included);
        }
        own.include = asked.include;
    }
    own.exclude.extend(asked.exclude);
    if let Some(modes) = asked.modes {
        let foreign = modes.iter().find(|mode| !own.modes.contains(mode));
        if let Some(mode) = foreign {
            return Err(Unfit::Mode(format!("{mode:?}").to_lowercase()));
        }
        own.modes = modes;
    }
    let understood = Selection::new(own).map(drop);
    understood.map_err(|error| Unfit::Select(error.to_string()))
}

/// Whether the events are right, and at least one of them can be had here. Those that this machine does not have are reported by
/// the run, as for the host's own file; a name that no machine has is a mistake.
pub(super) fn check_events(config: &Config, machine: &Machine) -> Result<(), Unfit> {
    if let Some((number, why)) = config.wrong_event(machine) {
        return Err(Unfit::Event {
            name: config.events[number].name.clone(),
            reason: why.reason,
            remedy: why.remedy,
        });
    }
    match try_open(config, machine) {
        Err(error @ OpenError::NoEvent { .. }) => Err(Unfit::NoEvent(error.to_string())),
        // Where nothing can be sampled at all, that is not because of these settings.
        Ok(()) | Err(OpenError::SideBand { .. }) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BudgetConfig, SelectConfig};

    fn said(own: &Config, toml: &str) -> String {
        combine(own, toml).map_or_else(|unfit| unfit.to_string(), |_| "taken".to_owned())
    }

    #[test]
    fn nothing_said_is_the_hosts_own() {
        let own = Config::default();
        let combined = combine(&own, "").unwrap();
        assert_eq!((combined.config, combined.stop), (own, false));
    }

    #[test]
    fn what_is_said_takes_the_place_of_the_hosts_own() {
        let own = Config::default();
        let toml = r#"
            stop = true
            events = ["cpu-clock", { name = "minor-faults", period = 101, callchain = true }]
            callchain_frames_max = 16
            [select]
            include = ["namespace=shop"]
            exclude = ["comm=secret*"]
            modes = ["user"]
            [budget]
            cpu_percent = 0.5
            bytes_per_second = 1000
        "#;
        let Combined { config, stop } = combine(&own, toml).unwrap();
        assert!(stop);
        assert_eq!(config.events[1].period, Some(101));
        assert_eq!(config.callchain_frames_max, 16);
        assert_eq!(config.select.modes, [Mode::User]);
        let budget = BudgetConfig {
            cpu_percent: 0.5,
            bytes_per_second: 1000,
            ..own.budget
        };
        assert_eq!(config.budget, budget);
        assert_eq!(config.spool, own.spool, "the rest is the host's own");
    }

    #[test]
    fn rules_of_the_host_stay_beside_central_ones() {
        let own = Config {
            select: SelectConfig {
                exclude: vec!["namespace=bank".to_owned()],
                ..SelectConfig::default()
            },
            ..Config::default()
        };
        let central = "[select]\nexclude = [\"namespace=hr\"]";
        let config = combine(&own, central).unwrap().config;
        assert_eq!(config.select.exclude, ["namespace=bank", "namespace=hr"]);
    }

    #[test]
    fn what_is_unknown_unsafe_or_more_than_the_host_allows_is_refused_by_name() {
        let own = Config::default();
        let ungoverned = Config {
            budget: BudgetConfig {
                govern: false,
                ..BudgetConfig::default()
            },
            ..Config::default()
        };
        let narrow = Config {
            select: SelectConfig {
                include: vec!["namespace=shop".to_owned()],
                modes: vec![Mode::User],
                ..SelectConfig::default()
            },
            ..Config::default()
        };
        let rows = [
            (&own, "spool.dir = '/tmp'", "unknown field `spool`"),
            (&own, "endpoint = 'http://x:1'", "unknown field `endpoint`"),
            (
                &own,
                "budget.cpu_persent = 1",
                "unknown field `cpu_persent`",
            ),
            (&own, "budget.sample_ns = 1", "unknown field `sample_ns`"),
            (&own, "events = [", ""),
            (
                &own,
                "budget.cpu_percent = 3.0",
                "`budget.cpu_percent` is 3",
            ),
            (
                &own,
                "budget.cpu_percent = nan",
                "`budget.cpu_percent` is NaN",
            ),
            (
                &own,
                "budget.handler_percent = 0.0",
                "`budget.handler_percent` is 0",
            ),
            (&own, "budget.bytes_per_second = 2000000", "at most 1048576"),
            (&own, "budget.bytes_per_second = -1", "invalid value"),
            (&own, "budget.govern = false", "cannot be switched off"),
            (&own, "callchain_frames_max = 65", "at most 64"),
            (&own, "events = []", "0 entries"),
            (
                &ungoverned,
                "events = ['cpu-clock']",
                "budget.govern = true",
            ),
            (
                &ungoverned,
                "events = ['cpu-clock']\nbudget.govern = true",
                "taken",
            ),
            (&own, "select.exclude = ['nmespace=x']", "is no rule"),
            (&own, "select.modes = []", "nothing would be sampled"),
            (
                &narrow,
                "select.include = ['namespace=bank']",
                "has `select.include`",
            ),
            (&narrow, "select.modes = ['user', 'kernel']", "has `kernel`"),
            (&narrow, "select.modes = ['user']", "taken"),
        ];
        for (own, toml, part) in rows {
            let said = said(own, toml);
            assert!(said.contains(part), "{toml}: {said}");
            assert!(part == "taken" || said != "taken", "{toml} was taken");
        }
        let long = format!("# {}", "x".repeat(BYTES_MAX));
        assert!(said(&own, &long).contains("at most 65536"));
    }

    #[test]
    fn misspelt_events_and_wrong_periods_are_refused() {
        let machine = Machine::default();
        let rows = [
            ("minor-fault", "did you mean `minor-faults`"),
            ("auto", "auto` takes no settings"),
        ];
        for (name, part) in rows {
            let config = Config {
                events: vec![EventConfig::named(name).every(7)],
                ..Config::default()
            };
            let said = check_events(&config, &machine).unwrap_err().to_string();
            assert!(said.contains(part), "{name}: {said}");
        }
        let config = Config {
            events: vec![EventConfig::named("minor-faults").every(0)],
            ..Config::default()
        };
        let said = check_events(&config, &machine).unwrap_err().to_string();
        assert!(said.contains("period is 0"), "{said}");
    }
}

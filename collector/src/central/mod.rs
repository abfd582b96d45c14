//! What the centre says of this collector: settings with a version, and shorter periods for a while.
//!
//! Settings that were taken are kept beside the spool, so that a collector that starts while no decoder answers goes on as it
//! was told; in particular it stays stopped. What is refused changes nothing. Shorter periods are never kept.

mod boost;
mod settings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memwide_proto::v1::{Boost, Capability, ConfigReport, Configure};
use memwide_service::telemetry::Chain;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::events::machine::Machine;
use crate::metrics;
use crate::status::{CentralStatus, Reporter};
use crate::uplink::{Settings, refused};
pub(crate) use boost::Order;
use boost::understand;
use settings::{Combined, check_events, combine};

/// Row of what the machine can do that says which settings are in force.
pub(crate) const ROW: &str = "central-settings";
/// Kept beside the spool's epochs.
const FILE: &str = "central.json";

/// Why a host takes nothing.
const OWN_ALONE: &str = "this host's own file says `central = false`";

/// Settings as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pushed {
    /// 0: none came.
    version: u64,
    toml: String,
}

/// What the next start has to know, and `memwide doctor`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    pushed: Pushed,
    /// The decoder that told it.
    #[serde(default)]
    from: String,
    /// What was refused since, and why.
    #[serde(default)]
    refused: Option<(Pushed, String)>,
}

/// Settings in force.
#[derive(Debug, Clone)]
struct Force {
    pushed: Pushed,
    combined: Combined,
}

#[derive(Debug)]
struct State {
    now: Force,
    /// What was in force before, until events have been opened with what is now.
    before: Option<Force>,
    refused: Option<(Pushed, String)>,
    /// Who told what is in force.
    from: String,
}

/// What is in force, and what was refused.
#[derive(Debug)]
pub(crate) struct Central {
    own: Config,
    machine: Machine,
    file: PathBuf,
    reporter: Reporter,
    state: Mutex<State>,
    /// Shorter periods that were asked for and not begun.
    order: Mutex<Option<Order>>,
    /// The centre wants nothing sampled.
    stopped: AtomicBool,
    /// Counts settings that need everything to be opened anew.
    generation: AtomicU64,
    /// Counts changes of what [`Central::row`] says.
    news: AtomicU64,
}

impl Central {
    /// With what was in force when the last collector ended.
    pub(crate) fn new(own: Config, machine: Machine, reporter: Reporter) -> Arc<Self> {
        let file = own.spool.dir.join(FILE);
        let alone = Force {
            pushed: Pushed::default(),
            combined: Combined {
                config: own.clone(),
                stop: false,
            },
        };
        let mut state = State {
            now: alone,
            before: None,
            refused: None,
            from: String::new(),
        };
        let kept = std::fs::read(&file).ok();
        let kept = kept.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        if let Some(kept) = kept.filter(|_| own.central) {
            let pushed = kept.pushed;
            (state.refused, state.from) = (kept.refused, kept.from);
            match combine(&own, &pushed.toml) {
                Ok(_) if pushed.version == 0 => {}
                Ok(combined) => {
                    let own = std::mem::replace(&mut state.now, Force { pushed, combined });
                    state.before = Some(own);
                }
                Err(why) => {
                    tracing::warn!(
                        version = pushed.version,
                        why = %why,
                        "central settings no longer fit this host's own file, which is in force alone"
                    );
                    state.refused = Some((pushed, why.to_string()));
                }
            }
        }
        let central = Self {
            own,
            machine,
            file,
            reporter,
            stopped: AtomicBool::new(state.now.combined.stop),
            state: Mutex::new(state),
            order: Mutex::default(),
            generation: AtomicU64::new(0),
            news: AtomicU64::new(0),
        };
        central.tell(&central.lock());
        Arc::new(central)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration to run with, and its generation.
    pub(crate) fn config(&self) -> (Config, u64) {
        let state = self.lock();
        (state.now.combined.config.clone(), self.generation())
    }

    pub(crate) fn generation(&self) -> u64 {
        // ATOMICS: raised under the lock, with what it counts; who sees it late looks again a moment later.
        self.generation.load(Ordering::Relaxed)
    }

    /// The centre wants nothing sampled.
    pub(crate) fn is_stopped(&self) -> bool {
        // ATOMICS: a switch; it is looked at again and again.
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn news(&self) -> u64 {
        // ATOMICS: raised after what it counts; who sees it late looks again a moment later.
        self.news.load(Ordering::Relaxed)
    }

    /// What is in force, for people; `None`: the centre never said anything.
    pub(crate) fn row(&self) -> Option<Capability> {
        let state = self.lock();
        let version = state.now.pushed.version;
        let in_force = match (version, state.from.as_str()) {
            (0, _) => "this host's own file is in force alone".to_owned(),
            (version, "") => format!("version {version} is in force"),
            (version, from) => format!("version {version} is in force, told by {from}"),
        };
        let stops = if state.now.combined.stop {
            "; it stops all sampling"
        } else {
            ""
        };
        let mut row = Capability {
            name: ROW.to_owned(),
            available: true,
            reason: format!("{in_force}{stops}"),
            ..Capability::default()
        };
        if let Some((pushed, why)) = &state.refused {
            row.available = false;
            row.reason = format!(
                "version {} is refused: {why}; {in_force}{stops}",
                pushed.version
            );
            "correct the decoder's `collectors_file` and raise its `version`"
                .clone_into(&mut row.remedy);
        } else if version == 0 {
            return None;
        }
        Some(row)
    }

    /// Events are open with what is in force.
    pub(crate) fn opened(&self) {
        self.lock().before = None;
    }

    /// Nothing could be opened with what is in force. True: that was new, what was in force before is again.
    pub(crate) fn cannot_open(&self, why: &anyhow::Error) -> bool {
        let mut state = self.lock();
        let Some(before) = state.before.take() else {
            return false;
        };
        let failed = std::mem::replace(&mut state.now, before);
        let why = format!("collecting cannot start with it: {}", Chain(why.as_ref()));
        state.refused = Some((failed.pushed, why));
        self.follow(&state);
        true
    }

    /// Everything else is as the state says.
    fn follow(&self, state: &State) {
        // ATOMICS: see where they are read.
        self.stopped
            .store(state.now.combined.stop, Ordering::Relaxed);
        self.keep(state);
        self.tell(state);
    }

    /// A collector that cannot write it down goes on; its next start may know an older version.
    fn keep(&self, state: &State) {
        let kept = Kept {
            pushed: state.now.pushed.clone(),
            from: state.from.clone(),
            refused: state.refused.clone(),
        };
        let write = || -> std::io::Result<()> {
            let new = self.file.with_extension("new");
            std::fs::write(&new, serde_json::to_vec(&kept)?)?;
            std::fs::rename(&new, &self.file)
        };
        if let Err(error) = write() {
            tracing::warn!(
                path = %self.file.display(), %error,
                "central settings are in force but cannot be kept for the next start"
            );
        }
    }

    fn tell(&self, state: &State) {
        metrics::CENTRAL_VERSION.set(state.now.pushed.version);
        // ATOMICS: see where it is read.
        self.news.fetch_add(1, Ordering::Relaxed);
        let refused = state.refused.clone().unwrap_or_default();
        let status = CentralStatus {
            version: state.now.pushed.version,
            stopped: state.now.combined.stop,
            refused_version: refused.0.version,
            refused: refused.1,
        };
        self.reporter.update(|all| all.central = status);
    }

    /// Shorter periods that were asked for since the last time.
    pub(crate) fn take_order(&self) -> Option<Order> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.take()
    }

    fn boost(&self, asked: &Boost) -> Result<String, String> {
        if !self.own.central {
            return Err(OWN_ALONE.to_owned());
        }
        let stopped = self.reporter.is_stopped();
        let config = self.config().0;
        let order = understand(asked, &config, stopped)?;
        let said = if order.seconds == 0 {
            "periods are as ever again".to_owned()
        } else {
            format!(
                "up to {} times more samples for {} s, as far as the budget allows",
                order.factor, order.seconds
            )
        };
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        Ok(said)
    }

    /// Takes settings, or says why not.
    fn take(&self, pushed: Pushed) -> Result<String, String> {
        if !self.own.central {
            return Err(OWN_ALONE.to_owned());
        }
        let mut state = self.lock();
        let now = &state.now.pushed;
        if pushed.version == 0 {
            return Err("settings need a `version` from 1 on".to_owned());
        }
        if pushed == *now {
            return Ok("in force already".to_owned());
        }
        if let Some((earlier, why)) = &state.refused
            && *earlier == pushed
        {
            return Err(why.clone());
        }
        if pushed.version < now.version {
            // Of a decoder that has not got the newer ones yet: nothing is wrong with them.
            return Err(format!(
                "version {} is older than {}, which is in force",
                pushed.version, now.version
            ));
        }
        let fits = if pushed.version == now.version {
            Err(format!(
                "version {} is in force with other content; raise `version` with each change",
                pushed.version
            ))
        } else {
            combine(&self.own, &pushed.toml)
                .and_then(|combined| {
                    if combined.config != state.now.combined.config {
                        check_events(&combined.config, &self.machine)?;
                    }
                    Ok(combined)
                })
                .map_err(|unfit| unfit.to_string())
        };
        let combined = match fits {
            Ok(combined) => combined,
            Err(why) => {
                tracing::warn!(
                    version = pushed.version,
                    in_force = now.version,
                    why,
                    "central settings are refused"
                );
                state.refused = Some((pushed, why.clone()));
                self.keep(&state);
                self.tell(&state);
                return Err(why);
            }
        };
        let opens_anew = combined.config != state.now.combined.config;
        let version = pushed.version;
        let before = std::mem::replace(&mut state.now, Force { pushed, combined });
        if opens_anew {
            // The oldest of several that were never opened.
            state.before.get_or_insert(before);
            // ATOMICS: see where it is read.
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        state.refused = None;
        state.from.clone_from(&self.own.endpoint);
        self.follow(&state);
        let stop = state.now.combined.stop;
        tracing::info!(version, stop, opens_anew, "central settings are in force");
        Ok(if opens_anew {
            "events are opened anew".to_owned()
        } else {
            String::new()
        })
    }
}

/// What the collector that runs here, or ran last, was told, by the file beside its spool.
pub(crate) fn row_of(config: &Config) -> Option<Capability> {
    if !config.central {
        return Some(Capability {
            name: ROW.to_owned(),
            available: false,
            reason: OWN_ALONE.to_owned(),
            ..Capability::default()
        });
    }
    let path = config.spool.dir.join(FILE);
    if let Err(error) = std::fs::metadata(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Some(Capability {
            name: ROW.to_owned(),
            available: false,
            reason: format!("{} cannot be read: {error}", path.display()),
            remedy: "run as the user of the collector, or as root".to_owned(),
            ..Capability::default()
        });
    }
    Central::new(config.clone(), Machine::default(), Reporter::new().0).row()
}

impl Settings for Central {
    fn labels(&self) -> HashMap<String, String> {
        let labels = self.own.labels.clone();
        labels.into_iter().collect()
    }

    fn configure(&self, pushed: &Configure) -> ConfigReport {
        let taken = match &pushed.boost {
            Some(boost) => self.boost(boost),
            None => self.take(Pushed {
                version: pushed.version,
                toml: pushed.toml.clone(),
            }),
        };
        match taken {
            Ok(message) => ConfigReport {
                version: pushed.version,
                applied: true,
                message,
                boost: pushed.boost.as_ref().map_or(0, |boost| boost.id),
            },
            Err(why) => {
                metrics::CENTRAL_REFUSED.add(1);
                refused(pushed, why)
            }
        }
    }
}

#[cfg(test)]
mod tests;

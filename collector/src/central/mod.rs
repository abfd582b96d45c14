//! What the centre says of this collector: settings with a version, and shorter periods for a while.
//!
//! Settings that were taken are kept beside the spool, so that a collector that starts while no decoder answers goes on as it
//! was told; in particular it stays stopped. What is refused changes nothing, but a stop in it holds: whoever writes
//! `stop = true` means it, whatever else is misspelt. Shorter periods are never kept.

mod boost;
mod kept;
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
use crate::spool::SpoolError;
use crate::status::{CentralStatus, Reporter};
use crate::uplink::{Settings, refused};
pub(crate) use boost::Order;
use boost::understand;
use kept::Kept;
use settings::{Combined, check_events, combine, says_stop};

/// Row of what the machine can do that says which settings are in force.
pub(crate) const ROW: &str = "central-settings";

/// Why a host takes nothing.
const OWN_ALONE: &str = "this host's own file says `central = false`";

/// Settings as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pushed {
    /// 0: none came.
    version: u64,
    toml: String,
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
    /// Version of refused settings that stop all the same; 0: none. Only settings that are taken lift it.
    halted: u64,
    /// Who told what is in force.
    from: String,
    /// What was kept cannot be read, and nothing was taken since.
    damage: Option<String>,
    /// This process was told something: until then what is kept stays as it is.
    is_told: bool,
}

impl State {
    fn stops(&self) -> bool {
        self.now.combined.stop || self.halted > 0
    }

    /// These change nothing, but a stop in them holds.
    fn refuse(&mut self, pushed: Pushed, why: String) {
        if says_stop(&pushed.toml) {
            self.halted = pushed.version;
        }
        self.refused = Some((pushed, why));
    }

    /// Why these were refused, for who told them.
    fn answer(&self, version: u64, why: &str) -> String {
        if self.halted == version {
            return format!("{why}; its `stop = true` holds all the same");
        }
        why.to_owned()
    }
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
    /// With what was in force when the last collector ended. Who goes on to collect holds the spool's lock.
    pub(crate) fn new(own: Config, machine: Machine, reporter: Reporter) -> Arc<Self> {
        let file = own.spool.dir.join(kept::FILE);
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
            halted: 0,
            from: String::new(),
            damage: None,
            is_told: false,
        };
        let kept = if own.central {
            Kept::read(&file)
        } else {
            Ok(None)
        };
        let kept = kept.unwrap_or_else(|error| {
            metrics::CENTRAL_DAMAGED.add(1);
            tracing::error!(
                path = %file.display(), %error,
                "what the centre said last cannot be read: this host's own file is in force alone, also if sampling was to \
                 stay stopped; make the file readable or remove it, and a decoder tells everything anew"
            );
            let shown = file.display();
            state.damage = Some(format!("{shown} cannot be read: {error}"));
            None
        });
        if let Some(kept) = kept {
            let pushed = kept.pushed;
            (state.refused, state.from) = (kept.refused, kept.from);
            state.halted = kept.halted;
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
                        "central settings no longer fit this host's own file, which is in force alone; a stop in them holds"
                    );
                    state.refuse(pushed, why.to_string());
                }
            }
        }
        let central = Self {
            own,
            machine,
            file,
            reporter,
            stopped: AtomicBool::new(state.stops()),
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
        let stops = match state.halted {
            0 if state.now.combined.stop => "; it stops all sampling".to_owned(),
            0 => String::new(),
            version => format!("; all sampling is stopped, as version {version} says"),
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
        } else if let Some(damage) = &state.damage {
            row.available = false;
            row.reason = format!(
                "{damage}; what the centre said last is not known, also not if sampling was to stay stopped; {in_force}"
            );
            "make the file readable or remove it; a decoder with a `collectors_file` tells everything anew"
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
        if why.is::<SpoolError>() {
            // A spool that cannot be used says nothing of settings.
            return false;
        }
        let mut state = self.lock();
        let Some(before) = state.before.take() else {
            return false;
        };
        let failed = std::mem::replace(&mut state.now, before);
        let why = format!("collecting cannot start with it: {}", Chain(why.as_ref()));
        state.refuse(failed.pushed, why);
        self.follow(&state);
        true
    }

    /// Everything else is as the state says.
    fn follow(&self, state: &State) {
        // ATOMICS: see where they are read.
        self.stopped.store(state.stops(), Ordering::Relaxed);
        if state.is_told {
            self.keep(state);
        }
        self.tell(state);
    }

    /// A collector that cannot write it down goes on; its next start may know an older version.
    fn keep(&self, state: &State) {
        let kept = Kept {
            pushed: state.now.pushed.clone(),
            from: state.from.clone(),
            refused: state.refused.clone(),
            halted: state.halted,
        };
        if let Err(error) = kept.write(&self.file) {
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
            stopped: state.stops(),
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
            return Err(state.answer(pushed.version, why));
        }
        let newest = now.version.max(state.halted);
        if pushed.version < newest {
            // Of a decoder that has not got the newer ones yet: nothing is wrong with them.
            return Err(format!(
                "version {} is older than {newest}, which is in force",
                pushed.version
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
                let (version, in_force) = (pushed.version, now.version);
                state.is_told = true;
                state.refuse(pushed, why.clone());
                let stop = state.stops();
                tracing::warn!(version, in_force, stop, why, "central settings are refused");
                self.follow(&state);
                return Err(state.answer(version, &why));
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
        (state.is_told, state.refused, state.halted) = (true, None, 0);
        state.damage = None;
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
    let path = config.spool.dir.join(kept::FILE);
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

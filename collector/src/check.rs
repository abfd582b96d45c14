//! What only the meaning of a configuration's values forbids. What this machine merely lacks is no mistake: it is reported by the
//! run, so that one file is for many machines.

use memwide_proto::limits::{BATCH_AGE_MS, BATCH_RAW_BYTES};
use memwide_service::config::Wrong;

use crate::config::{Config, EventConfig};
use crate::count::{self, split};
use crate::events::machine::Machine;
use crate::events::{AUTO, Absent, resolve};
use crate::select::{SelectError, Selection};
use crate::uplink;

/// Smallest spool: one that does not hold a usual batch keeps nothing until it is acked.
const SPOOL_BYTES_MIN: u64 = BATCH_RAW_BYTES as u64;
/// Largest ring of a CPU; larger ones would be made smaller silently.
const RING_BYTES_MAX: u64 = 1 << 30;
/// Reading `/proc` more often would cost more than what is looked for.
const READINGS_MS_MIN: u64 = 100;
/// Longest time that a stopping collector waits: an hour.
const GRACE_MS_MAX: u64 = 3_600_000;

impl Config {
    /// Refuses what only its meaning forbids.
    pub fn check(&self) -> Result<(), Wrong> {
        self.check_on(&Machine::default())
    }

    fn check_on(&self, machine: &Machine) -> Result<(), Wrong> {
        let within = Wrong::unless_within::<u64>;
        if let Err(error) = uplink::parse(&self.endpoint) {
            return Err(Wrong::new("endpoint", error.to_string()));
        }
        let most = u64::MAX;
        within(
            "spool.max_bytes",
            self.spool.max_bytes,
            (SPOOL_BYTES_MIN, most),
            "bytes",
        )?;
        let rings = &self.rings;
        within(
            "rings.sample_bytes",
            rings.sample_bytes,
            (0, RING_BYTES_MAX),
            "bytes",
        )?;
        within(
            "rings.side_band_bytes",
            rings.side_band_bytes,
            (0, RING_BYTES_MAX),
            "bytes",
        )?;
        within(
            "rings.poll_ms",
            rings.poll_ms,
            (1, BATCH_AGE_MS),
            "milliseconds",
        )?;
        within(
            "callchain_frames_max",
            self.callchain_frames_max.into(),
            (1, u16::MAX.into()),
            "frames",
        )?;
        within(
            "stop_grace_ms",
            self.stop_grace_ms,
            (0, GRACE_MS_MAX),
            "milliseconds",
        )?;
        if (1..READINGS_MS_MIN).contains(&self.readings_ms) {
            let reason = format!(
                "{} is less than {READINGS_MS_MIN} milliseconds, and not 0, which means never",
                self.readings_ms
            );
            return Err(Wrong::new("readings_ms", reason));
        }
        let budget = &self.budget;
        above_none("budget.cpu_percent", budget.cpu_percent)?;
        above_none("budget.handler_percent", budget.handler_percent)?;
        within(
            "budget.bytes_per_second",
            budget.bytes_per_second,
            (1, most),
            "bytes",
        )?;
        if self
            .host
            .contains(|letter: char| letter.is_whitespace() || letter.is_control())
        {
            return Err(Wrong::new(
                "host",
                format!("{:?} has blanks; write a host's name", self.host),
            ));
        }
        Selection::new(&self.select).map(drop)?;
        if self.events.is_empty() {
            return Err(Wrong::new(
                "events",
                "nothing would be sampled; `auto` stands for what fits the machine",
            ));
        }
        if let Some((number, absent)) = self.wrong_event(machine) {
            let reason = format!(
                "`{}`: {}; {}",
                self.events[number].name, absent.reason, absent.remedy
            );
            return Err(Wrong::new(format!("events.{number}"), reason));
        }
        let counters = self.counters.iter().flat_map(|list| split(list));
        if let Some(error) = counters
            .into_iter()
            .find_map(|name| count::unknown(name, machine))
        {
            return Err(Wrong::new("counters", error.to_string()));
        }
        Ok(())
    }

    /// The first event that is a mistake on every machine, and why.
    pub(crate) fn wrong_event(&self, machine: &Machine) -> Option<(usize, Absent)> {
        let wrong = |event: &EventConfig| {
            if *event == EventConfig::named(AUTO) {
                return None;
            }
            let why = resolve(event, self.callchain_frames_max, machine).err()?;
            why.fault.is_everywhere().then_some(why)
        };
        let events = self.events.iter().enumerate();
        events
            .into_iter()
            .find_map(|(number, event)| Some((number, wrong(event)?)))
    }
}

/// A share of a core.
fn above_none(key: &str, percent: f64) -> Result<(), Wrong> {
    if percent > 0.0 && percent <= 100.0 {
        return Ok(());
    }
    let reason = format!("{percent} is not above 0 and up to 100 percent");
    Err(Wrong::new(key, reason))
}

impl From<SelectError> for Wrong {
    fn from(error: SelectError) -> Self {
        let key = match &error {
            SelectError::Rule { list, .. } => format!("select.{list}"),
            SelectError::NoMode => "select.modes".to_owned(),
        };
        Self::new(key, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_type_takes_and_its_meaning_does_not_is_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        #[rustfmt::skip]
        let rows: &[(&str, &str, &str)] = &[
            ("endpoint", r#"{"endpoint": "not an address"}"#, "http://HOST:PORT"),
            ("spool.max_bytes", r#"{"spool": {"max_bytes": 0}}"#, "not from 1048576"),
            ("rings.sample_bytes", r#"{"rings": {"sample_bytes": 1073741825}}"#, "to 1073741824 bytes"),
            ("rings.side_band_bytes", r#"{"rings": {"side_band_bytes": 9000000000}}"#, "to 1073741824 bytes"),
            ("rings.poll_ms", r#"{"rings": {"poll_ms": 0}}"#, "from 1 to 1000 milliseconds"),
            ("callchain_frames_max", r#"{"callchain_frames_max": 0}"#, "from 1"),
            ("stop_grace_ms", r#"{"stop_grace_ms": 3600001}"#, "to 3600000"),
            ("readings_ms", r#"{"readings_ms": 5}"#, "not 0, which means never"),
            ("budget.cpu_percent", r#"{"budget": {"cpu_percent": -1}}"#, "above 0"),
            ("budget.cpu_percent", r#"{"budget": {"cpu_percent": 101}}"#, "up to 100"),
            ("budget.handler_percent", r#"{"budget": {"handler_percent": 0}}"#, "above 0"),
            ("budget.bytes_per_second", r#"{"budget": {"bytes_per_second": 0}}"#, "from 1"),
            ("host", r#"{"host": "web 1"}"#, "has blanks"),
            ("select.include", r#"{"select": {"include": ["nmespace=x"]}}"#, "KEY=PATTERN"),
            ("select.modes", r#"{"select": {"modes": []}}"#, "nothing would be sampled"),
            ("events", r#"{"events": []}"#, "nothing would be sampled"),
            ("events.1", r#"{"events": ["auto", "minr-faults"]}"#, "minor-faults"),
            ("events.0", r#"{"events": [{"name": "minor-faults", "period": 0}]}"#, "at least 1"),
            ("events.0", r#"{"events": [{"name": "minor-faults", "freq": 9}]}"#, "give a `period`"),
            ("events.0", r#"{"events": [{"name": "auto", "period": 9}]}"#, "takes no settings"),
            ("counters", r#"{"counters": ["cyles:u"]}"#, "cyles"),
        ];
        for (key, json, says) in rows {
            let config: Config = serde_json::from_str(json).unwrap();
            let wrong = config.check().unwrap_err();
            assert_eq!(
                (wrong.key.as_str(), wrong.reason.contains(says)),
                (*key, true),
                "{json}: {}",
                wrong.reason
            );
        }
        for json in [
            r#"{"readings_ms": 0, "counters": []}"#,
            r#"{"events": ["cpu/mem-loads,ldlat=30/P", "ibs_op//", "kmem:kmalloc", {"name": "cpu-clock", "freq": 99}]}"#,
            r#"{"rings": {"sample_bytes": 65536}, "select": {"exclude": ["comm=java*"]}}"#,
        ] {
            let config: Config = serde_json::from_str(json).unwrap();
            assert_eq!(config.check(), Ok(()), "{json}");
        }
    }
}

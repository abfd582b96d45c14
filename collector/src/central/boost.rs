//! Shorter periods for some processes, for a while: what is asked for, held against what this collector does. Pure.

use memwide_proto::v1::Boost;

use crate::config::{Config, SelectConfig};
use crate::select::Selection;

/// Longest time, in seconds: who needs more asks again.
const SECONDS_MAX: u32 = 600;
/// Most times more often.
const FACTOR_MAX: u32 = 1_000;
/// Most rules.
const RULES_MAX: usize = 32;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: u64,
    /// Whose samples come more often: all of `include`.
    pub(crate) select: SelectConfig,
    pub(crate) factor: u32,
    /// From now on; 0: ends what runs.
    pub(crate) seconds: u32,
}

/// Reads it, or says what is wrong with it.
pub(super) fn understand(asked: &Boost, config: &Config, stopped: bool) -> Result<Order, String> {
    let order = Order {
        id: asked.id,
        select: SelectConfig {
            include: asked.select.clone(),
            ..SelectConfig::default()
        },
        factor: asked.factor,
        seconds: asked.seconds,
    };
    if order.seconds == 0 {
        return Ok(order);
    }
    if order.seconds > SECONDS_MAX {
        let seconds = order.seconds;
        return Err(format!("{seconds} s, at most {SECONDS_MAX} are possible"));
    }
    if !(2..=FACTOR_MAX).contains(&order.factor) {
        let factor = order.factor;
        return Err(format!("factor {factor}, 2 to {FACTOR_MAX} are possible"));
    }
    let rules = order.select.include.len();
    if !(1..=RULES_MAX).contains(&rules) {
        return Err(format!("{rules} rules, 1 to {RULES_MAX} are possible"));
    }
    if order.select.include.iter().any(|rule| rule == "pid=0") {
        return Err("pid 0 is the idle task of every CPU, no process".to_owned());
    }
    Selection::new(&order.select).map_err(|error| error.to_string())?;
    if !config.budget.govern {
        return Err("this host has budget.govern = false: nothing would bound the cost".to_owned());
    }
    if stopped {
        return Err("sampling is stopped on this host".to_owned());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let boost = |rules: &[&str], factor, seconds| Boost {
            id: 7,
            select: rules.iter().map(|&rule| rule.to_owned()).collect(),
            factor,
            seconds,
        };
        let rows = [
            (boost(&["pod=web-*"], 10, 60), false, ""),
            (boost(&[], 0, 0), true, ""),
            (boost(&["pod=web-*"], 10, 601), false, "at most 600"),
            (boost(&["pod=web-*"], 1, 60), false, "2 to 1000"),
            (boost(&["pod=web-*"], 1_001, 60), false, "2 to 1000"),
            (boost(&[], 10, 60), false, "0 rules"),
            (boost(&["pdo=web-*"], 10, 60), false, "is no rule"),
            (boost(&["pid=0"], 10, 60), false, "idle task"),
            (boost(&["pid=1"], 10, 60), true, "stopped"),
        ];
        for (asked, stopped, part) in rows {
            let said = understand(&asked, &Config::default(), stopped);
            let why = said.as_ref().err().cloned().unwrap_or_default();
            assert_eq!(said.is_ok(), part.is_empty(), "{asked:?}: {why}");
            assert!(why.contains(part), "{asked:?}: {why}");
        }
        let mut ungoverned = Config::default();
        ungoverned.budget.govern = false;
        let why = understand(&boost(&["pid=1"], 2, 1), &ungoverned, false).unwrap_err();
        assert!(why.contains("govern"), "{why}");
    }
}

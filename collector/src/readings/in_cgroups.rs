//! The counters of the machine, counted apart in the containers and units that use most CPU time.
//!
//! Each takes a descriptor an event and CPU, so there is a bound; what is counted in none of them is told as one rest, the
//! machine's count less theirs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memwide_service::clock::instant;

use super::cgroups::{find, residents};
use super::{Out, pairs};
use crate::count::{CgroupCounters, CounterReading, Counters};
use crate::events::machine::Machine;
use crate::identity::Identity;

/// Most descriptors of all cgroups together.
const DESCRIPTORS_MAX: usize = 4_096;
/// Between two looks at who uses most CPU time.
const CHOOSE_EVERY: Duration = Duration::from_mins(1);
/// Who is counted stays, unless another uses more than so many times its CPU time: changing loses an interval.
const STAYS: u64 = 2;

/// Cgroups with counters of their own.
#[derive(Debug, Default)]
pub(super) struct InCgroups {
    /// So many at most.
    most: usize,
    counted: BTreeMap<String, Counted>,
    /// CPU time of each by path, at the last look.
    used: HashMap<String, u64>,
    due: Duration,
}

#[derive(Debug)]
struct Counted {
    counters: CgroupCounters,
    before: Vec<Option<CounterReading>>,
}

/// A cgroup, and the CPU time it has used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    folder: PathBuf,
    path: String,
    used: u64,
}

impl InCgroups {
    /// At most `wanted`, with as many descriptors each as the machine's own counters have; `free`: descriptors there are.
    pub(super) fn new(wanted: u16, each: usize, free: usize) -> Self {
        let bound = DESCRIPTORS_MAX.min(free / 2);
        let most = usize::from(wanted).min(bound.checked_div(each).unwrap_or(0));
        if most < usize::from(wanted) && each > 0 {
            tracing::warn!(
                wanted,
                most,
                each,
                bound,
                "fewer cgroups are counted apart than asked for: each takes so many descriptors"
            );
        }
        Self {
            most,
            ..Self::default()
        }
    }

    /// What each counted since the last time, event by event, and whose that is; `None` where it is not known.
    pub(super) fn read(&mut self, identity: &mut Identity) -> Vec<(u64, Vec<Option<f64>>)> {
        let now = instant();
        let told = self.counted.iter_mut().map(|(path, one)| {
            let read = one.counters.read();
            let before = std::mem::replace(&mut one.before, read.clone());
            let changes = before.into_iter().zip(read);
            let changes = changes.map(|(before, now)| change(before?, now?));
            (identity.of_path(path, now), changes.collect())
        });
        told.collect()
    }

    /// Looks from time to time whether others use more CPU time by now.
    pub(super) fn choose(&mut self, all: &Counters, machine: &Machine, out: &Out) {
        let interval = Duration::from_nanos(out.interval_ns);
        self.due = self.due.saturating_sub(interval);
        if self.most == 0 || !self.due.is_zero() {
            return;
        }
        self.due = CHOOSE_EVERY;
        let found = candidates(machine);
        let chosen = busiest(&found, &self.used, self.most, |path| {
            self.counted.contains_key(path)
        });
        self.used = found
            .iter()
            .map(|one| (one.path.clone(), one.used))
            .collect();
        self.counted
            .retain(|path, _| chosen.iter().any(|one| one.path == *path));
        for one in chosen {
            if self.counted.contains_key(&one.path) {
                continue;
            }
            let opened = File::open(&one.folder);
            match opened.and_then(|folder| all.of_cgroup(&folder, machine)) {
                Ok(counters) => {
                    let before = counters.read();
                    self.counted
                        .insert(one.path.clone(), Counted { counters, before });
                }
                // It may have ended meanwhile.
                Err(error) => tracing::debug!(path = one.path, %error, "a cgroup is not counted"),
            }
        }
    }
}

/// Events since the last time, scaled up where they took turns. In a cgroup that did not run there were none.
fn change(before: CounterReading, now: CounterReading) -> Option<f64> {
    if now == before {
        return Some(0.0);
    }
    super::counters::change(before, now)
}

fn candidates(machine: &Machine) -> Vec<Candidate> {
    let Some(hierarchy) = find(machine, "perf_event") else {
        return Vec::new();
    };
    // Of the first kind, each controller has its own tree, with the same paths.
    let accounts = (!hierarchy.unified)
        .then(|| find(machine, "cpuacct"))
        .flatten();
    let all = residents(&hierarchy.root).into_iter();
    all.map(|(folder, path)| {
        let used = match &accounts {
            Some(accounts) if !accounts.unified => {
                let place = accounts.root.join(path.trim_start_matches('/'));
                number(&place.join("cpuacct.usage"))
            }
            _ => usage(&folder),
        };
        Candidate {
            folder,
            path,
            used: used.unwrap_or(0),
        }
    })
    .collect()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn usage(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let found = pairs(&text).find(|(key, _)| *key == "usage_usec");
    found.map(|(_, used)| used)
}

/// Those that used most since the last look, which counts for more in those that are counted already.
fn busiest<'a>(
    found: &'a [Candidate],
    before: &HashMap<String, u64>,
    most: usize,
    is_counted: impl Fn(&str) -> bool,
) -> Vec<&'a Candidate> {
    let mut all: Vec<(u64, &Candidate)> = found
        .iter()
        .map(|one| {
            let since = before.get(&one.path).copied().unwrap_or(0);
            let used = one.used.saturating_sub(since);
            let stays = if is_counted(&one.path) { STAYS } else { 1 };
            (used.saturating_mul(stays), one)
        })
        .collect();
    all.sort_by_key(|(used, one)| (Reverse(*used), &one.path));
    all.into_iter().take(most).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, used: u64) -> Candidate {
        Candidate {
            folder: PathBuf::new(),
            path: path.to_owned(),
            used,
        }
    }

    #[test]
    fn those_that_use_most_now_are_counted_and_stay_while_they_nearly_do() {
        let found = [one("a", 1_000), one("b", 150), one("c", 130), one("d", 90)];
        let before = HashMap::from([("a".to_owned(), 995), ("b".to_owned(), 50)]);
        let chosen = |counted: &[&str], most| {
            let all = busiest(&found, &before, most, |path| counted.contains(&path));
            all.iter().map(|one| one.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(&[], 2),
            ["c", "b"],
            "130 and 100 since then; a new one has all"
        );
        assert_eq!(chosen(&["d"], 2), ["d", "c"], "90 counts twice");
        assert_eq!(chosen(&["a"], 3), ["c", "b", "d"], "5 since then");
        assert!(chosen(&[], 0).is_empty());
    }

    #[test]
    fn descriptors_bound_how_many_there_are() {
        let rows = [
            (16, 20, 100_000, 16),
            (16, 640, 100_000, 6),
            (16, 5_120, 100_000, 0),
            (16, 20, 100, 2),
            (0, 20, 100_000, 0),
            (16, 0, 100_000, 0),
        ];
        for (wanted, each, free, most) in rows {
            assert_eq!(
                InCgroups::new(wanted, each, free).most,
                most,
                "{wanted} {each} {free}"
            );
        }
    }

    #[test]
    fn cpu_time_is_read_of_either_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine {
            sys: root.path().join("sys"),
            proc: root.path().join("proc"),
        };
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let place = root.path().display();
        put("perf/system.slice/a.service/tasks", "");
        put("acct/system.slice/a.service/cpuacct.usage", "123456789\n");
        put(
            "two/system.slice/b.service/cpu.stat",
            "usage_usec 77\nuser_usec 70\n",
        );
        let mounts = format!(
            "cgroup {place}/perf cgroup rw,perf_event 0 0\ncgroup {place}/acct cgroup rw,cpuacct 0 0\n"
        );
        let unified = format!("cgroup2 {place}/two cgroup2 rw 0 0\n");
        for (mounts, path, used) in [
            (
                format!("{mounts}{unified}"),
                "/system.slice/a.service",
                123_456_789,
            ),
            (unified, "/system.slice/b.service", 77),
        ] {
            put("proc/self/mounts", &mounts);
            let found = candidates(&machine);
            let said: Vec<_> = found
                .iter()
                .map(|one| (one.path.as_str(), one.used))
                .collect();
            assert_eq!(said, [(path, used)]);
        }
    }

    #[test]
    fn a_cgroup_that_did_not_run_counted_nothing() {
        let reading = |value, enabled_ns, running_ns| CounterReading {
            value,
            enabled_ns,
            running_ns,
        };
        let idle = reading(5, 100, 100);
        assert_eq!(change(idle, idle), Some(0.0));
        assert_eq!(change(idle, reading(15, 300, 200)), Some(20.0));
        assert_eq!(change(idle, reading(5, 300, 100)), None, "it had no turn");
    }
}

//! What to do about remote accesses: only with the numbers it rests on, and with what it can bring at most.
//!
//! The gain is an upper bound: the part of the function's sampled latency that would go away if each remote access took as
//! long as the mean local one of the same function, event, kind of latency and level. It is a part of sampled latency, not of
//! time: overlapping loads count several times.

use std::collections::BTreeMap;

use super::parts::{NUMBERS, OF};
use crate::answer::{Answer, Column, Part, Value};

/// Fewer remote samples than this on known nodes are no pattern.
const SAMPLES_MIN: u64 = 30;
/// Fewer of them a process say nothing of a process: of few samples most are on one node by chance.
const SAMPLES_A_PROCESS: u64 = 10;
/// Fewer local samples than this are no baseline.
const BASELINE_MIN: u64 = 30;
/// A part of this size is the rule, not the exception.
const MOST: f64 = 0.8;

/// Numbers of the part `evidence`, and of `data`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Evidence {
    /// Remote samples whose CPU and page have a known node.
    known: u64,
    /// The same of all samples of these processes, wherever their data was.
    known_of_all: u64,
    processes: u64,
    /// Of the remote ones, on the page node that each process uses most.
    on_one_page_node: u64,
    /// Of all, from the CPU node that each process uses most.
    from_one_cpu_node: u64,
    /// Of the remote ones, on pages with another sample.
    on_pages_met_again: u64,
    /// Of these, on pages that one node alone uses.
    on_pages_of_one_cpu_node: u64,
    /// Stores seen on the data behind them, by any function.
    stores_on_data: u64,
    /// Stores seen at all: without any, nobody can say that data is only read.
    stores_seen: u64,
    /// Share of the remote samples whose data the two above are of.
    data_share: f64,
}

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    /// Threads of one node use memory of another.
    Bind,
    /// Each page has one user node, and all were placed by somebody else.
    FirstTouch,
    /// Many nodes read what nobody writes.
    Replicate,
    /// Many nodes use what lies on one.
    Interleave,
    /// Nothing that these numbers would support.
    None,
}

impl Advice {
    const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::FirstTouch => "first touch by the user",
            Self::Replicate => "replicate",
            Self::Interleave => "interleave",
            Self::None => "none",
        }
    }

    /// Whether it makes accesses local, so that the local baseline bounds what it brings.
    const fn makes_local(self) -> bool {
        matches!(self, Self::Bind | Self::FirstTouch | Self::Replicate)
    }
}

fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}

fn percent(part: u64, of: u64) -> String {
    format!("{:.0} % ({part} of {of})", 100.0 * ratio(part, of))
}

impl Evidence {
    fn numbers(&self) -> [u64; 7] {
        [
            self.known,
            self.known_of_all,
            self.processes,
            self.on_one_page_node,
            self.from_one_cpu_node,
            self.on_pages_met_again,
            self.on_pages_of_one_cpu_node,
        ]
    }

    fn advice(&self) -> (Advice, String) {
        let known = self.known;
        if known < SAMPLES_MIN {
            return (
                Advice::None,
                format!(
                    "{known} remote samples with a known node of CPU and page: {SAMPLES_MIN} are needed"
                ),
            );
        }
        if known < SAMPLES_A_PROCESS * self.processes {
            return (
                Advice::None,
                format!(
                    "{known} remote samples of {} processes with a known node of CPU and page: {SAMPLES_A_PROCESS} a process are needed to tell one that is bound from chance",
                    self.processes
                ),
            );
        }
        let on_one = ratio(self.on_one_page_node, known);
        let from_one = ratio(self.from_one_cpu_node, self.known_of_all);
        let place = format!(
            "within a process, {} of the remote accesses are to memory of one node",
            percent(self.on_one_page_node, known)
        );
        let place = if self.known_of_all > known {
            let from_one = percent(self.from_one_cpu_node, self.known_of_all);
            format!("{place} and {from_one} of all accesses come from CPUs of one node")
        } else {
            format!("{place} (the event shows remote accesses alone)")
        };
        if from_one >= MOST && on_one >= MOST {
            let what = "run the threads on the node of the memory, or allocate on theirs (numactl --cpunodebind, --membind)";
            return (Advice::Bind, format!("{place}: {what}"));
        }
        let met = self.on_pages_met_again;
        if met < SAMPLES_MIN {
            return (
                Advice::None,
                format!(
                    "{place}; {met} of them are on pages met twice: {SAMPLES_MIN} are needed to tell private pages from shared ones"
                ),
            );
        }
        let single = ratio(self.on_pages_of_one_cpu_node, met);
        let users = format!(
            "{} of those on pages met twice are on pages that one node alone uses",
            percent(self.on_pages_of_one_cpu_node, met)
        );
        if single >= MOST {
            let what = "let the thread that uses a page write it first, or move pages to their users (migrate_pages, numa balancing)";
            return (Advice::FirstTouch, format!("{place}; {users}: {what}"));
        }
        if single <= 1.0 - MOST || on_one >= MOST {
            let shared = format!("{place}; {users}");
            if self.stores_seen >= SAMPLES_MIN
                && self.stores_on_data == 0
                && self.data_share >= MOST
            {
                return (
                    Advice::Replicate,
                    format!(
                        "{shared}; nobody was seen to write that data ({} stores elsewhere): keep a copy on each node",
                        self.stores_seen
                    ),
                );
            }
            if on_one >= MOST {
                return (
                    Advice::Interleave,
                    format!(
                        "{shared}: spread the pages over the nodes that use them (numactl --interleave); it evens out the load of the nodes' memory and makes few accesses local"
                    ),
                );
            }
        }
        (Advice::None, format!("{place}; {users}: no single cause"))
    }
}

/// Sums of the part `latency` for one function, event and kind.
#[derive(Debug, Clone, Default)]
struct Latency {
    weight: f64,
    /// By level and outcome: samples and weight, remote and local.
    levels: BTreeMap<[String; 2], [(u64, f64); 2]>,
}

impl Latency {
    /// The gain, and what it rests on.
    fn gain(&self) -> (Option<f64>, String) {
        let (mut saved, mut counted, mut local, mut bare) = (0.0, 0, 0, 0);
        for [(remote_n, remote_w), (local_n, local_w)] in self.levels.values() {
            if *remote_n == 0 {
                continue;
            }
            if *local_n < BASELINE_MIN {
                bare += remote_n;
                continue;
            }
            counted += remote_n;
            local += local_n;
            saved += (remote_w - *remote_n as f64 * local_w / *local_n as f64).max(0.0);
        }
        if self.weight <= 0.0 {
            return (None, "no latency is measured with this event".to_owned());
        }
        if counted == 0 {
            return (
                None,
                format!(
                    "no level with remote samples has {BASELINE_MIN} local ones to compare with"
                ),
            );
        }
        let without = if bare == 0 {
            String::new()
        } else {
            format!("; {bare} more have no local baseline and count as no gain")
        };
        (
            Some(saved / self.weight),
            format!(
                "{counted} remote samples against the means of {local} local ones of the same levels{without}"
            ),
        )
    }
}

fn text(part: &Part, row: &[Value], name: &str) -> String {
    let cell = part.column(name).and_then(|at| row.get(at));
    cell.map(Value::to_string).unwrap_or_default()
}

fn number(part: &Part, row: &[Value], name: &str) -> u64 {
    match part.column(name).and_then(|at| row.get(at)) {
        Some(Value::Number(number)) => *number,
        _ => 0,
    }
}

fn real(part: &Part, row: &[Value], name: &str) -> f64 {
    match part.column(name).and_then(|at| row.get(at)) {
        Some(Value::Real(real)) => *real,
        _ => 0.0,
    }
}

type Of = Vec<String>;

fn of(part: &Part, row: &[Value]) -> Of {
    OF.iter().map(|name| text(part, row, name)).collect()
}

/// Puts the part `advice` together and takes `evidence` into it; says what there is no figure for.
pub(super) fn conclude(answer: &mut Answer) {
    let at = answer.parts.iter().position(|part| part.name == "evidence");
    let Some(evidence) = at.map(|at| answer.parts.remove(at)) else {
        return;
    };
    let mut known: BTreeMap<Of, Evidence> = BTreeMap::new();
    for row in &evidence.rows {
        let [
            known_samples,
            known_of_all,
            processes,
            on_one_page_node,
            from_one_cpu_node,
            on_pages_met_again,
            on_pages_of_one_cpu_node,
        ] = NUMBERS.map(|column| number(&evidence, row, column.name));
        let found = Evidence {
            known: known_samples,
            known_of_all,
            processes,
            on_one_page_node,
            from_one_cpu_node,
            on_pages_met_again,
            on_pages_of_one_cpu_node,
            ..Evidence::default()
        };
        known.insert(of(&evidence, row), found);
    }
    let (mut latency, mut stalls) = (BTreeMap::<(Of, String), Latency>::new(), false);
    for part in &answer.parts {
        for row in &part.rows {
            match part.name {
                "data" => {
                    let Some(found) = known.get_mut(&of(part, row)) else {
                        continue;
                    };
                    if !text(part, row, "data_symbol").is_empty() {
                        found.data_share += real(part, row, "share");
                        found.stores_on_data += number(part, row, "stores_of_all");
                    }
                    found.stores_seen = number(part, row, "stores_seen");
                }
                "latency" => {
                    let key = (of(part, row), text(part, row, "latency_kind"));
                    let sums = latency.entry(key).or_default();
                    let (n, w) = (number(part, row, "samples"), real(part, row, "weight"));
                    sums.weight += w;
                    let level = ["level", "outcome"].map(|name| text(part, row, name));
                    let level = sums.levels.entry(level).or_default();
                    let side = match text(part, row, "locality").as_str() {
                        "remote" => &mut level[0],
                        "local" => &mut level[1],
                        _ => continue,
                    };
                    side.0 += n;
                    side.1 += w;
                }
                "nodes" => stalls |= real(part, row, "stall_cycles") > 0.0,
                _ => {}
            }
        }
    }
    let kinds: BTreeMap<&Of, &str> = latency
        .keys()
        .map(|(of, kind)| (of, kind.as_str()))
        .collect();
    let mut rows = Vec::new();
    // What can be done comes first, then what most samples are behind.
    let mut ordered: Vec<(&Of, &Evidence)> = known.iter().collect();
    ordered.sort_by_key(|(_, evidence)| {
        let none = evidence.advice().0 == Advice::None;
        (none, std::cmp::Reverse(evidence.known))
    });
    for (of, evidence) in ordered {
        let (advice, because) = evidence.advice();
        let kind = kinds.get(of).copied().unwrap_or("none");
        let (gain, basis) = match latency.get(&(of.clone(), kind.to_owned())) {
            _ if !advice.makes_local() => (None, "makes no access local by itself".to_owned()),
            Some(latency) => latency.gain(),
            None => (None, "no latency is measured with this event".to_owned()),
        };
        let mut row: Vec<Value> = of.iter().cloned().map(Value::Text).collect();
        row.extend([
            Value::Text(advice.name().to_owned()),
            Value::Text(because),
            gain.map_or(Value::Null, Value::Real),
            Value::Text(kind.to_owned()),
            Value::Text(if advice == Advice::None {
                String::new()
            } else {
                basis
            }),
        ]);
        row.extend(evidence.numbers().map(Value::Number));
        rows.push(row);
    }
    let mut columns: Vec<Column> = OF.iter().map(|name| Column::text(name)).collect();
    columns.extend([
        Column::text("advice"),
        Column::text("because"),
        Column::real("gain_at_most", "ratio of the function's sampled latency"),
        Column::text("latency_kind"),
        Column::text("gain_basis"),
    ]);
    columns.extend(NUMBERS);
    answer.parts.push(Part {
        name: "advice",
        columns,
        rows,
    });
    answer.notes.push(if stalls {
        "`stall_cycles` are in the part `nodes`; hosts' clock rates are not stored, so there is no cost in seconds".to_owned()
    } else {
        "no cost figure on this PMU: neither stall counters nor retire latency of counted events; latencies overlap and are no CPU time".to_owned()
    });
    if known.is_empty() {
        answer.notes.push("no advice: no sample of these functions has both a known node of its CPU and of its page (physical addresses), or `samples` does not reach back so far (3 days)".to_owned());
    }
}

#[cfg(test)]
mod tests;

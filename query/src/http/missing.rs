//! Questions that nothing stored can answer: what is missing and why, instead of a number that would be wrong.

use crate::metrics;
use crate::problem::{Class, Problem};

/// Path of a question, what it would need, and what answers it today.
pub(super) const MISSING: &[(&str, &str, &str)] = &[
    (
        "allocs",
        "samples of allocation tracepoints are stored without their fields (bytes, addresses), so allocations and frees cannot be matched",
        "record on the node and ask the file: `memwide allocs --help` names the events",
    ),
    (
        "offcpu",
        "switches of threads are not stored, so nobody knows how long a thread was off the CPU",
        "record on the node and ask the file: `memwide offcpu --help` names the events",
    ),
    (
        "rss",
        "kmem:rss_stat is stored without its fields (member, size), so resident memory has no value",
        "record on the node and ask the file: `memwide rss --help` names the event; `faults` says who touches new pages",
    ),
    (
        "pressure",
        "collectors do not send pressure (PSI), reclaim, swap and memory.events",
        "`faults` has major faults over all hosts; `memwide diagnose` measures pressure on one machine",
    ),
    (
        "counters",
        "collectors send no counting group, so there are no rates and no calibrated counts",
        "`memwide stat` counts on one machine; `est_events` estimates events from samples where the event declares what it counts",
    ),
];

/// The problem of one of them, counted.
pub(super) fn answer(at: usize) -> Problem {
    let (name, lacks, instead) = MISSING.get(at).copied().unwrap_or_default();
    let problem = Problem {
        class: Class::NotCarried,
        title: "the pipeline does not carry this",
        detail: format!("`{name}`: {lacks}"),
        remedy: instead.to_owned(),
    };
    metrics::count(&Err::<(), _>(problem.clone()));
    problem
}

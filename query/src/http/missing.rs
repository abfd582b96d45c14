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

//! Switches of some threads: `sched:sched_switch/threads=N/`.
//!
//! A thread is off the CPU from where it leaves one to where it comes to one again. For that all switches from and to *it* are needed,
//! none of the others; so the kernel is asked for those of one thread in N, and what their waits add up to, times N, estimates the
//! waits of all. Threads are chosen by the lowest bits of their numbers, which the kernel hands out one after the other; the idle
//! thread has number 0 and is never chosen.

use memwide_model::Tier;

use super::kinds::tracepoint;
use super::machine::Machine;
use super::spec::{Absent, EventSpec};

/// One thread of so many, at most.
const THREADS_MAX: u32 = 1_024;
/// What the lowest bits of a chosen thread's number are.
const CHOSEN: u32 = 1;

/// `None`: the name is of something else.
pub(super) fn of_some_threads(name: &str, machine: &Machine) -> Option<Result<EventSpec, Absent>> {
    let terms = name.strip_prefix("sched:sched_switch/")?;
    let threads = terms
        .strip_suffix('/')
        .and_then(|terms| terms.strip_prefix("threads="));
    let threads = threads.and_then(|digits| digits.parse::<u32>().ok());
    let threads = threads.filter(|n| n.is_power_of_two() && (2..=THREADS_MAX).contains(n));
    let Some(threads) = threads else {
        return Some(Err(Absent::misread(
            Tier::Software,
            "these are no threads to choose",
            "write it as sched:sched_switch/threads=8/, with a power of two from 2 to 1024",
        )));
    };
    let spec = tracepoint(name, "sched", "sched_switch", machine);
    Some(spec.map(|spec| EventSpec {
        filter: filter(threads),
        // Samples are of some threads only: their number estimates nothing by itself.
        population: String::new(),
        ..spec
    }))
}

/// Either the thread that leaves or the one that comes is chosen.
fn filter(threads: u32) -> String {
    let chosen = |field: &str| {
        let bits = (0..threads.ilog2()).map(|bit| 1_u32 << bit);
        let tests = bits.map(|bit| match CHOSEN & bit {
            0 => format!("!({field} & {bit})"),
            _ => format!("({field} & {bit})"),
        });
        tests.collect::<Vec<_>>().join(" && ")
    };
    format!("({}) || ({})", chosen("prev_pid"), chosen("next_pid"))
}

#[cfg(test)]
mod tests {
    use super::super::spec::Fault;
    use super::*;

    #[test]
    fn the_lowest_bits_are_compared() {
        let both = "((prev_pid & 1)) || ((next_pid & 1))";
        assert_eq!(filter(2), both);
        let eight = filter(8);
        let of_one = "((next_pid & 1) && !(next_pid & 2) && !(next_pid & 4))";
        assert!(eight.ends_with(of_one), "{eight}");
    }

    #[test]
    fn only_powers_of_two_are_taken() {
        let machine = Machine::default();
        assert!(of_some_threads("sched:sched_switch", &machine).is_none());
        for wrong in [
            "threads=3/",
            "threads=1/",
            "threads=2048/",
            "threads=/",
            "threads=8",
            "thread=8/",
        ] {
            let name = format!("sched:sched_switch/{wrong}");
            let why = of_some_threads(&name, &machine).unwrap().unwrap_err();
            assert!(
                why.fault == Fault::Spelling && why.remedy.contains("threads=8/"),
                "{wrong}"
            );
        }
    }
}

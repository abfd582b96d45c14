//! `memwide diagnose`: one shot, a verdict with its evidence.

mod look;
mod present;
mod pressure;
mod take;

use super::signals::Signals;
use crate::cli::DiagnoseArgs;
use crate::failure::Failure;
use std::path::PathBuf;

/// Name of a step, and what it tells.
type Kind = (&'static str, &'static str);

const PRECISE: Kind = (
    "precise memory events",
    "addresses, levels, latencies, NUMA, sharing",
);
const HARDWARE: Kind = ("hardware cache events", "functions by cache misses");
const FAULTS: Kind = ("software faults", "page faults by function and memory");
const TRACEPOINTS: Kind = (
    "tracepoints",
    "waiting, memory that is mapped and given back",
);
const PRESSURE: Kind = ("pressure", "whether tasks waited for memory");
const COUNTERS: Kind = ("counters", "how often: faults, cache, TLB, nodes");

/// A way to see something, from the best to the plainest.
#[derive(Debug, Clone)]
struct Step {
    /// What it is.
    name: &'static str,
    /// What it tells.
    tells: &'static str,
    /// Events or sources it gave.
    taken: Vec<String>,
    /// Why not, or not all: what, reason, remedy.
    missing: Vec<(String, String, String)>,
}

impl Step {
    fn new(
        (name, tells): Kind,
        taken: Vec<String>,
        missing: Vec<(String, String, String)>,
    ) -> Self {
        Self {
            name,
            tells,
            taken,
            missing,
        }
    }

    fn is_taken(&self) -> bool {
        !self.taken.is_empty()
    }
}

/// What is there to be judged.
#[derive(Debug)]
struct Taken {
    file: PathBuf,
    /// Removed in the end.
    is_temporary: bool,
    steps: Vec<Step>,
    notes: Vec<String>,
    /// Elapsed seconds; of a file, between its first and last sample.
    seconds: Option<f64>,
    counts: Vec<(String, f64)>,
    pressure: Option<f64>,
    /// How a command ended.
    exit_code: Option<i32>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_temporary {
            // A file of temporary files that stays is no reason to fail.
            drop(std::fs::remove_file(&self.file));
        }
    }
}

pub(crate) fn run(args: &DiagnoseArgs) -> Result<(), Failure> {
    if let Some(input) = &args.input {
        let taken = Taken {
            file: input.clone(),
            is_temporary: false,
            steps: Vec::new(),
            notes: Vec::new(),
            seconds: None,
            counts: Vec::new(),
            pressure: None,
            exit_code: None,
        };
        return judge(args, taken).map(|_| ());
    }
    if args.command.is_empty() && args.pid.is_none() && !args.all {
        return Err(Failure::usage(anyhow::anyhow!(
            "nothing to diagnose: name a command, a process (-p PID), the whole machine (-a), or a file (-i FILE)"
        )));
    }
    let signals = Signals::watch()?;
    let taken = take::take(args, &signals.stop)?;
    let code = judge(args, taken)?;
    signals.end_with(code)
}

/// Looks at what was taken, prints, and gives the command's exit code.
fn judge(args: &DiagnoseArgs, mut taken: Taken) -> Result<Option<i32>, Failure> {
    let seen = look::look(&taken.file, &args.samples)?;
    if taken.steps.is_empty() {
        taken.steps = seen.steps();
    }
    let seconds = taken.seconds.or(seen.seconds()).unwrap_or(0.0);
    let looked = seen.looked(seconds, &taken);
    let findings = memwide_analysis::diagnosis::findings(&looked);
    present::print(args, &taken, &seen, seconds, &findings)?;
    let code = taken.exit_code;
    drop(taken);
    seen.left.into_result()?;
    Ok(code)
}

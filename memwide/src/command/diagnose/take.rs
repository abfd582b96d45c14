//! Records and counts with the best that this machine offers, and says what it does not.

use super::pressure::{self, Pressure};
use super::{Step, Taken};
use crate::cli::DiagnoseArgs;
use crate::command::child::{Ended, Running, target};
use crate::command::gate::Gate;
use crate::command::record::command_line;
use crate::command::stat::{MEMORY_GROUP, count};
use crate::failure::Failure;
use anyhow::Context as _;
use memwide_collector::{
    CountOptions, CounterAbsent, Counters, RecordError, RecordNote, RecordOptions, RecordSummary,
    RecordTarget, Recorder, StackCopies,
};
use memwide_service::CancellationToken;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a process or the machine is recorded unless told otherwise.
const SECONDS: u64 = 10;
/// How often to look whether the time is over.
const LOOK: Duration = Duration::from_millis(50);

/// Precise memory events.
const PRECISE: &[&str] = &RecordOptions::PRECISE;
/// Sampled where there are none.
const HARDWARE: &[&str] = &["cache-misses"];
/// Always.
const FAULTS: &[&str] = &RecordOptions::FAULTS;
/// Waiting, and memory that programs ask the kernel for.
const TRACEPOINTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup",
    "syscalls:sys_enter_mmap",
    "syscalls:sys_exit_mmap",
    "syscalls:sys_enter_munmap",
    "syscalls:sys_enter_brk",
    "syscalls:sys_exit_brk",
    "syscalls:sys_enter_mremap",
    "syscalls:sys_exit_mremap",
];

/// Those of them that tell who asks for memory. The C library's own functions lie between, and mostly keep no frame pointers.
const ASKING: &[&str] = &[
    "syscalls:sys_enter_mmap",
    "syscalls:sys_enter_brk",
    "syscalls:sys_enter_mremap",
];
/// Bytes of the stack copied with each of those: the library's frames take some hundred.
const STACK_BYTES: u16 = 4096;

pub(super) fn take(args: &DiagnoseArgs, stop: &CancellationToken) -> Result<Taken, Failure> {
    // Standard output is the answer's.
    let gate = Gate::start(&args.command, Stdio::from(std::io::stderr()))?;
    let target = target(args.pid, gate.as_ref(), args.all);
    let (file, is_temporary) = match &args.keep {
        Some(file) => (file.clone(), false),
        None => (temporary(), true),
    };
    let pressure = Pressure::read();
    let counters = Counters::open(&CountOptions {
        events: vec![MEMORY_GROUP.to_owned()],
        target,
        cpus: Vec::new(),
    })?;
    let recorder = recorder(args, target, file.clone())?;
    let absent = recorder.absent().to_vec();
    let has_precise = has_any(&absent, PRECISE);
    let notes = recorder.notes().iter();
    // What is not there is said step by step.
    let mut notes: Vec<String> = notes
        .filter(|note| matches!(note, RecordNote::Other(_)))
        .map(ToString::to_string)
        .collect();
    let begin = Instant::now();
    counters.start().context("cannot start the counters")?;
    let until = match (args.seconds, &gate) {
        (Some(seconds), _) => Some(begin + Duration::from_secs(seconds)),
        (None, None) => Some(begin + Duration::from_secs(SECONDS)),
        (None, Some(_)) => None,
    };
    let (summary, ended) = record(gate, recorder, stop, until)?;
    let seconds = begin.elapsed().as_secs_f64();
    counters.stop().context("cannot stop the counters")?;
    let counts = counts(&counters);
    let share = pressure
        .as_ref()
        .ok()
        .and_then(|before| before.share_since());
    notes.extend(ended.told());
    for event in summary.events.iter().filter(|event| event.lost > 0) {
        notes.push(format!(
            "{} samples of {} were lost",
            event.lost, event.name
        ));
    }
    let steps = steps(&summary, &absent, has_precise, &counters, &pressure);
    Ok(Taken {
        file,
        is_temporary,
        steps,
        notes,
        seconds: Some(seconds),
        counts,
        pressure: share,
        exit_code: ended.code(),
    })
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("memwide-diagnose-{}.data", std::process::id()))
}

fn recorder(
    args: &DiagnoseArgs,
    target: RecordTarget,
    output: PathBuf,
) -> Result<Recorder, Failure> {
    let texts = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let events = texts(FAULTS).into_iter();
    Recorder::start(&RecordOptions {
        events: events.chain(args.events.iter().cloned()).collect(),
        optional: texts(&[PRECISE, TRACEPOINTS].concat()),
        unless_precise: texts(HARDWARE),
        switches: true,
        period: None,
        callchain: true,
        stacks: Some(StackCopies {
            bytes: STACK_BYTES,
            events: texts(ASKING),
        }),
        target,
        output,
        command_line: command_line(),
    })
    .map_err(|error| match error {
        // The recorder's own option is another one than here.
        RecordError::Output { path, source } => anyhow::Error::from(source)
            .context(format!(
                "cannot write {}; {}",
                path.display(),
                elsewhere(args)
            ))
            .into(),
        RecordError::NotAFile { path } | RecordError::Busy { path } => {
            let path = path.display();
            let what = "something else, or another recording writes it";
            anyhow::anyhow!("cannot write {path}: it is {what}; {}", elsewhere(args)).into()
        }
        error => Failure::of_events(error),
    })
}

fn elsewhere(args: &DiagnoseArgs) -> &'static str {
    if args.keep.is_some() {
        "name another file with --keep"
    } else {
        "set TMPDIR to another folder"
    }
}

fn has_any(absent: &[(String, CounterAbsent)], names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| !absent.iter().any(|(missing, _)| missing == name))
}

/// Until the command or the process ends, the time is over or everything stops.
fn record(
    gate: Option<Gate>,
    mut recorder: Recorder,
    stop: &CancellationToken,
    until: Option<Instant>,
) -> Result<(RecordSummary, Ended), Failure> {
    let command = gate.map(|gate| Running::start(gate, stop)).transpose()?;
    let token = match &command {
        Some(command) => command.ended().child_token(),
        None => stop.child_token(),
    };
    if let Some(until) = until {
        let token = token.clone();
        std::thread::Builder::new()
            .name("mw-deadline".to_owned())
            .spawn(move || {
                while !token.is_cancelled() && Instant::now() < until {
                    std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
                }
                token.cancel();
            })?;
    }
    let recorded = recorder.run(&token);
    // Ends the deadline's thread too, where all recorded processes ended by themselves.
    token.cancel();
    if let Some(command) = &command {
        command.check_started()?;
    }
    let summary = recorded.and_then(|()| recorder.finish());
    let ended = command.map_or(Ended::Well, Running::end);
    Ok((summary?, ended))
}

fn counts(counters: &Counters) -> Vec<(String, f64)> {
    let read = counters.read();
    let both = counters.infos().zip(read);
    let scaled =
        both.filter_map(|(info, reading)| Some((info.name.clone(), count(reading?).scaled()?)));
    scaled.collect()
}

/// What was taken of each kind, and what not and why.
fn steps(
    summary: &RecordSummary,
    absent: &[(String, CounterAbsent)],
    has_precise: bool,
    counters: &Counters,
    pressure: &Result<Pressure, String>,
) -> Vec<Step> {
    let sampled = |names: &[&str]| {
        let events = summary.events.iter();
        let of = events.filter(|event| names.contains(&event.name.as_str()));
        of.map(|event| event.name.clone()).collect::<Vec<_>>()
    };
    let missing = |names: &[&str]| {
        let of = absent
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()));
        of.map(|(name, why)| (name.clone(), why.reason.clone(), why.remedy.clone()))
            .collect::<Vec<_>>()
    };
    let unseen = if has_precise {
        Vec::new()
    } else {
        of_this_cpu(missing(PRECISE))
    };
    let mut steps = vec![Step::new(super::PRECISE, sampled(PRECISE), unseen)];
    if !has_precise {
        steps.push(Step::new(
            super::HARDWARE,
            sampled(HARDWARE),
            missing(HARDWARE),
        ));
    }
    steps.push(Step::new(super::FAULTS, sampled(FAULTS), Vec::new()));
    steps.push(Step::new(
        super::TRACEPOINTS,
        sampled(TRACEPOINTS),
        missing(TRACEPOINTS),
    ));
    let (taken, unseen) = match pressure {
        Ok(_) => (vec![pressure::FILE.to_owned()], Vec::new()),
        Err(why) => {
            let remedy = "boot with psi=1 and a kernel with CONFIG_PSI".to_owned();
            let what = super::PRESSURE.0.to_owned();
            (Vec::new(), vec![(what, why.clone(), remedy)])
        }
    };
    steps.push(Step::new(super::PRESSURE, taken, unseen));
    let (mut taken, mut unseen) = (Vec::new(), Vec::new());
    for info in counters.infos() {
        let name = info.name.clone();
        match &info.absent {
            None => taken.push(name),
            Some(why) => unseen.push((name, why.reason.clone(), why.remedy.clone())),
        }
    }
    steps.push(Step::new(super::COUNTERS, taken, unseen));
    steps
}

/// Without the events that only CPUs of another maker have, where others are left.
fn of_this_cpu(all: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    let is_foreign = |reason: &str| reason.contains("source is ");
    let own: Vec<_> = all
        .iter()
        .filter(|(_, reason, _)| !is_foreign(reason))
        .cloned()
        .collect();
    if own.is_empty() { all } else { own }
}

//! `memwide record`: a perf.data file of this machine, a process or a command.

mod gate;

use crate::cli::{ExecGateArgs, RecordArgs};
use crate::failure::Failure;
use crate::output::grouped;
use anyhow::Context as _;
use gate::Gate;
use memwide_collector::{RecordOptions, RecordSummary, RecordTarget, Recorder};
use memwide_service::run::stop_on_signal;
use memwide_service::{CancellationToken, exit};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Said when nothing was sampled.
const NO_SAMPLES: &str = "no event happened: record for longer, other events (-e, see `memwide doctor`), with a smaller \
                          period (-c 1) or all processes (-a)";
/// How long a command that was told to end may take.
const END_GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &RecordArgs) -> Result<(), Failure> {
    // Before anything is made that a signal would leave behind.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let stop = runtime
        .block_on(async { stop_on_signal() })
        .context("cannot watch for signals")?;
    let gate = match args.command.as_slice() {
        [] => None,
        command => Some(Gate::start(command)?),
    };
    let target = match (&gate, args.pid) {
        (_, Some(pid)) => RecordTarget::Process(pid),
        (Some(gate), None) if !args.all => RecordTarget::Exec(gate.pid()),
        _ => RecordTarget::All,
    };
    let mut recorder = Recorder::start(&RecordOptions {
        events: args.events.clone(),
        period: args.count,
        callchain: args.call_graph,
        target,
        output: args.output.clone(),
        command_line: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    })?;
    for note in recorder.notes() {
        say(note);
    }
    let (summary, ended) = match gate {
        None => {
            say("recording; ctrl-c ends it");
            recorder.run(&stop)?;
            (recorder.finish()?, Ended::Well)
        }
        Some(gate) => with_command(gate, recorder, &stop)?,
    };
    if let Some(why) = ended.told() {
        say(&why);
    }
    say(&result(&summary, &args.output));
    if summary
        .events
        .iter()
        .all(|event| event.samples + event.lost == 0)
    {
        say(NO_SAMPLES);
    }
    // A command that ends while it is recorded says how this program ends, as under perf.
    match ended {
        Ended::With(status) if !stop.is_cancelled() => {
            drop(runtime);
            std::process::exit(code(status))
        }
        _ => Ok(()),
    }
}

/// As shells have it: its own code, or 128 and the signal.
fn code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(i32::from(exit::FAILED))
}

/// How the command ended.
#[derive(Debug)]
enum Ended {
    /// Without a word.
    Well,
    /// With another status than success.
    With(ExitStatus),
    /// In a way nobody knows, or not at all.
    Otherwise(String),
}

impl Ended {
    fn told(&self) -> Option<String> {
        match self {
            Self::Well => None,
            Self::With(status) => Some(format!("the command ended with {status}")),
            Self::Otherwise(why) => Some(why.clone()),
        }
    }
}

/// Becomes the command once the gate opens.
pub(crate) fn exec_gate(args: &ExecGateArgs) -> Result<(), Failure> {
    gate::wait_and_exec(&args.folder, &args.command)
}

/// Records until the command ends.
fn with_command(
    mut gate: Gate,
    mut recorder: Recorder,
    stop: &CancellationToken,
) -> Result<(RecordSummary, Ended), Failure> {
    gate.open().context("cannot start the command")?;
    let command = gate.command().to_owned();
    let pid = gate.pid();
    let (mut process, place) = gate.into_parts();
    let ended = stop.child_token();
    let (send, status) = sync_channel(1);
    let token = ended.clone();
    std::thread::Builder::new()
        .name("mw-command".to_owned())
        .spawn(move || {
            let outcome = process.wait();
            // Nobody waits any more when the recording failed.
            let _sent = send.send(outcome);
            // After it: who sees the recording end finds the outcome.
            token.cancel();
        })?;
    let recorded = recorder.run(&ended);
    if let Some(why) = place.failure() {
        // It is no command: there is nothing to keep.
        return Err(anyhow::anyhow!("cannot run {command}: {why}; {}", gate::REMEDY).into());
    }
    // Before the command is waited for: nobody empties the rings any more.
    let summary = recorded.and_then(|()| recorder.finish());
    let outcome = end(pid, &status);
    Ok((summary?, outcome))
}

/// The command's end: waited for when the recording ended first.
fn end(pid: u32, status: &Receiver<Option<ExitStatus>>) -> Ended {
    let outcome = if let Ok(outcome) = status.try_recv() {
        Ok(outcome)
    } else {
        terminate(pid);
        status.recv_timeout(END_GRACE)
    };
    match outcome {
        Ok(Some(status)) if status.success() => Ended::Well,
        Ok(Some(status)) => Ended::With(status),
        Ok(None) => Ended::Otherwise("how the command ended is not known".to_owned()),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Ended::Otherwise(format!(
                "the command, process {pid}, does not end on SIGTERM and runs on; end it with `kill -9 {pid}`"
            ))
        }
    }
}

fn terminate(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself meanwhile; the thread that waits for it tells.
        let _sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn result(summary: &RecordSummary, output: &Path) -> String {
    let samples: u64 = summary.events.iter().map(|event| event.samples).sum();
    let lost: u64 = summary.events.iter().map(|event| event.lost).sum();
    let each: Vec<String> = summary
        .events
        .iter()
        .map(|event| match event.lost {
            0 => format!("{} {}", event.name, grouped(event.samples)),
            lost => format!(
                "{} {} (and {} lost)",
                event.name,
                grouped(event.samples),
                grouped(lost)
            ),
        })
        .collect();
    let side_band = match summary.side_band_lost {
        0 => String::new(),
        lost => format!(", {} records of mappings and names lost", grouped(lost)),
    };
    format!(
        "{} samples ({}), {} lost{side_band}, {} bytes in {}",
        grouped(samples),
        each.join(", "),
        grouped(lost),
        grouped(summary.bytes),
        output.display()
    )
}

#[expect(clippy::print_stderr, reason = "standard output is the command's")]
fn say(line: &str) {
    eprintln!("memwide: {line}");
}

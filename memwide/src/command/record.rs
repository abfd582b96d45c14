//! `memwide record`: a perf.data file of this machine, a process or a command.

use super::child::{Ended, Running, target};
use super::gate::{self, Gate};
use super::signals::Signals;
use crate::cli::{CallGraph, ExecGateArgs, RecordArgs};
use crate::failure::Failure;
use crate::output::{grouped, say};
use memwide_collector::{RecordOptions, RecordSummary, Recorder, StackCopies};
use memwide_service::CancellationToken;
use std::path::Path;
use std::process::Stdio;

/// Said when nothing was sampled.
const NO_SAMPLES: &str = "no event happened: record for longer, other events (-e, see `memwide doctor`), with a smaller \
                          period (-c 1) or all processes (-a)";

pub(crate) fn run(args: &RecordArgs) -> Result<(), Failure> {
    let signals = Signals::watch()?;
    let gate = Gate::start(&args.command, Stdio::inherit())?;
    let mut recorder = Recorder::start(&RecordOptions {
        events: args.events.clone(),
        optional: Vec::new(),
        unless_precise: Vec::new(),
        switches: false,
        period: args.count,
        callchain: args.callchains || args.call_graph.is_some(),
        stacks: match args.call_graph {
            Some(CallGraph::Stack(bytes)) => Some(StackCopies {
                bytes,
                events: Vec::new(),
            }),
            _ => None,
        },
        target: target(args.pid, gate.as_ref(), args.all),
        output: args.output.clone(),
        command_line: command_line(),
    })
    .map_err(Failure::of_events)?;
    for note in recorder.notes() {
        say(&note.to_string());
    }
    let (summary, ended) = match gate {
        None => {
            say("recording; ctrl-c ends it");
            recorder.run(&signals.stop)?;
            (recorder.finish()?, Ended::Well)
        }
        Some(gate) => with_command(gate, recorder, &signals.stop)?,
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
    signals.end_with(ended.code())
}

/// How this program was called, for the file's header.
pub(super) fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Becomes the command once the gate opens.
pub(crate) fn exec_gate(args: &ExecGateArgs) -> Result<(), Failure> {
    gate::wait_and_exec(&args.folder, &args.command)
}

/// Records until the command ends.
fn with_command(
    gate: Gate,
    mut recorder: Recorder,
    stop: &CancellationToken,
) -> Result<(RecordSummary, Ended), Failure> {
    let command = Running::start(gate, stop)?;
    let recorded = recorder.run(command.ended());
    // A process that did not become it is no command: there is nothing to keep.
    command.check_started()?;
    // Before the command is waited for: nobody empties the rings any more.
    let summary = recorded.and_then(|()| recorder.finish());
    let outcome = command.end();
    Ok((summary?, outcome))
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

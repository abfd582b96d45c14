//! `memwide script`: one line a sample of a perf.data file.

use crate::cli::{ScriptArgs, ScriptField, ScriptFormat};
use crate::failure::Failure;
use crate::recording::{Leftovers, Recording, Shard};
use crate::script::{Json, Line, Text};
use memwide_decoder::local::{LocalSample, Wanted};
use std::io::{self, Write};
use std::ops::ControlFlow;

pub(crate) fn run(args: &ScriptArgs) -> Result<(), Failure> {
    let with = |field| args.fields.contains(&field);
    let is_more = with(ScriptField::Inline) || with(ScriptField::Member);
    if is_more && args.format == ScriptFormat::Text {
        let wrong = anyhow::anyhow!("+inline and +member are fields of --format ndjson only");
        return Err(Failure::usage(wrong));
    }
    let recording = Recording::open(&args.input, &args.symbols)?;
    let wanted = |is: bool, what| if is { what } else { Wanted::NOTHING };
    let lines_wanted = wanted(with(ScriptField::Srcline), Wanted::LINES);
    let members_wanted = wanted(with(ScriptField::Member), Wanted::MEMBERS);
    let recording = recording.wanting(match args.format {
        ScriptFormat::Text => Wanted::COMM | Wanted::CODE | lines_wanted,
        // Texts of callchains are kept by number; those with lines of the source are not.
        ScriptFormat::Ndjson if with(ScriptField::Inline) => {
            Wanted::ALL | lines_wanted | members_wanted | Wanted::INLINES
        }
        ScriptFormat::Ndjson => Wanted::ALL | Wanted::CHAINS | lines_wanted | members_wanted,
    });
    // A few lines are not worth the start of threads.
    let workers = match args.limit {
        Some(_) => 1,
        None => recording.workers(args.jobs.jobs),
    };
    let mut out = Out {
        out: io::stdout(),
        failed: None,
    };
    let left = {
        let (events, tracing) = (recording.events(), recording.tracing_data());
        let (events, tracing) = (events.clone(), tracing.cloned());
        let tracing = tracing.as_deref();
        match args.format {
            ScriptFormat::Text => {
                let text = || Text::new(&events, tracing).with_lines(with(ScriptField::Srcline));
                out.write_all(recording, workers, args.limit, || {
                    let mut text = text();
                    move |line: &mut Line, sample: &LocalSample<'_>| text.write(line, sample)
                })?
            }
            ScriptFormat::Ndjson => out.write_all(recording, workers, args.limit, || {
                let mut json = Json::new(&events, tracing);
                move |line: &mut Line, sample: &LocalSample<'_>| json.write(line, sample)
            })?,
        }
    };
    match out.finish() {
        // Whoever reads has seen enough: `memwide script | head`.
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        finished => finished?,
    }
    left.say();
    left.into_result()
}

/// Lines on their way out.
struct Out<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write + Send> Out<W> {
    /// Writes the line of each sample, or of the first so many.
    fn write_all<F: FnMut(&mut Line, &LocalSample<'_>) + Send>(
        &mut self,
        recording: Recording,
        workers: usize,
        limit: Option<u64>,
        write: impl Fn() -> F,
    ) -> Result<Leftovers, Failure> {
        let lines = || Lines {
            line: Line::default(),
            left: limit.unwrap_or(u64::MAX),
            write: write(),
        };
        let shards = (0..workers).map(|_| lines()).collect();
        let (left, _) = recording.each_sharded(shards, |lines: &mut Line| {
            let written = self.out.write_all(lines.bytes());
            lines.clear();
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(wrong) => {
                    self.failed = Some(wrong);
                    ControlFlow::Break(())
                }
            }
        })?;
        Ok(left)
    }

    fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(wrong) => Err(wrong),
            None => self.out.flush(),
        }
    }
}

/// Lines of one worker.
struct Lines<F> {
    line: Line,
    left: u64,
    write: F,
}

impl<F: FnMut(&mut Line, &LocalSample<'_>) + Send> Shard for Lines<F> {
    type Out = Line;

    fn take(&mut self, sample: &LocalSample<'_>) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        (self.write)(&mut self.line, sample);
        ControlFlow::Continue(())
    }

    fn end(&mut self, out: &mut Line) {
        std::mem::swap(&mut self.line, out);
    }
}

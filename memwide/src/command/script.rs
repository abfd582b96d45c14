//! `memwide script`: one line a sample of a perf.data file.

use crate::cli::{ScriptArgs, ScriptField, ScriptFormat};
use crate::failure::Failure;
use crate::recording::Recording;
use crate::script::{Json, Line, Text};
use memwide_decoder::local::{LocalSample, Wanted};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Bytes of lines written at once.
const CHUNK: usize = 64 << 10;

pub(crate) fn run(args: &ScriptArgs) -> Result<(), Failure> {
    let recording = Recording::open(&args.input, &args.symbols)?;
    let mut lines = Lines::new(io::stdout().lock(), args.limit);
    let (events, tracing) = (
        recording.events(),
        recording.tracing_data().map(AsRef::as_ref),
    );
    let with = |field| args.fields.contains(&field);
    let wanted = |is: bool, what| if is { what } else { Wanted::NOTHING };
    let lines_wanted = wanted(with(ScriptField::Srcline), Wanted::LINES);
    let inlines_wanted = wanted(with(ScriptField::Inline), Wanted::INLINES);
    let left = match args.format {
        ScriptFormat::Text => {
            let mut text = Text::new(events, tracing).with_lines(with(ScriptField::Srcline));
            let recording = recording.wanting(Wanted::COMM | Wanted::CODE | lines_wanted);
            recording.each(|sample| lines.push(sample, |line, sample| text.write(line, sample)))?
        }
        ScriptFormat::Ndjson => {
            let mut json = Json::new(events, tracing);
            let recording = recording.wanting(Wanted::ALL | lines_wanted | inlines_wanted);
            recording.each(|sample| lines.push(sample, |line, sample| json.write(line, sample)))?
        }
    };
    match lines.finish() {
        // Whoever reads has seen enough: `memwide script | head`.
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        finished => finished?,
    }
    left.say();
    left.into_result()
}

/// Lines on their way out.
struct Lines<W> {
    out: W,
    line: Line,
    left: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Lines<W> {
    fn new(out: W, limit: Option<u64>) -> Self {
        Self {
            out,
            line: Line::default(),
            left: limit.unwrap_or(u64::MAX),
            failed: None,
        }
    }

    fn push(
        &mut self,
        sample: &LocalSample<'_>,
        write: impl FnOnce(&mut Line, &LocalSample<'_>),
    ) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        write(&mut self.line, sample);
        if self.line.bytes().len() >= CHUNK
            && let Err(wrong) = self.flush()
        {
            self.failed = Some(wrong);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.line.bytes())?;
        self.line.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if let Some(wrong) = self.failed {
            return Err(wrong);
        }
        self.flush()?;
        self.out.flush()
    }
}

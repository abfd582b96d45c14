//! What the commands that answer questions on one file have in common.

use crate::cli::{Format, SampleArgs};
use crate::failure::Failure;
use crate::output::Document;
use crate::recording::{Leftovers, Recording};
use memwide_analysis::report::{Estimator, Filter};
use memwide_decoder::edge::FileSource;
use memwide_decoder::local::{LocalSample, LocalSession, Wanted};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// A file and the samples of it that count.
#[derive(Debug)]
pub(super) struct OnFile {
    filter: Filter,
    recording: Recording,
}

impl OnFile {
    /// Opens a file for a question that needs this of its samples.
    pub(super) fn open(
        input: &Path,
        samples: &SampleArgs,
        wanted: Wanted,
    ) -> Result<Self, Failure> {
        let filter = Filter::parse(&samples.filters).map_err(Failure::usage)?;
        let wanted = wanted | filter.wanted();
        let recording = Recording::open(input, &samples.symbols)?.wanting(wanted);
        Ok(Self { filter, recording })
    }

    /// What the file's header says.
    pub(super) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Gives every sample that counts; `then` gets what is known after the last one.
    pub(super) fn each_then(
        self,
        mut each: impl FnMut(&LocalSample<'_>),
        then: impl FnOnce(&mut LocalSession<FileSource>),
    ) -> Result<Leftovers, Failure> {
        let filter = self.filter;
        let taken = |sample: &LocalSample<'_>| {
            if filter.takes(sample) {
                each(sample);
            }
            ControlFlow::Continue(())
        };
        self.recording.each_then(taken, then)
    }

    /// Gives every sample that counts.
    pub(super) fn each(self, mut each: impl FnMut(&LocalSample<'_>)) -> Result<Leftovers, Failure> {
        let filter = self.filter;
        self.recording.each(|sample| {
            if filter.takes(sample) {
                each(sample);
            }
            ControlFlow::Continue(())
        })
    }
}

/// Prints an answer, with what of the file is not in it.
pub(super) fn finish(
    mut document: Document,
    left: Leftovers,
    format: Format,
) -> Result<(), Failure> {
    document.notes.extend(left.lines());
    match document.print(format) {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        printed => printed?,
    }
    if format == Format::Csv {
        left.say(); // the others carry it with them
    }
    left.into_result()
}

/// An estimator by its name.
pub(super) fn estimator(name: &str) -> Result<Estimator, Failure> {
    Estimator::parse(name).ok_or_else(|| {
        let names: Vec<&str> = Estimator::ALL.iter().map(|known| known.name()).collect();
        Failure::usage(anyhow::anyhow!(
            "`{name}` is no estimator; --by takes {}",
            names.join(", ")
        ))
    })
}

/// What a sample adds to an estimator.
pub(super) fn value(sample: &LocalSample<'_>, by: Estimator) -> u64 {
    let weight = || sample.weight().unwrap_or_default().weight;
    match by {
        Estimator::Samples => 1,
        Estimator::Weight => weight(),
        Estimator::PerfWeight => weight().max(1),
        Estimator::Period => sample.period,
    }
}

/// Unit of an estimator.
pub(super) fn unit(by: Estimator) -> &'static str {
    match by {
        Estimator::Samples => "samples",
        Estimator::Weight | Estimator::PerfWeight => "cycles",
        Estimator::Period => "events",
    }
}

//! What the commands that answer questions on one file have in common.

use crate::cli::{Format, RowArgs, SampleArgs};
use crate::failure::Failure;
use crate::output::{Document, Listing, Section, width};
use crate::recording::{Leftovers, Recording};
use crate::report::completeness;
use memwide_analysis::report::{Estimator, Filter, Key, Measures, Weights};
use memwide_analysis::site::SiteFilter;
use memwide_decoder::edge::FileSource;
use memwide_decoder::local::{LocalSample, LocalSession, Wanted};
use memwide_perf_abi::RawRecord;
use memwide_perf_abi::file::{Event, EventTable};
use serde_json::Value;
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

    /// Takes what the filter asks of sites: the command judges them itself.
    pub(super) fn take_sites(&mut self) -> SiteFilter {
        self.filter.take_sites()
    }

    /// Which samples count.
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Gives every sample that counts; `then` gets what is known after the last one.
    pub(super) fn each_then(
        self,
        mut each: impl FnMut(&LocalSample<'_>),
        then: impl FnOnce(&mut LocalSession<FileSource>),
    ) -> Result<Leftovers, Failure> {
        let taken = |sample: &LocalSample<'_>, counts: bool| {
            if counts {
                each(sample);
            }
        };
        self.judged(|_, _| {}, taken, then)
    }

    /// Gives every sample that counts.
    pub(super) fn each(self, each: impl FnMut(&LocalSample<'_>)) -> Result<Leftovers, Failure> {
        self.each_then(each, |_| {})
    }

    /// Gives every sample, and whether it counts; `other` gets each record with the index of its event first.
    pub(super) fn each_with(
        self,
        other: impl FnMut(&RawRecord<'_>, Option<usize>),
        each: impl FnMut(&LocalSample<'_>, bool),
    ) -> Result<Leftovers, Failure> {
        self.judged(other, each, |_| {})
    }

    fn judged(
        self,
        other: impl FnMut(&RawRecord<'_>, Option<usize>),
        mut each: impl FnMut(&LocalSample<'_>, bool),
        then: impl FnOnce(&mut LocalSession<FileSource>),
    ) -> Result<Leftovers, Failure> {
        let (filter, mut fits) = (self.filter, false);
        let judged = |sample: &LocalSample<'_>| {
            let is_fit = filter.takes(sample);
            fits |= is_fit;
            each(sample, is_fit);
            ControlFlow::Continue(())
        };
        let mut left = self.recording.each_with(other, judged, then)?;
        left.unfit = !fits && !filter.is_empty();
        Ok(left)
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

/// An answer of one list of rows, what is said before it, and what a program wants to know beside it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Said above the rows.
    pub(super) about: Vec<String>,
    /// The rows, of which at most as many as asked for are shown.
    pub(super) listing: Listing,
    /// Further parts of the text.
    pub(super) more: Vec<Section>,
    /// The JSON document; `rows`, `notes` and `completeness` are added.
    pub(super) json: Value,
    /// Said below.
    pub(super) notes: Vec<String>,
}

impl Answer {
    /// Prints it.
    pub(super) fn finish(self, left: Leftovers, args: &RowArgs) -> Result<(), Failure> {
        self.finish_as(left, args.format, args.limit())
    }

    /// Prints it in this format, so many rows at most.
    pub(super) fn finish_as(
        self,
        left: Leftovers,
        format: Format,
        limit: usize,
    ) -> Result<(), Failure> {
        // What is said of an empty selection is not true of the file.
        let mut notes = if left.unfit { Vec::new() } else { self.notes };
        let listing = self.listing.limited(limit, &mut notes);
        let mut json = self.json;
        json["rows"] = listing.json();
        json["notes"] = notes.as_slice().into();
        json["completeness"] = completeness(&left);
        let mut sections = vec![Section {
            title: String::new(),
            about: if left.unfit { Vec::new() } else { self.about },
            table: listing.table(width()),
        }];
        sections.extend(self.more);
        let document = Document {
            sections,
            notes,
            csv: listing.csv(),
            json,
        };
        finish(document, left, format)
    }
}

/// The keys of `--sort`; `otherwise`: those without it.
pub(super) fn sort_keys(names: &[String], otherwise: &str) -> Result<Vec<Key>, Failure> {
    let keys = Key::parse_all(names).map_err(Failure::usage)?;
    if keys.is_empty() && !names.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!(
            "--sort names no key; without it rows are of {otherwise}"
        )));
    }
    Ok(keys)
}

/// Weights are asked for: some event must record them, or every sum is nothing.
pub(super) fn check_weights(by: Option<Estimator>, events: &EventTable) -> Result<(), Failure> {
    let has_weights = |at: usize| Weights::of(events, at).any;
    if by != Some(Estimator::Weight) || (0..events.events().len()).any(has_weights) {
        return Ok(());
    }
    let wrong = anyhow::anyhow!(
        "no event of this file records weights: take --by samples or --by period, or record with `perf record -W` (`perf mem record`)"
    );
    Err(Failure::usage(wrong))
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
    Measures::of(sample).sum(by)
}

/// Unit of an estimator of these events.
pub(super) fn unit<'a>(by: Estimator, events: impl IntoIterator<Item = &'a Event>) -> &'static str {
    match by {
        Estimator::Samples => "samples",
        Estimator::Weight | Estimator::PerfWeight => "cycles",
        Estimator::Period => period_unit(events),
    }
}

/// What periods count: clocks count nanoseconds.
pub(super) fn period_unit<'a>(events: impl IntoIterator<Item = &'a Event>) -> &'static str {
    let (mut clocks, mut others) = (false, false);
    for event in events {
        *if event.attr.is_clock() {
            &mut clocks
        } else {
            &mut others
        } = true;
    }
    match (clocks, others) {
        (true, true) => MIXED,
        (true, false) => "ns",
        (false, _) => "events",
    }
}

/// Unit of periods of clocks and of other events, which do not add up.
pub(super) const MIXED: &str = "events, ns of clocks";

//! `memwide stat`: counts without samples.

mod file;
mod live;
mod rows;
mod separated;

use crate::cli::{Format, StatArgs};
use crate::failure::Failure;
use crate::output::create;
use memwide_analysis::counting::Count;
use memwide_collector::CounterReading;
use std::io::{self, Write};

pub(super) use live::MEMORY_GROUP;

pub(crate) fn run(args: &StatArgs) -> Result<(), Failure> {
    match &args.input {
        Some(input) => file::run(args, input),
        None => live::run(args),
    }
}

/// One event over one or several runs.
#[derive(Debug, Clone)]
struct Measured {
    name: String,
    tier: &'static str,
    /// It counts nanoseconds.
    is_time: bool,
    /// Number of its group.
    group: Option<u32>,
    /// Why it is not counted, and what to do.
    absent: Option<(String, String)>,
    /// What it counted in each run.
    runs: Vec<Count>,
}

/// Counts of the same time.
#[derive(Debug, Clone)]
struct Measurement {
    events: Vec<Measured>,
    /// Elapsed time of each run, in seconds.
    seconds: Vec<f64>,
    /// End of the interval since the start, if this is one of several.
    until_s: Option<f64>,
}

impl Measured {
    /// All runs together.
    fn total(&self) -> Count {
        let runs = self.runs.iter().copied();
        runs.fold(Count::default(), Count::and)
    }
}

/// What the collector read, for arithmetic.
pub(super) fn count(reading: CounterReading) -> Count {
    Count {
        value: reading.value,
        enabled_ns: reading.enabled_ns,
        running_ns: reading.running_ns,
    }
}

/// Where the answer goes.
fn sink(args: &StatArgs) -> Result<Box<dyn Write>, Failure> {
    let out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(create(path)?),
        // Standard output is the command's.
        None if !args.command.is_empty() => Box::new(io::stderr()),
        None => Box::new(io::stdout()),
    };
    Ok(Box::new(io::BufWriter::new(out)))
}

/// Prints measurements as they come.
struct Printer<'a> {
    args: &'a StatArgs,
    out: Box<dyn Write>,
    any: bool,
}

impl<'a> Printer<'a> {
    fn new(args: &'a StatArgs) -> Result<Self, Failure> {
        Ok(Self {
            args,
            out: sink(args)?,
            any: false,
        })
    }

    /// One interval of several.
    fn interval(&mut self, measurement: &Measurement) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.any, true);
        let out = &mut self.out;
        if let Some(separator) = &self.args.separator {
            separated::write(out, measurement, separator)?;
            return out.flush();
        }
        match self.args.format {
            Format::Json => {
                let listing = rows::listing(measurement, true);
                for row in listing.json().as_array().into_iter().flatten() {
                    writeln!(out, "{row}")?;
                }
            }
            Format::Csv => {
                let table = rows::listing(measurement, true).csv();
                if is_first {
                    table.write_csv_header(out)?;
                }
                table.write_csv_rows(out)?;
            }
            Format::Table => rows::write_interval(out, measurement, is_first)?,
        }
        out.flush()
    }

    /// All there is.
    fn whole(&mut self, measurement: &Measurement, notes: Vec<String>) -> io::Result<()> {
        if let Some(separator) = &self.args.separator {
            separated::write(&mut self.out, measurement, separator)?;
            return self.out.flush();
        }
        let named = !self.args.events.is_empty() || self.args.input.is_some();
        rows::document(measurement, named, notes).print_to(&mut self.out, self.args.format)
    }
}

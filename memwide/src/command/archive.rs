//! `memwide archive`: what an archive holds, and whether it is whole.

use crate::cli::{ArchiveArgs, ArchiveCommand, ArchiveVerifyArgs};
use crate::failure::Failure;
use crate::output::{Listing, say};
use memwide_decoder::archive::{self, ArchiveError, Checked, Day, Kept, Key, Place};
use memwide_service::telemetry::Chain;
use serde_json::json;
use std::collections::BTreeSet;

pub(crate) fn run(command: &ArchiveCommand) -> Result<(), Failure> {
    match command {
        ArchiveCommand::Ls(args) => ls(args),
        ArchiveCommand::Verify(args) => verify(args),
    }
}

fn ls(args: &ArchiveArgs) -> Result<(), Failure> {
    let mut listing = Listing::default()
        .column("day", "day", "UTC")
        .column("sources", "sources", "")
        .column("files", "files", "")
        .column("bytes", "size", "bytes");
    let place = Place::open(&args.place).map_err(Failure::usage)?;
    for day in place.days()? {
        let files = place.files_of(day)?;
        let sources: BTreeSet<_> = files.iter().map(Kept::source).collect();
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        listing.push(vec![
            json!(day.to_string()),
            json!(sources.len()),
            json!(files.len()),
            json!(bytes),
        ]);
    }
    Ok(listing.print(args.format)?)
}

/// A day's files, read.
#[derive(Debug, Default)]
struct OfDay {
    files: u64,
    damaged: u64,
    torn: u64,
    other_key: u64,
    batches: u64,
    samples: u64,
    bytes: u64,
    encrypted: u64,
}

impl OfDay {
    fn add(&mut self, checked: &Checked, has_other_key: bool) {
        self.other_key += u64::from(has_other_key);
        self.torn += u64::from(checked.torn.is_some());
        self.batches += checked.batches;
        self.samples += checked.samples;
        self.bytes += checked.bytes;
        self.encrypted += u64::from(checked.encrypted);
    }
}

fn verify(args: &ArchiveVerifyArgs) -> Result<(), Failure> {
    let key = args.key.as_deref().map(Key::read).transpose();
    let key = key.map_err(Failure::usage)?;
    let place = Place::open(&args.archive.place).map_err(Failure::usage)?;
    let mut days: Vec<Day> = place.days()?;
    if let Some(day) = args.days.iter().find(|day| !days.contains(day)) {
        return Err(Failure::usage(anyhow::anyhow!(
            "the archive has nothing of {day}; `memwide archive ls` lists its days"
        )));
    }
    days.retain(|day| args.days.is_empty() || args.days.contains(day));
    let mut listing = Listing::default()
        .column("day", "day", "UTC")
        .column("files", "files", "")
        .column("damaged", "damaged", "files")
        .column("torn", "torn", "files")
        .column("other_key", "other key", "files")
        .column("encrypted", "encrypted", "files")
        .column("batches", "batches", "")
        .column("samples", "samples", "")
        .column("bytes", "size", "bytes");
    let (mut damaged, mut other_key) = (0, 0);
    for day in days {
        let mut of_day = OfDay::default();
        for file in place.files_of(day)? {
            of_day.files += 1;
            match of_file(
                &place,
                &file,
                key.as_ref(),
                other_key + of_day.other_key > 0,
            ) {
                Ok((checked, has_other_key)) => of_day.add(&checked, has_other_key),
                Err(error) => {
                    of_day.damaged += 1;
                    say(&Chain(&error).to_string());
                }
            }
        }
        damaged += of_day.damaged;
        other_key += of_day.other_key;
        // Without a key nobody knows how many samples there are.
        let is_open = of_day.other_key == 0 && (key.is_some() || of_day.encrypted == 0);
        listing.push(vec![
            json!(day.to_string()),
            json!(of_day.files),
            json!(of_day.damaged),
            json!(of_day.torn),
            json!(of_day.other_key),
            json!(of_day.encrypted),
            json!(of_day.batches),
            json!(is_open.then_some(of_day.samples)),
            json!(of_day.bytes),
        ]);
    }
    listing.print(args.archive.format)?;
    if damaged > 0 {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "{damaged} files are damaged or cannot be read, see above"
        )));
    }
    if other_key > 0 {
        return Err(Failure::usage(anyhow::anyhow!(
            "{other_key} files are encrypted with another key than that of --key: their sums are right, more was not looked at; \
             give the key they were written with"
        )));
    }
    Ok(())
}

/// Reads a file; with another key than its own only its sums are compared, and that is said once.
fn of_file(
    place: &Place,
    file: &Kept,
    key: Option<&Key>,
    was_said: bool,
) -> Result<(Checked, bool), ArchiveError> {
    match archive::check(place, file, key) {
        Err(error) if error.is_of_key() => {
            if !was_said {
                say(&Chain(&error).to_string());
            }
            Ok((archive::check(place, file, None)?, true))
        }
        checked => Ok((checked?, false)),
    }
}

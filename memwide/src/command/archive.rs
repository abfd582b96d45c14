//! `memwide archive`: what an archive holds, and whether it is whole.

use crate::cli::{ArchiveArgs, ArchiveCommand, ArchiveVerifyArgs};
use crate::failure::Failure;
use crate::output::{Listing, say};
use memwide_decoder::archive::{self, Checked, Day, Key};
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
    for day in archive::days(&args.folder)? {
        let files = archive::files_of(&args.folder, day)?;
        let sources: BTreeSet<_> = files.iter().map(|file| file.parent()).collect();
        let sizes = files
            .iter()
            .map(|file| file.metadata().map(|one| one.len()));
        let bytes: u64 = sizes.sum::<std::io::Result<u64>>()?;
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
    batches: u64,
    samples: u64,
    bytes: u64,
    encrypted: u64,
}

impl OfDay {
    fn add(&mut self, checked: &Checked) {
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
    let root = &args.archive.folder;
    let mut days: Vec<Day> = archive::days(root)?;
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
        .column("encrypted", "encrypted", "files")
        .column("batches", "batches", "")
        .column("samples", "samples", "")
        .column("bytes", "size", "bytes");
    let mut damaged = 0;
    for day in days {
        let mut of_day = OfDay::default();
        for file in archive::files_of(root, day)? {
            of_day.files += 1;
            match archive::check(&file, key.as_ref()) {
                Ok(checked) => of_day.add(&checked),
                Err(error) => {
                    of_day.damaged += 1;
                    say(&Chain(&error).to_string());
                }
            }
        }
        damaged += of_day.damaged;
        // Without a key nobody knows how many samples there are.
        let is_open = key.is_some() || of_day.encrypted == 0;
        listing.push(vec![
            json!(day.to_string()),
            json!(of_day.files),
            json!(of_day.damaged),
            json!(of_day.torn),
            json!(of_day.encrypted),
            json!(of_day.batches),
            json!(is_open.then_some(of_day.samples)),
            json!(of_day.bytes),
        ]);
    }
    listing.print(args.archive.format)?;
    if damaged > 0 {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "{damaged} files cannot be read, see above"
        )));
    }
    Ok(())
}

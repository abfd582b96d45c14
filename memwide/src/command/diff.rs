//! `memwide diff`: two files, row by row.

use super::of_server;
use super::on_file::{OnFile, check_weights, estimator, sort_keys};
use crate::cli::{DiffArgs, Format};
use crate::difference::{Builds, Recorded, document};
use crate::failure::Failure;
use crate::recording::Leftovers;
use memwide_analysis::report::{Estimator, Key, Rows};
use std::io;
use std::path::Path;

pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    if let Some((server, filter)) = args
        .sides
        .instead()
        .asked(&args.samples.filters, args.rows.limit)
    {
        of_server::no_places(&args.samples.symbols)?;
        let sides = &args.sides;
        let before = [
            ("before_since", sides.before_since.clone()),
            ("before_until", sides.before_until.clone()),
            ("before_build_id", sides.before_build.clone()),
            ("before_host", sides.before_host.clone()),
        ];
        return of_server::asked(&server, "diff", &filter, &before, args.rows.format);
    }
    let (Some(before_path), Some(after_path)) = (&args.before, &args.after) else {
        return Err(Failure::usage(anyhow::anyhow!(
            "two files are compared, or what a server holds (--server)"
        )));
    };
    let keys = sort_keys(&args.sort, "symbol,dso")?;
    let by = args.by.as_deref().map(estimator).transpose()?;
    let (before, one) = read(args, before_path, &keys, by)?;
    let (after, other) = read(args, after_path, &keys, by)?;
    let mut document = document(args, &keys, &before, &after, [&one, &other]);
    for (path, left) in [(before_path, &one), (after_path, &other)] {
        let lines = left.lines().into_iter();
        let named = lines.map(|line| format!("{}: {line}", path.display()));
        document.notes.extend(named);
    }
    match document.print(args.rows.format) {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        printed => printed?,
    }
    if args.rows.format == Format::Csv {
        one.say();
        other.say();
    }
    one.into_result()?;
    other.into_result()
}

fn read(
    args: &DiffArgs,
    path: &Path,
    keys: &[Key],
    by: Option<Estimator>,
) -> Result<(Recorded, Leftovers), Failure> {
    let wanted = keys.iter().map(|key| key.wanted());
    let wanted = wanted.fold(Builds::wanted(keys), |all, one| all | one);
    let file = OnFile::open(path, &args.samples, wanted)?;
    let recording = file.recording();
    check_weights(by, recording.events())?;
    let mut rows = Rows::new(keys.to_vec(), by, recording.events(), recording.features());
    let mut builds = Builds::default();
    let left = file.each(|sample| {
        rows.add(sample);
        builds.note(sample);
    })?;
    rows.settle();
    let recorded = Recorded {
        path: path.to_owned(),
        rows,
        builds,
    };
    Ok((recorded, left))
}

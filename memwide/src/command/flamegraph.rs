//! `memwide flamegraph`: call paths by an estimator, as a picture, folded lines or JSON.

use super::on_file::{OnFile, check_weights, estimator, unit, value};
use crate::cli::{FlamegraphArgs, TreeFormat};
use crate::failure::Failure;
use crate::flamegraph::{Picture, svg, tree};
use crate::output::{create, grouped, print_json, say};
use crate::report::completeness;
use memwide_analysis::report::Estimator;
use memwide_analysis::stacks::{Frame, Stacks, frames, wanted};
use memwide_decoder::local::Wanted;
use serde_json::json;
use std::io::{self, BufWriter, Write};

pub(crate) fn run(args: &FlamegraphArgs) -> Result<(), Failure> {
    let by = args.by.as_deref().map(estimator).transpose()?;
    let by = by.unwrap_or(Estimator::Samples);
    let wanted = if args.no_inline {
        wanted()
    } else {
        wanted() | Wanted::INLINES
    };
    let file = OnFile::open(&args.input, &args.samples, wanted)?;
    let events = file.recording().events().clone();
    check_weights(Some(by), &events)?;
    let mut counts = vec![0_u64; events.events().len()];
    // With more than one event each has a tree of its own below the root: no frame's sum crosses events.
    let several = counts.len() > 1;
    let (mut stacks, mut path) = (Stacks::default(), Vec::new());
    let left = file.each(|sample| {
        if let Some(count) = counts.get_mut(sample.event_index) {
            *count += 1;
        }
        frames(sample, &mut path);
        if args.reverse {
            path.reverse();
        }
        if several {
            path.insert(0, Frame::label(&sample.event.name));
        }
        stacks.add(&path, value(sample, by));
    })?;
    let named = events.events().iter().zip(&counts);
    let of: Vec<&str> = named
        .filter(|(_, count)| **count > 0)
        .map(|(event, _)| event.name.as_str())
        .collect();
    let about = format!(
        "by {}: {} {} in {} samples of {}",
        by.name(),
        grouped(stacks.total()),
        unit(by),
        grouped(stacks.n()),
        if of.is_empty() {
            "no event".to_owned()
        } else {
            of.join(", ")
        },
    );
    let format = if args.folded {
        TreeFormat::Folded
    } else {
        args.format
    };
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(create(path)?)),
        None => Box::new(BufWriter::new(io::stdout().lock())),
    };
    let printed = match format {
        TreeFormat::Svg => {
            let picture = Picture {
                stacks: &stacks,
                title: format!("{}", args.input.display()),
                about: about.clone(),
                unit: unit(by),
                inverted: args.inverted || args.reverse,
            };
            svg(&mut out, &picture)
        }
        TreeFormat::Folded => stacks
            .folded()
            .iter()
            .try_for_each(|(path, value)| writeln!(out, "{path} {value}")),
        TreeFormat::Json if args.output.is_none() => print_json(&json!({
            "estimator": by.name(), "unit": unit(by), "samples": stacks.n(), "events": of,
            "tree": tree(&stacks), "completeness": completeness(&left),
        })),
        TreeFormat::Json => {
            serde_json::to_writer(&mut out, &tree(&stacks)).map_err(io::Error::from)
        }
    };
    match printed.and_then(|()| out.flush()) {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        printed => printed?,
    }
    say(&about);
    left.say();
    left.into_result()
}

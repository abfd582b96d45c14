//! `memwide flamegraph`: call paths by an estimator, as a picture, folded lines or JSON.

use super::on_file::{MIXED, OnFile, check_weights, estimator, unit, value};
use crate::cli::{FilterArgs, FlamegraphArgs, ServerArgs, TreeFormat};
use crate::failure::Failure;
use crate::flamegraph::{Picture, svg, tree};
use crate::output::{create, grouped, print_json, say};
use crate::report::completeness;
use memwide_analysis::report::Estimator;
use memwide_analysis::stacks::{Frame, Stacks, frames, wanted};
use memwide_decoder::local::Wanted;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};

pub(crate) fn run(args: &FlamegraphArgs) -> Result<(), Failure> {
    if let Some((server, filter)) = args.instead.asked(&args.samples.filters, None) {
        super::of_server::no_places(&args.samples.symbols)?;
        return of_server(args, &server, &filter);
    }
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
    let of = named
        .filter(|(_, count)| **count > 0)
        .map(|(event, _)| event);
    let unit = unit(by, of.clone());
    let of: Vec<&str> = of.map(|event| event.name.as_str()).collect();
    if unit == MIXED {
        let wrong = anyhow::anyhow!(
            "periods of {} do not add up: of clocks they are nanoseconds, of others events; take one with -F event=NAME, or --by samples",
            of.join(", ")
        );
        return Err(Failure::usage(wrong));
    }
    let about = format!(
        "by {}: {} {} in {} samples of {}",
        by.name(),
        grouped(stacks.total()),
        unit,
        grouped(stacks.n()),
        if of.is_empty() {
            "no event".to_owned()
        } else {
            of.join(", ")
        },
    );
    let drawing = Drawing {
        stacks: &stacks,
        title: args.input.display().to_string(),
        about: about.clone(),
        unit,
        json: json!({
            "estimator": by.name(), "unit": unit, "samples": stacks.n(), "events": of,
            "tree": tree(&stacks), "completeness": completeness(&left),
        }),
    };
    if draw(args, drawing)? {
        say(&about);
        left.say();
    }
    left.into_result()
}

/// Call paths and what is said of them.
struct Drawing<'a> {
    stacks: &'a Stacks,
    title: String,
    about: String,
    unit: &'a str,
    /// The whole document, where no file is asked for.
    json: Value,
}

/// Writes call paths in the format asked for; false if the reader went away.
fn draw(args: &FlamegraphArgs, drawing: Drawing<'_>) -> Result<bool, Failure> {
    let stacks = drawing.stacks;
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
                stacks,
                title: drawing.title,
                about: drawing.about,
                unit: drawing.unit,
                inverted: args.inverted || args.reverse,
            };
            svg(&mut out, &picture)
        }
        TreeFormat::Folded => stacks
            .folded()
            .iter()
            .try_for_each(|(path, value)| writeln!(out, "{path} {value}")),
        TreeFormat::Json if args.output.is_none() => print_json(&drawing.json),
        TreeFormat::Json => serde_json::to_writer(&mut out, &tree(stacks)).map_err(io::Error::from),
    };
    match printed.and_then(|()| out.flush()) {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        printed => {
            printed?;
            Ok(true)
        }
    }
}

/// Call paths of a fleet.
fn of_server(
    args: &FlamegraphArgs,
    server: &ServerArgs,
    filter: &FilterArgs,
) -> Result<(), Failure> {
    let by = args.by.as_deref().unwrap_or("samples");
    // A picture adds its paths up: they are of one event.
    let further = [
        ("by", Some(by.to_owned())),
        ("one_event", Some("true".to_owned())),
    ];
    let found = super::parts::asked(server, "flamegraph", filter, &further)?;
    let mut table = super::answer::table(found.clone());
    super::answer::row_units(&mut table);
    let columns = found["columns"].as_array().cloned().unwrap_or_default();
    let place = |name: &str| columns.iter().position(|column| column["name"] == name);
    let (Some(path_at), Some(event_at), Some(value_at)) =
        (place("path"), place("event"), place(by))
    else {
        return Err(anyhow::anyhow!("the server's answer has no path, event or {by}").into());
    };
    let rows = found["rows"].as_array().cloned().unwrap_or_default();
    let text = |row: &Value, at: usize| row[at].as_str().unwrap_or_default().to_owned();
    let mut events: Vec<String> = rows.iter().map(|row| text(row, event_at)).collect();
    events.sort_unstable();
    events.dedup();
    let mut stacks = Stacks::default();
    for row in &rows {
        let path = text(row, path_at);
        let mut path: Vec<Frame> = path.split(';').map(Frame::label).collect();
        if args.reverse {
            path.reverse();
        }
        stacks.add(&path, whole(&row[value_at]));
    }
    let unit = table
        .columns
        .get(value_at)
        .map_or("", |column| column.unit.as_str());
    let about = format!(
        "by {by}: {} {unit} of {}",
        grouped(stacks.total()),
        events.join(", ")
    );
    let json = json!({
        "estimator": by, "unit": unit, "events": events, "tree": tree(&stacks),
        "completeness": found["completeness"], "other": found["other"], "notes": found["notes"],
    });
    let drawing = Drawing {
        stacks: &stacks,
        title: server.server.clone(),
        about: about.clone(),
        unit,
        json,
    };
    if draw(args, drawing)? {
        say(&about);
        for note in found["notes"].as_array().into_iter().flatten() {
            say(note.as_str().unwrap_or_default());
        }
    }
    Ok(())
}

/// A count, or a sum to the nearest whole; none is 0.
fn whole(value: &Value) -> u64 {
    let rounded = || -> Option<u64> { format!("{:.0}", value.as_f64()?).parse().ok() };
    value.as_u64().or_else(rounded).unwrap_or(0)
}

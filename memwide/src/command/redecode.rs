//! `memwide redecode`: days of the archive, decoded with the symbols and the taxonomy of now.

use crate::cli::RedecodeArgs;
use crate::failure::Failure;
use crate::output::{Listing, say};
use crate::redecode::{At, Outcome, Remade, Where, redo};
use anyhow::Context as _;
use memwide_decoder::RedecodeError;
use memwide_decoder::archive::ArchiveError;
use memwide_service::telemetry;
use memwide_service::telemetry::Chain;
use serde_json::json;
use std::sync::Arc;

/// Only what went wrong.
const LOG_FILTER: &str = "warn";

pub(crate) fn run(args: &RedecodeArgs) -> Result<(), Failure> {
    let options = telemetry::Options {
        default_filter: LOG_FILTER.to_owned(),
        ..telemetry::Options::default()
    };
    telemetry::init(&options).map_err(Failure::usage)?;
    let found = Where::find(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let remade = runtime.block_on(async {
        let mut at = found.reach().await?;
        let remade = all(args, &at).await;
        let stopped = at.stages.stop().await;
        let remade = remade?;
        stopped?;
        Ok::<_, Failure>(remade)
    })?;
    show(args, &remade)?;
    verdict(remade)
}

async fn all(args: &RedecodeArgs, at: &At) -> anyhow::Result<Vec<Remade>> {
    at.store.migrate().await?;
    let redecoder = Arc::new(at.redecoder()?);
    let mut remade = Vec::new();
    for day in &args.days {
        let one = redo(at, &redecoder, *day, args.dry_run, args.lose_names).await;
        if let Outcome::Refused(why) = &one.outcome {
            say(&format!("{day}: {}", Chain(why.as_ref())));
        }
        remade.push(one);
    }
    Ok(remade)
}

fn show(args: &RedecodeArgs, remade: &[Remade]) -> Result<(), Failure> {
    let mut listing = Listing::default()
        .column("day", "day", "UTC")
        .column("outcome", "outcome", "")
        .column("sources", "sources", "")
        .column("batches", "batches", "")
        .column("samples", "samples", "")
        .column("nameless_before", "no name before", "samples")
        .column("nameless_after", "after", "samples");
    for one in remade {
        let outcome = match one.outcome {
            Outcome::Replaced => "replaced",
            Outcome::WouldReplace => "would be replaced",
            Outcome::Refused(_) => "stays as it is",
        };
        listing.push(vec![
            json!(one.day.to_string()),
            json!(outcome),
            json!(one.sources),
            json!(one.batches),
            json!(one.totals.made),
            json!(one.totals.nameless),
            json!(one.totals.nameless_made),
        ]);
    }
    Ok(listing.print(args.format)?)
}

/// Days that stay as they are fail the command; what is damaged or cannot be read fails again.
fn verdict(remade: Vec<Remade>) -> Result<(), Failure> {
    let refused = remade.into_iter().filter_map(|one| match one.outcome {
        Outcome::Refused(why) => Some((one.day, why)),
        _ => None,
    });
    let refused: Vec<_> = refused.collect();
    let unreadable = |why: &anyhow::Error| {
        let of_source = why.downcast_ref::<RedecodeError>();
        let in_source = matches!(of_source, Some(RedecodeError::Archive(_)));
        in_source || why.downcast_ref::<ArchiveError>().is_some()
    };
    let days: Vec<String> = refused.iter().map(|(day, _)| day.to_string()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let text = anyhow::anyhow!("not replaced, see above: {}", days.join(", "));
    if refused.iter().any(|(_, why)| unreadable(why)) {
        Err(Failure::bad_input(text))
    } else {
        Err(text)
            .context("days stay as they are")
            .map_err(Failure::from)
    }
}

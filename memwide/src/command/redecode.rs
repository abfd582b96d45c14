//! `memwide redecode`: days of the archive, decoded with the symbols and the taxonomy of now.

use crate::cli::RedecodeArgs;
use crate::failure::Failure;
use crate::output::{Listing, say};
use crate::redecode::{At, Outcome, Remade, Where, redo};
use anyhow::Context as _;
use memwide_aggregator::Lease;
use memwide_decoder::RedecodeError;
use memwide_decoder::archive::{ArchiveError, Day};
use memwide_service::telemetry::Chain;
use memwide_service::{clock, telemetry};
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
    let lease = at.sinks.lease(&who()).await?;
    let remade = each(args, at, &lease).await;
    lease.release().await;
    remade
}

/// This run, for whoever comes meanwhile.
fn who() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (host, process) = (host.trim(), std::process::id());
    let now_ns = clock::unix_ns();
    let (day, second) = (Day::of(now_ns), now_ns / 1_000_000_000 % 86_400);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("host {host}, process {process}, since {day} {hour:02}:{minute:02} UTC")
}

async fn each(args: &RedecodeArgs, at: &At, lease: &Lease) -> anyhow::Result<Vec<Remade>> {
    if args.dry_run {
        let behind = at.store.migrations_behind().await?;
        if !behind.is_empty() {
            return Err(anyhow::anyhow!(
                "the store has the schema of an older memwide ({} to come), and --dry-run changes nothing there; start a sink \
                 of this version first, or leave --dry-run out: both bring it up to date",
                behind.join(", ")
            ));
        }
    } else {
        at.store.migrate().await?;
    }
    let redecoder = Arc::new(at.redecoder()?);
    let mut remade = Vec::new();
    for day in &args.days {
        let one = redo(at, lease, &redecoder, *day, args.dry_run, args.lose_names).await;
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
    let of_archive = |why: &'_ anyhow::Error| match why.downcast_ref::<RedecodeError>() {
        Some(RedecodeError::Archive(error)) => Some(error.is_of_key()),
        _ => why.downcast_ref().map(ArchiveError::is_of_key),
    };
    let days: Vec<String> = refused.iter().map(|(day, _)| day.to_string()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let text = anyhow::anyhow!("not replaced, see above: {}", days.join(", "));
    let unread: Vec<bool> = refused
        .iter()
        .filter_map(|(_, why)| of_archive(why))
        .collect();
    if unread.contains(&false) {
        Err(Failure::bad_input(text))
    } else if unread.contains(&true) {
        Err(Failure::usage(text)) // another key is wanted, nothing is known to be damaged
    } else {
        Err(text)
            .context("days stay as they are")
            .map_err(Failure::from)
    }
}

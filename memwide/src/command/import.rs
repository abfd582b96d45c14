//! `memwide import`: perf.data files through the running pipeline, each as a host.

use super::answer;
use crate::cli::ImportArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::grouped;
use anyhow::Context as _;
use memwide_collector::{Import, ImportError, ImportOptions, ImportProgress, ImportSummary};
use memwide_service::clock;
use memwide_service::run::stop_on_signal;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let endpoint = ingest_endpoint(&client, &args.server.server)?;
    let at_wall_ns = args.at.as_deref().map(parse_time).transpose()?;
    let options = ImportOptions {
        host: args.host.clone(),
        again: args.again.then(clock::unix_ns),
        at_wall_ns,
        allow_cut: args.allow_cut,
        symfs: args.symbols.symfs.clone(),
        kallsyms: args.symbols.kallsyms.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    for file in &args.files {
        let import = Import::open(file, options.clone()).map_err(failure)?;
        let summary = runtime.block_on(async {
            let stop = stop_on_signal().context("cannot watch for signals")?;
            Ok::<_, anyhow::Error>(import.run(&endpoint, progress(file), stop).await)
        })?;
        clear_progress();
        report(file, &summary.map_err(failure)?)?;
    }
    Ok(())
}

/// The query service knows where the decoder listens.
fn ingest_endpoint(client: &Client, server: &str) -> Result<String, Failure> {
    let status = client.get("status", &[]).map_err(answer::failure)?;
    match status.get("ingest_address").and_then(serde_json::Value::as_str) {
        Some(address) if address.contains("://") => Ok(address.to_owned()),
        Some(address) if !address.is_empty() => Ok(format!("http://{address}")),
        _ => Err(anyhow::anyhow!("{server} does not say where its ingest listens; name it in the query service's configuration").into()),
    }
}

fn parse_time(text: &str) -> Result<u64, Failure> {
    let range = memwide_query::ask::Range::parse("", text, clock::unix_ns());
    range.map(|range| range.until_ns).map_err(Failure::usage)
}

fn failure(error: ImportError) -> Failure {
    if error.is_bad_input() || matches!(error, ImportError::Unreadable { .. }) {
        Failure::bad_input(error)
    } else {
        error.into()
    }
}

/// A line that is overwritten, on a terminal only.
fn progress(file: &Path) -> impl Fn(ImportProgress) + Send + Sync + 'static {
    let name = file.display().to_string();
    let shown = std::io::stderr().is_terminal();
    move |progress| {
        if shown {
            let line = format!(
                "\r{name}: {} of {} batches committed",
                progress.acked, progress.batches
            );
            drop(std::io::stderr().write_all(line.as_bytes()));
        }
    }
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        drop(std::io::stderr().write_all(b"\r\x1b[2K"));
    }
}

fn report(file: &Path, summary: &ImportSummary) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let samples: u64 = summary.events.iter().map(|event| event.samples).sum();
    let known = if summary.batches_known == summary.batches {
        " (known before: nothing added)"
    } else {
        ""
    };
    writeln!(
        out,
        "{}: {} samples as host {}, {} batches committed{known}",
        file.display(),
        grouped(samples),
        summary.host,
        summary.batches,
    )?;
    for event in &summary.events {
        writeln!(out, "  {:>12}  {}", grouped(event.samples), event.name)?;
    }
    if summary.lost > 0 {
        writeln!(out, "  {:>12}  lost by the recorder", grouped(summary.lost))?;
    }
    if summary.skipped_samples > 0 {
        writeln!(
            out,
            "  {:>12}  of no event of the file, not sent",
            grouped(summary.skipped_samples)
        )?;
    }
    Ok(())
}

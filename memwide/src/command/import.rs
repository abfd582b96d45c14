//! `memwide import`: perf.data files through the running pipeline, each as a host.

use super::answer;
use crate::cli::ImportArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::grouped;
use anyhow::Context as _;
use memwide_collector::{Import, ImportError, ImportOptions, ImportProgress, ImportSummary};
use memwide_service::CancellationToken;
use memwide_service::clock;
use memwide_service::run::stop_on_signal;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Pause between two questions where the decoder is, while it cannot be reached.
const ASK_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let client = Arc::new(Client::new(&args.server.server));
    let at_wall_ns = args.at.as_deref().map(parse_time).transpose()?;
    let options = ImportOptions {
        host: args.host.clone(),
        again: args.again.then(clock::unix_ns),
        at_wall_ns,
        allow_cut: args.allow_cut,
        symfs: args.symbols.symfs.clone(),
        kallsyms: args.symbols.kallsyms.clone(),
        vmlinux: args.symbols.vmlinux.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    for file in &args.files {
        let import = Import::open(file, options.clone()).map_err(failure)?;
        let lost = Arc::new(Notify::new());
        let (address, addresses) = watch::channel(ingest_endpoint(&client, &args.server.server)?);
        let summary = runtime.block_on(async {
            let stop = stop_on_signal().context("cannot watch for signals")?;
            let following = stop.child_token();
            let _ended = following.clone().drop_guard();
            let (client, server) = (client.clone(), args.server.server.clone());
            tokio::spawn(follow(client, server, address, lost.clone(), following));
            Ok::<_, anyhow::Error>(import.run(addresses, progress(file, lost), stop).await)
        })?;
        clear_progress();
        report(file, &summary.map_err(failure)?)?;
    }
    Ok(())
}

/// The query service knows where the decoder listens.
pub(super) fn ingest_endpoint(client: &Client, server: &str) -> Result<String, Failure> {
    let status = client.get("status", &[]).map_err(answer::failure)?;
    match status.get("ingest_address").and_then(serde_json::Value::as_str) {
        Some(address) if address.contains("://") => Ok(address.to_owned()),
        Some(address) if !address.is_empty() => Ok(format!("http://{address}")),
        _ => Err(anyhow::anyhow!("{server} does not say where its ingest listens; name it in the query service's configuration").into()),
    }
}

/// Each time the decoder is lost, asks the query service where it is now, until that is somewhere else or the import has
/// found it again by itself.
async fn follow(
    client: Arc<Client>,
    server: String,
    address: watch::Sender<String>,
    lost: Arc<Notify>,
    stop: CancellationToken,
) {
    let asking = async {
        loop {
            lost.notified().await;
            tokio::time::sleep(ASK_EVERY).await;
            let (client, server) = (client.clone(), server.clone());
            let asked = tokio::task::spawn_blocking(move || ingest_endpoint(&client, &server));
            // While the service is away too, the next loss asks again.
            if let Ok(Ok(now)) = asked.await {
                address.send_if_modified(|known| {
                    let moved = *known != now;
                    *known = now;
                    moved
                });
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = asking => {}
    }
}

fn parse_time(text: &str) -> Result<u64, Failure> {
    let range = memwide_query::ask::Range::parse("", text, clock::unix_ns());
    range.map(|range| range.until_ns).map_err(|wrong| {
        Failure::usage(anyhow::anyhow!(
            "`{text}` is no time for --at; {}",
            wrong.remedy()
        ))
    })
}

fn failure(error: ImportError) -> Failure {
    if error.is_bad_input() || matches!(error, ImportError::Unreadable { .. }) {
        Failure::bad_input(error)
    } else {
        error.into()
    }
}

/// On a terminal a line that is overwritten; everywhere a line when the pipeline is lost and one when it is there again.
fn progress(file: &Path, lost: Arc<Notify>) -> impl Fn(ImportProgress) + Send + Sync + 'static {
    let name = file.display().to_string();
    let shown = std::io::stderr().is_terminal();
    let waiting = AtomicBool::new(false);
    move |progress| {
        let waits = progress.waits.is_some();
        if waits {
            lost.notify_one();
        }
        if waits != waiting.swap(waits, Ordering::Relaxed) {
            clear_progress();
            let line = match progress.waits {
                Some(why) => format!(
                    "memwide: {name}: {why}; waiting for it ({} of {} batches are committed; after ctrl-c the same \
                     import goes on from there)\n",
                    progress.acked, progress.batches
                ),
                None => format!("memwide: {name}: going on\n"),
            };
            drop(std::io::stderr().write_all(line.as_bytes()));
        }
        if shown && !waits {
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
    if let Some(cut) = summary.cut {
        let allowed = if cut.records_whole() {
            ""
        } else {
            ", as --allow-cut says"
        };
        let records = grouped(summary.records);
        writeln!(
            out,
            "  {cut}; the {records} records before that are imported{allowed}"
        )?;
    } else if summary.unfinished {
        writeln!(
            out,
            "  the file was never finished, its recorder was killed: it says nothing of its host"
        )?;
    }
    if summary.lost > 0 {
        writeln!(out, "  {:>12}  lost by the recorder", grouped(summary.lost))?;
    }
    if summary.skipped_samples > 0 {
        writeln!(
            out,
            "  {:>12}  of no event of the file: undecodable in the ledger",
            grouped(summary.skipped_samples)
        )?;
    }
    if summary.broken > 0 {
        writeln!(
            out,
            "  {:>12}  operations at least that damaged hardware trace lacks: undecodable in the ledger",
            grouped(summary.broken)
        )?;
    }
    Ok(())
}

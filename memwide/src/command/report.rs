//! `memwide report`: a perf.data file summed up, or what a server holds.

use super::answer;
use super::on_file::{check_weights, estimator, sort_keys};
use crate::cli::{Format, ReportArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::print_json;
use crate::recording::{Recording, Shard};
use crate::report::{Calls, hierarchy, question, table};
use memwide_analysis::report::{Estimator, Filter, Key, Rows};
use memwide_decoder::local::{LocalSample, Wanted};
use std::io;
use std::ops::ControlFlow;

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let keys = sort_keys(&args.sort, "symbol,mem")?;
    let by = args.by.as_deref().map(estimator).transpose()?;
    match &args.server {
        Some(server) => of_server(args, server, keys, by),
        None => of_file(args, keys, by),
    }
}

fn of_file(args: &ReportArgs, keys: Vec<Key>, by: Option<Estimator>) -> Result<(), Failure> {
    if args.filter.since.is_some() || args.filter.until.is_some() {
        let wrong = anyhow::anyhow!("--since and --until ask a server; a file is summed up whole");
        return Err(Failure::usage(wrong));
    }
    if args.filter.link {
        let wrong = anyhow::anyhow!("--link is of a server's page; name the server with --server");
        return Err(Failure::usage(wrong));
    }
    let filter = Filter::parse(&args.filter.filters).map_err(Failure::usage)?;
    let keys = match (keys.is_empty(), args.calls.children) {
        (false, _) => keys,
        (true, false) => vec![Key::Symbol, Key::Mem],
        // Callers have no level of their own.
        (true, true) => vec![Key::Symbol],
    };
    let calls = Calls::of(args, &keys)?;
    let wanted = keys.iter().map(|key| key.wanted());
    let mut wanted = wanted.fold(filter.wanted(), |all, one| all | one);
    if calls.are_wanted() {
        wanted = wanted | Wanted::FRAMES | Wanted::CHAINS;
        if calls.with_inlined() {
            wanted = wanted | Wanted::INLINES;
        }
    }
    let recording = Recording::open(&args.input, &args.symbols)?.wanting(wanted);
    check_weights(by, recording.events())?;
    let rows = || {
        let keys = keys.clone();
        let rows = Rows::new(keys, by, recording.events(), recording.features());
        if calls.are_wanted() {
            rows.with_paths()
        } else {
            rows
        }
    };
    let empty = rows();
    let summing = |_| Summing {
        rows: rows(),
        filter: &filter,
    };
    let workers = 0..recording.workers(args.jobs.jobs);
    let shards = workers.map(summing).collect();
    let (left, parts) = recording.each_sharded(shards, |()| ControlFlow::Continue(()))?;
    let parts = parts.into_iter().map(|part| part.rows);
    let mut rows = parts.reduce(Rows::with).unwrap_or(empty);
    rows.settle();
    if calls.children {
        rows.count_children();
    }
    let limit = args.filter.limit;
    let table = if args.hierarchy {
        hierarchy(&rows, &left, args.format, limit)
    } else {
        table(&rows, &left, args.format, limit, calls)
    };
    let printed = match &table.json {
        Some(document) => print_json(document),
        None => table.print(args.format),
    };
    match printed {
        Err(wrong) if wrong.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        printed => printed?,
    }
    if args.format == Format::Csv {
        left.say(); // the others carry it with them
    }
    left.into_result()
}

/// What a worker sums up.
struct Summing<'f> {
    rows: Rows,
    filter: &'f Filter,
}

impl Shard for Summing<'_> {
    type Out = ();

    fn begin(&mut self, chunk: u64) {
        self.rows.begin(chunk);
    }

    fn take(&mut self, sample: &LocalSample<'_>) -> ControlFlow<()> {
        self.rows.meet(sample);
        if self.filter.takes(sample) {
            self.rows.add(sample);
        }
        ControlFlow::Continue(())
    }
}

fn of_server(
    args: &ReportArgs,
    server: &str,
    keys: Vec<Key>,
    by: Option<Estimator>,
) -> Result<(), Failure> {
    super::of_server::no_places(&args.symbols)?;
    let keys = if keys.is_empty() {
        vec![Key::Symbol]
    } else {
        keys
    };
    let (path, mut params) = question(&keys, by).map_err(Failure::usage)?;
    params.extend(answer::params(&args.filter)?);
    let answer = answer::ask(&Client::new(server), path, &params, args.filter.link)?;
    let by = by.map_or("", Estimator::name);
    Ok(answer::readable(answer, args.format, by).print(args.format)?)
}

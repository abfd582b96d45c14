//! `memwide annotate`: on which instructions and lines of functions the samples fall.

use super::of_server;
use super::on_file::{OnFile, check_weights, estimator, finish, value};
use crate::annotate::{Annotated, Answer, FUNCTIONS_SHOWN, Options, Source, document};
use crate::cli::AnnotateArgs;
use crate::failure::Failure;
use crate::output;
use memwide_analysis::annotate::{Sites, wanted};
use memwide_analysis::report::Estimator;
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::sample;
use std::cell::RefCell;

pub(crate) fn run(args: &AnnotateArgs) -> Result<(), Failure> {
    if let Some((server, mut filter)) = args.file.asked() {
        of_server::no_places(&args.file.samples.symbols)?;
        filter.filters.extend(
            args.symbol
                .iter()
                .map(|symbol| format!("function={symbol}")),
        );
        let by = [("by", args.by.clone())];
        return of_server::asked(&server, "annotate", &filter, &by, args.file.rows.format);
    }
    let by = args.by.as_deref().map(estimator).transpose()?;
    let rows = &args.file.rows;
    let file = OnFile::open(&args.file.input, &args.file.samples, wanted())?;
    let events = file.recording().events().clone();
    check_weights(by, &events)?;
    let estimators = estimators(&events, by);
    let limit = rows.limit.map(|limit| limit as usize);
    let mut sites = Sites::default();
    let mut functions = Vec::new();
    let (mut found, mut weight_kind) = (0, "");
    let mut refused = Vec::new();
    let symbol = args.symbol.as_deref();
    // Both closures need the sums, one after the other.
    let sums = RefCell::new(&mut sites);
    let count = |sample: &LocalSample<'_>| {
        let by = estimators.get(sample.event_index);
        let value = by.map_or(1.0, |by| value(sample, *by) as f64);
        sums.borrow_mut().add(sample, value);
    };
    let left = file.each_then(count, |session| {
        let sites = sums.borrow();
        weight_kind = session.load_latency().name();
        let mut source = Source::default();
        let named =
            |function: &_| symbol.is_none_or(|name| Annotated::is_named(session, function, name));
        let wanted: Vec<_> = sites
            .functions()
            .into_iter()
            .filter(|(f, _)| named(f))
            .collect();
        found = wanted.len();
        let shown = limit.unwrap_or(if symbol.is_some() {
            usize::MAX
        } else {
            FUNCTIONS_SHOWN
        });
        for (function, counts) in wanted.into_iter().take(shown) {
            let annotated = Annotated::of(session, &sites, function, counts, &mut source);
            functions.extend(annotated);
        }
        let refusals = session.without_lines().into_iter();
        refused = refusals
            .map(|(dso, why)| format!("no source lines of {dso}: {why}"))
            .collect();
    })?;
    if let (Some(symbol), 0) = (symbol, found) {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "no sample is in a function `{symbol}`; `memwide report --sort symbol` lists those that have some"
        )));
    }
    let answer = Answer {
        functions,
        found,
        nameless: sites.nameless(),
        events: &events,
        estimators: &estimators,
        weight_kind,
        notes: refused,
        options: Options {
            full: args.full,
            width: output::width(),
        },
    };
    finish(document(&answer, &left), left, rows.format)
}

/// What the shares of each event rest on.
fn estimators(events: &EventTable, by: Option<Estimator>) -> Vec<Estimator> {
    let weighted = sample::WEIGHT | sample::WEIGHT_STRUCT;
    let default = |bits: u64| {
        if bits & weighted == 0 {
            Estimator::Samples
        } else {
            Estimator::PerfWeight
        }
    };
    let events = events.events().iter();
    events
        .map(|event| by.unwrap_or_else(|| default(event.attr.sample_type)))
        .collect()
}

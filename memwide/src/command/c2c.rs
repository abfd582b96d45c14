//! `memwide c2c`: cache lines that CPUs fight over.

use super::of_server;
use super::on_file::{OnFile, finish};
use crate::c2c::{Answer, NodeInfo, document};
use crate::cli::C2cArgs;
use crate::failure::Failure;
use crate::output;
use memwide_analysis::report::Nodes;
use memwide_analysis::sharing::{Access, Coalesce, Details, Display, LineSize, Lines, wanted};
use memwide_analysis::source::file_and_line;
use memwide_decoder::local::Wanted;

pub(crate) fn run(args: &C2cArgs) -> Result<(), Failure> {
    if let Some(answered) = of_server::answered("lines", &args.file) {
        return answered;
    }
    let display = args.display.as_deref().map(display).transpose()?;
    let coalesce = Coalesce::parse(&args.coalesce).map_err(|name| {
        Failure::usage(anyhow::anyhow!(
            "accesses are not told apart by `{name}`; --coalesce takes pid, tid, iaddr, dso"
        ))
    })?;
    let size = if args.double_cl {
        LineSize::Double
    } else {
        LineSize::Single
    };
    let rows = &args.file.rows;
    let wanted = if args.no_source {
        wanted()
    } else {
        wanted() | Wanted::LINES | Wanted::MEMBERS
    };
    let file = OnFile::open(&args.file.input, &args.file.samples, wanted)?;
    let nodes = Nodes::of(file.recording().features());
    let events = file.recording().events().clone();
    let node_info = NodeInfo::of_level(args.node_info);
    let mut lines = Lines::new(size);
    if node_info != NodeInfo::Ids {
        lines = lines.counting_cpus();
    }
    let left = file.each(|sample| {
        lines.add_from(&Access::of(sample), || Details {
            source: sample.source().first().and_then(file_and_line),
            member: sample.member().map(|member| member.name.to_string()),
        });
    })?;
    let answer = Answer {
        display: display.unwrap_or_else(|| Display::fitting(lines.total())),
        lines: &lines,
        coalesce,
        events: &events,
        nodes: &nodes,
        node_info,
        all: args.show_all,
        stats_only: args.stats,
        limit: rows.limit.map(|limit| limit as usize),
        width: output::width(),
    };
    finish(document(&answer, &left, rows.format), left, rows.format)
}

fn display(name: &str) -> Result<Display, Failure> {
    let known = Display::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| {
        Failure::usage(anyhow::anyhow!(
            "lines cannot be shown by `{name}`; --display takes tot, lcl, rmt, peer"
        ))
    })
}

//! `memwide export`: what a server holds, in the formats of other tools.

use super::answer;
use crate::cli::{ExportArgs, ExportFormat};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{create, grouped, say};
use std::io::{IsTerminal as _, Write as _};

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    if args.format.is_binary() && args.output.is_none() && std::io::stdout().is_terminal() {
        let wrong = anyhow::anyhow!(
            "{} is binary, and standard output is a terminal; name a file with -o FILE",
            args.format.name()
        );
        return Err(Failure::usage(wrong));
    }
    let mut params = answer::params(&args.filter)?;
    let by = args.by.as_ref();
    params.extend(by.map(|by| ("by".to_owned(), by.clone())));
    let path = format!("export/{}", args.format.name());
    let exported = Client::new(&args.server.server)
        .export(&path, &params)
        .map_err(answer::failure)?;
    match &args.output {
        Some(path) => {
            let mut file = create(path)?;
            file.write_all(&exported.body)?;
            let bytes = grouped(exported.body.len() as u64);
            say(&format!(
                "{}: {bytes} bytes{}",
                path.display(),
                args.format.reader()
            ));
        }
        None => std::io::stdout().write_all(&exported.body)?,
    }
    let complete = exported.completeness.as_ref();
    complete
        .and_then(answer::completeness)
        .iter()
        .for_each(|line| say(line));
    exported.notes.iter().flatten().for_each(|note| say(note));
    if let Some(page) = exported.page.filter(|_| args.filter.link) {
        say(&format!("page: {page}"));
    }
    Ok(())
}

impl ExportFormat {
    /// As it stands in the path of the API.
    const fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Speedscope => "speedscope",
            Self::Firefox => "firefox",
            Self::Otlp => "otlp",
            Self::PerfData => "perf-data",
        }
    }

    const fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Otlp | Self::PerfData)
    }

    /// Who opens it.
    const fn reader(self) -> &'static str {
        match self {
            Self::Pprof => "; open it with `pprof -http=: FILE`",
            Self::Folded | Self::Otlp => "",
            Self::Speedscope => "; open it on https://www.speedscope.app",
            Self::Firefox => "; open it on https://profiler.firefox.com",
            Self::PerfData => "; open it with `perf report -i FILE` or `memwide report -i FILE`",
        }
    }
}
